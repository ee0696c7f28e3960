"""Steps of Adam's relatives: Adamax, NAdam, RAdam, and the hypergradient of the learning rate.

The learning rate, the step number and products that change from step to step are 0-d tensors, as in `ops.optim`.
"""

from __future__ import annotations

import math
from typing import Any, Final

from grilly_core.errors import ShapeError
from grilly_core.ops._typing import Samples
from grilly_core.ops.optim_rules import check_lists, correction, like, unless
from grilly_core.ops.primitives import abs, cast, exp, expm1, maximum, sqrt, sum, where
from grilly_core.opspec import TensorList, op
from grilly_core.tensor import Tensor

__all__ = ["adamax_step", "direction_power", "hypergradient_rate", "nadam_step", "radam_step"]


@op("optim.adamax_step", nondiff=True, donates={"params": "params", "ms": "ms", "norms": "norms"})
def adamax_step(
    params: TensorList,
    grads: TensorList,
    ms: TensorList,
    norms: TensorList,
    lr: Tensor | None = None,
    step: Tensor | None = None,
    skip: Tensor | None = None,
    *,
    beta1: float = 0.9,
    beta2: float = 0.999,
    eps: float = 1e-8,
    weight_decay: float = 0.0,
    maximize: bool = False,
) -> tuple[Tensor, ...]:
    """One step of Adamax; returns the new parameters, first moments and infinity norms."""
    assert lr is not None and step is not None
    check_lists("adamax_step", params, grads=grads, ms=ms, norms=norms)
    rate = lr / correction(step, beta1)
    out: tuple[list[Tensor], ...] = ([], [], [])
    for i, (p, g) in enumerate(zip(params, grads, strict=True)):
        g = _gradient(p, g, weight_decay, maximize)
        m = ms[i] + (1.0 - beta1) * (g - ms[i])
        norm = maximum(beta2 * norms[i], abs(g) + eps)
        out[0].append(like(p - rate * (m / norm), p))
        out[1].append(like(m, ms[i]))
        out[2].append(like(norm, norms[i]))
    return unless(skip, [*params, *ms, *norms], [t for group in out for t in group])


@op("optim.nadam_step", nondiff=True, donates={"params": "params", "ms": "ms", "vs": "vs"})
def nadam_step(
    params: TensorList,
    grads: TensorList,
    ms: TensorList,
    vs: TensorList,
    product: Tensor | None = None,
    lr: Tensor | None = None,
    step: Tensor | None = None,
    skip: Tensor | None = None,
    *,
    beta1: float = 0.9,
    beta2: float = 0.999,
    eps: float = 1e-8,
    weight_decay: float = 0.0,
    momentum_decay: float = 4e-3,
    decoupled: bool = False,
    maximize: bool = False,
) -> tuple[Tensor, ...]:
    """One step of NAdam; returns the new parameters, first and second moments, and the product of the momenta."""
    assert lr is not None and step is not None and product is not None
    check_lists("nadam_step", params, grads=grads, ms=ms, vs=vs)
    decay = momentum_decay * math.log(0.96)
    mu = beta1 * (1.0 - 0.5 * exp(step * decay))
    mu_next = beta1 * (1.0 - 0.5 * exp((step + 1.0) * decay))
    so_far = product * mu
    of_grad, of_m = lr * (1.0 - mu) / (1.0 - so_far), lr * mu_next / (1.0 - so_far * mu_next)
    root = correction(step, beta2)
    out: tuple[list[Tensor], ...] = ([], [], [])
    for i, (p, g) in enumerate(zip(params, grads, strict=True)):
        g = _gradient(p, g, 0.0 if decoupled else weight_decay, maximize)
        start = p * (1.0 - lr * weight_decay) if decoupled and weight_decay else p
        m, v = _moments(ms[i], vs[i], g, beta1, beta2)
        scale = sqrt(v / root) + eps
        out[0].append(like(start - of_grad * (g / scale) - of_m * (m / scale), p))
        out[1].append(like(m, ms[i]))
        out[2].append(like(v, vs[i]))
    new = [t for group in out for t in group]
    return unless(skip, [*params, *ms, *vs, product], [*new, so_far])


