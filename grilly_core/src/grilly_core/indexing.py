"""Reading and writing with ``x[key]``: ints, slices, ellipsis, new axes, masks and integer arrays, as in NumPy."""

from __future__ import annotations

import operator
from typing import Any, Final, NamedTuple

import numpy as np

from grilly_core import config, dtypes
from grilly_core.apply import as_tensor, plan_of
from grilly_core.buffer import is_sole_owner, make_spec
from grilly_core.dtypes import promote
from grilly_core.errors import ShapeError
from grilly_core.layout import broadcast_shapes, contiguous_strides, make_layout
from grilly_core.opspec import Handle
from grilly_core.plan import EAGER, KernelPlan
from grilly_core.tensor import Tensor

__all__ = ["getitem", "setitem"]

_assemble: Final = Handle("assemble")
_subview: Final = Handle("subview")
_reshape: Final = Handle("reshape")
_permute: Final = Handle("permute_dims")
_broadcast: Final = Handle("broadcast_to")
_gather: Final = Handle("gather")
_scatter: Final = Handle("scatter")
_where: Final = Handle("where")
_copy: Final = Handle("strided_copy")


class Basic(NamedTuple):
    """A key of ints, slices and new axes: one slice along every axis, then a reshape."""

    starts: tuple[int, ...]
    sizes: tuple[int, ...]
    steps: tuple[int, ...]
    shape: tuple[int, ...]
    axes: tuple[int, ...]


class Key(NamedTuple):
    """A parsed key: the basic part, and index arrays with the axes (of the basic result) they index."""

    basic: Basic
    arrays: tuple[tuple[int, Any], ...]


def _is_index_array(item: Any) -> bool:
    if isinstance(item, Tensor):
        return item.ndim > 0 or item.dtype.kind == "b"
    return isinstance(item, list | np.ndarray) and not (
        isinstance(item, np.ndarray) and item.ndim == 0 and item.dtype.kind in "iu"
    )


def _expanded(key: Any, shape: tuple[int, ...]) -> list[Any]:
    """Write out the ellipsis, and turn masks into index arrays."""
    items = list(key) if isinstance(key, tuple) else [key]
    parts: list[Any] = []
    for item in items:
        parts += _mask_indices(item) if _is_mask(item) else [item]
    used = sum(1 for i in parts if i is not None and i is not Ellipsis)
    if used > len(shape):
        raise IndexError(
            f"index: {used} indices for a tensor with {len(shape)} dimensions; give at most one for each axis."
        )
    where = [i for i, item in enumerate(parts) if item is Ellipsis]
    if len(where) > 1:
        raise IndexError("index: the ellipsis '...' may appear only once.")
    at = where[0] if where else len(parts)
    rest = parts[at + 1 :] if where else []
    return parts[:at] + [slice(None)] * (len(shape) - used) + rest


def _is_mask(item: Any) -> bool:
    if isinstance(item, bool | np.bool_):
        return True
    if isinstance(item, Tensor):
        return item.dtype.kind == "b"
    return isinstance(item, list | np.ndarray) and np.asarray(item).dtype == bool


def _mask_indices(mask: Any) -> list[Any]:
    if isinstance(mask, bool | np.bool_):
        raise IndexError(
            "index: a plain True or False is not an index; use x[None] to add an axis, or a mask of the tensor's shape."
        )
    from grilly_core.ops.index import nonzero

    return list(nonzero(as_tensor(mask if isinstance(mask, Tensor) else np.asarray(mask))))


def _parse(key: Any, shape: tuple[int, ...]) -> Key:
    starts, sizes, steps, out, axes = [], [], [], [], []
    arrays: list[tuple[int, Any]] = []
    axis = 0
    for item in _expanded(key, shape):
        if item is None:
            out.append(1)
            axes.append(-1)
            continue
        n = shape[axis]
        if isinstance(item, slice):
            start, stop, step = item.indices(n)
            size = len(range(start, stop, step))
            out.append(size)
            axes.append(axis)
        elif _is_index_array(item):
            start, size, step = 0, n, 1
            arrays.append((len(out), item))
            out.append(size)
            axes.append(axis)
        else:
            start, size, step = _position(item, n, axis), 1, 1
        starts.append(start)
        sizes.append(size)
        steps.append(step)
        axis += 1
    return Key(Basic(tuple(starts), tuple(sizes), tuple(steps), tuple(out), tuple(axes)), tuple(arrays))


