"""When a queue of launches needs a barrier: hazards between reads and writes of byte ranges.

Launches between two barriers may run in any order, or at once. `HazardTracker` keeps what was read and written since
the last barrier and says, for each launch, whether a barrier must come first: because it reads what was written
(RAW), or writes what was written (WAW) or read (WAR). Where a whole list of launches is known beforehand,
`dependency_levels` sorts it into the fewest groups with a barrier between each two.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence

__all__ = ["Access", "HazardTracker", "Intervals", "dependency_levels"]

#: A buffer's id, the first byte and the byte after the last one.
Access = tuple[int, int, int]


class Intervals:
    """A set of integers, kept as sorted, disjoint half-open intervals.

    Examples
    --------
    >>> seen = Intervals()
    >>> seen.add(0, 4)
    >>> seen.add(4, 8)
    >>> list(seen), seen.overlaps(7, 9), seen.overlaps(8, 9)
    ([(0, 8)], True, False)
    """

    __slots__ = ("_starts", "_stops")

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._stops: list[int] = []

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return zip(self._starts, self._stops, strict=True)

    def overlaps(self, start: int, stop: int) -> bool:
        """Whether the set has an element in ``[start, stop)``."""
        i = bisect_left(self._starts, stop)  # the intervals before i begin below `stop`
        return i > 0 and start < stop and self._stops[i - 1] > start

    def add(self, start: int, stop: int) -> None:
        """Add ``[start, stop)``, joining it with the intervals it touches."""
        if start >= stop:
            return
        starts, stops = self._starts, self._stops
        first, last = bisect_left(stops, start), bisect_right(starts, stop)
        if first < last:
            start, stop = min(start, starts[first]), max(stop, stops[last - 1])
        starts[first:last] = [start]
        stops[first:last] = [stop]


class HazardTracker:
    """Reads and writes since the last barrier.

    Examples
    --------
    >>> tracker = HazardTracker()
    >>> tracker.launch(reads=[(1, 0, 16)], writes=[(2, 0, 16)])
    False
    >>> tracker.launch(reads=[(1, 0, 16)], writes=[(3, 0, 16)])  # independent of the first
    False
    >>> tracker.launch(reads=[(2, 8, 12)], writes=[(4, 0, 4)])  # reads what the first wrote
    True
    """

    __slots__ = ("_read", "_written")

    def __init__(self) -> None:
        self._read: dict[int, Intervals] = {}
        self._written: dict[int, Intervals] = {}

    def barrier(self) -> None:
        """Forget everything: a barrier orders what comes after what came before."""
        self._read.clear()
        self._written.clear()

    def conflicts(self, reads: Sequence[Access], writes: Sequence[Access]) -> bool:
        """Whether a launch with these accesses must wait for one since the last barrier; changes nothing."""
        read, written = self._read, self._written
        for buffer, start, stop in reads:
            found = written.get(buffer)
            if found is not None and found.overlaps(start, stop):
                return True
        for buffer, start, stop in writes:
            found = written.get(buffer)
            if found is not None and found.overlaps(start, stop):
                return True
            found = read.get(buffer)
            if found is not None and found.overlaps(start, stop):
                return True
        return False

    def launch(self, reads: Sequence[Access], writes: Sequence[Access]) -> bool:
        """Note a launch, and say whether a barrier must be put before it (which is then taken as done).

        A launch may read and write the same bytes: what happens inside it is its own affair.
        """
        needed = self.conflicts(reads, writes)
        if needed:
            self.barrier()
        for table, accesses in ((self._read, reads), (self._written, writes)):
            for buffer, start, stop in accesses:
                found = table.get(buffer)
                if found is None:
                    found = table[buffer] = Intervals()
                found.add(start, stop)
        return needed


def dependency_levels(launches: Iterable[tuple[Sequence[Access], Sequence[Access]]]) -> list[int]:
    """Return for each launch (reads, writes) the length of the longest chain of launches that it must wait for.

    Launches of one level may run in any order, and every launch only depends on lower levels.

    Examples
    --------
    >>> a, b, c = (1, 0, 4), (2, 0, 4), (3, 0, 4)
    >>> dependency_levels([([], [a]), ([a], [b]), ([], [c]), ([b, c], [a])])
    [0, 1, 0, 2]
    """
    levels: list[int] = []
    history: dict[int, list[tuple[int, int, int, bool]]] = {}
    for reads, writes in launches:
        level = 0
        for accesses, writing in ((reads, False), (writes, True)):
            for buffer, start, stop in accesses:
                for other_start, other_stop, other, wrote in history.get(buffer, ()):
                    overlap = max(start, other_start) < min(stop, other_stop)
                    if overlap and (writing or wrote) and other >= level:
                        level = other + 1
        for accesses, writing in ((reads, False), (writes, True)):
            for buffer, start, stop in accesses:
                if start < stop:
                    history.setdefault(buffer, []).append((start, stop, level, writing))
        levels.append(level)
    return levels
