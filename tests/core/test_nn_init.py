"""Initial values: variances, exact forms and reproducibility."""

from __future__ import annotations

import math

import numpy as np
import pytest

import grilly_core as grilly
from grilly_core.nn import init


@pytest.mark.parametrize(
    ("fill", "variance", "bound"),
    [
        (lambda t: init.xavier_uniform_(t, gain=2.0), 4 * 2 / (300 + 200), 2 * math.sqrt(6 / 500)),
        (lambda t: init.xavier_normal_(t), 2 / 500, None),
        (lambda t: init.kaiming_uniform_(t, nonlinearity="relu"), 2 / 200, math.sqrt(6 / 200)),
        (lambda t: init.kaiming_normal_(t, a=1.0, mode="fan_out"), 1 / 300, None),
        (lambda t: init.uniform_(t, -1.0, 3.0), 16 / 12, 3.0),
        (lambda t: init.normal_(t, 0.0, 0.5), 0.25, None),
    ],
)
def test_variances_follow_the_formulas(fill, variance, bound):
    grilly.manual_seed(0)
    values = fill(grilly.zeros((300, 200))).numpy()
    assert values.var() == pytest.approx(variance, rel=0.03)
    if bound is not None:
        assert np.abs(values).max() <= bound


def test_fans_of_convolutions_count_the_kernel():
    grilly.manual_seed(1)
    weight = init.kaiming_normal_(grilly.zeros((64, 32, 5, 5)), nonlinearity="relu").numpy()
    assert weight.var() == pytest.approx(2 / (32 * 25), rel=0.05)
    with pytest.raises(ValueError, match="two axes"):
        init.xavier_normal_(grilly.zeros(3))


def test_truncated_normal_redraws():
    grilly.manual_seed(2)
    values = init.trunc_normal_(grilly.zeros(20000), 0.5, 1.0, 0.0, 1.0).numpy()
    assert values.min() >= 0.0 and values.max() <= 1.0 and values.mean() == pytest.approx(0.5, abs=0.02)
    with pytest.raises(ValueError, match="widen"):
        init.trunc_normal_(grilly.zeros(3), 0.0, 1.0, 9.0, 10.0)


@pytest.mark.parametrize("shape", [(3, 5), (5, 3), (4, 2, 3)])
def test_orthogonal(shape):
    w = init.orthogonal_(grilly.zeros(shape), gain=2.0).numpy().reshape(shape[0], -1)
    small = w @ w.T if w.shape[0] < w.shape[1] else w.T @ w
    np.testing.assert_allclose(small, 4.0 * np.eye(len(small)), atol=1e-5)


def test_exact_forms():
    assert init.eye_(grilly.zeros((2, 3))).tolist() == [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]
    assert init.dirac_(grilly.zeros((4, 2, 3)), groups=2).tolist()[2] == [[0.0, 1.0, 0.0], [0.0] * 3]
    assert (init.sparse_(grilly.zeros((10, 4)), 0.3).numpy() == 0).sum(0).tolist() == [3] * 4
    assert init.ones_(grilly.zeros(2)).tolist() == [1.0, 1.0]


def test_a_generator_makes_values_repeatable_and_parameters_can_be_filled():
    p = grilly.nn.Parameter(grilly.zeros(4))
    first = init.normal_(p, rng=grilly.Generator(5)).tolist()
    assert init.normal_(p, rng=grilly.Generator(5)).tolist() == first
    assert p.requires_grad and p.is_leaf


def test_gains():
    assert init.calculate_gain("leaky_relu", 1.0) == 1.0
    with pytest.raises(ValueError, match="nonlinearity"):
        init.calculate_gain("swish")
