"""What every index does: training, adding, searching, removing."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, Final, Self

import numpy as np
from numpy.typing import NDArray

from grilly_core.device import default_device
from grilly_core.errors import WriteError
from grilly_ext_memory.index.arguments import (
    Vectors,
    as_count,
    as_ids,
    as_vectors,
    largest_first,
    unit_rows,
)
from grilly_ext_memory.index.codecs import Codec, Task
from grilly_ext_memory.index.product import Product
from grilly_ext_memory.index.ranking import Hits, Ids, RangeHits, nothing, ranked
from grilly_ext_memory.index.segments import Segment, Segments

__all__ = ["Allowed", "Index", "allowed", "check_new_ids", "search_run"]

#: Ids that a search may return, or a function from ids to truth values.
Allowed = Any

#: An id that cannot be followed by another.
_NO_ID: Final = (1 << 63) - 1


class Index:
    """Vectors with ids, searched by distance. Use one of its kinds, such as `IndexFlat`, or `index_factory`.

    An attribute that does not exist cannot be set, so a misspelt option is an error.
    """

    __slots__ = ("_next", "_segments", "codec", "d", "device", "metric", "read_only", "seed")

    def __init__(
        self, d: int, metric: str, codec: Codec, *, lists: int = 1, seed: int = 0, device: Any = None
    ) -> None:
        self.d = as_count(d, type(self).__name__, "d")
        self.metric = metric
        self.codec = codec
        self.seed = int(seed)
        self.device = str(default_device() if device is None else device)
        self.read_only = False
        self._segments = Segments(lists)
        self._next = 0

    @property
    def ntotal(self) -> int:
        """How many vectors it holds."""
        return self._segments.count

    def __len__(self) -> int:
        return self.ntotal

    def __reduce__(self) -> tuple[Any, ...]:
        """Copies, and copies in other processes, are made of what a file would hold; they can be changed."""
        from grilly_ext_memory.index.files import index_bytes

        return _from_bytes, (index_bytes(self), self.device)

    @property
    def is_trained(self) -> bool:
        """Whether vectors can be added."""
        return self.codec.is_trained

    @property
    def ids(self) -> Ids:
        """All ids in rising order."""
        parts = [run.ids for run in self._segments]
        return np.sort(np.concatenate(parts)) if parts else np.zeros(0, np.int64)

    def train(self, x: Any) -> Self:
        """Learn what codes need from vectors like those to come; replaces what was learnt before.

        Parameters
        ----------
        x : array_like, (N, d)

        Raises
        ------
        WriteError
            If the index holds vectors already.
        """
        self._writable("train")
        if self.ntotal:
            raise WriteError(
                f"train: the index holds {self.ntotal} vectors coded by its present training; reset() it first."
            )
        rows = self._vectors(x, "train", finite=True)
        if not len(rows):
            raise ValueError("train: expected at least one vector; received 0.")
        self._learn(rows)
        return self

    def _learn(self, x: Vectors) -> None:
        self.codec.train(self._stored(x), self.seed)

    def add(self, x: Any) -> Ids:
        """Add vectors and return their ids, which follow the largest id there ever was.

        Parameters
        ----------
        x : array_like, (N, d)
            Rows with NaN or infinities are refused.
        """
        rows = self._checked(x, "add")
        return self._insert(rows, np.arange(self._next, self._next + len(rows), dtype=np.int64))

    def add_with_ids(self, x: Any, ids: Any) -> Ids:
        """Add vectors under ids of yours.

        Parameters
        ----------
        x : array_like, (N, d)
        ids : array_like of int, (N,)
            Not negative, all different, and none of those in the index.
        """
        rows, given = self._checked(x, "add_with_ids"), as_ids(ids, "add_with_ids")
        check_new_ids(rows, given)
        if len(given) and given.min() < self._next and (held := self._segments.holds(given)).any():
            raise ValueError(f"add_with_ids: the index already holds id {given[held][0]}; remove it first.")
        return self._insert(rows, given)

    def _checked(self, x: Any, who: str) -> Vectors:
        self._writable(who)
        self._trained(who)
        return self._vectors(x, who, finite=True)

    def _trained(self, who: str) -> None:
        if not self.is_trained:
            raise RuntimeError(
                f"{who}: this {type(self).__name__} must be trained first; call train(vectors)."
            )

    def _vectors(self, x: Any, who: str, *, finite: bool = False) -> Any:
        return as_vectors(x, self.d, who, finite=finite)

    @property
    def _row(self) -> np.dtype[Any]:
        """What a row is in a journal."""
        return np.dtype((np.float32, (self.d,)))

    def _given_form(self, rows: Any) -> NDArray[Any]:
        """Return checked rows in the form in which a journal keeps them and `add_with_ids` takes them."""
        made: NDArray[Any] = rows
        return made

    def _writable(self, who: str) -> None:
        if self.read_only:
            raise WriteError(
                f"{who}: the index reads from a file by memory map; load it with mmap=False to change it."
            )

    def _insert(self, rows: Vectors, ids: Ids) -> Ids:
        if len(rows):
            stored = self._stored(rows)
            lists = self._lists(rows)
            codes = self.codec.encode(self._relative(stored, lists))
            # Codes that are the caller's own array would change with it.
            codes = codes.copy() if np.may_share_memory(codes, rows) else codes
            self._segments.add(codes, ids.copy(), lists)
            self._next = max(self._next, int(ids.max()) + 1)
        return ids

    def _stored(self, rows: Vectors) -> Vectors:
        """Return what is coded: with products of codewords, cosines want rows of length 1."""
        return unit_rows(rows) if self.metric == "cosine" and isinstance(self.codec, Product) else rows

    def _lists(self, rows: Vectors) -> NDArray[np.int32] | None:
        """Return the list of each row, where there are lists."""
        return None

    def _relative(self, rows: Vectors, lists: NDArray[np.int32] | None) -> Vectors:
        """Return rows relative to their list, where they are coded so."""
        return rows

    def search(self, queries: Any, k: int, *, allow: Allowed = None) -> Hits:
        """Return the k nearest vectors of each query.

        Parameters
        ----------
        queries : array_like, (Q, d) or (d,)
            A query with NaN finds nothing.
        k : int
            Where there are fewer vectors, the rest is -1.
        allow : array_like of int or callable, optional
            The ids that may be found, or a function from an array of ids to truth values.

        Returns
        -------
        Hits
            ``(distances, ids)``, each ``(Q, k)``.
        """
        k = as_count(k, "search")
        rows = self._vectors(queries, "search")
        self._trained("search")
        return self._search(rows, k, allow, None)

    def _search(self, rows: Vectors, k: int, allow: Allowed, probes: NDArray[np.int32] | None) -> Hits:
        largest = largest_first(self.metric)
        task = Task(rows, k, self.metric, self.device, probes, self._centroids())
        best = [nothing(len(rows), 0, largest)]
        if len(rows):
            best += [search_run(self.codec, run, task, allowed(run.ids, allow)) for run in self._segments]
        return ranked(*(np.concatenate(part, axis=1) for part in zip(*best, strict=True)), k, largest)

    def _centroids(self) -> Vectors | None:
        return None

    def range_search(self, queries: Any, radius: float, *, allow: Allowed = None) -> RangeHits:
        """Return all vectors nearer than `radius`, or with an inner product above it.

        Parameters
        ----------
        queries : array_like, (Q, d) or (d,)
        radius : float
            In the units of the metric: squared for ``"sqeuclidean"``. Vectors exactly at it are not returned.
        allow : array_like of int or callable, optional
            See `search`.
        """
        rows = self._vectors(queries, "range_search")
        self._trained("range_search")
        radius = _as_radius(radius)
        largest = largest_first(self.metric)
        found: list[Any] = [None] * len(rows)
        left, k = np.arange(len(rows)), min(64, max(self.ntotal, 1))
        while len(left):
            hits = self.search(self._given_form(rows[left]), k, allow=allow)
            inside = (hits.distances > radius if largest else hits.distances < radius) & (hits.ids >= 0)
            full = inside[:, -1] & (k < self.ntotal)
            for at in np.flatnonzero(~full):
                found[left[at]] = hits.distances[at, inside[at]], hits.ids[at, inside[at]]
            left, k = left[full], min(8 * k, self.ntotal)
        limits = np.cumsum([0, *(len(ids) for _, ids in found)], dtype=np.int64)
        distances = [d for d, _ in found] or [np.zeros(0, np.float32)]
        ids = [i for _, i in found] or [np.zeros(0, np.int64)]
        return RangeHits(limits, np.concatenate(distances), np.concatenate(ids))

    def remove_ids(self, ids: Any) -> int:
        """Remove vectors; returns how many there were. Other ids stay as they are, and none is given out again."""
        self._writable("remove_ids")
        return self._segments.remove(as_ids(ids, "remove_ids"))

    def reconstruct(self, ids: Any) -> Vectors:
        """Return the vectors of ids, as the codes have them: ``(N, d)``, or ``(d,)`` for a single id.

        Raises
        ------
        KeyError
            If one is not there.
        """
        wanted = as_ids(np.atleast_1d(np.asarray(ids)), "reconstruct")
        if missing := [
            int(i) for i, there in zip(wanted, self._segments.holds(wanted), strict=True) if not there
        ]:
            raise KeyError(f"reconstruct: the index has no id {missing[0]}")
        rows = self._decoded(wanted) if len(wanted) else np.zeros(0, self._row)
        return rows if np.ndim(ids) else rows[0]

    def _decoded(self, ids: Ids) -> Vectors:
        codes = self._segments.take(ids)
        assert codes is not None
        return np.array(self.codec.decode(codes))

    def merge_from(self, other: Index) -> None:
        """Take all vectors of another index of the same kind and training, with their ids; the other becomes empty.

        Raises
        ------
        ValueError
            If the two differ, or share an id; both stay as they are.
        """
        self._writable("merge_from")
        if other is self or not isinstance(other, Index) or not self._same_training(other):
            raise ValueError(
                "merge_from: expected another index of the same kind, width, metric and training; "
                f"received {other!r} for {self!r}."
            )
        other._writable("merge_from")
        for run in other._segments:
            if (held := self._segments.holds(run.ids)).any():
                raise ValueError(f"merge_from: both indexes hold id {run.ids[held][0]}.")
        for run in other._segments:
            self._segments.add(run.codes, run.ids, run.lists())
        self._next = max(self._next, other._next)
        other.reset()

    def _same_training(self, other: Index) -> bool:
        mine, theirs = self._learnt(), other._learnt()
        return (
            type(self) is type(other)
            and (self.d, self.metric, self.codec.kind) == (other.d, other.metric, other.codec.kind)
            and self.codec.residual == other.codec.residual
            and mine.keys() == theirs.keys()
            and all(np.array_equal(mine[name], theirs[name]) for name in mine)
        )

    def _learnt(self) -> dict[str, NDArray[Any]]:
        """Return what training made."""
        return self.codec.state()[1]

    def _restore(self, arrays: dict[str, NDArray[Any]]) -> None:
        """Take what training made."""
        self.codec.restore(arrays)

    def settings(self) -> dict[str, Any]:
        """Return the arguments that make such an index again, as JSON."""
        return {"d": self.d, "metric": self.metric}

    def reset(self) -> None:
        """Remove all vectors; training and the count of ids stay."""
        self._writable("reset")
        self._segments = Segments(self._segments.lists)

    def __repr__(self) -> str:
        state = "" if self.is_trained else ", not trained"
        return f"{type(self).__name__}(d={self.d}, metric={self.metric!r}, ntotal={self.ntotal}{state})"


def check_new_ids(rows: Any, ids: Ids) -> None:
    """Refuse ids that are not as many as the rows, or not all different."""
    if len(ids) and int(ids.max()) == _NO_ID:
        raise ValueError(f"add_with_ids: ids are below {_NO_ID}; received {_NO_ID}.")
    if len(ids) != len(rows):
        raise ValueError(f"add_with_ids: {len(rows)} vectors and {len(ids)} ids; expected as many.")
    unique, counts = np.unique(ids, return_counts=True)
    if len(unique) < len(ids):
        raise ValueError(f"add_with_ids: id {unique[counts > 1][0]} is given twice.")


def _as_radius(radius: Any) -> float:
    if isinstance(radius, str):
        raise TypeError(f"range_search: radius must be a number; received {radius!r}.")
    number = float(radius)
    if math.isnan(number):
        raise ValueError(f"range_search: radius must be a number; received {radius!r}.")
    return number


def _from_bytes(data: bytes, device: str) -> Index:
    from grilly_ext_memory.index.files import index_from_bytes

    return index_from_bytes(data, device=device)


def allowed(ids: Ids, allow: Allowed) -> NDArray[np.bool_] | None:
    """Return which ids a search may return, None for all."""
    if allow is None:
        return None
    if callable(allow):
        mask = np.asarray(allow(ids))
        if mask.shape != ids.shape or mask.dtype != np.bool_:
            raise ValueError(
                f"search: allow must return truth values of shape {ids.shape}; received {mask.dtype} {mask.shape}."
            )
        return mask
    return np.isin(ids, as_ids(allow, "search: allow"))


def search_run(codec: Codec, run: Segment, task: Task, mask: NDArray[np.bool_] | None) -> Hits:
    """Return the best ids of one run for each query.

    Positions rise with ids within a list, so a run of one list needs no more. Between lists, equals at the k-th place
    may come in any order of ids: queries for which the best k + 1 end in equals are asked again, for more.
    """
    if task.probes is None:
        return _named(run, codec.search(run, replace(task, k=min(task.k, len(run))), mask))
    largest = largest_first(task.metric)
    best = nothing(len(task.queries), task.k, largest)
    left, width = np.arange(len(task.queries)), min(task.k + 1, len(run))
    while len(left):
        part = replace(task, queries=task.queries[left], probes=task.probes[left], k=width)
        hits = _named(run, codec.search(run, part, mask))
        best.distances[left], best.ids[left] = ranked(*hits, task.k, largest)
        if width == len(run):
            break
        tied = (hits.distances[:, -1] == hits.distances[:, task.k - 1]) & (hits.ids[:, -1] >= 0)
        left, width = left[tied], min(4 * width, len(run))
    return best


def _named(run: Segment, hits: Hits) -> Hits:
    """Return hits with ids in the place of positions."""
    return Hits(hits.distances, np.where(hits.ids < 0, -1, run.ids[hits.ids]))
