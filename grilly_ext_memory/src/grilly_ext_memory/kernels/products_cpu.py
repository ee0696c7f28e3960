"""Search by products of blocks of rows with many queries in float32, on the CPU."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from grilly_ext_memory.kernels.picking_cpu import pick_line, room, seed
from grilly_ext_memory.kernels.scores_cpu import COSINE, FAR, INNER, UNIT, Scores

__all__ = ["Products"]

#: Rows, and numbers, of one matrix product, which packs its factors anew: 8 MiB of results.
_ROWS: Final = 1024
_PRODUCTS: Final = 1 << 21
_NEAR: Final = 1e-60  # a squared length below which products with it lose their digits

_pick_line: Any = None  # these are replaced by compiled functions
_room: Any = None
_decide: Any = None


def weigh(start: int, stop: int, args: Any) -> None:
    """Write for each row what is added to its product with a query, less the error, and what that is multiplied by.

    NaN marks a row of which no bound is known; NaN is not beyond any limit.
    """
    rows, kind, slack, terms = args
    for j in range(start, stop):
        total, row = 0.0, rows[j]
        for d in range(row.size):
            total += np.float64(row[d]) * np.float64(row[d])
        if not total < FAR or (kind == COSINE and 0.0 < total < _NEAR):
            terms[0, j], terms[1, j] = np.nan, 0.0
        elif kind == INNER:
            terms[0, j], terms[1, j] = -slack * math.sqrt(total), -1.0
        elif kind == COSINE:
            terms[0, j], terms[1, j] = 1.0 - 4.0 * slack, -1.0 / math.sqrt(total) if total > 0.0 else 0.0
        else:
            terms[0, j], terms[1, j] = total * (1.0 - slack), -2.0


def low(line: Any, terms: Any, given: Any, j: int) -> Any:
    """Return what the score of row j is not below, less what all rows of the query share."""
    return terms[0, j] + terms[1, j] * line[j]


def beyond(line: Any, terms: Any, given: Any, start: int, stop: int, limit: Any) -> Any:
    """Return how many of some rows are above a limit; as a float, which is summed in vectors."""
    part, a, f = line[start:stop], terms[0, start:stop], terms[1, start:stop]
    count = np.float32(0)
    for j in range(part.size):
        count += np.float32(1) if a[j] + f[j] * part[j] > limit else np.float32(0)
    return count


def above(bound: float, terms: Any, given: Any, j: int, kind: int, size: float, slack: float) -> float:
    """Return what the score of row j is not above, if `bound` is what it is not below."""
    weight = abs(np.float64(terms[0, j]))
    if kind == COSINE:
        return bound + 8.0 * slack + 4e-6
    if kind == INNER:
        vanished = 1e-44 / math.sqrt(size) if size > 0.0 else 0.0  # when scores are rounded to float32
        return bound + 2.0 * weight + 4e-6 * (abs(bound) + weight) + 1e-35 + vanished
    return bound + 3.0 * slack * (weight + size) + 4e-6 * (abs(bound) + size) + 1e-33 * slack


def near(q: Any, x: Any, kind: int, given: Any, slack: float) -> Any:
    """Return what a closer look says that a score is not below: nothing, as products say enough."""
    return -np.float32(np.inf)


def within(near: Any, terms: Any, given: Any, j: int, kind: int, slack: float) -> Any:
    """Return what the score of row j is then not above."""
    return np.float32(np.inf)


def pick(start: int, stop: int, args: Any) -> None:
    """Look at the products of some queries with a block of rows."""
    products, queries, rows, mask, first, kind, sizes, slack, terms, scores, places = args
    asked = _room(rows.shape[1], scores.shape[1])
    for i in range(start, stop):
        _pick_line(i, products[i], terms, terms[0], first, kind, sizes[i], slack, asked,
                   queries, rows, mask, scores, places)  # fmt: skip
    _decide(queries, rows, asked[0][: asked[2][0]], kind, asked[3], asked[4], scores, places)


class Products:
    """The kernels, compiled when they are first called."""

    def __init__(self, scores: Scores) -> None:
        parts = scores.parts(pick_line, seed, room, low, above, near, within, summing=(beyond,))
        self.weigh, self.pick = scores.kernel(weigh, summing=True), scores.kernel(pick, **parts)
        self.product = scores.runtime.quietly(scores.runtime.product)

    def search(
        self, queries: Any, scaled: Any, sizes: Any, rows: Any, mask: Any, kind: int, best: Any, start: int = 0
    ) -> None:  # fmt: skip
        """Bring the rows from `start` on into heaps; `scaled` are queries as `limit` wants them."""
        (scores, places), slack = best, (queries.shape[1] + 16) * UNIT
        together = min(len(queries), _PRODUCTS // min(_ROWS, max(len(rows), 64)))
        memory = np.empty(together * min(_ROWS, len(rows)), np.float32)
        terms = np.empty((2, min(_ROWS, len(rows))), np.float32)
        for first in range(start, len(rows), _ROWS):
            block = rows[first : first + _ROWS]
            self.weigh(len(block), 128, (block, kind, slack, terms))
            for low in range(0, len(queries), together):
                some = slice(low, min(low + together, len(queries)))
                products = memory[: (some.stop - low) * len(block)].reshape(some.stop - low, len(block))
                self.product(scaled[some], block.T, products)
                self.pick(len(products), max(8, min(64, len(products) // 16)), (
                    products, queries[some], rows, mask, first, kind, sizes[some], slack, terms, scores[some],
                    places[some],
                ))  # fmt: skip
