"""Losses. All take ``reduction="mean"``, ``"sum"`` or ``"none"``."""

from __future__ import annotations

import math
from typing import Any, cast

from grilly_core.errors import DTypeError, ShapeError
from grilly_core.functional._arguments import TensorLike, reduced, tensor
from grilly_core.ops import loss as ops
from grilly_core.ops import nn as nn_ops
from grilly_core.ops.manipulate import broadcast_arrays, moveaxis
from grilly_core.ops.primitives import gather, where
from grilly_core.tensor import Tensor

__all__ = [
    "binary_cross_entropy", "binary_cross_entropy_with_logits", "cosine_embedding_loss", "cosine_similarity",
    "cross_entropy", "huber_loss", "kl_div", "l1_loss", "mse_loss", "nll_loss", "pairwise_distance",
    "smooth_l1_loss", "triplet_margin_loss",
]  # fmt: skip


def _pair(input: Any, target: Any, name: str) -> tuple[Tensor, Tensor]:
    x = tensor(input)
    t = tensor(target, like=x)
    if x.shape != t.shape:
        raise ShapeError(
            f"{name}: input and target must have one shape; received {tuple(x.shape)} and {tuple(t.shape)}. "
            "Expand the smaller one yourself if you mean it."
        )
    return x, t


def _weighted(
    losses: Tensor, weight: TensorLike | None, reduction: str, name: str, *, by_sum: bool
) -> Tensor:
    """Reduce losses times their weights; the mean divides by the sum of the weights, or by the count."""
    if weight is None:
        return reduced(losses, reduction)
    w = tensor(weight, like=losses)
    if w.shape != losses.shape:
        raise ShapeError(
            f"{name}: weight must have the shape of the input, {tuple(losses.shape)}; received {tuple(w.shape)}."
        )
    total = reduced(losses * w, "sum" if by_sum and reduction == "mean" else reduction)
    return total / w.sum() if by_sum and reduction == "mean" else total


def mse_loss(
    input: TensorLike, target: TensorLike, reduction: str = "mean", weight: TensorLike | None = None
) -> Tensor:
    """Squared difference.

    Parameters
    ----------
    input, target : array_like
        Of one shape.
    reduction : {"mean", "sum", "none"}
    weight : array_like, optional
        Weight of each element; the mean divides by their sum.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.functional.mse_loss(grilly.tensor([1.0, 3.0]), grilly.tensor([1.0, 1.0])).item()
    2.0
    """
    x, t = _pair(input, target, "mse_loss")
    d = x - t
    return _weighted(d * d, weight, reduction, "mse_loss", by_sum=True)


def l1_loss(
    input: TensorLike, target: TensorLike, reduction: str = "mean", weight: TensorLike | None = None
) -> Tensor:
    """Absolute difference; arguments as for `mse_loss`.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.functional.l1_loss(grilly.tensor([1.0, 3.0]), grilly.tensor([1.0, 1.0])).item()
    1.0
    """
    x, t = _pair(input, target, "l1_loss")
    return _weighted((x - t).abs(), weight, reduction, "l1_loss", by_sum=True)


def smooth_l1_loss(
    input: TensorLike, target: TensorLike, reduction: str = "mean", beta: float = 1.0
) -> Tensor:
    """Squared below `beta`, absolute above; arguments as for `mse_loss`.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.functional.smooth_l1_loss(grilly.tensor([3.0]), grilly.tensor([0.0])).item()
    2.5
    """
    x, t = _pair(input, target, "smooth_l1_loss")
    return reduced(ops.smooth_l1(x, t, beta=float(beta)), reduction)


def huber_loss(
    input: TensorLike,
    target: TensorLike,
    reduction: str = "mean",
    delta: float = 1.0,
    weight: TensorLike | None = None,
) -> Tensor:
    """Squared below `delta`, absolute (times `delta`) above; arguments as for `mse_loss`.

    The mean divides by the number of elements, whatever their weights, as PyTorch's does.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.functional.huber_loss(grilly.tensor([3.0]), grilly.tensor([0.0]), delta=2.0).item()
    4.0
    """
    x, t = _pair(input, target, "huber_loss")
    return _weighted(ops.huber(x, t, delta=float(delta)), weight, reduction, "huber_loss", by_sum=False)


