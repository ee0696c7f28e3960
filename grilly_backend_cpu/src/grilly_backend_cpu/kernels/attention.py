"""``nn.attention`` and its gradient for queries, keys and values: packing in front of compiled tiles."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from grilly_backend_cpu.fast import attention as fast
from grilly_backend_cpu.fast.tiles import LINE, width_for
from grilly_backend_cpu.kernels.random import key_and_offset, threshold
from grilly_backend_cpu.kernels.support import FAST, WIDENED
from grilly_backend_cpu.memory import scratch

__all__ = ["register"]

Array = NDArray[Any]
_FAR: Final = 1 << 40  # a shift that lets every query see every key


def _four(count: int) -> int:
    return -(-count // 4) * 4


def _panels(x: Array, rows: int, ends: Array, slot: int, factor: float = 1.0) -> Array:
    """Return rows of ``x[b, h]`` in strips of columns, zero beyond the ends and up to `rows`."""
    b, h, _, size = x.shape
    width = width_for(size)
    packed = scratch((b * h, -(-size // width), rows, width), np.float32, slot)
    fast.pack_panels(x, packed, ends, factor)
    return packed


def _columns(x: Array, ends: Array, slot: int) -> Array:
    """Return blocks of 64 rows of ``x[b, h]``, turned."""
    b, h, n, size = x.shape
    packed = scratch((b * h, -(-n // LINE), _four(size), LINE), np.float32, slot)
    fast.pack_columns(x, packed, ends)
    return packed


def _sight(
    q: Array, k: Array, mask: Any, lengths: Any, attrs: dict[str, Any]
) -> tuple[Array, int, Array, Array]:
    """Return mask, its kind (0 none, 1 boolean, 2 added), and for each batch the keys and the causal shift."""
    (b, h, queries, _), keys = q.shape, k.shape[2]
    given = np.full(b, keys) if lengths is None else lengths.array.astype(np.int64)
    lower_right = attrs["causal"] == "lower_right"
    shifts = given - queries if lower_right else np.full(b, 0 if attrs["causal"] else _FAR)
    if mask is None:
        kind, values = 0, np.zeros((1, 1, 1, 1), np.float32)
    else:
        kind, values = 2 if mask.array.dtype.kind != "b" else 1, mask.array.astype(np.float32, copy=False)
    return np.broadcast_to(values, (b, h, queries, keys)), kind, given.clip(0, keys), shifts


def _draw(state: Any, attrs: dict[str, Any]) -> tuple[Any, ...]:
    """Return whether weights are dropped, and what decides which: key, offset, limit and scale."""
    p = attrs["dropout"]
    if not p or state is None:
        return False, np.uint64(0), np.uint64(0), np.uint32(0), np.float32(1)
    key, offset = key_and_offset(state.array, attrs["relative"])
    return True, np.uint64(key), np.uint64(offset), np.uint32(threshold(p)), np.float32(1 / (1 - p))


def _scale(q: Array, attrs: dict[str, Any]) -> float:
    return 1 / math.sqrt(q.shape[3]) if attrs["scale"] is None else float(attrs["scale"])


def attention(stream: Any, outs: Any, ins: Any, attrs: dict[str, Any]) -> None:
    """Output and logarithm of the sums."""
    q, k, v = (x.array for x in ins[:3])
    out = outs[0].array
    (b, h, queries, _), keys = q.shape, k.shape[2]
    log_sum = outs[1].array if len(outs) > 1 else scratch((b, h, queries), np.float32, 6)
    mask, kind, ends, shifts = _sight(q, k, ins[3], ins[4], attrs)
    all_queries = np.full(b, queries)
    packed = (
        _panels(q, _four(queries), all_queries, 0, _scale(q, attrs)),
        _columns(k, ends, 1),
        _panels(v, -(-keys // LINE) * LINE, ends, 2),
    )
    fast.forward(
        b * h * -(-queries // LINE),
        (*packed, out, log_sum, mask, kind, ends, shifts, keys, *_draw(ins[5], attrs)),
    )


def attention_vjp(stream: Any, outs: Any, ins: Any, attrs: dict[str, Any]) -> None:
    """Gradients for q, k and v."""
    g, q, k, v, out, log_sum = (x.array for x in ins[:6])
    b, queries, keys = q.shape[0], q.shape[2], k.shape[2]
    mask, kind, ends, shifts = _sight(q, k, ins[6], ins[7], attrs)
    all_queries, factor = np.full(b, queries), _scale(q, attrs)
    packed = (
        _panels(q, _four(queries), all_queries, 0, factor),
        _panels(g, _four(queries), all_queries, 1),
        _columns(k, ends, 2),
        _columns(v, ends, 3),
        _panels(k, -(-keys // LINE) * LINE, ends, 4),
    )
    results = tuple(x.array for x in outs)
    where = (mask, kind, log_sum, ends, shifts, np.float32(factor))
    fast.backward(b * k.shape[1], (*packed, g, out, *results, *where, *_draw(ins[8], attrs)))


def _served(c: Any) -> bool:
    sizes = all(math.prod(s.shape) for s in c.ins[:3])
    floats = {s.dtype.code for s in c.ins if s is not None and s.dtype.is_floating}
    return sizes and floats == {"f32"} and c.attrs["dropout"] < 1


def register(kernels: Any, runtime: Any) -> None:
    """Declare the kernels of this module; without Numba the bodies serve."""
    if runtime.has_numba:
        how: dict[str, Any] = {"dtypes": {"f32"}, "compute": WIDENED, "priority": FAST, "when": _served}
        kernels.add("nn.attention", attention, **how)
        kernels.add("nn.attention_vjp", attention_vjp, **how)
