"""``full iota bitcast strided_copy``: data moved or made without arithmetic."""

from __future__ import annotations

import struct
from typing import Any, Final

import numpy as np

from grilly_backend_vulkan.kernels import mapping
from grilly_backend_vulkan.kernels.support import ALL, FLOATS, INTEGERS, add
from grilly_core.layout import contiguous_strides

__all__ = ["copy", "copy_packed", "fill", "register"]

_WIDE: Final = 16  # bytes moved at once where both sides are packed and aligned


def copy(stream: Any, out: Any, x: Any) -> None:
    """Copy the elements of `x` to `out`, whatever the layouts."""
    words, rest = divmod(out.spec.nbytes, _WIDE)
    packed = out.spec.contiguous and x.spec.contiguous and rest == 0
    if packed and (stream.address(out) | stream.address(x)) % _WIDE == 0:
        flat: dict[str, Any] = {"shape": (words,), "strides": ((1,), (1,)), "items": (_WIDE, _WIDE)}
        mapping.run(stream, "copy_s16", (), (out, x), **flat)
    else:
        mapping.run(stream, f"copy_s{out.dtype.itemsize}", (), (out, x))


def copy_packed(stream: Any, x: Any, order: tuple[int, ...]) -> Any:
    """Return scratch memory with the elements of `x` packed, its axes in `order`."""
    target = stream.scratch(x.nbytes)
    item = x.dtype.itemsize
    shape = tuple(x.shape[i] for i in order)
    strides = contiguous_strides(shape), tuple(x.strides[i] for i in order)
    mapping.run(stream, f"copy_s{item}", (), (target, x), shape=shape, strides=strides, items=(item, item))
    return target


def fill(stream: Any, out: Any, value: Any) -> None:
    """Put `value` into every element of `out`."""
    pattern = np.asarray(value).astype(out.dtype.numpy).tobytes()
    mapping.run(stream, f"fill_s{len(pattern)}", (), (out,), scalars=pattern)


def _copying(stream: Any, outs: Any, ins: Any, attrs: dict[str, Any]) -> None:
    copy(stream, outs[0], ins[0])


def _full(stream: Any, outs: Any, ins: Any, attrs: dict[str, Any]) -> None:
    fill(stream, outs[0], attrs["value"])


def _iota(stream: Any, outs: Any, ins: Any, attrs: dict[str, Any]) -> None:
    out, start, step = outs[0], attrs["start"], attrs["step"]
    if out.dtype.code == "f64":
        scalars = struct.pack("<dd", start, step)
    elif out.dtype.is_floating:
        scalars = struct.pack("<f4xf4x", start, step)
    else:
        scalars = struct.pack("<qq", int(start), int(step))
    mapping.run(stream, f"iota_{out.dtype.code}", (), (out,), scalars=scalars)


def register(kernels: Any, runtime: Any) -> None:
    """Declare the kernels of this module."""
    kernels.add("full", _full, dtypes=ALL)
    kernels.add("strided_copy", _copying, dtypes=ALL)
    kernels.add("bitcast", _copying, dtypes=ALL)
    add(kernels, "iota", _iota, INTEGERS | FLOATS, when=lambda c: c.outs[0].size < mapping.SPAN)
