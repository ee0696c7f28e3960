"""Synaptic filters over time: leaky sums, and short-term plasticity. Time is the first axis; differentiable."""

from __future__ import annotations

from typing import Any

from grilly_core.errors import ShapeError
from grilly_core.ops.structure import stack, unstack
from grilly_core.opspec import op
from grilly_core.tensor import Tensor

__all__ = ["short_term_plasticity", "synapse_filter"]

Samples = Any


def _check(name: str, x: Tensor, *states: Tensor) -> None:
    wrong = [tuple(state.shape) for state in states if tuple(state.shape) != tuple(x.shape[1:])]
    if x.ndim < 1 or x.shape[0] < 1 or wrong:
        raise ShapeError(
            f"{name}: expected inputs (T, ...) of at least one step and states of one step's shape; received "
            f"{tuple(x.shape)} and {wrong or [tuple(s.shape) for s in states]}."
        )


@op("snn.synapse_filter")
def synapse_filter(x: Tensor, state: Tensor, decay: Tensor) -> tuple[Tensor, Tensor]:
    """``y[t] = decay y[t - 1] + x[t]`` from ``y[-1] = state``; returns all ``y`` and the last one.

    `decay` is a number, or has one for each element of a step.
    """
    _check("synapse_filter", x, state)
    y, ys = state, []
    for now in unstack(x):
        y = y * decay + now
        ys.append(y)
    return stack(ys, axis=0), y


@synapse_filter.samples
def _(s: Samples) -> None:
    s.case(s.f32(4, 2, 3), s.f32(2, 3), s.array(s.f32(1)[0]))
    s.case(s.f32(3, 2, 3), s.f32(2, 3), s.f32(3, low=0.1, high=0.9))
    s.case(s.f32(1, 5), s.f32(5), s.array(s.f32(1)[0]))
    s.error(ShapeError, "one step", s.f32(3, 2), s.f32(3), s.f32(2))


@op("snn.short_term_plasticity")
def short_term_plasticity(
    x: Tensor, u: Tensor, r: Tensor, *, baseline: float = 0.2, rate_f: float = 0.05, rate_d: float = 0.005
) -> tuple[Tensor, Tensor, Tensor]:
    """Facilitation u and depression r (Tsodyks and Markram 1997); returns ``x u r``, and both states.

    ``u+ = u + (U - u) / tau_f + U (1 - u) x``; the release is ``x u+ r``, and ``r`` loses it after recovering by
    ``(1 - r) / tau_d``. `rate_f` and `rate_d` are ``1 / tau`` in steps.
    """
    _check("short_term_plasticity", x, u, r)
    ys = []
    for now in unstack(x):
        u = u + rate_f * (baseline - u) + baseline * (1.0 - u) * now
        released = now * u * r
        r = r + rate_d * (1.0 - r) - released
        ys.append(released)
    return stack(ys, axis=0), u, r


@short_term_plasticity.samples
def _(s: Samples) -> None:
    states = s.f32(2, 3, low=0.0, high=1.0), s.f32(2, 3, low=0.0, high=1.0)
    s.case(s.f32(4, 2, 3, low=0.0, high=1.0), *states)
    s.case(s.f32(2, 2, 3, low=0.0, high=1.0), *states, baseline=0.5, rate_f=0.2, rate_d=0.1)
    s.error(ShapeError, "one step", s.f32(3, 2), s.f32(3), s.f32(2))
