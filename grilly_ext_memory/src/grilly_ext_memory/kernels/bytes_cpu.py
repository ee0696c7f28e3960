"""Search by products of bytes on the CPU: rows and queries are rounded to multiples of a 127th of their largest number.

What a score may lose by that is bounded by the lengths of what was rounded away (Cauchy and Schwarz): of rows with 384
standard normal numbers some three times as many as by float32 are then scored in float32, and the products are three
times as fast. Where one number of a row is much larger than the others the bounds tell little; `search` says so after
the first block of rows, and float32 does the rest.
"""

from __future__ import annotations

import functools
import math
from typing import Any, Final

import numpy as np

from grilly_ext_memory.kernels.picking_cpu import pick_line, room, seed
from grilly_ext_memory.kernels.products_cpu import above as above_products
from grilly_ext_memory.kernels.scores_cpu import COSINE, FAR, INNER, UNIT, Scores

__all__ = ["ByteProducts"]

#: Queries and columns from which on rounding the rows pays.
_MANY: Final = 96
_WIDE: Final = 64
_ROWS: Final = 2048  # of a block
_ROUNDS: Final = 12582912.0  # 1.5 * 2^23: what is added to it is rounded to a whole number
_BITS: Final = 0x4B400000  # of that number
_LEAST: Final = 1e-12  # below it squares of what is lost may vanish
_WORTHLESS: Final = 1 / 16  # of all pairs passed on, above which bounds do not pay

_pick_line: Any = None  # these are replaced by compiled functions, and the numbers by the tile's shape
_room: Any = None
_decide: Any = None
_fast: Any = None
_largest: Any = None
_round_row: Any = None
_lost: Any = None
_split_row: Any = None
_above_products: Any = None
_tile: Any = None
_high: Any = None
_across: Any = None


def largest(bits: Any) -> Any:
    """Return the bits of the largest absolute number; those of NaN are above all."""
    most = np.int32(0)
    for d in range(bits.size):
        most = max(most, bits[d] & np.int32(0x7FFFFFFF))
    return most


def round_row(row: Any, inverse: Any, rounded: Any, bits: Any) -> None:
    """Write numbers times `inverse`, rounded, as they stand in `bits` (which is `rounded`) above `_BITS`."""
    for d in range(row.size):
        rounded[d] = row[d] * inverse + np.float32(_ROUNDS)
    for d in range(row.size):
        bits[d] -= np.int32(_BITS)


def lost(row: Any, step: Any, whole: Any) -> Any:
    """Return the squared length of what rounding took away, of the row, and the sum of its whole numbers."""
    rest, total, count = np.float32(0), 0.0, np.int32(0)
    for d in range(row.size):
        apart = row[d] - step * np.float32(whole[d])
        rest += apart * apart
        count += whole[d]
    for d in range(row.size):
        total += np.float64(row[d]) * np.float64(row[d])
    return rest, total, count


def split_row(row: Any, most: Any, rounded: Any, whole: Any) -> Any:
    """Return the step of a row, the length of what rounding took away, the squared length and the sum of bytes."""
    peak = most[0]
    plain = _LEAST < peak < 3e38
    step = peak / np.float32(127) if plain else np.float32(0)
    _round_row(row, np.float32(127) / peak if plain else np.float32(0), rounded, whole)
    if not plain:
        whole[:] = 0
    rest, total, count = _lost(row, step, whole)
    size = math.sqrt(total)
    width = np.float64(row.size + 64)
    away = math.sqrt(np.float64(rest)) * (1.0 + width * UNIT) + 8.0 * UNIT * size if plain else size
    return step, away, total, count


