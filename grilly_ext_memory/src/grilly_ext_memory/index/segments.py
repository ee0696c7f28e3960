"""Where an index keeps its rows: sorted runs by list and id, few enough that a search asks each of them.

New rows are gathered and sorted when they are first needed, and a run is merged into the one before it when it has
grown to half of that, so adding n rows one by one moves each of them O(log n) times (a log-structured merge).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

import grilly_core as grilly
from grilly_core.tensor import Tensor

__all__ = ["Segment", "Segments"]

Ids = NDArray[np.int64]

#: A run's positions must fit the int32 of the ops.
_LONGEST: Final = (1 << 31) - 1


class Segment:
    """Rows sorted by list, then by id.

    Attributes
    ----------
    codes : ndarray, (N, w)
    ids : ndarray of int64, (N,)
    offsets : ndarray of int32, (lists + 1,)
        Where each list starts.
    """

    __slots__ = ("_by_id", "_placed", "codes", "ids", "offsets")

    def __init__(self, codes: NDArray[Any], ids: Ids, offsets: NDArray[np.int32]) -> None:
        self.codes, self.ids, self.offsets = codes, ids, offsets
        self._by_id: Ids | None = None
        self._placed: tuple[str, Tensor, Tensor] | None = None

    @classmethod
    def sort(cls, codes: NDArray[Any], ids: Ids, lists: NDArray[np.int32], count: int) -> Segment:
        """Return a run of rows in any order, with the list of each."""
        offsets = np.zeros(count + 1, np.int32)
        np.cumsum(np.bincount(lists, minlength=count), out=offsets[1:])
        order = np.lexsort((ids, lists))
        if not np.array_equal(order, np.arange(len(order))):
            codes, ids = codes[order], ids[order]
        return cls(codes, ids, offsets)

    def __len__(self) -> int:
        return len(self.ids)

    def lists(self) -> NDArray[np.int32]:
        """Return the list of each row."""
        return np.repeat(np.arange(len(self.offsets) - 1, dtype=np.int32), np.diff(self.offsets))

    def find(self, ids: Ids) -> Ids:
        """Return the positions of ids, -1 where there is none."""
        if self._by_id is None:
            self._by_id = np.argsort(self.ids, kind="stable")
        places = np.searchsorted(self.ids, ids, sorter=self._by_id)
        at: Ids = self._by_id[np.minimum(places, len(self) - 1)]
        return np.where(self.ids[at] == ids, at, -1)

    def keep(self, kept: NDArray[np.bool_]) -> Segment:
        """Return a run of some of the rows."""
        return Segment.sort(self.codes[kept], self.ids[kept], self.lists()[kept], len(self.offsets) - 1)

    def on(self, device: str) -> tuple[Tensor, Tensor]:
        """Return codes and offsets on a device, put there once; on the CPU nothing is copied."""
        if self._placed is None or self._placed[0] != device:
            shared = False if device == "cpu" else None
            self._placed = (
                device,
                grilly.asarray(self.codes, dtype=self.codes.dtype, device=device, copy=shared),
                grilly.asarray(self.offsets, device=device),
            )
        return self._placed[1:]


class Segments:
    """All rows of an index.

    Parameters
    ----------
    lists : int
        How many lists there are; 1 for an index without.
    """

    __slots__ = ("_new", "_runs", "count", "lists")

    def __init__(self, lists: int = 1) -> None:
        self.lists = lists
        self.count = 0
        self._runs: list[Segment] = []
        self._new: list[tuple[NDArray[Any], Ids, NDArray[np.int32]]] = []

    def add(self, codes: NDArray[Any], ids: Ids, lists: NDArray[np.int32] | None = None) -> None:
        """Add rows; without `lists` all are in the first."""
        if len(ids):
            self._new.append((codes, ids, np.zeros(len(ids), np.int32) if lists is None else lists))
            self.count += len(ids)

    def adopt(self, run: Segment) -> None:
        """Add a run that is sorted already, such as one read from a file."""
        if len(run):
            self._runs.append(run)
            self.count += len(run)

    def __iter__(self) -> Iterator[Segment]:
        self._settle()
        return iter(list(self._runs))

    def _settle(self) -> None:
        if self._new:
            codes, ids, lists = (np.concatenate(parts) for parts in zip(*self._new, strict=True))
            self._new.clear()
            self._runs.append(Segment.sort(codes, ids, lists, self.lists))
        while len(self._runs) > 1 and 2 * len(self._runs[-1]) >= len(self._runs[-2]):
            if len(self._runs[-1]) + len(self._runs[-2]) > _LONGEST:
                break
            self._runs[-2:] = [_merged(*self._runs[-2:])]

    def single(self) -> Segment | None:
        """Return all rows as one run, or None if there are none."""
        self._settle()
        while len(self._runs) > 1:
            self._runs[-2:] = [_merged(*self._runs[-2:])]
        return self._runs[0] if self._runs else None

    def holds(self, ids: Ids) -> NDArray[np.bool_]:
        """Whether there are rows of these ids."""
        found = np.zeros(len(ids), bool)
        for run in self:
            found |= run.find(ids) >= 0
        return found

    def remove(self, ids: Ids) -> int:
        """Remove rows; returns how many there were."""
        before, kept = self.count, []
        for run in self:
            gone = run.find(ids)
            mask = np.ones(len(run), bool)
            mask[gone[gone >= 0]] = False
            left = run if mask.all() else run.keep(mask)
            if len(left):
                kept.append(left)
        self._runs = kept
        self.count = sum(map(len, kept))
        return before - self.count

    def take(self, ids: Ids) -> NDArray[Any] | None:
        """Return the codes of ids in their order, or None if one is not there."""
        codes: NDArray[Any] | None = None
        found = np.zeros(len(ids), bool)
        for run in self:
            at = run.find(ids)
            hit = at >= 0
            if codes is None:
                codes = np.zeros((len(ids), *run.codes.shape[1:]), run.codes.dtype)
            codes[hit] = run.codes[at[hit]]
            found |= hit
        return codes if codes is not None and found.all() else None


def _merged(first: Segment, second: Segment) -> Segment:
    return Segment.sort(
        np.concatenate([first.codes, second.codes]),
        np.concatenate([first.ids, second.ids]),
        np.concatenate([first.lists(), second.lists()]),
        len(first.offsets) - 1,
    )
