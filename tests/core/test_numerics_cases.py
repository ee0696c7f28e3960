"""The numeric cases: NaN order, long sums, half precision, far-out logarithms.

Oracles: float64 and PyTorch 2.13's values.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

import grilly_core as grilly

F = grilly.functional


def test_order_with_nan():
    """NUM-01: NaN is the greatest, indices are always in range."""
    n = grilly.asarray([1.0, np.nan, 3.0])
    largest = n.topk(2)
    assert np.isnan(largest.values.tolist()[0])
    assert largest.values.tolist()[1] == 3
    assert largest.indices.tolist() == [1, 2]
    assert n.topk(2, largest=False).values.tolist() == [1, 3]
    assert grilly.argsort(n).tolist() == [0, 2, 1]
    assert grilly.argsort(grilly.asarray([np.inf, np.nan, -np.inf])).tolist() == [2, 0, 1]


@pytest.mark.parametrize("axis", [0, 1])
def test_long_sums(axis):
    """NUM-03: along either axis, within 1e-6 of float64."""
    x = grilly.full((2**22, 2) if axis == 0 else (2, 2**22), 0.1)
    assert grilly.sum(x, axis=axis).tolist()[0] == pytest.approx(0.1 * 2**22, rel=1e-6)
    assert grilly.ones(2**24 + 10).sum().item() == 2**24 + 10


def test_long_means():
    """NUM-03."""
    values = np.random.default_rng(0).uniform(1e4, 1e4 + 1, 1_000_000).astype(np.float32)
    assert grilly.asarray(values).mean().item() == pytest.approx(values.mean(dtype=np.float64), rel=1e-6)


def test_half_precision():
    """NUM-04: a mean does not overflow where its sum does."""
    ones = grilly.ones(70_000, dtype="float16")
    assert ones.mean().item() == 1
    assert math.isinf(ones.sum().item())
    assert grilly.full((10_000,), 100.0, dtype="float16").mean().item() == 100
    x = grilly.asarray(np.arange(300.0, 308.0), dtype="float16")
    expected = [-1.527, -1.091, -0.655, -0.218, 0.218, 0.655, 1.091, 1.527]
    assert np.allclose(F.layer_norm(x, (8,)).numpy().astype(np.float64), expected, atol=2e-3)
    assert F.softmax(grilly.full((2,), 60_000.0, dtype="float16"), 0).tolist() == [0.5, 0.5]


def test_logsumexp_far_out():
    """NUM-05."""
    x = grilly.asarray([[-np.inf, -np.inf], [np.inf, 1.0], [1000.0, 1000.0]])
    assert x.logsumexp(1).tolist() == [-np.inf, np.inf, pytest.approx(1000.6931472)]


def test_cross_entropy_far_out():
    """NUM-05."""
    x = grilly.tensor([[1000.0, 0.0, -1000.0]], requires_grad=True)
    loss = F.cross_entropy(x, grilly.asarray([1]))
    loss.backward()
    assert loss.item() == 1000
    assert x.grad.tolist() == [[1, -1, 0]]
    assert (
        F.binary_cross_entropy_with_logits(
            grilly.asarray([1000.0, -1000.0]), grilly.asarray([0.0, 1.0])
        ).item()
        == 1000
    )


def test_cosine_of_tiny_and_huge_vectors():
    """NUM-07: exact for huge ones; below eps the documented rule of PyTorch holds."""
    huge = grilly.asarray([1e20, 0.0])
    assert F.cosine_similarity(huge, huge, dim=0).item() == pytest.approx(1)
    assert F.cosine_similarity(grilly.zeros(2), grilly.ones(2), dim=0).item() == 0


def test_norm_of_huge_vectors():
    assert grilly.asarray([3e30, 4e30]).norm().item() == pytest.approx(5e30, rel=1e-6)


@pytest.mark.parametrize("value", [0.0, -1000.0, 1000.0, np.inf, -np.inf])
def test_activations_stay_finite_or_saturate(value):
    x = grilly.asarray([value])
    assert F.sigmoid(x).item() == (0.5 if value == 0 else float(value > 0))
    assert F.tanh(x).item() == np.sign(value)
    assert not math.isnan(F.softplus(x).item())
    assert not math.isnan(F.relu(x).item())


def test_remainder_and_floor_division_follow_python():
    """Oracle: Python's own operators."""
    a, b = [7, -7, 7, -7], [2, 2, -2, -2]
    for dtype in ("int32", "float32"):
        x, y = grilly.asarray(a, dtype=dtype), grilly.asarray(b, dtype=dtype)
        assert (x % y).tolist() == [i % j for i, j in zip(a, b, strict=True)]
        assert (x // y).tolist() == [i // j for i, j in zip(a, b, strict=True)]


def test_variance_of_large_close_values():
    """Two passes: 1e4 + [0, 1, 2, 3] keeps its digits. Oracle: float64."""
    x = grilly.asarray([1e4, 1e4 + 1, 1e4 + 2, 1e4 + 3])
    assert x.var().item() == pytest.approx(5 / 3, rel=1e-5)
