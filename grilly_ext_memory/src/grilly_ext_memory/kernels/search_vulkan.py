"""Nearest rows on Vulkan.

Few queries are scored exactly with all rows, which costs no more than reading them: a sum in float64 for each, term by
term in order, rounded to float32. Many queries are scored by products first, a block of rows at a time; from a product
follows a lower bound of the score. The rows with the lowest bounds are scored exactly, and if a row that is not among
them might be nearer, all rows are, for that query alone. So the result depends on nothing but the query and the rows.
"""

from __future__ import annotations

import struct
from typing import Any, Final

from grilly_core.buffer import View, contiguous_spec, make_spec
from grilly_core.dtypes import float32
from grilly_core.layout import make_layout
from grilly_ext_memory.kernels.best_vulkan import (
    HEAD,
    MOST,
    SCORES,
    Best,
    best_scores,
    grid,
    lines,
    mask_of,
    mask_step,
    parts_for,
    power_of_two,
    wide,
)

__all__ = ["METRICS", "best_rows", "least_parts", "register", "served"]

#: Metric → its number in ``exact.glsl``.
METRICS: Final = {"sqeuclidean": 0, "l2": 1, "ip": 2, "cosine": 3, "l1": 4}

_DISTANCES: Final = struct.Struct("<3Q3I4x")
_ROWS: Final = struct.Struct("<4x6Q6I")
_WEIGH: Final = struct.Struct("<2Q2If4x")
_RESCORE: Final = struct.Struct("<4x3Q2If4x")

_FEW: Final = 16  # queries that are scored directly with all rows
_TOGETHER: Final = 8  # queries that share a pass over the rows
_TILE: Final = 128  # rows of a work group
_WIDEST: Final = 1 << 14
_TABLE: Final = 1 << 28  # scores that are kept at once
_BLOCK: Final = (
    1 << 25
)  # products of a block; there are two blocks, so that one is made while the other is read
_QUERIES: Final = 1 << 13  # of a block of products
_UNIT: Final = 2.0**-24
_FALLBACK_GROUPS: Final = 4096