def _class_rows(
    x: Tensor, target: Tensor, name: str, class_dim: int
) -> tuple[Tensor, Tensor, tuple[int, ...]]:
    """Bring the classes to the last axis and lay everything else out as rows."""
    if x.ndim == 0:
        raise ShapeError(f"{name}: expected at least one axis of classes; received a 0-d tensor.")
    axis = 0 if x.ndim == 1 else class_dim % x.ndim
    places = tuple(n for i, n in enumerate(x.shape) if i != axis)
    if tuple(target.shape) != places:
        raise ShapeError(
            f"{name}: for logits of shape {tuple(x.shape)} with classes on axis {axis} the target has shape "
            f"{places}; received {tuple(target.shape)}."
        )
    rows = math.prod(places)
    if axis != x.ndim - 1:
        x = moveaxis(x, axis, -1)
    return x.reshape((rows, x.shape[-1])), target.reshape((rows,)), places


def cross_entropy(
    input: TensorLike,
    target: TensorLike,
    weight: TensorLike | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
    *,
    class_dim: int = 1,
) -> Tensor:
    """Cross-entropy of logits against class indices or class probabilities.

    Parameters
    ----------
    input : array_like, (C,), (N, C) or (N, C, ...)
        Unnormalised logits.
    target : array_like
        Integer indices with the shape of `input` less its class axis, or probabilities of the same shape.
    weight : array_like, (C,), optional
        Weight of each class; the mean divides by the summed weights of the targets.
    ignore_index : int
        Targets of this value count for nothing. If all are ignored the mean is NaN, with zero gradients.
    reduction : {"mean", "sum", "none"}
    label_smoothing : float
        Share of the target that is spread evenly over the classes, from 0 to 1.
    class_dim : int
        Axis of the classes; -1 for logits like ``(B, S, V)``.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> logits = grilly.tensor([[2.0, 0.0], [0.0, 2.0]])
    >>> round(grilly.functional.cross_entropy(logits, grilly.tensor([0, 1])).item(), 4)
    0.1269
    """
    x = tensor(input)
    t = tensor(target, like=x)
    if not 0.0 <= label_smoothing <= 1.0:
        raise ValueError(f"label_smoothing: expected a number from 0 to 1; received {label_smoothing}.")
    if t.dtype.is_floating:
        return _soft_cross_entropy(x, t, weight, reduction, label_smoothing, class_dim)
    rows, indices, places = _class_rows(x, t, "cross_entropy", class_dim)
    w = None if weight is None else tensor(weight, like=x)
    loss = cast(
        Tensor,
        ops.cross_entropy(
            rows,
            indices,
            w,
            reduction=reduction,
            ignore_index=ignore_index,
            label_smoothing=float(label_smoothing),
        ),
    )
    return loss.reshape(places) if reduction == "none" else loss


def _soft_cross_entropy(
    x: Tensor, target: Tensor, weight: Any, reduction: str, smoothing: float, class_dim: int
) -> Tensor:
    x, target = _pair(x, target, "cross_entropy")
    axis = 0 if x.ndim == 1 else class_dim % x.ndim
    if smoothing:
        target = target * (1.0 - smoothing) + smoothing / x.shape[axis]
    logp = nn_ops.log_softmax(x, axis=axis)
    if weight is not None:
        logp = logp * tensor(weight, like=x).reshape(
            tuple(n if i == axis else 1 for i, n in enumerate(x.shape))
        )
    loss = -(target * logp).sum(dim=axis)
    if reduction == "mean":  # over the samples, whatever the weights: PyTorch's rule for probabilities
        return loss.sum() / max(math.prod(loss.shape), 1)
    return reduced(loss, reduction)


