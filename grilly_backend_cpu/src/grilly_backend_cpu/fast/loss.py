"""Cross-entropy of the rows of a float32 matrix, without storing the softmax."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from grilly_backend_cpu.fast.maths import exp32
from grilly_backend_cpu.fast.softmax import row_max
from grilly_backend_cpu.jit import njit, split

__all__ = ["gradients", "losses"]

Array = NDArray[Any]
_PIECE = 2048
_WORK: Final = 32768
_f = np.float32


@njit(fastmath={"reassoc", "contract", "nsz"})
def _exp_sum(row: Any, shift: Any) -> Any:
    total = 0.0
    for start in range(0, row.size, _PIECE):
        piece = row[start : start + _PIECE]
        part = _f(0.0)
        for i in range(piece.size):
            part += exp32(piece[i] - shift)
        total += part
    return total


@njit
def _losses(start: int, stop: int, args: Any) -> None:
    x, target, weight, out, lse = args
    for r in range(start, stop):
        top = row_max(x[r])
        total = _f(top + math.log(_exp_sum(x[r], top)))
        lse[r] = total
        out[r] = weight[r] * (total - x[r, target[r]]) if weight[r] != _f(0.0) else _f(0.0)


@njit(fastmath={"contract"})
def _gradients(start: int, stop: int, args: Any) -> None:
    x, target, share, kept, lse, gx = args
    for r in range(start, stop):
        row, out, shift, scale = x[r], gx[r], lse[r], share[r]
        if not kept[r]:
            out[:] = 0
            continue
        for i in range(row.size):
            out[i] = exp32(row[i] - shift) * scale
        t = target[r]
        out[t] = (exp32(row[t] - shift) - _f(1.0)) * scale


_run_losses = split(_losses)
_run_gradients = split(_gradients)


def losses(x: Array, target: Array, weight: Array, out: Array, lse: Array) -> None:
    """Write ``weight * (lse - x[target])`` and the log-sum-exp of each row."""
    rows, n = x.shape
    _run_losses(rows, max(1, _WORK // n), (x, target, weight, out, lse))


def gradients(x: Array, target: Array, share: Array, kept: Array, lse: Array, gx: Array) -> None:
    """Write ``share * (softmax - onehot)`` in the rows that are kept, else 0."""
    rows, n = x.shape
    _run_gradients(rows, max(1, _WORK // n), (x, target, share, kept, lse, gx))
