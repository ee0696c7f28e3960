"""The demo keeps its promises, on the CPU in full and on Vulkan in small."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from tests.device.test_conformance import no_vulkan

import grilly
from grilly_core.config import fallback
from grilly_ext_snn.demo import main
from grilly_ext_snn.demo.digits import load_digits
from grilly_ext_snn.demo.unsupervised import Competition

pytest.importorskip("rich")


@pytest.fixture(autouse=True)
def default_device():
    yield
    grilly.set_default_device("cpu")


def percentages(text):
    return [float(part.split()[-1]) for part in text.split("%")[:-1]]


def test_the_demo_reaches_its_accuracies_and_draws(tmp_path, capsys):
    """95 % with labels; 90 % by votes of neurons that never saw one."""
    pytest.importorskip("matplotlib")
    main(["--device", "cpu", "--out", str(tmp_path)])
    shown = capsys.readouterr()
    first, second = percentages(shown.out)[-2:]
    assert first >= 95.0 and second >= 90.0
    assert "firing rates" in shown.out and "saturated" in shown.out
    assert not shown.err, "no progress bar without a terminal"
    for name in ("receptive_fields.png", "raster.png"):
        assert (tmp_path / name).read_bytes()[:4] == b"\x89PNG"
    assert (tmp_path / "snn.safetensors").exists()


@pytest.mark.skipif(bool(no_vulkan()), reason="needs a Vulkan device")
def test_the_demo_runs_on_vulkan_without_falling_back(tmp_path, capsys):
    with fallback("error"):
        main([
            "--device", "vulkan:0", "--epochs", "3", "--stdp-epochs", "1", "--neurons", "40", "--out", str(tmp_path)
        ])  # fmt: skip
    first, second = percentages(capsys.readouterr().out)[-2:]
    assert first >= 90.0 and second >= 60.0


def test_without_matplotlib_it_says_so_and_goes_on(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    main([
        "--device", "cpu", "--epochs", "1", "--stdp-epochs", "1", "--neurons", "3", "--out", str(tmp_path)
    ])  # fmt: skip
    assert "no pictures: plots need matplotlib" in capsys.readouterr().out
    assert not list(tmp_path.glob("*.png"))


def test_the_data_are_scikit_learns_and_the_split_is_stratified():
    datasets = pytest.importorskip("sklearn.datasets")
    wanted = datasets.load_digits()
    train, test = load_digits(3)
    images = np.concatenate([train.images, test.images])
    found, theirs = (np.unique(a, axis=0, return_counts=True) for a in (images * 16, wanted.data))
    np.testing.assert_array_equal(found[0], theirs[0])
    np.testing.assert_array_equal(found[1], theirs[1])
    by_image = {image.tobytes(): label for image, label in zip(wanted.data, wanted.target, strict=True)}
    assert all(by_image[(i * 16.0).astype(float).tobytes()] == y for i, y in zip(*test, strict=True))
    shares = [np.bincount(part.labels) / len(part.labels) for part in (train, test)]
    assert np.abs(shares[0] - shares[1]).max() < 0.01
    assert (load_digits(3)[1].labels == test.labels).all()


def test_one_neuron_at_a_time_fires_and_sums_of_weights_stay():
    layer = Competition(64, 12)
    train, _ = load_digits(0)
    fired = layer.learn(layer.encode(train.images[:32])).numpy()
    assert fired.any() and fired.sum(2).max() == 1
    np.testing.assert_allclose(layer.layer.weight.sum(1).numpy(), 8.0, rtol=1e-5)
