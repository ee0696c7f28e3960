"""Gradients of every neuron through time, by finite differences of the smoothed neuron in float64.

Smoothed, a spike is the integral of its surrogate gradient, and a choice by a spike is a mixture; what is kept from
gradients on purpose (``stop``) keeps the value that it had. The recorded backward program, run under the same rules,
must be the derivative.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

from grilly_ext_snn.neurons.model import neuron_of
from grilly_ext_snn.neurons.running import run
from grilly_ext_snn.ops.scans import NAMES, _constants

STEPS, ALPHA = 5, 2.0
#: Input scale, and what makes the smoothed neuron lively rather than far from its threshold.
SCALE = {"izhikevich": 8.0, "adex": 500.0}
CASES = [
    (name, reset)
    for name in NAMES
    for reset in ("hard", "soft", "none")
    if reset == "hard" or neuron_of(name).resets_softly
]
SMOOTH = {
    "spike": lambda d: math.atan(0.5 * math.pi * ALPHA * d) / math.pi + 0.5,
    "spike_strict": lambda d: math.atan(0.5 * math.pi * ALPHA * d) / math.pi + 0.5,
    "surrogate": lambda d: 0.5 * ALPHA / (1.0 + (0.5 * math.pi * ALPHA * d) ** 2),
    "above": lambda a, b: float(a > b),
    "mix": lambda s, a, b: s * a + (1.0 - s) * b,
}


def simulate(neuron, known, x, states, stops=None):
    """Return the loss, the states before each step, and the stopped values; given some, they are used again."""
    kept, seen, total = [], [], 0.0
    again = iter(stops or ())

    def stop(value):
        seen.append(next(again) if stops is not None else value)
        return seen[-1]

    for t, now in enumerate(x):
        kept.append(states)
        values = {**known, "x": now, **dict(zip(neuron.states, states, strict=True))}
        spike, *states = run(neuron.forward, neuron.forward.outputs, values, {**SMOOTH, "stop": stop})
        total += (t + 1.0) * spike
    return total + 0.3 * sum(states), kept, seen


def pull_back(neuron, known, x, kept):
    """Return the gradients of the inputs, the first states and the learnt constants."""
    g_states, gx = [0.3] * len(neuron.states), [0.0] * len(x)
    learnt = [0.0] * len(neuron.tensors)
    for t in reversed(range(len(x))):
        values = {**known, "x": x[t], **dict(zip(neuron.states, kept[t], strict=True)), "g_spike": t + 1.0}
        values |= {f"g_{s}": g for s, g in zip(neuron.states, g_states, strict=True)}
        gx[t], *rest = run(neuron.backward, neuron.backward.outputs, values, SMOOTH)
        g_states = rest[: len(neuron.states)]
        learnt = [a + b for a, b in zip(learnt, rest[len(neuron.states) :], strict=True)]
    return [*gx, *g_states, *learnt]


@pytest.mark.parametrize(("name", "reset"), CASES)
def test_gradients_through_time_are_the_derivatives_of_the_smoothed_neuron(name, reset):
    neuron = neuron_of(name)
    attrs = {**neuron.attrs, "reset": reset}
    known = {**_constants(neuron, attrs), **dict.fromkeys(neuron.tensors, 0.4)}
    rng = np.random.default_rng(0)
    x = list(rng.random(STEPS) * SCALE.get(name, 1.3))
    rest = {"izhikevich": [-62.0, -13.0], "adex": [-60.0, 5.0]}
    states = rest.get(name, [0.2, 0.1, 0.05][: len(neuron.states)])
    if name in ("lif_refractory", "gif"):
        states = [*states[:-1], 0.0]  # waiting neurons would not move
    _, kept, stops = simulate(neuron, known, x, states)
    found = pull_back(neuron, known, x, kept)
    at = [*x, *states, *[known[n] for n in neuron.tensors]]
    held = {STEPS + i for i, s in enumerate(neuron.states) if s == "wait"}

    def loss(values):
        moved = {**known, **dict(zip(neuron.tensors, values[STEPS + len(states) :], strict=True))}
        return simulate(neuron, moved, values[:STEPS], values[STEPS : STEPS + len(states)], stops)[0]

    assert any(abs(g) > 1e-6 for g in found[:STEPS])
    for i, value in enumerate(at):
        if i in held:
            continue  # time is counted in whole steps, not differentiated
        h = 1e-6 * max(1.0, abs(value))
        plus, minus = ([*at[:i], value + d, *at[i + 1 :]] for d in (h, -h))
        numeric = (loss(plus) - loss(minus)) / (2 * h)
        assert found[i] == pytest.approx(numeric, rel=2e-5, abs=1e-7), (i, found[i], numeric)
