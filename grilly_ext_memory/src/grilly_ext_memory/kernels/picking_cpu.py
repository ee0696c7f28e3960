"""From numbers that the scores of a query with a block of rows are not below, to the best rows, on the CPU.

Almost all rows are dismissed sixteen at a time. How numbers follow from a line of products is for those who make them:
`_low`, `_beyond` and `_above` below are theirs, and `_near` and `_within`, which look closer at the rows that remain.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from grilly_ext_memory.kernels.heaps import NOWHERE
from grilly_ext_memory.kernels.scores_cpu import PAIRS

__all__ = ["pick_line", "room", "seed"]

#: Rows that are compared with the worst of the best at once, and those of a strip where some are below it.
_STRIP: Final = 64
_VECTOR: Final = 16

_push: Any = None  # these are replaced by compiled functions
_decide: Any = None
_bound: Any = None
_limit: Any = None
_seed: Any = None
_low: Any = None
_beyond: Any = None
_above: Any = None
_near: Any = None
_within: Any = None


def seed(
    line: Any, terms: Any, given: Any, mask: Any, kind: int, size: float, slack: float, best: Any
) -> Any:
    """Return a limit from one block: so many rows as are wanted have exact scores that are not above it.

    A row's exact score is at most so far above its bound as the bound is below, so the rows with the lowest bounds say
    it without being scored. Infinite if the block has too few rows.
    """
    lows, places = best
    lows[:] = np.inf
    places[:] = NOWHERE
    for low in range(0, line.size, _STRIP):
        high = min(low + _STRIP, line.size)
        if _beyond(line, terms, given, low, high, lows[0]) == high - low:
            continue
        for at in range(low, high, _VECTOR):
            end = min(at + _VECTOR, high)
            if _beyond(line, terms, given, at, end, lows[0]) == end - at:
                continue
            for j in range(at, end):
                bound = _low(line, terms, given, j)
                if bound < lows[0] and (mask.size == 0 or mask[j]):
                    _push(lows, places, bound, j)
    if places[0] == NOWHERE:
        return np.float32(np.inf)
    most = -np.inf
    for i in range(lows.size):
        most = max(most, _above(np.float64(lows[i]), terms, given, places[i], kind, size, slack))
    return np.float32(most)


def room(width: int, k: int) -> Any:
    """Return what `pick_line` asks to be scored, nothing yet, and room to do so.

    Pairs of query and row, what their scores are not below, how many pairs there are and ever were; terms and sums of
    `_decide`; the lowest bounds of a line and their rows.
    """
    return (
        np.empty((PAIRS, 2), np.int64), np.empty(PAIRS, np.float32), np.zeros(2, np.int64), np.zeros((8, width)),
        np.empty(8), np.empty(k, np.float32), np.empty(k, np.int32),
    )  # fmt: skip


def pick_line(
    i: int, line: Any, terms: Any, given: Any, first: int, kind: int, size: float, slack: float, asked: Any,
    queries: Any, rows: Any, mask: Any, scores: Any, places: Any,
) -> None:  # fmt: skip
    """Look at a query's products with the rows from `first` on; those that may be near are scored when there are many.

    `asked` is what `room` returns.
    """
    pairs, nears, counts, room, totals, lows, where = asked
    limit = _limit(scores[i, 0], kind, size, slack)
    allowed = mask[first : first + line.size] if mask.size else mask
    if places[i, 0] == NOWHERE and line.size > lows.size:
        limit = min(limit, _seed(line, terms, given, allowed, kind, size, slack, (lows, where)))
    lows[:] = np.inf
    start, worst = counts[0], _bound(scores[i, 0], kind)
    for low in range(0, line.size, _STRIP):
        high = min(low + _STRIP, line.size)
        if _beyond(line, terms, given, low, high, limit) == high - low:
            continue
        for at in range(low, high, _VECTOR):
            end = min(at + _VECTOR, high)
            if _beyond(line, terms, given, at, end, limit) == end - at:
                continue
            for j in range(at, end):
                if _low(line, terms, given, j) > limit or (mask.size and not allowed[j]):
                    continue
                counts[1] += 1
                near = _near(queries[i], rows[first + j], kind, given, slack)
                if near > worst or near > lows[0]:
                    continue
                _push(lows, where, _within(near, terms, given, j, kind, slack), j)
                pairs[counts[0], 0], pairs[counts[0], 1], nears[counts[0]] = i, first + j, near
                counts[0] += 1
                if counts[0] == PAIRS:
                    _decide(queries, rows, pairs, kind, room, totals, scores, places)
                    counts[0] = start = 0
                    worst = _bound(scores[i, 0], kind)
                    limit = min(limit, _limit(scores[i, 0], kind, size, slack))
    kept = start
    for n in range(start, counts[0]):
        if not nears[n] > lows[0]:
            pairs[kept, 1], nears[kept] = pairs[n, 1], nears[n]
            pairs[kept, 0] = i
            kept += 1
    counts[0] = kept
