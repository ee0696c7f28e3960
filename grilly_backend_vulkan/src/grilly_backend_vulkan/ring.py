"""A ring of host-visible memory, for bytes on their way to the device."""

from __future__ import annotations

from collections import deque
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from grilly_backend_vulkan.logical import Block, LogicalDevice, MemoryKind
from grilly_core.errors import DeviceError

__all__ = ["Ring", "Segment"]

_ALIGN: Final = 64


class _Waits(Protocol):
    def wait(self, value: int) -> None:
        """Wait until submission `value` has run."""


class Segment:
    """A piece of the ring.

    Attributes
    ----------
    start, stop : int
        Bytes of the block.
    value : int or None
        The submission after which it may be used again; None while that is open.
    """

    __slots__ = ("start", "stop", "value")

    def __init__(self, start: int, stop: int, value: int | None) -> None:
        self.start = start
        self.stop = stop
        self.value = value


class Ring:
    """Memory handed out in turn and used again when the device is done with it.

    Parameters
    ----------
    device : LogicalDevice
    kind : MemoryKind
    size : int
    stream
        Waits for submissions.

    Attributes
    ----------
    block : Block
    size : int
    """

    def __init__(self, device: LogicalDevice, kind: MemoryKind, size: int, stream: _Waits) -> None:
        self.block = Block(device, kind, size)
        self.size = size
        self._stream = stream
        self._segments: deque[Segment] = deque()
        self._head = 0

    def put(self, data: NDArray[np.uint8], value: int | None) -> Segment:
        """Copy `data` into the ring, waiting for the device if the ring is full of bytes it has yet to read."""
        size = (data.size + _ALIGN - 1) & -_ALIGN
        start = self._place(size)
        while start is None:
            self._reclaim()
            start = self._place(size)
        self._head = start + size
        segment = Segment(start, start + size, value)
        self._segments.append(segment)
        assert self.block.array is not None
        self.block.array[start : start + data.size] = data
        return segment

    def _place(self, size: int) -> int | None:
        """Return where `size` bytes fit now; the head never catches up with the oldest segment."""
        if not self._segments:
            return 0 if size <= self.size else None
        head, tail = self._head, self._segments[0].start
        if head < tail:
            return head if head + size < tail else None
        if head + size <= self.size:
            return head
        return 0 if size < tail else None

    def _reclaim(self) -> None:
        if not self._segments:
            raise DeviceError(f"more than {self.size} bytes do not fit into the ring at once.")
        oldest = self._segments[0]
        if oldest.value is None:
            raise DeviceError(f"arguments of {self.size} bytes were made without a launch that uses them.")
        self._stream.wait(oldest.value)
        self._segments.popleft()
