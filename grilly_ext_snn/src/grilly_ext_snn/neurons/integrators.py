"""Integrate-and-fire neurons of one membrane: charge, fire, reset, all within a step.

A spike is fired where the charged membrane ``H`` reaches the threshold, and the reset follows in the same step:
hard ``V = (1 - S) H + S V_reset``, soft ``V = H - S threshold``, none ``V = H``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from grilly_ext_snn.neurons.expressions import Expr, above, maximum, mix, select, spike, stop
from grilly_ext_snn.neurons.model import neuron

__all__ = ["adaptive_lif", "gif", "integrate", "leaky_integrate", "lif_refractory", "parametric_lif"]

Step = tuple[Expr, ...]


def detached(s: Expr, p: Any) -> Expr:
    """Return the spike as the reset sees it."""
    return select(p.detach, stop(s), s)


def after(h: Expr, s: Expr, p: Any) -> Expr:
    """Return the membrane after the reset."""
    return select(p.free, h, mix(detached(s, p), select(p.soft, h - p.threshold, p.reset), h))


def _charged(x: Expr, v: Expr, p: Any) -> Expr:
    leak = v - p.rest
    return select(p.decay_input, v + (x - leak) * p.rate, v - leak * p.rate + x)


def _rest(attrs: Mapping[str, Any]) -> float:
    """The membrane leaks to the value of a hard reset, else to 0."""
    return float(attrs["v_reset"]) if attrs["reset"] == "hard" else 0.0


@neuron("if", "v", "threshold reset")
def integrate(x: Expr, v: Expr, p: Any) -> Step:
    """Integrate and fire: ``H = V + X``."""
    h = v + x
    s = spike(h - p.threshold)
    return s, after(h, s, p)


@neuron(
    "lif", "v", "rate rest threshold reset", flags="decay_input", positive="tau", tau=2.0, decay_input=False,
    numbers=lambda a: {"rate": 1.0 / a["tau"], "rest": _rest(a)},
)  # fmt: skip
def leaky_integrate(x: Expr, v: Expr, p: Any) -> Step:
    """Leaky integrate and fire: ``H = V - (V - V_rest) / tau + X``, with `decay_input` ``X / tau``."""
    h = _charged(x, v, p)
    s = spike(h - p.threshold)
    return s, after(h, s, p)


@neuron(
    "plif", "v", "rest threshold reset", tensors="rate", flags="decay_input", decay_input=False,
    numbers=lambda a: {"rest": _rest(a)},
)  # fmt: skip
def parametric_lif(x: Expr, v: Expr, p: Any) -> Step:
    """Leaky integrate and fire with ``rate = 1 / tau`` as a tensor that can be learnt (Fang et al. 2021)."""
    h = _charged(x, v, p)
    s = spike(h - p.threshold)
    return s, after(h, s, p)


@neuron(
    "alif", "v a", "rate rest keep strength threshold reset", flags="decay_input", positive="tau tau_adapt",
    tau=2.0, tau_adapt=100.0, beta=0.1, decay_input=False,
    numbers=lambda a: {
        "rate": 1.0 / a["tau"], "rest": _rest(a), "keep": 1.0 - 1.0 / a["tau_adapt"], "strength": a["beta"],
    },
)  # fmt: skip
def adaptive_lif(x: Expr, v: Expr, a: Expr, p: Any) -> Step:
    """Leaky integrate and fire with a threshold that rises by each spike: ``threshold + beta A``.

    ``A' = (1 - 1/tau_adapt) A + S`` (Bellec et al. 2018, 2020); a soft reset takes the resting threshold off.
    """
    h = _charged(x, v, p)
    s = spike(h - (p.threshold + p.strength * a))
    return s, after(h, s, p), p.keep * a + detached(s, p)


def _waiting(wait: Expr, p: Any) -> Expr:
    """Whether a neuron is refractory; what rounding leaves of a period over is no step."""
    return above(wait, p.dt * 0.015625)


def _wait_after(wait: Expr, s: Expr, p: Any) -> Expr:
    return mix(stop(s), p.period, maximum(wait - p.dt, 0.0))


def _leak_numbers(a: Mapping[str, Any]) -> dict[str, float]:
    return {
        "dt": a["dt"],
        "rate": a["dt"] / a["tau"],
        "rest": a["v_rest"],
        "r": a["r_mem"],
        "period": a["t_refrac"],
    }


@neuron(
    "lif_refractory", "v wait", "rate rest r dt period threshold reset", positive="dt tau",
    dt=1.0, tau=20.0, v_rest=0.0, r_mem=1.0, t_refrac=2.0, numbers=_leak_numbers,
)  # fmt: skip
def lif_refractory(x: Expr, v: Expr, wait: Expr, p: Any) -> Step:
    """Leaky integrate and fire with a refractory period; `dt`, `tau` and `t_refrac` in one unit.

    While ``wait > 0`` the membrane stays at `v_reset` and ``wait' = max(wait - dt, 0)``; else
    ``H = V + dt (r_mem X - (V - v_rest)) / tau``. A spike sets wait to `t_refrac`.
    """
    held = _waiting(wait, p)
    h = select(held, p.reset, v + (p.r * x - (v - p.rest)) * p.rate)
    s = select(held, 0.0, spike(h - p.threshold))
    return s, after(h, s, p), _wait_after(wait, s, p)


@neuron(
    "gif", "v a wait", "rate rest r dt period keep jump coupling threshold reset", positive="dt tau tau_adapt",
    dt=1.0, tau=20.0, tau_adapt=100.0, v_rest=0.0, r_mem=1.0, delta_adapt=0.1, b_adapt=0.02, t_refrac=2.0,
    numbers=lambda a: _leak_numbers(a) | {
        "keep": 1.0 - a["dt"] / a["tau_adapt"], "jump": a["delta_adapt"], "coupling": a["dt"] * a["b_adapt"],
    },
)  # fmt: skip
def gif(x: Expr, v: Expr, a: Expr, wait: Expr, p: Any) -> Step:
    """Generalised integrate and fire: `lif_refractory` with a current that each spike raises by `delta_adapt`.

    ``H = V + dt (r_mem X - (V - v_rest)) / tau - dt b_adapt A``; ``A' = (1 - dt / tau_adapt) A + delta_adapt S``.
    """
    held = _waiting(wait, p)
    h = select(held, p.reset, v + (p.r * x - (v - p.rest)) * p.rate - p.coupling * a)
    s = select(held, 0.0, spike(h - p.threshold))
    return s, after(h, s, p), p.keep * a + p.jump * detached(s, p), _wait_after(wait, s, p)
