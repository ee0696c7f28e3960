"""Between images and columns of windows, for one and two spatial axes.

No two units of work write to the same place, so sums have one order. `Columns` goes image by image and copies a line
of windows at a time. `BatchLastColumns` first turns the images so that the batch is the innermost axis: then a line
is as long as its windows times the images; for 64 images of 32 by 4 by 4 the columns then take 59 instead of 355 µs.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from grilly_backend_cpu.jit import njit, split
from grilly_backend_cpu.memory import scratch

__all__ = ["BatchLastColumns", "Columns"]

Array = NDArray[Any]
#: Elements of one unit of work. A training step of a small network took 3.3 ms with this, about 4.0 ms with four or
#: sixteen times as much, 3.4 ms with half.
_WORK: Final = 16384
_STRIP: Final = 16  # floats of one cache line


@njit(forceinline=True)
def _valid(place: int, low: int, stride: int, dilation: int, size: int, count: int) -> Any:
    """Return the windows [first, end) whose tap at `place` lies inside, and where the tap of window 0 lies."""
    origin = place * dilation - low
    first = 0 if origin >= 0 else (-origin + stride - 1) // stride
    first = min(first, count)
    end = 0 if origin >= size else min(count, (size - 1 - origin) // stride + 1)
    return first, max(end, first), origin


@njit
def _gather(start: int, stop: int, args: Any) -> None:
    x, columns, k0, k1, c0, c1, s0, s1, l0, l1, d0, d1 = args
    channels = x.shape[1]
    for unit in range(start, stop):
        n, c = unit // channels, unit % channels
        image = x[n, c]
        for a in range(k0):
            top, bottom, row = _valid(a, l0, s0, d0, x.shape[2], c0)
            for b in range(k1):
                left, right, column = _valid(b, l1, s1, d1, x.shape[3], c1)
                out = columns[n, (c * k0 + a) * k1 + b].reshape(c0, c1)
                if top > 0 or left > 0 or bottom < c0 or right < c1:
                    for i in range(c0):
                        for j in range(c1):
                            out[i, j] = 0
                for i in range(top, bottom):
                    line = out[i, left:right]
                    source = image[row + i * s0, column + left * s1 :]
                    if s1 == 1:
                        for j in range(line.size):
                            line[j] = source[j]
                    else:
                        for j in range(line.size):
                            line[j] = source[j * s1]


@njit
def _scatter(start: int, stop: int, args: Any) -> None:
    columns, gx, k0, k1, c0, c1, s0, s1, l0, l1, d0, d1 = args
    channels = gx.shape[1]
    for unit in range(start, stop):
        n, c = unit // channels, unit % channels
        image = gx[n, c]
        for i in range(image.shape[0]):
            line = image[i]
            for j in range(line.size):
                line[j] = 0
        for a in range(k0):
            top, bottom, row = _valid(a, l0, s0, d0, gx.shape[2], c0)
            for b in range(k1):
                left, right, column = _valid(b, l1, s1, d1, gx.shape[3], c1)
                part = columns[n, (c * k0 + a) * k1 + b].reshape(c0, c1)
                for i in range(top, bottom):
                    line = part[i, left:right]
                    target = image[row + i * s0, column + left * s1 :]
                    if s1 == 1:
                        for j in range(line.size):
                            target[j] += line[j]
                    else:
                        for j in range(line.size):
                            target[j * s1] += line[j]


@njit
def _add_bias(start: int, stop: int, args: Any) -> None:
    out, bias = args
    channels = out.shape[1]
    for unit in range(start, stop):
        line, shift = out[unit // channels, unit % channels], bias[unit % channels]
        for i in range(line.size):
            line[i] += shift


@njit
def _turn_in(start: int, stop: int, args: Any) -> None:
    """``target[r, n] = source[n, r]``, a strip of r at a time: both sides then stay in the nearest cache."""
    source, target, strip = args
    for unit in range(start, stop):
        first = unit * strip
        for n in range(source.shape[0]):
            line = source[n, first : first + strip]
            part = target[first : first + strip, n]
            for r in range(line.size):
                part[r] = line[r]


@njit
def _turn_out(start: int, stop: int, args: Any) -> None:
    """``target[n, r] = source[r, n] + bias[r]``."""
    source, bias, target, strip = args
    for unit in range(start, stop):
        first = unit * strip
        for n in range(target.shape[0]):
            line = target[n, first : first + strip]
            part = source[first : first + strip, n]
            shift = bias[first : first + strip]
            for r in range(line.size):
                line[r] = part[r] + shift[r]


@njit
def _gather_last(start: int, stop: int, args: Any) -> None:
    x, columns, k0, k1, c0, c1, s0, s1, l0, l1, d0, d1 = args
    batch = x.shape[3]
    for unit in range(start, stop):
        c, a = unit // k0, unit % k0
        top, bottom, row = _valid(a, l0, s0, d0, x.shape[1], c0)
        for b in range(k1):
            left, right, column = _valid(b, l1, s1, d1, x.shape[2], c1)
            for i in range(c0):
                out = columns[unit * k1 + b, i * c1 * batch : (i + 1) * c1 * batch]
                if i < top or i >= bottom:
                    out[:] = 0
                    continue
                out[: left * batch] = 0
                out[right * batch :] = 0
                line = x[c, row + i * s0].reshape(-1)
                if s1 == 1:
                    first = (column + left) * batch
                    out[left * batch : right * batch] = line[first : first + (right - left) * batch]
                    continue
                for j in range(left, right):
                    first = (column + j * s1) * batch
                    out[j * batch : (j + 1) * batch] = line[first : first + batch]


@njit
def _scatter_last(start: int, stop: int, args: Any) -> None:
    columns, gx, k0, k1, c0, c1, s0, s1, l0, l1, d0, d1 = args
    height, width, batch = gx.shape[1], gx.shape[2], gx.shape[3]
    for unit in range(start, stop):
        c, h = unit // height, unit % height
        line = gx[c, h].reshape(-1)
        line[:] = 0
        for a in range(k0):
            i = (h + l0 - a * d0) // s0
            if i < 0 or i >= c0 or i * s0 + a * d0 - l0 != h:
                continue
            for b in range(k1):
                left, right, column = _valid(b, l1, s1, d1, width, c1)
                part = columns[(c * k0 + a) * k1 + b, i * c1 * batch : (i + 1) * c1 * batch]
                for j in range(left, right):
                    source = part[j * batch : (j + 1) * batch]
                    target = line[(column + j * s1) * batch : (column + j * s1 + 1) * batch]
                    for n in range(target.size):
                        target[n] += source[n]


_run_turn_in = split(_turn_in)
_run_turn_out = split(_turn_out)
_run_gather_last = split(_gather_last)
_run_scatter_last = split(_scatter_last)
_run_gather = split(_gather)
_run_scatter = split(_scatter)
_run_add_bias = split(_add_bias)


def _two(values: tuple[int, ...], missing: int) -> tuple[int, int]:
    return (missing, values[0]) if len(values) == 1 else (values[0], values[1])


def _how(geo: Any) -> tuple[int, ...]:
    """Return kernel, count, stride, low and dilation, two numbers each, flat: a parallel loop takes no tuples."""
    return (
        *_two(geo.kernel, 1), *_two(geo.count, 1), *_two(geo.stride, 1), *_two(geo.low, 0), *_two(geo.dilation, 1),
    )  # fmt: skip


def _planes(x: Array) -> Array:
    """Return (n, c, h, w), a single spatial axis being the width."""
    return x if x.ndim == 4 else x[:, :, None, :]


class Columns:
    """The moves of `grilly_backend_cpu.kernels.conv_ways.NumpyColumns`."""

    @staticmethod
    def gather(x: Array, geo: Any, columns: Array) -> None:
        """Fill ``columns[n, c * kernel, plane]`` from images (n, c, ...)."""
        if columns.size == 0:
            return
        work = max(1, _WORK // (columns.size // (len(x) * x.shape[1])))
        _run_gather(len(x) * x.shape[1], work, (_planes(x), columns, *_how(geo)))

    @staticmethod
    def scatter(columns: Array, geo: Any, gx: Array) -> None:
        """Add every column to the window it stands for."""
        if columns.size == 0:
            return
        work = max(1, _WORK // (columns.size // (len(gx) * gx.shape[1])))
        _run_scatter(len(gx) * gx.shape[1], work, (columns, _planes(gx), *_how(geo)))

    @staticmethod
    def add_bias(out: Array, bias: Array) -> None:
        """Add ``bias[o]`` to images (n, o, plane)."""
        n, o, plane = out.shape
        _run_add_bias(n * o, max(1, 2 * _WORK // plane), (out, bias))


def _turned_in(images: Array, target: Array) -> None:
    n = len(images)
    source, flat = images.reshape(n, -1), target.reshape(-1, n)
    _run_turn_in(-(-len(flat) // _STRIP), max(1, _WORK // (_STRIP * n)), (source, flat, _STRIP))


def _turned_out(source: Array, bias: Array, images: Array) -> None:
    n = len(images)
    target, flat = images.reshape(n, -1), source.reshape(-1, n)
    _run_turn_out(-(-len(flat) // _STRIP), max(1, _WORK // (_STRIP * n)), (flat, bias, target, _STRIP))


class BatchLastColumns:
    """The moves of `grilly_backend_cpu.kernels.conv_ways.BatchLast`."""

    @staticmethod
    def gather(x: Array, geo: Any, columns: Array) -> None:
        """Fill ``columns[c * kernel, plane * n]`` from images (n, c, ...)."""
        if columns.size == 0:
            return
        n, c, h, w = _planes(x).shape
        turned = scratch((c, h, w, n), x.dtype, 3)
        _turned_in(x, turned)
        how = _how(geo)
        work = max(1, _WORK // (columns.size // (c * how[0])))
        _run_gather_last(c * how[0], work, (turned, columns, *how))

    @staticmethod
    def scatter(columns: Array, geo: Any, gx: Array) -> None:
        """Add every column to the window it stands for."""
        if columns.size == 0:
            return
        n, c, h, w = _planes(gx).shape
        turned = scratch((c, h, w, n), gx.dtype, 3)
        _run_scatter_last(c * h, max(1, _WORK // (columns.size // (c * h))), (columns, turned, *_how(geo)))
        _turned_out(turned, np.zeros(c * h * w, gx.dtype), gx)

    @staticmethod
    def to_images(product: Array, bias: Array | None, out: Array) -> None:
        """Write ``product[o, plane * n] + bias[o]`` to images (n, o, plane)."""
        rows = out.shape[1] * out.shape[2]
        shift = np.zeros(rows, product.dtype) if bias is None else np.repeat(bias, out.shape[2])
        _turned_out(product, shift, out)

    @staticmethod
    def from_images(g: Array, matrix: Array) -> None:
        """Write images (n, o, plane) to ``matrix[o, plane * n]``."""
        _turned_in(g, matrix)