def nll_loss(
    input: TensorLike,
    target: TensorLike,
    weight: TensorLike | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
) -> Tensor:
    """Minus the log-probability of each target class; arguments as for `cross_entropy`.

    Parameters
    ----------
    input : array_like
        Log-probabilities.
    target : array_like of int
    weight : array_like, (C,), optional
    ignore_index : int
    reduction : {"mean", "sum", "none"}

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.functional.nll_loss(grilly.tensor([[-1.0, -2.0]]), grilly.tensor([1])).item()
    2.0
    """
    x = tensor(input)
    t = tensor(target)
    if not t.dtype.is_integer:
        raise DTypeError(f"nll_loss: target must hold integer class indices; received {t.dtype.name}.")
    rows, indices, places = _class_rows(x, t, "nll_loss", 1)
    kept = indices != ignore_index
    safe = where(kept, indices, 0)
    w = tensor(1.0, like=x).expand((rows.shape[1],)) if weight is None else tensor(weight, like=x)
    per_row = where(kept, gather(w, safe, axis=0), 0.0)  # the look-up is also the range check
    picked = rows.gather(1, safe.unsqueeze(1)).squeeze(1)
    losses = where(kept, -(picked * per_row), 0.0)
    if reduction == "mean":
        return losses.sum() / per_row.sum()
    return losses.reshape(places) if reduction == "none" else reduced(losses, reduction)


def binary_cross_entropy(
    input: TensorLike, target: TensorLike, weight: TensorLike | None = None, reduction: str = "mean"
) -> Tensor:
    """Cross-entropy of probabilities; logarithms are cut off at -100.

    Parameters
    ----------
    input : array_like
        Probabilities, from 0 to 1.
    target : array_like
    weight : array_like, optional
        Factor of each element.
    reduction : {"mean", "sum", "none"}

    Examples
    --------
    >>> import grilly_core as grilly
    >>> round(grilly.functional.binary_cross_entropy(grilly.tensor([0.5]), grilly.tensor([1.0])).item(), 4)
    0.6931
    """
    x, t = _pair(input, target, "binary_cross_entropy")
    losses = ops.binary_cross_entropy(x, t)
    return reduced(losses if weight is None else losses * tensor(weight, like=x), reduction)


def binary_cross_entropy_with_logits(
    input: TensorLike,
    target: TensorLike,
    weight: TensorLike | None = None,
    reduction: str = "mean",
    pos_weight: TensorLike | None = None,
) -> Tensor:
    """Cross-entropy of ``sigmoid(input)``, exact for logits of any size.

    Parameters
    ----------
    input, target : array_like
    weight : array_like, optional
        Factor of each element.
    reduction : {"mean", "sum", "none"}
    pos_weight : array_like, optional
        Factor of the positive part.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> f = grilly.functional.binary_cross_entropy_with_logits
    >>> f(grilly.tensor([-1000.0]), grilly.tensor([1.0])).item()
    1000.0
    """
    x, t = _pair(input, target, "binary_cross_entropy_with_logits")
    losses = ops.bce_with_logits(x, t, None if pos_weight is None else tensor(pos_weight, like=x))
    return reduced(losses if weight is None else losses * tensor(weight, like=x), reduction)


def kl_div(
    input: TensorLike, target: TensorLike, reduction: str = "mean", log_target: bool = False
) -> Tensor:
    """Kullback-Leibler divergence of `target` from the log-probabilities `input`.

    Parameters
    ----------
    input : array_like
        Log-probabilities.
    target : array_like
        Probabilities, or log-probabilities with `log_target`.
    reduction : {"mean", "batchmean", "sum", "none"}
        ``"batchmean"`` divides the sum by the first axis and is the divergence proper.
    log_target : bool

    Examples
    --------
    >>> import grilly_core as grilly
    >>> x = grilly.tensor([[0.5, 0.5]])
    >>> grilly.functional.kl_div(x.log(), x, reduction="batchmean").item()
    0.0
    """
    x, t = _pair(input, target, "kl_div")
    losses = ops.kl_div(x, t, log_target=log_target)
    if reduction == "batchmean":
        return losses.sum() / x.shape[0]
    return reduced(losses, reduction)


