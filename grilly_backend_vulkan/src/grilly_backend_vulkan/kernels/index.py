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
from grilly_backend_vulkan.kernels.support import ALL, COMPLEX, HALVES, MAX_TURNS, add, groups_for

__all__ = ["launch_scatter", "register"]

MODES: Final = {"set": 0, "add": 1, "min": 2, "max": 3}
_PUSH: Final = struct.Struct("<4Q6I")
_GROUP: Final = 256
_NOWHERE: Final = 0xFFFFFFFF
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


def positions(stream: Any, index: Any, size: int, left_out: int = _NOWHERE) -> Any:
    """Return `index`, 1-D or packed, as u32 from the front, in scratch memory; `left_out` as if out of range."""
    count = index.spec.size
    step = index.strides[0] if len(index.shape) == 1 else 1
    target = stream.scratch(count * 4)
    mapping.run(
        stream, "positions", _how(index), (target, index), shape=(count,), strides=((1,), (step,)),
        scalars=struct.pack("<2I", size, left_out), items=(4, index.dtype.itemsize),
    )  # fmt: skip
    return target


def launch_scatter(
    stream: Any, mode: str, out: Any, places: Any, updates: Any, sizes: tuple[int, int, int, int]
) -> None:
    """Put `updates` [outer, count, inner] into `out` [outer, size, inner] at `positions`; `sizes` in this order."""
    outer, count, inner, _ = sizes
    order = places
    many = count > _FEW
    if many:
        places, order = sorted_keys(stream, places, "u32", 4, (1, count, 1), False)
    addresses = [stream.address(v) for v in (out, places, order, updates)]
    code = out.dtype.code
    name = f"scatter_s{out.dtype.itemsize}" if code in COMPLEX else f"scatter_{code}"
    pipeline = stream.pipeline(name, (MODES[mode], many))
    groups = groups_for(outer * inner * (count if many else 1), _GROUP)
    most = MAX_TURNS if stream.facts.software else count
    last = count if many and mode != "set" else 1
    for first in range(0, last, most):
        push = _PUSH.pack(*addresses, *sizes, first, most)
        stream.launch(pipeline, groups, push, [places, order, updates, out], [out])


def _scatter(stream: Any, outs: Any, ins: Any, attrs: dict[str, Any]) -> None:
    out, (x, index, updates), axis = outs[0], ins, attrs["axis"]
    if stream.address(out) != stream.address(x):
        data.copy(stream, out, x)
    count = index.shape[0]
    if count and x.shape[axis]:
        sizes = (math.prod(x.shape[:axis]), count, math.prod(x.shape[axis + 1 :]), x.shape[axis])
        launch_scatter(stream, attrs["mode"], out, positions(stream, index, sizes[3]), updates, sizes)


def _embedding_vjp(stream: Any, outs: Any, ins: Any, attrs: dict[str, Any]) -> None:
    out, (g, ids), padding = outs[0], ins, attrs["padding_idx"]
    data.fill(stream, out, 0)
    rows, width = out.shape
    if ids.spec.size:
        left_out = _NOWHERE if padding is None else padding % rows
        places = positions(stream, ids, rows, left_out)
        launch_scatter(stream, "add", out, places, g, (1, ids.spec.size, width, rows))


def register(kernels: Any, runtime: Any) -> None:
    """Declare the kernels of this module."""
    kernels.add("gather", _gather, dtypes=ALL, when=lambda c: c.ins[0].size > 0)
    scatter = {"layout": "contiguous"}
    add(kernels, "scatter", _scatter, ALL - COMPLEX, **scatter)
    kernels.add("scatter", _scatter, dtypes=COMPLEX, when=lambda c: c.attrs["mode"] == "set", **scatter)
    kernels.add("nn.embedding_vjp", _embedding_vjp, dtypes=HALVES | {"f32"}, layout="contiguous")
