"""The demonstration keeps its promises."""

from __future__ import annotations

import pytest

pytest.importorskip("sklearn")
pytest.importorskip("matplotlib")
pytest.importorskip("grilly")


@pytest.mark.slow
def test_the_digits_demo_reaches_its_accuracy_and_writes_its_files(tmp_path, capsys):
    from grilly.demos import digits

    digits.main(["--device", "cpu", "--epochs", "10", "--seed", "0", "--out", str(tmp_path)])
    shown = capsys.readouterr().out
    share = float(shown.partition("test accuracy ")[2].partition("%")[0])
    assert share >= 97.0
    assert "a new process" in shown
    assert (tmp_path / "digits.png").read_bytes()[:4] == b"\x89PNG"
    assert (tmp_path / "digits.safetensors").exists()


def test_the_split_depends_on_the_seed_alone_and_is_stratified():
    import numpy as np

    from grilly.demos import digits

    (x, y), (x_test, y_test) = digits.load_digits(3)
    again = digits.load_digits(3)
    assert x.shape == (1347, 1, 8, 8) and len(x_test) == 450
    assert (again[1][0] == x_test).all() and x.max() == 1.0
    assert np.abs(np.bincount(y) / len(y) - np.bincount(y_test) / len(y_test)).max() < 0.01
