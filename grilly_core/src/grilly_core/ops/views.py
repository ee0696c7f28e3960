"""Views: other shapes and strides on the same storage. No kernel, no copy, no aliasing for the user."""

from __future__ import annotations

import math
from typing import Any

from grilly_core import layout as layouts
from grilly_core.errors import ShapeError
from grilly_core.layout import Layout, normalize_axes, normalize_axis
from grilly_core.ops.primitives import strided_copy, sum
from grilly_core.opspec import Handle, op, view_op
from grilly_core.tensor import Tensor

__all__ = [
    "broadcast_to", "expand_dims", "flip", "permute_dims", "reshape", "sliding_window", "squeeze", "subview", "sum_to",
]  # fmt: skip

Viewed = tuple[tuple[int, ...], tuple[int, ...], int]
_assemble = Handle("assemble")


@view_op("restride", internal=True)
def restride(layout: Layout, *, shape: tuple[int, ...]) -> Viewed:
    """Show the elements, which need no copy for it, in another shape."""
    strides = layouts.reshape_strides(layout, shape)
    if strides is None:
        raise ShapeError(f"restride: a layout of {layout} cannot be shown as {shape} without a copy.")
    return shape, strides, 0


@restride.vjp
def _(grads: Any, outs: Any, ins: Any, attrs: Any, needs: Any) -> Any:
    return (reshape(grads[0], shape=ins[0].shape),)


@op("reshape", aliasing=True, saves="shapes")
def reshape(x: Any, *, shape: Any) -> Tensor:
    """The same elements, in C order, in another shape; one size may be -1."""
    target = layouts.resolve_shape(shape if isinstance(shape, tuple) else (shape,), x._value.spec.size)
    if layouts.reshape_strides(x._value.spec.layout, target) is None:
        x = strided_copy(x)
    return restride(x, shape=target)


@reshape.vjp
def _(grads: Any, outs: Any, ins: Any, attrs: Any, needs: Any) -> Any:
    return (reshape(grads[0], shape=ins[0].shape),)


@reshape.reference
def _(x: Any, *, shape: Any) -> Any:
    return x.reshape(shape)


@reshape.samples
def _(s: Any) -> None:
    s.case(s.f32(3, 4), shape=(2, 6))
    s.case(s.f32(2, 3, 4), shape=(-1, 4))
    s.case(s.f32(0, 3), shape=(3, 0))
    s.error(ValueError, "reshape", s.f32(3, 4), shape=(5,))


@view_op("permute_dims")
def permute_dims(layout: Layout, *, axes: tuple[int, ...]) -> Viewed:
    """Axes in another order."""
    order = tuple(normalize_axis(a, layout.ndim, "axes") for a in axes)
    if sorted(order) != list(range(layout.ndim)):
        raise ShapeError(f"permute_dims: axes {axes} must name each of the {layout.ndim} axes once.")
    return tuple(layout.shape[a] for a in order), tuple(layout.strides[a] for a in order), 0


@permute_dims.vjp
def _(grads: Any, outs: Any, ins: Any, attrs: Any, needs: Any) -> Any:
    order = [a % len(attrs["axes"]) for a in attrs["axes"]]
    return (permute_dims(grads[0], axes=tuple(order.index(i) for i in range(len(order)))),)


@permute_dims.reference
def _(x: Any, *, axes: Any) -> Any:
    return x.transpose(axes)


@permute_dims.samples
def _(s: Any) -> None:
    s.case(s.f32(2, 3, 4), axes=(2, 0, 1))
    s.case(s.f32(3, 4), axes=(-1, 0))
    s.error(ValueError, "once", s.f32(3, 4), axes=(0, 0))


@view_op("broadcast_to")
def broadcast_to(layout: Layout, *, shape: tuple[int, ...]) -> Viewed:
    """Repeat axes of size 1, and add leading axes, without a copy."""
    return shape, layouts.expand_strides(layout.shape, layout.strides, shape), 0


@broadcast_to.vjp
def _(grads: Any, outs: Any, ins: Any, attrs: Any, needs: Any) -> Any:
    return (sum_to(grads[0], shape=ins[0].shape),)


@broadcast_to.reference
def _(x: Any, *, shape: Any) -> Any:
    import numpy as np

    return np.broadcast_to(x, shape)


@broadcast_to.samples
def _(s: Any) -> None:
    s.case(s.f32(3, 1), shape=(2, 3, 4))
    s.case(s.f32(), shape=(2, 2))
    s.error(ValueError, "expand", s.f32(3), shape=(4,))


