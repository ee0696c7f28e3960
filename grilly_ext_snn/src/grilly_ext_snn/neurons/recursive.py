"""Neurons written as recursions with decay factors, whose reset acts a step later, as in snnTorch.

The state is the membrane ``U`` before its reset; a spike is fired where ``U > threshold``, strictly, and the next step
starts with the reset that ``R = U > threshold`` asks for. Gradients never pass through R.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from grilly_ext_snn.neurons.expressions import Expr, mix, select, spike_strict, stop
from grilly_ext_snn.neurons.model import neuron

__all__ = ["alpha_current", "lapicque", "leaky", "synaptic"]

Step = tuple[Expr, ...]


def _due(u: Expr, p: Any) -> Expr:
    return stop(spike_strict(u - p.threshold))


def _delayed(base: Expr, u: Expr, p: Any) -> Expr:
    """Return the charged membrane with the reset that the last step asked for."""
    return select(p.free, base, mix(_due(u, p), select(p.soft, base - p.threshold, p.reset), base))


@neuron("leaky", "v", "beta threshold reset", decays="beta", beta=0.9, numbers=lambda a: {"beta": a["beta"]})
def leaky(x: Expr, v: Expr, p: Any) -> Step:
    """First-order leak: ``U' = beta U + X - R threshold``; a hard reset drops the old membrane, not the input."""
    old = select(p.free, v, mix(_due(v, p), select(p.soft, v, p.reset), v))
    charged = p.beta * old + x
    u = select(p.soft, mix(_due(v, p), charged - p.threshold, charged), charged)
    return spike_strict(u - p.threshold), u


def _circuit(a: Mapping[str, Any]) -> dict[str, float]:
    part = a["dt"] / (a["r"] * a["c"])
    if part > 1:
        raise ValueError(
            f"lapicque: dt must be at most r c, or the membrane swings round 0; received {a['dt']} with r c = "
            f"{a['r'] * a['c']}."
        )
    return {"gain": a["r"] * part, "keep": 1.0 - part}


@neuron(
    "lapicque", "v", "gain keep threshold reset", positive="r c dt", r=5.1, c=5e-3, dt=1e-3, numbers=_circuit
)
def lapicque(x: Expr, v: Expr, p: Any) -> Step:
    """A circuit of resistor and capacitor: ``U' = (1 - dt/RC) U + (dt/C) X``; a hard reset drops all of it."""
    u = _delayed(p.gain * x + p.keep * v, v, p)
    return spike_strict(u - p.threshold), u


@neuron(
    "synaptic", "v i", "decay beta threshold reset", decays="current_decay beta", current_decay=0.9, beta=0.8,
    numbers=lambda a: {"decay": a["current_decay"], "beta": a["beta"]},
)  # fmt: skip
def synaptic(x: Expr, v: Expr, i: Expr, p: Any) -> Step:
    """Second order: ``I' = current_decay I + X``, ``U' = beta U + I' - R threshold``; the current is never reset."""
    current = p.decay * i + x
    u = _delayed(p.beta * v + current, v, p)
    return spike_strict(u - p.threshold), u, current


def _alpha_numbers(a: Mapping[str, Any]) -> dict[str, float]:
    rise, fall = a["current_decay"], a["beta"]
    if not 0 < fall < rise < 1:
        raise ValueError(
            f"alpha: expected 0 < beta < current_decay < 1; received beta {fall} and current_decay {rise}."
        )
    scale = math.log(rise) / (math.log(fall) - math.log(rise)) + 1.0
    return {"decay": rise, "fall": fall, "scale": scale, "share": a["v_threshold"] / scale}


@neuron(
    "alpha",
    "v e i",
    "decay fall scale share threshold reset",
    current_decay=0.9,
    beta=0.8,
    numbers=_alpha_numbers,
)
def alpha_current(x: Expr, v: Expr, e: Expr, i: Expr, p: Any) -> Step:
    """The membrane is a difference of two exponentials of the input's past: ``U' = scale (E' + I')``.

    ``E' = current_decay E + X``, ``I' = beta I - X``. A hard reset clears both, a soft one takes ``threshold / scale``
    off E', so that U' is lower by the threshold.
    """
    due = _due(v, p)
    rise, fall = p.decay * e + x, p.fall * i - x
    rise = select(p.free, rise, mix(due, select(p.soft, rise - p.share, p.reset), rise))
    fall = select(p.free, fall, mix(due, select(p.soft, fall, 0.0), fall))
    u = p.scale * (rise + fall)
    return spike_strict(u - p.threshold), u, rise, fall
