"""``gather`` and ``scatter`` along one axis.

Positions are not checked on the device: a gather clamps those out of range, a scatter leaves them out, so neither
touches foreign memory.
"""

from __future__ import annotations

import math
import struct
from typing import Any, Final

from grilly_backend_vulkan.kernels import data, mapping
from grilly_backend_vulkan.kernels.sort import sorted_keys
from grilly_backend_vulkan.kernels.support import ALL, COMPLEX, add, groups_for

__all__ = ["launch_scatter", "register"]

MODES: Final = {"set": 0, "add": 1, "min": 2, "max": 3}
_PUSH: Final = struct.Struct("<4Q4I")
_GROUP: Final = 256
_FEW: Final = 32  # positions that each thread may as well go through by itself


def _how(index: Any) -> tuple[int, bool]:
    return index.dtype.itemsize, index.dtype.kind == "i"


def _gather(stream: Any, outs: Any, ins: Any, attrs: dict[str, Any]) -> None:
    out, (x, index), axis = outs[0], ins, attrs["axis"]
    fixed = tuple(0 if i == axis else s for i, s in enumerate(x.strides))
    along = tuple(index.strides[0] if i == axis else 0 for i in range(len(x.shape)))
    scalars = struct.pack("<qI", x.strides[axis], x.shape[axis])
    layouts = {"shape": out.shape, "strides": (out.strides, fixed, along), "scalars": scalars}
    mapping.run(stream, f"gather_s{out.dtype.itemsize}", _how(index), (out, x, index), **layouts)


def positions(stream: Any, index: Any, size: int) -> Any:
    """Return the 1-D `index` as u32 from the front, in scratch memory."""
    count = index.shape[0]
    target = stream.scratch(count * 4)
    mapping.run(
        stream, "positions", _how(index), (target, index), shape=(count,), strides=((1,), index.strides),
        scalars=struct.pack("<I", size), items=(4, index.dtype.itemsize),
    )  # fmt: skip
    return target


def launch_scatter(
    stream: Any, mode: str, out: Any, index: Any, updates: Any, sizes: tuple[int, int, int, int]
) -> None:
    """Put `updates` [outer, count, inner] into `out` [outer, size, inner]; `sizes` in this order, size last."""
    outer, count, inner, size = sizes
    places = positions(stream, index, size)
    order = places
    many = count > _FEW
    if many:
        places, order = sorted_keys(stream, places, "u32", 4, (1, count, 1), False)
    addresses = [stream.address(v) for v in (out, places, order, updates)]
    code = out.dtype.code
    name = f"scatter_s{out.dtype.itemsize}" if code in COMPLEX else f"scatter_{code}"
    pipeline = stream.pipeline(name, (MODES[mode], many))
    threads = outer * inner * (count if many else 1)
    push = _PUSH.pack(*addresses, *sizes)
    stream.launch(pipeline, groups_for(threads, _GROUP), push, [places, order, updates, out], [out])


def _scatter(stream: Any, outs: Any, ins: Any, attrs: dict[str, Any]) -> None:
    out, (x, index, updates), axis = outs[0], ins, attrs["axis"]
    if stream.address(out) != stream.address(x):
        data.copy(stream, out, x)
    count = index.shape[0]
    if count and x.shape[axis]:
        sizes = (math.prod(x.shape[:axis]), count, math.prod(x.shape[axis + 1 :]), x.shape[axis])
        launch_scatter(stream, attrs["mode"], out, index, updates, sizes)


def register(kernels: Any, runtime: Any) -> None:
    """Declare the kernels of this module."""
    kernels.add("gather", _gather, dtypes=ALL, when=lambda c: c.ins[0].size > 0)
    scatter = {"layout": "contiguous"}
    add(kernels, "scatter", _scatter, ALL - COMPLEX, **scatter)
    kernels.add("scatter", _scatter, dtypes=COMPLEX, when=lambda c: c.attrs["mode"] == "set", **scatter)
