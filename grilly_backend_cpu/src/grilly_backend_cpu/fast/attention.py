"""Attention and its gradients in float32, tile by tile of 64 queries and 64 keys.

Forward takes a block of queries of one head as a unit: its scores against all the keys it sees lie in a scratch of
``64 * keys`` floats. Backward takes a head of keys with all queries that share it, makes the weights again from the
logarithm of their sum, and adds up the gradients of keys and values in one order. Nothing of the size of all scores
is kept. Operands are packed first: `panels` cut rows into strips of 32 or 64 columns, `columns` turn blocks of 64
rows; what they read may have any strides.
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from grilly_backend_cpu.fast.maths import exp32
from grilly_backend_cpu.fast.random import philox
from grilly_backend_cpu.fast.softmax import row_max
from grilly_backend_cpu.fast.tiles import LINE, multiply_add
from grilly_backend_cpu.jit import njit, split

__all__ = ["backward", "forward", "pack_columns", "pack_panels"]

Array = NDArray[Any]
_f = np.float32
_u64 = np.uint64
_NONE: Final = _f(-np.inf)
_CONTRACT: Final = {"fastmath": {"contract"}}
_SUMS: Final = {"fastmath": {"reassoc", "contract", "nsz"}}
_add_32 = multiply_add[32]
_add_64 = multiply_add[64]


@njit
def _panels(start: int, stop: int, args: Any) -> None:
    """``packed[n, p, i, j] = factor * x[b, h, i, p * width + j]``, zero beyond ``ends[b]`` and the width."""
    x, packed, ends, factor = args
    heads, size, width = x.shape[1], x.shape[3], packed.shape[3]
    for n in range(start, stop):
        b, h = n // heads, n % heads
        for p in range(packed.shape[1]):
            count = min(width, size - p * width)
            for i in range(packed.shape[2]):
                line = packed[n, p, i]
                line[:] = 0
                if i < ends[b]:
                    source = x[b, h, i, p * width : p * width + count]
                    for j in range(count):
                        line[j] = source[j] * factor


@njit
def _columns(start: int, stop: int, args: Any) -> None:
    """``packed[n, p, e, j] = x[b, h, 64 p + j, e]``, zero beyond ``ends[b]`` and the width."""
    x, packed, ends = args
    heads, size = x.shape[1], x.shape[3]
    for n in range(start, stop):
        b, h = n // heads, n % heads
        for p in range(packed.shape[1]):
            tile = packed[n, p]
            tile[:] = 0
            for j in range(min(LINE, ends[b] - p * LINE)):
                source = x[b, h, p * LINE + j]
                for e in range(size):
                    tile[e, j] = source[e]


@njit(forceinline=True)
def _add_product(a: Any, b: Any, c: Any) -> None:
    if b.shape[1] == 32:
        _add_32(a, b, c)
    else:
        _add_64(a, b, c)


@njit
def _products(rows: Any, first: int, count: int, turned: Any, out: Any) -> None:
    """``out = rows[:, first : first + count] @ turned``, whose rows are the panels' columns."""
    out[:count] = 0
    width = rows.shape[2]
    for p in range(rows.shape[0]):
        few = min(width, turned.shape[0] - p * width)
        _add_64(rows[p, first : first + count, :few], turned[p * width : p * width + few], out[:count])


@njit
def _cover(scores: Any, first: int, key: int, end: int, shift: int, mask: Any, kind: int) -> None:
    """Put ``-inf`` where query ``first + i`` does not see key ``key + j``, and add a floating mask (kind 2)."""
    for i in range(scores.shape[0]):
        line = scores[i]
        last = min(end, max(first + i + shift + 1, 0)) - key
        if kind:
            seen = mask[first + i, key : key + LINE]
            for j in range(seen.size):
                if kind == 2:
                    line[j] += seen[j]
                elif seen[j] == 0:
                    line[j] = _NONE
        if last < LINE:
            line[max(last, 0) :] = _NONE


@njit(**_CONTRACT)
def _exponentials(row: Any, shift: Any) -> None:
    for j in range(row.size):
        row[j] = exp32(row[j] - shift)


@njit(**_SUMS)
def _sum(row: Any) -> Any:
    total = _f(0)
    for j in range(row.size):
        total += row[j]
    return total


@njit(**_SUMS)
def _dot(a: Any, b: Any) -> Any:
    total = _f(0)
    for j in range(a.size):
        total += a[j] * b[j]
    return total


