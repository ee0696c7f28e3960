"""Writing by index, as values: copies, fills, and reductions into places of a tensor."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from grilly_core import dtypes
from grilly_core.apply import as_tensor
from grilly_core.errors import ShapeError
from grilly_core.layout import broadcast_shapes, normalize_axis
from grilly_core.ops import primitives as p
from grilly_core.ops.index import _check_along, _linear, index_tensor, wrapped
from grilly_core.ops.structure import pad
from grilly_core.ops.views import broadcast_to, reshape, subview
from grilly_core.opspec import op
from grilly_core.tensor import Tensor

__all__ = [
    "diagonal_scatter", "index_copy", "index_fill", "index_put", "index_reduce", "masked_scatter", "masked_select",
    "put", "scatter_reduce", "select_scatter", "slice_scatter",
]  # fmt: skip

_REDUCTIONS = ("sum", "prod", "mean", "amax", "amin")


@op("index_copy")
def _index_copy(x: Any, index: Any, source: Any, *, axis: int) -> Tensor:
    """`x` with slices of `source` written at the positions `index` along `axis`; the last of duplicates wins."""
    return p.scatter(x, wrapped(index, x.shape[axis]), source, axis=axis)


@_index_copy.samples
def _(s: Any) -> None:
    s.case(s.f32(4, 3), s.array(np.array([0, 2, -1], "i4")), s.f32(3, 3), axis=0)


def index_copy(x: Any, index: Any, source: Any, /, *, axis: int) -> Tensor:
    """Return `x` with slices of `source` written at the positions `index` along `axis`.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.index_copy([1.0, 2.0, 3.0], [2, 0], [9.0, 8.0], axis=0).tolist()
    [8.0, 2.0, 9.0]
    """
    x = as_tensor(x)
    return _index_copy(x, index_tensor(index, x), as_tensor(source, x), axis=axis)


def index_fill(x: Any, index: Any, value: Any, /, *, axis: int) -> Tensor:
    """Return `x` with `value` in the slices at `index` along `axis`.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.index_fill([1.0, 2.0, 3.0], [0, 2], 9.0, axis=0).tolist()
    [9.0, 2.0, 9.0]
    """
    x = as_tensor(x)
    index = reshape(index_tensor(index, x), shape=(-1,))
    axis = normalize_axis(axis, x.ndim)
    shape = tuple(index.shape[0] if i == axis else n for i, n in enumerate(x.shape))
    fill = p.cast(as_tensor(value, x), dtype=x.dtype)
    return _index_copy(x, index, broadcast_to(fill, shape=shape), axis=axis)


# -- reductions into places ----------------------------------------------------------------------------------


def _neutral(dtype: Any, reduce: str) -> Any:
    if reduce in ("sum", "mean"):
        return 0
    if reduce == "prod":
        return 1
    if dtype.is_floating:
        return -math.inf if reduce == "amax" else math.inf
    bits = 8 * dtype.itemsize
    low, high = (0, (1 << bits) - 1) if dtype.kind == "u" else (-(1 << bits - 1), (1 << bits - 1) - 1)
    return low if reduce == "amax" else high


@op("scatter_product", internal=True)
def scatter_product(x: Any, index: Any, updates: Any) -> Tensor:
    """1-D `x` times the products of the updates with the same index.

    Updates are sorted by index; a running product that stops at each new index is built in log2 steps.
    """
    places, order = p.sort(index, axis=0)
    run, reach = p.gather(updates, order, axis=0), 1
    while reach < run.shape[0]:
        same = p.eq(places, pad(places, widths=((reach, -reach),), value=-1))
        run = p.mul(run, p.where(same, pad(run, widths=((reach, -reach),), value=1), 1))
        reach *= 2
    ones = p.add(p.mul(p.cast(p.eq(x, x), dtype=x.dtype), 0), 1)
    return p.mul(x, p.scatter(ones, places, run, axis=0))  # the last of duplicates wins: the whole product


@scatter_product.samples
def _(s: Any) -> None:
    s.case(s.f32(4), s.array(np.array([3, 0, 3, 1, 3], "i4")), s.f32(5))
    s.case(s.f32(2), s.array(np.array([1], "i4")), s.f32(1))


@op("scatter_reduce")
def _scatter_reduce(
    x: Any, index: Any, updates: Any, *, reduce: str, axis: int, include_self: bool = True
) -> Tensor:
    """`x` with the updates that meet in a place reduced into it, one index for each update along `axis`."""
    if reduce not in _REDUCTIONS:
        raise ValueError(
            f"scatter_reduce: reduce must be one of {', '.join(_REDUCTIONS)}; received {reduce!r}."
        )
    _check_along("scatter_reduce", x, index, axis)
    if updates.shape != index.shape:
        updates = subview(updates, starts=(0,) * updates.ndim, sizes=index.shape, steps=(1,) * updates.ndim)
    flat, source = reshape(x, shape=(-1,)), reshape(p.cast(updates, dtype=x.dtype), shape=(-1,))
    place = _linear(x, index, axis)
    number = p.scatter(
        p.cast(p.mul(p.cast(p.eq(flat, flat), dtype=dtypes.int32), 0), dtype=dtypes.int32),
        place, p.cast(p.add(p.mul(place, 0), 1), dtype=dtypes.int32), axis=0, mode="add",
    )  # fmt: skip
    base = flat if include_self else p.where(p.eq(number, 0), flat, _neutral(x.dtype, reduce))
    if reduce == "prod":
        out = scatter_product(base, place, source)
    else:
        mode = {"amax": "max", "amin": "min"}.get(reduce, "add")
        out = p.scatter(base, place, source, axis=0, mode=mode)
    if reduce == "mean":
        count = p.cast(p.maximum(p.add(number, 1) if include_self else number, 1), dtype=x.dtype)
        out = p.div(out, count) if x.dtype.kind in "fc" else p.floordiv(out, count)
    return reshape(out, shape=x.shape)


@_scatter_reduce.samples
def _(s: Any) -> None:
    index = s.array(np.array([[0, 0, 2], [4, 4, 4], [1, 3, 1]], "i4"))
    for reduce in _REDUCTIONS:
        s.case(s.f32(3, 5), index, s.f32(3, 3), axis=1, reduce=reduce)
        s.case(s.f32(3, 5), index, s.f32(3, 3), axis=1, reduce=reduce, include_self=False)
    s.error(ValueError, "one of", s.f32(3), s.i32(2, low=0, high=3), s.f32(2), axis=0, reduce="min")


def scatter_reduce(
    x: Any, index: Any, source: Any, reduce: str, /, *, axis: int, include_self: bool = True
) -> Tensor:
    """Return `x` with the elements of `source` that meet in a place reduced into it.

    Parameters
    ----------
    x : array_like
    index : array_like of int
        Place along `axis` for each element of `source`.
    source : array_like
    reduce : {"sum", "prod", "mean", "amax", "amin"}
    axis : int
    include_self : bool
        Whether what is in `x` takes part where something is written.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.scatter_reduce([1.0, 2.0], [0, 0], [5.0, 3.0], "amax", axis=0).tolist()
    [5.0, 2.0]
    """
    x = as_tensor(x)
    return _scatter_reduce(
        x, index_tensor(index, x), as_tensor(source, x), reduce=reduce, axis=axis, include_self=include_self
    )


def index_reduce(
    x: Any, index: Any, source: Any, reduce: str, /, *, axis: int, include_self: bool = True
) -> Tensor:
    """Return `x` with slices of `source` reduced into the positions `index` along `axis`; see `scatter_reduce`.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.index_reduce([1.0, 2.0], [0, 0], [5.0, 3.0], "prod", axis=0).tolist()
    [15.0, 2.0]
    """
    x = as_tensor(x)
    source = as_tensor(source, x)
    axis = normalize_axis(axis, x.ndim)
    index = index_tensor(index, x)
    shape = tuple(-1 if i == axis else 1 for i in range(x.ndim))
    spread = broadcast_to(reshape(index, shape=shape), shape=source.shape)
    return _scatter_reduce(x, spread, source, reduce=reduce, axis=axis, include_self=include_self)


# -- masks and flat positions --------------------------------------------------------------------------------


def masked_select(x: Any, mask: Any, /) -> Tensor:
    """Return the elements where `mask` holds, 1-D; the two broadcast.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.masked_select([1, 2, 3], [True, False, True]).tolist()
    [1, 3]
    """
    x = as_tensor(x)
    mask = as_tensor(mask, None)
    shape = broadcast_shapes(x.shape, mask.shape) or (1,)
    return broadcast_to(x, shape=shape)[broadcast_to(mask, shape=shape)]


@op("masked_scatter")
def _masked_scatter(x: Any, mask: Any, source: Any) -> Tensor:
    """`x` with the elements of `source`, in order, where `mask` holds."""
    shape = broadcast_shapes(x.shape, mask.shape)
    mask = reshape(broadcast_to(mask, shape=shape), shape=(-1,))
    flat = reshape(broadcast_to(x, shape=shape), shape=(-1,))
    rank = p.maximum(p.sub(p.cumsum(mask, axis=0), 1), 0)
    rank = p.minimum(rank, max(math.prod(source.shape) - 1, 0))
    picked = p.gather(reshape(p.cast(source, dtype=x.dtype), shape=(-1,)), rank, axis=0)
    return reshape(p.where(mask, picked, flat), shape=shape)


@_masked_scatter.samples
def _(s: Any) -> None:
    s.case(s.f32(3, 4), s.bool(3, 4), s.f32(12))
    s.case(s.f32(3, 4), s.bool(4), s.f32(4, 3))


def masked_scatter(x: Any, mask: Any, source: Any, /) -> Tensor:
    """Return `x` with the elements of `source`, in order, where `mask` holds.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.masked_scatter([1, 2, 3], [True, False, True], [8, 9]).tolist()
    [8, 2, 9]
    """
    x = as_tensor(x)
    return _masked_scatter(x, as_tensor(mask), as_tensor(source, x))


def put(x: Any, index: Any, source: Any, /, *, accumulate: bool = False) -> Tensor:
    """Return `x` with `source` written (or added) at positions of the flat tensor.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.put([[1, 2], [3, 4]], [3, 0], [9, 8]).tolist()
    [[8, 2], [3, 9]]
    """
    x = as_tensor(x)
    flat = reshape(x, shape=(-1,))
    place = reshape(wrapped(index_tensor(index, x), flat.shape[0]), shape=(-1,))
    updates = reshape(p.cast(as_tensor(source, x), dtype=x.dtype), shape=(-1,))
    if updates.shape != place.shape:
        raise ShapeError(
            f"put: expected one element for each of {place.shape[0]} positions; received {updates.shape[0]}."
        )
    return reshape(
        p.scatter(flat, place, updates, axis=0, mode="add" if accumulate else "set"), shape=x.shape
    )


def index_put(x: Any, indices: Any, values: Any, /, *, accumulate: bool = False) -> Tensor:
    """Return `x` with ``x[indices]`` set to `values`, or increased by them.

    Duplicates add up with `accumulate`; else the last one wins.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.index_put([1, 2, 3], ([0, 0],), [5, 5], accumulate=True).tolist()
    [11, 2, 3]
    """
    from grilly_core.ops.creation import arange

    x = as_tensor(x)
    key = tuple(slice(None) if i is None else i for i in indices)
    positions = reshape(arange(math.prod(x.shape), dtype=dtypes.int32, device=x.device), shape=x.shape)[key]
    updates = broadcast_to(p.cast(as_tensor(values, x), dtype=x.dtype), shape=positions.shape)
    return put(x, positions, updates, accumulate=accumulate)


# -- slices --------------------------------------------------------------------------------------------------


def _written(x: Any, key: Any, source: Any) -> Tensor:
    result = as_tensor(x).clone()
    result[key] = as_tensor(source, result)
    return result


def select_scatter(x: Any, source: Any, index: int, /, *, axis: int) -> Tensor:
    """Return `x` with `source` as its slice at `index` along `axis`.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.select_scatter([[1, 2], [3, 4]], [8, 9], 0, axis=1).tolist()
    [[8, 2], [9, 4]]
    """
    x = as_tensor(x)
    return _written(x, (slice(None),) * normalize_axis(axis, x.ndim) + (index,), source)


def slice_scatter(
    x: Any, source: Any, /, start: int | None = None, end: int | None = None, step: int = 1, *, axis: int = 0
) -> Tensor:
    """Return `x` with `source` as its slice ``start:end:step`` along `axis`.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.slice_scatter([1, 2, 3, 4], [8, 9], 1, 3).tolist()
    [1, 8, 9, 4]
    """
    x = as_tensor(x)
    return _written(x, (slice(None),) * normalize_axis(axis, x.ndim) + (slice(start, end, step),), source)


def diagonal_scatter(x: Any, source: Any, /, *, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Tensor:
    """Return `x` with `source` as its diagonal over two axes.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.diagonal_scatter([[1, 2], [3, 4]], [8, 9]).tolist()
    [[8, 2], [3, 9]]
    """
    from grilly_core.ops.creation import arange

    x = as_tensor(x)
    positions = reshape(arange(math.prod(x.shape), dtype=dtypes.int32, device=x.device), shape=x.shape)
    places = positions.diagonal(offset, axis1, axis2)
    source = as_tensor(source, x)
    if source.shape != places.shape:
        raise ShapeError(f"diagonal_scatter: the diagonal has shape {places.shape}; received {source.shape}.")
    return put(x, places, source)
