"""Max and average pooling with their gradients, over any number of spatial axes."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from grilly_backend_cpu.fast import pool as fast
from grilly_backend_cpu.kernels.support import FAST, WIDE, WIDENED
from grilly_backend_cpu.kernels.windows import padded, taps
from grilly_backend_cpu.quiet import quietly

__all__ = ["divisors", "register"]

Array = NDArray[Any]
Shape = tuple[int, ...]


def _low(attrs: dict[str, Any]) -> Shape:
    return tuple(p[0] for p in attrs["padding"])


def _span(count: Shape, attrs: dict[str, Any]) -> Shape:
    """Return the size of a padded input in which every window fits exactly."""
    dilation = attrs.get("dilation", (1,) * len(count))
    return tuple(
        (n - 1) * s + (k - 1) * d + 1
        for n, s, k, d in zip(count, attrs["stride"], attrs["kernel"], dilation, strict=True)
    )


def _plane_positions(size: Shape, low: Shape, span: Shape) -> Array:
    """Return the flat index in the input's plane of each place of the padded plane, -1 outside."""
    inside = np.arange(math.prod(size), dtype=np.int32).reshape(1, 1, *size)
    return padded(inside, low, span, -1)


@quietly
def max_pool(stream: Any, outs: Any, ins: Any, attrs: dict[str, Any]) -> None:
    """Largest element of each window and its flat index; the first of several, NaN being the greatest."""
    x, best = ins[0].array, outs[0].array
    count, low = best.shape[2:], _low(attrs)
    span = _span(count, attrs)
    wide, places = padded(x, low, span, -np.inf), _plane_positions(x.shape[2:], low, span)
    index = outs[1].array if len(outs) > 1 else np.empty(best.shape, np.int32)
    best[...], index[...] = -np.inf, -1
    for _, where in taps(attrs["kernel"], attrs["stride"], attrs["dilation"], count):
        value, place = wide[where], np.broadcast_to(places[where], best.shape)
        greater = (value > best) | (np.isnan(value) & ~np.isnan(best)) | (index < 0)
        greater &= place >= 0
        np.copyto(best, value, where=greater)
        np.copyto(index, place, where=greater)
    np.maximum(index, 0, out=index)


def max_pool_vjp(stream: Any, outs: Any, ins: Any, attrs: dict[str, Any]) -> None:
    """Add each gradient where its maximum came from."""
    g, index, gx = ins[0].array, ins[1].array, outs[0].array
    gx[...] = 0
    if g.size == 0:
        return
    planes = math.prod(gx.shape[:2])
    flat, places = gx.reshape(planes, -1), index.reshape(planes, -1)
    np.add.at(flat, (np.arange(planes)[:, None], places), g.reshape(planes, -1))


def divisors(size: Shape, attrs: dict[str, Any]) -> list[Array]:
    """Return, for each axis, by what the windows' sums are divided (their product over the axes)."""
    override = attrs["divisor_override"]
    if override is not None:
        return [np.full(n, override if i == 0 else 1, np.int64) for i, n in enumerate(attrs["output_size"])]
    result = []
    for n, k, s, (low, high), count in zip(
        size, attrs["kernel"], attrs["stride"], attrs["padding"], attrs["output_size"], strict=True
    ):
        start = np.arange(count) * s - low
        first, end = (-low, n + high) if attrs["count_include_pad"] else (0, n)
        result.append(np.minimum(start + k, end) - np.maximum(start, first))
    return result


def _divisor(size: Shape, attrs: dict[str, Any], dtype: Any) -> Array:
    total = np.ones((1,) * len(size))
    for axis, values in enumerate(divisors(size, attrs)):
        total = total * values.reshape((-1,) + (1,) * (len(size) - 1 - axis))
    return total.astype(dtype)


@quietly
def avg_pool(stream: Any, outs: Any, ins: Any, attrs: dict[str, Any]) -> None:
    """Mean of each window."""
    x, out = ins[0].array, outs[0].array
    count = out.shape[2:]
    wide = padded(x, _low(attrs), _span(count, attrs), 0)
    out[...] = 0
    for _, where in taps(attrs["kernel"], attrs["stride"], (1,) * len(count), count):
        out += wide[where]
    out /= _divisor(x.shape[2:], attrs, x.dtype)


@quietly
def avg_pool_vjp(stream: Any, outs: Any, ins: Any, attrs: dict[str, Any]) -> None:
    """Spread the share of each window over it."""
    g, gx = ins[0].array, outs[0].array
    count, low = g.shape[2:], _low(attrs)
    share = g / _divisor(gx.shape[2:], attrs, g.dtype)
    total = np.zeros((*gx.shape[:2], *_span(count, attrs)), gx.dtype)
    for _, where in taps(attrs["kernel"], attrs["stride"], (1,) * len(count), count):
        total[where] += share
    np.copyto(gx, padded(total, tuple(-p for p in low), gx.shape[2:], 0))


def max_pool_fast(stream: Any, outs: Any, ins: Any, attrs: dict[str, Any]) -> None:
    """`max_pool` for one and two axes."""
    y = outs[0].array
    index = outs[1].array if len(outs) > 1 else np.empty(y.shape, np.int32)
    fast.max_pool(ins[0].array, y, index, attrs)


def max_pool_vjp_fast(stream: Any, outs: Any, ins: Any, attrs: dict[str, Any]) -> None:
    """`max_pool_vjp` plane by plane."""
    fast.max_pool_vjp(ins[0].array, ins[1].array, outs[0].array)


def avg_pool_fast(stream: Any, outs: Any, ins: Any, attrs: dict[str, Any]) -> None:
    """`avg_pool` for one and two axes."""
    x = ins[0].array
    fast.avg_pool(x, outs[0].array, divisors(x.shape[2:], attrs), attrs)


def avg_pool_vjp_fast(stream: Any, outs: Any, ins: Any, attrs: dict[str, Any]) -> None:
    """`avg_pool_vjp` for one and two axes."""
    gx = outs[0].array
    fast.avg_pool_vjp(ins[0].array, gx, divisors(gx.shape[2:], attrs), attrs)


_NUMPY: Final[dict[str, Callable[..., None]]] = {
    "max_pool": max_pool, "max_pool_with_index": max_pool, "max_pool_vjp": max_pool_vjp,
    "avg_pool": avg_pool, "avg_pool_vjp": avg_pool_vjp,
}  # fmt: skip
_COMPILED: Final[dict[str, Callable[..., None]]] = {
    "max_pool": max_pool_fast, "max_pool_with_index": max_pool_fast, "max_pool_vjp": max_pool_vjp_fast,
    "avg_pool": avg_pool_fast, "avg_pool_vjp": avg_pool_vjp_fast,
}  # fmt: skip


def _few_axes(c: Any) -> bool:
    return len(c.outs[0].shape) in (3, 4) and c.outs[0].size > 0 and c.ins[0].size > 0


def register(kernels: Any, runtime: Any) -> None:
    """Declare the kernels of this module."""
    for name, function in _NUMPY.items():
        kernels.add(f"nn.{name}", function, dtypes=WIDE, layout="contiguous", compute=WIDENED)
    if runtime.has_numba:
        for name, function in _COMPILED.items():
            kernels.add(
                f"nn.{name}", function, dtypes=WIDE, layout="contiguous", priority=FAST, when=_few_axes
            )
