"""Steps with a rate for every element: Adagrad, Adadelta, RMSprop, Rprop, the diagonal Fisher; ASGD and NLMS.

Learning rates and step numbers are 0-d tensors, as in `ops.optim`.
"""

from __future__ import annotations

from typing import Any

from grilly_core.errors import ShapeError
from grilly_core.ops._typing import Samples
from grilly_core.ops.optim_rules import check_lists, correction, like, unless
from grilly_core.ops.primitives import matmul, maximum, minimum, sign, sqrt, sum, where
from grilly_core.opspec import TensorList, op
from grilly_core.tensor import Tensor

__all__ = [
    "adadelta_step",
    "adagrad_step",
    "asgd_step",
    "fisher_step",
    "nlms_step",
    "rmsprop_step",
    "rprop_step",
]


def _gradient(p: Tensor, g: Tensor, weight_decay: float, maximize: bool) -> Tensor:
    g = -g if maximize else g
    return g + weight_decay * p if weight_decay else g


@op("optim.adagrad_step", nondiff=True, donates={"params": "params", "sums": "sums"})
def adagrad_step(
    params: TensorList,
    grads: TensorList,
    sums: TensorList,
    lr: Tensor | None = None,
    step: Tensor | None = None,
    skip: Tensor | None = None,
    *,
    lr_decay: float = 0.0,
    eps: float = 1e-10,
    weight_decay: float = 0.0,
    maximize: bool = False,
) -> tuple[Tensor, ...]:
    """One step of Adagrad; returns the new parameters, then the sums of squared gradients."""
    assert lr is not None and step is not None
    check_lists("adagrad_step", params, grads=grads, sums=sums)
    rate = lr / (1.0 + (step - 1.0) * lr_decay) if lr_decay else lr
    new_params, new_sums = [], []
    for p, g, s in zip(params, grads, sums, strict=True):
        g = _gradient(p, g, weight_decay, maximize)
        total = s + g * g
        new_params.append(like(p - rate * (g / (sqrt(total) + eps)), p))
        new_sums.append(like(total, s))
    return unless(skip, [*params, *sums], [*new_params, *new_sums])


@op(
    "optim.adadelta_step",
    nondiff=True,
    donates={"params": "params", "squares": "squares", "deltas": "deltas"},
)
def adadelta_step(
    params: TensorList,
    grads: TensorList,
    squares: TensorList,
    deltas: TensorList,
    lr: Tensor | None = None,
    skip: Tensor | None = None,
    *,
    rho: float = 0.9,
    eps: float = 1e-6,
    weight_decay: float = 0.0,
    maximize: bool = False,
) -> tuple[Tensor, ...]:
    """One step of Adadelta; returns the new parameters, then the means of squared gradients and of squared steps."""
    assert lr is not None
    check_lists("adadelta_step", params, grads=grads, squares=squares, deltas=deltas)
    out: tuple[list[Tensor], ...] = ([], [], [])
    for i, (p, g) in enumerate(zip(params, grads, strict=True)):
        g = _gradient(p, g, weight_decay, maximize)
        square = rho * squares[i] + (1.0 - rho) * (g * g)
        delta = sqrt(deltas[i] + eps) / sqrt(square + eps) * g
        out[0].append(like(p - lr * delta, p))
        out[1].append(like(square, squares[i]))
        out[2].append(like(rho * deltas[i] + (1.0 - rho) * (delta * delta), deltas[i]))
    return unless(skip, [*params, *squares, *deltas], [t for group in out for t in group])


@op(
    "optim.rmsprop_step",
    nondiff=True,
    donates={"params": "params", "squares": "squares", "means": "means", "momenta": "momenta"},
)
def rmsprop_step(
    params: TensorList,
    grads: TensorList,
    squares: TensorList,
    means: TensorList | None = None,
    momenta: TensorList | None = None,
    lr: Tensor | None = None,
    skip: Tensor | None = None,
    *,
    alpha: float = 0.99,
    eps: float = 1e-8,
    momentum: float = 0.0,
    weight_decay: float = 0.0,
    maximize: bool = False,
) -> tuple[Tensor, ...]:
    """One step of RMSprop; returns the new parameters and mean squares, and of the others those that were given.

    With `means`, the means of the gradients, the variance divides instead of the mean square (centered).
    """
    assert lr is not None
    check_lists("rmsprop_step", params, grads=grads, squares=squares, means=means, momenta=momenta)
    out: tuple[list[Tensor], ...] = ([], [], [], [])
    for i, (p, g) in enumerate(zip(params, grads, strict=True)):
        g = _gradient(p, g, weight_decay, maximize)
        square = alpha * squares[i] + (1.0 - alpha) * (g * g)
        variance = square
        if means is not None:
            mean = means[i] + (1.0 - alpha) * (g - means[i])
            variance = square - mean * mean
            out[2].append(like(mean, means[i]))
        move = g / (sqrt(variance) + eps)
        if momenta is not None:
            move = momentum * momenta[i] + move
            out[3].append(like(move, momenta[i]))
        out[0].append(like(p - lr * move, p))
        out[1].append(like(square, squares[i]))
    old = [*params, *squares, *(means or ()), *(momenta or ())]
    return unless(skip, old, [t for group in out for t in group])


