"""Recomputation and optimisers on Vulkan. Oracles: the same steps without recomputation, and on the CPU."""

from __future__ import annotations

import numpy as np
import pytest

import grilly
from grilly import nn, optim

OPTIMISERS = [
    "Adamax",
    "NAdam",
    "RAdam",
    "Adagrad",
    "Adadelta",
    "RMSprop",
    "Rprop",
    "ASGD",
    "NaturalGradient",
]


@pytest.fixture(autouse=True)
def no_fallback(backend):
    with grilly.fallback("error"):
        yield


def _trained(device, make, how, captured):
    grilly.manual_seed(3)
    # no bias before a batch norm: its gradient is nothing but roundings, which some optimisers take for a direction
    blocks = [
        nn.Sequential(nn.Linear(8, 8, bias=False), nn.BatchNorm1d(8), nn.Tanh(), nn.Dropout(0.2))
        for _ in range(2)
    ]
    model = nn.Sequential(*blocks).to(device=device)
    opt = make(model.parameters())
    x = grilly.asarray(np.random.default_rng(0).normal(size=(6, 8)).astype("f4"), device=device)
    grilly.manual_seed(7)

    def step(x):
        opt.zero_grad()
        y = x
        for block in blocks:
            y = how(block, y)
        loss = (y * y).mean()
        loss.backward()
        opt.step()
        return loss

    call = grilly.capture(step, state=(model, opt)) if captured else step
    losses = [call(x).item() for _ in range(6)]
    return losses, [v.cpu().numpy() for v in model.state_dict().values()]


def _plain(block, x):
    return block(x)


@pytest.mark.parametrize("captured", [False, True])
def test_recomputation_gives_the_same_bits(captured):
    def make(params):
        return optim.AdamW(params, lr=0.01)

    losses, weights = _trained("vulkan:0", make, grilly.checkpoint, captured)
    wanted_losses, wanted = _trained("vulkan:0", make, _plain, False)
    assert losses == wanted_losses
    for a, b in zip(weights, wanted, strict=True):
        assert a.tobytes() == b.tobytes()


@pytest.mark.parametrize("name", OPTIMISERS)
def test_optimisers_agree_with_the_cpu(name):
    def make(params):
        return getattr(optim, name)(params, lr=0.01)

    losses, weights = _trained("vulkan:0", make, _plain, True)
    wanted_losses, wanted = _trained("cpu", make, _plain, False)
    np.testing.assert_allclose(losses, wanted_losses, rtol=1e-4)
    for a, b in zip(weights, wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-3)
