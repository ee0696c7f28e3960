"""Philox4x32-10 and dropout, by blocks of four words."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from grilly_backend_cpu.jit import njit, split

__all__ = ["dropped", "philox", "words"]

_u32 = np.uint32
_u64 = np.uint64
_M0, _M1 = _u64(0xD2511F53), _u64(0xCD9E8D57)
_W0, _W1 = _u32(0x9E3779B9), _u32(0xBB67AE85)
_LOW, _HALF = _u64(0xFFFFFFFF), _u64(32)
_BLOCKS: Final = 2048  # blocks of four words in one unit of work
_GROUP: Final = 64  # blocks whose words `dropped` holds at a time


@njit(forceinline=True)
def philox(counter: Any, key: Any) -> Any:
    """Four words of Philox4x32-10 for a block."""
    a, b, c, d = _u32(counter & _LOW), _u32(counter >> _HALF), _u32(0), _u32(0)
    k0, k1 = _u32(key & _LOW), _u32(key >> _HALF)
    for _ in range(10):
        p, q = _M0 * _u64(a), _M1 * _u64(c)
        a, b, c, d = _u32(_u32(q >> _HALF) ^ b ^ k0), _u32(q), _u32(_u32(p >> _HALF) ^ d ^ k1), _u32(p)
        k0, k1 = _u32(k0 + _W0), _u32(k1 + _W1)
    return a, b, c, d


@njit
def _words(start: int, stop: int, args: Any) -> None:
    out, key, offset = args
    for block in range(start, min(stop, out.size // 4)):
        four = out[4 * block : 4 * block + 4]
        four[0], four[1], four[2], four[3] = philox(offset + _u64(block), key)
    if stop * 4 > out.size:
        four = out[out.size // 4 * 4 :]
        last = philox(offset + _u64(out.size // 4), key)
        for j in range(four.size):
            four[j] = last[j]


@njit
def _dropped(start: int, stop: int, args: Any) -> None:
    x, out, key, offset, limit, scale = args
    held = np.empty((_GROUP, 4), np.uint32)
    for group in range(start, stop, _GROUP):
        count = min(_GROUP, stop - group)
        for i in range(count):
            held[i, 0], held[i, 1], held[i, 2], held[i, 3] = philox(offset + _u64(group + i), key)
        flat = held.reshape(-1)
        source = x[4 * group : 4 * (group + count)]
        target = out[4 * group : 4 * (group + count)]
        for i in range(source.size):
            target[i] = source[i] * scale if flat[i] >= limit else x.dtype.type(0)


_run_words = split(_words)
_run_dropped = split(_dropped)


def words(out: NDArray[np.uint32], key: int, offset: int) -> None:
    """Fill `out` with the words of the blocks from `offset` on."""
    _run_words(-(-out.size // 4), _BLOCKS, (out, np.uint64(key), np.uint64(offset)))


def dropped(x: NDArray[Any], out: NDArray[Any], key: int, offset: int, limit: int, scale: np.float32) -> None:
    """Write ``x * scale`` where the word is at least `limit`, else 0."""
    args = (x, out, np.uint64(key), np.uint64(offset), np.uint32(min(limit, 0xFFFFFFFF)), scale)
    _run_dropped(-(-x.size // 4), _BLOCKS, args)
