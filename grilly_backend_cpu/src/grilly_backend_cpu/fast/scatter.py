"""Adding rows at indexed places."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from grilly_backend_cpu.jit import njit, split

__all__ = ["add"]

_CHUNK: Final = 256  # elements of a row that one unit of work owns
_WORK: Final = 32768


@njit
def _add(start: int, stop: int, args: Any) -> None:
    target, index, updates, chunk = args
    inner = target.shape[2]
    chunks = (inner + chunk - 1) // chunk
    for unit in range(start, stop):
        o = unit // chunks
        low = (unit % chunks) * chunk
        high = min(low + chunk, inner)
        for i in range(index.size):
            row = target[o, index[i], low:high]
            part = updates[o, i, low:high]
            for j in range(row.size):
                row[j] += part[j]


_run = split(_add)


def add(target: NDArray[Any], index: NDArray[np.intp], updates: NDArray[Any]) -> None:
    """Add ``updates[:, i]`` to ``target[:, index[i]]`` for each i in turn; all are (outer, axis, inner).

    Each unit of work owns a range of the inner axis, so every place is summed by one thread in order.
    """
    outer, _, inner = target.shape
    chunk = min(_CHUNK, max(inner, 1))
    units = outer * -(-inner // chunk)
    _run(units, max(1, _WORK // max(index.size * chunk, 1)), (target, index, updates, chunk))
