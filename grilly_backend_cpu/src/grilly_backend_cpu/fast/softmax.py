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


def _rows(body: Jit) -> Callable[..., None]:
    run = split(body)

    def over_rows(*matrices: NDArray[Any]) -> None:
        rows, n = matrices[0].shape
        run(rows, max(1, _WORK // max(n, 1)), matrices)

    return over_rows


KERNELS: Final = {
    "softmax": _rows(_softmax),
    "softmax_vjp": _rows(_softmax_vjp),
    "log_softmax": _rows(_log_softmax),
    "log_softmax_vjp": _rows(_log_softmax_vjp),
}
