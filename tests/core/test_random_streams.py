"""Randomness: the published vectors, reproducibility, and refused distributions."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import grilly_core as grilly
from grilly_core.ops.primitives import random_bits


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ([0, 0, 0, 0], "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
    ],
)
def test_published_vectors(state, words):
    """Oracle: the known answers of Philox4x32-10 that its authors publish (Salmon et al. 2011)."""
    bits = random_bits(grilly.asarray(np.array(state, np.uint32)), size=4)
    assert " ".join(f"{int(w):08x}" for w in bits.numpy()) == words


def test_seeds_reproduce_and_calls_differ():
    """NUM-08."""
    draws = []
    for _ in range(2):
        grilly.manual_seed(0)
        draws.append((grilly.randn(5).tolist(), grilly.randn(5).tolist()))
    assert draws[0] == draws[1]
    assert draws[0][0] != draws[0][1]


def test_dropout_uses_one_mask_forwards_and_backwards():
    """NUM-08: y equals x.grad for x = ones; p = 1 gives zeros and p = 0 the identity."""
    x = grilly.ones(1000, requires_grad=True)
    y = grilly.functional.dropout(x, 0.5)
    y.sum().backward()
    assert y.tolist() == x.grad.tolist()
    assert 350 < (y > 0).sum().item() < 650
    assert grilly.functional.dropout(x, 1.0).sum().item() == 0
    assert grilly.functional.dropout(x, 0.0).tolist() == [1] * 1000


def test_draws_do_not_overlap():
    g = grilly.Generator(1)
    a, b = grilly.rand(7, rng=g), grilly.rand(9, rng=g)
    assert not set(a.tolist()) & set(b.tolist())
    assert g.get_state() == (1, 2 + 3)


def test_state_round_trip():
    g = grilly.Generator(5)
    grilly.rand(3, rng=g)
    saved = g.get_state()
    first = grilly.rand(4, rng=g).tolist()
    g.set_state(saved)
    assert grilly.rand(4, rng=g).tolist() == first


@pytest.mark.parametrize(
    ("draw", "distribution"),
    [
        (lambda g: grilly.rand(20_000, rng=g), stats.uniform()),
        (lambda g: grilly.randn(20_000, rng=g), stats.norm()),
        (lambda g: grilly.uniform(-1.0, 3.0, 20_000, dtype="float64", rng=g), stats.uniform(-1, 4)),
        (lambda g: grilly.normal(2.0, 0.5, 20_001, rng=g), stats.norm(2, 0.5)),
    ],
)
def test_distributions(draw, distribution):
    """Oracle: SciPy's Kolmogorov-Smirnov test, on a fixed seed."""
    sample = draw(grilly.Generator(42)).numpy().astype(np.float64)
    assert stats.kstest(sample, distribution.cdf).pvalue > 0.01


def test_integers_and_permutations():
    g = grilly.Generator(3)
    x = grilly.randint(-3, 4, (5000,), rng=g).numpy()
    assert x.dtype == np.int32
    assert set(np.unique(x)) == set(range(-3, 4))
    assert stats.chisquare(np.unique(x, return_counts=True)[1]).pvalue > 0.01
    assert sorted(grilly.randperm(100, rng=g).tolist()) == list(range(100))


def test_multinomial_frequencies():
    g = grilly.Generator(9)
    weights = grilly.asarray([0.0, 1.0, 2.0, 1.0])
    counts = np.bincount(grilly.multinomial(weights, 8000, True, rng=g).numpy(), minlength=4)
    assert counts[0] == 0
    assert stats.chisquare(counts[1:], [2000, 4000, 2000]).pvalue > 0.01
    assert sorted(grilly.multinomial(weights, 3, rng=g).tolist()) == [1, 2, 3]


@pytest.mark.parametrize(
    "draw",
    [
        lambda: grilly.multinomial([1.0, 0.0], 2),
        lambda: grilly.multinomial([0.0, 0.0], 1),
        lambda: grilly.bernoulli([1.5]),
        lambda: grilly.multinomial([np.nan, 1.0], 1),
        lambda: grilly.randint(5, 5),
        lambda: grilly.normal(0.0, -1.0, 3),
    ],
)
def test_impossible_distributions_are_refused(draw):
    """NUM-10. Oracle: NumPy and PyTorch refuse them."""
    with pytest.raises(ValueError, match=r"multinomial|bernoulli|randint|normal"):
        draw()


def test_seeds_must_be_integers():
    with pytest.raises(TypeError, match="seed"):
        grilly.manual_seed(1.5)
