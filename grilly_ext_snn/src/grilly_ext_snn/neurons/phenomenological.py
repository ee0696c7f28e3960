"""Two-variable neurons with a nonlinear upstroke, integrated by explicit Euler steps; their reset is always hard."""

from __future__ import annotations

from typing import Any

from grilly_ext_snn.neurons.expressions import Expr, exp, minimum, mix, spike
from grilly_ext_snn.neurons.integrators import detached
from grilly_ext_snn.neurons.model import neuron

__all__ = ["adex", "izhikevich"]

Step = tuple[Expr, ...]


@neuron(
    "izhikevich", "v u", "dt a b d threshold reset", positive="dt", dt=1.0, a=0.02, b=0.2, d=8.0,
    v_threshold=30.0, v_reset=-65.0,
    numbers=lambda a: {n: a[n] for n in ("dt", "a", "b", "d")},
)  # fmt: skip
def izhikevich(x: Expr, v: Expr, u: Expr, p: Any) -> Step:
    """Izhikevich's neuron (2003): ``v' = 0.04 v² + 5 v + 140 - u + X``, ``u' = a (b v - u)``, in mV and ms.

    Where the new v reaches `v_threshold` it becomes `v_reset`, and u rises by `d`.
    """
    h = v + p.dt * (v * v * 0.04 + v * 5.0 + 140.0 - u + x)
    recovered = u + p.dt * p.a * (p.b * v - u)
    s = spike(h - p.threshold)
    reset = detached(s, p)
    return s, mix(reset, p.reset, h), recovered + p.d * reset


@neuron(
    "adex", "v w", "speed leak rest knee slope peak recovery a b threshold reset",
    positive="dt capacitance leak delta_t tau_w", dt=0.1, capacitance=281.0, leak=30.0, v_rest=-70.6, v_knee=-50.4,
    delta_t=2.0, tau_w=144.0, a=4.0, b=80.5, v_threshold=20.0, v_reset=-70.6,
    numbers=lambda a: {
        "speed": a["dt"] / a["capacitance"], "leak": a["leak"], "rest": a["v_rest"], "knee": a["v_knee"],
        "slope": a["delta_t"], "peak": (a["v_threshold"] - a["v_knee"]) / a["delta_t"],
        "recovery": a["dt"] / a["tau_w"], "a": a["a"], "b": a["b"],
    },
)  # fmt: skip
def adex(x: Expr, v: Expr, w: Expr, p: Any) -> Step:
    """Adaptive exponential neuron (Brette and Gerstner 2005), in mV, ms, pA, nS and pF.

    ``C v' = -g (v - E) + g D exp((v - V_T) / D) - w + X``, ``tau_w w' = a (v - E) - w``; at `v_threshold` v becomes
    `v_reset` and w rises by `b`. The exponent is bounded by its value at the threshold, so a step stays finite.
    """
    upstroke = p.slope * exp(minimum((v - p.knee) / p.slope, p.peak))
    h = v + p.speed * (p.leak * (upstroke - (v - p.rest)) - w + x)
    recovered = w + p.recovery * (p.a * (v - p.rest) - w)
    s = spike(h - p.threshold)
    reset = detached(s, p)
    return s, mix(reset, p.reset, h), recovered + p.b * reset
