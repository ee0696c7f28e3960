"""Joining, padding, repeating and splitting tensors: all lowered to copies into parts of one output."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from grilly_core import config, registry
from grilly_core.apply import plan_of
from grilly_core.buffer import contiguous_spec, make_spec
from grilly_core.dtypes import promote
from grilly_core.errors import ShapeError
from grilly_core.layout import make_layout, normalize_axis
from grilly_core.ops.primitives import cast, gather, iota
from grilly_core.ops.views import broadcast_to, expand_dims, permute_dims, reshape, subview
from grilly_core.opspec import TensorList, op
from grilly_core.resolve import on_device
from grilly_core.tensor import Tensor

__all__ = ["assemble", "concat", "concatenate", "pad", "repeat", "roll", "split", "stack", "tile", "unstack"]

Place = tuple[tuple[int, ...], tuple[int, ...]]


@op("assemble", internal=True, saves="shapes")
def assemble(
    parts: TensorList, *, shape: tuple[int, ...], places: tuple[Place, ...], fill: Any = None
) -> Tensor:
    """A tensor of `shape` with each part written at its place: (first index, step) along every axis.

    Later parts overwrite earlier ones; `fill` is the value elsewhere (None if the parts cover everything).
    """
    tracer = config.current().sink
    dtype, context = parts[0].dtype, tracer.context
    out = tracer.alloc(contiguous_spec(shape, dtype, context))
    if fill is not None:
        _launch(tracer, "full", [], (fill, shape, dtype), out)
    for part, (starts, steps) in zip(parts, places, strict=True):
        if part._value.spec.size == 0:
            continue
        strides = out.spec.strides
        target = make_layout(part.shape, tuple(s * k for s, k in zip(strides, steps, strict=True)))
        offset = sum_of(a * s for a, s in zip(starts, strides, strict=True))
        whole = tracer.view(out.buffer, make_spec(target, dtype, context), offset)
        _launch(tracer, "strided_copy", [part._value], (), whole)
    return Tensor(out)


def _launch(tracer: Any, name: str, ins: list[Any], values: tuple[Any, ...], out: Any) -> None:
    """Run one primitive into a part of memory that exists already."""
    state = config.current()
    if getattr(tracer, "meta", False):
        return
    plan = plan_of(registry.get(name), [v.spec for v in ins], values, state, False, tracer.context)
    on_device(plan).emit(tracer, ins, {0: out})


def sum_of(numbers: Any) -> int:
    """Sum of integers (the name `sum` is taken by the op)."""
    return int(math.fsum(numbers))


@assemble.vjp
def _(grads: Any, outs: Any, ins: Any, attrs: Any, needs: Any) -> Any:
    g = grads[0]
    results: list[Any] = [None] * len(ins)
    for i in reversed(range(len(ins))):
        starts, steps = attrs["places"][i]
        sizes = ins[i].shape
        if needs[i]:
            results[i] = subview(g, starts=starts, sizes=sizes, steps=steps)
        if i and ins[i]._value.spec.size:  # what this part overwrote had no influence
            empty = broadcast_to(cast(_zero(g), dtype=g.dtype), shape=sizes)
            g = assemble(
                [g, empty], shape=g.shape, places=((((0,) * g.ndim), (1,) * g.ndim), (starts, steps))
            )
    return tuple(results)


def _zero(like: Any) -> Any:
    from grilly_core.apply import scalar_tensor

    return scalar_tensor(0, like.dtype, like._value.spec.context)


@assemble.reference
def _(*parts: Any, shape: Any, places: Any, fill: Any) -> Any:
    out = np.full(shape, 0 if fill is None else fill, np.asarray(parts[0]).dtype)
    for part, (starts, steps) in zip(parts, places, strict=True):
        if np.size(part):
            index = [a + k * np.arange(n) for a, k, n in zip(starts, steps, np.shape(part), strict=True)]
            out[np.ix_(*index) if index else ()] = part
    return out


@assemble.samples
def _(s: Any) -> None:
    s.case([s.f32(2, 3)], shape=(5, 7), places=(((1, 6), (2, -2)),), fill=0)
    s.case([s.f32(4, 4), s.f32(2, 4)], shape=(4, 4), places=(((0, 0), (1, 1)), ((1, 0), (2, 1))))


def _joined(name: str, tensors: Sequence[Any]) -> list[Any]:
    """Bring the parts to one dtype."""
    if not tensors:
        raise ShapeError(f"{name}: needs at least one tensor; received an empty list.")
    dtype = tensors[0].dtype
    for t in tensors[1:]:
        dtype = promote(dtype, t.dtype)
    return [t if t.dtype is dtype else cast(t, dtype=dtype) for t in tensors]


@op("concat")
def concat(tensors: TensorList, *, axis: int | None = 0) -> Tensor:
    """Join tensors along an existing axis; ``axis=None`` flattens them first."""
    parts = _joined("concat", tensors)
    if axis is None:
        parts, axis = [reshape(t, shape=(-1,)) if t.ndim != 1 else t for t in parts], 0
    # an empty 1-D tensor joins anything, as in PyTorch
    kept = [t for t in parts if t.shape != (0,)] or parts[:1]
    first = kept[0]
    axis = normalize_axis(axis, first.ndim)
    for t in kept[1:]:
        if t.ndim != first.ndim or any(
            a != b for i, (a, b) in enumerate(zip(t.shape, first.shape, strict=True)) if i != axis
        ):
            raise ShapeError(f"concat: shapes {first.shape} and {t.shape} differ outside axis {axis}.")
    places, position = [], 0
    for t in kept:
        places.append((tuple(position if i == axis else 0 for i in range(t.ndim)), (1,) * t.ndim))
        position += t.shape[axis]
    shape = tuple(position if i == axis else n for i, n in enumerate(first.shape))
    return assemble(kept, shape=shape, places=tuple(places))


@concat.reference
def _(*tensors: Any, axis: Any) -> Any:
    return np.concatenate([t for t in tensors if t.shape != (0,)] or tensors[:1], axis=axis)


@concat.samples
def _(s: Any) -> None:
    s.case([s.f32(2, 3), s.f32(2, 4)], axis=1)
    s.case([s.f32(0), s.f32(2)], axis=0)
    s.case([s.i32(2, 2), s.i32(3, 2), s.i32(0, 2)], axis=0)
    s.error(ValueError, "differ", [s.f32(2, 3), s.f32(3, 4)], axis=0)


concatenate = concat


@op("stack", new_axis=True)
def stack(tensors: TensorList, *, axis: int = 0) -> Tensor:
    """Join tensors of one shape along a new axis."""
    parts = _joined("stack", tensors)
    if any(t.shape != parts[0].shape for t in parts):
        raise ShapeError(
            f"stack: all shapes must be equal; received {', '.join(str(t.shape) for t in parts)}."
        )
    return concat(
        [expand_dims(t, axis=axis) for t in parts], axis=axis if axis >= 0 else axis + parts[0].ndim + 1
    )


@stack.reference
def _(*tensors: Any, axis: Any) -> Any:
    return np.stack(tensors, axis)


@stack.samples
def _(s: Any) -> None:
    s.case([s.f32(2, 3), s.f32(2, 3)], axis=1)
    s.case([s.f32(2), s.f32(2), s.f32(2)], axis=-1)
    s.error(ValueError, "equal", [s.f32(2), s.f32(3)], axis=0)


@op("pad")
def pad(x: Any, *, widths: tuple[tuple[int, int], ...], value: float = 0.0) -> Tensor:
    """Put `value` round a tensor: (before, after) for each axis; negative widths crop."""
    if len(widths) != x.ndim:
        raise ShapeError(f"pad: expected one (before, after) for each of {x.ndim} axes; received {widths}.")
    crop_low = tuple(0 if a > 0 else -a for a, _ in widths)
    sizes = tuple(
        n - low - (0 if b > 0 else -b) for n, low, (_, b) in zip(x.shape, crop_low, widths, strict=True)
    )
    if any(n < 0 for n in sizes):
        raise ShapeError(f"pad: {widths} crops more than the shape {x.shape} has.")
    if any(a < 0 or b < 0 for a, b in widths):
        x = subview(x, starts=crop_low, sizes=sizes, steps=(1,) * x.ndim)
    starts = tuple(0 if a < 0 else a for a, _ in widths)
    shape = tuple(n + a + (0 if b < 0 else b) for n, a, (_, b) in zip(sizes, starts, widths, strict=True))
    return assemble([x], shape=shape, places=((starts, (1,) * x.ndim),), fill=value)


@pad.reference
def _(x: Any, *, widths: Any, value: Any) -> Any:
    x = x[tuple(slice(-a if a < 0 else 0, b if b < 0 else None) for a, b in widths)]
    return np.pad(x, [(a if a > 0 else 0, b if b > 0 else 0) for a, b in widths], constant_values=value)


@pad.samples
def _(s: Any) -> None:
    s.case(s.f32(2, 3), widths=((1, 0), (2, 1)), value=1.5)
    s.case(s.f32(4, 3), widths=((-1, 2), (0, -1)))
    s.error(ValueError, "each of", s.f32(2, 3), widths=((1, 1),))


@op("tile")
def tile(x: Any, *, repeats: tuple[int, ...]) -> Tensor:
    """The tensor repeated as a whole along each axis."""
    ndim = max_of(len(repeats), x.ndim)
    repeats = (1,) * (ndim - len(repeats)) + tuple(repeats)
    shape = (1,) * (ndim - x.ndim) + x.shape
    mixed = tuple(n for pair in zip(repeats, shape, strict=True) for n in pair)
    spread = broadcast_to(reshape(x, shape=tuple(n for m in shape for n in (1, m))), shape=mixed)
    return reshape(spread, shape=tuple(r * n for r, n in zip(repeats, shape, strict=True)))


def max_of(a: int, b: int) -> int:
    """The larger of two integers (the name `max` is taken by the op)."""
    return a if a > b else b


@tile.reference
def _(x: Any, *, repeats: Any) -> Any:
    return np.tile(x, repeats)


@tile.samples
def _(s: Any) -> None:
    s.case(s.f32(2, 3), repeats=(2, 2))
    s.case(s.f32(3), repeats=(2, 1, 2))


@op("repeat")
def repeat(x: Any, *, repeats: int, axis: int | None = None) -> Tensor:
    """Each element repeated `repeats` times along `axis` (of the flat tensor if None)."""
    if axis is None:
        x, axis = reshape(x, shape=(-1,)), 0
    shape = list(x.shape)
    shape.insert(axis + 1, repeats)
    spread = broadcast_to(expand_dims(x, axis=axis + 1), shape=tuple(shape))
    return reshape(spread, shape=tuple(n * repeats if i == axis else n for i, n in enumerate(x.shape)))


@repeat.reference
def _(x: Any, *, repeats: Any, axis: Any) -> Any:
    return np.repeat(x, repeats, axis)


@repeat.samples
def _(s: Any) -> None:
    s.case(s.f32(2, 3), repeats=2, axis=0)
    s.case(s.f32(2, 3), repeats=3)


@op("roll")
def roll(x: Any, *, shift: Any, axis: Any = None) -> Tensor:
    """Elements shifted along axes, those pushed out coming in at the other end."""
    if axis is None:
        return reshape(roll(reshape(x, shape=(-1,)), shift=shift, axis=0), shape=x.shape)
    axes = axis if isinstance(axis, tuple) else (axis,)
    shifts = shift if isinstance(shift, tuple) else (shift,) * len(axes)
    for k, a in zip(shifts, axes, strict=True):
        n = x.shape[a]
        if n and k % n:
            x = concat(_cut(x, a, (n - k % n, n))[::-1], axis=a)
    result: Tensor = x
    return result


@roll.reference
def _(x: Any, *, shift: Any, axis: Any) -> Any:
    return np.roll(x, shift, axis)


@roll.samples
def _(s: Any) -> None:
    s.case(s.f32(3, 4), shift=1, axis=1)
    s.case(s.f32(3, 4), shift=-2)
    s.case(s.f32(3, 4), shift=(1, 2), axis=(0, 1))


def _cut(x: Any, axis: int, ends: Sequence[int]) -> list[Any]:
    """Slices along `axis` that end at `ends`."""
    parts, start = [], 0
    for end in ends:
        sizes = tuple(end - start if i == axis else n for i, n in enumerate(x.shape))
        starts = tuple(start if i == axis else 0 for i in range(x.ndim))
        parts.append(subview(x, starts=starts, sizes=sizes, steps=(1,) * x.ndim))
        start = end
    return parts


@op("split", aliasing=True, many=True, saves="shapes")
def split(x: Any, *, sizes: tuple[int, ...], axis: int = 0) -> tuple[Tensor, ...]:
    """Slices of the given sizes along `axis`."""
    if sum_of(sizes) != x.shape[axis]:
        raise ShapeError(
            f"split: sizes {sizes} must add up to {x.shape[axis]}, the size of axis {axis} of {x.shape}."
        )
    ends = [sum_of(sizes[: i + 1]) for i in range(len(sizes))]
    return tuple(_cut(x, axis, ends))


@split.vjp
def _(grads: Any, outs: Any, ins: Any, attrs: Any, needs: Any) -> Any:
    return (concat(list(grads), axis=attrs["axis"]),)


@split.reference
def _(x: Any, *, sizes: Any, axis: Any) -> Any:
    return tuple(np.split(x, np.cumsum(sizes)[:-1], axis))


@split.samples
def _(s: Any) -> None:
    s.case(s.f32(2, 7), sizes=(3, 4), axis=1)
    s.error(ValueError, "add up", s.f32(2, 7), sizes=(3, 3), axis=1)


def unstack(x: Any, *, axis: int = 0) -> tuple[Any, ...]:
    """Slices along `axis`, without that axis."""
    axis = normalize_axis(axis, x.ndim)
    n = x.shape[axis]
    parts = split(x, sizes=(1,) * n, axis=axis) if n else ()
    return tuple(reshape(p, shape=tuple(m for i, m in enumerate(p.shape) if i != axis)) for p in parts)


@op("tri_mask", internal=True, nondiff=True)
def tri_mask(*, rows: int, cols: int, k: int) -> Tensor:
    """True on and below the k-th diagonal."""
    from grilly_core import dtypes

    i = reshape(iota(size=rows, dtype=dtypes.int32), shape=(rows, 1))
    j = reshape(iota(size=cols, start=-k, dtype=dtypes.int32), shape=(1, cols))
    return j <= i


@tri_mask.samples
def _(s: Any) -> None:
    s.case(rows=3, cols=4, k=-1)


@op("diagonal")
def diagonal(x: Any, *, offset: int = 0) -> Tensor:
    """The diagonal of the last two axes."""
    rows, cols = x.shape[-2:]
    size = rows if rows < cols - offset else cols - offset
    if offset < 0:
        size = cols if cols < rows + offset else rows + offset
    size = size if size > 0 else 0
    from grilly_core import dtypes

    start = offset if offset >= 0 else -offset * cols
    index = iota(size=size, start=start, step=cols + 1, dtype=dtypes.int32)
    return gather(reshape(x, shape=(*x.shape[:-2], rows * cols)), index, axis=x.ndim - 2)


@diagonal.reference
def _(x: Any, *, offset: Any) -> Any:
    return np.diagonal(x, offset, -2, -1)


@diagonal.samples
def _(s: Any) -> None:
    s.case(s.f32(3, 4))
    s.case(s.f32(2, 4, 3), offset=-1)
    s.case(s.f32(4, 3), offset=1)


def swapped(x: Any, a: int, b: int) -> Any:
    """Two axes exchanged."""
    order = list(range(x.ndim))
    order[a], order[b] = order[b], order[a]
    return permute_dims(x, axes=tuple(order))
