"""Nearest rows on the CPU.

A row is first scored fast: in float32, vectorised, for many queries by a matrix product, of bytes where the CPU is
quick at that. If the error of that score allows that the row is among the best k so far, it is scored again in float64,
term by term in order, and that number (rounded to float32) decides. About ``k log(N / k)`` rows of N need it, and the
result depends on nothing but the query and the rows: not on blocks, threads, or other queries. A single query is bound
by reading the rows once.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from grilly_ext_memory.kernels.bytes_cpu import ByteProducts
from grilly_ext_memory.kernels.heaps import NOWHERE, empty_heaps
from grilly_ext_memory.kernels.products_cpu import Products
from grilly_ext_memory.kernels.scores_cpu import CITY, COSINE, INNER, UNIT, Kinds, Scores, measure

__all__ = ["anew", "finish", "mask_of", "register"]

#: Queries from which on a matrix product is faster than reading the rows for each of them.
_MANY: Final = 12
_PARTS: Final = 4  # of the lists of one query
_TOGETHER: Final = 1 << 13  # queries that are multiplied
_MAX: Final = np.finfo(np.float32).max

_push: Any = None  # these are replaced by compiled functions
_sort: Any = None
_exact: Any = None
_fast: Any = None
_bound: Any = None
_anew: Any = None


def anew(probes: Any, p: int, lists: int) -> bool:
    """Whether the list that is probed p-th exists and was not probed before."""
    if not 0 <= probes[p] < lists:
        return False
    seen = 0
    for before in range(p):
        seen += probes[before] == probes[p]
    return seen == 0


def scan_rows(start: int, stop: int, args: Any) -> None:
    """Look at rows of one block for every query."""
    queries, rows, mask, kind, lengths, slack, block, scores, places = args
    at = start // block
    for j in range(start, stop):
        if mask.size and not mask[j]:
            continue
        for i in range(queries.shape[0]):
            heap = scores[at, i]
            if not _fast(queries[i], rows[j], kind, lengths[i], slack) > _bound(heap[0], kind):
                score = _exact(queries[i], rows[j], kind)
                if score == score:
                    _push(heap, places[at, i], score, j)


def scan_lists(start: int, stop: int, args: Any) -> None:
    """Look at the lists of some queries, or at a part of them."""
    queries, rows, mask, kind, lengths, slack, offsets, probes, scores, places = args
    each = (probes.shape[1] + scores.shape[0] - 1) // scores.shape[0]
    for unit in range(start, stop):
        part, i = unit // queries.shape[0], unit % queries.shape[0]
        heap, where = scores[part, i], places[part, i]
        for p in range(part * each, min((part + 1) * each, probes.shape[1])):
            if not _anew(probes[i], p, offsets.size - 1):
                continue
            for j in range(offsets[probes[i, p]], offsets[probes[i, p] + 1]):
                if mask.size and not mask[j]:
                    continue
                if not _fast(queries[i], rows[j], kind, lengths[i], slack) > _bound(heap[0], kind):
                    score = _exact(queries[i], rows[j], kind)
                    if score == score:
                        _push(heap, where, score, j)
        _sort(heap, where)


class _Search:
    """The kernels, compiled when they are first called."""

    def __init__(self, runtime: Any) -> None:
        scores = Scores(runtime)
        self.rows = scores.kernel(scan_rows)
        self.lists = scores.kernel(scan_lists, _anew=runtime.njit(anew))
        self.measure = scores.kernel(measure, summing=True)
        self.products, self.bytes = Products(scores), ByteProducts(scores)

    def search(self, stream: Any, outs: Any, ins: Any, attrs: dict[str, Any]) -> None:
        """Of all rows."""
        queries, rows, mask = ins[0].array, ins[1].array, mask_of(ins[2])
        kind, k = Kinds[attrs["metric"]], attrs["k"]
        if len(queries) < _MANY or kind == CITY:
            found = self._by_rows(queries, rows, mask, kind, k)
        else:
            found = self._by_products(queries, rows, mask, kind, k)
        finish(outs, *found, negate=kind == INNER)

    def _by_rows(self, queries: Any, rows: Any, mask: Any, kind: int, k: int) -> Any:
        block = max(4096 // max(len(queries), 1), 256, -(-len(rows) // 32))
        blocks = max(1, -(-len(rows) // block))
        scores, places = empty_heaps(blocks, len(queries), k)
        slack = np.float32((queries.shape[1] + 8) * UNIT)
        self.rows(
            len(rows), block, (queries, rows, mask, kind, _lengths(queries), slack, block, scores, places)
        )
        return _merged(scores, places)

    def _by_products(self, queries: Any, rows: Any, mask: Any, kind: int, k: int) -> Any:
        scores, places = empty_heaps(len(queries), k)
        for first in range(0, len(queries), _TOGETHER):
            some = slice(first, first + _TOGETHER)
            self._multiply(queries[some], rows, mask, kind, (scores[some], places[some]))
        return _merged(scores[None], places[None])

    def _multiply(self, queries: Any, rows: Any, mask: Any, kind: int, best: Any) -> None:
        sizes, done = np.empty(len(queries)), 0
        self.measure(len(queries), 256, (queries, sizes))
        scaled = queries
        if kind in (INNER, COSINE):
            scaled = (queries / np.sqrt(np.where(sizes > 0, sizes, 1.0))[:, None]).astype(np.float32)
        if self.bytes.serve(queries, rows):
            done = self.bytes.search(queries, scaled, sizes, rows, mask, kind, best)
        if done < len(rows):
            self.products.search(queries, scaled, sizes, rows, mask, kind, best, done)

    def list_search(self, stream: Any, outs: Any, ins: Any, attrs: dict[str, Any]) -> None:
        """Of the lists that each query looks at; those of few queries are shared out."""
        queries, rows, offsets, probes = (view.array for view in ins[:4])
        kind, count = Kinds[attrs["metric"]], len(queries)
        parts = max(1, min(_PARTS // max(count, 1), probes.shape[1]))
        scores, places = empty_heaps(parts, count, attrs["k"])
        slack, lengths = np.float32((queries.shape[1] + 8) * UNIT), _lengths(queries)
        mask = mask_of(ins[4])
        self.lists(
            parts * count, 1, (queries, rows, mask, kind, lengths, slack, offsets, probes, scores, places)
        )
        found = (scores[0], places[0]) if parts == 1 else _merged(scores, places)
        finish(outs, *found, negate=kind == INNER)


def mask_of(view: Any) -> NDArray[np.bool_]:
    """Return the mask, empty if there is none."""
    return np.zeros(0, np.bool_) if view is None else view.array


def _lengths(queries: Any) -> NDArray[np.float32]:
    return np.sqrt(np.einsum("ij,ij->i", queries, queries, dtype=np.float64)).astype(np.float32)


def _merged(scores: NDArray[np.float32], places: NDArray[np.int32]) -> Any:
    """Return the best of heaps ``(blocks, Q, k)``, in order."""
    k = scores.shape[2]
    if k == len(scores) == 1:
        return scores[0], places[0]
    flat = [np.moveaxis(part, 0, 1).reshape(part.shape[1], -1) for part in (scores, places)]
    order = np.lexsort((flat[1], flat[0]), axis=-1)[:, :k]
    return tuple(np.take_along_axis(part, order, 1) for part in flat)


def finish(outs: Any, scores: Any, places: Any, *, negate: bool) -> None:
    """Write scores and positions; an empty place becomes -1 and the largest float32."""
    missing = places == NOWHERE
    outs[0].array[...] = np.where(missing, -_MAX if negate else _MAX, -scores if negate else scores)
    outs[1].array[...] = np.where(missing, -1, places)


def _served(c: Any) -> bool:
    """Whether rows are float32 and there is one mask for all queries."""
    mask = c.ins[-1]
    return all(s.dtype.code == "f32" for s in c.ins[:2]) and (mask is None or len(mask.shape) == 1)


def register(kernels: Any, runtime: Any) -> None:
    """Declare the kernels."""
    made = _Search(runtime)
    how: dict[str, Any] = {"dtypes": {"f32"}, "layout": "contiguous", "when": _served}
    kernels.add("faiss.search", made.search, **how)
    kernels.add("faiss.list_search", made.list_search, **how)
