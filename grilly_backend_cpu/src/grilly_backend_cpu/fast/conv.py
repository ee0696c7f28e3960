"""Between images and columns of windows, for one and two spatial axes.

Every unit of work is one plane of one image, so no two write to the same place and sums have one order.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from grilly_backend_cpu.jit import njit, split

__all__ = ["Columns"]

Array = NDArray[Any]
_WORK: Final = 16384


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
    x, columns, kernel, count, stride, low, dilation = args
    channels, plane = x.shape[1], count[0] * count[1]
    for unit in range(start, stop):
        n, c = unit // channels, unit % channels
        image = x[n, c]
        for a in range(kernel[0]):
            top, bottom, row = _valid(a, low[0], stride[0], dilation[0], x.shape[2], count[0])
            for b in range(kernel[1]):
                left, right, column = _valid(b, low[1], stride[1], dilation[1], x.shape[3], count[1])
                out = columns[(c * kernel[0] + a) * kernel[1] + b, n * plane : (n + 1) * plane]
                out = out.reshape(count[0], count[1])
                if top > 0 or left > 0 or bottom < count[0] or right < count[1]:
                    for i in range(count[0]):
                        for j in range(count[1]):
                            out[i, j] = 0
                for i in range(top, bottom):
                    line = out[i, left:right]
                    source = image[row + i * stride[0], column + left * stride[1] :]
                    if stride[1] == 1:
                        for j in range(line.size):
                            line[j] = source[j]
                    else:
                        for j in range(line.size):
                            line[j] = source[j * stride[1]]


@njit
def _scatter(start: int, stop: int, args: Any) -> None:
    columns, gx, kernel, count, stride, low, dilation = args
    channels, plane = gx.shape[1], count[0] * count[1]
    for unit in range(start, stop):
        n, c = unit // channels, unit % channels
        image = gx[n, c]
        for i in range(image.shape[0]):
            line = image[i]
            for j in range(line.size):
                line[j] = 0
        for a in range(kernel[0]):
            top, bottom, row = _valid(a, low[0], stride[0], dilation[0], gx.shape[2], count[0])
            for b in range(kernel[1]):
                left, right, column = _valid(b, low[1], stride[1], dilation[1], gx.shape[3], count[1])
                part = columns[(c * kernel[0] + a) * kernel[1] + b, n * plane : (n + 1) * plane]
                part = part.reshape(count[0], count[1])
                for i in range(top, bottom):
                    line = part[i, left:right]
                    target = image[row + i * stride[0], column + left * stride[1] :]
                    if stride[1] == 1:
                        for j in range(line.size):
                            target[j] += line[j]
                    else:
                        for j in range(line.size):
                            target[j * stride[1]] += line[j]


@njit
def _to_images(start: int, stop: int, args: Any) -> None:
    product, bias, out = args
    channels, plane = out.shape[1], out.shape[2]
    for unit in range(start, stop):
        n, o = unit // channels, unit % channels
        source, target, shift = product[o, n * plane : (n + 1) * plane], out[n, o], bias[o]
        for i in range(target.size):
            target[i] = source[i] + shift


@njit
def _from_images(start: int, stop: int, args: Any) -> None:
    g, matrix = args
    channels, plane = g.shape[1], g.shape[2]
    for unit in range(start, stop):
        n, o = unit // channels, unit % channels
        source, target = g[n, o], matrix[o, n * plane : (n + 1) * plane]
        for i in range(target.size):
            target[i] = source[i]


_run_gather = split(_gather)
_run_scatter = split(_scatter)
_run_to_images = split(_to_images)
_run_from_images = split(_from_images)


def _two(values: tuple[int, ...], missing: int) -> tuple[int, int]:
    return (missing, values[0]) if len(values) == 1 else (values[0], values[1])


def _how(geo: Any) -> tuple[tuple[int, int], ...]:
    return (
        _two(geo.kernel, 1), _two(geo.count, 1), _two(geo.stride, 1), _two(geo.low, 0), _two(geo.dilation, 1),
    )  # fmt: skip


def _planes(x: Array) -> Array:
    """Return (n, c, h, w), a single spatial axis being the width."""
    return x if x.ndim == 4 else x[:, :, None, :]


class Columns:
    """The same moves as `grilly_backend_cpu.kernels.conv.NumpyColumns`."""

    @staticmethod
    def gather(x: Array, geo: Any, columns: Array) -> None:
        """Fill ``columns[c * kernel, n * plane]`` from images (n, c, ...)."""
        work = max(1, _WORK // (columns.size // (len(x) * x.shape[1])))
        _run_gather(len(x) * x.shape[1], work, (_planes(x), columns, *_how(geo)))

    @staticmethod
    def scatter(columns: Array, geo: Any, gx: Array) -> None:
        """Add every column to the window it stands for."""
        work = max(1, _WORK // (columns.size // (len(gx) * gx.shape[1])))
        _run_scatter(len(gx) * gx.shape[1], work, (columns, _planes(gx), *_how(geo)))

    @staticmethod
    def to_images(product: Array, bias: Array | None, out: Array) -> None:
        """Write ``product[o, n * plane] + bias[o]`` to images (n, o, plane)."""
        shift = np.zeros(len(product), product.dtype) if bias is None else bias
        n, o, plane = out.shape
        _run_to_images(n * o, max(1, 2 * _WORK // plane), (product, shift, out))

    @staticmethod
    def from_images(g: Array, matrix: Array) -> None:
        """Write images (n, o, plane) to ``matrix[o, n * plane]``."""
        n, o, plane = g.shape
        _run_from_images(n * o, max(1, 2 * _WORK // plane), (g, matrix))
