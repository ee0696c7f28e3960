"""Optimiser steps besides SGD's and Adam's: the numbers of a step, and one compiled pass for each parameter.

They are declared where Numba is installed; elsewhere, and for other types than float32, the bodies of the ops serve.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import numpy as np

from grilly_backend_cpu.fast.optim import filled
from grilly_backend_cpu.fast.optim_rates import LOOPS
from grilly_backend_cpu.kernels.optim import keep
from grilly_backend_cpu.kernels.support import FAST
from grilly_backend_cpu.quiet import quietly

__all__ = ["register"]

_BLOCK: Final = 65536
Attrs = dict[str, Any]


class Step(NamedTuple):
    """What a step needs to know: its loop, the numbers of that, and the 0-d results."""

    loop: str
    numbers: tuple[float, ...]
    results: tuple[float, ...] = ()


def _sign(attrs: Attrs) -> float:
    return -1.0 if attrs["maximize"] else 1.0


def _coupled(attrs: Attrs) -> float:
    return 0.0 if attrs.get("decoupled") else float(attrs["weight_decay"])


def _kept(attrs: Attrs, lr: float) -> float:
    return 1.0 - lr * attrs["weight_decay"] if attrs.get("decoupled") else 1.0


def _unbiased(beta: float, step: float) -> float:
    return 1.0 - beta**step


def _adamax(attrs: Attrs, lr: float, step: float) -> Step:
    beta1, beta2 = attrs["beta1"], attrs["beta2"]
    rate = lr / _unbiased(beta1, step)
    return Step("adamax", (_sign(attrs), _coupled(attrs), rate, 1.0 - beta1, beta2, attrs["eps"]))


def _nadam(attrs: Attrs, product: float, lr: float, step: float) -> Step:
    beta1, beta2 = attrs["beta1"], attrs["beta2"]
    mu, after = (beta1 * (1.0 - 0.5 * 0.96 ** (t * attrs["momentum_decay"])) for t in (step, step + 1.0))
    product *= mu
    numbers = (
        _sign(attrs), _coupled(attrs), _kept(attrs, lr), lr * (1.0 - mu) / (1.0 - product),
        lr * after / (1.0 - product * after), 1.0 / math.sqrt(_unbiased(beta2, step)), 1.0 - beta1, beta2, 1.0 - beta2,
        attrs["eps"],
    )  # fmt: skip
    return Step("nadam", numbers, (product,))


def _radam(attrs: Attrs, lr: float, step: float) -> Step:
    beta1, beta2 = attrs["beta1"], attrs["beta2"]
    limit, unbiased = 2.0 / (1.0 - beta2) - 1.0, _unbiased(beta2, step)
    rho = limit - 2.0 * step * beta2**step / unbiased
    rectified, factor = rho > 5.0, 0.0
    if rectified:
        share = (rho - 4.0) * (rho - 2.0) * limit / ((limit - 4.0) * (limit - 2.0) * rho)
        factor = math.sqrt(share * unbiased)
    numbers = (
        _sign(attrs), _coupled(attrs), _kept(attrs, lr), lr / _unbiased(beta1, step), float(rectified), factor,
        1.0 - beta1, beta2, 1.0 - beta2, attrs["eps"],
    )  # fmt: skip
    return Step("radam", numbers)


def _adagrad(attrs: Attrs, lr: float, step: float) -> Step:
    rate = lr / (1.0 + (step - 1.0) * attrs["lr_decay"])
    return Step("adagrad", (_sign(attrs), _coupled(attrs), rate, attrs["eps"]))


def _adadelta(attrs: Attrs, lr: float) -> Step:
    rho = attrs["rho"]
    return Step("adadelta", (_sign(attrs), _coupled(attrs), lr, rho, 1.0 - rho, attrs["eps"]))


def _rmsprop(attrs: Attrs, lr: float) -> Step:
    alpha = attrs["alpha"]
    *_, means, momenta = attrs["lengths"]
    loops = ("rmsprop", "rmsprop_momentum", "rmsprop_centered", "rmsprop_both")
    numbers = (_sign(attrs), _coupled(attrs), lr, alpha, 1.0 - alpha, attrs["eps"], attrs["momentum"])
    return Step(loops[2 * (means >= 0) + (momenta >= 0)], numbers)


def _rprop(attrs: Attrs) -> Step:
    return Step("rprop", (_sign(attrs), attrs["shrink"], attrs["grow"], attrs["smallest"], attrs["largest"]))


def _asgd(attrs: Attrs, eta: float, mu: float, lr: float, step: float) -> Step:
    lambd = attrs["lambd"]
    next_eta = lr / (1.0 + lambd * lr * step) ** attrs["alpha"]
    next_mu = 1.0 / max(step - attrs["t0"], 1.0)
    numbers = (_sign(attrs), _coupled(attrs), 1.0 - lambd * eta, eta, mu)
    return Step("asgd", numbers, (next_eta, next_mu))


def _fisher(attrs: Attrs, lr: float, step: float) -> Step:
    kept = attrs["momentum"]
    return Step("fisher", (lr, kept, 1.0 - kept, 1.0 / _unbiased(kept, step), attrs["damping"]))


#: Rule and number of 0-d inputs before `skip`.
_RULES: Final[dict[str, tuple[Callable[..., Step], int]]] = {
    "adamax": (_adamax, 2),
    "nadam": (_nadam, 3),
    "radam": (_radam, 2),
    "adagrad": (_adagrad, 2),
    "adadelta": (_adadelta, 1),
    "rmsprop": (_rmsprop, 1),
    "rprop": (_rprop, 0),
    "asgd": (_asgd, 4),
    "fisher": (_fisher, 2),
}


def _kernel(rule: Callable[..., Step], scalars: int) -> Any:
    @quietly
    def kernel(stream: Any, outs: Any, ins: Any, attrs: Attrs) -> None:
        n, skip = attrs["n"], ins[-1]
        if skip is not None and skip.array != 0:
            keep(outs, ins, n)
            return
        given = ins[len(ins) - 1 - scalars : -1]
        step = rule(attrs, *[float(view.array) for view in given])
        lists = (len(outs) - len(step.results)) // n if n else 0
        sources = [[v.array for v in ins[i * n : (i + 1) * n]] for i in range(1 + lists)]
        targets = [[v.array for v in outs[i * n : (i + 1) * n]] for i in range(lists)]
        run, numbers = LOOPS[step.loop], tuple(map(np.float32, step.numbers))
        for tensors in zip(*sources, *targets, strict=True):
            run(tensors[0].size, _BLOCK, (*filled(tensors), tensors[1].reshape(-1), *numbers))
        for view, value in zip(outs[len(outs) - len(step.results) :], step.results, strict=True):
            view.array[...] = value

    return kernel


def register(kernels: Any, runtime: Any) -> None:
    """Declare the kernels of this module."""
    for name, (rule, scalars) in _RULES.items():
        kernels.add(
            f"optim.{name}_step", _kernel(rule, scalars), dtypes={"f32"}, layout="contiguous", priority=FAST
        )