def distances(stream: Any, scores: Any, queries: Any, rows: Any, metric: str) -> None:
    """Write all scores, ``(queries, rows)``."""
    (count, width), there = queries.shape, rows.shape[0]
    together = min(_TOGETHER, power_of_two(count))
    groups = -(-count // together) * -(-there // _TILE)
    push = _DISTANCES.pack(*(stream.address(v) for v in (scores, queries, rows)), count, there, width)
    pipeline = stream.pipeline("memory.distances", (together, METRICS[metric], wide(stream, rows, width)))
    stream.launch(pipeline, grid(groups), push, [queries, rows], [scores])


def _distances(stream: Any, outs: Any, ins: Any, attrs: dict[str, Any]) -> None:
    if outs[0].spec.size:
        distances(stream, outs[0], *ins, attrs["metric"])


def best_rows(
    stream: Any, best: Best, queries: Any, rows: Any, mask: Any, metric: str, *, lists: tuple[Any, Any] | None = None,
    slices: int = 1, flags: Any = None,
) -> None:  # fmt: skip
    """Keep the best of all rows, or of slices of the lists that `lists` (offsets, probes) tell; see ``lists.glsl``."""
    offsets, probes = lists or (None, None)
    places = (queries, rows, mask, offsets, probes, flags)
    push = _ROWS.pack(
        *(0 if v is None else stream.address(v) for v in places), *rows.shape, mask_step(mask),
        0 if offsets is None else offsets.shape[0] - 1, 0 if probes is None else probes.shape[1], slices,
    )  # fmt: skip
    more = (METRICS[metric], wide(stream, rows, rows.shape[1]))
    best.launch(stream, "best_rows", more, push, list(places))


def least_parts(stream: Any, rows: int, width: int) -> int:
    """Return how many parts the driver asks for: a thread may take so many turns of loops."""
    turns = -(-rows // _TILE) * (-(-width // 16) * 12 + 256)
    return -(-turns // (stream.facts.max_turns // 2))


def _search(stream: Any, outs: Any, ins: Any, attrs: dict[str, Any]) -> None:
    queries, rows, mask = ins
    metric, count, there = attrs["metric"], queries.shape[0], rows.shape[0]
    if count == 0:
        return
    if metric == "l1" or count <= _FEW or _kept(attrs["k"]) > MOST or there < _TILE:
        _directly(stream, outs, queries, rows, mask, metric)
        return
    _Products(stream, queries, rows, mask, metric, outs[0].shape[1]).search(outs)


def _turned(view: Any) -> View:
    """Return a packed matrix with its axes exchanged."""
    spec = view.spec
    layout = make_layout(spec.shape[::-1], spec.strides[::-1])
    return View(view.buffer, make_spec(layout, spec.dtype, spec.context), view.offset, None)


def _matrix(memory: Any, rows: int, columns: int) -> View:
    """Return scratch memory as a matrix of f32."""
    return View(memory.buffer, contiguous_spec((rows, columns), float32, memory.spec.context), 0, None)


def _directly(stream: Any, outs: Any, queries: Any, rows: Any, mask: Any, metric: str) -> None:
    there = rows.shape[0]
    each = max(1, _TABLE // max(there, 1))
    for first in range(0, queries.shape[0], each):
        some = lines(queries, first, min(each, queries.shape[0] - first))
        count = some.shape[0]
        best = Best.of(
            stream, [lines(v, first, count) for v in outs], parts_for(count, there), negate=metric == "ip"
        )
        scores = _matrix(stream.scratch(4 * count * there), count, there)
        if there:
            distances(stream, scores, some, rows, metric)
        best_scores(stream, best, scores, there, mask_of(mask, first, count))
        best.merge(stream)


# -- many queries ------------------------------------------------------------------------------------------------


def _kept(k: int) -> int:
    """Return how many rows with the lowest bounds are scored exactly."""
    return power_of_two(k + max(16, k // 8))


class _Products:
    """Search by products: memory that all blocks use one after another, and what they have in common."""

    def __init__(self, stream: Any, queries: Any, rows: Any, mask: Any, metric: str, k: int) -> None:
        count, (self.there, width) = queries.shape[0], rows.shape
        self.stream, self.queries, self.rows, self.mask, self.metric = stream, queries, rows, mask, metric
        self.slack = (width + 8) * _UNIT
        self.together = min(count, _QUERIES)
        self.block = min(self.there, max(_TILE, _BLOCK // self.together // 256 * 256))
        self.parts = parts_for(self.together, self.block)
        self.wanted = _kept(k)
        self.entries = stream.scratch(8 * self.together * self.parts * self.wanted)
        several = self.block < self.there or self.together < count
        self.tables = [stream.scratch(4 * self.together * self.block) for _ in range(1 + several)]
        self.factors, self.weights = self._weigh(queries, True), self._weigh(rows, False)
        self.flags = stream.scratch(4 * self.together)
        parts = max(_FALLBACK_GROUPS // self.together, least_parts(stream, self.there, width))
        parts = max(2, min(parts, -(-self.there // _TILE)))
        self.again = stream.scratch(8 * self.together * parts * k), parts

    def search(self, outs: Any) -> None:
        """Write values and positions."""
        for first in range(0, self.queries.shape[0], self.together):
            count = min(self.together, self.queries.shape[0] - first)
            places = [lines(v, first, count) for v in outs]
            some = lines(self.queries, first, count)
            mask = mask_of(self.mask, first, count)
            low = Best(None, None, count, self.wanted, self.parts, self.entries)
            for i, row in enumerate(range(0, self.there, self.block)):
                size = min(self.block, self.there - row)
                products = _matrix(self.tables[i % len(self.tables)], count, size)
                self.stream.product(products, some, _turned(lines(self.rows, row, size)))
                self._keep_low(low, products, first, row, mask)
            self._rescore(places, low, some)
            entries, parts = self.again
            best = Best(*places, count, places[0].shape[1], parts, entries, self.metric == "ip")
            best_rows(self.stream, best, some, self.rows, mask, self.metric, flags=self.flags)
            best.merge(self.stream, self.flags)

    def _weigh(self, view: Any, of_queries: bool) -> Any:
        stream, (rows, width) = self.stream, view.shape
        memory = stream.scratch(4 * rows)
        push = _WEIGH.pack(stream.address(memory), stream.address(view), rows, width, self.slack)
        pipeline = stream.pipeline(
            "memory.weigh", (METRICS[self.metric], wide(stream, view, width), of_queries)
        )
        stream.launch(pipeline, (min(-(-rows // 8), 65535), 1, 1), push, [view], [memory])
        return memory

    def _keep_low(self, low: Best, products: Any, query: int, row: int, mask: Any) -> None:
        """Keep the rows with the lowest bounds, those of earlier blocks too."""
        stream, size = self.stream, products.shape[1]
        push = SCORES.pack(
            stream.address(products), 0 if mask is None else stream.address(mask),
            stream.address(self.weights) + 4 * row, stream.address(self.factors) + 4 * query, size, row,
            mask_step(mask), row > 0, 1.0 - 4.0 * self.slack,
        )  # fmt: skip
        more = (METRICS[self.metric], wide(stream, products, size) and row % 4 == 0, mask is not None)
        low.launch(
            stream, "best_products", more, push, [products, mask, self.weights, self.factors, low.entries]
        )

    def _rescore(self, outs: Any, low: Best, queries: Any) -> None:
        """Write the results of all queries, and flag those whose results are not certain."""
        stream, rows = self.stream, self.rows
        width, results = rows.shape[1], outs[0].shape[1]
        places = (*outs, low.entries)
        head = HEAD.pack(*(stream.address(v) for v in places), low.queries, low.wanted, low.parts)
        addresses = (stream.address(v) for v in (queries, rows, self.flags))
        push = head + _RESCORE.pack(*addresses, width, results, self.slack)
        keep, space, *_ = low.constants(last=True)
        constants = (
            keep, space, self.metric == "ip", False, True, METRICS[self.metric], wide(stream, rows, width)
        )  # fmt: skip
        pipeline = stream.pipeline("memory.rescore", constants)
        stream.launch(pipeline, grid(low.queries), push, [queries, rows, low.entries], [*outs, self.flags])


def served(c: Any) -> bool:
    """Whether rows and queries are scored by the shaders here."""
    queries, rows = c.ins[:2]
    return (
        c.runtime.facts.f64
        and queries.dtype is float32
        and rows.dtype is float32
        and rows.shape[1] <= _WIDEST
        and rows.shape[0] < 1 << 31
        and queries.shape[0] < 1 << 20
        and c.attrs.get("k", 1) <= MOST
    )


def register(kernels: Any, runtime: Any) -> None:
    """Declare the kernels of this module."""
    how: dict[str, Any] = {"dtypes": {"f32"}, "layout": "contiguous", "when": served}
    kernels.add("faiss.distances", _distances, **how)
    kernels.add("faiss.search", _search, **how)
