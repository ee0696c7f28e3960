"""Cross-entropy, fused with its log-softmax, and the element-wise losses."""

from __future__ import annotations

import math

from grilly_core.errors import DTypeError, ShapeError
from grilly_core.ops._typing import Attrs, Needs, Samples, Tensors
from grilly_core.ops.nn_activations import softplus
from grilly_core.ops.primitives import abs, cast, eq, exp, full, gather, iota, log, max, maximum, sum, where
from grilly_core.ops.views import reshape
from grilly_core.opspec import op
from grilly_core.tensor import Tensor

__all__ = [
    "bce_with_logits", "binary_cross_entropy", "cross_entropy", "cross_entropy_vjp", "huber", "kl_div",
    "smooth_l1",
]  # fmt: skip


def _check_targets(logits: Tensor, target: Tensor, weight: Tensor | None) -> None:
    if logits.ndim != 2 or tuple(target.shape) != (logits.shape[0],):
        raise ShapeError(
            f"cross_entropy: expected logits (N, C) and one class index per row; received shapes "
            f"{tuple(logits.shape)} and {tuple(target.shape)}."
        )
    if not target.dtype.is_integer:
        raise DTypeError(
            f"cross_entropy: target must hold integer class indices; received {target.dtype.name}. "
            "Class probabilities must have the shape of the logits."
        )
    if weight is not None and tuple(weight.shape) != (logits.shape[1],):
        raise ShapeError(
            f"cross_entropy: weight must have one element per class, shape ({logits.shape[1]},); "
            f"received {tuple(weight.shape)}."
        )