@op("sum_to", internal=True, saves="shapes")
def sum_to(x: Any, *, shape: tuple[int, ...]) -> Tensor:
    """Undo `broadcast_to`: sum over the repeated axes."""
    extra = x.ndim - len(shape)
    axes = tuple(range(extra)) + tuple(
        i + extra for i, n in enumerate(shape) if n == 1 and x.shape[i + extra] != 1
    )
    if axes:
        x = sum(x, axis=axes, keepdims=True)
    return reshape(x, shape=shape)


@sum_to.vjp
def _(grads: Any, outs: Any, ins: Any, attrs: Any, needs: Any) -> Any:
    return (broadcast_to(grads[0], shape=ins[0].shape),)


@sum_to.samples
def _(s: Any) -> None:
    s.case(s.f32(2, 3, 4), shape=(3, 1))
    s.case(s.f32(2, 3), shape=())


@view_op("flip")
def flip(layout: Layout, *, axis: Any = None) -> Viewed:
    """Reverse the order along `axis` (all axes by default)."""
    axes = normalize_axes(axis, layout.ndim)
    strides = tuple(-s if i in axes else s for i, s in enumerate(layout.strides))
    offset = math.fsum(layout.strides[a] * (layout.shape[a] - 1) for a in axes if layout.shape[a])
    return layout.shape, strides, int(offset) if layout.size else 0


@flip.vjp
def _(grads: Any, outs: Any, ins: Any, attrs: Any, needs: Any) -> Any:
    return (flip(grads[0], axis=attrs["axis"]),)


@flip.reference
def _(x: Any, *, axis: Any) -> Any:
    import numpy as np

    return np.flip(x, axis)


@flip.samples
def _(s: Any) -> None:
    s.case(s.f32(3, 4), axis=1)
    s.case(s.f32(2, 3, 2))
    s.case(s.f32(0, 3), axis=0)


@view_op("expand_dims", new_axis=True)
def expand_dims(layout: Layout, *, axis: Any = 0) -> Viewed:
    """Insert an axis of size 1 at `axis` of the result."""
    where = normalize_axis(axis, layout.ndim + 1)
    shape, strides = list(layout.shape), list(layout.strides)
    shape.insert(where, 1)
    strides.insert(where, 1)
    return tuple(shape), tuple(strides), 0


@expand_dims.vjp
def _(grads: Any, outs: Any, ins: Any, attrs: Any, needs: Any) -> Any:
    return (reshape(grads[0], shape=ins[0].shape),)


@expand_dims.reference
def _(x: Any, *, axis: Any) -> Any:
    import numpy as np

    return np.expand_dims(x, axis)


@expand_dims.samples
def _(s: Any) -> None:
    s.case(s.f32(3, 4), axis=0)
    s.case(s.f32(3), axis=-1)


@view_op("squeeze")
def squeeze(layout: Layout, *, axis: Any) -> Viewed:
    """Remove axes of size 1."""
    axes = normalize_axes(axis, layout.ndim)
    wrong = [a for a in axes if layout.shape[a] != 1]
    if wrong:
        raise ShapeError(
            f"squeeze: axis {wrong[0]} of shape {layout.shape} has size {layout.shape[wrong[0]]}, not 1."
        )
    keep = [i for i in range(layout.ndim) if i not in axes]
    return tuple(layout.shape[i] for i in keep), tuple(layout.strides[i] for i in keep), 0


@squeeze.vjp
def _(grads: Any, outs: Any, ins: Any, attrs: Any, needs: Any) -> Any:
    return (reshape(grads[0], shape=ins[0].shape),)


@squeeze.reference
def _(x: Any, *, axis: Any) -> Any:
    return x.squeeze(axis)


@squeeze.samples
def _(s: Any) -> None:
    s.case(s.f32(3, 1, 4, 1), axis=(1, 3))
    s.error(ValueError, "size", s.f32(3, 4), axis=0)


@view_op("subview")
def subview(
    layout: Layout,
    *,
    starts: tuple[int, ...],
    sizes: tuple[int, ...],
    steps: tuple[int, ...],
    axes: tuple[int, ...] | None = None,
) -> Viewed:
    """A slice along every axis: first index, number of elements and step (which may be negative).

    `axes` says which source axis each axis of the result is (-1: a new one); those left out must have size 1.
    """
    offset = 0
    if 0 not in sizes:
        for start, stride in zip(starts, layout.strides, strict=True):
            offset += start * stride
    strides = tuple(s * k for s, k in zip(layout.strides, steps, strict=True))
    if axes is None:
        return sizes, strides, offset
    return (
        tuple(1 if a < 0 else sizes[a] for a in axes),
        tuple(1 if a < 0 else strides[a] for a in axes),
        offset,
    )


