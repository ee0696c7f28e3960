"""Max and average pooling over one to three axes, and their gradients."""

from __future__ import annotations

import math
import struct
from typing import Any, Final

from grilly_backend_vulkan.kernels.support import MAX_TURNS, WIDENED, groups_for

__all__ = ["register"]

_PUSH: Final = struct.Struct("<3Q24i")
LARGEST, MEAN, MEAN_VJP, LARGEST_VJP = 0, 1, 2, 3
_GROUP: Final = 256


def _three(values: Any, filler: int) -> list[int]:
    return [filler] * (3 - len(values)) + list(values)


def _geometry(wide: Any, narrow: Any, attrs: dict[str, Any]) -> list[int]:
    """Return what the shader needs of sizes and windows; the gradient of the largest has no windows."""
    ones = (1,) * len(wide)
    padding = attrs.get("padding", ((0, 0),) * len(wide))
    counted = attrs.get("count_include_pad", True)
    ends = [n + (high if counted else 0) for n, (_, high) in zip(wide, padding, strict=True)]
    return [
        *_three(wide, 1), *_three(narrow, 1),
        *_three(attrs.get("kernel", ones), 1), *_three(attrs.get("stride", ones), 1),
        *_three([low for low, _ in padding], 0), *_three(attrs.get("dilation", ones), 1), *_three(ends, 1),
        int(counted), attrs.get("divisor_override") or 0,
    ]  # fmt: skip


def _launch(
    stream: Any, op: int, out: Any, index: Any, x: Any, wide: Any, narrow: Any, attrs: dict[str, Any]
) -> None:
    planes = math.prod(out.shape[:2])
    addresses = (stream.address(out), 0 if index is None else stream.address(index), stream.address(x))
    push = _PUSH.pack(*addresses, *_geometry(wide, narrow, attrs), planes)
    threads = planes if op == LARGEST_VJP else math.prod(out.shape)
    reads, writes = ([x], [out]) if index is None else ([x], [out, index])
    if op == LARGEST_VJP:
        reads, writes = [x, index], [out]
    stream.launch(stream.pipeline("pool", (op,)), groups_for(threads, _GROUP), push, reads, writes)


def _max_pool(stream: Any, outs: Any, ins: Any, attrs: dict[str, Any]) -> None:
    index = outs[1] if len(outs) > 1 else None
    _launch(stream, LARGEST, outs[0], index, ins[0], ins[0].shape[2:], outs[0].shape[2:], attrs)


def _max_pool_vjp(stream: Any, outs: Any, ins: Any, attrs: dict[str, Any]) -> None:
    g, index = ins
    _launch(stream, LARGEST_VJP, outs[0], index, g, outs[0].shape[2:], g.shape[2:], {})


def _avg_pool(stream: Any, outs: Any, ins: Any, attrs: dict[str, Any]) -> None:
    _launch(stream, MEAN, outs[0], None, ins[0], ins[0].shape[2:], outs[0].shape[2:], attrs)


def _avg_pool_vjp(stream: Any, outs: Any, ins: Any, attrs: dict[str, Any]) -> None:
    _launch(stream, MEAN_VJP, outs[0], None, ins[0], outs[0].shape[2:], ins[0].shape[2:], attrs)


def _suits(c: Any) -> bool:
    axes = len(c.outs[0].shape) - 2
    lows = all(low >= 0 for low, _ in c.attrs.get("padding", ()))
    return 1 <= axes <= 3 and lows and all(0 < s.size < 1 << 31 for s in (*c.ins, *c.outs))


def _short_planes(c: Any) -> bool:
    """Whether a thread for each plane is enough; longer planes go through a scatter."""
    longest = max(math.prod(s.shape[2:]) for s in (*c.ins, *c.outs))
    return _suits(c) and longest <= MAX_TURNS


def register(kernels: Any, runtime: Any) -> None:
    """Declare the kernels of this module."""
    how: dict[str, Any] = {"dtypes": {"f32"}, "layout": "contiguous", "compute": WIDENED}
    for name, kernel in (
        ("max_pool", _max_pool), ("max_pool_with_index", _max_pool), ("avg_pool", _avg_pool),
        ("avg_pool_vjp", _avg_pool_vjp),
    ):  # fmt: skip
        kernels.add(f"nn.{name}", kernel, when=_suits, **how)
    kernels.add("nn.max_pool_vjp", _max_pool_vjp, when=_short_planes, **how)
