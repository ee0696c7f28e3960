"""``sum max argmax cumsum``: the same order of additions at every run, with what rounding loses carried along."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from typing import Any, Final

from grilly_backend_vulkan.kernels import data, mapping
from grilly_backend_vulkan.kernels.support import FLOATS, HALVES, INTEGERS, WIDENED, add, groups_for

__all__ = ["launch_reduction", "register", "sum_parts"]

SUM: Final = 0
MAX: Final = 1
PLACE: Final = 2
_PUSH: Final = struct.Struct("<2Q4I4i3I4i3I")
_ROWS: Final = struct.Struct("<2Q3I")
_GROUP: Final = 256
_AXES: Final = 4  # axes of each kind that fit in the push constants
_FEW_TERMS: Final = 64  # a thread by itself is as quick as a group
_MANY_OUTPUTS: Final = 8192  # enough threads without dividing the terms
_PART: Final = 8192  # terms of a part where there are few outputs


def _axes(sizes: Any, strides: Any) -> tuple[int, list[int], list[int]]:
    """Return number, strides and inner sizes of merged axes, innermost first, padded to four."""
    shape, (steps,) = mapping.merged(tuple(sizes), [tuple(strides)])
    inner, outward = list(shape[::-1]), list(steps[::-1])
    rank = max(len(inner), 1)
    return rank, outward + [0] * (_AXES - len(outward)), inner[:-1] + [1] * (_AXES - rank)


def _plan(outputs: int, terms: int, columns: bool) -> tuple[bool, int]:
    """Return whether groups make the outputs, and into how many parts the terms are cut."""
    grouped = terms > _FEW_TERMS and not (columns and outputs >= 64) and outputs < 1 << 20
    workers = outputs if grouped else -(-outputs // _GROUP)
    if terms <= _PART or workers >= 512:
        return grouped, 1
    return grouped, min(-(-terms // (_PART if grouped else 1024)), 1024)


def launch_reduction(stream: Any, op: int, out: Any, x: Any, axes: tuple[int, ...]) -> None:
    """Reduce `x` over `axes` into the packed `out`."""
    kept = tuple(i for i in range(len(x.shape)) if i not in axes)
    outputs, terms = (math.prod(x.shape[i] for i in part) for part in (kept, axes))
    outer, inner = (_axes([x.shape[i] for i in part], [x.strides[i] for i in part]) for part in (kept, axes))
    source = x
    if max(outer[0], inner[0]) > _AXES:
        source = data.copy_packed(stream, x, kept + axes)
        outer, inner = _axes([outputs], [terms]), _axes([terms], [1])
    columns = bool(kept) and abs(outer[1][0]) < abs(inner[1][0])
    grouped, chunks = (terms > _FEW_TERMS, 1) if op == PLACE else _plan(outputs, terms, columns)
    target = out if chunks == 1 else stream.scratch(outputs * chunks * x.dtype.itemsize)
    name = f"reduce_{x.dtype.code}"
    sizes = (outputs, terms, chunks, -(-terms // chunks))
    _launch(stream, name, op, grouped, target, source, sizes, outer, inner)
    if chunks > 1:
        sizes, outer, inner = (outputs, chunks, 1, chunks), _axes([outputs], [chunks]), _axes([chunks], [1])
        _launch(stream, name, op, True, out, target, sizes, outer, inner)


def _launch(
    stream: Any, name: str, op: int, grouped: bool, out: Any, x: Any, sizes: Any, outer: Any, inner: Any
) -> None:  # fmt: skip
    push = _PUSH.pack(
        stream.address(out), stream.address(x), *sizes, *outer[1], *outer[2], *inner[1], *inner[2]
    )
    pipeline = stream.pipeline(name, (op, grouped, outer[0], inner[0]))
    groups = groups_for(sizes[0] * sizes[2], 1 if grouped else _GROUP)
    stream.launch(pipeline, groups, push, [x], [out])


def sum_parts(stream: Any, out: Any, parts: Any, outputs: int, chunks: int) -> None:
    """Sum the f32 `parts`, packed as [chunks, outputs], into the packed `out`."""
    sizes = (outputs, chunks, 1, chunks)
    outer, inner = _axes([outputs], [1]), _axes([chunks], [outputs])
    _launch(stream, "reduce_f32", SUM, False, out, parts, sizes, outer, inner)


def _over_axes(op: int) -> Callable[..., None]:
    def kernel(stream: Any, outs: Any, ins: Any, attrs: dict[str, Any]) -> None:
        axes = attrs["axis"]
        launch_reduction(stream, op, outs[0], ins[0], axes if isinstance(axes, tuple) else (axes,))

    return kernel


def _cumsum(stream: Any, outs: Any, ins: Any, attrs: dict[str, Any]) -> None:
    out, x, axis = outs[0], ins[0], attrs["axis"]
    terms, inner = x.shape[axis], math.prod(x.shape[axis + 1 :])
    rows = math.prod(x.shape[:axis]) * inner
    grouped = terms > _FEW_TERMS
    push = _ROWS.pack(stream.address(out), stream.address(x), rows, terms, inner)
    pipeline = stream.pipeline(f"cumsum_{x.dtype.code}", (SUM, grouped))
    stream.launch(pipeline, groups_for(rows, 1 if grouped else _GROUP), push, [x], [out])


def register(kernels: Any, runtime: Any) -> None:
    """Declare the kernels of this module."""
    numbers = INTEGERS | FLOATS
    # Parts of sums of half types must not be rounded to them.
    add(kernels, "sum", _over_axes(SUM), numbers - HALVES, compute=WIDENED)
    add(kernels, "max", _over_axes(MAX), numbers)
    add(kernels, "argmax", _over_axes(PLACE), numbers)
    add(kernels, "cumsum", _cumsum, numbers, layout="contiguous")