def _position(item: Any, n: int, axis: int) -> int:
    try:
        index = operator.index(item)
    except TypeError as error:
        raise IndexError(
            "index: expected an integer, a slice, '...', None, a mask or an integer array; received "
            f"{type(item).__name__}."
        ) from error
    if not -n <= index < n:
        raise IndexError(f"index: {index} is out of range for axis {axis} of size {n}.")
    return index + n if index < 0 else index


def getitem(x: Tensor, key: Any) -> Tensor:
    """Return ``x[key]``."""
    return _read(x, _parse(key, x.shape))


def _read(x: Tensor, parsed: Key) -> Tensor:
    result = _basic(x, parsed.basic)
    if parsed.arrays:
        result = _advanced(result, parsed.arrays)
    return result


def _basic(x: Tensor, basic: Basic) -> Tensor:
    result: Tensor = _subview(x, starts=basic.starts, sizes=basic.sizes, steps=basic.steps, axes=basic.axes)
    return result


def _indices(
    arrays: tuple[tuple[int, Any], ...], x: Tensor
) -> tuple[list[int], list[Tensor], tuple[int, ...]]:
    from grilly_core.ops.index import index_tensor, wrapped

    axes = [a for a, _ in arrays]
    tensors = [wrapped(index_tensor(i, x), x.shape[a]) for a, i in arrays]
    shape = broadcast_shapes(*[t.shape for t in tensors])
    return axes, tensors, shape


def _flat_positions(x: Tensor, axes: list[int], tensors: list[Tensor]) -> Tensor:
    """One index into the joined indexed axes."""
    steps = contiguous_strides(tuple(x.shape[a] for a in axes))
    for a, t in zip(axes, tensors, strict=True):
        _check_bounds(t, x.shape[a], a)
    total = tensors[0] * steps[0] if steps[0] != 1 else tensors[0]
    for t, step in zip(tensors[1:], steps[1:], strict=True):
        total = total + (t * step if step != 1 else t)
    return total


def _check_bounds(index: Tensor, n: int, axis: int) -> None:
    """With several index arrays the joined position hides an index that is out of range, so host data is checked."""
    if index._value.array is not None and index._value.spec.size:
        low, high = int(index._value.array.min()), int(index._value.array.max())
        if low < 0 or high >= n:
            raise IndexError(
                f"index: {high if high >= n else low - n} is out of range for axis {axis} of size {n}."
            )


def _advanced(x: Tensor, arrays: tuple[tuple[int, Any], ...]) -> Tensor:
    axes, tensors, shape = _indices(arrays, x)
    together = axes == list(range(axes[0], axes[0] + len(axes)))
    rest = [i for i in range(x.ndim) if i not in axes]
    front = axes[0] if together else 0
    order = rest[:front] + axes + rest[front:]
    moved = x if order == list(range(x.ndim)) else _permute(x, axes=tuple(order))
    lead, tail = moved.shape[:front], moved.shape[front + len(axes) :]
    joined = 1
    for a in axes:
        joined *= x.shape[a]
    positions = _broadcast(_flat_positions(x, axes, tensors), shape=shape)
    flat = moved if len(axes) == 1 else _reshape(moved, shape=(*lead, joined, *tail))
    index = (
        positions
        if positions.ndim == 1
        else _reshape(positions, shape=(-1,) if positions._value.spec.size else (0,))
    )
    picked = _gather(flat, index, axis=front)
    result: Tensor = picked if len(shape) == 1 else _reshape(picked, shape=(*lead, *shape, *tail))
    return result


