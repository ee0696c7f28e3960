"""Convolution of stride 1 in float32 without columns: one product for each tap, over a shifted view of the images.

Images are padded once. If windows are counted along padded rows, what a tap sees of a channel is a contiguous piece of
it, wherever the tap lies; so a tile of sums (`grilly_backend_cpu.fast.microkernel`) reads the images as they are, and
the few windows between two rows are left out when results are written. The gradient of the input is the same with the
weight turned round.
"""

from __future__ import annotations

import functools
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from grilly_backend_cpu.fast.microkernel import LANES, tile_of, tile_shape
from grilly_backend_cpu.jit import Jit, njit, split
from grilly_backend_cpu.memory import scratch

__all__ = ["convolve", "input_grad", "serves"]

Array = NDArray[Any]
_STRIPS: Final = 8  # of a unit of work: its results stay in the second cache
_PADDED: Final = 1 << 24  # floats of padded images at a time
_CHANNELS: Final = 16  # below which a tap's product is too short
_WIDE: Final = 7  # results of a row below which padding is too great a part of it
_PADDED_SLOT, _WEIGHT_SLOT = 7, 5


@njit
def _pad(start: int, stop: int, args: Any) -> None:
    """``padded[n, c, h + top, w + left] = x[n, c, h, w]``, zero around, for channels counted through all images."""
    x, padded, pitch, top, left = args
    channels, height, width = x.shape[1], x.shape[2], x.shape[3]
    for unit in range(start, stop):
        image, out = x[unit // channels, unit % channels], padded[unit // channels, unit % channels]
        out[:] = 0
        for h in range(max(0, -top), height):
            first, at = max(0, -left), (h + top) * pitch
            last = min(width, pitch - left)
            if at + pitch <= out.size and first < last:
                out[at + left + first : at + left + last] = image[h, first:last]


_tile: Any = None  # replaced by the intrinsic, and the numbers by its shape
_high: Any = None
_wide: Any = None


def _convolve(start: int, stop: int, args: Any) -> None:
    padded, weights, bias, out, offsets, pitch, wide, blocks = args
    channels, stride, outputs = padded.shape[1], padded.shape[2], out.shape[1]
    tiles, taps = weights.shape[0], weights.shape[1]
    columns = _STRIPS * _wide
    sums = np.empty((tiles * _high, columns), np.float32)
    flat = padded.reshape(-1)
    rows = out.shape[2] // wide
    end = (rows - 1) * pitch + wide
    for unit in range(start, stop):
        n, first = unit // blocks, unit % blocks * columns
        last = min(first + columns, end)
        for s in range((last - first + _wide - 1) // _wide):
            image = n * channels * stride + first + s * _wide
            for i in range(tiles):
                for t in range(taps):
                    x, c = (i * taps + t) * channels * LANES, i * _high * columns + s * _wide
                    _tile(
                        weights,
                        x,
                        1,
                        LANES,
                        flat,
                        image + offsets[t],
                        stride,
                        sums,
                        c,
                        columns,
                        channels,
                        t == 0,
                    )
        for o in range(outputs):
            for row in range(first // pitch, min(rows, (last - 1) // pitch + 1)):
                begin = max(row * pitch, first)
                line = sums[o, begin - first : max(begin, min(row * pitch + wide, last)) - first]
                at = row * wide + begin - row * pitch
                target, shift = out[n, o, at : at + line.size], bias[o]
                for j in range(line.size):
                    target[j] = line[j] + shift


_run_pad = split(_pad)


@functools.cache
def _run_convolve() -> Any:
    high, wide = tile_shape()
    made = Jit(_convolve, {}, f"convolve[{high}x{wide}]")
    made.replaced |= {"_tile": tile_of(high, wide), "_high": high, "_wide": wide}
    return split(made)


def serves(geo: Any, dtype: Any, channels: int, wide: int) -> bool:
    """Whether these shapes suit: stride 1, one group, enough channels to read, and rows of results wide enough."""
    reach = [(k - 1) * d for k, d in zip(geo.kernel, geo.dilation, strict=True)]
    return (
        dtype == np.float32
        and len(geo.kernel) == 2
        and geo.groups == 1
        and set(geo.stride) == {1}
        and channels >= _CHANNELS
        and wide >= _WIDE
        and all(0 <= low <= r for low, r in zip(geo.low, reach, strict=True))
    )


def _packed(weight: Array) -> Array:
    """Return ``(tiles, taps, channels, LANES)`` from a weight (o, c, a, b): the rows of a tile side by side."""
    outputs, channels, *kernel = weight.shape
    high = tile_shape()[0]
    tiles, taps = -(-outputs // high), kernel[0] * kernel[1]
    packed = scratch((tiles, taps, channels, LANES), np.float32, _WEIGHT_SLOT)
    packed[...] = 0
    by_tap = weight.reshape(outputs, channels, taps).transpose(2, 1, 0)
    for i in range(tiles):
        part = by_tap[:, :, i * high : (i + 1) * high]
        packed[i, :, :, : part.shape[2]] = part
    return packed


def convolve(x: Array, weight: Array, bias: Array | None, out: Array, low: Any, dilation: Any) -> None:
    """Write the convolution of images (n, c, h, w) by a weight (o, c, a, b) to ``out[n, o, i, j]``."""
    rows, wide = out.shape[2:]
    kernel = weight.shape[2:]
    tall, pitch = (n + (k - 1) * d for n, k, d in zip((rows, wide), kernel, dilation, strict=True))
    places = [a * dilation[0] * pitch + b * dilation[1] for a in range(kernel[0]) for b in range(kernel[1])]
    columns = _STRIPS * tile_shape()[1]
    blocks = -(-((rows - 1) * pitch + wide) // columns)
    packed, offsets = _packed(weight), np.array(places)
    shift = np.zeros(out.shape[1], np.float32) if bias is None else bias
    step = max(1, _PADDED // (x.shape[1] * tall * pitch))
    for first in range(0, len(x), step):
        part, target = x[first : first + step], out[first : first + step]
        images = _padded(part, tall * pitch, pitch, low, columns + pitch)
        args = (images, packed, shift, target.reshape(*target.shape[:2], -1), offsets, pitch, wide, blocks)
        _run_convolve()(len(part) * blocks, 1, args)


def _padded(x: Array, plane: int, pitch: int, low: Any, room: int) -> Array:
    """Return images with zeros around; the last strip and its taps read up to `room` floats beyond them."""
    n, channels = x.shape[:2]
    memory = scratch((n * channels * plane + room,), np.float32, _PADDED_SLOT)
    memory[n * channels * plane :] = 0
    images = memory[: n * channels * plane].reshape(n, channels, plane)
    _run_pad(n * channels, max(1, (1 << 15) // plane), (x, images, pitch, *low))
    return images


def input_grad(g: Array, weight: Array, gx: Array, low: Any, dilation: Any) -> None:
    """Write the gradient of the input for gradients (n, o, i, j)."""
    turned = weight[:, :, ::-1, ::-1].transpose(1, 0, 2, 3)
    around = [(k - 1) * d - p for k, d, p in zip(weight.shape[2:], dilation, low, strict=True)]
    convolve(g, turned, None, gx, around, dilation)
