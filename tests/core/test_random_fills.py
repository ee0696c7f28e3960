"""In-place random fills: mean, median and range of 200,000 numbers against the formulas of the distributions."""

from __future__ import annotations

import math

import numpy as np
import pytest

import grilly


def drawn(name, *arguments, dtype=grilly.float32):
    grilly.manual_seed(5)
    x = grilly.zeros(200_000, dtype=dtype, device="cpu")
    return getattr(x, name)(*arguments).numpy()


def test_exponential():
    x = drawn("exponential_", 2.0)
    assert x.min() >= 0
    assert x.mean() == pytest.approx(0.5, rel=0.02)
    assert np.median(x) == pytest.approx(math.log(2) / 2, rel=0.02)


def test_geometric_counts_from_one():
    x = drawn("geometric_", 0.25)
    assert x.min() == 1
    assert np.array_equal(x, np.round(x))
    assert x.mean() == pytest.approx(4, rel=0.02)
    assert (x == 1).mean() == pytest.approx(0.25, rel=0.03)


def test_log_normal():
    x = drawn("log_normal_", 0.5, 0.25)
    assert np.log(x).mean() == pytest.approx(0.5, abs=0.01)
    assert np.log(x).std() == pytest.approx(0.25, rel=0.02)


def test_cauchy():
    x = drawn("cauchy_", 3.0, 2.0)
    assert np.median(x) == pytest.approx(3, abs=0.05)
    assert np.quantile(x, 0.75) - np.quantile(x, 0.25) == pytest.approx(4, rel=0.02)


def test_wrong_parameters_are_refused():
    x = grilly.zeros(2, device="cpu")
    with pytest.raises(ValueError, match="lambd must be positive"):
        x.exponential_(0.0)
    with pytest.raises(ValueError, match="between 0 and 1"):
        x.geometric_(1.5)


def test_integers_like_another_tensor():
    x = grilly.randint_like(grilly.zeros(1000, device="cpu"), 3, 6)
    assert x.dtype is grilly.float32
    assert set(x.tolist()) == {3.0, 4.0, 5.0}


def test_each_mean_and_deviation_gets_its_number():
    means = grilly.asarray(np.repeat([0.0, 100.0], 5000).astype("f4"), device="cpu")
    x = grilly.normal(means, 2.0).numpy()
    assert x[:5000].mean() == pytest.approx(0, abs=0.2)
    assert x[5000:].mean() == pytest.approx(100, abs=0.2)
    assert x[:5000].std() == pytest.approx(2, rel=0.05)
