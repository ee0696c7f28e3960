"""Convolution and its gradients: products of matrices whose elements are looked up in the input."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from typing import Any, Final

from grilly_backend_vulkan.kernels.reduce import sum_parts
from grilly_backend_vulkan.kernels.support import MAX_GROUPS, WIDENED

__all__ = ["register"]

_PUSH: Final = struct.Struct("<4Q6i6I8I")
FORWARD, INPUT, WEIGHT = 0, 1, 2
_WANTED_GROUPS: Final = 512  # enough to fill a large device
_LEAST_PART: Final = 256  # of k


def _three(values: Any, filler: int) -> list[int]:
    """Pad in front to three axes."""
    return [filler] * (3 - len(values)) + list(values)


def _geometry(attrs: dict[str, Any], size: Any, count: Any, kernel: Any) -> list[int]:
    pairs = zip(_three(kernel, 1), _three(attrs["dilation"], 1), strict=True)
    lows = _three([low for low, _ in attrs["padding"]], 0)
    strides = zip(_three(attrs["stride"], 1), lows, strict=True)
    return [
        *_three(size, 1), *_three(count, 1), *(k | d << 16 for k, d in pairs),
        *(s | (low & 0xFFFF) << 16 for s, low in strides),
    ]  # fmt: skip


def _tile(m: int, n: int) -> int:
    side = min(m, n)
    return 1 if side <= 16 else 2 if side <= 32 or m * n <= 128 * 128 else 4


def _launch(
    stream: Any, mode: int, out: Any, views: tuple[Any, Any, Any], sizes: tuple[int, int, int],
    channels: tuple[int, int, int], geometry: list[int], axes: int,
) -> None:  # fmt: skip
    """Launch one product of `sizes` m, n, k for groups of `channels` (out, in, groups)."""
    m, n, k = sizes
    tile = _tile(m, n)
    side = 16 * tile
    tiles = -(-m // side) * -(-n // side) * channels[2]
    chunks = 1
    if mode == WEIGHT:  # few tiles, long sums: cut these, in a way that depends on sizes alone
        chunks = max(1, min(_WANTED_GROUPS // tiles, k // _LEAST_PART))
    target = out if chunks == 1 else stream.scratch(4 * chunks * math.prod(out.shape))
    chunk = -(-k // chunks)
    addresses = [0 if v is None else stream.address(v) for v in (target, *views)]
    push = _PUSH.pack(*addresses, *geometry, m, n, k, *channels, chunk, chunks)
    reads = [v for v in views if v is not None]
    groups = (min(tiles * chunks, MAX_GROUPS), 1, 1)
    stream.launch(stream.pipeline("conv", (mode, tile, axes)), groups, push, reads, [target])
    if chunks > 1:
        sum_parts(stream, out, target, math.prod(out.shape), chunks)


def _conv(stream: Any, outs: Any, ins: Any, attrs: dict[str, Any]) -> None:
    x, weight, bias = ins
    out, groups = outs[0], attrs["groups"]
    taps, places = math.prod(weight.shape[2:]), math.prod(out.shape[2:])
    channels = (weight.shape[0] // groups, weight.shape[1], groups)
    sizes = (channels[0], x.shape[0] * places, channels[1] * taps)
    geometry = _geometry(attrs, x.shape[2:], out.shape[2:], weight.shape[2:])
    _launch(stream, FORWARD, out, (weight, x, bias), sizes, channels, geometry, len(x.shape) - 2)


def _conv_input_grad(stream: Any, outs: Any, ins: Any, attrs: dict[str, Any]) -> None:
    g, weight = ins
    out, groups = outs[0], attrs["groups"]
    taps, places = math.prod(weight.shape[2:]), math.prod(out.shape[2:])
    channels = (weight.shape[0] // groups, weight.shape[1], groups)
    sizes = (channels[1], g.shape[0] * places, channels[0] * taps)
    geometry = _geometry(attrs, out.shape[2:], g.shape[2:], weight.shape[2:])
    _launch(stream, INPUT, out, (weight, g, None), sizes, channels, geometry, len(g.shape) - 2)


def _conv_weight_grad(stream: Any, outs: Any, ins: Any, attrs: dict[str, Any]) -> None:
    g, x = ins
    out, groups = outs[0], attrs["groups"]
    taps, places = math.prod(out.shape[2:]), math.prod(g.shape[2:])
    channels = (out.shape[0] // groups, out.shape[1], groups)
    sizes = (channels[0], channels[1] * taps, g.shape[0] * places)
    geometry = _geometry(attrs, x.shape[2:], g.shape[2:], out.shape[2:])
    _launch(stream, WEIGHT, out, (g, x, None), sizes, channels, geometry, len(g.shape) - 2)


def _suits(c: Any) -> bool:
    attrs = c.attrs
    pads = [p for pair in attrs["padding"] for p in pair]
    numbers = (*attrs["stride"], *attrs["dilation"], *c.ins[1].shape[2:], *pads)
    specs = [s for s in (*c.ins, *c.outs) if s is not None]
    small = all(0 < s.size < 1 << 31 for s in specs) and all(-(1 << 15) <= n < 1 << 15 for n in numbers)
    return len(attrs["stride"]) <= 3 and small and len({s.dtype for s in specs}) == 1


_KERNELS: Final[dict[str, Callable[..., None]]] = {
    "nn.conv": _conv, "nn.conv_input_grad": _conv_input_grad, "nn.conv_weight_grad": _conv_weight_grad,
}  # fmt: skip


def register(kernels: Any, runtime: Any) -> None:
    """Declare the kernels of this module."""
    for name, kernel in _KERNELS.items():
        kernels.add(name, kernel, dtypes={"f32"}, layout="contiguous", when=_suits, compute=WIDENED)