@subview.vjp
def _(grads: Any, outs: Any, ins: Any, attrs: Any, needs: Any) -> Any:
    parts = ((attrs["starts"], attrs["steps"]),)
    g = grads[0] if attrs["axes"] is None else reshape(grads[0], shape=attrs["sizes"])
    return (_assemble([g], shape=ins[0].shape, places=parts, fill=0),)


@subview.reference
def _(x: Any, *, starts: Any, sizes: Any, steps: Any, axes: Any) -> Any:
    import numpy as np

    part = (
        x[np.ix_(*[a + k * np.arange(n) for a, n, k in zip(starts, sizes, steps, strict=True)])]
        if x.ndim
        else x
    )
    return part if axes is None else part.reshape([1 if a < 0 else sizes[a] for a in axes])


@subview.samples
def _(s: Any) -> None:
    s.case(s.f32(5, 6), starts=(1, 5), sizes=(3, 3), steps=(1, -2))
    s.case(s.f32(5, 6), starts=(0, 0), sizes=(0, 6), steps=(1, 1))
    s.case(s.f32(5, 6), starts=(2, 1), sizes=(1, 3), steps=(1, 2), axes=(-1, 1))


@view_op("sliding_window")
def sliding_window(
    layout: Layout,
    *,
    axes: tuple[int, ...],
    sizes: tuple[int, ...],
    strides: tuple[int, ...],
    dilations: tuple[int, ...],
) -> Viewed:
    """Windows along `axes`: those axes count windows, and the window axes are appended."""
    shape, steps = layouts.sliding_window(layout, axes, sizes, strides, dilations)
    return shape, steps, 0


@sliding_window.vjp
def _(grads: Any, outs: Any, ins: Any, attrs: Any, needs: Any) -> Any:
    return (fold_windows(grads[0], shape=ins[0].shape, **attrs),)


@sliding_window.reference
def _(x: Any, *, axes: Any, sizes: Any, strides: Any, dilations: Any) -> Any:
    import numpy as np

    spans = tuple(d * (k - 1) + 1 for k, d in zip(sizes, dilations, strict=True))
    windows = np.lib.stride_tricks.sliding_window_view(x, spans, axes)
    key: list[Any] = [slice(None)] * windows.ndim
    for i, axis in enumerate(axes):
        key[axis] = slice(None, None, strides[i])
        key[x.ndim + i] = slice(None, None, dilations[i])
    return windows[tuple(key)]


@sliding_window.samples
def _(s: Any) -> None:
    s.case(s.f32(2, 7, 6), axes=(1, 2), sizes=(3, 2), strides=(2, 1), dilations=(1, 2))
    s.error(ValueError, "window", s.f32(2), axes=(0,), sizes=(3,), strides=(1,), dilations=(1,))


@op("fold_windows", internal=True, saves="shapes")
def fold_windows(
    x: Any, *, shape: tuple[int, ...], axes: tuple[int, ...], sizes: tuple[int, ...],
    strides: tuple[int, ...], dilations: tuple[int, ...],
) -> Tensor:  # fmt: skip
    """Add windows back where `sliding_window` took them from."""
    ndim = len(shape)
    total: Tensor | None = None
    for flat in range(math.prod(sizes)):
        place: list[int] = []
        rest = flat
        for size in reversed(sizes):
            place.insert(0, rest % size)
            rest //= size
        key = (0,) * ndim + tuple(place)
        part = subview(x, starts=key, sizes=(*x.shape[:ndim], *(1,) * len(axes)), steps=(1,) * x.ndim)
        part = squeeze(part, axis=tuple(range(ndim, x.ndim)))
        starts, steps = [0] * ndim, [1] * ndim
        for axis, offset, stride, dilation in zip(axes, place, strides, dilations, strict=True):
            starts[axis], steps[axis] = offset * dilation, stride
        spread = _assemble([part], shape=shape, places=((tuple(starts), tuple(steps)),), fill=0)
        total = spread if total is None else total + spread
    assert total is not None
    return total


@fold_windows.vjp
def _(grads: Any, outs: Any, ins: Any, attrs: Any, needs: Any) -> Any:
    inner = {k: attrs[k] for k in ("axes", "sizes", "strides", "dilations")}
    return (sliding_window(grads[0], **inner),)


@fold_windows.samples
def _(s: Any) -> None:
    s.case(s.f32(2, 3, 5, 3, 2), shape=(2, 7, 6), axes=(1, 2), sizes=(3, 2), strides=(2, 1), dilations=(1, 1))
