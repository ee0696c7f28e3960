"""``sum max argmax cumsum``: the same order of additions at every run, with what rounding loses carried along."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from typing import Any, Final

from grilly_backend_vulkan.kernels import data, mapping
from grilly_backend_vulkan.kernels.rows import ROW_MAX, ROW_SUM, launch_row_reduction
from grilly_backend_vulkan.kernels.support import FLOATS, HALVES, INTEGERS, WIDENED, add, groups_for

__all__ = ["launch_reduction", "register", "sum_parts"]

SUM: Final = 0
MAX: Final = 1
PLACE: Final = 2
_PUSH: Final = struct.Struct("<3Q4I4i3I4i3I")
_ROWS: Final = struct.Struct("<3Q5I")
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
    packed_rows = (
        x.spec.contiguous and kept == tuple(range(len(kept))) and x.dtype.code == "f32" and outputs < 1 << 31
    )
    if packed_rows and op != PLACE and terms > _FEW_TERMS:
        row_op = ROW_SUM if op == SUM else ROW_MAX
        if launch_row_reduction(stream, row_op, out, x, outputs, terms):
            return
    columns = bool(kept) and abs(outer[1][0]) < abs(inner[1][0])
    grouped, chunks = _plan(outputs, terms, columns)
    item = 4 if op == PLACE else x.dtype.itemsize
    target = out if chunks == 1 else stream.scratch(outputs * chunks * item)
    name = f"reduce_{x.dtype.code}"
    sizes = (outputs, terms, chunks, -(-terms // chunks))
    _launch(stream, name, op, grouped, target, source, sizes, outer, inner)
    if chunks == 1:
        return
    sizes = (outputs, chunks, 1, chunks)
    if op == PLACE:  # the terms that won in their parts once more
        _launch(stream, name, op, True, out, source, sizes, outer, inner, target)
    else:
        _launch(stream, name, op, True, out, target, sizes, _axes([outputs], [chunks]), _axes([chunks], [1]))


def _launch(
    stream: Any, name: str, op: int, grouped: bool, out: Any, x: Any, sizes: Any, outer: Any, inner: Any,
    chosen: Any = None,
) -> None:  # fmt: skip
    addresses = stream.address(out), stream.address(x), 0 if chosen is None else stream.address(chosen)
    push = _PUSH.pack(*addresses, *sizes, *outer[1], *outer[2], *inner[1], *inner[2])
    pipeline = stream.pipeline(name, (op, grouped, outer[0], inner[0], chosen is not None))
    groups = groups_for(sizes[0] * sizes[2], 1 if grouped else _GROUP)
    stream.launch(pipeline, groups, push, [x] if chosen is None else [x, chosen], [out])


def sum_parts(stream: Any, out: Any, parts: Any, outputs: int, chunks: int, order: Any = None) -> None:
    """Sum `parts` of the type of `out`, packed as [chunks, outputs], into the packed `out`.

    `order` is (shape, strides) of the outputs within a part, where these are not those of `out`.
    """
    sizes = (outputs, chunks, 1, chunks)
    outer, inner = _axes(*(order or ([outputs], [1]))), _axes([chunks], [outputs])
    _launch(stream, f"reduce_{out.dtype.code}", SUM, False, out, parts, sizes, outer, inner)


def _over_axes(op: int) -> Callable[..., None]:
    def kernel(stream: Any, outs: Any, ins: Any, attrs: dict[str, Any]) -> None:
        axes = attrs["axis"]
        launch_reduction(stream, op, outs[0], ins[0], axes if isinstance(axes, tuple) else (axes,))

    return kernel


def _cumsum(stream: Any, outs: Any, ins: Any, attrs: dict[str, Any]) -> None:
    x, axis = ins[0], attrs["axis"]
    inner = math.prod(x.shape[axis + 1 :])
    _scan(stream, outs[0], x, x.dtype, (math.prod(x.shape[:axis]) * inner, x.shape[axis], inner))


def _scan(stream: Any, out: Any, x: Any, dtype: Any, sizes: tuple[int, int, int]) -> None:
    """Running sums of `sizes` rows, terms, inner: of parts first if the rows are long, then what comes before each."""
    rows, terms, inner = sizes
    parts = -(-terms // _PART)
    totals = stream.scratch(rows * parts * dtype.itemsize) if parts > 1 else None
    at = [stream.address(out), stream.address(x), 0 if totals is None else stream.address(totals)]
    push = _ROWS.pack(*at, rows, terms, inner, parts, _PART)
    grouped = terms > _FEW_TERMS
    pipeline = stream.pipeline(f"cumsum_{dtype.code}", (SUM, grouped, False))
    groups = groups_for(rows * parts, 1 if grouped else _GROUP)
    stream.launch(pipeline, groups, push, [x], [out] if totals is None else [out, totals])
    if totals is not None:
        before = stream.scratch(totals.nbytes)
        _scan(stream, before, totals, dtype, (rows, parts, 1))
        push = _ROWS.pack(at[0], 0, stream.address(before), rows, terms, inner, parts, _PART)
        pipeline = stream.pipeline(f"cumsum_{dtype.code}", (SUM, False, True))
        stream.launch(pipeline, groups_for(rows * terms, _GROUP), push, [before, out], [out])


def register(kernels: Any, runtime: Any) -> None:
    """Declare the kernels of this module."""
    numbers = INTEGERS | FLOATS
    # Parts of sums of half types must not be rounded to them.
    add(kernels, "sum", _over_axes(SUM), numbers - HALVES, compute=WIDENED)
    add(kernels, "max", _over_axes(MAX), numbers)
    add(kernels, "argmax", _over_axes(PLACE), numbers)
    add(kernels, "cumsum", _cumsum, numbers - HALVES, layout="contiguous", compute=WIDENED)
