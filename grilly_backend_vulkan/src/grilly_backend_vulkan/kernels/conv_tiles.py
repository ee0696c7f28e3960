"""Convolution with enough channels, at the speed of matrix products: implicit GEMM in ``conv_tiles.comp``.

The weight is first copied to ``(group, tap, channel summed over, channel made)``: rows that a tile reads in one go.

Measured on an H200, in TFLOP/s (3 x 3, batch 16; 64 channels of 56 x 56, 256 of 28 x 28, 512 of 14 x 14): output
27, 38, 34; input's gradient 25, 37, 35; weight's gradient 23, 31, 29. Without fetching, storing to shared memory and
barriers the same loops reach 34 (64 rows) to 43. So fetching costs a tenth with 128 rows and a fifth with 64, where
each thread loads 16 numbers of the images a step instead of 8. Cutting the sums of 196 tiles in two, which evens out
the work of 132 processors, gained a fifth; sizes as constants of the pipeline a twentieth with 64 channels. cuDNN takes
Winograd's method for the gradients of large weights, which is 3 times as fast there, and ten times less exact.
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

__all__ = ["forward", "input_grad", "packed_weight", "suits", "weight_grad"]

_PUSH: Final = struct.Struct("<4Q6i12I")
FORWARD, INPUT, WEIGHT = 0, 1, 2
#: Rows and columns of a tile, how many tiles, and the parts of the sums.
Plan = tuple[tuple[int, int], int, int]
_STEP: Final = 16  # terms of the sums between two barriers
_LEAST_STEPS: Final = 4  # of a part of the sums
_MOST_PARTS: Final = 256
_LEAST_CHANNELS: Final = 16
_LEAST_WORK: Final = 1 << 22  # multiplications, below which the launches of packing and joining cost more
_FIXED_WORK: Final = 1 << 30  # multiplications from which on it pays to build a pipeline for these very sizes

# A model of the time, fitted to measurements on an H200, by which tiles and parts are chosen on all devices.
_PROCESSORS: Final = 132
_RATE: Final = 0.43e6  # operations of one processor in a microsecond, with the best tile
_WARPS: Final = 16  # that keep a processor busy
_BYTES: Final = 3.5e6  # moved in a microsecond
_LAUNCH: Final = 8.0  # microseconds
#: Tiles with their efficiency; sums over places store to shared memory across rows, which large tiles gain less from.
_TILES: Final = {(128, 128): 1.0, (128, 64): 0.85, (64, 128): 0.75, (64, 64): 0.65}
_WEIGHT_TILES: Final = {(128, 128): 0.73, (128, 64): 0.78, (64, 128): 0.76, (64, 64): 0.65}


def suits(geometry: Geometry) -> bool:
    """Whether this way is the fastest, by sizes alone."""
    g = geometry
    return min(g.ins, g.outs) >= _LEAST_CHANNELS and g.work >= _LEAST_WORK


def _cost(tile: tuple[int, int], rate: float, tiles: int, steps: int, chunks: int, outputs: int) -> float:
    """Return the microseconds that sums of `steps`, cut into `chunks` parts, take for so many tiles."""
    rounds = -(-tiles * chunks // _PROCESSORS)
    work = 2 * _STEP * tile[0] * tile[1] * -(-steps // chunks) / (_RATE * rate)
    idle = max(1.0, _WARPS / (rounds * tile[0] * tile[1] // 2048)) ** 0.5
    parts = 0.0 if chunks == 1 else _LAUNCH + outputs * (8 * chunks + 4) / _BYTES
    return rounds * work * idle + parts


def _plan(
    rows: int, columns: int, copies: int, steps: int, outputs: int, shared: int, weight: bool = False
) -> Plan:
    """Return the cheapest tile, how many of them, and into how many parts to cut the sums; by sizes alone."""
    best: tuple[float, Plan] | None = None
    rates = _WEIGHT_TILES if weight else _TILES
    for tile in _tiles(shared):
        tiles = -(-rows // tile[0]) * -(-columns // tile[1]) * copies
        least = -(-steps // MAX_TURNS)
        for chunks in range(least, max(least, min(_MOST_PARTS, steps // _LEAST_STEPS)) + 1):
            cost = _cost(tile, rates[tile], tiles, steps, chunks, outputs)
            if best is None or cost < best[0]:
                best = cost, (tile, tiles, chunks)
    assert best is not None
    return best[1]


def _tiles(shared: int) -> list[tuple[int, int]]:
    """Return the tiles whose two copies of a step, padded, fit so many bytes of shared memory."""
    return [t for t in _TILES if 8 * _STEP * (sum(t) + 8) <= shared]


def packed_weight(stream: Any, weight: Any, g: Geometry, mode: int) -> Any:
    """Return the weight as (group, tap, channel summed over, channel made)."""
    if mode == INPUT and g.taps == 1:
        return weight
    step_out, step_in = g.ins * g.taps, g.taps
    shape, strides = (g.groups, g.taps, g.outs, g.ins), (g.outs * step_out, 1, step_out, step_in)
    if mode == FORWARD:
        shape, strides = (*shape[:2], g.ins, g.outs), (*strides[:2], step_in, step_out)
    item = weight.dtype.itemsize
    target = stream.scratch(weight.nbytes)
    how: dict[str, Any] = {
        "shape": shape,
        "strides": (contiguous_strides(shape), strides),
        "items": (item, item),
    }
    mapping.run(stream, f"copy_s{item}", (), (target, weight), **how)
    return target


def _launch(
    stream: Any, mode: int, g: Geometry, plan: Plan, steps: int, target: Any, views: tuple[Any, Any, Any]
) -> None:
    tile, tiles, chunks = plan
    in_order = mode == FORWARD or set(g.stride) == {1}
    rows, summed, plane = (g.outs, g.ins, g.places) if mode == FORWARD else (g.ins, g.outs, g.plane)
    addresses = [0 if v is None else stream.address(v) for v in (target, *views)]
    if mode == WEIGHT:
        wide, full = (False, False), g.outs % tile[0] == 0 and g.ins % tile[1] == 0
    else:
        wide = (
            rows % 4 == 0 and addresses[1] % 16 == 0,
            in_order and plane % 4 == 0 and addresses[0] % 16 == 0,
        )
        full = rows % tile[0] == 0 and summed % _STEP == 0
    push = _PUSH.pack(*addresses, *g.numbers(), g.batch, g.groups, g.outs, g.ins, -(-steps // chunks), chunks)
    sizes = g.numbers()[:6] if g.work >= _FIXED_WORK else [0] * 6
    kind = "weight" if mode == WEIGHT else "data"
    pipeline = stream.pipeline(f"conv_tiles_{kind}_{tile[0]}x{tile[1]}", (mode, g.axes, *wide, full, *sizes))
    across = min(tiles * chunks, MAX_GROUPS)
    reads = [v for v in views if v is not None]
    stream.launch(pipeline, (across, -(-tiles * chunks // across), 1), push, reads, [target])


def _product(stream: Any, mode: int, g: Geometry, out: Any, weight: Any, data: Any, bias: Any) -> None:
    """Make an output or the gradient of an input."""
    made, summed = (g.outs, g.ins) if mode == FORWARD else (g.ins, g.outs)
    phases = 1 if mode == FORWARD else math.prod(g.stride)
    per_phase = (
        g.places if mode == FORWARD else math.prod(-(-n // s) for n, s in zip(g.size, g.stride, strict=True))
    )
    steps, outputs = g.taps * -(-summed // _STEP), math.prod(out.shape)
    plan = _plan(made, g.batch * per_phase, phases * g.groups, steps, outputs, stream.facts.shared_memory)
    target = out if plan[2] == 1 else stream.scratch(plan[2] * out.nbytes)
    packed = packed_weight(stream, weight, g, mode)
    _launch(stream, mode, g, plan, steps, target, (packed, data, bias))
    if plan[2] > 1:
        sum_parts(stream, out, target, outputs, plan[2])


def forward(stream: Any, out: Any, x: Any, weight: Any, bias: Any, geometry: Geometry) -> None:
    """Write the convolution of `x`."""
    _product(stream, FORWARD, geometry, out, weight, x, bias)


def input_grad(stream: Any, out: Any, g: Any, weight: Any, geometry: Geometry) -> None:
    """Write the gradient of the input. A stride makes as many problems as it has phases, each with its own taps."""
    _product(stream, INPUT, geometry, out, weight, g, None)


def weight_grad(stream: Any, out: Any, g: Any, x: Any, geometry: Geometry) -> None:
    """Write the gradient of the weight; made as (part, group, tap, out, in), and joined in that order."""
    geo, outputs = geometry, math.prod(out.shape)
    steps = -(-geo.batch * geo.places // _STEP)
    plan = _plan(geo.outs, geo.ins, geo.taps * geo.groups, steps, outputs, stream.facts.shared_memory, True)
    chunks = plan[2]
    direct = chunks == 1 and geo.taps == 1
    target = out if direct else stream.scratch(chunks * out.nbytes)
    _launch(stream, WEIGHT, geo, plan, steps, target, (g, x, None))
    if direct:
        return
    pairs = geo.outs * geo.ins
    shape, strides = (geo.groups, pairs, geo.taps), (geo.taps * pairs, 1, pairs)
    if chunks > 1:
        sum_parts(stream, out, target, outputs, chunks, (shape, strides))
        return
    how: dict[str, Any] = {"shape": shape, "strides": (contiguous_strides(shape), strides), "items": (4, 4)}
    mapping.run(stream, "copy_s4", (), (out, target), **how)
