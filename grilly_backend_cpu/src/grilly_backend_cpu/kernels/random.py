"""``random_bits`` (Philox4x32-10, the same words on every device) and ``nn.dropout``, which compares them."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from grilly_backend_cpu.fast import random as fast
from grilly_backend_cpu.kernels.support import FAST, FLOATS
from grilly_backend_cpu.quiet import quiet_context

__all__ = ["key_and_offset", "philox", "register", "threshold"]

_MASK: Final = np.uint64(0xFFFFFFFF)
_HALF: Final = np.uint64(32)
_MULTIPLIERS: Final = (np.uint64(0xD2511F53), np.uint64(0xCD9E8D57))
_WEYL: Final = (np.uint64(0x9E3779B9), np.uint64(0xBB67AE85))
_ROUNDS: Final = 10


def philox(state: NDArray[np.uint32], size: int, relative: int) -> NDArray[np.uint32]:
    """Return `size` words of the generator `state`.

    Examples
    --------
    >>> import numpy as np
    >>> [hex(w) for w in philox(np.zeros(4, "u4"), 2, 0)]
    ['0x6627e8d5', '0xe169c58d']
    """
    key, offset = key_and_offset(state, relative)
    counter = np.arange(-(-size // 4), dtype=np.uint64) + np.uint64(offset)
    words = [counter & _MASK, counter >> _HALF, np.zeros_like(counter), np.zeros_like(counter)]
    keys = [np.uint64(key & 0xFFFFFFFF), np.uint64(key >> 32)]
    for _ in range(_ROUNDS):
        a, b = words[0] * _MULTIPLIERS[0], words[2] * _MULTIPLIERS[1]
        words = [(b >> _HALF) ^ words[1] ^ keys[0], b & _MASK, (a >> _HALF) ^ words[3] ^ keys[1], a & _MASK]
        keys = [(k + w) & _MASK for k, w in zip(keys, _WEYL, strict=True)]
    return np.stack(words, 1).astype(np.uint32).reshape(-1)[:size]


def key_and_offset(state: NDArray[np.uint32], relative: int) -> tuple[int, int]:
    """Return the key and the first block of a generator's state."""
    low, high, offset_low, offset_high = state.tolist()
    return low | high << 32, ((offset_low | offset_high << 32) + relative) & (1 << 64) - 1


def random_bits(stream: Any, outs: Any, ins: Any, attrs: dict[str, Any]) -> None:
    """Words in NumPy."""
    out = outs[0].array
    out[...] = quiet_context().run(philox, ins[0].array, out.size, attrs["relative"])


def random_bits_fast(stream: Any, outs: Any, ins: Any, attrs: dict[str, Any]) -> None:
    """Words by Numba."""
    out = outs[0].array
    fast.words(out, *key_and_offset(ins[0].array, attrs["relative"]))


def threshold(p: float) -> int:
    """Return the smallest word that keeps an element."""
    return math.floor(p * 2.0**32)


def dropout(stream: Any, outs: Any, ins: Any, attrs: dict[str, Any]) -> None:
    """Keep element i if word i is at least ``floor(p * 2**32)``, and scale what is kept."""
    x, out, p = ins[0].array, outs[0].array, attrs["p"]
    out[...] = 0
    if p < 1:
        kept = quiet_context().run(philox, ins[1].array, x.size, attrs["relative"]) >= threshold(p)
        scale = x.dtype.type(1 / (1 - p))
        quiet_context().run(np.multiply, x, scale, out, where=kept.reshape(x.shape))


def dropout_fast(stream: Any, outs: Any, ins: Any, attrs: dict[str, Any]) -> None:
    """`dropout` in one pass, without the words ever being stored."""
    x, out, p = ins[0].array, outs[0].array, attrs["p"]
    if p == 1:
        out[...] = 0
        return
    key, offset = key_and_offset(ins[1].array, attrs["relative"])
    scale = np.float32(1 / (1 - p))
    fast.dropped(x.reshape(-1), out.reshape(-1), key, offset, threshold(p), scale)


def register(kernels: Any, runtime: Any) -> None:
    """Declare the kernels of this module."""
    kernels.add("random_bits", random_bits, dtypes={"u32"})
    kernels.add("nn.dropout", dropout, dtypes=FLOATS)
    if runtime.has_numba:
        kernels.add("random_bits", random_bits_fast, dtypes={"u32"}, layout="contiguous", priority=FAST)
        kernels.add("nn.dropout", dropout_fast, dtypes={"f32"}, layout="contiguous", priority=FAST)
