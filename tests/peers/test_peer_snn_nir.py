"""Networks through NIR: files that `nir` itself reads, its equations in an Euler loop, and back with equal outputs."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import grilly
from grilly import nn
from grilly_core.errors import MissingPluginError
from grilly_ext_snn.exchange import GeneralLIF, from_nir, to_nir
from grilly_ext_snn.functional.nets import reset_net

nir = pytest.importorskip("nir")
RNG = np.random.default_rng(0)
DT = 1e-3


def euler(graph, x):
    """The equations in nir's docstrings, a step of `DT` at a time, over a chain of `Affine` and neurons."""
    out = x
    for name in [b for _, b in graph.edges]:
        node = graph.nodes[name]
        if isinstance(node, nir.Affine):
            out = out @ np.asarray(node.weight, np.float64).T + node.bias
        elif isinstance(node, nir.LIF | nir.IF):
            v, spikes = np.zeros(out.shape[1:]) + getattr(node, "v_leak", 0.0), []
            for now in out:
                v = v + DT * (
                    node.r * now if isinstance(node, nir.IF) else (node.v_leak - v + node.r * now) / node.tau
                )
                z = v > node.v_threshold
                v = np.where(z, node.v_reset, v)
                spikes.append(z)
            out = np.array(spikes, np.float64)
    return out


NODES = {
    "if": lambda: nn.IFNode(v_threshold=0.7, v_reset=0.1, step_mode="m"),
    "lif": lambda: nn.LIFNode(tau=3.0, v_threshold=0.8, v_reset=0.2, step_mode="m"),
    "lif, input decays": lambda: nn.LIFNode(tau=2.5, decay_input=True, v_threshold=0.4, step_mode="m"),
    "leaky, reset to zero": lambda: nn.LeakyNode(0.7, 0.6, reset_mechanism="zero", step_mode="m"),
    "general": lambda: GeneralLIF(0.005, DT, r=2.0, v_leak=0.1, v_threshold=0.6, v_reset=-0.2, step_mode="m"),
}


@pytest.mark.parametrize("name", NODES)
def test_what_is_written_has_the_same_spikes_by_nirs_equations(name, tmp_path):
    grilly.manual_seed(0)
    net = nn.Sequential(
        nn.Linear(6, 8), NODES[name](), nn.Linear(8, 3), nn.IFNode(v_threshold=0.3, step_mode="m")
    )
    net = net.to(dtype=grilly.float64)
    nir.write(str(tmp_path / "net.nir"), to_nir(net, (6,), DT))
    graph = nir.read(str(tmp_path / "net.nir"))
    x = RNG.random((40, 2, 6)) * 2
    spikes = net(grilly.asarray(x, dtype="float64")).detach().numpy()
    assert spikes.any() and not spikes.all()
    np.testing.assert_array_equal(spikes, euler(graph, x))
    back = from_nir(tmp_path / "net.nir", DT).to(dtype=grilly.float64)
    np.testing.assert_array_equal(back(grilly.asarray(x, dtype="float64")).detach().numpy(), spikes)


@pytest.mark.parametrize("make", [
    lambda: nn.LIFNode(tau=3.0, v_reset=None, step_mode="m"), lambda: nn.IFNode(v_reset=None, step_mode="m"),
    lambda: nn.LeakyNode(0.8, step_mode="m"), lambda: nn.SynapticNode(0.7, 0.8, step_mode="m"),
    lambda: nn.SynapticNode(0.7, 0.8, reset_mechanism="zero", step_mode="m"),
])  # fmt: skip
def test_resets_that_nir_lacks_come_back_by_metadata_and_are_warned_of(make, tmp_path):
    grilly.manual_seed(1)
    net = nn.Sequential(nn.Linear(6, 8), make())
    with pytest.warns(UserWarning, match="NIR does"):
        graph = to_nir(net, (6,), DT)
    nir.write(str(tmp_path / "net.nir"), graph)
    x = RNG.random((40, 2, 6)).astype(np.float32) * 3
    spikes = net(x).detach().numpy()
    assert spikes.any()
    back = from_nir(str(tmp_path / "net.nir"), DT)
    assert type(back[1]) is type(net[1])
    np.testing.assert_array_equal(back(x).detach().numpy(), spikes)


def test_a_convolutional_network_and_its_shapes(tmp_path):
    grilly.manual_seed(2)
    step = nn.SeqToANNContainer
    net = nn.Sequential(
        step(nn.Conv2d(2, 4, 3, padding=1, stride=2)), nn.LIFNode(tau=2.0, step_mode="m"),
        step(nn.AvgPool2d(2), nn.Flatten()), nn.Linear(16, 5, bias=False), nn.IFNode(step_mode="m"),
    )  # fmt: skip
    graph = to_nir(net, (2, 8, 8), DT)
    assert graph.nodes["1"].tau.shape == (4, 4, 4)
    assert [type(n).__name__ for n in graph.nodes.values()][1:-1] == [
        "Conv2d", "LIF", "AvgPool2d", "Flatten", "Linear", "IF"
    ]  # fmt: skip
    np.testing.assert_array_equal(graph.nodes["output"].output_type["output"], [5])
    nir.write(str(tmp_path / "net.nir"), graph)
    x = RNG.random((20, 3, 2, 8, 8)).astype(np.float32) * 4
    wanted = net(x).detach().numpy()
    reset_net(net)
    assert wanted.any()
    np.testing.assert_array_equal(from_nir(tmp_path / "net.nir", DT)(x).detach().numpy(), wanted)


def test_what_has_no_form_is_said(monkeypatch):
    node = {"input": nir.Input({"input": np.array([2])}), "output": nir.Output({"output": np.array([2])})}
    lif = {n: np.ones(2) for n in ("r", "v_leak", "v_threshold")}

    def chain(made):
        return nir.NIRGraph({**node, "a": made}, [("input", "a"), ("a", "output")])

    for call, message in (
        (lambda: to_nir(nn.Sequential(nn.GELU()), (2,)), "no form in NIR"),
        (lambda: to_nir(nn.Sequential(nn.AdExNode()), (2,)), r"0 \(AdExNode\) has no form in NIR"),
        (lambda: to_nir(nn.Linear(2, 2), (2,)), "forward of its own"),
        (lambda: to_nir(nn.Sequential(nn.Conv2d(2, 2, 3, groups=2)), (2, 5, 5)), "2 groups"),
        (lambda: to_nir(nn.Sequential(nn.LeakyNode(1.0, reset_mechanism="zero")), (2,)), "no leak"),
        (lambda: from_nir(chain(nir.LIF(tau=np.array([0.1, 0.2]), **lif))), "different values of tau"),
        (lambda: from_nir(chain(nir.Threshold(np.ones(2)))), "Threshold.*has no form here"),
        (
            lambda: from_nir(
                nir.NIRGraph(
                    {**node, "a": nir.IF(np.ones(2), np.ones(2)), "b": nir.Linear(np.eye(2))},
                    [("input", "a"), ("a", "b"), ("b", "a"), ("a", "output")],
                )
            ),
            "only chains",
        ),
    ):
        with pytest.raises(ValueError, match=message):
            call()
    with pytest.raises(TypeError, match="expected a nir.NIRGraph"):
        from_nir(3)
    monkeypatch.setitem(sys.modules, "nir", None)
    with pytest.raises(MissingPluginError, match=r"grilly_ext_snn\[nir\]"):
        to_nir(nn.Sequential(), (2,))