def setitem(x: Tensor, key: Any, value: Any) -> None:
    """Perform ``x[key] = value`` as an update of the tensor's value."""
    value = as_tensor(value, x)
    if promote(x.dtype, value.dtype) is not x.dtype:
        value = value.to(x.dtype)
    if _is_mask(key) and not isinstance(key, bool) and value.ndim == 0:
        mask = as_tensor(key if isinstance(key, Tensor) else np.asarray(key))
        if mask.shape != x.shape[: mask.ndim]:
            raise IndexError(
                f"index: a mask of shape {mask.shape} does not fit the tensor's shape {x.shape}."
            )
        mask = _reshape(mask, shape=mask.shape + (1,) * (x.ndim - mask.ndim))
        x._assign(_where(mask, value, x.detach() if x.is_leaf else x), "x[mask] = ...")
        return
    parsed = _parse(key, x.shape)
    if parsed.arrays:
        x._assign(_scattered(x, parsed, value), "x[index] = ...")
        return
    part = _fitted(value, parsed.basic)
    if not _written_in_place(x, parsed.basic, part):
        whole = ((0,) * x.ndim, (1,) * x.ndim)
        places = (whole, (parsed.basic.starts, parsed.basic.steps))
        x._assign(_assemble([_source(x), part], shape=x.shape, places=places), "x[...] = ...")


def _source(x: Tensor) -> Tensor:
    """The old value; outside a recording its history does not matter."""
    return x if config.is_grad_enabled() and not x.is_leaf else x.detach()


def _fitted(value: Tensor, basic: Basic) -> Tensor:
    """The value in the shape of the slice, dtype as it is."""
    try:
        spread = (
            value
            if value.shape == basic.shape
            else _broadcast(_trimmed(value, len(basic.shape)), shape=basic.shape)
        )
    except ShapeError as error:
        raise ShapeError(
            f"x[...] = value: a value of shape {value.shape} does not fit the slice of shape {basic.shape}."
        ) from error
    return spread if basic.shape == basic.sizes else _reshape(spread, shape=basic.sizes)


def _trimmed(value: Tensor, ndim: int) -> Tensor:
    """Drop leading axes of size 1 that the slice does not have."""
    extra = value.ndim - ndim
    if extra > 0 and value.shape[:extra] == (1,) * extra:
        return _reshape(value, shape=value.shape[extra:])  # type: ignore[no-any-return]
    return value


def _written_in_place(x: Tensor, basic: Basic, part: Tensor) -> bool:
    """Write into the tensor's own memory if nobody can tell the difference."""
    state = config.current()
    watched = x._node is not None or part._node is not None
    if (
        (watched and state.grad)
        or state.sink is not None
        or x._view_of
        or part.dtype is not x.dtype
        or not is_sole_owner(x)
    ):
        return False
    view, context = x._value, x._value.spec.context
    if part._value.spec.context is not context or part._value.buffer is view.buffer:
        return False
    strides = tuple(s * k for s, k in zip(view.strides, basic.steps, strict=True))
    offset = view.offset + sum(a * s for a, s in zip(basic.starts, view.strides, strict=True))
    if 0 in basic.sizes:
        return True
    target = context.view(view.buffer, make_spec(make_layout(basic.sizes, strides), x.dtype, context), offset)
    plan = plan_of(_copy.op, (part._value.spec,), (), state, False)
    if not isinstance(plan, KernelPlan):
        return False
    plan.emit(EAGER, [part._value], {0: target})
    return True


def _scattered(x: Tensor, parsed: Key, value: Tensor) -> Tensor:
    """``x[index arrays] = value``: positions of the read, written back flat; the last of duplicates wins."""
    base = _source(x)
    positions = _read(_positions(x), parsed)
    try:
        spread = (
            value
            if value.shape == positions.shape
            else _broadcast(_trimmed(value, positions.ndim), shape=positions.shape)
        )
    except ShapeError as error:
        raise ShapeError(
            f"x[index] = value: a value of shape {value.shape} does not fit the {positions.shape} positions."
        ) from error
    flat, index, update = (
        _reshape(t, shape=(-1,) if t._value.spec.size else (0,)) for t in (base, positions, spread)
    )
    return _reshape(_scatter(flat, index, update, axis=0, mode="set"), shape=x.shape)  # type: ignore[no-any-return]


def _positions(x: Tensor) -> Tensor:
    from grilly_core.ops.creation import arange

    return _reshape(arange(x._value.spec.size, dtype=dtypes.int32, device=x.device), shape=x.shape)  # type: ignore[no-any-return]
