"""Learning rules without a tape: Fisher information, elastic weights, natural gradient, NLMS, scaling, InfoNCE."""

from __future__ import annotations

from grilly_core.errors import ShapeError
from grilly_core.ops._typing import Samples
from grilly_core.ops.primitives import exp, full, log, max, maximum, sqrt, sum
from grilly_core.ops.views import reshape
from grilly_core.opspec import op
from grilly_core.tensor import Tensor

__all__ = [
    "ewc_gradient", "ewc_penalty", "fisher_info", "infonce", "infonce_gradient", "natural_gradient", "nlms_update",
    "whitening_transform",
]  # fmt: skip


def _same(name: str, **tensors: Tensor) -> None:
    shapes = {k: tuple(t.shape) for k, t in tensors.items()}
    if len(set(shapes.values())) > 1:
        raise ShapeError(f"{name}: expected tensors of one shape; received {shapes}.")


@op("learning.fisher_info")
def fisher_info(
    gradients: Tensor, fisher: Tensor, *, momentum: float = 0.9, use_ema: bool = True, reset: bool = False
) -> Tensor:
    """Diagonal Fisher information after one more gradient: a moving average, the sum, or with `reset` a new start."""
    _same("fisher_info", gradients=gradients, fisher=fisher)
    square = gradients * gradients
    if reset:
        return square
    return momentum * fisher + (1.0 - momentum) * square if use_ema else fisher + square


@op("learning.ewc_penalty")
def ewc_penalty(current: Tensor, optimal: Tensor, fisher: Tensor, *, lambda_ewc: float = 1000.0) -> Tensor:
    """Return ``lambda / 2 * F (p - p*)**2``, element by element."""
    _same("ewc_penalty", current=current, optimal=optimal, fisher=fisher)
    moved = current - optimal
    return (0.5 * lambda_ewc) * fisher * moved * moved


@op("learning.ewc_gradient")
def ewc_gradient(current: Tensor, optimal: Tensor, fisher: Tensor, *, lambda_ewc: float = 1000.0) -> Tensor:
    """Return ``lambda F (p - p*)``, the gradient of the summed penalty."""
    _same("ewc_gradient", current=current, optimal=optimal, fisher=fisher)
    return lambda_ewc * fisher * (current - optimal)


@op("learning.natural_gradient")
def natural_gradient(
    gradients: Tensor, fisher: Tensor, *, learning_rate: float = 0.001, epsilon: float = 1e-8
) -> Tensor:
    """Return ``lr g / (F + epsilon)``."""
    _same("natural_gradient", gradients=gradients, fisher=fisher)
    return learning_rate * gradients / (fisher + epsilon)


