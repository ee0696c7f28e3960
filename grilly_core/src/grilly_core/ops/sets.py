"""Searching in sorted values, and sets: distinct values, where they are and how often."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from grilly_core import dtypes
from grilly_core.apply import as_tensor
from grilly_core.errors import ShapeError
from grilly_core.layout import normalize_axis
from grilly_core.ops import primitives as p
from grilly_core.ops.index import _zeros_i32, flat_nonzero, move_axes_first
from grilly_core.ops.math import isnan, logical_not
from grilly_core.ops.structure import concat, pad
from grilly_core.ops.views import reshape
from grilly_core.opspec import op
from grilly_core.tensor import Tensor

__all__ = [
    "UniqueAll", "UniqueCounts", "UniqueInverse", "isin", "searchsorted", "unique", "unique_all",
    "unique_consecutive", "unique_counts", "unique_inverse", "unique_values",
]  # fmt: skip


@op("searchsorted", nondiff=True)
def _searchsorted(x1: Any, x2: Any, *, side: str = "left") -> Tensor:
    """Where to insert `x2` into the sorted last axis of `x1` so that it stays sorted; NaN is the greatest.

    A binary search of all values at once: as many steps as the number of elements has bits.
    """
    if side not in ("left", "right"):
        raise ValueError(f"searchsorted: side must be 'left' or 'right'; received {side!r}.")
    if x1.ndim != 1 and x1.shape[:-1] != x2.shape[:-1]:
        raise ShapeError(
            f"searchsorted: x1 must be 1-D, or have the leading axes of x2; received {x1.shape} and {x2.shape}."
        )
    n = x1.shape[-1]
    low = p.cast(p.mul(p.cast(p.eq(x2, x2), dtype=dtypes.int32), 0), dtype=dtypes.int32)
    if n == 0 or math.prod(x2.shape) == 0:
        return low
    start: Any = 0
    if x1.ndim != 1:
        rows = math.prod(x1.shape[:-1])
        start = reshape(p.iota(size=rows, step=n, dtype=dtypes.int32), shape=(*x1.shape[:-1], 1))
    flat, high = reshape(x1, shape=(-1,)), p.add(low, n)
    for _ in range(n.bit_length()):
        middle = p.floordiv(p.add(low, high), 2)
        inside = p.minimum(middle, n - 1)
        place = reshape(p.add(inside, start), shape=(-1,))
        found = reshape(p.gather(flat, place, axis=0), shape=x2.shape)
        after = p.bitwise_and(_before(found, x2, side), p.lt(middle, high))
        low, high = p.where(after, p.add(middle, 1), low), p.where(after, high, middle)
    return low


def _before(found: Any, value: Any, side: str) -> Any:
    """Whether an element lies before the place of a value."""
    smaller = p.lt(found, value) if side == "left" else p.bitwise_or(p.lt(found, value), p.eq(found, value))
    if not value.dtype.is_floating or not found.dtype.is_floating:
        return smaller
    greatest = isnan(value) if side == "right" else p.bitwise_and(isnan(value), logical_not(isnan(found)))
    return p.bitwise_or(smaller, greatest)


@_searchsorted.reference
def _(x1: Any, x2: Any, *, side: Any) -> Any:
    if x1.ndim == 1:
        return np.searchsorted(x1, x2, side)
    rows = zip(x1.reshape(-1, x1.shape[-1]), x2.reshape(-1, x2.shape[-1]), strict=True)
    return np.stack([np.searchsorted(a, b, side) for a, b in rows]).reshape(x2.shape)


@_searchsorted.samples
def _(s: Any) -> None:
    for side in ("left", "right"):
        s.case(
            s.array(np.array([0.0, 1.0, 1.0, 2.0], "f4")),
            s.array(np.array([[1.0, 0.5], [3.0, -1.0]], "f4")),
            side=side,
        )
        s.case(
            s.array(np.array([[0.0, 1.0, 1.0], [2.0, 4.0, np.nan]], "f4")),
            s.array(np.array([[1.0, 0.5], [np.nan, 5.0]], "f4")),
            side=side,
        )
    s.case(s.array(np.zeros(0, "f4")), s.f32(3))
    s.case(s.array(np.arange(100, dtype="i4")), s.i32(7, low=-5, high=110))
    s.error(ValueError, "side", s.f32(3), s.f32(2), side="middle")


def searchsorted(x1: Any, x2: Any, /, *, side: str = "left", sorter: Any = None) -> Tensor:
    """Return where to insert `x2` into the sorted `x1` so that it stays sorted.

    Parameters
    ----------
    x1 : array_like
        1-D, or with the leading axes of `x2`: then each row is searched for its own values.
    x2 : array_like
    side : {"left", "right"}
        Before or after equal elements.
    sorter : array_like of int, optional
        Indices that sort `x1`.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.searchsorted([1, 3, 5], [3, 4]).tolist()
    [1, 2]
    """
    like = x1 if isinstance(x1, Tensor) else None
    x1 = as_tensor(x1)
    if sorter is not None:
        from grilly_core.ops.index import take_along_axis

        x1 = take_along_axis(x1, sorter, axis=-1)
    return _searchsorted(x1, as_tensor(x2, like), side=side)


def isin(x1: Any, x2: Any, /, *, invert: bool = False) -> Tensor:
    """Return whether each element of `x1` is among those of `x2` (or, with `invert`, is not).

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.isin([1, 2, 3], [3, 1]).tolist()
    [True, False, True]
    """
    like = x1 if isinstance(x1, Tensor) else x2 if isinstance(x2, Tensor) else None
    x1, x2 = as_tensor(x1, like), as_tensor(x2, like)
    dtype = dtypes.promote(x1.dtype, x2.dtype)
    x1, x2 = p.cast(x1, dtype=dtype), reshape(p.cast(x2, dtype=dtype), shape=(-1,))
    if x2.shape[0] == 0:
        found = p.lt(x1, x1)
    else:
        ordered = p.sort(x2, axis=0)[0]
        place = p.minimum(_searchsorted(ordered, x1), x2.shape[0] - 1)
        near = reshape(p.gather(ordered, reshape(place, shape=(-1,)), axis=0), shape=x1.shape)
        found = p.eq(near, x1)
    return logical_not(found) if invert else found


class UniqueAll(NamedTuple):
    """Result of `unique_all`."""

    values: Tensor
    indices: Tensor
    inverse_indices: Tensor
    counts: Tensor


class UniqueCounts(NamedTuple):
    """Result of `unique_counts`."""

    values: Tensor
    counts: Tensor


class UniqueInverse(NamedTuple):
    """Result of `unique_inverse`."""

    values: Tensor
    inverse_indices: Tensor


def unique_all(x: Any, /) -> UniqueAll:
    """Return the distinct values in order, where each first occurs, the inverse map and the counts.

    Each NaN is distinct.
    """
    x = as_tensor(x)
    flat = reshape(x, shape=(-1,))
    size = flat.shape[0]
    values, order = p.sort(flat, axis=0)
    if size == 0:
        return UniqueAll(values, order, reshape(order, shape=x.shape), order)
    starts = flat_nonzero(_run_starts(values))
    rank = p.sub(p.cumsum(_run_starts(values), axis=0), 1)
    inverse = p.scatter(_zeros_i32(size, x), order, rank, axis=0)
    ends = as_tensor(np.array([size], np.int32), order)
    bounds = concat([starts, ends])
    return UniqueAll(
        p.gather(values, starts, axis=0),
        p.gather(order, starts, axis=0),
        reshape(inverse, shape=x.shape),
        bounds[1:] - bounds[:-1],
    )


def _run_starts(values: Tensor) -> Tensor:
    """True where a sorted value differs from the one before it."""
    changed = values[1:] != values[:-1]
    return pad(p.cast(changed, dtype=dtypes.int32), widths=((1, 0),), value=1) != 0


def unique_counts(x: Any, /) -> UniqueCounts:
    """Return the distinct values in order and how often each occurs."""
    found = unique_all(x)
    return UniqueCounts(found.values, found.counts)


def unique_inverse(x: Any, /) -> UniqueInverse:
    """Return the distinct values in order and, for each element, which of them it is."""
    found = unique_all(x)
    return UniqueInverse(found.values, found.inverse_indices)


def unique_values(x: Any, /) -> Tensor:
    """Return the distinct values in order."""
    return unique_all(x).values


# -- PyTorch's forms -----------------------------------------------------------------------------------------


def unique(
    x: Any, /, *, return_inverse: bool = False, return_counts: bool = False, axis: int | None = None
) -> Any:
    """Return the distinct values in order, or with `axis` the distinct slices in lexicographic order.

    Parameters
    ----------
    x : array_like
    return_inverse : bool
        Also return which of them each element (or slice) is.
    return_counts : bool
        Also return how often each occurs.
    axis : int, optional
        Compare slices along this axis; elements by default.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.unique([3, 1, 3]).tolist()
    [1, 3]
    """
    x = as_tensor(x)
    if axis is None:
        found = unique_all(x)
        return _chosen(found.values, found.inverse_indices, found.counts, return_inverse, return_counts)
    axis = normalize_axis(axis, x.ndim)
    rows = move_axes_first(x, [axis])
    flat = reshape(rows, shape=(rows.shape[0], math.prod(rows.shape[1:])))
    order = _lexicographic(flat)
    values, inverse, counts = _runs(p.gather(rows, order, axis=0))
    inverse = p.scatter(_zeros_i32(rows.shape[0], x), order, inverse, axis=0)
    return _chosen(_back(values, axis), inverse, counts, return_inverse, return_counts)


def unique_consecutive(
    x: Any, /, *, return_inverse: bool = False, return_counts: bool = False, axis: int | None = None
) -> Any:
    """Return the values (or slices along `axis`) without those equal to the one before; see `unique`.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.unique_consecutive([1, 1, 3, 1]).tolist()
    [1, 3, 1]
    """
    x = as_tensor(x)
    if axis is None:
        values, inverse, counts = _runs(reshape(x, shape=(-1,)))
        return _chosen(values, reshape(inverse, shape=x.shape), counts, return_inverse, return_counts)
    axis = normalize_axis(axis, x.ndim)
    values, inverse, counts = _runs(move_axes_first(x, [axis]))
    return _chosen(_back(values, axis), inverse, counts, return_inverse, return_counts)


def _chosen(values: Tensor, inverse: Tensor, counts: Tensor, with_inverse: bool, with_counts: bool) -> Any:
    result = (values, *((inverse,) if with_inverse else ()), *((counts,) if with_counts else ()))
    return result if len(result) > 1 else values


def _back(x: Tensor, axis: int) -> Tensor:
    from grilly_core.ops.manipulate import moveaxis

    return moveaxis(x, 0, axis)


def _lexicographic(rows: Tensor) -> Tensor:
    """Indices that sort rows: stable sorts from the last column to the first."""
    order = p.iota(size=rows.shape[0], dtype=dtypes.int32) if rows.shape[1] == 0 else None
    for column in reversed(range(rows.shape[1])):
        keys = rows[:, column] if order is None else p.gather(rows[:, column], order, axis=0)
        by_column = p.sort(keys, axis=0)[1]
        order = by_column if order is None else p.gather(order, by_column, axis=0)
    assert order is not None
    return order


def _runs(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """First slices of the runs of equal ones along the first axis, the run of each slice, and the lengths."""
    n = x.shape[0]
    if n == 0:
        none = _zeros_i32(0, x)
        return x, none, none
    changed = x[1:] != x[:-1]
    if changed.ndim > 1:
        changed = p.sum(changed, axis=tuple(range(1, changed.ndim))) != 0
    first = pad(p.cast(changed, dtype=dtypes.int32), widths=((1, 0),), value=1) != 0
    starts = flat_nonzero(first)
    ends = as_tensor(np.array([n], np.int32), starts)
    bounds = concat([starts, ends], axis=0)
    return p.gather(x, starts, axis=0), p.sub(p.cumsum(first, axis=0), 1), bounds[1:] - bounds[:-1]
