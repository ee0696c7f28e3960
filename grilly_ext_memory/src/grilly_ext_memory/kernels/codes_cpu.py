"""Scores given, summed from tables, or counted in bits, on the CPU: one heap a query."""

from __future__ import annotations

from typing import Any

import numpy as np

from grilly_ext_memory.kernels.heaps import NOWHERE, Heaps, empty_heaps
from grilly_ext_memory.kernels.search_cpu import anew, finish, mask_of

__all__ = ["register"]

_push: Any = None  # replaced by compiled functions
_sort: Any = None
_anew: Any = None
_METRICS = {"sqeuclidean": 0, "ip": 1, "l1": 2}


def best_scores(start: int, stop: int, args: Any) -> None:
    """Look at the scores of some queries."""
    given, mask, sign, scores, places = args
    for i in range(start, stop):
        heap, line = scores[i], given[i]
        for j in range(line.size):
            score = sign * line[j]
            if score <= heap[0] and (mask.size == 0 or mask[j]):
                _push(heap, places[i], score, j)
        _sort(heap, places[i])


def best_codes(start: int, stop: int, args: Any) -> None:
    """Sum the tables of some queries over the codes in their lists."""
    tables, codes, offsets, probes, mask, sign, scores, places = args
    for i in range(start, stop):
        heap, last = scores[i], tables.shape[3] - 1
        for p in range(probes.shape[1]):
            if not _anew(probes[i], p, offsets.size - 1):
                continue
            table = tables[i, p]
            for j in range(offsets[probes[i, p]], offsets[probes[i, p] + 1]):
                if mask.size and not mask[j]:
                    continue
                total = np.float32(0)
                for m in range(codes.shape[1]):
                    total += table[m, min(codes[j, m], last)]
                total *= sign
                if total <= heap[0]:
                    _push(heap, places[i], total, j)
        _sort(heap, places[i])


def best_words(start: int, stop: int, args: Any) -> None:
    """Count the bits in which rows differ from some queries."""
    queries, rows, mask, scores, places = args
    for i in range(start, stop):
        heap = scores[i]
        for j in range(rows.shape[0]):
            count = np.uint32(0)
            for w in range(rows.shape[1]):
                x = np.uint32(queries[i, w] ^ rows[j, w])
                x = np.uint32(x - ((x >> np.uint32(1)) & np.uint32(0x55555555)))
                x = np.uint32((x & np.uint32(0x33333333)) + ((x >> np.uint32(2)) & np.uint32(0x33333333)))
                x = np.uint32((x + (x >> np.uint32(4))) & np.uint32(0x0F0F0F0F))
                count += np.uint32(x * np.uint32(0x01010101)) >> np.uint32(24)
            if np.float32(count) <= heap[0] and (mask.size == 0 or mask[j]):
                _push(heap, places[i], np.float32(count), j)
        _sort(heap, places[i])


def fill_tables(start: int, stop: int, args: Any) -> None:
    """Return the distances of parts to codewords, column by column."""
    queries, books, kind, out = args
    for r in range(start, stop):
        for m in range(books.shape[0]):
            part, line = queries[r, m], out[r, m]
            line[:] = 0
            for d in range(part.size):
                column = books[m, d]
                for j in range(line.size):
                    if kind == 1:
                        line[j] += part[d] * column[j]
                    elif kind == 0:
                        line[j] += (part[d] - column[j]) * (part[d] - column[j])
                    else:
                        line[j] += abs(part[d] - column[j])


class _Codes:
    """The kernels, compiled when they are first called."""

    def __init__(self, runtime: Any) -> None:
        heaps, known, made = Heaps(runtime), runtime.njit(anew), []
        for function in (best_scores, best_codes, best_words):
            body = runtime.njit(function)
            body.replaced.update({"_push": heaps.push, "_sort": heaps.sort, "_anew": known})
            made.append(runtime.split(body))
        self.scores, self.codes, self.words = made
        self.tables = runtime.split(runtime.njit(fill_tables))

    def topk(self, stream: Any, outs: Any, ins: Any, attrs: dict[str, Any]) -> None:
        """Of scores."""
        given, largest = ins[0].array, attrs["largest"]
        scores, places = empty_heaps(len(given), attrs["k"])
        self.scores(len(given), 1, (given, mask_of(ins[1]), np.float32(-1 if largest else 1), scores, places))
        finish(outs, scores, places, negate=largest)

    def code_search(self, stream: Any, outs: Any, ins: Any, attrs: dict[str, Any]) -> None:
        """Of coded rows."""
        tables, codes, offsets, probes = (view.array for view in ins[:4])
        largest = attrs["largest"]
        scores, places = empty_heaps(len(tables), attrs["k"])
        sign = np.float32(-1 if largest else 1)
        self.codes(len(tables), 1, (tables, codes, offsets, probes, mask_of(ins[4]), sign, scores, places))
        finish(outs, scores, places, negate=largest)

    def hamming(self, stream: Any, outs: Any, ins: Any, attrs: dict[str, Any]) -> None:
        """Of words of bits; counts are below 2^24, so float32 holds them."""
        scores, places = empty_heaps(len(ins[0].array), attrs["k"])
        self.words(len(scores), 1, (ins[0].array, ins[1].array, mask_of(ins[2]), scores, places))
        missing = places == NOWHERE
        outs[0].array[...] = np.where(missing, np.float64(NOWHERE), scores.astype(np.float64)).astype(
            np.int32
        )
        outs[1].array[...] = np.where(missing, -1, places)

    def code_tables(self, stream: Any, outs: Any, ins: Any, attrs: dict[str, Any]) -> None:
        """Of parts and codewords; codewords are turned so that the inner loop is over them."""
        queries, books = ins[0].array, np.ascontiguousarray(ins[1].array.transpose(0, 2, 1))
        self.tables(len(queries), 4, (queries, books, _METRICS[attrs["metric"]], outs[0].array))


def _one_mask(c: Any) -> bool:
    return c.ins[0].dtype.code in ("f32", "u32") and (c.ins[-1] is None or len(c.ins[-1].shape) == 1)


def register(kernels: Any, runtime: Any) -> None:
    """Declare the kernels."""
    made = _Codes(runtime)
    how: dict[str, Any] = {"dtypes": {"f32", "u32", "i32", "b1"}, "layout": "contiguous"}
    kernels.add("faiss.topk", made.topk, when=_one_mask, **how)
    kernels.add("faiss.code_search", made.code_search, when=_one_mask, **how)
    kernels.add("faiss.hamming_topk", made.hamming, when=_one_mask, **how)
    kernels.add("faiss.code_tables", made.code_tables, **(how | {"dtypes": {"f32"}}))
