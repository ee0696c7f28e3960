"""What a score is on the CPU, and numbers that it is not below.

An exact score is a sum in float64, term by term in order, rounded to float32; smaller is nearer. The functions here are
compiled by Numba as parts of the kernels that search.
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from grilly_ext_memory.kernels.heaps import Heaps

__all__ = ["CITY", "COSINE", "EUCLID", "FAR", "INNER", "PAIRS", "SQUARES", "UNIT", "Kinds", "Scores"]

SQUARES, EUCLID, INNER, COSINE, CITY = range(5)
#: Metric → its number.
Kinds: Final = {"sqeuclidean": SQUARES, "l2": EUCLID, "ip": INNER, "cosine": COSINE, "l1": CITY}
#: The error of one operation in float32.
UNIT: Final = 2.0**-24
#: A squared length, or a product of lengths, from which on sums in float32 may overflow.
FAR: Final = 1e36
#: Pairs of a query and a row that are scored exactly together.
PAIRS: Final = 64

_push: Any = None  # these are replaced by compiled functions
_exact: Any = None
_bound: Any = None
_fill: Any = None
_add: Any = None


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
    both = length * np.sqrt(xx + np.float32(1e-38))  # squares may have vanished
    if not both < np.float32(FAR):
        return -np.float32(np.inf)
    if kind == INNER:
        return -s - slack * both
    least = np.float32(1e-30)
    if both > least and xx > least and length > least:
        return np.float32(1) - s / both - np.float32(4) * slack
    return -np.float32(np.inf)


def bound(worst: Any, kind: int) -> Any:
    """Return what fast scores are compared with: the worst score so far, squared for lengths, and a little more.

    The numbers near 0 that float32 has but a few bits for are why there is a constant.
    """
    if kind == EUCLID:
        worst *= worst
    return worst + abs(worst) * np.float32(0.000001) + np.float32(1e-40)


def limit(worst: Any, kind: int, size: float, slack: float) -> Any:
    """Return what a weighed product is compared with; see `weigh`. `size` is the query's squared length.

    Queries were scaled to length 1 for inner products and cosines. NaN where no bound is known.
    """
    if not size < FAR:
        return np.float32(np.nan)
    w = np.float64(_bound(worst, kind))
    if kind == INNER:
        w = w / math.sqrt(size) if size > 0.0 else w
        return np.float32(w + abs(w) * 1e-6 + 1e-35)
    if kind == COSINE:
        return np.float32(w + 1e-6)
    return np.float32(w - size * (1.0 - 2.0 * slack) + 1e-6 * w + 1e-33 * slack)


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


def measure(start: int, stop: int, args: Any) -> None:
    """Return squared lengths."""
    rows, out = args
    for j in range(start, stop):
        total, row = 0.0, rows[j]
        for d in range(row.size):
            total += np.float64(row[d]) * np.float64(row[d])
        out[j] = total


class Scores:
    """The functions of this module, compiled, by the names that kernels call them by."""

    def __init__(self, runtime: Any) -> None:
        heaps, plain = Heaps(runtime), runtime.njit
        sums = {"fastmath": {"reassoc", "contract", "nsz"}}
        names = {
            "_push": heaps.push, "_sort": heaps.sort, "_exact": plain(exact), "_bound": plain(bound),
            "_fast": plain(fast, **sums), "_limit": plain(limit), "_fill": plain(fill_terms), "_add": plain(add_eight),
            "_decide": plain(decide),
        }  # fmt: skip
        for function in names.values():
            function.replaced |= {
                n: names[n] for n in ("_push", "_exact", "_bound", "_fill", "_add") if n != function
            }
        self.runtime, self.names, self.sums = runtime, names, sums

    def parts(self, *functions: Any, summing: tuple[Any, ...], **more: Any) -> dict[str, Any]:
        """Return functions compiled, by the names that they call each other by; `summing` are summed in vectors."""
        plain = self.runtime.njit
        made = {f"_{f.__name__}": plain(f, **self.sums) for f in summing}
        made |= {f"_{f.__name__}": plain(f) for f in functions}
        for name, function in made.items():
            function.replaced |= self.names | {n: f for n, f in made.items() if n != name} | more
        return made

    def kernel(self, body: Any, *, summing: bool = False, **more: Any) -> Any:
        """Return a body over ``[start, stop)``, compiled and in parallel, with what it calls."""
        made = self.runtime.njit(body, **(self.sums if summing else {}))
        made.replaced |= self.names | more
        return self.runtime.split(made)
