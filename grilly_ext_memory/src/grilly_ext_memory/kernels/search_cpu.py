"""Nearest rows on the CPU.

A row is first scored fast: in float32, vectorised, for many queries by a matrix product. If the error of that score
allows that the row is among the best k so far, it is scored again in float64, term by term in order, and that number
(rounded to float32) decides. About ``k log(N / k)`` rows of N need it, and the result depends on nothing but the query
and the rows: not on blocks, threads, or other queries. A single query is bound by reading the rows once.
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from grilly_ext_memory.kernels.heaps import NOWHERE, Heaps, empty_heaps

__all__ = ["Kinds", "anew", "finish", "mask_of", "register"]

SQUARES, EUCLID, INNER, COSINE, CITY = range(5)
Kinds: Final = {"sqeuclidean": SQUARES, "l2": EUCLID, "ip": INNER, "cosine": COSINE, "l1": CITY}

#: Queries from which on a matrix product is faster than reading the rows for each of them.
_MANY: Final = 12
#: Rows, and numbers, of one matrix product, which packs its factors anew: 8 MiB of results.
_ROWS: Final = 1024
_PRODUCTS: Final = 1 << 21
#: Rows that are compared with the worst of the best at once, and those of a strip where some are below it.
_STRIP: Final = 64
_VECTOR: Final = 16
#: Pairs of a query and a row that are scored exactly together.
_PAIRS: Final = 64
_UNIT: Final = 2.0**-24
_MAX: Final = np.finfo(np.float32).max

_push: Any = None  # these are replaced by compiled functions
_sort: Any = None
_exact: Any = None
_fast: Any = None
_bound: Any = None
_anew: Any = None
_beyond: Any = None
_seed: Any = None
_fill: Any = None
_add: Any = None
_decide: Any = None


def exact(q: Any, x: Any, kind: int) -> np.float32:
    """Return the score of a row in float64, term by term, rounded to float32; smaller is nearer."""
    total = 0.0
    if kind in (SQUARES, EUCLID):
        for d in range(q.size):
            apart = np.float64(q[d]) - np.float64(x[d])
            total += apart * apart
        return np.float32(math.sqrt(total)) if kind == EUCLID else np.float32(total)
    if kind == CITY:
        for d in range(q.size):
            total += abs(np.float64(q[d]) - np.float64(x[d]))
        return np.float32(total)
    if kind == INNER:
        for d in range(q.size):
            total += np.float64(q[d]) * np.float64(x[d])
        return np.float32(-total)
    qq, xx = 0.0, 0.0
    for d in range(q.size):
        a, b = np.float64(q[d]), np.float64(x[d])
        total += a * b
        qq += a * a
        xx += b * b
    if (qq == 0.0 or xx == 0.0) and total == total:
        return np.float32(1.0)
    return np.float32(max(1.0 - total / math.sqrt(qq) / math.sqrt(xx), 0.0))


def fast(q: Any, x: Any, kind: int, length: Any, slack: Any) -> Any:
    """Return a number that the exact score (squared, for lengths) is not below."""
    s, xx = np.float32(0), np.float32(0)
    if kind in (SQUARES, EUCLID):
        for d in range(q.size):
            apart = q[d] - x[d]
            s += apart * apart
        return s - s * slack
    if kind == CITY:
        for d in range(q.size):
            s += abs(q[d] - x[d])
        return s - s * slack
    for d in range(q.size):
        s += q[d] * x[d]
        xx += x[d] * x[d]
    if kind == INNER:
        return -s - slack * length * np.sqrt(xx)
    return np.float32(1) - s / (length * np.sqrt(xx)) - np.float32(4) * slack


def bound(worst: Any, kind: int) -> Any:
    """Return what fast scores are compared with: the worst score so far, squared for lengths, and a little more."""
    if kind == EUCLID:
        return worst * worst * np.float32(1.000001)
    return worst + abs(worst) * np.float32(0.000001)


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
    """Look at the lists of some queries."""
    queries, rows, mask, kind, lengths, slack, offsets, probes, scores, places = args
    for i in range(start, stop):
        heap = scores[i]
        for p in range(probes.shape[1]):
            if not _anew(probes[i], p, offsets.size - 1):
                continue
            for j in range(offsets[probes[i, p]], offsets[probes[i, p] + 1]):
                if mask.size and not mask[j]:
                    continue
                if not _fast(queries[i], rows[j], kind, lengths[i], slack) > _bound(heap[0], kind):
                    score = _exact(queries[i], rows[j], kind)
                    if score == score:
                        _push(heap, places[i], score, j)
        _sort(heap, places[i])


def weigh(start: int, stop: int, args: Any) -> None:
    """Return for each row what its product with a query is multiplied by and added to, less the error."""
    rows, kind, slack, factor, added = args
    for j in range(start, stop):
        total = 0.0
        row = rows[j]
        for d in range(row.size):
            total += np.float64(row[d]) * np.float64(row[d])
        if kind == INNER:
            factor[j], added[j] = -1.0, -slack * math.sqrt(total)
        elif kind == COSINE:
            factor[j] = -1.0 / math.sqrt(total) if total > 0.0 else 0.0
            added[j] = 1.0 - 4.0 * slack
        else:
            factor[j], added[j] = -2.0, total * (1.0 - slack)


def beyond(part: Any, f: Any, a: Any, limit: Any) -> Any:
    """Return how many weighed products are above a limit; as a float, which is summed in vectors."""
    count = np.float32(0)
    for j in range(part.size):
        count += np.float32(1) if a[j] + f[j] * part[j] > limit else np.float32(0)
    return count


def seed(
    line: Any, f: Any, a: Any, mask: Any, kind: int, size: float, slack: float, lows: Any, places: Any
) -> Any:
    """Return a limit from one block: so many rows as are wanted have exact scores that are not above it.

    A row's exact score is at most so far above its bound as the bound is below, so the rows with the lowest bounds say
    it without being scored. Infinite if the block has too few rows.
    """
    for low in range(0, line.size, _STRIP):
        high = min(low + _STRIP, line.size)
        if _beyond(line[low:high], f[low:high], a[low:high], lows[0]) == high - low:
            continue
        for at in range(low, high, _VECTOR):
            end = min(at + _VECTOR, high)
            if _beyond(line[at:end], f[at:end], a[at:end], lows[0]) == end - at:
                continue
            for j in range(at, end):
                bound = a[j] + f[j] * line[j]
                if bound < lows[0] and (mask.size == 0 or mask[j]):
                    _push(lows, places, bound, j)
    if places[0] == NOWHERE:
        return np.float32(np.inf)
    most = -np.inf
    for i in range(lows.size):
        bound, weight = np.float64(lows[i]), abs(np.float64(a[places[i]]))
        if kind == COSINE:
            above = 8.0 * slack + 4e-6
        elif kind == INNER:
            above = 2.0 * weight + 4e-6 * (abs(bound) + weight) + 1e-37
        else:
            above = 3.0 * slack * (weight + size) + 4e-6 * (abs(bound) + size)
        most = max(most, bound + above)
    return np.float32(most)


def fill_terms(q: Any, x: Any, kind: int, terms: Any) -> None:
    """Write the terms of an exact score."""
    if kind == INNER:
        for d in range(q.size):
            terms[d] = np.float64(q[d]) * np.float64(x[d])
    else:
        for d in range(q.size):
            apart = np.float64(q[d]) - np.float64(x[d])
            terms[d] = apart * apart


def add_eight(terms: Any, totals: Any) -> None:
    """Add eight lines of terms, each in order: eight sums hide what one addition waits for another."""
    a, b, c, d = 0.0, 0.0, 0.0, 0.0
    e, f, g, h = 0.0, 0.0, 0.0, 0.0
    for i in range(terms.shape[1]):
        a += terms[0, i]
        b += terms[1, i]
        c += terms[2, i]
        d += terms[3, i]
        e += terms[4, i]
        f += terms[5, i]
        g += terms[6, i]
        h += terms[7, i]
    totals[0], totals[1], totals[2], totals[3] = a, b, c, d
    totals[4], totals[5], totals[6], totals[7] = e, f, g, h


def decide(
    queries: Any, rows: Any, pairs: Any, kind: int, terms: Any, totals: Any, scores: Any, places: Any
) -> None:
    """Score pairs of a query and a row exactly, and keep the best."""
    for first in range(0, len(pairs), 8):
        last = min(first + 8, len(pairs))
        if kind != COSINE:
            for p in range(first, last):
                _fill(queries[pairs[p, 0]], rows[pairs[p, 1]], kind, terms[p - first])
            _add(terms, totals)
        for p in range(first, last):
            i, j = pairs[p]
            if kind == COSINE:
                score = _exact(queries[i], rows[j], kind)
            elif kind == INNER:
                score = np.float32(-totals[p - first])
            else:
                score = np.float32(math.sqrt(totals[p - first]) if kind == EUCLID else totals[p - first])
            if score == score:
                _push(scores[i], places[i], score, j)


def pick(start: int, stop: int, args: Any) -> None:
    """Look at the products of some queries with a block of rows."""
    products, queries, rows, mask, first, kind, sizes, slack, factor, added, scores, places = args
    count = products.shape[1]
    allowed = mask[first : first + count] if mask.size else mask
    f, a = factor[first : first + count], added[first : first + count]
    lows, where = np.empty(scores.shape[1], np.float32), np.empty(scores.shape[1], np.int32)
    pairs, terms, totals = np.empty((_PAIRS, 2), np.int64), np.zeros((8, rows.shape[1])), np.empty(8)
    waiting = 0
    for i in range(start, stop):
        line, size = products[i], sizes[i]
        limit = _limit(scores[i, 0], kind, size, slack)
        if places[i, 0] == NOWHERE and count > lows.size:
            lows[:], where[:] = np.inf, NOWHERE
            limit = min(limit, _seed(line, f, a, allowed, kind, size, slack, lows, where))
        for low in range(0, count, _STRIP):
            high = min(low + _STRIP, count)
            if _beyond(line[low:high], f[low:high], a[low:high], limit) == high - low:
                continue
            for at in range(low, high, _VECTOR):
                end = min(at + _VECTOR, high)
                if _beyond(line[at:end], f[at:end], a[at:end], limit) == end - at:
                    continue
                for j in range(at, end):
                    if a[j] + f[j] * line[j] > limit or (mask.size and not allowed[j]):
                        continue
                    pairs[waiting, 0], pairs[waiting, 1] = i, first + j
                    waiting += 1
                    if waiting == _PAIRS:
                        _decide(queries, rows, pairs, kind, terms, totals, scores, places)
                        waiting = 0
                        limit = min(limit, _limit(scores[i, 0], kind, size, slack))
    _decide(queries, rows, pairs[:waiting], kind, terms, totals, scores, places)


def measure(start: int, stop: int, args: Any) -> None:
    """Return squared lengths."""
    rows, out = args
    for j in range(start, stop):
        total, row = 0.0, rows[j]
        for d in range(row.size):
            total += np.float64(row[d]) * np.float64(row[d])
        out[j] = total


_limit: Any = None


def limit(worst: Any, kind: int, size: float, slack: float) -> Any:
    """Return what a weighed product is compared with; see `weigh`. `size` is the query's squared length.

    Queries were scaled to length 1 for inner products and cosines.
    """
    w = np.float64(_bound(worst, kind))
    if kind == INNER:
        w = w / math.sqrt(size) if size > 0.0 else w
        return np.float32(w + abs(w) * 1e-6 + 1e-37)
    if kind == COSINE:
        return np.float32(w + 1e-6)
    return np.float32(w - size * (1.0 - 2.0 * slack) + 1e-6 * w)


class _Search:
    """The kernels, compiled when they are first called."""

    def __init__(self, runtime: Any) -> None:
        heaps, sums = Heaps(runtime), {"fastmath": {"reassoc", "contract", "nsz"}}
        plain = {
            "_exact": exact, "_bound": bound, "_limit": limit, "_anew": anew, "_seed": seed, "_fill": fill_terms,
            "_add": add_eight, "_decide": decide,
        }  # fmt: skip
        names = {"_push": heaps.push, "_sort": heaps.sort}
        names |= {"_fast": runtime.njit(fast, **sums), "_beyond": runtime.njit(beyond, **sums)}
        names |= {name: runtime.njit(function) for name, function in plain.items()}
        names["_limit"].replaced["_bound"] = names["_bound"]
        for name in ("_seed", "_decide"):
            names[name].replaced.update(
                {n: names[n] for n in ("_push", "_beyond", "_exact", "_fill", "_add")}
            )
        made = []
        for function in (scan_rows, scan_lists, pick):
            body = runtime.njit(function)
            body.replaced.update(names)
            made.append(runtime.split(body))
        self.rows, self.lists, self.products = made
        self.weigh, self.measure = (runtime.split(runtime.njit(f, **sums)) for f in (weigh, measure))
        self.sort, self.product = heaps.sort, runtime.product

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
        slack = np.float32((queries.shape[1] + 8) * _UNIT)
        self.rows(
            len(rows), block, (queries, rows, mask, kind, _lengths(queries), slack, block, scores, places)
        )
        return _merged(scores, places)

    def _by_products(self, queries: Any, rows: Any, mask: Any, kind: int, k: int) -> Any:
        scores, places = empty_heaps(len(queries), k)
        slack = (queries.shape[1] + 16) * _UNIT
        factor, added = np.empty(len(rows), np.float32), np.empty(len(rows), np.float32)
        self.weigh(len(rows), 1024, (rows, kind, slack, factor, added))
        sizes = np.empty(len(queries))
        self.measure(len(queries), 1024, (queries, sizes))
        scaled = queries
        if kind in (INNER, COSINE):
            scaled = (queries / np.sqrt(np.where(sizes > 0, sizes, 1.0))[:, None]).astype(np.float32)
        together = min(len(queries), _PRODUCTS // min(_ROWS, max(len(rows), 64)))
        memory = np.empty(together * min(_ROWS, len(rows)), np.float32)
        for first in range(0, len(rows), _ROWS):
            block = rows[first : first + _ROWS]
            for low in range(0, len(queries), together):
                some = slice(low, min(low + together, len(queries)))
                products = memory[: (some.stop - low) * len(block)].reshape(some.stop - low, len(block))
                self.product(scaled[some], block.T, products)
                self.products(len(products), max(8, min(64, len(products) // 16)), (
                    products, queries[some], rows, mask, first, kind, sizes[some], slack, factor, added, scores[some],
                    places[some],
                ))  # fmt: skip
        return _merged(scores[None], places[None])

    def list_search(self, stream: Any, outs: Any, ins: Any, attrs: dict[str, Any]) -> None:
        """Of the lists that each query looks at."""
        queries, rows, offsets, probes = (view.array for view in ins[:4])
        kind = Kinds[attrs["metric"]]
        scores, places = empty_heaps(len(queries), attrs["k"])
        slack = np.float32((queries.shape[1] + 8) * _UNIT)
        arguments = (
            queries,
            rows,
            mask_of(ins[4]),
            kind,
            _lengths(queries),
            slack,
            offsets,
            probes,
            scores,
            places,
        )
        self.lists(len(queries), 1, arguments)
        finish(outs, scores, places, negate=kind == INNER)


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
