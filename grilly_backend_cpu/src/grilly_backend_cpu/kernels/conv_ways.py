"""The two ways of `grilly_backend_cpu.kernels.conv`: shapes, columns and products.

A mover fills columns from images (`gather`) and adds columns up to images (`scatter`); Numba's movers are in
`grilly_backend_cpu.fast.conv`, NumPy's is here. `ByImage` keeps columns as ``(n, rows, windows)``. `BatchLast` keeps
them as ``(rows, windows * n)``, the image innermost.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from grilly_backend_cpu.kernels import products
from grilly_backend_cpu.kernels.windows import padded, taps, windows
from grilly_backend_cpu.memory import scratch

__all__ = ["BatchLast", "ByImage", "Geometry", "NumpyColumns"]

Array = NDArray[Any]
Shape = tuple[int, ...]
_COLUMNS: Final = 1 << 22  # elements of the columns made at a time: 16 MiB of f32 stay in the last cache
_ENOUGH: Final = 1024  # windows that make an image a good product by itself
_MANY: Final = 16  # images from which on it pays to make the batch the innermost axis
_SHORT: Final = 32  # rows of columns below which products are mere copies


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
    def thin(self) -> bool:
        """Whether columns are so short that turning images costs more than one product for each."""
        return self.rows < _SHORT

    @property
    def pointwise(self) -> bool:
        """Whether the windows are the pixels."""
        return self.count == self.size and math.prod(self.kernel) == 1 and not any(self.low)

    @property
    def many_small(self) -> bool:
        """Whether the images are small and many, so that it pays to make the batch the innermost axis."""
        return self.batch >= _MANY and self.plane < _ENOUGH

    def chunks(self) -> Any:
        """Yield ranges of images whose columns are made together."""
        step = max(1, _COLUMNS // max(self.rows * self.groups * self.plane, 1))
        for start in range(0, self.batch, step):
            yield slice(start, min(start + step, self.batch))

    def parts(self, outputs: int) -> Any:
        """Yield, for each group, its slices of output channels and of column rows."""
        o, k = outputs // self.groups, self.rows
        for i in range(self.groups):
            yield slice(i * o, (i + 1) * o), slice(i * k, (i + 1) * k)


class NumpyColumns:
    """The mover of `ByImage` in NumPy, for any number of spatial axes."""

    @staticmethod
    def gather(x: Array, geo: Geometry, columns: Array) -> None:
        """Fill ``columns[n, c * kernel, plane]`` from images (n, c, ...)."""
        view = windows(padded(x, geo.low, geo.span, 0), geo.kernel, geo.stride, geo.dilation, geo.count)
        np.copyto(columns.reshape(view.shape), view)

    @staticmethod
    def scatter(columns: Array, geo: Geometry, gx: Array) -> None:
        """Add every column to the window it stands for."""
        parts = columns.reshape(*gx.shape[:2], *geo.kernel, *geo.count)
        total = np.zeros((*gx.shape[:2], *geo.span), gx.dtype)
        for place, where in taps(geo.kernel, geo.stride, geo.dilation, geo.count):
            total[where] += parts[(slice(None), slice(None), *place)]
        np.copyto(gx, padded(total, tuple(-p for p in geo.low), geo.size, 0))

    @staticmethod
    def add_bias(out: Array, bias: Array) -> None:
        """Add ``bias[o]`` to images (n, o, plane)."""
        np.add(out, bias[:, None], out)


class ByImage:
    """One product for each image, straight into its place."""

    def __init__(self, move: Any) -> None:
        self.move = move

    def columns(self, x: Array, geo: Geometry) -> Array:
        """Return the columns of some images."""
        if geo.pointwise:
            return x.reshape(len(x), geo.channels, geo.plane)
        result = scratch((len(x), geo.rows * geo.groups, geo.plane), x.dtype)
        self.move.gather(x, geo, result)
        return result

    def forward(self, x: Array, kernels: Array, bias: Array | None, out: Array, geo: Geometry) -> None:
        """Write the convolution of `x` to `out` (n, o, plane)."""
        for images in geo.chunks():
            columns, target = self.columns(x[images], geo), out[images]
            for o, k in geo.parts(len(kernels)):
                products.matrices(kernels[o], columns[:, k], target[:, o])
        if bias is not None:
            self.move.add_bias(out, bias)

    def input_grad(self, g: Array, kernels: Array, gx: Array, geo: Geometry) -> None:
        """Write the gradient of the input."""
        for images in geo.chunks():
            part, target = g[images], gx[images]
            if geo.pointwise:
                columns = target.reshape(len(target), geo.channels, geo.plane)
            else:
                columns = scratch((len(target), geo.rows * geo.groups, geo.plane), g.dtype)
            for o, k in geo.parts(len(kernels)):
                products.matrices(kernels[o].T, part[:, o], columns[:, k])
            if not geo.pointwise:
                self.move.scatter(columns, geo, target)

    def weight_grad(self, g: Array, x: Array, total: Array, geo: Geometry) -> None:
        """Write the gradient of the weight (o, rows), by its transpose, which takes up to a third less."""
        turned = scratch(total.shape[::-1], total.dtype, 2)
        one = scratch(turned.shape, total.dtype, 4)
        turned[...] = 0
        for images in geo.chunks():
            for grad, columns in zip(g[images], self.columns(x[images], geo), strict=True):
                for o, k in geo.parts(len(total)):
                    products.product(columns[k], grad[o].T, one[:, o])
                np.add(turned, one, turned)
        np.copyto(total, turned.T)


class BatchLast:
    """One product for all images of a chunk; images are turned so that they are the innermost index, and back."""

    def __init__(self, move: Any) -> None:
        self.move = move

    def columns(self, x: Array, geo: Geometry) -> Array:
        """Return the columns of some images."""
        result = scratch((geo.rows * geo.groups, len(x) * geo.plane), x.dtype)
        self.move.gather(x, geo, result)
        return result

    def matrix(self, g: Array) -> Array:
        """Return gradients of images (n, o, plane) as (o, plane * n)."""
        result = scratch((g.shape[1], g.shape[2] * len(g)), g.dtype, 1)
        self.move.from_images(g, result)
        return result

    def forward(self, x: Array, kernels: Array, bias: Array | None, out: Array, geo: Geometry) -> None:
        """Write the convolution of `x` to `out` (n, o, plane)."""
        for images in geo.chunks():
            columns = self.columns(x[images], geo)
            product = scratch((len(kernels), columns.shape[1]), x.dtype, 1)
            for o, k in geo.parts(len(kernels)):
                products.product(kernels[o], columns[k], product[o])
            self.move.to_images(product, bias, out[images])

    def input_grad(self, g: Array, kernels: Array, gx: Array, geo: Geometry) -> None:
        """Write the gradient of the input."""
        for images in geo.chunks():
            matrix = self.matrix(g[images])
            columns = scratch((geo.rows * geo.groups, matrix.shape[1]), g.dtype)
            for o, k in geo.parts(len(kernels)):
                products.product(kernels[o].T, matrix[o], columns[k])
            self.move.scatter(columns, geo, gx[images])

    def weight_grad(self, g: Array, x: Array, total: Array, geo: Geometry) -> None:
        """Write the gradient of the weight (o, rows), by its transpose, which takes up to a third less."""
        turned = scratch(total.shape[::-1], total.dtype, 2)
        one = scratch(turned.shape, total.dtype, 4)
        turned[...] = 0
        for images in geo.chunks():
            matrix, columns = self.matrix(g[images]), self.columns(x[images], geo)
            for o, k in geo.parts(len(total)):
                products.product(columns[k], matrix[o].T, one[:, o])
            np.add(turned, one, turned)
        np.copyto(total, turned.T)