@op("optim.rprop_step", nondiff=True, donates={"params": "params", "before": "before", "sizes": "sizes"})
def rprop_step(
    params: TensorList,
    grads: TensorList,
    before: TensorList,
    sizes: TensorList,
    skip: Tensor | None = None,
    *,
    shrink: float = 0.5,
    grow: float = 1.2,
    smallest: float = 1e-6,
    largest: float = 50.0,
    maximize: bool = False,
) -> tuple[Tensor, ...]:
    """One step of Rprop; returns the new parameters, then the gradients to compare with next, then the step sizes."""
    check_lists("rprop_step", params, grads=grads, before=before, sizes=sizes)
    out: tuple[list[Tensor], ...] = ([], [], [])
    for i, (p, g) in enumerate(zip(params, grads, strict=True)):
        g = -g if maximize else g
        agrees = sign(g) * sign(before[i])  # of the signs: the product of two small gradients may vanish
        shrunk = where(agrees < 0.0, sizes[i] * shrink, sizes[i])
        size = maximum(minimum(where(agrees > 0.0, sizes[i] * grow, shrunk), largest), smallest)
        g = where(agrees < 0.0, 0.0, g)
        out[0].append(like(p - sign(g) * size, p))
        out[1].append(like(g, before[i]))
        out[2].append(like(size, sizes[i]))
    return unless(skip, [*params, *before, *sizes], [t for group in out for t in group])


@op("optim.fisher_step", nondiff=True, donates={"params": "params", "fishers": "fishers"})
def fisher_step(
    params: TensorList,
    grads: TensorList,
    fishers: TensorList,
    lr: Tensor | None = None,
    step: Tensor | None = None,
    skip: Tensor | None = None,
    *,
    momentum: float = 0.9,
    damping: float = 1e-3,
) -> tuple[Tensor, ...]:
    """One step along the natural gradient of a diagonal Fisher matrix; returns the parameters, then the diagonals."""
    assert lr is not None and step is not None
    check_lists("fisher_step", params, grads=grads, fishers=fishers)
    unbiased = correction(step, momentum)
    new_params, new_fishers = [], []
    for p, g, f in zip(params, grads, fishers, strict=True):
        fisher = momentum * f + (1.0 - momentum) * (g * g)
        new_params.append(like(p - lr * (g / (fisher / unbiased + damping)), p))
        new_fishers.append(like(fisher, f))
    return unless(skip, [*params, *fishers], [*new_params, *new_fishers])


@op("optim.asgd_step", nondiff=True, donates={"params": "params", "averages": "averages"})
def asgd_step(
    params: TensorList,
    grads: TensorList,
    averages: TensorList,
    eta: Tensor | None = None,
    mu: Tensor | None = None,
    lr: Tensor | None = None,
    step: Tensor | None = None,
    skip: Tensor | None = None,
    *,
    lambd: float = 1e-4,
    alpha: float = 0.75,
    t0: float = 1e6,
    weight_decay: float = 0.0,
    maximize: bool = False,
) -> tuple[Tensor, ...]:
    """One step of averaged stochastic gradient descent; returns the new parameters and averages, then eta and mu.

    `eta` is the rate of this step and `mu` the share by which the averages follow; what is returned is for the next.
    """
    assert eta is not None and mu is not None and lr is not None and step is not None
    check_lists("asgd_step", params, grads=grads, averages=averages)
    follows = mu == 1.0  # the average is the parameter itself, without a rounding
    new_params, new_averages = [], []
    for p, g, a in zip(params, grads, averages, strict=True):
        g = _gradient(p, g, weight_decay, maximize)
        moved = like(p * (1.0 - lambd * eta) - eta * g, p)
        new_params.append(moved)
        new_averages.append(like(where(follows, moved, a + (moved - a) * mu), a))
    next_eta = lr / (lr * step * lambd + 1.0) ** alpha
    next_mu = 1.0 / maximum(step - t0, 1.0)
    return unless(skip, [*params, *averages, eta, mu], [*new_params, *new_averages, next_eta, next_mu])


@op("optim.nlms_step", nondiff=True, donates={"weight": "weight", "bias": "bias"})
def nlms_step(
    weight: Tensor,
    bias: Tensor | None,
    x: Tensor,
    error: Tensor,
    rate: Tensor,
    *,
    eps: float = 1e-6,
) -> tuple[Tensor, ...]:
    """One step of normalised least mean squares on ``(out, in)`` weights, the mean over the rows of a batch.

    `x` is ``(n, in)`` and `error`, what is wanted minus what is predicted, ``(n, out)``.
    """
    rows = x.shape[0] if x.ndim == 2 else -1
    if (
        weight.ndim != 2
        or tuple(x.shape) != (rows, weight.shape[1])
        or tuple(error.shape) != (rows, weight.shape[0])
    ):
        raise ShapeError(
            f"nlms_step: expected weight (out, in), x (n, in) and error (n, out); received {tuple(weight.shape)}, "
            f"{tuple(x.shape)} and {tuple(error.shape)}."
        )
    if bias is not None and tuple(bias.shape) != (weight.shape[0],):
        raise ShapeError(
            f"nlms_step: expected a bias of {weight.shape[0]} elements; received {tuple(bias.shape)}."
        )
    power = sum(x * x, axis=(1,), keepdims=True) + eps
    scaled = error / power * (rate / float(rows))
    moved = like(weight + matmul(scaled.T, x), weight)
    if bias is None:
        return (moved,)
    return moved, like(bias + sum(scaled, axis=(0,)), bias)


