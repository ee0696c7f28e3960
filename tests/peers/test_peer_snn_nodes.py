"""Neurons against snnTorch 1.0 in float64, and against the behaviour cases' formulas."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import grilly
from grilly_core.errors import ShapeError
from grilly_ext_snn.functional.nets import detach_net, reset_net, set_step_mode
from grilly_ext_snn.nn.nodes import (
    AlphaNode,
    IFNode,
    LapicqueNode,
    LeakyNode,
    LIFNode,
    ParametricLIFNode,
    SynapticNode,
)

snn = pytest.importorskip("snntorch")
X = np.random.default_rng(0).random((20, 3, 5)) * 0.9


class DoubleATan(snn.surrogate.ATan):
    """snnTorch's surrogate, with spikes of the dtype of the membrane: its own are float32, and so their gradients."""

    @staticmethod
    def forward(ctx, distance, alpha):
        return snn.surrogate.ATan.forward(ctx, distance, alpha).to(distance.dtype)


def atan(distance):
    return DoubleATan.apply(distance, 2.0)


def ours(node, x=X):
    given = grilly.asarray(x, dtype="float64").requires_grad_()
    spikes = node(given)
    return spikes.detach().numpy()


@pytest.mark.parametrize("reset", ["subtract", "zero", "none"])
def test_leaky_is_snntorchs(reset):
    peer, state, wanted = (
        snn.Leaky(beta=0.75, reset_mechanism=reset),
        torch.zeros(3, 5, dtype=torch.float64),
        [],
    )
    for step in torch.from_numpy(X):
        spikes, state = peer(step, state)
        wanted.append(spikes.numpy())
    node = LeakyNode(beta=0.75, reset_mechanism=reset, step_mode="m")
    made = ours(node)
    assert made.sum() > 0
    np.testing.assert_array_equal(made, wanted)
    np.testing.assert_allclose(node.v.detach().numpy(), state.numpy(), rtol=1e-12)


@pytest.mark.parametrize("reset", ["subtract", "zero", "none"])
def test_synaptic_is_snntorchs(reset):
    peer, wanted = snn.Synaptic(alpha=0.8125, beta=0.75, reset_mechanism=reset), []
    syn = mem = torch.zeros(3, 5, dtype=torch.float64)
    for step in torch.from_numpy(X) * 0.3:
        spikes, syn, mem = peer(step, syn, mem)
        wanted.append(spikes.numpy())
    made = ours(SynapticNode(alpha=0.8125, beta=0.75, reset_mechanism=reset, step_mode="m"), X * 0.3)
    assert made.sum() > 0
    np.testing.assert_array_equal(made, wanted)


