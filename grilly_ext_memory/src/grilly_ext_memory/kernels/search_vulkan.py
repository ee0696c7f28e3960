"""Nearest rows on Vulkan.

Where there is little work, rows are scored exactly at once. Otherwise lower bounds tell which rows need it: sums in
float32 for few queries, products for many. The result is the same, and depends on nothing but the query and the rows.
"""

from __future__ import annotations

from typing import Any, Final

from grilly_ext_memory.kernels.best_vulkan import MOST, Best, best_scores, lines, mask_of, parts_for
from grilly_ext_memory.kernels.bounds_vulkan import by_bounds, by_products, kept
from grilly_ext_memory.kernels.exact_vulkan import TILE, distances, matrix, served

__all__ = ["register"]

_FEW: Final = 32  # queries, up to which passes over the rows are faster than products
_LITTLE: Final = (
    1 << 26
)  # terms of all scores that are summed in float64 before bounds are worth their launches
_TABLE: Final = 1 << 28  # scores that are kept at once


def _distances(stream: Any, outs: Any, ins: Any, attrs: dict[str, Any]) -> None:
    if outs[0].spec.size:
        distances(stream, outs[0], *ins, attrs["metric"])


def exact_suits(queries: int, rows: int, width: int, k: int, few: bool) -> bool:
    """Whether all rows are scored exactly; `few` are queries that would not be multiplied."""
    return rows < TILE or kept(k) > MOST or (few and queries * rows * width < _LITTLE)


def _search(stream: Any, outs: Any, ins: Any, attrs: dict[str, Any]) -> None:
    queries, rows, mask = ins
    metric, count, (there, width) = attrs["metric"], queries.shape[0], rows.shape
    if count == 0:
        return
    few = count <= _FEW or metric == "l1"
    if exact_suits(count, there, width, attrs["k"], few):
        _directly(stream, outs, queries, rows, mask, metric)
    else:
        (by_bounds if few else by_products)(stream, outs, queries, rows, mask, metric)


def _directly(stream: Any, outs: Any, queries: Any, rows: Any, mask: Any, metric: str) -> None:
    there = rows.shape[0]
    each = max(1, _TABLE // max(there, 1))
    for first in range(0, queries.shape[0], each):
        some = lines(queries, first, min(each, queries.shape[0] - first))
        count = some.shape[0]
        best = Best.of(
            stream, [lines(v, first, count) for v in outs], parts_for(count, there), negate=metric == "ip"
        )
        scores = matrix(stream.scratch(4 * count * there), count, there)
        if there:
            distances(stream, scores, some, rows, metric)
        best_scores(stream, best, scores, there, mask_of(mask, first, count))
        best.merge(stream)


def register(kernels: Any, runtime: Any) -> None:
    """Declare the kernels of this module."""
    how: dict[str, Any] = {"dtypes": {"f32"}, "layout": "contiguous", "when": served}
    kernels.add("faiss.distances", _distances, **how)
    kernels.add("faiss.search", _search, **how)