def round_rows(start: int, stop: int, args: Any) -> None:
    """Round strips of rows, and write what bounds are made of besides products.

    Of each row: what is added, what a product is multiplied by, and what the two lengths of a query are: that of its
    bytes and of what it lost. NaN marks a row of which no bound is known.
    """
    rows, words, kind, slack, strips, terms = args
    width, groups, across = rows.shape[1], strips.shape[1], strips.shape[2]
    rounded = np.zeros(groups * 4, np.float32)
    whole, small = rounded.view(np.int32), np.full(groups * 4, 128, np.uint8)
    most, fours = np.empty(1, np.float32), small.view(np.int32)
    for s in range(start, stop):
        strip = strips[s]
        for r in range(across):
            j = s * across + r
            if j >= rows.shape[0]:
                for p in range(groups):
                    strip[p, r] = 0
                continue
            row = rows[j]
            most.view(np.int32)[0] = _largest(words[j])
            step, away, total, _ = _split_row(row, most, rounded[:width], whole[:width])
            for d in range(width):
                small[d] = np.uint8(whole[d] + 128)
            for p in range(groups):
                strip[p, r] = fours[p]
            size = math.sqrt(total)
            if not total < FAR:
                terms[0, j], terms[1, j], terms[2, j], terms[3, j] = np.nan, 0.0, 0.0, 0.0
            elif kind == INNER:
                terms[0, j], terms[1, j] = -slack * size, -step
                terms[2, j], terms[3, j] = away, size
            elif kind == COSINE:
                inverse = 1.0 / size if size > 0.0 else 0.0
                terms[0, j], terms[1, j] = 1.0 - 4.0 * slack, -step * inverse
                terms[2, j], terms[3, j] = away * inverse, 1.0
            else:
                terms[0, j], terms[1, j] = total * (1.0 - slack), -2.0 * step
                terms[2, j], terms[3, j] = 2.0 * away, 2.0 * size


def round_queries(start: int, stop: int, args: Any) -> None:
    """Round queries, and write of each the step, both lengths, and what products are too large by.

    Bytes of rows have no signs, so they are 128 more than they stand for.
    """
    queries, words, out, given, bases = args
    width = queries.shape[1]
    rounded, most = np.zeros(width, np.float32), np.empty(1, np.float32)
    whole = rounded.view(np.int32)
    for i in range(start, stop):
        most.view(np.int32)[0] = _largest(words[i])
        step, away, total, count = _split_row(queries[i], most, rounded, whole)
        for d in range(width):
            out[i, d] = np.int8(whole[d])
        size = math.sqrt(total) * (1.0 + 1e-6)
        given[i, 0] = step if total < FAR else np.nan
        given[i, 1], given[i, 2] = size + away, away + 16.0 * UNIT * size
        bases[i] = -128 * count


def low(line: Any, terms: Any, given: Any, j: int) -> Any:
    """Return what the score of row j is not below, less what all rows of the query share."""
    found = terms[0, j] + given[0] * (terms[1, j] * np.float32(line[j]))
    return found - (given[1] * terms[2, j] + given[2] * terms[3, j])


def beyond(line: Any, terms: Any, given: Any, start: int, stop: int, limit: Any) -> Any:
    """Return how many of some rows are above a limit; as a float, which is summed in vectors."""
    part, a, f = line[start:stop], terms[0, start:stop], terms[1, start:stop]
    off, far, step, size, away = terms[2, start:stop], terms[3, start:stop], given[0], given[1], given[2]
    count = np.float32(0)
    for j in range(part.size):
        found = a[j] + step * (f[j] * np.float32(part[j])) - (size * off[j] + away * far[j])
        count += np.float32(1) if found > limit else np.float32(0)
    return count


def above(bound: float, terms: Any, given: Any, j: int, kind: int, size: float, slack: float) -> float:
    """Return what the score of row j is not above, if `bound` is what it is not below."""
    lost = given[1] * terms[2, j] + given[2] * terms[3, j]
    return _above_products(bound, terms, given, j, kind, size, slack) + 2.00001 * lost


def near(q: Any, x: Any, kind: int, given: Any, slack: float) -> Any:
    """Return what a score is not below: from sums in float32, which say more than bytes."""
    return _fast(q, x, kind, given[3], np.float32(slack))


def within(near: Any, terms: Any, given: Any, j: int, kind: int, slack: float) -> Any:
    """Return what the score of row j is then not above, squared for lengths."""
    if not near > -np.float32(np.inf):
        return np.float32(np.inf)
    if kind == COSINE:
        most = near + 8.0 * slack + 4e-6
    elif kind == INNER:
        most = near + (3.0 * abs(terms[0, j]) + 4e-19 * slack) * given[3] + 4e-6 * abs(near) + 1e-37
    else:
        most = near * (1.0 + 3.0 * slack + 4e-6) + 1e-37
    return np.float32(most)


