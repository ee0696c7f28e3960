"""Times on the device: marks written between launches, read back on the host's clock."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from grilly_backend_vulkan.stream import Stream

__all__ = ["Timer"]

_POOL: Final = 1024  # marks in one query pool
_ALL_COMMANDS: Final = 0x10000
_RESULTS: Final = 1 | 2  # 64 bits, waiting


class Timer:
    """Marks in the stream.

    A mark waits for everything before it and holds back everything after it, so the time between two marks belongs to
    the launches between them; what would have overlapped does not.

    Parameters
    ----------
    stream : Stream
    """

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._pools: list[Any] = []
        self._count = 0
        self._zero = 0.0
        self._first: int | None = None
        stream.synchronize()
        mark = self.mark()
        stream.synchronize()
        self._zero = time.perf_counter()
        self._first = self._values()[mark]

    def mark(self) -> int:
        """Write a mark after everything launched so far, and return its number."""
        stream = self._stream
        with stream.lock:
            number = self._count
            self._count += 1
            if stream.preparing is not None:
                stream.preparing.marks.append((self, number))
                return number
            self.write(stream.command or stream.begin(), number)
            stream.level += 1
            return number

    def write(self, command: Any, number: int) -> None:
        """Record mark `number` into a command buffer."""
        stream = self._stream
        lib = stream.api.lib
        while number >= len(self._pools) * _POOL:
            self._pools.append(self._new_pool())
        pool, place = self._pools[number // _POOL], number % _POOL
        lib.vkCmdResetQueryPool(command, pool, place, 1)
        lib.vkCmdPipelineBarrier2(command, stream.barrier)
        lib.vkCmdWriteTimestamp2(command, _ALL_COMMANDS, pool, place)
        lib.vkCmdPipelineBarrier2(command, stream.barrier)

    def _new_pool(self) -> Any:
        stream = self._stream
        info = stream.api.struct("VkQueryPoolCreateInfo", 11, queryType=2, queryCount=_POOL)
        return stream.api.made(
            "vkCreateQueryPool", "VkQueryPool", stream.device.handle, info, stream.api.null
        )

    def _values(self) -> list[int]:
        """Return the device's clock at each mark, in its own units."""
        stream, found = self._stream, []
        out = stream.api.ffi.new("uint64_t[]", _POOL)
        for i, pool in enumerate(self._pools):
            count = min(self._count - i * _POOL, _POOL)
            call = stream.api.lib.vkGetQueryPoolResults
            result = call(stream.device.handle, pool, 0, count, 8 * count, out, 8, _RESULTS)
            stream.check(result, "vkGetQueryPoolResults")
            found += list(out[0:count])
        return found

    def read(self) -> list[float]:
        """Wait, and return the time of each mark in seconds on the clock of `time.perf_counter`."""
        self._stream.synchronize()
        period = self._stream.device.facts.timestamp_period * 1e-9
        first = self._first or 0
        return [self._zero + (value - first) * period for value in self._values()]

    def __del__(self) -> None:
        if getattr(self, "_pools", None) and self._stream.usable:
            stream = self._stream
            stream.synchronize()
            for pool in self._pools:
                stream.api.lib.vkDestroyQueryPool(stream.device.handle, pool, stream.api.null)