@pytest.mark.parametrize(
    "make",
    [
        lambda: IFNode(), lambda: LIFNode(tau=3.0), lambda: LIFNode(tau=3.0, decay_input=True, v_reset=None),
        lambda: ParametricLIFNode(init_tau=3.0), lambda: LeakyNode(0.8), lambda: SynapticNode(0.7, 0.8),
        lambda: AlphaNode(0.8, 0.7), lambda: LapicqueNode(),
    ],
)  # fmt: skip
def test_snn_15_many_steps_are_the_loop_of_single_ones(make):
    results = []
    for mode in ("m", "s"):
        grilly.manual_seed(0)
        node = make()
        set_step_mode(node, mode)
        x = grilly.asarray(X.astype("f4") * 1.5).requires_grad_()
        spikes = node(x) if mode == "m" else grilly.stack([node(x[t]) for t in range(len(X))])
        (spikes * grilly.asarray(X.astype("f4"))).sum().backward()
        state = [value.detach().numpy() for value in node.memories().values()]
        results.append(
            [spikes.detach().numpy(), x.grad.numpy(), *state, *[p.grad.numpy() for p in node.parameters()]]
        )
    np.testing.assert_array_equal(results[0][0], results[1][0])
    for a, b in zip(*results, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


def test_snn_01_subtraction_acts_one_step_later():
    node = LeakyNode(beta=0.5, step_mode="m", store_v_seq=True)
    spikes = ours(node, np.full((6, 1, 1), 1.2))
    assert spikes.ravel().tolist() == [1, 0, 1, 0, 1, 1]
    np.testing.assert_allclose(
        node.v_seq.detach().numpy().ravel(), [1.2, 0.8, 1.6, 1.0, 1.7, 1.05], rtol=1e-9
    )


def test_snn_06_and_07_state_is_not_mixed_between_batches():
    node = LIFNode()
    node(grilly.ones((102, 8)))
    with pytest.raises(ShapeError, match="reset"):
        node(grilly.ones((101, 8)))
    reset_net(node)
    node(grilly.ones((1, 8)))
    with pytest.raises(ShapeError, match="reset"):
        node(grilly.ones((5, 8)))
    reset_net(node)
    x = grilly.full((2, 3), 0.4).requires_grad_()
    node(x).sum().backward()
    detach_net(node)
    before = node.v.numpy()
    node(x).sum().backward()
    np.testing.assert_allclose(node.v.detach().numpy(), before / 2 + 0.4, rtol=1e-6)
    with pytest.raises(ShapeError, match="time as the first axis"):
        LIFNode(step_mode="m")(grilly.ones(3))
    with pytest.raises(ValueError, match="tau"):
        LIFNode(tau=0.5)
    with pytest.raises(ValueError, match="finite"):
        node.set_memory("v", [float("nan")])


@pytest.mark.parametrize("alpha", [25.0, 100.0])
def test_snn_04_surrogates_are_finite_far_from_the_threshold(alpha):
    for kind in (grilly.nn.ATan, grilly.nn.FastSigmoid, grilly.nn.Triangular):
        x = grilly.tensor([-100.0, -5.0, -0.1, 0.0, 0.1, 5.0, 100.0], requires_grad=True)
        spikes = kind(alpha)(x)
        spikes.sum().backward()
        assert spikes.tolist() == [0, 0, 0, 1, 1, 1, 1] and np.isfinite(x.grad.numpy()).all()


@pytest.mark.parametrize("reset", ["subtract", "zero", "none"])
@pytest.mark.parametrize("kind", ["leaky", "synaptic"])
def test_gradients_through_time_are_snntorchs(kind, reset):
    """Its automatic differentiation, with its arctangent surrogate and detached reset, in float64."""
    weight = np.random.default_rng(1).standard_normal(X.shape)
    x = X * (1.0 if kind == "leaky" else 0.3)
    theirs = torch.from_numpy(x).requires_grad_()
    if kind == "leaky":
        peer = snn.Leaky(beta=0.75, reset_mechanism=reset, spike_grad=atan)
        node = LeakyNode(beta=0.75, reset_mechanism=reset, step_mode="m", detach_reset=True)
    else:
        peer = snn.Synaptic(alpha=0.8125, beta=0.75, reset_mechanism=reset, spike_grad=atan)
        node = SynapticNode(alpha=0.8125, beta=0.75, reset_mechanism=reset, step_mode="m", detach_reset=True)
    states, wanted = [torch.zeros(3, 5, dtype=torch.float64)] * (1 if kind == "leaky" else 2), []
    for step in theirs:
        spikes, *states = peer(step, *states)
        wanted.append(spikes)
    (torch.stack(wanted) * torch.from_numpy(weight)).sum().backward()
    given = grilly.asarray(x, dtype="float64").requires_grad_()
    (node(given) * grilly.asarray(weight, dtype="float64")).sum().backward()
    np.testing.assert_allclose(given.grad.numpy(), theirs.grad.numpy(), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("reset", ["subtract", "zero", "none"])
def test_lapicque_is_snntorchs(reset):
    peer, state, wanted = snn.Lapicque(R=5.0, C=2.0, time_step=1.0, reset_mechanism=reset), None, []
    state = torch.zeros(3, 5, dtype=torch.float64)
    for step in torch.from_numpy(X):
        spikes, state = peer(step, state)
        wanted.append(spikes.numpy())
    node = LapicqueNode(r=5.0, c=2.0, dt=1.0, reset_mechanism=reset, step_mode="m")
    made = ours(node)
    assert made.sum() > 0
    np.testing.assert_array_equal(made, wanted)


@pytest.mark.parametrize("reset", ["zero", "none"])
def test_alpha_is_snntorchs(reset):
    """Its subtraction differs on purpose; see `neurons/recursive.py`."""
    peer, wanted = snn.Alpha(alpha=0.875, beta=0.75, reset_mechanism=reset), []
    syn_exc = syn_inh = mem = torch.zeros(3, 5, dtype=torch.float64)
    for step in torch.from_numpy(X):
        spikes, syn_exc, syn_inh, mem = peer(step, syn_exc, syn_inh, mem)
        wanted.append(spikes.numpy())
    made = ours(AlphaNode(alpha=0.875, beta=0.75, reset_mechanism=reset, step_mode="m"))
    assert made.sum() > 0
    np.testing.assert_array_equal(made, wanted)


@pytest.mark.parametrize("all_to_all", [True, False])
def test_a_recurrent_layer_is_snntorchs(all_to_all):
    """Its RLeaky behind a linear map, with the weights copied over, in float64: spikes and gradients."""
    grilly.manual_seed(0)
    layer = grilly.nn.RecurrentSpikingLayer(
        5, 4, LeakyNode(0.75, detach_reset=True), all_to_all, step_mode="m"
    ).to(dtype=grilly.float64)
    weight, bias = (p.detach().numpy().copy() for p in layer.linear.parameters())
    back = (layer.recurrent.weight if all_to_all else layer.weight).detach().numpy().copy()
    options = {"linear_features": 4} if all_to_all else {"V": torch.from_numpy(back)}
    peer = snn.RLeaky(
        beta=0.75, all_to_all=all_to_all, spike_grad=atan, **options
    ).double()  # fmt: skip
    if all_to_all:
        with torch.no_grad():
            peer.recurrent.weight.copy_(torch.from_numpy(back))
            peer.recurrent.bias.zero_()
    scale = np.random.default_rng(1).standard_normal((20, 3, 4))
    theirs = torch.from_numpy(X * 2).requires_grad_()
    spk, mem, wanted = torch.zeros(3, 4).double(), torch.zeros(3, 4).double(), []
    for step in theirs @ torch.from_numpy(weight).T + torch.from_numpy(bias):
        spk, mem = peer(step, spk, mem)
        wanted.append(spk)
    (torch.stack(wanted) * torch.from_numpy(scale)).sum().backward()
    given = grilly.asarray(X * 2, dtype="float64").requires_grad_()
    spikes = layer(given)
    (spikes * grilly.asarray(scale, dtype="float64")).sum().backward()
    assert spikes.detach().numpy().sum() > 0
    np.testing.assert_array_equal(spikes.detach().numpy(), torch.stack(wanted).detach().numpy())
    np.testing.assert_allclose(given.grad.numpy(), theirs.grad.numpy(), rtol=1e-9, atol=1e-12)