@op("optim.radam_step", nondiff=True, donates={"params": "params", "ms": "ms", "vs": "vs"})
def radam_step(
    params: TensorList,
    grads: TensorList,
    ms: TensorList,
    vs: TensorList,
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
    """One step of RAdam; returns the new parameters, first and second moments."""
    assert lr is not None and step is not None
    check_lists("radam_step", params, grads=grads, ms=ms, vs=vs)
    rate = lr / correction(step, beta1)
    rectified = _rectification(step, beta2)
    out: tuple[list[Tensor], ...] = ([], [], [])
    for i, (p, g) in enumerate(zip(params, grads, strict=True)):
        g = _gradient(p, g, 0.0 if decoupled else weight_decay, maximize)
        start = p * (1.0 - lr * weight_decay) if decoupled and weight_decay else p
        m, v = _moments(ms[i], vs[i], g, beta1, beta2)
        move = rate * m
        if rectified is not None:
            applies, factor = rectified
            move = where(applies, move * (factor / (sqrt(v) + eps)), move)
        out[0].append(like(start - move, p))
        out[1].append(like(m, ms[i]))
        out[2].append(like(v, vs[i]))
    return unless(skip, [*params, *ms, *vs], [t for group in out for t in group])


#: Coefficients of ``1 - a / (exp(a) - 1)`` in powers 1, 2, 4, 6, 8, 10 of a.
_SERIES: Final = {1: 1 / 2, 2: -1 / 12, 4: 1 / 720, 6: -1 / 30240, 8: 1 / 1209600, 10: -1 / 47900160}


def _rectification(step: Tensor, beta2: float) -> tuple[Tensor, Tensor] | None:
    """Return whether the variance is rectified at this step, and the factor; None if it never is.

    ``rho = rho_inf - 2 t beta2**t / (1 - beta2**t)`` subtracts two numbers near ``rho_inf`` while the answer is near
    t; in f32 with beta2 = 0.9999 that misplaces the step at which rho passes 5. With ``a = -t log(beta2)`` it is a
    constant plus ``t (2 / a) (1 - a / (exp(a) - 1))``, which has a series for small a.
    """
    limit = 2.0 / (1.0 - beta2) - 1.0
    if limit <= 5.0:
        return None
    x = -math.log(beta2)
    a = step * x
    series = None
    for power, c in _SERIES.items():
        term = c * a**power
        series = term if series is None else series + term
    share = where(a < 0.5, series, 1.0 - a / expm1(a))
    rho = share * (2.0 / x) + (limit - 2.0 / x)
    applies = rho > 5.0
    safe = where(applies, rho, 6.0)
    square = (safe - 4.0) * (safe - 2.0) / safe * (limit / ((limit - 4.0) * (limit - 2.0)))
    return applies, sqrt(square * correction(step, beta2))


@op("optim.hypergradient_rate", nondiff=True)
def hypergradient_rate(
    grads: TensorList,
    ms: TensorList,
    vs: TensorList,
    lr: Tensor | None = None,
    step: Tensor | None = None,
    *,
    beta1: float = 0.9,
    beta2: float = 0.999,
    eps: float = 1e-8,
    maximize: bool = False,
) -> Tensor:
    """Return the hypergradient: the product of the gradients with the direction of Adam's last step.

    `ms`, `vs` and `step` are those of the last step; at step 0 the direction, and so the result, is 0.
    """
    assert lr is not None and step is not None
    check_lists("hypergradient_rate", grads, ms=ms, vs=vs)
    total = lr * 0.0
    for g, d in zip(grads, _directions(ms, vs, step, beta1, beta2, eps), strict=True):
        total = total + cast(sum(g * d), dtype=lr.dtype)
    return -total if maximize else total


def _directions(
    ms: TensorList, vs: TensorList, step: Tensor, beta1: float, beta2: float, eps: float
) -> list[Tensor]:
    """Return where Adam's last step went."""
    began = maximum(step, 1.0)
    first, root = correction(began, beta1), sqrt(correction(began, beta2)) if beta2 else 1.0
    return [m / first / (sqrt(v) / root + eps) for m, v in zip(ms, vs, strict=True)]


@op("optim.direction_power", nondiff=True)
def direction_power(
    ms: TensorList,
    vs: TensorList,
    lr: Tensor | None = None,
    step: Tensor | None = None,
    *,
    beta1: float = 0.9,
    beta2: float = 0.999,
    eps: float = 1e-8,
) -> Tensor:
    """Return the squared length of the direction of Adam's last step, in the type of `lr`; 0 at step 0."""
    assert lr is not None and step is not None
    check_lists("direction_power", ms, vs=vs)
    total = lr * 0.0
    for d in _directions(ms, vs, step, beta1, beta2, eps):
        d = cast(d, dtype=lr.dtype)
        total = total + sum(d * d)
    return total


def _gradient(p: Tensor, g: Tensor, weight_decay: float, maximize: bool) -> Tensor:
    g = -g if maximize else g
    return g + weight_decay * p if weight_decay else g


def _moments(m: Tensor, v: Tensor, g: Tensor, beta1: float, beta2: float) -> tuple[Tensor, Tensor]:
    return m + (1.0 - beta1) * (g - m), beta2 * v + (1.0 - beta2) * (g * g)


def _some(s: Samples, low: float = -1.0) -> list[Any]:
    return [s.f32(3, 4, low=low), s.f32(5, low=low)]


@adamax_step.samples
def _(s: Samples) -> None:
    lr, step = s.f32(low=0.01, high=0.1), s.f32(low=3.0, high=3.0)
    for kw in ({"weight_decay": 0.1}, {"beta1": 0.0, "maximize": True}):
        s.case(_some(s), _some(s), _some(s), _some(s, 0.1), lr, step, **kw)
    s.case(_some(s), _some(s), _some(s), _some(s, 0.1), lr, step, s.f32(low=1.0, high=1.0))
    s.error(ShapeError, "params", [s.f32(3)], [s.f32(4)], [s.f32(3)], [s.f32(3)], lr, step)


@nadam_step.samples
def _(s: Samples) -> None:
    lr, step, product = s.f32(low=0.01, high=0.1), s.f32(low=3.0, high=3.0), s.f32(low=0.2, high=0.4)
    for kw in (
        {"weight_decay": 0.1},
        {"weight_decay": 0.1, "decoupled": True},
        {"maximize": True, "beta2": 0.0},
    ):
        s.case(_some(s), _some(s), _some(s), _some(s, 0.1), product, lr, step, **kw)
    s.case(_some(s), _some(s), _some(s), _some(s, 0.1), product, lr, step, s.f32(low=1.0, high=1.0))
    s.error(ShapeError, "params", [s.f32(3)], [s.f32(4)], [s.f32(3)], [s.f32(3)], product, lr, step)


@radam_step.samples
def _(s: Samples) -> None:
    lr = s.f32(low=0.01, high=0.1)
    early, late = s.f32(low=3.0, high=3.0), s.f32(low=800.0, high=800.0)
    for step, kw in (
        (early, {"weight_decay": 0.1}),
        (late, {"weight_decay": 0.1, "decoupled": True}),
        (late, {"maximize": True, "beta2": 0.5}),
    ):
        s.case(_some(s), _some(s), _some(s), _some(s, 0.1), lr, step, **kw)
    s.case(_some(s), _some(s), _some(s), _some(s, 0.1), lr, late, s.f32(low=1.0, high=1.0))
    s.error(ShapeError, "params", [s.f32(3)], [s.f32(4)], [s.f32(3)], [s.f32(3)], lr, late)


@hypergradient_rate.samples
def _(s: Samples) -> None:
    lr = s.f32(low=0.01, high=0.1)
    s.case(_some(s), _some(s), _some(s, 0.1), lr, s.f32(low=3.0, high=3.0))
    s.case(_some(s), _some(s), _some(s, 0.1), lr, s.f32(low=0.0, high=0.0), maximize=True)
    s.error(ShapeError, "params", [s.f32(3)], [s.f32(4)], [s.f32(3)], lr, lr)


@direction_power.samples
def _(s: Samples) -> None:
    lr = s.f32(low=0.01, high=0.1)
    s.case(_some(s), _some(s, 0.1), lr, s.f32(low=3.0, high=3.0))
    s.error(ShapeError, "params", [s.f32(3)], [s.f32(4)], lr, lr)
