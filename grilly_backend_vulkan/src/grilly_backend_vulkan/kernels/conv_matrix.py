"""Convolution in 16-bit floats on cooperative matrices, with sums in float32.

As in `conv_tiles`, the weight is first copied to ``(group, tap, channel summed over, channel made)``. On an H200 this
reaches 80 TFLOP/s where `conv_tiles` reaches 35, besides the casts it would need; cuDNN 250.
"""

from __future__ import annotations

import math
import struct
from typing import Any, Final

from grilly_backend_vulkan.kernels.conv_geometry import Geometry
from grilly_backend_vulkan.kernels.conv_tiles import FORWARD, INPUT, WEIGHT, packed_weight
from grilly_backend_vulkan.kernels.support import MAX_GROUPS, groups_for

__all__ = ["forward", "input_grad", "suits", "weight_grad"]

_PUSH: Final = struct.Struct("<4Q6i12I")
_JOIN_PUSH: Final = struct.Struct("<2Q4I")
_SIDE: Final = 128
_STEP: Final = 32
_SUBGROUP: Final = 32
_WANTED_GROUPS: Final = 264  # two for each processor of a large device
_LEAST_STEPS: Final = 16  # of a part of the sums
_LEAST_CHANNELS: Final = 32
_LEAST_WORK: Final = 1 << 27  # multiplications, below which tiles are too few


def suits(geometry: Geometry, code: str, facts: Any) -> bool:
    """Whether this way is the fastest, by sizes and by what the device has."""
    g = geometry
    fits = facts.subgroup_min <= _SUBGROUP <= facts.subgroup_max and facts.i16
    shaped = (code, "f32", 16, 16, 16) in facts.cooperative
    eights = g.ins % 8 == 0 and g.outs % 8 == 0
    return shaped and fits and eights and min(g.ins, g.outs) >= _LEAST_CHANNELS and g.work >= _LEAST_WORK


def _launch(
    stream: Any,
    mode: int,
    g: Geometry,
    code: str,
    groups: int,
    target: Any,
    views: Any,
    parts: tuple[int, int],
) -> None:
    addresses = [0 if v is None else stream.address(v) for v in (target, *views)]
    push = _PUSH.pack(*addresses, *g.numbers(), g.batch, g.groups, g.outs, g.ins, *parts)
    kind = "weight" if mode == WEIGHT else "data"
    pipeline = stream.pipeline(f"conv_matrix_{kind}_{code}", (mode, g.axes), _SUBGROUP)
    across = min(groups, MAX_GROUPS)
    reads = [v for v in views if v is not None]
    stream.launch(pipeline, (across, -(-groups // across), 1), push, reads, [target])


def _product(stream: Any, mode: int, g: Geometry, out: Any, weight: Any, data: Any, bias: Any) -> None:
    made = g.outs if mode == FORWARD else g.ins
    places, phases = g.places, 1
    if mode == INPUT:
        places = math.prod(-(-n // s) for n, s in zip(g.size, g.stride, strict=True))
        phases = math.prod(g.stride)
    tiles = -(-made // _SIDE) * -(-g.batch * places // _SIDE) * phases * g.groups
    packed = packed_weight(stream, weight, g, mode)
    _launch(stream, mode, g, out.dtype.code, tiles, out, (packed, data, bias), (0, 1))


def forward(stream: Any, out: Any, x: Any, weight: Any, bias: Any, geometry: Geometry) -> None:
    """Write the convolution of `x`."""
    _product(stream, FORWARD, geometry, out, weight, x, bias)


def input_grad(stream: Any, out: Any, g: Any, weight: Any, geometry: Geometry) -> None:
    """Write the gradient of the input."""
    _product(stream, INPUT, geometry, out, weight, g, None)


def weight_grad(stream: Any, out: Any, g: Any, x: Any, geometry: Geometry) -> None:
    """Write the gradient of the weight: parts of the sums in float32, then joined."""
    geo, code = geometry, out.dtype.code
    tiles = -(-geo.outs // _SIDE) * -(-geo.ins // _SIDE) * geo.taps * geo.groups
    steps = -(-geo.batch * geo.places // _STEP)
    chunks = max(1, min(_WANTED_GROUPS // tiles, steps // _LEAST_STEPS))
    pairs = geo.outs * geo.ins
    elements = geo.groups * geo.taps * pairs
    parts = stream.scratch(4 * chunks * elements)
    _launch(stream, WEIGHT, geo, code, tiles * chunks, parts, (g, x, None), (-(-steps // chunks), chunks))
    push = _JOIN_PUSH.pack(stream.address(out), stream.address(parts), geo.groups, geo.taps, pairs, chunks)
    stream.launch(stream.pipeline(f"conv_join_{code}"), groups_for(elements, 256), push, [parts], [out])
