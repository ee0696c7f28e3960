"""Optimiser steps: one op for all parameters of a group, so that a device can run them in one launch.

The learning rate and the step number are 0-d tensors, so a captured step sees their changes.
"""

from __future__ import annotations

from typing import Any

from grilly_core.errors import ShapeError
from grilly_core.ops._typing import Samples
from grilly_core.ops.optim_adaptive import (
    adadelta_step,
    adagrad_step,
    asgd_step,
    fisher_step,
    nlms_step,
    rmsprop_step,
    rprop_step,
)
from grilly_core.ops.optim_moments import (
    adamax_step,
    direction_power,
    hypergradient_rate,
    nadam_step,
    radam_step,
)
from grilly_core.ops.optim_rules import check_lists, correction, like, unless
from grilly_core.ops.primitives import cast, isnan, maximum, sqrt, sum
from grilly_core.opspec import TensorList, op
from grilly_core.tensor import Tensor

__all__ = [
    "adadelta_step", "adagrad_step", "adam_step", "adamax_step", "asgd_step", "direction_power", "fisher_step",
    "hypergradient_rate", "nadam_step", "nlms_step", "radam_step", "rmsprop_step", "rprop_step", "sgd_step", "unscale",
]  # fmt: skip


@op("optim.unscale", nondiff=True, donates={"grads": "grads"})
def unscale(grads: TensorList, scale: Tensor | None = None) -> tuple[Tensor, ...]:
    """Return the gradients divided by `scale` (0-d, float32), then 1.0 if one of these is not finite, else 0.0."""
    assert scale is not None
    inverse = 1.0 / scale
    total = scale * 0.0
    unscaled = [g * inverse for g in grads]
    for g in unscaled:  # 0 times what is not finite is NaN
        total = total + sum(g * 0.0)
    return (
        *[like(u, g) for u, g in zip(unscaled, grads, strict=True)],
        cast(isnan(total), dtype=scale.dtype),
    )


@unscale.samples
def _(s: Samples) -> None:
    scale = s.f32(low=3.0, high=5.0)
    s.case([s.f32(3, 4), s.f32(5)], scale)


@op("optim.sgd_step", nondiff=True, donates={"params": "params", "momenta": "momenta"})
def sgd_step(
    params: TensorList,
    grads: TensorList,
    momenta: TensorList | None = None,
    lr: Tensor | None = None,
    skip: Tensor | None = None,
    *,
    momentum: float = 0.0,
    dampening: float = 0.0,
    nesterov: bool = False,
    weight_decay: float = 0.0,
    maximize: bool = False,
    first: bool = False,
) -> tuple[Tensor, ...]:
    """One step of stochastic gradient descent; returns the new parameters, then the new momenta.

    `first` starts the momenta from the gradients, undampened. Where `skip` (0-d, float32) is not 0, everything stays.
    """
    assert lr is not None
    check_lists("sgd_step", params, grads=grads, momenta=momenta)
    new_params, new_momenta = [], []
    for i, (p, g) in enumerate(zip(params, grads, strict=True)):
        g = -g if maximize else g
        if weight_decay:
            g = g + weight_decay * p
        if momenta is not None:
            m = g if first else momentum * momenta[i] + (1.0 - dampening) * g
            new_momenta.append(like(m, momenta[i]))
            g = g + momentum * m if nesterov else m
        new_params.append(like(p - lr * g, p))
    return unless(skip, [*params, *(momenta or ())], [*new_params, *new_momenta])


@sgd_step.samples
def _(s: Samples) -> None:
    lr = s.f32(low=0.05, high=0.1)

    def some() -> list[Any]:
        return [s.f32(3, 4), s.f32(5)]

    s.case(some(), some(), None, lr, weight_decay=0.1)
    s.case(some(), some(), None, lr, maximize=True)
    s.case(some(), some(), some(), lr, momentum=0.9, dampening=0.2, weight_decay=0.1)
    s.case(some(), some(), some(), lr, momentum=0.9, nesterov=True)
    s.case(some(), some(), some(), lr, momentum=0.9, first=True)
    for skip in (0.0, 1.0):
        s.case(some(), some(), some(), lr, s.f32(low=skip, high=skip), momentum=0.9)
    s.error(ShapeError, "params", [s.f32(3)], [s.f32(4)], None, lr)


@op(
    "optim.adam_step",
    nondiff=True,
    donates={"params": "params", "ms": "ms", "vs": "vs", "vmaxs": "vmaxs"},
)
def adam_step(
    params: TensorList,
    grads: TensorList,
    ms: TensorList,
    vs: TensorList,
    vmaxs: TensorList | None = None,
    lr: Tensor | None = None,
    step: Tensor | None = None,
    skip: Tensor | None = None,
    *,
    beta1: float = 0.9,
    beta2: float = 0.999,
    eps: float = 1e-8,
    weight_decay: float = 0.0,
    decoupled: bool = False,
    maximize: bool = False,
) -> tuple[Tensor, ...]:
    """One step of Adam; returns the new parameters, first moments, second moments and their maxima.

    `step` counts from 1. Weight decay is added to the gradient, or taken off the parameter (`decoupled`,
    AdamW). With `vmaxs` the largest second moment so far divides (AMSGrad). Where `skip` (0-d, float32) is not 0,
    everything stays.
    """
    assert lr is not None and step is not None
    check_lists("adam_step", params, grads=grads, ms=ms, vs=vs, vmaxs=vmaxs)
    rate = lr / correction(step, beta1)
    root = sqrt(correction(step, beta2))
    out: tuple[list[Tensor], ...] = ([], [], [], [])
    for i, (p, g) in enumerate(zip(params, grads, strict=True)):
        g = -g if maximize else g
        new = p
        if weight_decay and decoupled:
            new = p * (1.0 - lr * weight_decay)
        elif weight_decay:
            g = g + weight_decay * p
        m = ms[i] + (1.0 - beta1) * (g - ms[i])
        v = beta2 * vs[i] + (1.0 - beta2) * (g * g)
        top = v if vmaxs is None else maximum(vmaxs[i], v)
        out[0].append(like(new - rate * (m / (sqrt(top) / root + eps)), p))
        out[1].append(like(m, ms[i]))
        out[2].append(like(v, vs[i]))
        if vmaxs is not None:
            out[3].append(like(top, vmaxs[i]))
    return unless(skip, [*params, *ms, *vs, *(vmaxs or ())], [t for group in out for t in group])


@adam_step.samples
def _(s: Samples) -> None:
    lr, step = s.f32(low=0.01, high=0.1), s.f32(low=3.0, high=3.0)

    def some(low: float = -1.0) -> list[Any]:
        return [s.f32(3, 4, low=low), s.f32(5, low=low)]

    s.case(some(), some(), some(), some(0.1), None, lr, step, weight_decay=0.1)
    s.case(some(), some(), some(), some(0.1), None, lr, step, weight_decay=0.1, decoupled=True)
    s.case(some(), some(), some(), some(0.1), some(0.1), lr, step, beta1=0.8, beta2=0.99, maximize=True)
    for skip in (0.0, 1.0):
        s.case(
            some(), some(), some(), some(0.1), None, lr, step, s.f32(low=skip, high=skip), weight_decay=0.1
        )
    s.error(ShapeError, "params", [s.f32(3)], [s.f32(4)], [s.f32(3)], [s.f32(3)], None, lr, step)
