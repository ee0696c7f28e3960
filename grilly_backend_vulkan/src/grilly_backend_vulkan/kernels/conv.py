"""Convolution and its gradients: products of matrices whose elements are looked up in the input.

Few channels and small problems are done here, element by element in one launch; `conv_tiles` does what is large, and
`conv_depthwise` what has one channel in a group.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from typing import Any, Final

from grilly_backend_vulkan.kernels import conv_depthwise, conv_matrix, conv_tiles
from grilly_backend_vulkan.kernels.conv_geometry import Geometry
from grilly_backend_vulkan.kernels.reduce import sum_parts
from grilly_backend_vulkan.kernels.support import HALVES, MAX_GROUPS, WIDENED

__all__ = ["register"]

_PUSH: Final = struct.Struct("<4Q6i6I8I")
FORWARD, INPUT, WEIGHT = 0, 1, 2
_WANTED_GROUPS: Final = 512  # enough to fill a large device
_LEAST_PART: Final = 256  # of k


def _tile(m: int, n: int) -> int:
    side = min(m, n)
    return 1 if side <= 16 else 2 if side <= 32 or m * n <= 128 * 128 else 4


def _launch(
    stream: Any,
    mode: int,
    out: Any,
    views: tuple[Any, Any, Any],
    sizes: tuple[int, int, int],
    geometry: Geometry,
) -> None:
    """Launch one product of `sizes` m, n, k."""
    m, n, k = sizes
    tile = _tile(m, n)
    side = 16 * tile
    tiles = -(-m // side) * -(-n // side) * geometry.groups
    chunks = 1
    if mode == WEIGHT:  # few tiles, long sums: cut these, in a way that depends on sizes alone
        chunks = max(1, min(_WANTED_GROUPS // tiles, k // _LEAST_PART))
    target = out if chunks == 1 else stream.scratch(4 * chunks * math.prod(out.shape))
    addresses = [0 if v is None else stream.address(v) for v in (target, *views)]
    channels = (geometry.outs, geometry.ins, geometry.groups)
    push = _PUSH.pack(*addresses, *geometry.numbers(), m, n, k, *channels, -(-k // chunks), chunks)
    reads = [v for v in views if v is not None]
    groups = (min(tiles * chunks, MAX_GROUPS), 1, 1)
    stream.launch(stream.pipeline("conv", (mode, tile, geometry.axes)), groups, push, reads, [target])
    if chunks > 1:
        sum_parts(stream, out, target, math.prod(out.shape), chunks)


def _way(g: Geometry) -> Any:
    """Return the module that does it, or None for this one."""
    return next((way for way in (conv_depthwise, conv_tiles) if way.suits(g)), None)


def _conv(stream: Any, outs: Any, ins: Any, attrs: dict[str, Any]) -> None:
    (x, weight, bias), out = ins, outs[0]
    g = Geometry.of(x, weight, out, attrs)
    way = _way(g)
    if way:
        way.forward(stream, out, x, weight, bias, g)
    else:
        sizes = (g.outs, g.batch * g.places, g.ins * g.taps)
        _launch(stream, FORWARD, out, (weight, x, bias), sizes, g)


def _conv_input_grad(stream: Any, outs: Any, ins: Any, attrs: dict[str, Any]) -> None:
    (grad, weight), out = ins, outs[0]
    g = Geometry.of(out, weight, grad, attrs)
    way = _way(g)
    if way:
        way.input_grad(stream, out, grad, weight, g)
    else:
        sizes = (g.ins, g.batch * g.plane, g.outs * g.taps)
        _launch(stream, INPUT, out, (weight, grad, None), sizes, g)


def _conv_weight_grad(stream: Any, outs: Any, ins: Any, attrs: dict[str, Any]) -> None:
    (grad, x), out = ins, outs[0]
    g = Geometry.of(x, out, grad, attrs)
    way = _way(g)
    if way:
        way.weight_grad(stream, out, grad, x, g)
    else:
        sizes = (g.outs, g.ins * g.taps, g.batch * g.places)
        _launch(stream, WEIGHT, out, (grad, x, None), sizes, g)


def _suits(c: Any) -> bool:
    attrs = c.attrs
    pads = [p for pair in attrs["padding"] for p in pair]
    numbers = (*attrs["stride"], *attrs["dilation"], *c.ins[1].shape[2:], *pads)
    specs = [s for s in (*c.ins, *c.outs) if s is not None]
    small = all(0 < s.size < 1 << 31 for s in specs) and all(-(1 << 15) <= n < 1 << 15 for n in numbers)
    return len(attrs["stride"]) <= 3 and small and len({s.dtype for s in specs}) == 1


def _matrix(name: str, geometry: Callable[[Any, Any], Geometry]) -> tuple[Any, Any]:
    """Return the kernel on cooperative matrices and the condition on which it is used."""
    make = getattr(conv_matrix, name)

    def kernel(stream: Any, outs: Any, ins: Any, attrs: dict[str, Any]) -> None:
        make(stream, outs[0], *ins, geometry((outs[0], *ins), attrs))

    def when(c: Any) -> bool:
        code = c.ins[0].dtype.code
        return _suits(c) and conv_matrix.suits(geometry((c.outs[0], *c.ins), c.attrs), code, c.runtime.facts)

    return kernel, when


_MATRIX: Final = {
    "nn.conv": _matrix("forward", lambda t, attrs: Geometry.of(t[1], t[2], t[0], attrs)),
    "nn.conv_input_grad": _matrix("input_grad", lambda t, attrs: Geometry.of(t[0], t[2], t[1], attrs)),
    "nn.conv_weight_grad": _matrix("weight_grad", lambda t, attrs: Geometry.of(t[2], t[0], t[1], attrs)),
}
_KERNELS: Final[dict[str, Callable[..., None]]] = {
    "nn.conv": _conv, "nn.conv_input_grad": _conv_input_grad, "nn.conv_weight_grad": _conv_weight_grad,
}  # fmt: skip


def register(kernels: Any, runtime: Any) -> None:
    """Declare the kernels of this module."""
    for name, kernel in _KERNELS.items():
        kernels.add(name, kernel, dtypes={"f32"}, layout="contiguous", when=_suits, compute=WIDENED)
    for name, (kernel, when) in _MATRIX.items():
        kernels.add(name, kernel, dtypes=HALVES, layout="contiguous", when=when, priority=1)
