"""Neurons in physical units against their equations in a NumPy loop."""

from __future__ import annotations

import numpy as np
import pytest

import grilly
from grilly_core.errors import ShapeError
from grilly_ext_snn.nn.physical import GIFNeuron, LIFNeuron, SNNLayer


def loop(current, dt, tau, theta, period, tau_adapt=1.0, jump=0.0, b=0.0):
    v, a, wait, out = np.zeros(current.shape[1:]), 0.0, np.zeros(current.shape[1:]), []
    for i in current:
        held = wait > 0
        h = np.where(held, 0.0, v + dt * (i - v) / tau - dt * b * a)
        s = (~held & (h >= theta)).astype(float)
        v, wait = np.where(s > 0, 0.0, h), np.where(s > 0, period, np.maximum(wait - dt, 0))
        a = a - dt * a / tau_adapt + jump * s
        out.append(s)
    return np.array(out)


def test_lif_and_gif_are_their_equations_with_times_in_milliseconds():
    current = np.random.default_rng(0).random((200, 3, 4)) * 4
    given = grilly.asarray(current, dtype="float64")
    lif = LIFNeuron(4, dt=0.0005, tau_mem=10.0, t_refrac_period=3.0, step_mode="m")
    wanted = loop(current, 0.5, 10.0, 1.0, 3.0)
    assert wanted.sum() > 10
    np.testing.assert_array_equal(lif(given).numpy(), wanted)
    same = LIFNeuron(4, dt=0.5, tau_mem=10.0, t_refrac_period=3.0, time_unit="ms", step_mode="m")
    np.testing.assert_array_equal(same(given).numpy(), wanted)
    gif = GIFNeuron(
        4, dt=0.0005, tau_mem=10.0, tau_adapt=40.0, adaptation_strength=0.5, b_adapt=0.05, step_mode="m"
    )
    adapted = loop(current, 0.5, 10.0, 1.0, 2.0, 40.0, 0.5, 0.05)
    np.testing.assert_array_equal(gif(given).numpy(), adapted)
    assert adapted.sum() < loop(current, 0.5, 10.0, 1.0, 2.0).sum()


def test_snn_12_a_period_of_two_steps():
    """V' = .5 V + 1 by tau = 2 dt and r I = 2; the membrane is held for two steps after a spike."""
    neuron = LIFNeuron(
        1, dt=1.0, tau_mem=2.0, v_thresh=1.2, t_refrac_period=2.0, time_unit="ms", step_mode="m"
    )
    spikes = neuron(grilly.full((12, 1), 2.0))[:, 0].tolist()
    assert spikes == [0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0]


def test_steps_state_and_bad_input():
    neuron = LIFNeuron(4)
    spikes = neuron(grilly.full((2, 4), 30.0))
    assert spikes.numpy().all() and (neuron.refractory.detach().numpy() == 2.0).all()
    assert not neuron(grilly.full((2, 4), 30.0)).numpy().any()
    with pytest.raises(ShapeError, match="reset"):
        neuron(grilly.ones((3, 4)))
    neuron.reset()
    assert neuron.membrane is None and neuron(grilly.ones(4)).shape == (4,)
    assert not neuron.state_dict()
    layer = SNNLayer(3, 5, tau_mem=5.0)
    layer(grilly.ones((2, 3))).sum().backward()
    assert layer.linear.weight.grad is not None
    for make, message in (
        (lambda: LIFNeuron(4)(grilly.ones(5)), "4 neurons"),
        (lambda: LIFNeuron(4, dt=0.001, tau_mem=-1.0), "tau_mem"),
        (lambda: LIFNeuron(4, dt=1.0), "at most tau_mem"),
        (lambda: LIFNeuron(4, time_unit="h"), "time_unit"),
        (lambda: SNNLayer(3, 5, 4), "out_features"),
    ):
        with pytest.raises((ShapeError, ValueError), match=message):
            make()
