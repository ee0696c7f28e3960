"""Optimiser steps over lists of parameters. Outputs may be the inputs themselves (donated) or fresh."""

from __future__ import annotations

import importlib
import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from grilly_backend_cpu.fast import optim as fast
from grilly_backend_cpu.kernels.support import FAST, WIDE, WIDENED
from grilly_backend_cpu.quiet import quietly

__all__ = ["AdamScalars", "SgdScalars", "keep", "register"]

Array = NDArray[Any]


class SgdScalars(NamedTuple):
    """The numbers of one step of stochastic gradient descent."""

    lr: float
    momentum: float
    undamped: float  # 1 - dampening
    weight_decay: float
    sign: float  # -1 to maximise
    nesterov: bool
    first: bool


class AdamScalars(NamedTuple):
    """The numbers of one step of Adam, bias corrections included."""

    rate: float  # lr / (1 - beta1**step)
    root: float  # 1 / sqrt(1 - beta2**step)
    keep: float  # 1 - lr * weight_decay if decoupled
    weight_decay: float  # if coupled
    beta1: float
    beta2: float
    eps: float
    sign: float  # -1 to maximise


def _groups(views: Any, n: int, count: int) -> list[list[Array]]:
    return [[v.array for v in views[i * n : (i + 1) * n]] for i in range(count)]


def _sgd_scalars(lr: float, attrs: dict[str, Any]) -> SgdScalars:
    return SgdScalars(
        lr, attrs["momentum"], 1 - attrs["dampening"], attrs["weight_decay"], -1.0 if attrs["maximize"] else 1.0,
        attrs["nesterov"], attrs["first"],
    )  # fmt: skip


def _adam_scalars(lr: float, step: float, attrs: dict[str, Any]) -> AdamScalars:
    beta1, beta2, decay = attrs["beta1"], attrs["beta2"], attrs["weight_decay"]
    decoupled = attrs["decoupled"]
    return AdamScalars(
        lr / (1 - beta1**step), 1 / math.sqrt(1 - beta2**step), 1 - lr * decay if decoupled else 1.0,
        0.0 if decoupled else decay, beta1, beta2, attrs["eps"], -1.0 if attrs["maximize"] else 1.0,
    )  # fmt: skip


def sgd_step(stream: Any, outs: Any, ins: Any, attrs: dict[str, Any], update: Any) -> None:
    """Hand each parameter with its gradient (and momentum) to `update`."""
    n = attrs["n"]
    scalars = _sgd_scalars(float(ins[-2].array), attrs)
    lists = 2 if len(outs) > n else 1
    sources, targets = _groups(ins, n, 1 + lists), _groups(outs, n, lists)
    for tensors in zip(*sources, *targets, strict=True):
        if tensors[0].size:
            update(tensors, scalars)


def adam_step(stream: Any, outs: Any, ins: Any, attrs: dict[str, Any], update: Any) -> None:
    """Hand each parameter with its gradient and moments to `update`."""
    n = attrs["n"]
    scalars = _adam_scalars(float(ins[-3].array), float(ins[-2].array), attrs)
    lists = len(outs) // n if n else 0
    sources, targets = _groups(ins, n, 1 + lists), _groups(outs, n, lists)
    for tensors in zip(*sources, *targets, strict=True):
        if tensors[0].size:
            update(tensors, scalars)


def _sgd_numpy(tensors: Any, s: SgdScalars) -> None:
    p, g, *rest = tensors
    g = s.sign * g
    if s.weight_decay:
        g = g + s.weight_decay * p
    if len(rest) == 3:
        momentum, new_p, new_momentum = rest
        m = g if s.first else s.momentum * momentum + s.undamped * g
        np.copyto(new_momentum, m)
        g = g + s.momentum * m if s.nesterov else m
    else:
        (new_p,) = rest
    np.subtract(p, s.lr * g, new_p)


def _adam_numpy(tensors: Any, s: AdamScalars) -> None:
    p, g, m, v, *vmax = tensors[: len(tensors) // 2 + 1]
    new_p, new_m, new_v, *new_vmax = tensors[len(tensors) // 2 + 1 :]
    g = s.sign * g + s.weight_decay * p if s.weight_decay else s.sign * g
    np.add(m, (1 - s.beta1) * (g - m), new_m)
    np.add(s.beta2 * v, (1 - s.beta2) * (g * g), new_v)
    top = new_v
    if vmax:
        top = np.maximum(vmax[0], new_v, out=new_vmax[0])
    np.subtract(s.keep * p, s.rate * (new_m / (np.sqrt(top) * s.root + s.eps)), new_p)


def keep(outs: Any, ins: Any, n: int) -> None:
    """Leave everything as it was: parameters, and the states after the gradients."""
    old = [*ins[:n], *ins[2 * n : n + len(outs)]]
    for target, source in zip(outs, old, strict=True):
        if target.array is not source.array:
            np.copyto(target.array, source.array)


def _kernel(step: Any, update: Any) -> Any:
    @quietly
    def kernel(stream: Any, outs: Any, ins: Any, attrs: dict[str, Any]) -> None:
        skip = ins[-1]
        if skip is not None and skip.array != 0:
            keep(outs, ins, attrs["n"])
        else:
            step(stream, outs, ins, attrs, update)

    return kernel


def register(kernels: Any, runtime: Any) -> None:
    """Declare the kernels of this module."""
    kernels.add("optim.sgd_step", _kernel(sgd_step, _sgd_numpy), dtypes=WIDE, compute=WIDENED)
    kernels.add("optim.adam_step", _kernel(adam_step, _adam_numpy), dtypes=WIDE, compute=WIDENED)
    if runtime.has_numba:
        how = {"dtypes": {"f32"}, "layout": "contiguous", "priority": FAST}
        kernels.add("optim.sgd_step", _kernel(sgd_step, fast.sgd), **how)
        kernels.add("optim.adam_step", _kernel(adam_step, fast.adam), **how)
        importlib.import_module("grilly_backend_cpu.kernels.optim_rates").register(kernels, runtime)