def cosine_similarity(x1: TensorLike, x2: TensorLike, dim: int = 1, eps: float = 1e-8) -> Tensor:
    """Cosine of the angle between vectors along one axis; each norm is at least `eps`.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.functional.cosine_similarity(grilly.tensor([1.0, 0.0]), grilly.tensor([0.0, 2.0]), dim=0).item()
    0.0
    """
    a = tensor(x1)
    a, b = broadcast_arrays(a, tensor(x2, like=a))  # `dim` counts the axes of both together
    # Each vector is divided by its own norm first: the product of two norms overflows where the cosine does not.
    units = [t / t.norm(dim=dim, keepdim=True).clamp(min=eps) for t in (a, b)]
    return (units[0] * units[1]).sum(dim=dim)


def cosine_embedding_loss(
    input1: TensorLike, input2: TensorLike, target: TensorLike, margin: float = 0.0, reduction: str = "mean"
) -> Tensor:
    """``1 - cos`` where `target` is 1, ``max(0, cos - margin)`` where it is -1.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> a = grilly.tensor([[1.0, 0.0]])
    >>> grilly.functional.cosine_embedding_loss(a, a, grilly.tensor([-1.0]), margin=0.5).item()
    0.5
    """
    a = tensor(input1)
    b, t = tensor(input2, like=a), tensor(target)
    cos = cosine_similarity(a, b, dim=a.ndim - 1)
    if cos.shape != t.shape:
        raise ShapeError(
            f"cosine_embedding_loss: target has shape {tuple(t.shape)}, expected {tuple(cos.shape)}."
        )
    apart = nn_ops.relu(cos - margin)
    like, unlike = (t == 1).to(cos.dtype), (t == -1).to(cos.dtype)
    return reduced(like * (1.0 - cos) + unlike * apart, reduction)


def pairwise_distance(
    x1: TensorLike, x2: TensorLike, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False
) -> Tensor:
    """p-norm of ``x1 - x2 + eps`` along the last axis.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.functional.pairwise_distance(grilly.tensor([[3.0, 4.0]]), grilly.zeros((1, 2)), eps=0.0).tolist()
    [5.0]
    """
    a = tensor(x1)
    d = (a - tensor(x2, like=a) + eps).abs()
    if math.isinf(p):
        return d.amax(dim=-1, keepdim=keepdim)
    if p == 2.0:
        return (d * d).sum(dim=-1, keepdim=keepdim).sqrt()
    return (d**p).sum(dim=-1, keepdim=keepdim) ** (1.0 / p)


def triplet_margin_loss(
    anchor: TensorLike,
    positive: TensorLike,
    negative: TensorLike,
    margin: float = 1.0,
    p: float = 2.0,
    eps: float = 1e-6,
    swap: bool = False,
    reduction: str = "mean",
) -> Tensor:
    """``max(0, margin + d(anchor, positive) - d(anchor, negative))``.

    Parameters
    ----------
    anchor, positive, negative : array_like, (N, D) or (D,)
    margin : float
    p : float
        Which norm measures the distance.
    eps : float
        Added to each difference, which keeps the gradient finite for equal vectors.
    swap : bool
        Use the distance between positive and negative instead, where it is smaller.
    reduction : {"mean", "sum", "none"}

    Examples
    --------
    >>> import grilly_core as grilly
    >>> a, n = grilly.zeros((1, 2)), grilly.tensor([[3.0, 4.0]])
    >>> grilly.functional.triplet_margin_loss(a, a, n, margin=1.0).item()
    0.0
    """
    if margin <= 0:
        raise ValueError(f"triplet_margin_loss: margin must be positive; received {margin}.")
    near = pairwise_distance(anchor, positive, p, eps)
    far = pairwise_distance(anchor, negative, p, eps)
    if swap:
        far = far.minimum(pairwise_distance(positive, negative, p, eps))
    return reduced(nn_ops.relu(near - far + margin), reduction)
