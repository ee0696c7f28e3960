"""Norse's neurons by the formulas of its documentation, in NumPy and float64; norse itself is not installed.

Its synaptic current takes a step's input after the membrane has been charged, so here the input comes a step later; its
spikes need the membrane strictly above the threshold, which random inputs do not tell apart.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

import grilly
from grilly_ext_snn.nn.nodes import AdExNode, IzhikevichNode
from grilly_ext_snn.nn.physical import LIFNeuron
from grilly_ext_snn.nn.synapses import SynapseFilter

DT = 0.001
X = np.random.default_rng(0).random((300, 2, 4))


def through_the_synapse(x):
    """``i' = (1 - dt / tau_syn) i + x`` with tau_syn = 5 ms, seen by the membrane one step later."""
    synapse = SynapseFilter(tau=-1.0 / math.log(1.0 - DT / 5e-3), step_mode="m").to(dtype=grilly.float64)
    current = synapse(grilly.asarray(x, dtype="float64"))
    return grilly.concat([current[:1] * 0.0, current[:-1]], axis=0)


def test_lif():
    """``lif_step`` with its constants: tau_syn 5 ms, tau_mem 10 ms, v_th 1, v_leak = v_reset = 0."""
    v = i = np.zeros((2, 4))
    wanted = []
    for x in X:
        v = v + DT / 1e-2 * ((0.0 - v) + i)
        i = i - DT / 5e-3 * i
        z = (v - 1.0 > 0).astype(float)
        v = (1 - z) * v + z * 0.0
        i = i + x
        wanted.append(z)
    node = LIFNeuron(4, dt=DT, tau_mem=10.0, t_refrac_period=0.0, step_mode="m")
    spikes = node(through_the_synapse(X)).detach().numpy()
    assert spikes.sum() > 50
    np.testing.assert_array_equal(spikes, wanted)
    np.testing.assert_allclose(node.v.detach().numpy(), v, rtol=1e-5)


def test_lif_adex():
    """``lif_adex_step``: adaptation_current 4, adaptation_spike 0.02, delta_T 0.5, tau_ada 2 s, the rest as above."""
    v = i = a = np.zeros((2, 4))
    wanted = []
    for x in X:
        dv = DT / 1e-2 * ((0.0 - v) + 0.5 * np.exp((v - 1.0) / 0.5) + i - a)
        da = DT / 2.0 * (4.0 * (v - 0.0) - a)
        v, i, a = v + dv, i - DT / 5e-3 * i, a + da
        z = (v - 1.0 > 0).astype(float)
        v, i, a = (1 - z) * v, i + x, a + z * 0.02 / 2.0
        wanted.append(z)
    node = AdExNode(
        dt=1.0, capacitance=10.0, leak=1.0, v_rest=0.0, v_knee=1.0, delta_t=0.5, tau_w=2000.0, a=4.0, b=0.01,
        v_threshold=1.0, v_reset=0.0, step_mode="m",
    )  # fmt: skip
    spikes = node(through_the_synapse(X)).detach().numpy()
    assert spikes.sum() > 50
    np.testing.assert_array_equal(spikes, wanted)
    np.testing.assert_allclose(node.w.detach().numpy(), a, rtol=1e-5)


@pytest.mark.parametrize(
    ("a", "b", "c", "d"), [(0.02, 0.2, -65.0, 8.0), (0.02, 0.2, -50.0, 2.0), (0.1, 0.2, -65.0, 2.0)]
)
def test_izhikevich(a, b, c, d):
    """``izhikevich_step``: ``v += tau_inv dt (0.04 v² + 5 v + 140 - u + x)``, tau_inv dt = 0.25, reset above 30 mV."""
    v, u = np.full((2, 4), c), np.full((2, 4), b * c)
    wanted = []
    for x in X * 20:
        v, u = v + 0.25 * (0.04 * v * v + 5 * v + 140 - u + x), u + 0.25 * a * (b * v - u)
        z = (v - 30.0 > 0).astype(float)
        v, u = (1 - z) * v + z * c, u + z * d
        wanted.append(z)
    node = IzhikevichNode(a, b, c, d, dt=0.25, step_mode="m")
    spikes = node(grilly.asarray(X * 20, dtype="float64")).numpy()
    assert spikes.sum() > 5
    np.testing.assert_array_equal(spikes, wanted)
    np.testing.assert_allclose(node.u.numpy(), u, rtol=1e-9)
