"""The scans: what is shipped is what the descriptions print, and a scan is the loop of its steps on every device."""

from __future__ import annotations

import numpy as np
import pytest
from tests.device.test_conformance import no_vulkan

import grilly
from grilly_ext_snn.functional.nets import set_step_mode
from grilly_ext_snn.kernels import emit
from grilly_ext_snn.nn import nodes
from grilly_ext_snn.ops.scans import NAMES

DEVICES = ["cpu"] if no_vulkan() else ["cpu", "vulkan:0"]
NODES = {
    "if": lambda: nodes.IFNode(),
    "lif": lambda: nodes.LIFNode(tau=3.0),
    "lif, soft": lambda: nodes.LIFNode(tau=3.0, decay_input=True, v_reset=None),
    "plif": lambda: nodes.ParametricLIFNode(init_tau=3.0),
    "leaky": lambda: nodes.LeakyNode(0.8),
    "synaptic": lambda: nodes.SynapticNode(0.7, 0.6),
    "alpha": lambda: nodes.AlphaNode(0.8, 0.7),
    "lapicque": lambda: nodes.LapicqueNode(r=5.0, c=2.0, dt=1.0),
    "alif": lambda: nodes.AdaptiveLIFNode(),
    "izhikevich": lambda: nodes.IzhikevichNode(dt=0.5),
    "adex": lambda: nodes.AdExNode(),
}
#: Currents in the units of the two neurons that have some.
SCALE = {"izhikevich": 15.0, "adex": 900.0}


def test_the_printed_files_are_those_of_the_descriptions():
    found = dict(emit.files())
    assert len(found) == 2 * len(NAMES)
    for path, text in found.items():
        assert path.read_text(encoding="utf-8") == text, f"{path.name}: python -m grilly_ext_snn.kernels.emit"


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", NODES)
def test_a_scan_is_the_loop_of_its_steps_bit_for_bit(name, device):
    x = np.random.default_rng(0).random((40, 3, 70)).astype(np.float32) * SCALE.get(name, 1.5)
    results = []
    for mode in ("m", "s"):
        node = NODES[name]().to(device)
        set_step_mode(node, mode)
        given = grilly.asarray(x, device=device)
        with grilly.fallback("error"), grilly.no_grad():
            spikes = node(given) if mode == "m" else grilly.stack([node(step) for step in given])
        results.append([spikes.numpy(), *[value.numpy() for value in node.memories().values()]])
    if name != "adex":
        assert results[0][0].any()
    for whole, steps in zip(*results, strict=True):
        np.testing.assert_array_equal(whole, steps)