def _some(s: Samples, low: float = -1.0) -> list[Any]:
    return [s.f32(3, 4, low=low), s.f32(5, low=low)]


@adagrad_step.samples
def _(s: Samples) -> None:
    lr, step = s.f32(low=0.01, high=0.1), s.f32(low=3.0, high=3.0)
    s.case(_some(s), _some(s), _some(s, 0.1), lr, step, weight_decay=0.1, lr_decay=0.1)
    s.case(_some(s), _some(s), _some(s, 0.1), lr, step, maximize=True)
    s.case(_some(s), _some(s), _some(s, 0.1), lr, step, s.f32(low=1.0, high=1.0))
    s.error(ShapeError, "params", [s.f32(3)], [s.f32(4)], [s.f32(3)], lr, step)


@adadelta_step.samples
def _(s: Samples) -> None:
    lr = s.f32(low=0.5, high=1.0)
    s.case(_some(s), _some(s), _some(s, 0.1), _some(s, 0.1), lr, weight_decay=0.1)
    s.case(_some(s), _some(s), _some(s, 0.1), _some(s, 0.1), lr, maximize=True, rho=0.5)
    s.case(_some(s), _some(s), _some(s, 0.1), _some(s, 0.1), lr, s.f32(low=1.0, high=1.0))
    s.error(ShapeError, "params", [s.f32(3)], [s.f32(4)], [s.f32(3)], [s.f32(3)], lr)


@rmsprop_step.samples
def _(s: Samples) -> None:
    lr = s.f32(low=0.01, high=0.1)
    squares = [s.f32(3, 4, low=1.5, high=2.0), s.f32(5, low=1.5, high=2.0)]  # above the squared means
    s.case(_some(s), _some(s), squares, None, None, lr, weight_decay=0.1)
    s.case(_some(s), _some(s), squares, _some(s), None, lr, maximize=True)
    s.case(_some(s), _some(s), squares, _some(s), _some(s), lr, momentum=0.9)
    s.case(_some(s), _some(s), squares, None, _some(s), lr, s.f32(low=1.0, high=1.0), momentum=0.9)
    s.error(ShapeError, "params", [s.f32(3)], [s.f32(4)], [s.f32(3)], None, None, lr)


@rprop_step.samples
def _(s: Samples) -> None:
    s.case(_some(s), _some(s), _some(s), _some(s, 0.1))
    s.case(_some(s), _some(s), _some(s), _some(s, 0.1), largest=0.5, maximize=True)
    s.case(_some(s), _some(s), _some(s), _some(s, 0.1), s.f32(low=1.0, high=1.0))
    s.error(ShapeError, "params", [s.f32(3)], [s.f32(4)], [s.f32(3)], [s.f32(3)])


@fisher_step.samples
def _(s: Samples) -> None:
    lr, step = s.f32(low=0.01, high=0.1), s.f32(low=3.0, high=3.0)
    s.case(_some(s), _some(s), _some(s, 0.1), lr, step)
    s.case(_some(s), _some(s), _some(s, 0.1), lr, step, s.f32(low=1.0, high=1.0), momentum=0.0)
    s.error(ShapeError, "params", [s.f32(3)], [s.f32(4)], [s.f32(3)], lr, step)


@asgd_step.samples
def _(s: Samples) -> None:
    eta, mu, lr = s.f32(low=0.05, high=0.1), s.f32(low=0.25, high=0.5), s.f32(low=0.05, high=0.1)
    step, one = s.f32(low=3.0, high=3.0), s.f32(low=1.0, high=1.0)
    s.case(_some(s), _some(s), _some(s), eta, mu, lr, step, weight_decay=0.1, lambd=0.1, t0=1.0)
    s.case(_some(s), _some(s), _some(s), eta, one, lr, step, maximize=True)
    s.case(_some(s), _some(s), _some(s), eta, mu, lr, step, one)
    s.error(ShapeError, "params", [s.f32(3)], [s.f32(4)], [s.f32(3)], eta, mu, lr, step)


@nlms_step.samples
def _(s: Samples) -> None:
    rate = s.f32(low=0.1, high=0.5)
    s.case(s.f32(3, 4), s.f32(3), s.f32(5, 4), s.f32(5, 3), rate)
    s.case(s.f32(3, 4), None, s.f32(1, 4), s.f32(1, 3), rate, eps=0.1)
    s.error(ShapeError, "weight", s.f32(3, 4), None, s.f32(5, 3), s.f32(5, 3), rate)
