"""Bags of embeddings, and products of two inputs with one weight."""

from __future__ import annotations

import math
from typing import Any

from grilly_core.errors import DTypeError, ShapeError
from grilly_core.functional._arguments import TensorLike, tensor
from grilly_core.functional.layers import embedding
from grilly_core.ops.creation import arange, zeros
from grilly_core.ops.primitives import cumsum, matmul, scatter, where
from grilly_core.ops.views import permute_dims
from grilly_core.tensor import Tensor

__all__ = ["bilinear", "embedding_bag"]


def embedding_bag(
    input: TensorLike,
    weight: Tensor,
    offsets: TensorLike | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    mode: str = "mean",
    sparse: bool = False,
    per_sample_weights: TensorLike | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Tensor:
    """Return the sum, mean or maximum of the rows of `weight` that each bag names.

    Parameters
    ----------
    input : array_like of int, (B, L) or (L,)
        One bag a row; or all bags behind each other, with `offsets`.
    weight : Tensor, (N, D)
    offsets : array_like of int, (B,), optional
        Where each bag starts; the first number is 0.
    max_norm : float, optional
        Rows that are looked up and longer than this are first shortened in `weight` itself.
    norm_type : float
    scale_grad_by_freq : bool
        Divide each row's gradient by how often it was looked up.
    mode : {"sum", "mean", "max"}
        An empty bag gives zeros.
    sparse : bool
        Only False: there are no sparse gradients.
    per_sample_weights : array_like, input's shape, optional
        What each row is multiplied with (``"sum"`` only).
    include_last_offset : bool
        Whether `offsets` has one number more, the end of the last bag.
    padding_idx : int, optional
        This row is left out, and gets no gradient.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> table = grilly.tensor([[1.0], [2.0], [4.0]])
    >>> grilly.functional.embedding_bag([0, 1, 2], table, offsets=[0, 2], mode="sum").tolist()
    [[3.0], [4.0]]
    """
    if mode not in ("sum", "mean", "max"):
        raise ValueError(f"embedding_bag: mode is 'sum', 'mean' or 'max'; received {mode!r}.")
    if per_sample_weights is not None and mode != "sum":
        raise ValueError(f"embedding_bag: per_sample_weights are for mode 'sum'; mode is {mode!r}.")
    if scale_grad_by_freq and mode == "max":
        raise ValueError("embedding_bag: scale_grad_by_freq has no meaning in mode 'max'.")
    ids = tensor(input).to(weight.device)
    flat, bags, count = _bags(ids, offsets, include_last_offset)
    rows = embedding(flat, weight, padding_idx, max_norm, norm_type, scale_grad_by_freq, sparse)
    if padding_idx is not None:
        padding_idx %= weight.shape[0]
    kept = None if padding_idx is None else (flat != padding_idx).unsqueeze(-1)
    if per_sample_weights is not None:
        factors = tensor(per_sample_weights, like=weight)
        if tuple(factors.shape) != tuple(ids.shape):
            raise ShapeError(
                f"embedding_bag: per_sample_weights must have the input's shape {tuple(ids.shape)}; received "
                f"{tuple(factors.shape)}."
            )
        rows = rows * factors.reshape((-1, 1))
    return _pooled(rows, kept, bags, count, mode)


def _bags(ids: Tensor, offsets: Any, include_last: bool) -> tuple[Tensor, Tensor, int]:
    """Return all ids in a row, the bag of each, and how many bags there are."""
    if not ids.dtype.is_integer:
        raise DTypeError(f"embedding_bag: expected integer ids; received {ids.dtype.name}.")
    if ids.ndim == 2:
        if offsets is not None:
            raise ValueError(
                "embedding_bag: offsets have no meaning with an input of 2 axes: each row is a bag."
            )
        b, n = ids.shape
        return ids.reshape((b * n,)), arange(b * n, dtype="int32", device=ids.device) // max(n, 1), b
    if ids.ndim != 1 or offsets is None:
        raise ShapeError(
            f"embedding_bag: expected ids (B, L), or (L,) with offsets; received shape {tuple(ids.shape)}."
        )
    starts = tensor(offsets).to(ids.device)
    if starts.ndim != 1 or starts.shape[0] < 1 or starts[0].item() != 0:
        raise ValueError("embedding_bag: offsets must be a vector that starts with 0.")
    count = starts.shape[0] - include_last
    n = ids.shape[0]
    marks = zeros((n + 1,), dtype="int32", device=ids.device)  # one more, for empty bags at the end
    begun = scatter(marks, starts[:count], marks[:1].expand((count,)) + 1, axis=0, mode="add")
    bags = cumsum(begun, axis=0)[:n] - 1
    return ids, bags, count


def _pooled(rows: Tensor, kept: Tensor | None, bags: Tensor, count: int, mode: str) -> Tensor:
    shape = (count, rows.shape[1])
    if mode == "max":
        low = -math.inf
        lowest = zeros(shape, dtype=rows.dtype, device=rows.device) + low
        best = scatter(lowest, bags, rows if kept is None else where(kept, rows, low), axis=0, mode="max")
        return where(best == low, 0.0, best)
    if kept is not None:
        rows = where(kept, rows, 0.0)
    total = scatter(zeros(shape, dtype=rows.dtype, device=rows.device), bags, rows, axis=0, mode="add")
    if mode == "sum":
        return total
    ones = rows.detach()[:, :1] * 0.0 + 1.0 if kept is None else kept.to(rows.dtype)
    sizes = scatter(zeros((count, 1), dtype=rows.dtype, device=rows.device), bags, ones, axis=0, mode="add")
    return total / sizes.clamp(min=1.0)


def bilinear(
    input1: TensorLike, input2: TensorLike, weight: TensorLike, bias: TensorLike | None = None
) -> Tensor:
    """Return ``input1 @ weight[o] @ input2 + bias[o]`` for every output o, over the last axes.

    Parameters
    ----------
    input1 : array_like, (..., I1)
    input2 : array_like, (..., I2)
    weight : array_like, (O, I1, I2)
    bias : array_like, (O,), optional

    Examples
    --------
    >>> import grilly_core as grilly
    >>> x, y, w = grilly.tensor([[2.0]]), grilly.tensor([[3.0]]), grilly.tensor([[[5.0]]])
    >>> grilly.functional.bilinear(x, y, w).tolist()
    [[30.0]]
    """
    a = tensor(input1)
    b, w = tensor(input2, like=a), tensor(weight, like=a)
    if w.ndim != 3 or a.shape[:-1] != b.shape[:-1] or (a.shape[-1], b.shape[-1]) != tuple(w.shape[1:]):
        raise ShapeError(
            f"bilinear: expected inputs (..., I1) and (..., I2) and a weight (O, I1, I2); received shapes "
            f"{tuple(a.shape)}, {tuple(b.shape)} and {tuple(w.shape)}."
        )
    out, left, right = w.shape
    rows = math.prod(a.shape[:-1])
    wide = permute_dims(w, axes=(1, 0, 2)).reshape((left, out * right))
    half = matmul(a.reshape((rows, left)), wide).reshape((rows, out, right))
    y = matmul(half, b.reshape((rows, right, 1))).reshape((*a.shape[:-1], out))
    return y if bias is None else y + tensor(bias, like=y)
