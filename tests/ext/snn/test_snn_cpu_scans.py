"""How the scans on the CPU write and read does not show; the oracle is the same kernel the plain way, bit by bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("numba")

import grilly
from grilly_backend_cpu.runtime import CpuRuntime
from grilly_ext_snn.kernels.scans_cpu import _Scans
from grilly_ext_snn.neurons.model import neuron_of
from grilly_ext_snn.nn.nodes import AdaptiveLIFNode, LeakyNode, ParametricLIFNode


def _views(arrays: Any) -> list[Any]:
    return [None if a is None else type("View", (), {"array": a})() for a in arrays]


@pytest.mark.parametrize("name", ["lif", "synaptic"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kept", [False, True])
def test_results_written_past_the_caches_are_the_plain_ones(name: str, dtype: type, kept: bool) -> None:
    neuron = neuron_of(name)
    scans, count = _Scans(neuron, CpuRuntime()), len(neuron.states)
    x = np.random.default_rng(1).random((7, 5, 411)).astype(dtype)
    states = [np.full(x.shape[1:], 0.1, dtype) for _ in neuron.states]
    found = []
    for least in (0, 1 << 60):
        scans.least_streamed = least
        outs = [np.full_like(x, -7), *[np.full_like(s, -7) for s in states]]
        outs += [np.full_like(x, -7) for _ in range(count if kept else 0)]
        scans.scan(None, _views(outs), _views([x, *states]), dict(neuron.attrs))
        found.append(outs)
    for streamed, plain in zip(*found, strict=True):
        assert streamed.tobytes() == plain.tobytes()
        assert not (streamed == -7).any()


@pytest.mark.parametrize("make", [LeakyNode, AdaptiveLIFNode, ParametricLIFNode])
def test_a_gradient_that_all_steps_share_gives_the_bits_of_one_spread_out(make: Any) -> None:
    rng = np.random.default_rng(2)
    x, g = rng.random((6, 3, 40)).astype(np.float32), rng.random((3, 40)).astype(np.float32)
    shared, whole = grilly.asarray(g), np.ascontiguousarray(np.broadcast_to(g, x.shape))
    found = []
    for gradient in (grilly.broadcast_to(shared, x.shape), grilly.asarray(whole)):
        node, a = make(step_mode="m"), grilly.asarray(x).requires_grad_()
        node(a).backward(gradient)
        found.append([a.grad.numpy(), *[p.grad.numpy() for p in node.parameters()]])
    assert np.abs(found[0][0]).sum() > 0
    for one, other in zip(*found, strict=True):
        assert one.tobytes() == other.tobytes()


def test_states_and_inputs_that_lie_in_strides_are_read_as_they_are() -> None:
    rng = np.random.default_rng(3)
    x = rng.random((40, 3, 6)).astype(np.float32)
    found = []
    for a in (grilly.asarray(x).transpose(0, 2), grilly.asarray(np.ascontiguousarray(x.transpose(2, 1, 0)))):
        leaf = a.detach().requires_grad_()
        (LeakyNode(step_mode="m")(leaf) * 2.0).sum().backward()
        found.append(leaf.grad.numpy())
    np.testing.assert_array_equal(found[0], found[1])
