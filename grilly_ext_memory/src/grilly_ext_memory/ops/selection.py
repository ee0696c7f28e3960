"""The best of a table of scores, in an order that is the same on every device."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from grilly_core.dtypes import bool_ as boolean
from grilly_core.dtypes import float32, int32
from grilly_core.errors import DTypeError, ShapeError
from grilly_core.inspection import finfo
from grilly_core.ops.primitives import cast, full, isnan, neg, sort, where
from grilly_core.ops.structure import concat
from grilly_core.ops.views import broadcast_to, reshape, subview
from grilly_core.opspec import op
from grilly_core.tensor import Tensor

__all__ = ["allowed_rows", "best", "check_k", "padding", "select", "topk"]

Samples = Any


def check_k(name: str, k: Any) -> None:
    """Refuse a number of results below 1."""
    if operator.index(k) < 1:
        raise ValueError(f"{name}: k must be at least 1; received {k!r}.")


def allowed_rows(name: str, mask: Tensor | None, queries: int, rows: int) -> Tensor:
    """Return ``(Q, N)`` which rows each query may find; `mask` is ``(N,)``, ``(Q, N)`` or None."""
    shape = (queries, rows)
    if mask is None:
        return full(shape=shape, value=True, dtype=boolean)
    if mask.dtype is not boolean:
        raise DTypeError(
            f"{name}: mask must be bool, True where a row may be found; received {mask.dtype.name}."
        )
    if tuple(mask.shape) not in ((rows,), shape):
        raise ShapeError(f"{name}: mask must be {(rows,)} or {shape}; received {tuple(mask.shape)}.")
    return broadcast_to(reshape(mask, shape=(1, rows)) if mask.ndim == 1 else mask, shape=shape)


def padding(dtype: Any, largest: bool) -> float:
    """Return the value where nothing is left: the largest float32 (float16), or its negative if large is near."""
    most = min(float(finfo(dtype).max), float(np.finfo(np.float32).max))
    return -most if largest else most


def select(scores: Tensor, valid: Tensor, k: int, *, largest: bool) -> tuple[Tensor, Tensor]:
    """Return the best values and positions ``(Q, k)`` of what is `valid` ``(Q, N)`` and not NaN.

    Integers must be below 2^24; their value where nothing is left is 0.
    """
    check_k("select", k)
    if scores.dtype.is_integer:
        found, positions = select(cast(scores, dtype=float32), valid, k, largest=largest)
        return cast(where(positions < 0, 0.0, found), dtype=scores.dtype), positions
    q, n = scores.shape
    # NaN is the greatest of a sort, above infinity, so what may not be found comes last; ties keep their order.
    keys = where(valid, neg(scores) if largest else scores, float("nan"))
    kept = min(k, n)
    values, positions = (
        subview(t, starts=(0, 0), sizes=(q, kept), steps=(1, 1)) for t in sort(keys, axis=1, descending=False)
    )
    nothing, least = isnan(values), padding(scores.dtype, largest)
    values = where(nothing, least, neg(values) if largest else values)
    positions = where(nothing, -1, positions)
    if kept < k:
        rest = (q, k - kept)
        values = concat([values, full(shape=rest, value=least, dtype=scores.dtype)], axis=1)
        positions = concat([positions, full(shape=rest, value=-1, dtype=int32)], axis=1)
    return values, positions


@op("faiss.topk", nondiff_outputs={1})
def topk(
    scores: Tensor, mask: Tensor | None = None, *, k: int, largest: bool = False
) -> tuple[Tensor, Tensor]:
    """The `k` smallest (or largest) scores of each row ``(Q, k)``, nearest first, and their positions, int32.

    `scores` ``(Q, N)``, `mask` ``(N,)`` or ``(Q, N)``, True where a score may be found. Of equal scores the lower
    position comes first. NaN is never returned. Where nothing is left the position is -1 and the value the largest
    float32 (its negative with `largest`). The body sorts whole rows: three more tables of the size of `scores`.
    """
    if scores.ndim != 2 or not scores.dtype.is_floating:
        raise (ShapeError if scores.ndim != 2 else DTypeError)(
            f"faiss.topk: expected floating scores (Q, N); received {scores.dtype.name} {tuple(scores.shape)}."
        )
    check_k("faiss.topk", k)
    return select(scores, allowed_rows("faiss.topk", mask, *scores.shape), k, largest=largest)


def best(
    scores: Any, allowed: Any, k: int, largest: bool, most: float = float(np.finfo(np.float32).max)
) -> Any:
    """Pick in NumPy what `topk` must give: the oracle of every op here that selects."""
    q, n = scores.shape
    values = np.full((q, k), -most if largest else most, scores.dtype)
    positions = np.full((q, k), -1, np.int32)
    keep = ~np.isnan(scores) & np.broadcast_to(True if allowed is None else allowed, (q, n))
    for row in range(q):
        there = np.flatnonzero(keep[row])
        keys = -scores[row, there] if largest else scores[row, there]
        found = there[np.lexsort((there, keys))][:k]
        values[row, : len(found)], positions[row, : len(found)] = scores[row, found], found
    return values, positions


@topk.reference
def _(scores: Any, mask: Any = None, *, k: int, largest: bool) -> Any:
    return best(scores, mask, k, largest)


@topk.samples
def _(s: Samples) -> None:
    x = s.f32(3, 40)
    s.case(x, None, k=5)
    s.case(x, None, k=1, largest=True)
    s.case(s.f32(2, 700), None, k=130, largest=True)
    s.case(s.f32(2, 3), None, k=5, grad="none")
    s.case(x, s.bool(40), k=30, grad="none")
    s.case(x, s.bool(3, 40), k=7, grad="none", largest=True)
    tied = s.i32(4, 50, low=0, high=4).astype("float32")
    s.case(tied, None, k=20, grad="none")
    s.case(tied, None, k=20, largest=True, grad="none")
    rare = np.array([[1.0, np.nan, -np.inf, np.inf, -0.0, 0.0], [np.nan] * 6], np.float32)
    s.case(rare, None, k=6, grad="none")
    s.case(rare, None, k=6, largest=True, grad="none")
    s.case(s.f32(2, 0), None, k=2, grad="none")
    s.case(s.f32(0, 4), None, k=2, grad="none")
    s.error(ValueError, "at least 1", x, k=0)
    s.error(ShapeError, "scores (Q, N)", s.f32(4), k=1)
    s.error(DTypeError, "floating", s.i32(2, 4), k=1)
    s.error(ShapeError, "mask", x, s.bool(39), k=1)
    s.error(DTypeError, "bool", x, s.f32(40), k=1)
