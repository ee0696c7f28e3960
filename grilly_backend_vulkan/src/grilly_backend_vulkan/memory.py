"""Device memory: a sub-allocating pool.

The driver's allocations cost some 100 µs each, so they are large `Block`s that many buffers share. Freed memory may
be handed out again at once, although launches that use it have not run: launches run in order, and pieces keep the
levels of their last use when they are cut and joined, so that the stream puts a barrier between the old use and the
new one. Only the host must not touch memory that is still in use, for which each allocation knows the last submission
that uses it.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable
from typing import Final

from grilly_backend_vulkan import vkapi
from grilly_backend_vulkan.logical import Block, LogicalDevice
from grilly_core.errors import DeviceError, OutOfMemoryError

__all__ = ["Allocation", "Memory", "readable"]

_ALIGN: Final = 256
_MIB: Final = 1 << 20
_SMALL: Final = _MIB  # buffers up to this size have blocks of their own, so that they do not split large ones
_BLOCK: Final = 2 * _MIB
_GROWTH_LIMIT: Final = 64 * _MIB
_FREED: Final = -1


class Allocation:
    """A piece of a block; the handle that the runtime hands out.

    Attributes
    ----------
    address : int
        Device address of the first byte.
    nbytes : int
        Bytes asked for; -1 once it has been freed.
    block : Block
    offset : int
        First byte within the block.
    size : int
        Bytes reserved.
    used : int
        Number of the last submission that uses the memory.
    read, written : int
        The stream's level of the last launch that reads or writes it.
    """

    __slots__ = (
        "_next", "_previous", "address", "block", "free", "nbytes", "offset", "read", "size", "used", "written",
    )  # fmt: skip

    def __init__(self, block: Block, offset: int, size: int) -> None:
        self.block = block
        self.offset = offset
        self.size = size
        self.address = block.address + offset
        self.nbytes = _FREED
        self.used = self.read = self.written = 0
        self.free = True
        self._previous: Allocation | None = None
        self._next: Allocation | None = None

    def __repr__(self) -> str:
        state = "freed" if self.nbytes == _FREED else f"{self.nbytes} bytes"
        return f"Allocation({state} at {self.address:#x})"


class _Pool:
    """Blocks cut into pieces: the smallest piece that fits is taken, and free neighbours are joined."""

    def __init__(self) -> None:
        self.blocks: list[Block] = []
        self._free: list[tuple[int, int, Allocation]] = []  # sorted by size, then address

    def add(self, block: Block) -> None:
        self.blocks.append(block)
        self._insert(Allocation(block, 0, block.size))

    def _insert(self, piece: Allocation) -> None:
        piece.free = True
        insort(self._free, (piece.size, piece.address, piece))

    def _remove(self, piece: Allocation) -> None:
        del self._free[bisect_left(self._free, (piece.size, piece.address))]
        piece.free = False

    def take(self, size: int) -> Allocation | None:
        i = bisect_left(self._free, (size,))
        if i == len(self._free):
            return None
        piece = self._free[i][2]
        self._remove(piece)
        if piece.size > size:
            rest = Allocation(piece.block, piece.offset + size, piece.size - size)
            rest.used, rest.read, rest.written = piece.used, piece.read, piece.written
            rest._previous, rest._next = piece, piece._next
            if piece._next is not None:
                piece._next._previous = rest
            piece._next, piece.size = rest, size
            self._insert(rest)
        return piece

    def give(self, piece: Allocation) -> None:
        """Take a piece back, joined with its free neighbours."""
        after = piece._next
        if after is not None and after.free:
            self._remove(after)
            self._join(piece, after)
        before = piece._previous
        if before is not None and before.free:
            self._remove(before)
            self._join(before, piece)
            piece = before
        self._insert(piece)

    def _join(self, first: Allocation, second: Allocation) -> None:
        first.size += second.size
        first.used = max(first.used, second.used)
        first.read, first.written = max(first.read, second.read), max(first.written, second.written)
        first._next = second._next
        if second._next is not None:
            second._next._previous = first
        # A stale handle of either piece must not pass for memory in use.
        second.nbytes, second.free = _FREED, False

    def trim(self) -> int:
        """Return whole free blocks to the driver, and say how many bytes that was."""
        whole = [piece for size, _, piece in self._free if size == piece.block.size]
        for piece in whole:
            self._remove(piece)
            self.blocks.remove(piece.block)
            piece.block.destroy()
        return sum(piece.size for piece in whole)


class Memory:
    """The memory of one device.

    Parameters
    ----------
    device : LogicalDevice
    finish : callable
        Waits until every launch has run; called before blocks are returned to the driver.

    Attributes
    ----------
    live : int
        Bytes of the allocations in use, as reserved.
    reserved : int
        Bytes obtained from the driver.
    """

    def __init__(self, device: LogicalDevice, finish: Callable[[], None]) -> None:
        self._device = device
        self._finish = finish
        self._capacity = device.capacity(device.main)
        self._largest = min(device.facts.max_allocation, device.facts.max_buffer)
        self._small, self._large = _Pool(), _Pool()
        self._ready: dict[int, list[Allocation]] = {}  # freed pieces by size, not yet given to a pool
        self.live = 0
        self.count = 0
        self.reserved = 0

    def alloc(self, nbytes: int) -> Allocation:
        """Return memory of at least `nbytes` bytes, aligned to 256.

        Raises
        ------
        OutOfMemoryError
            If the device has none left, or never could.
        """
        size = (nbytes + _ALIGN - 1) & -_ALIGN or _ALIGN
        ready = self._ready.get(size)
        piece = ready.pop() if ready else self._taken(size, nbytes)
        piece.nbytes = nbytes
        self.live += size
        self.count += 1
        return piece

    def free(self, piece: Allocation) -> None:
        """Take memory back; launches recorded so far may still use it."""
        if piece.nbytes == _FREED:
            raise DeviceError(f"{self._device.facts.name}: free: {piece!r} was freed before.")
        piece.nbytes = _FREED
        self.live -= piece.size
        self.count -= 1
        self._ready.setdefault(piece.size, []).append(piece)

    def _pool(self, size: int) -> _Pool:
        return self._small if size <= _SMALL else self._large

    def _taken(self, size: int, nbytes: int) -> Allocation:
        pool = self._pool(size)
        piece = pool.take(size)
        if piece is None and self._ready:
            self._settle()
            piece = pool.take(size)
        if piece is None:
            pool.add(self._new_block(size, nbytes))
            piece = pool.take(size)
            assert piece is not None
        return piece

    def _settle(self) -> None:
        """Give the pieces kept by size back to their pools, where they join."""
        for size, pieces in self._ready.items():
            pool = self._pool(size)
            for piece in pieces:
                pool.give(piece)
        self._ready.clear()

    def _new_block(self, size: int, nbytes: int) -> Block:
        if size > self._largest:
            raise OutOfMemoryError(
                f"{self._device.facts.name}: {readable(nbytes)} in one piece were asked for, and its largest "
                f"allocation is {readable(self._largest)}; split the tensor, or use a smaller batch."
            )
        growth = sum(b.size for b in self._pool(size).blocks) // 4 & -_BLOCK
        wanted = max((size + _BLOCK - 1) & -_BLOCK, min(_GROWTH_LIMIT, growth))
        block = self._try_block(min(wanted, self._largest)) or self._try_block(size)
        if block is None and self.trim():
            block = self._try_block(min(wanted, self._largest)) or self._try_block(size)
        if block is None:
            raise OutOfMemoryError(self._exhausted(nbytes))
        return block

    def _try_block(self, size: int) -> Block | None:
        if self.reserved + size > self._capacity:  # some drivers promise more than they have
            return None
        try:
            block = Block(self._device, self._device.main, size)
        except vkapi.VulkanError as error:
            if error.result in vkapi.OUT_OF_MEMORY:
                return None
            raise
        self.reserved += size
        return block

    def trim(self) -> int:
        """Wait for the device, return unused blocks to the driver, and return how many bytes that was."""
        self._finish()
        self._settle()
        released = self._small.trim() + self._large.trim()
        self.reserved -= released
        return released

    def _exhausted(self, nbytes: int) -> str:
        found = self.statistics()
        left = found.get("available")
        others = "" if left is None else f"; the driver would give {readable(left)} more"
        return (
            f"{self._device.facts.name}: {readable(nbytes)} were asked for. Of {readable(self._capacity)}, tensors of "
            f"this process hold {readable(self.live)} in {self.count} buffers; {readable(self.reserved)} are reserved "
            f"in {found['blocks']} blocks{others}. Drop tensors that are not needed, or use a smaller batch."
        )

    def statistics(self) -> dict[str, int]:
        """Return bytes and counts: total, live, reserved, buffers, blocks, and available if the driver says."""
        found = {
            "total": self._capacity,
            "live": self.live,
            "reserved": self.reserved,
            "buffers": self.count,
            "blocks": len(self._small.blocks) + len(self._large.blocks),
        }
        left = self._device.available(self._device.main)
        return found if left is None else {**found, "available": left}

    def destroy(self) -> None:
        """Return every block to the driver; nothing may be running."""
        for pool in (self._small, self._large):
            for block in pool.blocks:
                block.destroy()
            pool.blocks.clear()


def readable(nbytes: int) -> str:
    """Return a number of bytes as text.

    Examples
    --------
    >>> readable(1536), readable(3 * 2**30)
    ('1.5 KiB', '3.0 GiB')
    """
    amount, unit = float(nbytes), "bytes"
    for larger in ("KiB", "MiB", "GiB", "TiB", "PiB"):
        if amount < 1024:
            break
        amount, unit = amount / 1024, larger
    return f"{nbytes} bytes" if unit == "bytes" else f"{amount:.1f} {unit}"