def _rows(
    logits: Tensor, target: Tensor, weight: Tensor | None, ignore_index: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the kept rows, the weight of each row's class (0 if ignored) and the one-hot mask (N, C)."""
    n, classes = logits.shape
    kept = target != ignore_index
    safe = where(kept, target, 0)
    if weight is None:
        weight = full(value=1.0, shape=(classes,), dtype=logits.dtype)
    # This look-up is also the range check: an index outside [0, C) raises IndexError.
    per_row = where(kept, gather(weight, safe, axis=0), 0.0)
    onehot = eq(reshape(safe, shape=(n, 1)), iota(size=classes, dtype=target.dtype))
    return kept, per_row, onehot


def _reduced(values: Tensor, reduction: str, total_weight: Tensor | None = None) -> Tensor:
    if reduction == "none":
        return values
    total = sum(values)
    if reduction == "sum":
        return total
    if reduction != "mean":
        raise ValueError(f"reduction: expected 'none', 'mean' or 'sum'; received {reduction!r}.")
    count = math.prod(values.shape) if total_weight is None else total_weight
    return total / count


@op("nn.cross_entropy", hidden=1, autocast="f32", nondiff_inputs={"weight"})
def cross_entropy(
    logits: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    *,
    reduction: str = "mean",
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
) -> tuple[Tensor, Tensor]:
    """Cross-entropy of ``(N, C)`` logits against class indices ``(N,)``.

    The mean divides by the summed weights of the rows that are not ignored, so it is NaN (with zero gradients)
    when all of them are. The hidden output is the log-sum-exp of each row.
    """
    _check_targets(logits, target, weight)
    n, classes = logits.shape
    kept, per_row, onehot = _rows(logits, target, weight, ignore_index)
    top = max(logits, axis=1, keepdims=True)
    # A row of -inf only would give inf - inf; PyTorch's answer for it is NaN as well.
    lse = reshape(top + log(sum(exp(logits - top), axis=1, keepdims=True)), shape=(n,))
    picked = sum(where(onehot, logits, 0.0), axis=1)
    losses = where(kept, per_row * (lse - picked), 0.0)
    if label_smoothing:
        spread = reshape(lse, shape=(n, 1)) - logits
        smooth = where(kept, sum(spread if weight is None else spread * weight, axis=1), 0.0)
        losses = (1.0 - label_smoothing) * losses + (label_smoothing / classes) * smooth
    return _reduced(losses, reduction, sum(per_row)), lse


@cross_entropy.vjp
def _(grads: Tensors, outs: Tensors, ins: Tensors, attrs: Attrs, needs: Needs) -> Tensors:
    logits, target, weight = ins
    return cross_entropy_vjp(grads[0], logits, target, weight, outs[1], **attrs), None, None


@op("nn.cross_entropy_vjp", internal=True)
def cross_entropy_vjp(
    g: Tensor,
    logits: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    logsumexp: Tensor | None = None,
    *,
    reduction: str = "mean",
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
) -> Tensor:
    """Gradient of `cross_entropy` for the logits; exactly 0 in ignored rows."""
    assert logsumexp is not None
    n, classes = logits.shape
    kept, per_row, onehot = _rows(logits, target, weight, ignore_index)
    share = g / sum(per_row) if reduction == "mean" else g
    share = reshape(where(kept, share, 0.0), shape=(n, 1))
    per_row, kept = reshape(per_row, shape=(n, 1)), reshape(kept, shape=(n, 1))
    p = exp(logits - reshape(logsumexp, shape=(n, 1)))
    slope = per_row * (p - cast(onehot, dtype=p.dtype))
    if label_smoothing:
        smooth = classes * p - 1.0 if weight is None else sum(weight) * p - weight
        slope = (1.0 - label_smoothing) * slope + (label_smoothing / classes) * smooth
    return where(kept, share * slope, 0.0)


@cross_entropy.samples
def _(s: Samples) -> None:
    target = s.i32(5, low=0, high=4)
    for reduction in ("mean", "sum", "none"):
        s.case(s.f32(5, 4), target, None, reduction=reduction)
    s.case(s.f32(5, 4), target, s.f32(4, low=0.5, high=2.0), ignore_index=1)
    s.case(s.f32(5, 4), target, s.f32(4, low=0.5, high=2.0), label_smoothing=0.2, ignore_index=1)
    s.error(ShapeError, "cross_entropy", s.f32(5, 4), s.i32(4, low=0, high=4))


@cross_entropy_vjp.samples
def _(s: Samples) -> None:
    target, lse = s.i32(5, low=0, high=4), s.f32(5, low=1.0, high=3.0)
    s.case(s.f32(), s.f32(5, 4), target, None, lse)
    s.case(s.f32(5), s.f32(5, 4), target, s.f32(4, low=0.5, high=2.0), lse, reduction="none")
    s.case(s.f32(), s.f32(5, 4), target, None, lse, reduction="sum", label_smoothing=0.1, ignore_index=2)


@op("nn.binary_cross_entropy", autocast="f32")
def binary_cross_entropy(p: Tensor, target: Tensor, *, lowest_log: float = -100.0) -> Tensor:
    """Cross-entropy of probabilities, element by element; logarithms are cut off at `lowest_log`."""
    yes = maximum(log(p), lowest_log)
    no = maximum(log(1.0 - p), lowest_log)
    return -(target * yes + (1.0 - target) * no)


@binary_cross_entropy.vjp
def _(grads: Tensors, outs: Tensors, ins: Tensors, attrs: Attrs, needs: Needs) -> Tensors:
    (p, target), g = ins, grads[0]
    gp = gt = None
    if needs[0]:  # PyTorch's floor keeps the slope finite at 0 and 1
        gp = g * (p - target) / maximum(p * (1.0 - p), 1e-12)
    if needs[1]:
        low = attrs["lowest_log"]
        gt = g * (maximum(log(1.0 - p), low) - maximum(log(p), low))
    return gp, gt


@op("nn.bce_with_logits", autocast="f32")
def bce_with_logits(x: Tensor, target: Tensor, pos_weight: Tensor | None = None) -> Tensor:
    """Cross-entropy of ``sigmoid(x)``, element by element and without overflow."""
    # softplus without its linear branch: log1p(exp(-|x|)) + max(-x, 0) is exact everywhere.
    other = softplus(-x, threshold=1e30)
    scale = 1.0 if pos_weight is None else (pos_weight - 1.0) * target + 1.0
    return (1.0 - target) * x + scale * other


@op("nn.smooth_l1")
def smooth_l1(x: Tensor, target: Tensor, *, beta: float = 1.0) -> Tensor:
    """Return ``d**2 / (2 beta)`` for ``d = |x - target| < beta``, else ``d - beta / 2``, element by element."""
    if beta < 0:
        raise ValueError(f"smooth_l1: beta must not be negative; received {beta}.")
    d = abs(x - target)
    return d if beta == 0 else where(d < beta, 0.5 * d * d / beta, d - 0.5 * beta)


@op("nn.huber")
def huber(x: Tensor, target: Tensor, *, delta: float = 1.0) -> Tensor:
    """Return ``d**2 / 2`` for ``d = |x - target| <= delta``, else ``delta (d - delta / 2)``, by element."""
    if delta <= 0:
        raise ValueError(f"huber: delta must be positive; received {delta}.")
    d = abs(x - target)
    return where(d <= delta, 0.5 * d * d, delta * (d - 0.5 * delta))


@op("nn.kl_div", autocast="f32")
def kl_div(x: Tensor, target: Tensor, *, log_target: bool = False) -> Tensor:
    """Return ``target * (log(target) - x)`` for log-probabilities `x`, element by element; 0 where target is 0."""
    if log_target:
        return exp(target) * (target - x)
    return target * log(where(eq(target, 0), 1.0, target)) - target * x


def _pairs(s: Samples) -> None:
    s.case(s.f32(4, 3), s.f32(4, 3))


smooth_l1.samples(_pairs)
huber.samples(_pairs)


@binary_cross_entropy.samples
def _(s: Samples) -> None:
    s.case(s.f32(4, 3, low=0.1, high=0.9), s.f32(4, 3, low=0.0, high=1.0))


@bce_with_logits.samples
def _(s: Samples) -> None:
    s.case(s.f32(4, 3), s.f32(4, 3, low=0.0, high=1.0), None)
    s.case(s.f32(4, 3), s.f32(4, 3, low=0.0, high=1.0), s.f32(3, low=0.5, high=2.0))


@kl_div.samples
def _(s: Samples) -> None:
    s.case(s.f32(4, 3), s.f32(4, 3, low=0.1, high=0.9))
    s.case(s.f32(4, 3), s.f32(4, 3), log_target=True)
