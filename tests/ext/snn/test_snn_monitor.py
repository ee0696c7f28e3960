"""Monitors against a loop by hand, plots against the data that was given, and what is said without matplotlib."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import grilly
from grilly import nn
from grilly_core.errors import MissingPluginError, ShapeError
from grilly_ext_snn import plots
from grilly_ext_snn.functional.nets import reset_net, set_step_mode
from grilly_ext_snn.functional.statistics import firing_rate_statistics
from grilly_ext_snn.nn.base_node import BaseNode
from grilly_ext_snn.nn.monitor import Monitor
from grilly_ext_snn.visualizer import SNNVisualizer

X = np.random.default_rng(0).random((6, 2, 4)).astype(np.float32)


class Custom(BaseNode):
    """A node that is not a scan."""

    def neuronal_charge(self, x):
        self.v = self.v * 0.5 + x


def network():
    grilly.manual_seed(0)
    return nn.Sequential(
        nn.Linear(4, 5), nn.SynapticNode(0.7, 0.8, v_threshold=0.3), nn.Linear(5, 3), Custom(v_threshold=0.2)
    )


def test_many_steps_and_single_steps_record_the_same_as_a_loop_by_hand():
    """The oracle calls the layers one by one and reads the states after every step."""
    net = network()
    wanted = {"v": [], "spike": []}
    with grilly.no_grad():
        for step in X:
            first = net[1](net[0](grilly.asarray(step)))
            net[3](net[2](first))
            wanted["v"].append(net[1].v.numpy())
            wanted["spike"].append(first.numpy())
    assert np.any(wanted["spike"])
    for mode in ("m", "s"):
        reset_net(net)
        set_step_mode(net, mode)
        with Monitor(net, ["v", "i", "spike"]) as monitor, grilly.no_grad():
            _ = net(X) if mode == "m" else [net(step) for step in X]
        assert monitor.num_recordings == 6
        assert monitor.layers("v") == ["1", "3"] and monitor.layers("i") == ["1"]
        assert monitor.get("i").shape == (6, 2, 5)
        for name, values in wanted.items():
            np.testing.assert_array_equal(monitor.get(name, "1"), np.stack(values))
        assert [layer for layer, _ in monitor.items("spike")] == ["1", "3"]
        reset_net(net)
        net(X if mode == "m" else X[0])
        assert monitor.num_recordings == 6, "left: nothing is recorded any more"
        assert not net[1].store_v_seq


def test_a_monitor_records_by_hand_and_forgets():
    node = nn.LIFNode()
    monitor = Monitor(node)
    monitor.record()
    assert monitor.num_recordings == 0
    node(grilly.full((2, 3), 0.3).requires_grad_())
    monitor.disable()
    node(grilly.full((2, 3), 0.3))
    monitor.record()
    np.testing.assert_allclose(monitor.get("v")[:, 0, 0], [0.3, 0.45])
    monitor.reset()
    with pytest.raises(ValueError, match="nothing of 'v' has been recorded"):
        monitor.get("v")


def test_bad_requests_to_a_monitor():
    net = network()
    with pytest.raises(ValueError, match="no module has a variable 'w'; there are i, spike, v"):
        Monitor(net, ["w"])
    with pytest.raises(TypeError, match="received a string"):
        Monitor(net, "v")
    monitor = Monitor(net, ["v"])
    with pytest.raises(ValueError, match="is not recorded"):
        monitor.get("spike")
    with pytest.raises(ValueError, match=r"in the layers \['1', '3'\]"):
        monitor.get("v")
    net(X[0])
    reset_net(net)
    net(X[0, :1])
    with pytest.raises(ShapeError, match="reset"):
        monitor.get("v", "1")


def test_gradients_go_through_a_state_that_was_kept_over_calls():
    """A recorded scan gives the gradient of one that is not recorded."""
    found = []
    for kept in (False, True):
        node = nn.LIFNode(step_mode="m", store_v_seq=kept)
        x = grilly.full((3, 2, 2), 0.3).requires_grad_()
        node(x)
        node(grilly.full((2, 2, 2), 0.4)).sum().backward()
        found.append(x.grad.numpy())
    assert found[0].any()
    np.testing.assert_allclose(found[1], found[0], rtol=1e-6)


def test_statistics_count_dead_and_saturated_neurons():
    spikes = np.zeros((8, 2, 4), np.float32)
    spikes[:, :, 1], spikes[::2, :, 2], spikes[0, 0, 3] = 1, 1, 1
    found = firing_rate_statistics(grilly.asarray(spikes))
    np.testing.assert_allclose(found.rates, [0, 1, 0.5, 1 / 16])
    assert found.dead.tolist() == [0] and found.saturated.tolist() == [1]
    assert firing_rate_statistics(spikes, dead=0.1).dead.tolist() == [0, 3]
    with pytest.raises(ShapeError, match="T, B"):
        firing_rate_statistics(spikes[0])
    with pytest.raises(ValueError, match="dead < saturated"):
        firing_rate_statistics(spikes, dead=1.0, saturated=0.5)


def test_plots_show_the_data_they_were_given(tmp_path):
    pytest.importorskip("matplotlib")
    spikes = (X > 0.5).astype(np.float32)
    line = plots.plot_spike_raster(spikes, sample=1, dt=0.5).lines[0]
    times, neurons = np.nonzero(spikes[:, 1])
    np.testing.assert_array_equal(line.get_xdata(), times * 0.5)
    np.testing.assert_array_equal(line.get_ydata(), neurons)
    drawn = plots.plot_membrane_potential(grilly.asarray(X), 0.7, spikes=spikes, neurons=[2]).lines
    np.testing.assert_array_equal(drawn[0].get_ydata(), X[:, 0, 2])
    np.testing.assert_array_equal(drawn[1].get_xdata(), np.flatnonzero(spikes[:, 0, 2]))
    rate = plots.plot_firing_rate(spikes, window=3).lines[0].get_ydata()
    mean = spikes.reshape(6, -1).mean(1)
    np.testing.assert_allclose(rate, [mean[max(0, i - 1) : i + 2].mean() for i in range(6)], rtol=1e-6)
    left, right = plots.plot_stdp_window(0.01, 0.02, 5.0, 5.0, reach=4).lines[:2]
    np.testing.assert_allclose(right.get_ydata(), 0.01 * np.exp(-np.arange(1, 5) / 5.0), rtol=1e-5)
    np.testing.assert_allclose(left.get_ydata(), -0.02 * np.exp(np.arange(-4, 0) / 5.0), rtol=1e-5)
    weights = np.arange(12.0).reshape(3, 4)
    shown = plots.plot_receptive_fields(weights, (2, 2), titles="abc").axes
    np.testing.assert_array_equal(shown[2].images[0].get_array(), weights[2].reshape(2, 2))
    for wrong in (
        lambda: plots.plot_receptive_fields(weights, (3, 3)),
        lambda: plots.plot_spike_raster(X[0, 0]),
    ):
        with pytest.raises(ShapeError, match="received"):
            wrong()


def test_the_visualizer_keeps_the_last_steps_and_draws(tmp_path):
    pytest.importorskip("matplotlib")
    seen = SNNVisualizer(max_history=3)
    for step in X:
        seen.update(step > 0.5, step)
    np.testing.assert_array_equal(seen.spikes, X[3:, 0] > 0.5)
    seen.save(tmp_path / "a.png", threshold=0.5)
    assert (tmp_path / "a.png").read_bytes()[:4] == b"\x89PNG"
    with pytest.raises(ValueError, match="at every step or at none"):
        seen.update(X[0])
    with pytest.raises(ShapeError, match="4 neurons so far"):
        seen.update(np.ones(5), np.ones(5))
    with pytest.raises(ValueError, match="max_history"):
        SNNVisualizer(0)


def test_without_matplotlib_a_plot_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(MissingPluginError, match=r"grilly_ext_snn\[plot\]"):
        plots.plot_spike_raster(X[:, 0])
