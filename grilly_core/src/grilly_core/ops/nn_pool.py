"""Pooling over any number of axes.

`output_size` is an attribute, so that ceil mode is settled by the caller: a window may hang over the end of the
input, and what lies there counts for nothing.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from grilly_core.dtypes import int32
from grilly_core.errors import ShapeError
from grilly_core.ops._typing import Attrs, Needs, Samples, Tensors
from grilly_core.ops._windows import Pads, Shape, padded, spread, windows
from grilly_core.ops.primitives import argmax, cast, full, gather, iota, max, maximum, minimum, scatter, sum
from grilly_core.ops.views import reshape
from grilly_core.opspec import op
from grilly_core.tensor import Tensor

__all__ = [
    "avg_pool", "avg_pool_vjp", "max_pool", "max_pool_vjp", "max_pool_with_index", "max_unpool", "pool_output_size",
]  # fmt: skip


def pool_output_size(
    size: int, kernel: int, stride: int, padding: int, dilation: int = 1, ceil_mode: bool = False
) -> int:
    """Number of windows along one axis; in ceil mode none may start in the trailing padding.

    Examples
    --------
    >>> pool_output_size(5, 2, 2, 1, ceil_mode=True)
    3
    """
    span = size + 2 * padding - dilation * (kernel - 1) - 1
    if not ceil_mode:
        return span // stride + 1
    count = -(-span // stride) + 1
    return count - 1 if (count - 1) * stride >= size + padding else count


def _check_pool(x: Tensor, kernel: Shape, name: str) -> None:
    if x.ndim != len(kernel) + 2:
        raise ShapeError(
            f"{name}: with {len(kernel)} spatial axes the input is (N, C, ...), {len(kernel) + 2} axes; "
            f"received shape {tuple(x.shape)}."
        )


def _window_pads(
    size: Shape, kernel: Shape, stride: Shape, padding: Pads, dilation: Shape, output_size: Shape
) -> Pads:
    """Pads that make the input end exactly where the last window does (the high one may be negative)."""
    pads = []
    for n, k, s, (low, _), d, out in zip(size, kernel, stride, padding, dilation, output_size, strict=True):
        pads.append((low, (out - 1) * s + d * (k - 1) + 1 - n - low))
    return tuple(pads)


def _max_pool(
    x: Tensor, kernel: Shape, stride: Shape, padding: Pads, dilation: Shape, output_size: Shape
) -> tuple[Tensor, Tensor]:
    _check_pool(x, kernel, "max_pool")
    size = tuple(x.shape[2:])
    pads = _window_pads(size, kernel, stride, padding, dilation, output_size)
    w = windows(padded(x, pads, -math.inf), kernel, output_size, stride, dilation)
    w = reshape(w, shape=(*w.shape[: 2 + len(kernel)], math.prod(kernel)))
    place = argmax(w, axis=-1)
    return max(w, axis=-1), _plane_index(place, size, kernel, stride, padding, dilation)


def _plane_index(
    place: Tensor, size: Shape, kernel: Shape, stride: Shape, padding: Pads, dilation: Shape
) -> Tensor:
    """Turn a place in the window into a flat index in the spatial plane of the input."""
    d = len(kernel)
    index: Any = 0
    for i in range(d):
        inner = math.prod(kernel[i + 1 :])
        offset = (place // inner) % kernel[i] * dilation[i]
        count = place.shape[2 + i]
        start = iota(size=count, start=-padding[i][0], step=stride[i], dtype=int32)
        start = reshape(start, shape=(count, *(1,) * (d - 1 - i)))
        # Clipping only acts where a window holds nothing but -inf and a padding place came first.
        at = minimum(maximum(start + offset, 0), size[i] - 1)
        index = at + index * size[i]
    result: Tensor = index
    return result


@op("nn.max_pool", hidden=1)
def max_pool(
    x: Tensor, *, kernel: Shape, stride: Shape, padding: Pads, dilation: Shape, output_size: Shape
) -> tuple[Tensor, Tensor]:
    """Return the maximum of each window; padding counts as ``-inf``.

    The hidden output is the flat index of the (first) maximum in the input's spatial plane.
    """
    return _max_pool(x, kernel, stride, padding, dilation, output_size)


@max_pool.vjp
def _(grads: Tensors, outs: Tensors, ins: Tensors, attrs: Attrs, needs: Needs) -> Tensors:
    return (max_pool_vjp(grads[0], outs[1], input_shape=tuple(ins[0].shape)),)


@op("nn.max_pool_with_index", nondiff_outputs={1})
def max_pool_with_index(
    x: Tensor, *, kernel: Shape, stride: Shape, padding: Pads, dilation: Shape, output_size: Shape
) -> tuple[Tensor, Tensor]:
    """Like `max_pool`, with the flat index of each maximum as a second output."""
    return _max_pool(x, kernel, stride, padding, dilation, output_size)


@max_pool_with_index.vjp
def _(grads: Tensors, outs: Tensors, ins: Tensors, attrs: Attrs, needs: Needs) -> Tensors:
    return (max_pool_vjp(grads[0], outs[1], input_shape=tuple(ins[0].shape)),)


@op("nn.max_pool_vjp", internal=True)
def max_pool_vjp(g: Tensor, index: Tensor, *, input_shape: Shape) -> Tensor:
    """Gradient of `max_pool`: add each gradient where its maximum came from."""
    planes, plane = math.prod(input_shape[:2]), math.prod(input_shape[2:])
    per_plane = math.prod(g.shape[2:])
    base = reshape(iota(size=planes, step=plane, dtype=int32), shape=(planes, 1))
    flat = reshape(reshape(index, shape=(planes, per_plane)) + base, shape=(planes * per_plane,))
    target = full(value=0, shape=(planes * plane,), dtype=g.dtype)
    summed = scatter(target, flat, reshape(g, shape=(planes * per_plane,)), axis=0, mode="add")
    return reshape(summed, shape=input_shape)


def _flat_places(index: Tensor, plane: int) -> Tensor:
    """Turn indices into planes of ``(N, C, ...)`` into indices of all elements."""
    planes, per_plane = math.prod(index.shape[:2]), math.prod(index.shape[2:])
    base = reshape(iota(size=planes, step=plane, dtype=int32), shape=(planes, 1))
    flat = reshape(cast(index, dtype=int32), shape=(planes, per_plane)) + base
    return cast(reshape(flat, shape=(planes * per_plane,)), dtype=int32)


@op("nn.max_unpool", saves="ins")
def max_unpool(x: Tensor, index: Tensor, *, output_size: Shape) -> Tensor:
    """Put each element at its place in a plane of zeros; `index` is what `max_pool_with_index` gave.

    Where several share a place, the last one stays.
    """
    if x.shape != index.shape or x.ndim != len(output_size) + 2:
        raise ShapeError(
            f"max_unpool: expected indices of the input's shape {tuple(x.shape)}, (N, C, ...) with {len(output_size)} "
            f"more axes; received {tuple(index.shape)}."
        )
    shape = (*x.shape[:2], *output_size)
    target = full(value=0, shape=(math.prod(shape),), dtype=x.dtype)
    flat = _flat_places(index, math.prod(output_size))
    filled = scatter(target, flat, reshape(x, shape=(math.prod(x.shape),)), axis=0, mode="set")
    return reshape(filled, shape=shape)


@max_unpool.vjp
def _(grads: Tensors, outs: Tensors, ins: Tensors, attrs: Attrs, needs: Needs) -> Tensors:
    # All that share a place are taken for the one that stayed, as in PyTorch: they come from one maximum.
    g, index = grads[0], ins[1]
    flat = _flat_places(index, math.prod(attrs["output_size"]))
    taken = gather(reshape(g, shape=(math.prod(g.shape),)), flat, axis=0)
    return reshape(taken, shape=tuple(index.shape)), None


@max_unpool.samples
def _(s: Samples) -> None:
    places = np.array([[[0, 4, 2], [1, 0, 3]], [[4, 3, 2], [2, 1, 0]]], "i4")
    s.case(s.f32(2, 2, 3), s.array(places), output_size=(5,))
    s.case(s.f32(1, 1, 1, 2), s.array(np.array([[[[1, 5]]]], "i4")), output_size=(2, 3))
    s.error(ShapeError, "max_unpool", s.f32(2, 2, 3), s.i32(2, 2, 2, low=0, high=5), output_size=(5,))


def _divisor(
    x: Tensor,
    size: Shape,
    kernel: Shape,
    stride: Shape,
    padding: Pads,
    output_size: Shape,
    count_include_pad: bool,
    divisor_override: int | None,
) -> Tensor | float:
    """Return what each window's sum is divided by: one number, or a tensor over the output's plane."""
    if divisor_override is not None:
        return float(divisor_override)
    result: Tensor | float = 1.0
    d = len(kernel)
    for i in range(d):
        n, k, s, (low, high), out = size[i], kernel[i], stride[i], padding[i], output_size[i]
        first = -low if count_include_pad else 0
        end = n + high if count_include_pad else n
        if -low >= first and (out - 1) * s - low + k <= end:
            result = result * float(k)
            continue
        start = iota(size=out, start=-low, step=s, dtype=int32)
        count = cast(minimum(start + k, end) - maximum(start, first), dtype=x.dtype)
        result = reshape(count, shape=(out, *(1,) * (d - 1 - i))) * result
    return result


@op("nn.avg_pool", saves="shapes")
def avg_pool(
    x: Tensor,
    *,
    kernel: Shape,
    stride: Shape,
    padding: Pads,
    output_size: Shape,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Tensor:
    """Return the mean of each window, counting padding or not; what hangs over beyond it never counts."""
    _check_pool(x, kernel, "avg_pool")
    size, ones = tuple(x.shape[2:]), (1,) * len(kernel)
    pads = _window_pads(size, kernel, stride, padding, ones, output_size)
    w = windows(padded(x, pads), kernel, output_size, stride, ones)
    total = sum(w, axis=tuple(range(w.ndim - len(kernel), w.ndim)))
    return total / _divisor(
        x, size, kernel, stride, padding, output_size, count_include_pad, divisor_override
    )


@avg_pool.vjp
def _(grads: Tensors, outs: Tensors, ins: Tensors, attrs: Attrs, needs: Needs) -> Tensors:
    return (avg_pool_vjp(grads[0], input_shape=tuple(ins[0].shape), **attrs),)


@op("nn.avg_pool_vjp", internal=True)
def avg_pool_vjp(
    g: Tensor,
    *,
    input_shape: Shape,
    kernel: Shape,
    stride: Shape,
    padding: Pads,
    output_size: Shape,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Tensor:
    """Adjoint of `avg_pool`: every element sums the shares of the windows that hold it."""
    size, ones = tuple(input_shape[2:]), (1,) * len(kernel)
    shares = g / _divisor(g, size, kernel, stride, padding, output_size, count_include_pad, divisor_override)
    shares = spread(shares, stride)
    pads = tuple(
        (k - 1 - low, n - m + low)
        for n, m, k, (low, _) in zip(size, shares.shape[2:], kernel, padding, strict=True)
    )
    w = windows(padded(shares, pads), kernel, size, ones, ones)
    return sum(w, axis=tuple(range(w.ndim - len(kernel), w.ndim)))


@avg_pool_vjp.vjp
def _(grads: Tensors, outs: Tensors, ins: Tensors, attrs: Attrs, needs: Needs) -> Tensors:
    how = {name: value for name, value in attrs.items() if name != "input_shape"}
    return (avg_pool(grads[0], **how),)


_OVERHANG = {"kernel": (2,), "stride": (2,), "padding": ((1, 1),), "output_size": (3,)}
_PLAIN = {"kernel": (2, 3), "stride": (2, 2), "padding": ((0, 0), (1, 1)), "output_size": (3, 3)}


def _max_pool_samples(s: Samples) -> None:
    s.case(s.f32(2, 3, 5), dilation=(1,), **_OVERHANG)
    s.case(s.f32(1, 2, 6, 6), dilation=(1, 1), **_PLAIN)
    s.case(
        s.f32(1, 2, 7, 5), kernel=(2, 2), stride=(1, 2), padding=((1, 1), (0, 0)), dilation=(2, 1),
        output_size=(7, 2),
    )  # fmt: skip
    s.error(ShapeError, "max_pool", s.f32(3, 5), dilation=(1,), **_OVERHANG)


max_pool.samples(_max_pool_samples)
max_pool_with_index.samples(_max_pool_samples)


@max_pool_vjp.samples
def _(s: Samples) -> None:
    s.case(s.f32(2, 3, 3), s.i32(2, 3, 3, low=0, high=5), input_shape=(2, 3, 5))


@avg_pool.samples
def _(s: Samples) -> None:
    s.case(s.f32(2, 3, 5), **_OVERHANG)
    s.case(s.f32(2, 3, 5), count_include_pad=False, **_OVERHANG)
    s.case(s.f32(1, 2, 6, 6), **_PLAIN)
    s.case(s.f32(1, 2, 6, 6), divisor_override=4, **_PLAIN)


@avg_pool_vjp.samples
def _(s: Samples) -> None:
    s.case(s.f32(2, 3, 3), input_shape=(2, 3, 5), **_OVERHANG)
    s.case(s.f32(1, 2, 3, 3), input_shape=(1, 2, 6, 6), count_include_pad=False, **_PLAIN)
