"""What the workers of a `ShardedIndex` do: each process keeps the shards that it was asked about open.

A shard is a `StoredIndex`. Whoever opens it last owns it: requests of an earlier owner are refused, so two indexes over
the same folder cannot write against each other. Each request may come twice, when an answer was lost with a worker.
"""

from __future__ import annotations

import threading
import time
from typing import Any, Final, NamedTuple

import numpy as np

from grilly_core.errors import WriteError
from grilly_ext_memory.index.journal import StoredIndex
from grilly_ext_memory.index.ranking import Hits, Ids, RangeHits

__all__ = ["Shard", "serve"]

#: Seconds until a lock that a dying process holds must be free.
_PATIENCE: Final = 10.0


class Shard(NamedTuple):
    """Which shard is meant, and by whom."""

    path: str
    owner: str
    device: str


class _Held:
    __slots__ = ("lock", "owner", "stored")

    def __init__(self, stored: StoredIndex, owner: str) -> None:
        self.stored, self.owner, self.lock = stored, owner, threading.Lock()


_open: dict[str, _Held] = {}
_opening = threading.Lock()


def serve(shard: Shard, what: str, *arguments: Any, **options: Any) -> Any:
    """Answer one request about one shard."""
    if what == "close":
        return _close(shard)
    held = _held(shard, take=what == "take")
    with held.lock:
        if held.owner != shard.owner:
            raise WriteError(f"{shard.path}: another ShardedIndex has opened this folder since.")
        return _ANSWERS[what](held.stored, *arguments, **options)


def _held(shard: Shard, *, take: bool) -> _Held:
    with _opening:
        held = _open.get(shard.path)
        if held is None:
            held = _open[shard.path] = _Held(_opened(shard), shard.owner)
    if take:
        with held.lock:
            held.owner = shard.owner
    return held


def _opened(shard: Shard) -> StoredIndex:
    until = time.monotonic() + _PATIENCE
    while True:
        try:
            return StoredIndex(shard.path, device=shard.device or None)
        except WriteError:
            if time.monotonic() > until:
                raise
            time.sleep(0.05)


def _close(shard: Shard) -> None:
    with _opening:
        held = _open.get(shard.path)
        if held is not None and held.owner == shard.owner:
            with held.lock:
                held.stored.close()
                del _open[shard.path]


def _state(stored: StoredIndex) -> tuple[int, int]:
    return stored.index.ntotal, stored.index._next


def _holds(stored: StoredIndex, ids: Ids) -> Any:
    return stored.index._segments.holds(ids)


def _add(stored: StoredIndex, rows: Any, ids: Ids) -> None:
    # Rows of one request are one record of the journal: all are there or none, and ids are never given twice.
    if not _holds(stored, ids).all():
        stored.add_with_ids(rows, ids)
    stored.flush()


def _remove(stored: StoredIndex, ids: Ids) -> None:
    if _holds(stored, ids).any():
        stored.remove_ids(ids)
    stored.flush()


def _search(stored: StoredIndex, queries: Any, k: int, allow: Any, **options: Any) -> Hits:
    found = stored.search(queries, k, allow=allow, **options)
    return Hits(found.distances.astype(np.float32), found.ids)


def _range_search(
    stored: StoredIndex, queries: Any, radius: float, allow: Any, nprobe: int | None = None
) -> RangeHits:  # fmt: skip
    if nprobe is not None:
        stored.index.nprobe = nprobe  # type: ignore[attr-defined]
    return stored.index.range_search(queries, radius, allow=allow)


def _reconstruct(stored: StoredIndex, ids: Ids) -> Any:
    return stored.index.reconstruct(ids)


def _ids(stored: StoredIndex) -> Ids:
    return stored.index.ids


def _compact(stored: StoredIndex) -> None:
    stored.compact()


_ANSWERS: Final[dict[str, Any]] = {
    "take": _state, "state": _state, "holds": _holds, "add": _add, "remove": _remove, "search": _search,
    "range_search": _range_search, "reconstruct": _reconstruct, "ids": _ids, "compact": _compact,
}  # fmt: skip