@njit
def _factors(row: int, keys: int, key: int, draw: Any, out: Any) -> None:
    """Write by what the weights of a row from `key` on are multiplied: 0 where dropped."""
    seed, offset, limit, scale = draw
    block = offset + _u64(row * ((keys + 3) // 4) + key // 4)
    for j in range(0, LINE, 4):
        words = philox(block + _u64(j // 4), seed)
        for i in range(4):
            out[j + i] = _f(0) if words[i] < limit else scale


@njit
def _softmax(scores: Any, rows: int, panels: int, sums: Any, tops: Any) -> None:
    """Turn scores (panel, row, 64) into powers; keep their sums and largest."""
    for i in range(rows):
        top = _NONE
        for p in range(panels):
            best = row_max(scores[p, i])
            top = best if best > top or best != best else top
        top = _f(0) if top == _NONE else top
        total = 0.0
        for p in range(panels):
            _exponentials(scores[p, i], top)
            total += _sum(scores[p, i])
        sums[i], tops[i] = total, top


@njit
def _seen_panels(first: int, count: int, end: int, shift: int) -> int:
    last = min(end, max(first + count + shift, 0))
    return (last + LINE - 1) // LINE


@njit
def _forward(start: int, stop: int, args: Any) -> None:
    q, k, v, out, log_sum, mask, kind, ends, shifts, keys, dropped, seed, offset, limit, scale = args
    draw = seed, offset, limit, scale  # parallel loops take no tuples within tuples
    heads, queries = out.shape[1], out.shape[2]
    group, blocks = heads // (k.shape[0] // out.shape[0]), (queries + LINE - 1) // LINE
    scores = np.empty((k.shape[1], LINE, LINE), np.float32)
    total = np.empty((v.shape[1], LINE, v.shape[3]), np.float32)
    sums, tops, factors = np.empty(LINE), np.empty(LINE, np.float32), np.empty(LINE, np.float32)
    for unit in range(start, stop):
        head, first = unit // blocks, unit % blocks * LINE
        b, h, n = head // heads, head % heads, head // group
        rows = min(LINE, queries - first)
        panels = _seen_panels(first, rows, ends[b], shifts[b])
        for p in range(panels):
            _products(q[head], first, rows, k[n, p], scores[p])
            _cover(scores[p, :rows], first, p * LINE, ends[b], shifts[b], mask[b, h], kind)
        _softmax(scores, rows, panels, sums, tops)
        total[:] = 0
        for p in range(panels):
            if dropped:
                for i in range(rows):
                    _factors(head * queries + first + i, keys, p * LINE, draw, factors)
                    scores[p, i] *= factors
            for f in range(v.shape[1]):
                _add_product(scores[p, :rows], v[n, f, p * LINE : (p + 1) * LINE], total[f, :rows])
        _finish(total, sums, tops, out[b, h, first : first + rows], log_sum[b, h, first : first + rows])


@njit
def _finish(total: Any, sums: Any, tops: Any, out: Any, log_sum: Any) -> None:
    width = total.shape[2]
    for i in range(out.shape[0]):
        blind = sums[i] == 0
        inverse = _f(0) if blind else _f(1 / sums[i])
        log_sum[i] = _f(np.inf) if blind else tops[i] + _f(math.log(sums[i]))
        for f in range(total.shape[0]):
            line, source = out[i, f * width : (f + 1) * width], total[f, i]
            for j in range(line.size):
                line[j] = source[j] * inverse


@njit(**_CONTRACT)
def _score_gradients(powers: Any, gweights: Any, log_sum: Any, along: Any) -> None:
    """Turn scores into weights, and gradients of weights into those of scores."""
    for i in range(powers.shape[0]):
        weights, grads = powers[i], gweights[i]
        less, inner = log_sum[i], along[i]
        for j in range(LINE):
            weights[j] = exp32(weights[j] - less)
            grads[j] = weights[j] * (grads[j] - inner)


@njit(**_CONTRACT)
def _dropped_gradients(
    row: int, keys: int, key: int, draw: Any, powers: Any, gweights: Any, logs: Any, along: Any
) -> None:
    """Do the same where weights were dropped."""
    factors = np.empty(LINE, np.float32)
    for i in range(powers.shape[0]):
        weights, grads = powers[i], gweights[i]
        less, inner = logs[i], along[i]
        _factors(row + i, keys, key, draw, factors)
        for j in range(LINE):
            weight = exp32(weights[j] - less)
            grads[j] = weight * (grads[j] * factors[j] - inner)
            weights[j] = weight * factors[j]


@njit
def _along(g: Any, out: Any, along: Any) -> None:
    for i in range(g.shape[0]):
        along[i] = _dot(g[i], out[i])


@njit
def _unpack(panels: Any, factor: Any, out: Any) -> None:
    """Write panels (p, i, width) to rows."""
    width = panels.shape[2]
    for i in range(out.shape[0]):
        for p in range(panels.shape[0]):
            line, source = out[i, p * width : (p + 1) * width], panels[p, i]
            for j in range(line.size):
                line[j] = source[j] * factor


@njit
def _backward(start: int, stop: int, args: Any) -> None:
    q, g, k, v, kr, g_rows, out, gq, gk, gv, mask, kind, log_sum, ends, shifts, factor = args[:16]
    dropped, seed, offset, limit, scale = args[16:]
    draw = (seed, offset, limit, scale)
    groups, heads, queries, keys = gk.shape[1], gq.shape[1], gq.shape[2], gk.shape[2]
    group = heads // groups
    weights, inner = np.empty((LINE, LINE), np.float32), np.empty((LINE, LINE), np.float32)
    along = np.empty(LINE, np.float32)
    to_q = np.empty((kr.shape[1], LINE, kr.shape[3]), np.float32)
    to_k = np.empty((kr.shape[1], kr.shape[2], kr.shape[3]), np.float32)
    to_v = np.empty((g.shape[1], kr.shape[2], g.shape[3]), np.float32)
    for n in range(start, stop):
        b = n // groups
        to_k[:] = 0
        to_v[:] = 0
        for head in range(n * group, (n + 1) * group):
            h = head % heads
            for first in range(0, queries, LINE):
                rows = min(LINE, queries - first)
                even = (rows + 3) // 4 * 4
                _along(g_rows[b, h, first : first + rows], out[b, h, first : first + rows], along)
                logs = log_sum[b, h, first : first + rows]
                to_q[:] = 0
                for p in range(_seen_panels(first, rows, ends[b], shifts[b])):
                    key = p * LINE
                    _products(q[head], first, rows, k[n, p], weights)
                    _cover(weights[:rows], first, key, ends[b], shifts[b], mask[b, h], kind)
                    _products(g[head], first, rows, v[n, p], inner)
                    if dropped:
                        row = head * queries + first
                        _dropped_gradients(row, keys, key, draw, weights[:rows], inner[:rows], logs, along)
                    else:
                        _score_gradients(weights[:rows], inner[:rows], logs, along)
                    weights[rows:even] = 0
                    inner[rows:even] = 0
                    for f in range(g.shape[1]):
                        part = g[head, f, first : first + even]
                        _add_product(weights[:even].T, part, to_v[f, key : key + LINE])
                    for e in range(kr.shape[1]):
                        part = q[head, e, first : first + even]
                        _add_product(inner[:even].T, part, to_k[e, key : key + LINE])
                        _add_product(inner[:rows], kr[n, e, key : key + LINE], to_q[e, :rows])
                _unpack(to_q, factor, gq[b, h, first : first + rows])
        _unpack(to_k, _f(1), gk[b, n % groups])
        _unpack(to_v, _f(1), gv[b, n % groups])


_run_panels = split(_panels)
_run_columns = split(_columns)
_run_forward = split(_forward)
_run_backward = split(_backward)


def pack_panels(x: Array, packed: Array, ends: Array, factor: float = 1.0) -> None:
    """Fill panels ``(batch * heads, panels, rows, width)`` from ``x[b, h, i, e]``."""
    _run_panels(len(packed), 1, (x, packed, ends, _f(factor)))


def pack_columns(x: Array, packed: Array, ends: Array) -> None:
    """Fill ``(batch * heads, blocks, width, 64)`` from ``x[b, h, i, e]``."""
    _run_columns(len(packed), 1, (x, packed, ends))


def forward(units: int, args: tuple[Any, ...]) -> None:
    """Run blocks of queries."""
    _run_forward(units, 1, args)


def backward(units: int, args: tuple[Any, ...]) -> None:
    """Run heads of keys."""
    _run_backward(units, 1, args)
