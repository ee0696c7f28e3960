"""Convolution and its two gradients as matrix products over columns of windows.

Two ways: image by image, whose products land in place, and, for many small images, the whole batch side by side, so
that one large product replaces many small ones (`grilly_backend_cpu.kernels.conv_ways`). With stride 1 in float32 no
columns are made (`grilly_backend_cpu.fast.shifted_conv`, `grilly_backend_cpu.fast.shifted_weight`). Several images'
columns are made at a time: going to and fro between BLAS and Numba costs about 0.2 ms. The columns are made again for
the weight gradient: that costs less than keeping them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from grilly_backend_cpu.fast import conv as fast
from grilly_backend_cpu.fast import shifted_conv, shifted_weight
from grilly_backend_cpu.kernels.conv_ways import BatchLast, ByImage, Geometry, NumpyColumns
from grilly_backend_cpu.kernels.support import FAST, WIDE, WIDENED
from grilly_backend_cpu.quiet import quiet_context

__all__ = ["register"]


class Convolution:
    """The three kernels, over a way for few or large images and one for many small ones."""

    def __init__(self, plain: Any, small: Any, shifted: Any = None) -> None:
        self.plain = plain
        self.small = small
        self.shifted = shifted

    def shifts(self, geo: Geometry, dtype: Any, channels: int, wide: int) -> bool:
        """Whether taps are shifted views of the images."""
        return self.shifted is not None and self.shifted.serves(geo, dtype, channels, wide)

    def way(self, geo: Geometry) -> Any:
        """Return the way that suits the shapes, for what is as large as the images."""
        return self.small if geo.many_small and not geo.thin else self.plain

    def forward(self, stream: Any, outs: Any, ins: Any, attrs: dict[str, Any]) -> None:
        """``nn.conv``."""
        x, weight, out = ins[0].array, ins[1].array, outs[0].array
        bias = None if ins[2] is None else np.ascontiguousarray(ins[2].array)
        if out.size:
            geo = Geometry.of(x.shape, weight.shape, out.shape[2:], attrs)
            if self.shifts(geo, x.dtype, x.shape[1], out.shape[-1]):
                self.shifted.convolve(x, weight, bias, out, geo.low, geo.dilation)
                return
            kernels = weight.reshape(len(weight), geo.rows)
            flat = out.reshape(*out.shape[:2], geo.plane)
            quiet_context().run(self.way(geo).forward, x, kernels, bias, flat, geo)

    def input_grad(self, stream: Any, outs: Any, ins: Any, attrs: dict[str, Any]) -> None:
        """``nn.conv_input_grad``."""
        g, weight, gx = ins[0].array, ins[1].array, outs[0].array
        if g.size == 0 or weight.size == 0:
            gx[...] = 0
            return
        geo = Geometry.of(gx.shape, weight.shape, g.shape[2:], attrs)
        if self.shifts(geo, g.dtype, g.shape[1], gx.shape[-1]):
            self.shifted.input_grad(g, weight, gx, geo.low, geo.dilation)
            return
        kernels = weight.reshape(len(weight), geo.rows)
        flat = g.reshape(*g.shape[:2], geo.plane)
        quiet_context().run(self.way(geo).input_grad, flat, kernels, gx, geo)

    def weight_grad(self, stream: Any, outs: Any, ins: Any, attrs: dict[str, Any]) -> None:
        """``nn.conv_weight_grad``."""
        g, x, gw = ins[0].array, ins[1].array, outs[0].array
        if g.size == 0 or gw.size == 0:
            gw[...] = 0
            return
        geo = Geometry.of(x.shape, gw.shape, g.shape[2:], attrs)
        if self.shifted is not None and shifted_weight.serves(geo, g.dtype, x.shape[1], g.shape[-1]):
            shifted_weight.weight_grad(g, x, gw, geo.low, geo.dilation)
            return
        flat = g.reshape(*g.shape[:2], geo.plane)
        way = self.small if geo.many_small else self.plain  # one product for all images instead of a sum
        quiet_context().run(way.weight_grad, flat, x, gw.reshape(len(gw), geo.rows), geo)


def _two_axes(c: Any) -> bool:
    return len(c.attrs["stride"]) <= 2 and len({s.dtype for s in c.ins if s is not None}) == 1


def _declare(kernels: Any, conv: Convolution, **how: Any) -> None:
    kernels.add("nn.conv", conv.forward, dtypes=WIDE, layout="contiguous", **how)
    kernels.add("nn.conv_input_grad", conv.input_grad, dtypes=WIDE, layout="contiguous", **how)
    kernels.add("nn.conv_weight_grad", conv.weight_grad, dtypes=WIDE, layout="contiguous", **how)


def register(kernels: Any, runtime: Any) -> None:
    """Declare the kernels of this module."""
    by_image = ByImage(NumpyColumns)
    _declare(kernels, Convolution(by_image, by_image), compute=WIDENED)
    if runtime.has_numba:
        compiled = Convolution(ByImage(fast.Columns), BatchLast(fast.BatchLastColumns), shifted_conv)
        _declare(kernels, compiled, priority=FAST, when=_two_axes)