@op("learning.nlms_update", nondiff=True)
def nlms_update(
    features: Tensor,
    prediction: Tensor,
    target: Tensor,
    weights: Tensor,
    bias: Tensor,
    *,
    learning_rate: float = 0.5,
    mu_decay: float = 0.99995,
    mu_min: float = 0.1,
    epsilon: float = 1e-6,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """One step of normalised least mean squares; returns weights, bias, the next rate and the errors.

    Rows of a batch ``(B, D)`` count by their mean. The rate is ``max(learning_rate * mu_decay, mu_min)`` next time.
    """
    rows = features if features.ndim == 2 else reshape(features, shape=(1, features.shape[0]))
    n, width = rows.shape
    wanted = (n,) if features.ndim == 2 else ()
    if (
        tuple(weights.shape) != (width,)
        or tuple(prediction.shape) != wanted
        or target.shape != prediction.shape
    ):
        raise ShapeError(
            f"nlms_update: features of shape {tuple(features.shape)} need weights ({width},) and a prediction and "
            f"target of shape {wanted}; received {tuple(weights.shape)}, {tuple(prediction.shape)} and "
            f"{tuple(target.shape)}."
        )
    error = target - prediction
    scaled = learning_rate * reshape(error, shape=(n,)) / (epsilon + sum(rows * rows, axis=1))
    moved = weights + sum(reshape(scaled, shape=(n, 1)) * rows, axis=0) / n
    rate = full(value=_next_rate(learning_rate, mu_decay, mu_min), shape=(), dtype=weights.dtype)
    return moved, bias + sum(scaled) / n, rate, error


def _next_rate(rate: float, decay: float, least: float) -> float:
    fallen = rate * decay
    return fallen if fallen > least else least


@op("learning.whitening_transform")
def whitening_transform(
    data: Tensor, running_mean: Tensor, running_var: Tensor, *, momentum: float = 0.01, epsilon: float = 1e-6
) -> tuple[Tensor, Tensor, Tensor]:
    """Standardise rows by running statistics that all of them have updated; returns rows, mean and variance.

    The mean moves by `momentum` towards the batch's, the variance towards the batch's population variance.
    """
    if data.ndim != 2 or not data.shape[1:] == running_mean.shape == running_var.shape:
        raise ShapeError(
            "whitening_transform: expected rows (N, D) and statistics (D,); received shapes "
            f"{tuple(data.shape)}, {tuple(running_mean.shape)} and {tuple(running_var.shape)}."
        )
    n = data.shape[0]
    mean = sum(data, axis=0) / n
    off = data - mean
    var = sum(off * off, axis=0) / n
    mean = running_mean + momentum * (mean - running_mean)
    var = running_var + momentum * (var - running_var)
    return (data - mean) / sqrt(var + epsilon), mean, var


def _units(x: Tensor) -> tuple[Tensor, Tensor]:
    """Return unit vectors along the last axis, and their lengths."""
    length = maximum(sqrt(sum(x * x, axis=-1, keepdims=True)), 1e-12)
    return x / length, length


def _candidates(anchor: Tensor, positive: Tensor, negative: Tensor) -> tuple[Tensor, ...]:
    """Return unit vectors (B, 1, D) and (B or 1, K, D), with their lengths."""
    batch, width = anchor.shape if anchor.ndim == 2 else (-1, -1)
    far = negative.shape if negative.ndim == 3 else (batch, *negative.shape)
    if anchor.ndim != 2 or positive.shape != anchor.shape or len(far) != 3 or far[::2] != (batch, width):
        raise ShapeError(
            "infonce: expected an anchor and a positive (B, D) and negatives (B, K, D) or (K, D); received shapes "
            f"{tuple(anchor.shape)}, {tuple(positive.shape)} and {tuple(negative.shape)}."
        )
    one = (batch, 1, width)
    if negative.ndim == 2:
        negative = reshape(negative, shape=(1, *negative.shape))
    return (
        *_units(reshape(anchor, shape=one)),
        *_units(reshape(positive, shape=one)),
        *_units(negative),
    )


def _similarities(
    a: Tensor, p: Tensor, n: Tensor, temperature: float
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return the cosines (B, 1, 1) and (B, K, 1), and the shares of probability that they get."""
    near, far = sum(a * p, axis=-1, keepdims=True), sum(a * n, axis=-1, keepdims=True)
    top = maximum(near, max(far, axis=1, keepdims=True))
    e_near, e_far = exp((near - top) / temperature), exp((far - top) / temperature)
    total = e_near + sum(e_far, axis=1, keepdims=True)
    return near, far, e_near / total, e_far / total


@op("learning.infonce", autocast="f32")
def infonce(anchor: Tensor, positive: Tensor, negative: Tensor, *, temperature: float = 0.07) -> Tensor:
    """InfoNCE of each anchor, over cosines: ``-log(e^(s+/t) / (e^(s+/t) + sum e^(s-/t)))``."""
    a, _, p, _, n, _ = _candidates(anchor, positive, negative)
    near, far = sum(a * p, axis=-1, keepdims=True), sum(a * n, axis=-1, keepdims=True)
    top = maximum(near, max(far, axis=1, keepdims=True))
    total = exp((near - top) / temperature) + sum(exp((far - top) / temperature), axis=1, keepdims=True)
    return reshape((top - near) / temperature + log(total), shape=(anchor.shape[0],))


@op("learning.infonce_gradient", autocast="f32")
def infonce_gradient(
    anchor: Tensor, positive: Tensor, negative: Tensor, *, temperature: float = 0.07
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of the mean `infonce` for anchor, positive and negative.

    ``dL/ds+ = -(1 - p+) / t`` and ``dL/ds- = p- / t``, through the cosine's ``ds/da = (b - s a) / |a|`` of unit
    vectors a and b.
    """
    a, la, p, lp, n, ln = _candidates(anchor, positive, negative)
    near, far, p_near, p_far = _similarities(a, p, n, temperature)
    share = 1.0 / (temperature * anchor.shape[0])
    g_near, g_far = share * (p_near - 1.0), share * p_far
    slopes = sum(g_far * (n - far * a), axis=1, keepdims=True)
    for_anchor = (g_near * (p - near * a) + slopes) / la
    for_positive = g_near * (a - near * p) / lp
    for_negative = g_far * (a - far * n) / ln
    if negative.ndim == 2:
        for_negative = sum(for_negative, axis=0)
    return (
        reshape(for_anchor, shape=anchor.shape),
        reshape(for_positive, shape=positive.shape),
        for_negative,
    )


@fisher_info.samples
def _(s: Samples) -> None:
    for kw in ({}, {"use_ema": False}, {"reset": True}, {"momentum": 0.5}):
        s.case(s.f32(3, 4), s.f32(3, 4, low=0.0), **kw)
    s.error(ShapeError, "one shape", s.f32(3), s.f32(4))


def _weights(s: Samples) -> None:
    s.case(s.f32(3, 4), s.f32(3, 4), s.f32(3, 4, low=0.0), lambda_ewc=3.0)
    s.error(ShapeError, "one shape", s.f32(3), s.f32(4), s.f32(3))


ewc_penalty.samples(_weights)
ewc_gradient.samples(_weights)


@natural_gradient.samples
def _(s: Samples) -> None:
    s.case(s.f32(3, 4), s.f32(3, 4, low=0.2, high=1.0), learning_rate=0.1)
    s.error(ShapeError, "one shape", s.f32(3), s.f32(4))


@nlms_update.samples
def _(s: Samples) -> None:
    s.case(s.f32(4, 3), s.f32(4), s.f32(4), s.f32(3), s.f32())
    s.case(s.f32(3), s.f32(), s.f32(), s.f32(3), s.f32(), learning_rate=0.1)
    s.error(ShapeError, "need weights", s.f32(4, 3), s.f32(4), s.f32(4), s.f32(4), s.f32())


@whitening_transform.samples
def _(s: Samples) -> None:
    s.case(s.f32(5, 3), s.f32(3), s.f32(3, low=0.5, high=1.0), momentum=0.3)
    s.error(ShapeError, "statistics", s.f32(5, 3), s.f32(4), s.f32(3))


def _triples(s: Samples) -> None:
    s.case(s.f32(4, 3), s.f32(4, 3), s.f32(4, 5, 3), temperature=0.5)
    s.case(s.f32(4, 3), s.f32(4, 3), s.f32(5, 3), temperature=0.5)
    s.error(ShapeError, "negatives", s.f32(4, 3), s.f32(4, 3), s.f32(5, 2))


infonce.samples(_triples)
infonce_gradient.samples(_triples)
