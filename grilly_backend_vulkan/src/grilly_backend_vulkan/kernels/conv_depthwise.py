"""Depthwise convolution, whose groups have one input channel: direct sums, bound by memory."""

from __future__ import annotations

import math
import struct
from typing import Any, Final

from grilly_backend_vulkan.kernels.conv_geometry import Geometry
from grilly_backend_vulkan.kernels.reduce import sum_parts
from grilly_backend_vulkan.kernels.support import MAX_GROUPS, groups_for

__all__ = ["forward", "input_grad", "suits", "weight_grad"]

_PUSH: Final = struct.Struct("<4Q6i11I")
FORWARD, INPUT, WEIGHT = 0, 1, 2
_GROUP: Final = 256
_TAPS: Final = 9  # of the weight's gradient that a work group sums at once
_WANTED_GROUPS: Final = 512  # enough to fill a large device
_LEAST_PART: Final = 2048  # places
_LONGEST_PART: Final = 1 << 20


def suits(geometry: Geometry) -> bool:
    """Whether groups have one input channel and few outputs."""
    return geometry.ins == 1 and geometry.groups > 1 and geometry.outs <= 4


def _launch(
    stream: Any,
    mode: int,
    g: Geometry,
    groups: tuple[int, int, int],
    target: Any,
    views: Any,
    parts: tuple[int, int],
) -> None:
    addresses = [0 if v is None else stream.address(v) for v in (target, *views)]
    push = _PUSH.pack(*addresses, *g.numbers(), g.batch, g.groups, g.outs, *parts)
    pipeline = stream.pipeline("conv_depthwise", (mode, g.axes, min(g.taps, _TAPS)))
    stream.launch(pipeline, groups, push, [v for v in views if v is not None], [target])


def forward(stream: Any, out: Any, x: Any, weight: Any, bias: Any, geometry: Geometry) -> None:
    """Write the convolution of `x`."""
    groups = groups_for(math.prod(out.shape), _GROUP)
    _launch(stream, FORWARD, geometry, groups, out, (weight, x, bias), (0, 1))


def input_grad(stream: Any, out: Any, g: Any, weight: Any, geometry: Geometry) -> None:
    """Write the gradient of the input."""
    groups = groups_for(math.prod(out.shape), _GROUP)
    _launch(stream, INPUT, geometry, groups, out, (weight, g, None), (0, 1))


def weight_grad(stream: Any, out: Any, g: Any, x: Any, geometry: Geometry) -> None:
    """Write the gradient of the weight, in parts where there are few channels and many places."""
    places = geometry.batch * geometry.places
    sums = geometry.groups * geometry.outs * -(-geometry.taps // _TAPS)
    chunks = max(1, min(_WANTED_GROUPS // sums, places // _LEAST_PART), -(-places // _LONGEST_PART))
    target = out if chunks == 1 else stream.scratch(chunks * out.nbytes)
    groups = (min(sums * chunks, MAX_GROUPS), 1, 1)
    _launch(stream, WEIGHT, geometry, groups, target, (g, x, None), (-(-places // chunks), chunks))
    if chunks > 1:
        sum_parts(stream, out, target, math.prod(out.shape), chunks)
