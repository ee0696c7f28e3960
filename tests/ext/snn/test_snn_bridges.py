"""Bridges between continuous and spiking networks: round trips within the bounds of each code."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import grilly
from grilly_core.errors import ShapeError
from grilly_ext_snn.functional import bridges, encoding

X = np.random.default_rng(1).random((6, 9)).astype(np.float32)


@settings(max_examples=30, deadline=None)
@given(steps=st.integers(2, 60), seed=st.integers(0, 50))
def test_round_trips_of_the_exact_codes(steps, seed):
    """One spike can say one of T times: the error is at most 1 / (T - 1)."""
    x = np.random.default_rng(seed).random((3, 4)).astype(np.float32)
    for code in ("latency", "thermometer", "phase"):
        spikes = bridges.continuous_to_spikes(x, steps, code)
        assert spikes.shape == (3, steps, 4)
        assert set(np.unique(spikes.numpy())) <= {0.0, 1.0}
        back = bridges.spikes_to_continuous(spikes, code)
        assert np.abs(back.numpy() - x).max() <= 1.0 / (steps - 1) + 1e-6, code


def test_the_error_of_rates_falls_with_the_root_of_the_steps():
    rng = grilly.Generator(0)
    for steps in (100, 10_000):
        spikes = bridges.continuous_to_spikes(X, steps, 0, rng=rng)
        error = np.sqrt(((bridges.spikes_to_continuous(spikes, 0, None).numpy() - X) ** 2).mean())
        assert 0.5 < error / np.sqrt((X * (1 - X)).mean() / steps) < 2.0


def test_delta_climbs_to_the_value():
    spikes = bridges.continuous_to_spikes(X, 20, "delta", threshold=0.05)
    back = bridges.spikes_to_continuous(spikes, "delta", threshold=0.05).numpy()
    assert ((back - X) <= 1e-5).all() and ((X - back) < 0.05 + 1e-5).all()


def test_names_and_numbers_mean_the_same():
    for number, name in enumerate(("rate", "latency", "phase", "thermometer", "delta")):
        a, b = (
            bridges.continuous_to_spikes(X, 8, code, rng=grilly.Generator(4)).numpy()
            for code in (number, name)
        )
        np.testing.assert_array_equal(a, b)
    for wrong in (5, -1, "burst", True):
        with pytest.raises(ValueError, match="encoding_type"):
            bridges.continuous_to_spikes(X, 8, wrong)


def test_windows_weights_and_projections():
    spikes = (np.random.default_rng(2).random((2, 7, 3)) < 0.5).astype(np.float32)
    np.testing.assert_allclose(
        bridges.spikes_to_continuous(spikes, 0, 4).numpy(), spikes[:, 3:].mean(1), rtol=1e-6
    )
    np.testing.assert_allclose(
        bridges.spikes_to_continuous(spikes, 0, 99).numpy(), spikes.mean(1), rtol=1e-6
    )  # a window longer than the train is the train
    w = bridges.bridge_temporal_weights(np.ones((2, 2)), 5).numpy()
    np.testing.assert_allclose(
        w, np.exp((np.arange(5) - 4) / 5) / np.exp((np.arange(5) - 4) / 5).sum(), rtol=1e-6
    )
    weighted = bridges.spikes_to_continuous(spikes, 0, 5, w)
    np.testing.assert_allclose(weighted.numpy(), (spikes[:, 2:] * w[:, None]).sum(1), rtol=1e-5)
    matrix, bias = np.random.default_rng(3).random((4, 3)).astype(np.float32), np.ones(4, np.float32)
    projected = bridges.spikes_to_continuous(spikes, 0, None, None, matrix, bias)
    np.testing.assert_allclose(projected.numpy(), spikes.mean(1) @ matrix.T + 1, rtol=1e-5)
    spread = bridges.bridge_temporal_weights(matrix, 5, expand=True)
    np.testing.assert_allclose(spread.numpy(), w[:, None, None] * matrix, rtol=1e-6)
    in_spikes = bridges.continuous_to_spikes(X, 5, "latency", np.eye(9)[:4])
    np.testing.assert_array_equal(
        in_spikes.numpy(), bridges.continuous_to_spikes(X[:, :4], 5, "latency").numpy()
    )


def test_decoding_rates_differentiates():
    s = grilly.asarray(np.ones((2, 6, 3), np.float32)).requires_grad_()
    bridges.spikes_to_continuous(s, "rate", 3).sum().backward()
    np.testing.assert_allclose(s.grad.numpy()[:, :3], 0)
    np.testing.assert_allclose(s.grad.numpy()[:, 3:], 1 / 3, rtol=1e-6)


def test_squashing():
    wide = X * 8 - 4
    for squash, wanted in (
        ("clip", np.clip(wide, 0, 1)),
        ("sigmoid", 1 / (1 + np.exp(-wide))),
        ("minmax", (wide - wide.min()) / (wide.max() - wide.min())),
    ):
        spikes = bridges.continuous_to_spikes(wide, 400, "thermometer", squash=squash)
        assert np.abs(spikes.numpy().mean(1) - wanted).max() <= 0.5 / 400 + 1e-5
    with pytest.raises(ValueError, match="squash"):
        bridges.continuous_to_spikes(X, squash="tanh")


def test_bad_input():
    with pytest.raises(ShapeError, match=r"\(B, F\)"):
        bridges.continuous_to_spikes(X[0])
    with pytest.raises(ValueError, match="steps"):
        bridges.continuous_to_spikes(X, 0)
    with pytest.raises(ValueError, match="projection_weights"):
        bridges.continuous_to_spikes(X, projection_bias=[1.0])
    with pytest.raises(ShapeError, match="projection_weights"):
        bridges.continuous_to_spikes(X, projection_weights=np.ones((2, 3)))
    with pytest.raises(ShapeError, match=r"\(B, T, F\)"):
        bridges.spikes_to_continuous(X)
    with pytest.raises(ValueError, match="temporal_weights"):
        bridges.spikes_to_continuous(np.ones((1, 2, 3)), "latency", temporal_weights=[1.0, 1.0])
    with pytest.raises(ValueError, match="between 0 and 1"):
        encoding.rate_encode([1.5], 3)
    with pytest.raises(ValueError, match="between 0 and 1"):
        encoding.latency_encode([np.nan], 3)
    with pytest.raises(ValueError, match="bypass"):
        encoding.latency_encode([0.0], 3, tau=50.0)
    with pytest.raises(ShapeError, match="time as the first axis"):
        encoding.delta_encode(1.0)


def test_population_codes_peak_at_the_nearest_centre():
    x = np.linspace(0, 1, 21)
    code = encoding.population_encode(grilly.asarray(x, dtype="float64"), 5).numpy()
    centres = np.linspace(0, 1, 5)
    np.testing.assert_allclose(
        code, np.exp(-((x[:, None] - centres) ** 2) / (2 * (0.25 / 1.5) ** 2)), rtol=1e-9
    )
    with pytest.raises(ShapeError, match="at least 2"):
        encoding.population_encode(x, 1)


def test_blending():
    np.testing.assert_allclose(bridges.hybrid_blend([2.0], [4.0], [0.25]).numpy(), [2.5])
