"""Convolution and its two gradients as matrix products over columns of windows.

One image of many windows is a good product by itself, and its result lands in place. Small images are put side by
side, so that one large product replaces many small ones; the result is then moved image by image, which also adds
the bias. The columns are made again for the weight gradient: that costs less than keeping them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from grilly_backend_cpu.fast import conv as fast
from grilly_backend_cpu.kernels.support import FAST, WIDE, WIDENED
from grilly_backend_cpu.kernels.windows import padded, taps, windows
from grilly_backend_cpu.memory import scratch
from grilly_backend_cpu.quiet import quiet_context

__all__ = ["register"]

Array = NDArray[Any]
Shape = tuple[int, ...]
_COLUMNS: Final = 1 << 22  # elements of a column matrix; 16 MiB of f32
_ENOUGH: Final = 1024  # windows that make an image a good product by itself
_MANY: Final = 16  # images from which on it pays to make the batch the innermost axis


@dataclass(frozen=True, slots=True)
class Geometry:
    """Shapes of one convolution, seen from the input."""

    batch: int
    channels: int
    size: Shape
    kernel: Shape
    count: Shape
    stride: Shape
    low: Shape
    dilation: Shape
    groups: int

    @classmethod
    def of(cls, x_shape: Shape, weight_shape: Shape, count: Shape, attrs: dict[str, Any]) -> Geometry:
        """Return the geometry for shapes of input, weight and output plane."""
        low = tuple(p[0] for p in attrs["padding"])
        return cls(
            x_shape[0], x_shape[1], tuple(x_shape[2:]), tuple(weight_shape[2:]), tuple(count),
            tuple(attrs["stride"]), low, tuple(attrs["dilation"]), attrs["groups"],
        )  # fmt: skip

    @property
    def rows(self) -> int:
        """Rows of the column matrix of one group."""
        return self.channels // self.groups * math.prod(self.kernel)

    @property
    def plane(self) -> int:
        """Windows of one image."""
        return math.prod(self.count)

    @property
    def span(self) -> Shape:
        """Size of a padded input in which every window fits exactly."""
        return tuple(
            (n - 1) * s + (k - 1) * d + 1
            for n, s, k, d in zip(self.count, self.stride, self.kernel, self.dilation, strict=True)
        )

    @property
    def pointwise(self) -> bool:
        """Whether the windows are the pixels."""
        return self.count == self.size and math.prod(self.kernel) == 1 and not any(self.low)

    def chunks(self) -> Any:
        """Yield ranges of images whose columns are made together."""
        step = 1
        if self.plane < _ENOUGH:
            step = max(1, _COLUMNS // max(self.rows * self.groups * self.plane, 1))
        for start in range(0, self.batch, step):
            yield slice(start, min(start + step, self.batch))


class NumpyColumns:
    """Moves between images and columns in NumPy, for any number of spatial axes."""

    @staticmethod
    def gather(x: Array, geo: Geometry, columns: Array) -> None:
        """Fill ``columns[c * kernel, n * plane]`` from images (n, c, ...)."""
        view = windows(padded(x, geo.low, geo.span, 0), geo.kernel, geo.stride, geo.dilation, geo.count)
        d = len(geo.kernel)
        order = (1, *range(2, 2 + d), 0, *range(2 + d, 2 + 2 * d))
        np.copyto(columns.reshape(*(view.shape[i] for i in order)), view.transpose(order))

    @staticmethod
    def scatter(columns: Array, geo: Geometry, gx: Array) -> None:
        """Add every column to the window it stands for."""
        n, c = gx.shape[:2]
        parts = columns.reshape(c, *geo.kernel, n, *geo.count)
        total = np.zeros((n, c, *geo.span), gx.dtype)
        for place, where in taps(geo.kernel, geo.stride, geo.dilation, geo.count):
            total[where] += np.swapaxes(parts[(slice(None), *place)], 0, 1)
        back = tuple(-p for p in geo.low)
        np.copyto(gx, padded(total, back, geo.size, 0))

    @staticmethod
    def to_images(product: Array, bias: Array | None, out: Array) -> None:
        """Write ``product[o, n * plane]`` to images (n, o, plane)."""
        source = np.swapaxes(product.reshape(product.shape[0], out.shape[0], -1), 0, 1)
        np.copyto(out, source if bias is None else source + bias[:, None])

    @staticmethod
    def from_images(g: Array, matrix: Array) -> None:
        """Write images (n, o, plane) to ``matrix[o, n * plane]``."""
        np.copyto(matrix.reshape(g.shape[1], g.shape[0], -1), np.swapaxes(g, 0, 1))


def _groups(geo: Geometry, outputs: int) -> Any:
    """Yield, for each group, its slices of output channels and of column rows."""
    o, k = outputs // geo.groups, geo.rows
    for i in range(geo.groups):
        yield slice(i * o, (i + 1) * o), slice(i * k, (i + 1) * k)


def _matrix(images: Array, move: Any, slot: int) -> Array:
    """Return gradients of images (n, o, plane) as (o, n * plane), copying only if there are several."""
    n, o, plane = images.shape
    if n == 1:
        result: Array = images[0]
        return result
    matrix = scratch((o, n * plane), images.dtype, slot)
    move.from_images(images, matrix)
    return matrix


class Convolution:
    """The three kernels, over a way of moving between images and columns, and one for many small images."""

    def __init__(self, move: Any, small: Any) -> None:
        self.move = move
        self.small = small

    def mover(self, images: int, geo: Geometry) -> Any:
        """Return the way of moving for so many images at a time."""
        return self.small if images >= _MANY and geo.plane < _ENOUGH else self.move

    def columns(self, x: Array, geo: Geometry) -> Array:
        """Return the column matrix of some images."""
        if geo.pointwise and len(x) == 1:
            return x.reshape(geo.channels, geo.plane)
        result = scratch((geo.rows * geo.groups, len(x) * geo.plane), x.dtype)
        self.mover(len(x), geo).gather(x, geo, result)
        return result

    def forward(self, stream: Any, outs: Any, ins: Any, attrs: dict[str, Any]) -> None:
        """``nn.conv``."""
        x, weight, out = ins[0].array, ins[1].array, outs[0].array
        bias = None if ins[2] is None else np.ascontiguousarray(ins[2].array)
        geo = Geometry.of(x.shape, weight.shape, out.shape[2:], attrs)
        quiet_context().run(self._forward, x, weight, bias, out.reshape(*out.shape[:2], -1), geo)

    def _forward(self, x: Array, weight: Array, bias: Array | None, out: Array, geo: Geometry) -> None:
        if out.size == 0:
            return
        kernels = weight.reshape(len(weight), geo.rows)
        for images in geo.chunks():
            columns = self.columns(x[images], geo)
            target = out[images]
            product = target[0] if len(target) == 1 else scratch((len(weight), columns.shape[1]), x.dtype, 1)
            for o, k in _groups(geo, len(weight)):
                np.matmul(kernels[o], columns[k], product[o])
            if len(target) > 1:
                self.mover(len(target), geo).to_images(product, bias, target)
            elif bias is not None:
                np.add(product, bias[:, None], product)

    def input_grad(self, stream: Any, outs: Any, ins: Any, attrs: dict[str, Any]) -> None:
        """``nn.conv_input_grad``."""
        g, weight, gx = ins[0].array, ins[1].array, outs[0].array
        geo = Geometry.of(gx.shape, weight.shape, g.shape[2:], attrs)
        quiet_context().run(self._input_grad, g.reshape(*g.shape[:2], geo.plane), weight, gx, geo)

    def _input_grad(self, g: Array, weight: Array, gx: Array, geo: Geometry) -> None:
        if g.size == 0 or weight.size == 0:
            gx[...] = 0
            return
        kernels = weight.reshape(len(weight), geo.rows)
        for images in geo.chunks():
            move = self.mover(len(g[images]), geo)
            matrix = _matrix(g[images], move, 1)
            columns = scratch((geo.rows * geo.groups, matrix.shape[1]), g.dtype)
            for o, k in _groups(geo, len(weight)):
                np.matmul(kernels[o].T, matrix[o], columns[k])
            move.scatter(columns, geo, gx[images])

    def weight_grad(self, stream: Any, outs: Any, ins: Any, attrs: dict[str, Any]) -> None:
        """``nn.conv_weight_grad``."""
        g, x, gw = ins[0].array, ins[1].array, outs[0].array
        geo = Geometry.of(x.shape, gw.shape, g.shape[2:], attrs)
        quiet_context().run(self._weight_grad, g.reshape(*g.shape[:2], geo.plane), x, gw, geo)

    def _weight_grad(self, g: Array, x: Array, gw: Array, geo: Geometry) -> None:
        total = gw.reshape(len(gw), geo.rows)
        total[...] = 0
        if g.size == 0 or gw.size == 0:
            return
        part = scratch(total.shape, gw.dtype, 2)
        for number, images in enumerate(geo.chunks()):
            matrix = _matrix(g[images], self.mover(len(g[images]), geo), 1)
            columns = self.columns(x[images], geo)
            target = part if number else total
            for o, k in _groups(geo, len(gw)):
                np.matmul(matrix[o], columns[k].T, target[o])
            if number:
                total += part


def _two_axes(c: Any) -> bool:
    return len(c.attrs["stride"]) <= 2 and len({s.dtype for s in c.ins if s is not None}) == 1


def register(kernels: Any, runtime: Any) -> None:
    """Declare the kernels of this module."""
    ways: list[tuple[Any, Any, int, Any]] = [(NumpyColumns, NumpyColumns, 0, None)]
    if runtime.has_numba:
        ways.append((fast.Columns, fast.BatchLastColumns, FAST, _two_axes))
    for move, small, priority, when in ways:
        conv = Convolution(move, small)
        for name, kernel in (
            ("nn.conv", conv.forward),
            ("nn.conv_input_grad", conv.input_grad),
            ("nn.conv_weight_grad", conv.weight_grad),
        ):
            kernels.add(
                name, kernel, dtypes=WIDE, layout="contiguous", priority=priority, when=when,
                compute=None if priority else WIDENED,
            )  # fmt: skip
