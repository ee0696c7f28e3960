"""``sum max argmax cumsum``: the same order of additions at every run, with what rounding loses carried along."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from typing import Any, Final

from grilly_backend_vulkan.kernels import data, mapping
from grilly_backend_vulkan.kernels.support import FLOATS, HALVES, INTEGERS, WIDENED, groups_for, of_device

__all__ = ["launch_reduction", "register"]

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
    inner, steps = list(shape[::-1]), list(steps[::-1])
    rank = max(len(inner), 1)
    return rank, steps + [0] * (_AXES - len(steps)), inner[:-1] + [1] * (_AXES - rank)


def _plan(outputs: int, terms: int, columns: bool) -> tuple[bool, int]:
    """Return whether groups make the outputs, and into how many parts the terms are cut."""
    grouped = terms > _FEW_TERMS and not (columns and outputs >= 64) and outputs < 1 << 20
    workers = outputs if grouped else -(-outputs // _GROUP)
    if terms <= _PART or workers >= 512:
        return grouped, 1
    return grouped, min(-(-terms // (_PART if grouped else 1024)), 1024)


def launch_reduction(
    runtime: Any, stream: Any, op: int, out: Any, x: Any, axes: tuple[int, ...]
) -> None:
    """Reduce `x` over `axes` into the packed `out`."""
    kept = [i for i in range(len(x.shape)) if i not in axes]
    outer = _axes([x.shape[i] for i in kept], [x.strides[i] for i in kept])
    inner = _axes([x.shape[i] for i in axes], [x.strides[i] for i in axes])
    if outer[0] > _AXES or inner[0] > _AXES:
        packed = runtime.scratch(x.nbytes)
        data.copy_packed(runtime, stream, packed, x)
        shape = x.shape
        strides = [math.prod(shape[i + 1 :]) for i in range(len(shape))]
        outer = _axes([shape[i] for i in kept], [strides[i] for i in kept])
        inner = _axes([shape[i] for i in axes], [strides[i] for i in axes])
        x_address, source = runtime.address(packed), packed
    else:
        x_address, source = runtime.address(x), x
    outputs = math.prod(x.shape[i] for i in kept)
    terms = math.prod(x.shape[i] for i in axes)
    columns = bool(kept) and abs(outer[1][0]) < abs(inner[1][0])
    grouped, chunks = _plan(outputs, terms, columns)
    name, code = f"reduce_{x.dtype.code}", x.dtype
    if chunks == 1 or op == PLACE:
        sizes = (outputs, terms, 1, terms)
        _launch(runtime, stream, name, op, grouped, (out, runtime.address(out)), (source, x_address), sizes,
                outer, inner)  # fmt: skip
        return
    parts = runtime.scratch(outputs * chunks * code.itemsize)
    at = runtime.address(parts)
    sizes = (outputs, terms, chunks, -(-terms // chunks))
    _launch(runtime, stream, name, op, grouped, (parts, at), (source, x_address), sizes, outer, inner)
    sizes = (outputs, chunks, 1, chunks)
    outer, inner = _axes([outputs], [chunks]), _axes([chunks], [1])
    _launch(runtime, stream, name, op, True, (out, runtime.address(out)), (parts, at), sizes, outer, inner)


def _launch(
    runtime: Any, stream: Any, name: str, op: int, grouped: bool, out: Any, x: Any, sizes: Any, outer: Any, inner: Any
) -> None:  # fmt: skip
    push = _PUSH.pack(out[1], x[1], *sizes, *outer[1], *outer[2], *inner[1], *inner[2])
    pipeline = runtime.pipeline(name, (op, grouped, outer[0], inner[0]))
    groups = groups_for(sizes[0] * sizes[2], 1 if grouped else _GROUP)
    stream.launch(pipeline, groups, push, [x[0]], [out[0]])


def _over_axes(runtime: Any, op: int) -> Callable[..., None]:
    def kernel(stream: Any, outs: Any, ins: Any, attrs: dict[str, Any]) -> None:
        axes = attrs["axis"]
        launch_reduction(runtime, stream, op, outs[0], ins[0], axes if isinstance(axes, tuple) else (axes,))

    return kernel


def _cumsum(runtime: Any) -> Callable[..., None]:
    def kernel(stream: Any, outs: Any, ins: Any, attrs: dict[str, Any]) -> None:
        out, x, axis = outs[0], ins[0], attrs["axis"]
        terms, inner = x.shape[axis], math.prod(x.shape[axis + 1 :])
        rows = math.prod(x.shape[:axis]) * inner
        grouped = terms > _FEW_TERMS
        push = _ROWS.pack(runtime.address(out), runtime.address(x), rows, terms, inner)
        pipeline = runtime.pipeline(f"cumsum_{x.dtype.code}", (SUM, grouped))
        stream.launch(pipeline, groups_for(rows, 1 if grouped else _GROUP), push, [x], [out])

    return kernel


def register(kernels: Any, runtime: Any) -> None:
    """Declare the kernels of this module."""
    numbers = of_device(INTEGERS | FLOATS, runtime)
    # Parts of sums of half types must not be rounded to them.
    kernels.add("sum", _over_axes(runtime, SUM), dtypes=numbers - HALVES, compute=WIDENED)
    kernels.add("max", _over_axes(runtime, MAX), dtypes=numbers)
    kernels.add("argmax", _over_axes(runtime, PLACE), dtypes=numbers)
    kernels.add("cumsum", _cumsum(runtime), dtypes=numbers, layout="contiguous")
