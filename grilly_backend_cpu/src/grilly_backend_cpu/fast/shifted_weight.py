"""The weight's gradient of a convolution of stride 1 in float32, without columns.

With the channels of an image side by side, what a tap sees of a row of windows is a block of neighbouring lines, so the
gradient of a tap is a sum of products over rows: gradients of outputs, packed as rows of a tile, times that block
(`grilly_backend_cpu.fast.microkernel`). Images are turned some rows at a time, and stay in the second cache while all
taps go over them. Each unit of work sums over its rows; units depend on shapes alone and are added in order, so results
do not depend on the number of threads.
"""

from __future__ import annotations

import functools
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from grilly_backend_cpu.fast.gemm import turn
from grilly_backend_cpu.fast.microkernel import LANES, tile_of, tile_shape
from grilly_backend_cpu.jit import Jit, njit, split
from grilly_backend_cpu.memory import scratch

__all__ = ["serves", "weight_grad"]

Array = NDArray[Any]
_POSITIONS: Final = (
    512  # of a chunk: windows that are taken through all taps while they are in the second cache
)
_UNITS: Final = 16  # at most
_SUMS: Final = 8 << 20  # floats in the sums of all units
_WASTE: Final = 2.0  # of channels filled up to whole vectors, beyond which columns are faster
_WIDE: Final = 7  # windows of a row, below which sums are stored too often
_SLOT: Final = 6


@njit
def _turned_rows(image: Any, first: int, top: int, left: int, pitch: int, rows: int, turned: Any) -> None:
    """``turned[h * pitch + w, c] = image[c, first + h - top, w - left]`` for some rows, zero outside of the image."""
    height, width = image.shape[1], image.shape[2]
    for h in range(rows):
        line, row = turned[h * pitch : (h + 1) * pitch], first + h - top
        begin, end = max(0, left), min(pitch, left + width)
        if row < 0 or row >= height or begin >= end:
            line[:] = 0
            continue
        line[:begin] = 0
        line[end:] = 0
        turn(image[:, row, begin - left : end - left], line[begin:end])


_tile: Any = None  # replaced by the intrinsic, and the numbers by its shape
_high: Any = None
_wide: Any = None


def _grad(start: int, stop: int, args: Any) -> None:
    g, x, sums, offsets, pitch, top, left, wide, rows, reach = args
    images, outputs, windows = g.shape
    units, channels = sums.shape[0], x.shape[1]
    filled = (channels + _wide - 1) // _wide * _wide
    step, tiles = len(offsets) * filled, (outputs + _high - 1) // _high
    height = windows // wide
    chunks = (height + rows - 1) // rows
    turned = np.empty(((rows + reach) * pitch, filled), np.float32)
    packed = np.empty((tiles, rows * wide, LANES), np.float32)
    lines = turned.reshape(-1)
    for unit in range(start, stop):
        own = sums[unit]
        own[:] = 0
        for chunk in range(unit * images * chunks // units, (unit + 1) * images * chunks // units):
            n, first = chunk // chunks, chunk % chunks * rows
            count = min(rows, height - first)
            _turned_rows(x[n], first, top, left, pitch, count + reach, turned)
            for i in range(tiles):
                part = g[
                    n, i * _high : min(i * _high + LANES, outputs), first * wide : (first + count) * wide
                ]
                turn(part, packed[i, : count * wide])
            for t in range(len(offsets)):
                for s in range(filled // _wide):
                    for i in range(tiles):
                        at = i * _high * step + t * filled + s * _wide
                        for r in range(count):
                            a, b = (
                                (i * rows + r) * wide * LANES,
                                (r * pitch + offsets[t]) * filled + s * _wide,
                            )
                            _tile(packed, a, 1, LANES, lines, b, filled, own, at, step, wide, False)


@functools.cache
def _run_grad() -> Any:
    high, wide = tile_shape()
    made = Jit(_grad, {}, f"weight_grad[{high}x{wide}]")
    made.replaced |= {"_tile": tile_of(high, wide), "_high": high, "_wide": wide}
    return split(made)


def serves(geo: Any, dtype: Any, channels: int, wide: int) -> bool:
    """Whether these shapes suit: stride 1, one group, channels that fill vectors, and rows of windows wide enough."""
    across = tile_shape()[1]
    return (
        dtype == np.float32
        and len(geo.kernel) == 2
        and geo.groups == 1
        and set(geo.stride) == {1}
        and -(-channels // across) * across <= _WASTE * channels
        and wide >= _WIDE
    )


def weight_grad(g: Array, x: Array, gw: Array, low: Any, dilation: Any) -> None:
    """Write the gradient of a weight (o, c, a, b) for gradients (n, o, i, j) and images (n, c, h, w)."""
    (outputs, channels, *kernel), (height, wide) = gw.shape, g.shape[2:]
    high, across = tile_shape()
    filled, tall = -(-channels // across) * across, -(-outputs // high) * high
    reach = [(k - 1) * d for k, d in zip(kernel, dilation, strict=True)]
    pitch, rows = wide + reach[1], min(height, max(1, _POSITIONS // wide))
    places = [a * dilation[0] * pitch + b * dilation[1] for a in range(kernel[0]) for b in range(kernel[1])]
    size, chunks = tall * len(places) * filled, len(x) * -(-height // rows)
    units = max(1, min(chunks, _UNITS, _SUMS // size))
    sums = scratch((units, size), np.float32, _SLOT)
    flat = g.reshape(len(g), outputs, -1)
    args = (flat, x, sums, np.array(places), pitch, *low, wide, rows, reach[0])
    _run_grad()(units, 1, args)
    total = np.add.reduce(sums, axis=0).reshape(tall, *kernel, filled)
    np.copyto(gw, total[:outputs, :, :, :channels].transpose(0, 3, 1, 2))
