"""Graphs of neighbours (HNSW, Malkov and Yashunin 2018), by the `hnswlib` library behind the same interface."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from grilly_core.errors import MissingPluginError
from grilly_ext_memory.index.arguments import Vectors, as_count, as_metric, largest_first
from grilly_ext_memory.index.base import Allowed, Index, allowed
from grilly_ext_memory.index.codecs import Raw
from grilly_ext_memory.index.ranking import Hits, Ids, ranked

__all__ = ["IndexHNSW"]

_SPACES: Final = {"sqeuclidean": "l2", "l2": "l2", "ip": "ip", "cosine": "cosine"}


class IndexHNSW(Index):
    """Vectors in float32 with a graph of neighbours, which a search walks towards the query. Runs on the CPU.

    The graph proposes ``max(k, ef_search)`` vectors and their distances are then computed directly, so those that are
    returned are exact; which are found is not. Needs the package `hnswlib` (the extra ``hnsw``).

    Parameters
    ----------
    d : int
    m : int
        Neighbours of a vector.
    metric : {"sqeuclidean", "l2", "ip", "cosine"}
    ef_construction, ef_search : int
        Candidates that are kept while adding and searching: more is slower and finds more. The second may be set later.
    seed : int
    device : Device or str, optional
        Taken for the interface's sake; must be the CPU.

    Notes
    -----
    Removed vectors leave the graph when it is built anew, at the next search.
    """

    __slots__ = ("_graph", "ef_construction", "ef_search", "m")

    def __init__(
        self, d: int, m: int = 16, metric: str = "sqeuclidean", *, ef_construction: int = 200, ef_search: int = 64,
        seed: int = 0, device: Any = None,
    ) -> None:  # fmt: skip
        if metric == "l1":
            raise ValueError(f"IndexHNSW: metric is one of {', '.join(_SPACES)}; received 'l1'.")
        if device is not None and str(device) != "cpu":
            raise ValueError(f"IndexHNSW runs on the CPU; received device {str(device)!r}.")
        super().__init__(d, as_metric(metric), Raw(), seed=seed, device="cpu")
        self.m = as_count(m, "IndexHNSW", "m")
        self.ef_construction = as_count(ef_construction, "IndexHNSW", "ef_construction")
        self.ef_search = as_count(ef_search, "IndexHNSW", "ef_search")
        self._graph: Any = None
        _library()

    def settings(self) -> dict[str, Any]:
        """Return the arguments that make such an index again, as JSON."""
        own = {
            "m": self.m,
            "ef_construction": self.ef_construction,
            "ef_search": self.ef_search,
            "seed": self.seed,
        }
        return {**super().settings(), **own}

    def _insert(self, rows: Vectors, ids: Ids) -> Ids:
        super()._insert(rows, ids)
        if self._graph is not None:
            self._put(self._graph, rows, ids)
        return ids

    def _put(self, graph: Any, rows: Vectors, ids: Ids) -> None:
        if len(rows):
            needed = graph.get_current_count() + len(rows)
            if needed > graph.get_max_elements():
                graph.resize_index(max(needed, 2 * graph.get_max_elements()))
            graph.add_items(rows, ids)

    def _built(self) -> Any:
        """Return the graph of all vectors, made if it is not there."""
        if self._graph is None:
            graph = _library().Index(_SPACES[self.metric], self.d)
            graph.init_index(max(self.ntotal, 1), self.ef_construction, self.m, self.seed + 1)
            for run in self._segments:
                self._put(graph, run.codes, run.ids)
            self._graph = graph
        return self._graph

    def _search(self, rows: Vectors, k: int, allow: Allowed, probes: NDArray[np.int32] | None) -> Hits:
        held = self.ids
        mask = allowed(held, allow)
        kept = held if mask is None else held[mask]
        usable = np.isfinite(rows).all(axis=1)
        count = min(max(k, self.ef_search), len(kept))
        found = np.full((len(rows), count), -1, np.int64)
        if count and usable.any():
            found[usable] = self._walk(rows[usable], count, None if mask is None else set(kept.tolist()))
        return ranked(self._direct(rows, found), found, k, largest_first(self.metric))

    def _walk(self, rows: Vectors, count: int, kept: set[int] | None) -> NDArray[Any]:
        graph = self._built()
        graph.set_ef(max(count, self.ef_search))
        while True:
            try:
                labels, _ = graph.knn_query(rows, count, filter=None if kept is None else kept.__contains__)
            except RuntimeError:  # the walk met fewer than it was asked for
                if count == 1:
                    return np.full((len(rows), 1), -1, np.int64)
                count = max(1, count // 2)
            else:
                found: NDArray[Any] = labels.astype(np.int64)
                return found

    def _direct(self, rows: Vectors, found: Ids) -> Vectors:
        """Return the distances of candidates in float64, rounded once."""
        if not found.size:
            return np.zeros(found.shape, np.float32)
        codes = self._segments.take(np.maximum(found, self.ids[0]).reshape(-1))
        assert codes is not None
        there, q = codes.reshape(*found.shape, self.d).astype(np.float64), rows[:, None].astype(np.float64)
        if self.metric in ("ip", "cosine"):
            made = (there * q).sum(axis=-1)
            if self.metric == "cosine":
                lengths = np.linalg.norm(there, axis=-1) * np.linalg.norm(q, axis=-1)
                made = 1 - np.divide(made, lengths, out=np.zeros_like(made), where=lengths > 0)
        else:
            made = ((there - q) ** 2).sum(axis=-1)
            made = np.sqrt(made) if self.metric == "l2" else made
        return made.astype(np.float32)

    def remove_ids(self, ids: Any) -> int:
        """Remove vectors; see `Index.remove_ids`."""
        gone = super().remove_ids(ids)
        if gone:
            self._graph = None
        return gone

    def merge_from(self, other: Index) -> None:
        """Take all vectors of another index; see `Index.merge_from`."""
        super().merge_from(other)
        self._graph = None

    def reset(self) -> None:
        """Remove all vectors; the count of ids stays."""
        super().reset()
        self._graph = None

    def _learnt(self) -> dict[str, NDArray[Any]]:
        """Return the graph as the library writes it, so that a file need not be built anew."""
        if not self.ntotal:
            return {}
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "graph"
            self._built().save_index(str(path))
            return {"graph": np.frombuffer(path.read_bytes(), np.uint8)}

    def _same_training(self, other: Index) -> bool:
        return isinstance(other, IndexHNSW) and (self.d, self.metric) == (other.d, other.metric)

    def _restore(self, arrays: dict[str, NDArray[Any]]) -> None:
        if "graph" in arrays:
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder) / "graph"
                arrays["graph"].tofile(path)
                self._graph = _library().Index(_SPACES[self.metric], self.d)
                self._graph.load_index(str(path))


def _library() -> Any:
    try:
        import hnswlib
    except ImportError as error:
        raise MissingPluginError(
            "IndexHNSW needs the package hnswlib: `pip install './grilly_ext_memory[hnsw]'` from a checkout of grilly."
        ) from error
    return hnswlib
