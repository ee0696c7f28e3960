"""Reading and writing by index arrays, and sorting."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from grilly_core import dtypes
from grilly_core.apply import as_tensor
from grilly_core.errors import ShapeError
from grilly_core.layout import broadcast_shapes, contiguous_strides, normalize_axis
from grilly_core.ops import primitives as p
from grilly_core.ops.views import broadcast_to, permute_dims, reshape, subview
from grilly_core.opspec import op
from grilly_core.tensor import Tensor

__all__ = [
    "argsort", "index_add", "masked_fill", "nonzero", "put_along_axis", "scatter_along_axis", "sort", "take",
    "take_along_axis", "topk",
]  # fmt: skip


def wrapped(index: Any, size: int) -> Any:
    """Count negative indices from the end."""
    return p.where(p.lt(index, 0), p.add(index, size), index) if index.dtype.kind == "i" else index


@op("take")
def _take(x: Any, indices: Any, *, axis: int = 0) -> Tensor:
    """Elements of `x` at `indices` (of any shape) along `axis`; negative ones count from the end."""
    flat = (
        reshape(wrapped(indices, x.shape[axis]), shape=(-1,))
        if indices.ndim != 1
        else wrapped(indices, x.shape[axis])
    )
    found = p.gather(x, flat, axis=axis)
    return (
        reshape(found, shape=(*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :]))
        if indices.ndim != 1
        else found
    )


@_take.reference
def _(x: Any, indices: Any, *, axis: Any) -> Any:
    return np.take(x, indices, axis=axis)


@_take.samples
def _(s: Any) -> None:
    s.case(s.f32(5, 3), s.i32(2, 4, low=-5, high=5), axis=0)
    s.case(s.f32(2, 5), s.i32(3, low=0, high=5), axis=1)
    s.case(s.f32(2, 5), s.array(np.array(3, "i4")), axis=1)


def take(x: Any, indices: Any, /, *, axis: int | None = None) -> Tensor:
    """Return the elements of `x` at `indices` along `axis` (of the flat tensor if None)."""
    x = as_tensor(x)
    if axis is None:
        if x.ndim != 1:
            x = reshape(x, shape=(-1,))
        axis = 0
    return _take(x, index_tensor(indices, x), axis=axis)


def index_tensor(indices: Any, like: Tensor) -> Tensor:
    """Return `indices` as an integer tensor on the device of `like`."""
    if not isinstance(indices, Tensor):
        array = np.asarray(indices)
        if array.size == 0 and array.dtype.kind == "f":
            array = array.astype(np.int32)
        indices = (
            as_tensor(array, like)
            if array.ndim
            else Tensor(like._value.spec.context.upload(array, dtypes.from_numpy(array.dtype)))
        )
    if not indices.dtype.is_integer:
        raise TypeError(f"index: expected integers; received {indices.dtype.name}.")
    return indices  # type: ignore[no-any-return]


def _linear(x: Any, indices: Any, axis: int) -> Any:
    """Positions in the flat tensor of the elements that `indices` picks along `axis`."""
    shape = indices.shape
    steps = contiguous_strides(x.shape)
    position = p.mul(wrapped(indices, x.shape[axis]), steps[axis])
    for a, n in enumerate(shape):
        if a != axis and n != 0:
            ramp = p.iota(size=n, step=steps[a], dtype=dtypes.int32)
            position = p.add(
                position, reshape(ramp, shape=tuple(n if i == a else 1 for i in range(len(shape))))
            )
    return reshape(position, shape=(-1,))


def _check_along(name: str, x: Any, indices: Any, axis: int) -> None:
    fits = x.ndim == indices.ndim and all(
        i <= n for a, (n, i) in enumerate(zip(x.shape, indices.shape, strict=True)) if a != axis
    )
    if not fits:
        raise ShapeError(
            f"{name}: indices {indices.shape} must have the axes of x {x.shape}, none larger except axis {axis}."
        )
    if math.prod(x.shape) >= 2**31:
        raise ShapeError(
            f"{name}: x has {math.prod(x.shape)} elements; index along one axis with take for more than 2**31."
        )


@op("take_along_axis")
def _take_along(x: Any, indices: Any, *, axis: int = -1) -> Tensor:
    """Elements picked along `axis`, one index for each element of the result (PyTorch's `gather`)."""
    _check_along("take_along_axis", x, indices, axis)
    picked = p.gather(reshape(x, shape=(-1,)), _linear(x, indices, axis), axis=0)
    return reshape(picked, shape=indices.shape)


@_take_along.reference
def _(x: Any, indices: Any, *, axis: Any) -> Any:
    x = x[tuple(slice(None) if i == axis else slice(n) for i, n in enumerate(indices.shape))]
    return np.take_along_axis(x, indices, axis)


@_take_along.samples
def _(s: Any) -> None:
    s.case(s.f32(3, 5), s.i32(3, 2, low=-5, high=5), axis=1)
    s.case(s.f32(3, 5), s.i32(2, 5, low=0, high=3), axis=0)
    s.error(ValueError, "must have the axes", s.f32(3, 5), s.i32(4, 2), axis=1)


def take_along_axis(x: Any, indices: Any, /, *, axis: int = -1) -> Tensor:
    """Return the elements picked along `axis`, one index for each element of the result."""
    x, indices = as_tensor(x), as_tensor(indices)
    axis = normalize_axis(axis, x.ndim)
    wanted = broadcast_shapes(
        tuple(1 if i == axis else n for i, n in enumerate(x.shape)),
        tuple(1 if i == axis else n for i, n in enumerate(indices.shape)),
    )
    x, indices = (
        broadcast_to(t, shape=tuple(t.shape[axis] if i == axis else n for i, n in enumerate(wanted)))
        for t in (x, indices)
    )
    return _take_along(x, indices, axis=axis)


@op("scatter_along_axis")
def scatter_along_axis(x: Any, indices: Any, updates: Any, *, axis: int, mode: str = "set") -> Tensor:
    """`x` with `updates` combined along `axis`, one index for each update (PyTorch's `scatter`)."""
    _check_along("scatter_along_axis", x, indices, axis)
    if updates.shape != indices.shape:
        updates = subview(updates, starts=(0,) * updates.ndim, sizes=indices.shape, steps=(1,) * updates.ndim)
    flat = p.scatter(
        reshape(x, shape=(-1,)), _linear(x, indices, axis), reshape(updates, shape=(-1,)), axis=0, mode=mode
    )
    return reshape(flat, shape=x.shape)


@scatter_along_axis.samples
def _(s: Any) -> None:
    s.case(s.f32(3, 5), s.i32(3, 2, low=0, high=5), s.f32(3, 2), axis=1, mode="add")
    s.case(s.f32(3, 5), s.array(np.array([[0, 2, 1, 0, 1]], "i4")), s.f32(1, 5), axis=0)


@op("put_along_axis", internal=True)
def put_along_axis(x: Any, indices: Any, updates: Any, *, axis: int) -> Tensor:
    """`x` with `updates` written along `axis`, one index for each update."""
    return scatter_along_axis(x, indices, updates, axis=axis, mode="set")


@put_along_axis.samples
def _(s: Any) -> None:
    s.case(s.f32(3, 4), s.array(np.array([[0, 2, 1], [1, 0, 3], [3, 2, 1]], "i4")), s.f32(3, 3), axis=1)


@op("index_add")
def index_add(x: Any, index: Any, updates: Any, *, axis: int = 0) -> Tensor:
    """`x` with slices of `updates` added at the positions `index` along `axis`; duplicates add up."""
    return p.scatter(x, wrapped(index, x.shape[axis]), updates, axis=axis, mode="add")


@index_add.samples
def _(s: Any) -> None:
    s.case(s.f32(4, 3), s.array(np.array([0, 0, -1], "i4")), s.f32(3, 3), axis=0)


@op("masked_fill")
def masked_fill(x: Any, mask: Any, value: Any) -> Tensor:
    """`x` with `value` wherever `mask` holds."""
    return p.cast(p.where(mask, value, x), dtype=x.dtype)


@masked_fill.samples
def _(s: Any) -> None:
    s.case(s.f32(3, 4), s.bool(4), s.f32())


# -- order ---------------------------------------------------------------------------------------------------


class Sorted(NamedTuple):
    """Values in order, and the indices they came from."""

    values: Tensor
    indices: Tensor


def sort(x: Any, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Tensor:
    """Return the values in order along `axis`; always stable, NaN is the greatest."""
    return p.sort(as_tensor(x), axis=axis, descending=descending)[0]


def argsort(x: Any, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Tensor:
    """Return the indices that sort along `axis`; always stable, NaN is the greatest."""
    return p.sort(as_tensor(x), axis=axis, descending=descending)[1]


@op("topk", nondiff_outputs={1})
def topk(x: Any, *, k: int, axis: int = -1, largest: bool = True) -> tuple[Tensor, ...]:
    """The `k` largest (or smallest) values along `axis` in order, and their indices; NaN is the greatest."""
    if not 0 <= k <= x.shape[axis]:
        raise ShapeError(
            f"topk: k must lie between 0 and {x.shape[axis]}, the size of axis {axis}; received {k}."
        )
    values, indices = p.sort(x, axis=axis, descending=largest)
    sizes = tuple(k if i == axis else n for i, n in enumerate(x.shape))
    return tuple(
        subview(t, starts=(0,) * x.ndim, sizes=sizes, steps=(1,) * x.ndim) for t in (values, indices)
    )


@topk.samples
def _(s: Any) -> None:
    s.case(s.f32(3, 7), k=3, axis=1)
    s.case(s.f32(5, 2), k=2, axis=0, largest=False)
    s.error(ValueError, "between", s.f32(3), k=4)


# -- value-dependent sizes: one counted host read ------------------------------------------------------------


def nonzero(x: Any, /) -> tuple[Tensor, ...]:
    """Return the positions of the elements that are not zero: one index tensor for each axis.

    The number is read by the host once; inside `capture` that is an error.
    """
    x = as_tensor(x)
    if x.ndim == 0:
        raise ShapeError("nonzero: a 0-d tensor has no axes; reshape it to (1,) first.")
    flat = flat_nonzero(x)
    steps = contiguous_strides(x.shape)
    result = []
    for n, step in zip(x.shape, steps, strict=True):
        result.append(p.floordiv(flat, step) % n if n else flat)
    return tuple(result)


def flat_nonzero(x: Tensor) -> Tensor:
    """Positions, in the flat tensor, of the elements that are not zero."""
    mask = reshape(x if x.dtype.kind == "b" else x != 0, shape=(-1,))
    size = mask.shape[0]
    ranks = p.cumsum(mask, axis=0)
    count = int(ranks[-1].item()) if size else 0
    target = p.where(mask, p.sub(ranks, 1), count)
    empty, places = _zeros_i32(count + 1, x), _places(size, x)
    found = p.scatter(empty, target, places, axis=0, mode="max")
    return subview(found, starts=(0,), sizes=(count,), steps=(1,))


def _zeros_i32(size: int, like: Tensor) -> Tensor:
    from grilly_core.ops.creation import zeros

    return zeros(size, dtype=dtypes.int32, device=like.device)


def _places(size: int, like: Tensor) -> Tensor:
    from grilly_core.ops.creation import arange

    return arange(size, dtype=dtypes.int32, device=like.device)


def move_axes_first(x: Any, axes: Sequence[int]) -> Any:
    """The given axes in front, the rest in order."""
    rest = [i for i in range(x.ndim) if i not in axes]
    return permute_dims(x, axes=(*axes, *rest))