def pick(start: int, stop: int, args: Any) -> None:
    """Multiply tiles of queries with a block of rows, and look at the products."""
    small, given, bases, strips, queries, rows, mask, first, kind, sizes, slack = args[:11]
    terms, scores, places, seen = args[11:]
    groups, step = small.shape[1], strips.shape[0] * _across
    count, products = min(rows.shape[0] - first, step), np.empty((_high, step), np.int32)
    asked = _room(rows.shape[1], scores.shape[1])
    for unit in range(start, stop):
        top = unit * _high
        for r in range(_high):
            products[r] = bases[top + r]
        for s in range(strips.shape[0]):
            _tile(small, top * groups, groups, 1, strips, s * groups * _across, _across,
                  products, s * _across, step, groups, False)  # fmt: skip
        for i in range(top, min(top + _high, queries.shape[0])):
            _pick_line(i, products[i - top, :count], terms, given[i], first, kind, sizes[i], slack, asked,
                  queries, rows, mask, scores, places)  # fmt: skip
    _decide(queries, rows, asked[0][: asked[2][0]], kind, asked[3], asked[4], scores, places)
    seen[start] = asked[2][1]


class ByteProducts:
    """The kernels, compiled when they are first called."""

    def __init__(self, scores: Scores) -> None:
        self.scores = scores

    @functools.cached_property
    def tile(self) -> Any:
        """The tile of this machine; to know it imports Numba."""
        return self.scores.runtime.byte_tile()

    @functools.cached_property
    def parts(self) -> dict[str, Any]:
        """What the kernels are made of."""
        return self.scores.parts(
            pick_line, seed, room, low, above, near, within, largest, round_row, split_row,
            summing=(beyond, lost), _above_products=self.scores.runtime.njit(above_products),
        )  # fmt: skip

    @functools.cached_property
    def round_rows(self) -> Any:
        """See the function of that name."""
        return self.scores.kernel(round_rows, **self.parts)

    @functools.cached_property
    def round_queries(self) -> Any:
        """See the function of that name."""
        return self.scores.kernel(round_queries, **self.parts)

    @functools.cached_property
    def pick(self) -> Any:
        """See the function of that name."""
        tile = self.tile
        shape = {"_tile": tile.tile, "_high": tile.rows, "_across": tile.columns}
        return self.scores.kernel(pick, **self.parts, **shape)

    def serve(self, queries: Any, rows: Any) -> bool:
        """Whether rounding pays."""
        (count, width), there = queries.shape, len(rows)
        if count < _MANY or not _WIDE <= width < 1 << 16:
            return False
        return bool(self.tile.quick and there >= self.tile.columns)

    def search(
        self, queries: Any, scaled: Any, sizes: Any, rows: Any, mask: Any, kind: int, best: Any
    ) -> int:  # fmt: skip
        """Bring rows into heaps, and return how many were looked at: fewer than all if bounds told too little."""
        (scores, places), (count, width), k = best, queries.shape, best[0].shape[1]
        slack, groups, many = (width + 64) * UNIT, -(-width // 4), self.tile.rows
        units = -(-count // many)
        small = np.zeros((units * many, groups * 4), np.int8)
        given, bases = np.zeros((units * many, 4), np.float32), np.zeros(units * many, np.int32)
        given[:count, 3] = np.sqrt(sizes)
        self.round_queries(count, 64, (scaled, scaled.view(np.int32), small, given, bases))
        words, (block, across) = small.view(np.int32), (min(_ROWS, len(rows)), self.tile.columns)
        strips = np.empty((-(-block // across), groups, across), np.int32)
        terms, seen = np.empty((4, block), np.float32), np.zeros(units, np.int64)
        for done, first in enumerate(range(0, len(rows), _ROWS), 1):
            some = rows[first : first + _ROWS]
            filled = strips[: -(-len(some) // across)]
            self.round_rows(len(filled), 2, (some, some.view(np.int32), kind, slack, filled, terms))
            seen[:] = 0
            self.pick(units, 1, (
                words, given, bases, filled, queries, rows, mask, first, kind, sizes, slack, terms, scores, places,
                seen,
            ))  # fmt: skip
            if seen.sum() > count * (_WORTHLESS * len(some) + 4 * k / done):
                return first + len(some)
        return len(rows)
