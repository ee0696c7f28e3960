"""Losses with a margin: ranking, hinges over classes or labels, and triplets with any distance."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from grilly_core.errors import DTypeError, ShapeError
from grilly_core.functional._arguments import TensorLike, reduced, tensor
from grilly_core.functional.losses import pairwise_distance
from grilly_core.ops import nn as nn_ops
from grilly_core.ops.primitives import where
from grilly_core.tensor import Tensor

__all__ = [
    "hinge_embedding_loss", "margin_ranking_loss", "multi_margin_loss", "multilabel_margin_loss",
    "multilabel_soft_margin_loss", "soft_margin_loss", "triplet_margin_with_distance_loss",
]  # fmt: skip


def _float_like(value: Any, x: Tensor) -> Tensor:
    """Targets are often integers; the arithmetic is in the type of the input."""
    t = tensor(value, like=x)
    return t if t.dtype.is_floating else t.to(x.dtype)


def margin_ranking_loss(
    input1: TensorLike, input2: TensorLike, target: TensorLike, margin: float = 0.0, reduction: str = "mean"
) -> Tensor:
    """``max(0, margin - target * (input1 - input2))``: `target` is 1 where `input1` should rank higher, else -1.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> f = grilly.functional.margin_ranking_loss
    >>> f(grilly.tensor([1.0]), grilly.tensor([3.0]), grilly.tensor([1.0])).item()
    2.0
    """
    a = tensor(input1)
    b, t = tensor(input2, like=a), _float_like(target, a)
    if not a.ndim == b.ndim == t.ndim:
        raise ShapeError(
            "margin_ranking_loss: both inputs and the target must have as many axes; received shapes "
            f"{tuple(a.shape)}, {tuple(b.shape)} and {tuple(t.shape)}."
        )
    return reduced(nn_ops.relu(t * (b - a) + margin), reduction)


def hinge_embedding_loss(
    input: TensorLike, target: TensorLike, margin: float = 1.0, reduction: str = "mean"
) -> Tensor:
    """Distance itself where `target` is 1, ``max(0, margin - distance)`` where it is -1.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> f = grilly.functional.hinge_embedding_loss
    >>> f(grilly.tensor([0.25, 0.25]), grilly.tensor([1.0, -1.0]), reduction="none").tolist()
    [0.25, 0.75]
    """
    x = tensor(input)
    t = _float_like(target, x)
    apart = where(t != 1, nn_ops.relu(margin - x), 0.0)
    return reduced(apart + where(t != -1, x, 0.0), reduction)


def soft_margin_loss(input: TensorLike, target: TensorLike, reduction: str = "mean") -> Tensor:
    """``log(1 + exp(-target * input))`` for targets 1 and -1, without overflow.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.functional.soft_margin_loss(grilly.tensor([-1000.0]), grilly.tensor([1.0])).item()
    1000.0
    """
    x = tensor(input)
    # softplus without its linear branch is exact everywhere
    return reduced(nn_ops.softplus(-(_float_like(target, x) * x), threshold=1e30), reduction)


def multilabel_soft_margin_loss(
    input: TensorLike, target: TensorLike, weight: TensorLike | None = None, reduction: str = "mean"
) -> Tensor:
    """Cross-entropy of one sigmoid per class, averaged over the classes (the last axis).

    Parameters
    ----------
    input : array_like, (..., C)
    target : array_like
        1 for each label that holds, else 0.
    weight : array_like, (C,), optional
    reduction : {"mean", "sum", "none"}

    Examples
    --------
    >>> import grilly_core as grilly
    >>> f = grilly.functional.multilabel_soft_margin_loss
    >>> round(f(grilly.tensor([[0.0, 0.0]]), grilly.tensor([[1.0, 0.0]])).item(), 4)
    0.6931
    """
    x = tensor(input)
    t = _float_like(target, x)
    losses = (1.0 - t) * x + nn_ops.softplus(-x, threshold=1e30)
    if weight is not None:
        losses = losses * tensor(weight, like=x)
    return reduced(losses.mean(dim=-1), reduction)


def _rows(x: Tensor, name: str) -> Tensor:
    """Return (N, C); PyTorch takes a number as one row of one class."""
    if x.ndim > 2 or x.shape[-1:] == (0,):
        raise ShapeError(
            f"{name}: expected an input (C,) or (N, C) with C > 0; received shape {tuple(x.shape)}."
        )
    return x if x.ndim == 2 else x.reshape((1, x.numel()))


def _indices(target: Any, x: Tensor, name: str) -> Tensor:
    t = tensor(target, like=x)
    if not t.dtype.is_integer:
        raise DTypeError(f"{name}: target must hold integer class indices; received {t.dtype.name}.")
    return t


def multi_margin_loss(
    input: TensorLike,
    target: TensorLike,
    p: int = 1,
    margin: float = 1.0,
    weight: TensorLike | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Hinge of every wrong class against the right one, ``max(0, margin - x[y] + x[i])**p``, summed and over C.

    Parameters
    ----------
    input : array_like, (N, C) or (C,)
    target : array_like of int, (N,) or ()
    p : {1, 2}
    margin : float
    weight : array_like, (C,), optional
        Weight of each class.
    reduction : {"mean", "sum", "none"}

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.functional.multi_margin_loss(grilly.tensor([[0.0, 1.0]]), grilly.tensor([0])).item()
    1.0
    """
    if p not in (1, 2):
        raise ValueError(f"multi_margin_loss: p must be 1 or 2; received {p}.")
    x = tensor(input)
    rows, t = _rows(x, "multi_margin_loss"), _indices(target, x, "multi_margin_loss")
    n, classes = rows.shape
    if t.numel() != n or t.ndim > 1:
        raise ShapeError(f"multi_margin_loss: expected {n} class indices; received shape {tuple(t.shape)}.")
    at = t.reshape((n, 1))
    losses = nn_ops.relu(rows - rows.gather(1, at) + margin)
    if p == 2:
        losses = losses * losses
    if weight is not None:
        losses = losses * tensor(weight, like=x).index_select(0, t.reshape((n,))).unsqueeze(1)
    wrong = at != tensor(np.arange(classes, dtype=np.int32), like=t)
    losses = where(wrong, losses, 0.0).sum(dim=1) / classes
    return reduced(losses.reshape(tuple(t.shape)), reduction)


