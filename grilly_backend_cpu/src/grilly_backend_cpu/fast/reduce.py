"""Long sums in float32 or float64: pieces in the array's own type, added in f64 in one fixed order."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from grilly_backend_cpu.jit import njit, split

__all__ = ["total"]

Array = NDArray[Any]
_PIECE: Final = (
    4096  # elements of a row that are added before f64 takes over: in vector lanes, so 64 or so each
)
_ROWS: Final = 64  # rows that are added before f64 takes over
_WORK: Final = 65536


@njit(fastmath={"reassoc", "contract", "nsz"})
def _pieces(start: int, stop: int, args: Any) -> None:
    """``sums[o, k] = sum(x[o, k * piece : (k + 1) * piece])``."""
    x, sums, piece = args
    count = sums.shape[1]
    for unit in range(start, stop):
        first = unit % count * piece
        part = x[unit // count, first : first + piece]
        total = x.dtype.type(0)
        for i in range(part.size):
            total += part[i]
        sums[unit // count, unit % count] = total


@njit
def _blocks(start: int, stop: int, args: Any) -> None:
    """``sums[o, k] = sum(x[o, k * rows : (k + 1) * rows], 0)``."""
    x, sums, rows = args
    count = sums.shape[1]
    for unit in range(start, stop):
        o, k = unit // count, unit % count
        out = sums[o, k]
        out[:] = 0
        for i in range(k * rows, min(k * rows + rows, x.shape[1])):
            line = x[o, i]
            for j in range(line.size):
                out[j] += line[j]


_run_pieces = split(_pieces)
_run_blocks = split(_blocks)


def total(x: Array) -> Array:
    """Return the sum over the middle axis of (outer, n, inner), in f64."""
    outer, n, inner = x.shape
    if inner == 1:
        sums = np.empty((outer, -(-n // _PIECE)), x.dtype)
        _run_pieces(sums.size, max(1, _WORK // min(n, _PIECE)), (x.reshape(outer, n), sums, _PIECE))
    else:
        sums = np.empty((outer, -(-n // _ROWS), inner), x.dtype)
        units = outer * sums.shape[1]
        _run_blocks(units, max(1, _WORK // (min(n, _ROWS) * inner)), (x, sums, _ROWS))
    result: Array = np.add.reduce(sums, 1, np.float64)
    return result
