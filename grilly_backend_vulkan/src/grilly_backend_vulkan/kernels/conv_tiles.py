"""Convolution with enough channels, at the speed of matrix products: implicit GEMM in ``conv_tiles.comp``.

The weight is first copied to ``(group, tap, channel summed over, channel made)``: rows that a tile reads in one go.
"""

from __future__ import annotations

import math
import struct
from typing import Any, Final

from grilly_backend_vulkan.kernels import mapping
from grilly_backend_vulkan.kernels.conv_geometry import Geometry
from grilly_backend_vulkan.kernels.reduce import sum_parts
from grilly_backend_vulkan.kernels.support import MAX_GROUPS, MAX_TURNS
from grilly_core.layout import contiguous_strides

__all__ = ["forward", "input_grad", "suits", "weight_grad"]

_PUSH: Final = struct.Struct("<4Q6i12I")
FORWARD, INPUT, WEIGHT = 0, 1, 2
_STEP: Final = 16  # terms of the sums between two barriers
_WANTED_GROUPS: Final = 400  # about three for each processor of a large device
_LEAST_STEPS: Final = {FORWARD: 32, INPUT: 32, WEIGHT: 16}  # of a part of the sums
_LEAST_CHANNELS: Final = 16
_LEAST_WORK: Final = 1 << 25  # multiplications, below which the launches of packing and joining cost more


def suits(geometry: Geometry) -> bool:
    """Whether this way is the fastest, by sizes alone."""
    g = geometry
    work = g.batch * g.groups * g.outs * g.ins * g.taps * g.places
    return min(g.ins, g.outs) >= _LEAST_CHANNELS and work >= _LEAST_WORK


def _tile(mode: int, g: Geometry, columns: int) -> tuple[int, int]:
    """Return rows and columns of a tile."""
    return 64, 128 if columns > 64 else 64


def _packed_weight(stream: Any, weight: Any, g: Geometry, mode: int) -> Any:
    """Return the weight as (group, tap, channel summed over, channel made)."""
    if mode == INPUT and g.taps == 1:
        return weight
    step_out, step_in = g.ins * g.taps, g.taps
    shape, strides = (g.groups, g.taps, g.outs, g.ins), (g.outs * step_out, 1, step_out, step_in)
    if mode == FORWARD:
        shape, strides = (*shape[:2], g.ins, g.outs), (*strides[:2], step_in, step_out)
    target = stream.scratch(weight.nbytes)
    how: dict[str, Any] = {"shape": shape, "strides": (contiguous_strides(shape), strides), "items": (4, 4)}
    mapping.run(stream, "copy_s4", (), (target, weight), **how)
    return target


def _launch(
    stream: Any, mode: int, g: Geometry, tile: tuple[int, int], tiles: int, steps: int, chunks: int, target: Any,
    views: tuple[Any, Any, Any],
) -> None:  # fmt: skip
    columns_in_order = mode == FORWARD or set(g.stride) == {1}
    rows, plane = (g.outs, g.places) if mode == FORWARD else (g.ins, g.plane)
    wide_out = mode != WEIGHT and columns_in_order and plane % 4 == 0
    addresses = [0 if v is None else stream.address(v) for v in (target, *views)]
    wide_a = mode != WEIGHT and rows % 4 == 0 and addresses[1] % 16 == 0
    chunk = -(-steps // chunks)
    push = _PUSH.pack(*addresses, *g.numbers(), g.batch, g.groups, g.outs, g.ins, chunk, chunks)
    groups = tiles * chunks
    across = min(groups, MAX_GROUPS)
    kind = "weight" if mode == WEIGHT else "data"
    pipeline = stream.pipeline(
        f"conv_tiles_{kind}_{tile[0]}x{tile[1]}", (mode, g.axes, wide_a, wide_out and addresses[0] % 16 == 0)
    )
    reads = [v for v in views if v is not None]
    stream.launch(pipeline, (across, -(-groups // across), 1), push, reads, [target])


def _chunks(mode: int, tiles: int, steps: int) -> int:
    """Return into how many parts the sums are cut, so that few tiles still fill a device; by sizes alone."""
    return max(1, min(_WANTED_GROUPS // tiles, steps // _LEAST_STEPS[mode]), -(-steps // MAX_TURNS))


def _product(stream: Any, mode: int, g: Geometry, out: Any, weight: Any, data: Any, bias: Any) -> None:
    """Make an output or the gradient of an input."""
    made, summed = (g.outs, g.ins) if mode == FORWARD else (g.ins, g.outs)
    phases = 1 if mode == FORWARD else math.prod(g.stride)
    per_phase = (
        g.places if mode == FORWARD else math.prod(-(-n // s) for n, s in zip(g.size, g.stride, strict=True))
    )
    columns = g.batch * per_phase
    tile = _tile(mode, g, columns)
    tiles = -(-made // tile[0]) * -(-columns // tile[1]) * phases * g.groups
    steps = g.taps * -(-summed // _STEP)
    chunks = _chunks(mode, tiles, steps)
    target = out if chunks == 1 else stream.scratch(chunks * out.nbytes)
    packed = _packed_weight(stream, weight, g, mode)
    _launch(stream, mode, g, tile, tiles, steps, chunks, target, (packed, data, bias))
    if chunks > 1:
        sum_parts(stream, out, target, math.prod(out.shape), chunks)


def forward(stream: Any, out: Any, x: Any, weight: Any, bias: Any, geometry: Geometry) -> None:
    """Write the convolution of `x`."""
    _product(stream, FORWARD, geometry, out, weight, x, bias)


def input_grad(stream: Any, out: Any, g: Any, weight: Any, geometry: Geometry) -> None:
    """Write the gradient of the input. A stride makes as many problems as it has phases, each with its own taps."""
    _product(stream, INPUT, geometry, out, weight, g, None)


def weight_grad(stream: Any, out: Any, g: Any, x: Any, geometry: Geometry) -> None:
    """Write the gradient of the weight; made as (part, group, tap, out, in), and joined in that order."""
    geo = geometry
    tile = _tile(WEIGHT, geo, geo.ins)
    tiles = -(-geo.outs // tile[0]) * -(-geo.ins // tile[1]) * geo.taps * geo.groups
    steps = -(-geo.batch * geo.places // _STEP)
    chunks = _chunks(WEIGHT, tiles, steps)
    direct = chunks == 1 and geo.taps == 1
    target = out if direct else stream.scratch(chunks * out.nbytes)
    _launch(stream, WEIGHT, geo, tile, tiles, steps, chunks, target, (g, x, None))
    if direct:
        return
    pairs = geo.outs * geo.ins
    shape, strides = (geo.groups, pairs, geo.taps), (geo.taps * pairs, 1, pairs)
    if chunks > 1:
        sum_parts(stream, out, target, math.prod(out.shape), chunks, (shape, strides))
        return
    how: dict[str, Any] = {"shape": shape, "strides": (contiguous_strides(shape), strides), "items": (4, 4)}
    mapping.run(stream, "copy_s4", (), (out, target), **how)