def multilabel_margin_loss(input: TensorLike, target: TensorLike, reduction: str = "mean") -> Tensor:
    """Hinge of every class that is no label against every label, summed and divided by C.

    Parameters
    ----------
    input : array_like, (N, C) or (C,)
    target : array_like of int, of the same shape
        The labels' indices come first in each row; the first -1 ends them.
    reduction : {"mean", "sum", "none"}

    Examples
    --------
    >>> import grilly_core as grilly
    >>> x, y = grilly.tensor([[0.0, 1.0, 1.0]]), grilly.tensor([[1, 2, -1]])
    >>> grilly.functional.multilabel_margin_loss(x, y).item()
    0.0
    """
    x = tensor(input)
    rows, t = _rows(x, "multilabel_margin_loss"), _indices(target, x, "multilabel_margin_loss")
    if x.shape != t.shape:
        raise ShapeError(
            "multilabel_margin_loss: input and target must have one shape; received "
            f"{tuple(x.shape)} and {tuple(t.shape)}."
        )
    t = t.reshape(tuple(rows.shape))
    classes = rows.shape[1]
    valid = (t < 0).to(rows.dtype).cumsum(dim=1) == 0
    safe = where(valid, t, 0)
    hit = (safe.unsqueeze(2) == tensor(np.arange(classes, dtype=np.int32), like=t)) & valid.unsqueeze(2)
    other = ~hit.any(dim=1)
    hinges = nn_ops.relu(1.0 - rows.gather(1, safe).unsqueeze(2) + rows.unsqueeze(1))
    losses = where(valid.unsqueeze(2) & other.unsqueeze(1), hinges, 0.0).sum(dim=(1, 2)) / classes
    return reduced(losses if x.ndim == 2 else losses.squeeze(0), reduction)


def triplet_margin_with_distance_loss(
    anchor: TensorLike,
    positive: TensorLike,
    negative: TensorLike,
    *,
    distance_function: Callable[[Tensor, Tensor], Tensor] | None = None,
    margin: float = 1.0,
    swap: bool = False,
    reduction: str = "mean",
) -> Tensor:
    """`triplet_margin_loss` with any distance; `pairwise_distance` if none is given.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> a, n = grilly.zeros((1, 2)), grilly.tensor([[0.5, 0.0]])
    >>> f = grilly.functional.triplet_margin_with_distance_loss
    >>> f(a, a, n, distance_function=lambda x, y: (x - y).abs().sum(dim=-1)).item()
    0.5
    """
    if margin <= 0:
        raise ValueError(f"triplet_margin_with_distance_loss: margin must be positive; received {margin}.")
    a = tensor(anchor)
    p, n = tensor(positive, like=a), tensor(negative, like=a)
    if not a.ndim == p.ndim == n.ndim:
        raise ShapeError(
            "triplet_margin_with_distance_loss: anchor, positive and negative must have as many axes; received "
            f"shapes {tuple(a.shape)}, {tuple(p.shape)} and {tuple(n.shape)}."
        )
    distance = pairwise_distance if distance_function is None else distance_function
    near, far = distance(a, p), distance(a, n)
    if swap:
        far = far.minimum(distance(p, n))
    return reduced(nn_ops.relu(near - far + margin), reduction)
