"""Softmax over the rows of a float32 matrix.

Sums run over pieces of `_PIECE` elements in f32 and are added in f64: fast inside a piece, accurate beyond it.
Reassociation is allowed in sums only; NaN and infinities keep their meaning.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from grilly_backend_cpu.fast.maths import exp32, order32, unorder32
from grilly_backend_cpu.jit import Jit, njit, split

__all__ = ["KERNELS", "row_max"]

_SUMS = {"reassoc", "contract", "nsz"}
_PIECE = 2048
_WORK: Final = 32768
_LINE: Final = 16  # floats of one cache line
_STRIP_WORK: Final = 1 << 18  # floats of a strip, which then stays in the second cache
_f = np.float32


@njit(forceinline=True)
def row_max(row: Any) -> Any:
    """Return the largest element of a float32 row; NaN if there is one of positive sign, -inf if it is empty."""
    best = np.int32(-2139095041)  # order32(-inf)
    for i in range(row.size):
        key = order32(row[i])
        best = key if key > best else best
    return unorder32(best)


@njit(fastmath={"contract"})
def _exponentials(row: Any, shift: Any, out: Any) -> None:
    for i in range(row.size):
        out[i] = exp32(row[i] - shift)


@njit(fastmath=_SUMS)
def _sum(row: Any) -> Any:
    total = 0.0
    for start in range(0, row.size, _PIECE):
        piece = row[start : start + _PIECE]
        part = _f(0.0)
        for i in range(piece.size):
            part += piece[i]
        total += part
    return total


@njit(fastmath=_SUMS)
def _dot(a: Any, b: Any) -> Any:
    total = 0.0
    for start in range(0, a.size, _PIECE):
        x = a[start : start + _PIECE]
        y = b[start : start + _PIECE]
        part = _f(0.0)
        for i in range(x.size):
            part += x[i] * y[i]
        total += part
    return total


@njit
def _softmax(start: int, stop: int, args: Any) -> None:
    x, y = args
    for r in range(start, stop):
        row, out = x[r], y[r]
        _exponentials(row, row_max(row), out)
        scale = _f(1.0 / _sum(out))
        for i in range(out.size):
            out[i] *= scale


@njit(fastmath={"contract"})
def _softmax_vjp(start: int, stop: int, args: Any) -> None:
    g, y, gx = args
    for r in range(start, stop):
        grad, prob, out = g[r], y[r], gx[r]
        total = _f(_dot(grad, prob))
        for i in range(out.size):
            out[i] = prob[i] * (grad[i] - total)


@njit
def _log_softmax(start: int, stop: int, args: Any) -> None:
    x, y = args
    for r in range(start, stop):
        row, out = x[r], y[r]
        top = row_max(row)
        _exponentials(row, top, out)
        log_sum = _f(math.log(_sum(out)))
        for i in range(out.size):
            out[i] = (row[i] - top) - log_sum


@njit(fastmath={"contract"})
def _log_softmax_vjp(start: int, stop: int, args: Any) -> None:
    g, y, gx = args
    for r in range(start, stop):
        grad, log_prob, out = g[r], y[r], gx[r]
        total = _f(_sum(grad))
        for i in range(out.size):
            out[i] = grad[i] - exp32(log_prob[i]) * total


_rows: Any = None  # replaced by the body over rows that works inside strips


def _strips(start: int, stop: int, args: Any) -> None:
    """Work along the middle axis of (outer, n, inner): strips of columns are turned into rows and back."""
    x, out, width = args
    n, inner = x.shape[1], x.shape[2]
    per_outer = (inner + width - 1) // width
    rows, results = np.empty((width, n), np.float32), np.empty((width, n), np.float32)
    for unit in range(start, stop):
        o, first = unit // per_outer, unit % per_outer * width
        count = min(width, inner - first)
        for i in range(n):
            line = x[o, i, first : first + count]
            for j in range(count):
                rows[j, i] = line[j]
        _rows(0, count, (rows, results))
        for i in range(n):
            line = out[o, i, first : first + count]
            for j in range(count):
                line[j] = results[j, i]


def _strips_of_two(start: int, stop: int, args: Any) -> None:
    """Do the same for a function of two matrices."""
    x, y, out, width = args
    n, inner = x.shape[1], x.shape[2]
    per_outer = (inner + width - 1) // width
    rows, more = np.empty((width, n), np.float32), np.empty((width, n), np.float32)
    results = np.empty((width, n), np.float32)
    for unit in range(start, stop):
        o, first = unit // per_outer, unit % per_outer * width
        count = min(width, inner - first)
        for i in range(n):
            for j in range(count):
                rows[j, i] = x[o, i, first + j]
                more[j, i] = y[o, i, first + j]
        _rows(0, count, (rows, more, results))
        for i in range(n):
            line = out[o, i, first : first + count]
            for j in range(count):
                line[j] = results[j, i]


def _over_rows(body: Jit) -> Callable[..., None]:
    run = split(body)

    def over_rows(*matrices: NDArray[Any]) -> None:
        rows, n = matrices[0].shape
        run(rows, max(1, _WORK // max(n, 1)), matrices)

    return over_rows


def _over_columns(body: Jit, template: Callable[..., None]) -> Callable[..., None]:
    strips: Jit = njit(template)
    strips.name = f"{template.__name__}[{body.name}]"
    strips.replaced["_rows"] = body
    run = split(strips)

    def over_columns(*blocks: NDArray[Any]) -> None:
        outer, n, inner = blocks[0].shape
        width = min(max(_STRIP_WORK // n, _LINE), 8 * _LINE)
        run(outer * -(-inner // width), max(1, _WORK // (n * width)), (*blocks, width))

    return over_columns


#: By name: over the rows of matrices, and over the middle axis of (outer, n, inner).
KERNELS: Final = {
    "softmax": (_over_rows(_softmax), _over_columns(_softmax, _strips)),
    "softmax_vjp": (_over_rows(_softmax_vjp), _over_columns(_softmax_vjp, _strips_of_two)),
    "log_softmax": (_over_rows(_log_softmax), _over_columns(_log_softmax, _strips)),
    "log_softmax_vjp": (_over_rows(_log_softmax_vjp), _over_columns(_log_softmax_vjp, _strips_of_two)),
}
