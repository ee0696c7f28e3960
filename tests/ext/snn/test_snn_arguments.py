"""Nodes refuse constants that mean nothing, and copies of them (deepcopy, pickle) answer as they do."""

from __future__ import annotations

import copy
import pickle

import pytest

import grilly_core as grilly
from grilly_ext_snn.nn import nodes, physical

NODES = [
    "IFNode", "LIFNode", "ParametricLIFNode", "AdaptiveLIFNode", "LeakyNode", "LapicqueNode", "SynapticNode",
    "AlphaNode", "IzhikevichNode", "AdExNode",
]  # fmt: skip
DRIVE = {"IzhikevichNode": 200.0, "AdExNode": 8000.0}


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda node: pickle.loads(pickle.dumps(node))])
@pytest.mark.parametrize("name", NODES)
def test_a_copy_answers_as_the_node_with_its_state(name, copied):
    grilly.manual_seed(0)
    node = getattr(nodes, name)(step_mode="m")
    x = grilly.rand(40, 3, 4) * DRIVE.get(name, 2.0)
    node(x)
    node.detach()
    other = copied(node)
    spikes = node(x)
    assert spikes.sum().item() > 0
    assert (other(x) == spikes).all()
    assert (other.v == node.v).all()


@pytest.mark.parametrize("kind", [physical.LIFNeuron, physical.GIFNeuron])
def test_a_negative_refractory_period_is_refused(kind):
    with pytest.raises(ValueError, match=r"t_refrac_period.* received -1"):
        kind(4, t_refrac_period=-1.0)
    assert kind(4, t_refrac_period=0.0).constants["t_refrac"] == 0.0


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: nodes.IFNode(v_threshold=-1.0), "v_threshold must be above v_reset"),
        (lambda: nodes.LIFNode(v_threshold=1.0, v_reset=1.0), "v_threshold must be above v_reset"),
        (lambda: nodes.LIFNode(v_threshold=0.0, v_reset=None), "v_threshold must be above 0"),
        (lambda: nodes.LeakyNode(v_threshold=-0.5), "v_threshold must be above 0"),
        (lambda: physical.LIFNeuron(4, v_thresh=-1.0), "v_threshold must be above v_reset"),
        (lambda: nodes.AdExNode(v_threshold=-80.0), "v_threshold must be above v_reset"),
    ],
)
def test_a_threshold_that_no_reset_gets_below_is_refused(make, words):
    with pytest.raises(ValueError, match=words):
        make()


def test_a_negative_threshold_above_the_reset_is_fine():
    assert nodes.AdExNode(v_threshold=-40.0).v_threshold == -40.0
    assert nodes.IFNode(v_threshold=-1.0, reset="none").v_threshold == -1.0
