"""Large blocks of memory, kept for reuse once nothing shows them any more.

The first touch of new pages costs more than most kernels do with them: filling 50 MB takes 3 ms in memory that was
used before and 12 ms in new one (two cores, Linux; the system hands out zeroed pages and takes freed ones back at
once). So blocks of 512 KiB and more are kept by size.

Arrays are handed out over a `Block`, whose deallocation brings the memory back. NumPy keeps an array's base alive for
as long as any array, slice, DLPack capsule or memoryview shows it, so a block comes back when the last view of it has
gone and never before; no owner need be told of views. Tuning the allocator of the C library (``mallopt``) was the
alternative: it serves one library of one system, changes the whole process, returns memory only from the top of the
heap, and gives arrays that start amid a cache line.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

__all__ = ["Block", "Blocks", "blocks"]

#: Bytes below which memory is not worth keeping here.
LEAST: Final = 1 << 19
_LINE: Final = 64  # bytes of a cache line, and of the widest vectors
_SHARE: Final = 8  # of physical memory, 1 / _SHARE is kept unless GRILLY_CPU_CACHE_MB says otherwise


class Memory(np.ndarray):  # type: ignore[type-arg]
    """Bytes that start at a cache line."""

    __slots__ = ()


class Block(np.ndarray):  # type: ignore[type-arg]
    """Memory in use, which goes back to `blocks` when nobody shows it any more.

    NumPy lets a view hold the base of its base where that has the view's own type; three types keep a view from
    holding the memory past the block.
    """

    __slots__ = ()

    def __del__(self) -> None:
        memory = self.base
        if type(memory) is Memory:
            blocks.take_back(memory)


class Blocks:
    """Blocks by size, the least recently used given up first.

    No method waits for a lock, so that finalizers may call them at any moment, in the middle of another call of the
    same thread too, and in the child of a fork: who finds the table in use goes without it.

    Parameters
    ----------
    limit : int
        Bytes kept at most.

    Attributes
    ----------
    kept : int
        Bytes kept now.
    reused, missed : int
        Requests served from what was kept, and from new memory.

    Examples
    --------
    >>> import numpy as np
    >>> from grilly_backend_cpu.blocks import blocks
    >>> a = blocks.empty((1000, 1000), np.dtype(np.float32))
    >>> where = a.ctypes.data
    >>> b = a[1:]
    >>> del a  # b still shows it
    >>> blocks.empty((1000, 1000), np.dtype(np.float32)).ctypes.data == where
    False
    >>> del b
    >>> blocks.empty((1000, 1000), np.dtype(np.float32)).ctypes.data == where
    True
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.kept = 0
        self.reused = 0
        self.missed = 0
        self._clock = 0
        self._free: dict[int, deque[tuple[int, Memory]]] = {}
        self._busy = threading.Lock()

    def empty(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
        """Return an uninitialised, C-ordered array; large ones start at a cache line."""
        nbytes = dtype.itemsize
        for n in shape:
            nbytes *= n
        if nbytes < LEAST:
            return np.empty(shape, dtype)
        size = _class_of(nbytes)
        memory = self._taken(size)
        if memory is None:
            memory = self._fresh(size)
        return np.ndarray(shape, dtype, np.ndarray.__new__(Block, size, np.uint8, memory))

    def _taken(self, size: int) -> Memory | None:
        if not self._busy.acquire(blocking=False):
            return None
        try:
            free = self._free.get(size)
            if not free:
                self.missed += 1
                return None
            self.reused += 1
            self.kept -= size
            return free.pop()[1]  # the latest is the likeliest to lie in a cache
        finally:
            self._busy.release()

    def _fresh(self, size: int) -> Memory:
        try:
            raw = np.empty(size + _LINE - 1, np.uint8)
        except MemoryError:
            if not self.trim():
                raise
            raw = np.empty(size + _LINE - 1, np.uint8)
        start = -raw.ctypes.data % _LINE
        return np.ndarray.__new__(Memory, size, np.uint8, raw, start)

    def take_back(self, memory: Memory) -> None:
        """Keep `memory`, which nothing shows, within the limit."""
        size = memory.nbytes
        if size > self.limit or not self._busy.acquire(blocking=False):
            return
        dropped = []  # dies after the lock is free
        try:
            while self.kept + size > self.limit:
                dropped.append(self._oldest())
            self._clock += 1
            self._free.setdefault(size, deque()).append((self._clock, memory))
            self.kept += size
        finally:
            self._busy.release()

    def _oldest(self) -> Memory:
        """Remove and return the block that was given back longest ago."""
        size = min((free[0][0], size) for size, free in self._free.items() if free)[1]
        self.kept -= size
        return self._free[size].popleft()[1]

    def trim(self) -> int:
        """Give everything kept to the system, and return how many bytes that was."""
        if not self._busy.acquire(blocking=False):
            return 0
        try:
            released, self.kept = self.kept, 0
            held, self._free = self._free, {}
        finally:
            self._busy.release()
        held.clear()
        return released

    def statistics(self) -> dict[str, int]:
        """Return ``kept``, ``kept_limit`` (bytes), ``reused`` and ``missed`` (requests)."""
        return {
            "kept": self.kept, "kept_limit": self.limit, "reused": self.reused, "missed": self.missed,
        }  # fmt: skip

    def forget_lock(self) -> None:
        """Start with a free lock: in the child of a fork, its holder is not there to free it."""
        self._busy = threading.Lock()


def _class_of(nbytes: int) -> int:
    """Return the size kept for `nbytes`: at most an eighth more, so that near sizes share blocks.

    Examples
    --------
    >>> _class_of(1 << 20), _class_of((1 << 20) + 1)
    (1048576, 1179648)
    """
    step = 1 << max((nbytes - 1).bit_length() - 4, 12)
    return (nbytes + step - 1) & -step


def _limit() -> int:
    """Return how many bytes to keep: ``GRILLY_CPU_CACHE_MB``, else an eighth of physical memory."""
    given = os.environ.get("GRILLY_CPU_CACHE_MB")
    if given is not None:
        if not given.strip().isdigit():
            raise ValueError(
                f"GRILLY_CPU_CACHE_MB: expected a whole number of MiB, 0 for none; received {given!r}."
            )
        return int(given) << 20
    from grilly_backend_cpu import _physical_memory

    return (_physical_memory() or 4 << 30) // _SHARE


blocks: Final = Blocks(_limit())
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=blocks.forget_lock)
