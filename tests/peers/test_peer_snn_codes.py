"""Encoders and losses of the spiking extension against snnTorch 1.0."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import grilly
from grilly_ext_snn.functional import encoding, losses

spikegen = pytest.importorskip("snntorch.spikegen")
import snntorch.functional as peer  # noqa: E402

RNG = np.random.default_rng(3)


@settings(max_examples=40, deadline=None)
@given(
    steps=st.integers(2, 30), threshold=st.floats(0.01, 0.5), linear=st.booleans(), normalize=st.booleans(),
    clip=st.booleans(), tau=st.floats(0.5, 8.0), seed=st.integers(0, 99),
)  # fmt: skip
def test_latency(steps, threshold, linear, normalize, clip, tau, seed):
    x = np.random.default_rng(seed).random((3, 4)).astype(np.float32)
    options = {"linear": linear, "normalize": normalize, "clip": clip, "bypass": True}
    ours = encoding.latency_encode(x, steps, tau, threshold, **options)
    theirs = spikegen.latency(torch.from_numpy(x), steps, threshold, tau, **options)
    ours, theirs = ours.numpy(), theirs.numpy()
    # a time within rounding of half a step may fall on either side
    assert (ours != theirs).any(0).mean() <= 0.1
    assert ours.shape == theirs.shape and (ours.sum(0) <= 1).all()


@settings(max_examples=30, deadline=None)
@given(threshold=st.floats(0.05, 1.0), padding=st.booleans(), off=st.booleans(), seed=st.integers(0, 99))
def test_delta(threshold, padding, off, seed):
    x = np.random.default_rng(seed).standard_normal((7, 2, 3)).astype(np.float32)
    ours = encoding.delta_encode(x, threshold, padding=padding, off_spike=off).numpy()
    np.testing.assert_array_equal(ours, spikegen.delta(torch.from_numpy(x), threshold, padding, off).numpy())


def test_rate_has_the_rates_of_the_data():
    """Binomial confidence: 4 standard deviations of 20,000 draws; snnTorch's `rate` has the same distribution."""
    x = np.linspace(0, 1, 11, dtype=np.float32)
    ours = encoding.rate_encode(x, 20_000, rng=grilly.Generator(5)).numpy().mean(0)
    theirs = spikegen.rate(torch.from_numpy(x), 20_000).numpy().mean(0)
    bound = 4 * np.sqrt(x * (1 - x) / 20_000) + 1e-9
    assert (np.abs(ours - x) <= bound).all()
    assert (np.abs(ours - theirs) <= 2 * bound).all()


LOSSES = {
    "ce_rate_loss": (losses.ce_rate_loss, peer.ce_rate_loss),
    "ce_count_loss": (losses.ce_count_loss, peer.ce_count_loss),
    "ce_count_loss of populations": (
        lambda s, t: losses.ce_count_loss(s, t, 3),
        lambda s, t: peer.ce_count_loss(population_code=True, num_classes=3)(s, t),
    ),
    "ce_max_membrane_loss": (losses.ce_max_membrane_loss, peer.ce_max_membrane_loss),
    "mse_count_loss": (
        lambda s, t: losses.mse_count_loss(s, t, 0.8, 0.2),
        peer.mse_count_loss(correct_rate=0.8, incorrect_rate=0.2),
    ),
    "mse_count_loss of populations": (
        lambda s, t: losses.mse_count_loss(s, t, 0.8, 0.2, 3),
        peer.mse_count_loss(correct_rate=0.8, incorrect_rate=0.2, population_code=True, num_classes=3),
    ),
    "l1_rate_sparsity": (
        lambda s, t: losses.l1_rate_sparsity(s, 1e-3),
        lambda s, t: peer.l1_rate_sparsity(1e-3)(s),
    ),
}


@pytest.mark.parametrize("name", LOSSES)
def test_losses_and_their_gradients(name):
    ours, theirs = LOSSES[name]
    theirs = theirs() if isinstance(theirs, type) else theirs
    x = RNG.random((9, 4, 6))
    target = np.array([0, 2, 1, 2])
    a = grilly.asarray(x, dtype="float64").requires_grad_()
    b = torch.from_numpy(x).requires_grad_()
    mine, peers = ours(a, grilly.asarray(target)), theirs(b, torch.from_numpy(target))
    mine.backward(), peers.backward()
    np.testing.assert_allclose(mine.item(), peers.item(), rtol=2e-6)
    np.testing.assert_allclose(a.grad.numpy(), b.grad.numpy(), rtol=2e-6, atol=1e-9)


def test_the_membrane_loss_is_its_formula():
    """snnTorch's class wants targets for each step; the mean over steps of the squared error is the formula."""
    x, target = RNG.random((5, 3, 4)), np.array([1, 0, 3])
    wanted = np.full((3, 4), 0.1)
    wanted[np.arange(3), target] = 0.9
    ours = losses.mse_membrane_loss(grilly.asarray(x, dtype="float64"), target, 0.9, 0.1)
    np.testing.assert_allclose(ours.item(), ((x - wanted) ** 2).mean(), rtol=1e-12)


def test_accuracy():
    spikes = (RNG.random((9, 40, 6)) < 0.4).astype(np.float32)
    target = RNG.integers(0, 6, 40)
    theirs = peer.accuracy_rate(torch.from_numpy(spikes), torch.from_numpy(target))
    assert losses.accuracy_rate(spikes, target) == pytest.approx(float(theirs))
