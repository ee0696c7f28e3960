"""Spikes and states have the dtype of the input; the oracle is that dtype, and the loop of steps in it."""

from __future__ import annotations

import pytest

import grilly_core as grilly
from grilly_ext_snn.functional.nets import reset_net
from grilly_ext_snn.nn import nodes
from grilly_ext_snn.ops.spikes import spike

NODES = [
    "IFNode", "LIFNode", "ParametricLIFNode", "AdaptiveLIFNode", "LeakyNode", "LapicqueNode", "SynapticNode",
    "AlphaNode", "IzhikevichNode", "AdExNode",
]  # fmt: skip
FLOATS = [grilly.float16, grilly.bfloat16, grilly.float32, grilly.float64]


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("name", NODES)
def test_spikes_and_states_have_the_dtype_of_the_input(name, dtype):
    grilly.manual_seed(0)
    node = getattr(nodes, name)(step_mode="m")
    x = (2.0 * grilly.rand(5, 3, 2)).to(dtype)
    with grilly.no_grad():
        spikes = node(x)
        states = {s: getattr(node, s) for s in node.neuron.states}
        assert {t.dtype for t in (spikes, *states.values())} == {dtype}
        reset_net(node)
        node.step_mode = "s"
        looped = grilly.stack([node(step) for step in x])
    assert looped.dtype == dtype
    if dtype.itemsize < 4:  # within a call the states are float32, between calls they are rounded
        return
    assert (looped == spikes).all()
    for s, value in states.items():
        assert (getattr(node, s) == value).all()


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_a_spike_by_hand_has_the_dtype_of_the_distance(dtype):
    assert spike(grilly.tensor([-1.0, 0.0, 1.0], dtype=dtype)).dtype == dtype
