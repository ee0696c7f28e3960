"""An index in parts on many machines: each worker of a Dask cluster searches its shards, and the best are merged."""

from __future__ import annotations

import contextlib
import json
import operator
import os
import secrets
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import numpy as np

from grilly_core.atomic import atomic_write
from grilly_core.errors import FileFormatError, WriteError
from grilly_ext_memory.index.arguments import as_count, as_ids, largest_first
from grilly_ext_memory.index.base import Allowed, Index, check_new_ids
from grilly_ext_memory.index.binary import whole
from grilly_ext_memory.index.dispatch import Dispatch, ShardError
from grilly_ext_memory.index.files import KINDS, load_index, save_index
from grilly_ext_memory.index.graph import IndexHNSW
from grilly_ext_memory.index.inverted import IndexIVF
from grilly_ext_memory.index.ranking import Hits, Ids, RangeHits, nothing, ranked

__all__ = ["ShardedIndex"]

_MANIFEST: Final = "sharded.json"
_TEMPLATE: Final = "empty.index"
_FORMAT: Final = "grilly-sharded-index"

#: Bytes of vectors in one request: larger ones travel in several.
_BLOCK: Final = 1 << 22


class ShardedIndex:
    """One index whose vectors lie in shards on the workers of a Dask cluster; needs the extra ``sharded``.

    Results are those of one index with the same vectors, bit for bit: all shards have the same training, and the best
    of each are merged by distance, then by id. Every change is on the disk of its shard before the call returns. When
    a worker is lost, others load its shards from their files and are asked again; if that fails too, a `ShardError`
    names the shards. There never is an answer without some of the shards.

    Parameters
    ----------
    path : path
        A folder that this process and all workers see under the same name.
    client : distributed.Client
    create : Index, optional
        An empty index of any kind but `IndexHNSW`; makes the folder if there is none yet.
    shards : int, optional
        With `create`: how many; as many as there are workers without it. A vector lies in shard ``id % shards``.
    device : Device or str, optional
        Where the workers search; theirs by default.
    retries : int
        How often a request is repeated after a worker was lost.
    timeout : float
        Seconds to wait while there is no worker at all.

    Attributes
    ----------
    index : Index
        Without vectors; has the kind, the width, the metric, the training and (in lists) the `nprobe` of all shards.

    Notes
    -----
    Opening a folder takes it over: an older `ShardedIndex` over it, such as one of a client that died, is refused
    from then on.

    Examples
    --------
    >>> import tempfile
    >>> from distributed import Client
    >>> from grilly_ext_memory.index.flat import IndexFlat
    >>> from grilly_ext_memory.index.sharded import ShardedIndex
    >>> client = Client(processes=False, n_workers=2, threads_per_worker=1, dashboard_address=":0")
    >>> with ShardedIndex(tempfile.mkdtemp() + "/notes", client, create=IndexFlat(2)) as index:
    ...     ids = index.add([[0.0, 0.0], [1.0, 0.0], [0.0, 2.0]])
    ...     index.search([0.0, 1.5], k=2).ids.tolist()
    [[2, 0]]
    >>> client.close()
    """

    def __init__(
        self, path: str | os.PathLike[str], client: Any, create: Index | None = None, *, shards: int | None = None,
        device: Any = None, retries: int = 3, timeout: float = 30.0,
    ) -> None:  # fmt: skip
        self.path = Path(path).absolute()
        self._dispatch = Dispatch(
            client, secrets.token_hex(8), device, operator.index(retries), float(timeout)
        )
        if not (self.path / _MANIFEST).exists():
            if create is None:
                raise FileNotFoundError(f"{self.path}: no such index; pass create=Index to make one.")
            self._make(
                create,
                as_count(len(client.nthreads()) or 1 if shards is None else shards, "ShardedIndex", "shards"),
            )
        self.shards = _shards_of(self.path)
        self.index = load_index(self.path / _TEMPLATE, device="cpu")
        self._counts: dict[int, int] = dict.fromkeys(range(self.shards), 0)
        self._opened = False
        if self.index.is_trained:
            self._take()

    def _make(self, create: Index, shards: int) -> None:
        if create.ntotal or isinstance(create, IndexHNSW) or type(create).__name__ not in KINDS:
            raise ValueError(
                "ShardedIndex: create must be empty, and not an IndexHNSW, whose results depend on which vectors lie "
                f"together; received {create!r}."
            )
        self.path.mkdir(parents=True, exist_ok=True)
        self._write(create, shards)

    def _write(self, empty: Index, shards: int) -> None:
        """Make files of shards without vectors; a process that dies here leaves a folder without an index."""
        (self.path / _MANIFEST).unlink(missing_ok=True)
        save_index(empty, self.path / _TEMPLATE)
        for shard in range(shards):
            place = self._file(shard)
            place.with_name(place.name + ".journal").unlink(missing_ok=True)
            if empty.is_trained:
                save_index(empty, place)
        with atomic_write(self.path / _MANIFEST) as file:
            file.write(json.dumps({"format": _FORMAT, "version": 1, "shards": shards}).encode())

    def _file(self, shard: int) -> Path:
        return self.path / f"shard-{shard}.index"

    def _take(self) -> None:
        """Open all shards, as their new owner."""
        gone = [str(self._file(shard)) for shard in range(self.shards) if not self._file(shard).exists()]
        if gone:
            raise FileNotFoundError(f"ShardedIndex: files of shards are missing: {', '.join(gone)}.")
        try:
            states = self._ask("take", dict.fromkeys(range(self.shards), ()))
        except ShardError:
            with contextlib.suppress(ShardError):  # leave nothing open
                self._ask("close", dict.fromkeys(range(self.shards), ()))
            raise
        self._counts = {shard: count for shard, (count, _) in states.items()}
        self._next = max(self.index._next, *(following for _, following in states.values()))
        self._opened = True

    def _ask(self, what: str, requests: Mapping[int, tuple[Any, ...]], **options: Any) -> dict[int, Any]:
        paths = {shard: str(self._file(shard)) for shard in requests}
        return self._dispatch.ask(what, paths, requests, options)

    def _ready(self, who: str) -> None:
        if self._dispatch.closed:
            raise WriteError(f"{self.path}: the index is closed.")
        if not self._opened:
            raise RuntimeError(
                f"{who}: this {type(self.index).__name__} must be trained first; call train(vectors)."
            )

    @property
    def ntotal(self) -> int:
        """How many vectors all shards hold."""
        return sum(self._counts.values())

    def __len__(self) -> int:
        return self.ntotal

    @property
    def is_trained(self) -> bool:
        """Whether vectors can be added."""
        return self.index.is_trained

    @property
    def ids(self) -> Ids:
        """All ids in rising order."""
        self._ready("ids")
        return np.sort(np.concatenate(list(self._ask("ids", dict.fromkeys(range(self.shards), ())).values())))

    def train(self, x: Any) -> Self:
        """Learn what codes need, here, and give it to all shards; see `Index.train`."""
        if self._dispatch.closed:
            raise WriteError(f"{self.path}: the index is closed.")
        if self.ntotal:
            raise WriteError(
                f"train: the index holds {self.ntotal} vectors coded by its present training; remove them first."
            )
        following = self._next if self._opened else 0
        self.index.train(x)
        self.index._next = following
        self._release()
        self._write(self.index, self.shards)
        self._take()
        return self

    def add(self, x: Any) -> Ids:
        """Add vectors and return their ids; see `Index.add`.

        Raises
        ------
        ShardError
            If shards are lost. None of the vectors are then in the others; their ids are not given again.
        """
        self._ready("add")
        rows = self.index._checked(x, "add")
        return self._insert(rows, np.arange(self._next, self._next + len(rows), dtype=np.int64))

    def add_with_ids(self, x: Any, ids: Any) -> Ids:
        """Add vectors under ids of yours; see `Index.add_with_ids` and `add`."""
        self._ready("add_with_ids")
        rows, given = self.index._checked(x, "add_with_ids"), as_ids(ids, "add_with_ids")
        check_new_ids(rows, given)
        if len(given) and given.min() < self._next and len(held := self._held(given)):
            raise ValueError(f"add_with_ids: the index already holds id {held[0]}; remove it first.")
        return self._insert(rows, given)

    def _insert(self, rows: Any, ids: Ids) -> Ids:
        form = self.index._given_form(rows)
        if len(ids):
            self._next = max(self._next, int(ids.max()) + 1)
        step = self._step(form)
        try:
            for low in range(0, len(ids), step * self.shards):
                part = slice(low, low + step * self.shards)
                parts = self._split(ids[part])
                self._ask("add", {s: (form[part][at], ids[part][at]) for s, at in parts.items()})
                self._note(ids[part], 1)
        except ShardError as error:
            self._undo(ids, error)
            raise
        return ids

    def _undo(self, ids: Ids, error: ShardError) -> None:
        """Remove what other shards took of an addition that failed."""
        parts = self._split(ids)
        for shard, at in parts.items():
            with contextlib.suppress(ShardError):
                self._ask("remove", {shard: (ids[at],)})
        self._recount(parts, error)

    def _recount(self, shards: Iterable[int], error: ShardError) -> None:
        """Ask what shards hold after a change that failed."""
        for shard in shards:
            try:
                self._counts[shard] = self._ask("state", {shard: ()})[shard][0]
            except ShardError:
                error.add_note(f"Shard {shard} may have taken a part of this change.")

    def _step(self, form: Any) -> int:
        """Return how many rows a request takes."""
        return max(1, _BLOCK // max(1, int(form[:1].nbytes)))

    def _split(self, ids: Ids) -> dict[int, Any]:
        """Return the positions of ids by shard, of shards that have some."""
        of = ids % self.shards
        return {shard: np.flatnonzero(of == shard) for shard in np.unique(of).tolist()}

    def _note(self, ids: Ids, sign: int) -> None:
        for shard, count in enumerate(np.bincount(ids % self.shards, minlength=self.shards).tolist()):
            self._counts[shard] += sign * count

    def _held(self, ids: Ids) -> Ids:
        parts = self._split(ids)
        found = self._ask("holds", {shard: (ids[at],) for shard, at in parts.items()})
        return np.concatenate([ids[:0], *(ids[at][found[shard]] for shard, at in parts.items())])

    def remove_ids(self, ids: Any) -> int:
        """Remove vectors; returns how many there were."""
        self._ready("remove_ids")
        held = self._held(np.unique(as_ids(ids, "remove_ids")))
        parts = self._split(held)
        try:
            self._ask("remove", {shard: (held[at],) for shard, at in parts.items()})
        except ShardError as error:
            self._recount(parts, error)
            raise
        self._note(held, -1)
        return len(held)

    def search(self, queries: Any, k: int, *, allow: Allowed = None, nprobe: int | None = None) -> Hits:
        """Return the k nearest vectors of each query; see `Index.search`.

        Parameters
        ----------
        queries : array_like, (Q, d) or (d,)
        k : int
        allow : array_like of int or callable, optional
            A function must be one that can be sent to the workers.
        nprobe : int, optional
            Of an index with lists: how many to look at, this time.
        """
        self._ready("search")
        k = as_count(k, "search")
        options = self._options("search", nprobe)
        form = self.index._given_form(self.index._vectors(queries, "search"))
        step, largest = self._step(form), largest_first(self.index.metric)
        requests = self._allowed(allow)
        best = [nothing(0, k, largest)]
        for low in range(0, len(form), step):
            block = form[low : low + step]
            found = self._ask("search", {s: (block, k, part) for s, part in requests.items()}, **options)
            parts = zip(*found.values(), strict=True)
            best.append(ranked(*(np.concatenate(part, axis=1) for part in parts), k, largest))
        made = Hits(*(np.concatenate(part) for part in zip(*best, strict=True)))
        if self.index.metric == "hamming":
            return made._replace(distances=whole(made.distances, made.ids))  # type: ignore[arg-type]
        return made

    def _options(self, who: str, nprobe: int | None) -> dict[str, int]:
        if isinstance(self.index, IndexIVF):
            return {"nprobe": as_count(self.index.nprobe if nprobe is None else nprobe, who, "nprobe")}
        if nprobe is not None:
            raise TypeError(f"{who}: nprobe is for indexes with lists; this is {type(self.index).__name__}.")
        return {}

    def _allowed(self, allow: Allowed) -> dict[int, Any]:
        if allow is None or callable(allow):
            return dict.fromkeys(range(self.shards), allow)
        ids = as_ids(allow, "search: allow")
        return {shard: ids[ids % self.shards == shard] for shard in range(self.shards)}

    def range_search(
        self, queries: Any, radius: float, *, allow: Allowed = None, nprobe: int | None = None
    ) -> RangeHits:  # fmt: skip
        """Return all vectors nearer than `radius`; see `Index.range_search`."""
        self._ready("range_search")
        options = self._options("range_search", nprobe)
        form = self.index._given_form(self.index._vectors(queries, "range_search"))
        step, requests, blocks = self._step(form), self._allowed(allow), []
        for low in range(0, len(form), step):
            block = form[low : low + step]
            found = self._ask(
                "range_search", {s: (block, radius, part) for s, part in requests.items()}, **options
            )
            blocks.append(_joined(list(found.values()), largest_first(self.index.metric)))
        counts = np.concatenate([np.zeros(1, np.int64), *(np.diff(block.limits) for block in blocks)])
        kind = np.int32 if self.index.metric == "hamming" else np.float32
        return RangeHits(
            np.cumsum(counts),
            np.concatenate([np.zeros(0, kind), *(block.distances for block in blocks)]),
            np.concatenate([np.zeros(0, np.int64), *(block.ids for block in blocks)]),
        )

    def reconstruct(self, ids: Any) -> Any:
        """Return the vectors of ids; see `Index.reconstruct`."""
        self._ready("reconstruct")
        wanted = as_ids(np.atleast_1d(np.asarray(ids)), "reconstruct")
        held = self._held(wanted)
        if len(held) < len(wanted):
            raise KeyError(f"reconstruct: the index has no id {np.setdiff1d(wanted, held)[0]}")
        parts = self._split(wanted)
        rows = self._ask("reconstruct", {shard: (wanted[at],) for shard, at in parts.items()})
        made = np.concatenate([self.index.reconstruct(wanted[:0]), *rows.values()])
        made[np.concatenate([np.zeros(0, np.int64), *parts.values()])] = made.copy()
        return made if np.ndim(ids) else made[0]

    def compact(self) -> None:
        """Make the journals of all shards part of their files."""
        self._ready("compact")
        self._ask("compact", dict.fromkeys(range(self.shards), ()))

    def close(self) -> None:
        """Let the workers close all shards. What was added is on their disks already."""
        with contextlib.suppress(ShardError):  # lost workers hold nothing open
            self._release()
        self._opened = False
        self._dispatch.closed = True

    def _release(self) -> None:
        if self._opened and not self._dispatch.closed:
            self._ask("close", dict.fromkeys(range(self.shards), ()))
        self._opened = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:  # fmt: skip
        self.close()

    def __repr__(self) -> str:
        return f"ShardedIndex({self.index!r}, shards={self.shards}, ntotal={self.ntotal})"


def _shards_of(folder: Path) -> int:
    source = folder / _MANIFEST
    try:
        content = json.loads(source.read_bytes())
        shards = content["shards"] if content["format"] == _FORMAT and content["version"] == 1 else 0
    except (ValueError, KeyError, TypeError) as error:
        raise FileFormatError(
            f"{source}: not the list of an index's shards, or damaged: {error!r}."
        ) from error
    if not isinstance(shards, int) or shards < 1:
        raise FileFormatError(
            f"{source}: not the list of an index's shards, of this version: {content!r:.80}."
        )
    return shards


def _joined(parts: list[RangeHits], largest: bool) -> RangeHits:
    """Return the hits of all shards, those of each query nearest first, of equals the lower id."""
    queries = np.concatenate([np.repeat(np.arange(len(p.limits) - 1), np.diff(p.limits)) for p in parts])
    distances, ids = (
        np.concatenate(column) for column in zip(*((p.distances, p.ids) for p in parts), strict=True)
    )
    order = np.lexsort((ids, -distances if largest else distances, queries))
    limits = np.cumsum([0, *np.bincount(queries, minlength=len(parts[0].limits) - 1)], dtype=np.int64)
    return RangeHits(limits, distances[order], ids[order])
