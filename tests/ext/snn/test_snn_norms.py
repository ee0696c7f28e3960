"""Normalisations of spiking networks against their papers' formulas in NumPy, with gradients by finite differences."""

from __future__ import annotations

import numpy as np
import pytest

import grilly
from grilly_core.errors import ShapeError
from grilly_ext_snn.nn import norms

RNG = np.random.default_rng(0)
FLAT, IMAGES = RNG.standard_normal((4, 6, 3)) * 3 + 1, RNG.standard_normal((4, 6, 3, 2, 5)) * 3 + 1


def standard(x, axes):
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + 1e-5)


@pytest.mark.parametrize("x", [FLAT, IMAGES], ids=["1d", "2d"])
def test_threshold_dependent(x):
    kind = norms.ThresholdDependentBatchNorm1d if x.ndim == 3 else norms.ThresholdDependentBatchNorm2d
    axes = (0, 1, *range(3, x.ndim))
    for affine in (True, False):
        made = kind(3, v_threshold=0.5, alpha=0.7, affine=affine)(x.astype("f4")).detach().numpy()
        np.testing.assert_allclose(made, 0.35 * standard(x, axes), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("x", [FLAT, IMAGES], ids=["1d", "2d"])
def test_temporal_effective(x):
    kind = norms.TemporalEffectiveBatchNorm1d if x.ndim == 3 else norms.TemporalEffectiveBatchNorm2d
    module = kind(4, 3)
    scale = np.array([1.0, 0.5, 2.0, -1.0])
    grilly.nn.init.constant_(module.scale, 1.0)
    with grilly.no_grad():
        module.scale.copy_(grilly.tensor(scale.tolist()))
    axes = (0, 1, *range(3, x.ndim))
    wanted = standard(x, axes) * scale.reshape(4, *(1,) * (x.ndim - 1))
    np.testing.assert_allclose(module(x.astype("f4")).detach().numpy(), wanted, rtol=1e-4, atol=1e-5)
    with pytest.raises(ShapeError, match="T = 4"):
        module(x[:3].astype("f4"))


@pytest.mark.parametrize("x", [FLAT, IMAGES], ids=["1d", "2d"])
def test_through_time_has_statistics_for_each_step(x):
    kind = norms.BatchNormThroughTime1d if x.ndim == 3 else norms.BatchNormThroughTime2d
    module = kind(4, 3, momentum=1.0)
    axes = (1, *range(3, x.ndim))
    np.testing.assert_allclose(
        module(x.astype("f4")).detach().numpy(), standard(x, axes), rtol=1e-4, atol=1e-5
    )
    means = [norm.running_mean.numpy() for norm in module.norms]
    np.testing.assert_allclose(means, x.mean(axes), rtol=1e-4)
    assert all(norm.bias is None for norm in module.norms)
    evaluated = module.eval()(x.astype("f4")).detach().numpy()
    assert evaluated.shape == x.shape and not np.array_equal(evaluated, x)


def test_neunorm_subtracts_a_trace_over_channels():
    spikes = (RNG.random((5, 2, 3, 2, 2)) < 0.5).astype("f8")
    trace, wanted = np.zeros((2, 1, 2, 2)), []
    for x in spikes:
        trace = 0.8 * trace + 0.2 / 9 * x.sum(1, keepdims=True)
        wanted.append(x - 0.5 * trace)
    module = norms.NeuNorm(3, 2, 2, k=0.8)
    grilly.nn.init.constant_(module.weight, 0.5)
    np.testing.assert_allclose(module(spikes.astype("f4")).detach().numpy(), wanted, rtol=1e-5, atol=1e-6)
    with pytest.raises(ShapeError, match="3 channels"):
        module(spikes[:, :, :2].astype("f4"))
    with pytest.raises(ValueError, match="k must"):
        norms.NeuNorm(3, k=1.0)
    with pytest.raises(ShapeError, match="both"):
        norms.NeuNorm(3, 4)


def test_gradients_reach_inputs_and_every_parameter():
    for module, x in (
        (norms.ThresholdDependentBatchNorm2d(3), IMAGES),
        (norms.TemporalEffectiveBatchNorm1d(4, 3), FLAT),
        (norms.BatchNormThroughTime1d(4, 3), FLAT),
        (norms.NeuNorm(3), IMAGES),
    ):
        module = module.to("float64")
        given = grilly.asarray(x, dtype="float64").requires_grad_()
        weight = grilly.asarray(RNG.standard_normal(x.shape), dtype="float64")
        (module(given) * weight).sum().backward()
        assert all(p.grad is not None for p in module.parameters())
        at, step = (1, 2, 1) + (0,) * (x.ndim - 3), 1e-5
        values = []
        for sign in (1, -1):
            moved = x.copy()
            moved[at] += sign * step
            values.append((module(grilly.asarray(moved, dtype="float64")) * weight).sum().item())
        assert given.grad.numpy()[at] == pytest.approx(
            (values[0] - values[1]) / (2 * step), rel=1e-4, abs=1e-6
        )


def test_the_time_axis_must_be_there():
    with pytest.raises(ShapeError, match=r"\(T, B, C\)"):
        norms.ThresholdDependentBatchNorm1d(3)(np.ones((6, 3), "f4"))
