"""Filling large memory with one value, by all threads; past the caches where it is very large."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from grilly_backend_cpu.fast.streaming import LEAST_STREAMED, stream_end, stream_out
from grilly_backend_cpu.jit import njit, split

__all__ = ["fill", "fits"]

_WORDS: Final = {4: np.uint32, 8: np.uint64}
_PIECE: Final = 1 << 12  # words of the row that is written again and again
_BLOCK: Final = 1 << 16  # words of a unit of work, about 10 µs
_LEAST: Final = 1 << 20  # bytes from which on two threads are worth their start


@njit
def _fill(start: int, stop: int, args: Any) -> None:
    out, word, row, streamed = args
    if streamed:
        for i in range(start, stop, row.size):
            stream_out(row[: min(row.size, stop - i)], out[i : min(i + row.size, stop)])
        stream_end()
    else:
        part = out[start:stop]
        for i in range(part.size):
            part[i] = word


_run_fill = split(_fill)


def fits(out: NDArray[Any]) -> bool:
    """Whether `fill` serves `out` and pays."""
    return out.nbytes >= _LEAST and out.itemsize in _WORDS and out.flags.c_contiguous


def fill(out: NDArray[Any], value: Any) -> None:
    """Write `value` everywhere, in the type of `out`."""
    one = np.empty(1, out.dtype)
    one[0] = value
    word = _WORDS[out.itemsize]
    row = np.repeat(one, _PIECE).view(word)
    _run_fill(out.size, _BLOCK, (out.reshape(-1).view(word), row[0], row, out.nbytes >= LEAST_STREAMED))
