"""Search by lower bounds of scores on Vulkan.

The rows with the lowest bounds are scored exactly, and if a row that is not among them might be nearer, all rows are,
for that query alone. For few queries bounds are sums in float32, made in one pass over the rows; for many they follow
from products of blocks of rows with all queries.
"""

from __future__ import annotations

import struct
from typing import Any, Final

from grilly_core.buffer import View, make_spec
from grilly_core.layout import make_layout
from grilly_ext_memory.kernels.best_vulkan import (
    HEAD,
    SCORES,
    Best,
    best_scores,
    grid,
    lines,
    mask_of,
    mask_step,
    most_parts,
    parts_for,
    power_of_two,
    wide,
)
from grilly_ext_memory.kernels.exact_vulkan import METRICS, TILE, best_rows, least_parts, matrix

__all__ = ["by_bounds", "by_products", "kept"]

_BOUNDS: Final = struct.Struct("<3Q3If")
_WEIGH: Final = struct.Struct("<2Q2If4x")
_RESCORE: Final = struct.Struct("<4x3Q2IfI")
_TABLE: Final = 1 << 28  # bounds that are kept at once
_BLOCK: Final = (
    1 << 25
)  # products of a block; there are two blocks, so that one is made while the other is read
_QUERIES: Final = 1 << 13  # of a block of products
_UNIT: Final = 2.0**-24
_FALLBACK_GROUPS: Final = 4096
# Queries of a pass → rows of a lane, and lanes of a row; a group writes at most 256 rows.
_SHAPES: Final = {1: (4, 16), 2: (4, 16), 4: (2, 8), 8: (8, 8), 16: (4, 8)}


def kept(k: int) -> int:
    """Return how many rows with the lowest bounds are scored exactly."""
    return power_of_two(k + max(16, k // 8))


class _Decision:
    """What turns lowest bounds into results, with the memory that blocks of queries use one after another."""

    def __init__(
        self, stream: Any, rows: Any, metric: str, k: int, together: int, parts: int, *, direct: bool
    ) -> None:  # fmt: skip
        self.stream, self.rows, self.metric, self.direct = stream, rows, metric, direct
        there, width = rows.shape
        self.slack = (width + 8) * _UNIT
        self.wanted = kept(k)
        self.parts = min(parts, most_parts(self.wanted))
        self.entries = stream.scratch(8 * together * parts * self.wanted)
        self.flags = stream.scratch(4 * together)
        again = max(_FALLBACK_GROUPS // together, least_parts(stream.facts, there, width))
        self.again = max(2, min(again, -(-there // TILE), most_parts(k)))
        self.found_again = stream.scratch(8 * together * self.again * k)

    def lowest(self, count: int) -> Best:
        """Return what keeps the rows with the lowest bounds."""
        return Best(None, None, count, self.wanted, self.parts, self.entries)

    def decide(self, outs: Any, queries: Any, mask: Any) -> None:
        """Write the results of some queries."""
        count, k = outs[0].shape
        self._rescore(outs, queries)
        best = Best(*outs, count, k, self.again, self.found_again, self.metric == "ip")
        best_rows(self.stream, best, queries, self.rows, mask, self.metric, flags=self.flags)
        best.merge(self.stream, self.flags)

    def _rescore(self, outs: Any, queries: Any) -> None:
        """Write results, and flag the queries whose results are not certain."""
        stream, rows = self.stream, self.rows
        width, (count, k) = rows.shape[1], outs[0].shape
        head = HEAD.pack(
            *(stream.address(v) for v in (*outs, self.entries)), count, self.wanted, self.parts
        )  # fmt: skip
        addresses = (stream.address(v) for v in (queries, rows, self.flags))
        push = head + _RESCORE.pack(*addresses, width, k, self.slack, self.direct)
        keep, space, *_ = self.lowest(count).constants(last=True)
        how = METRICS[self.metric], wide(stream, rows, width)
        pipeline = stream.pipeline("memory.rescore", (keep, space, self.metric == "ip", False, True, *how))
        stream.launch(pipeline, grid(count), push, [queries, rows, self.entries], [*outs, self.flags])


def by_bounds(stream: Any, outs: Any, queries: Any, rows: Any, mask: Any, metric: str) -> None:
    """Search with one pass over the rows for every sixteen queries."""
    (total, k), (there, width) = outs[0].shape, rows.shape
    together = min(total, max(1, _TABLE // there))
    decision = _Decision(stream, rows, metric, k, together, parts_for(together, there), direct=True)
    memory = stream.scratch(4 * together * there)
    for first in range(0, total, together):
        count = min(together, total - first)
        some, some_mask = lines(queries, first, count), mask_of(mask, first, count)
        table, at_once = matrix(memory, count, there), min(16, power_of_two(count))
        turns, lanes = _SHAPES[at_once]
        push = _BOUNDS.pack(
            *(stream.address(v) for v in (table, some, rows)), count, there, width, decision.slack
        )  # fmt: skip
        aligned = wide(stream, rows, width) and wide(stream, queries, width)
        pipeline = stream.pipeline("memory.bounds", (METRICS[metric], aligned, at_once, turns, lanes))
        groups = -(-count // at_once) * -(-there // (256 // lanes * turns))
        stream.launch(pipeline, grid(groups), push, [some, rows], [table])
        best_scores(stream, decision.lowest(count), table, there, some_mask)
        decision.decide([lines(v, first, count) for v in outs], some, some_mask)


def by_products(stream: Any, outs: Any, queries: Any, rows: Any, mask: Any, metric: str) -> None:
    """Search with products of blocks of rows with many queries at once.

    Products of two parts of bf16 would be twice as fast on cooperative matrices; their bounds, about twelve times as
    wide, would still decide most queries.
    """
    (total, k), there = outs[0].shape, rows.shape[0]
    together = min(total, _QUERIES)
    block = min(there, max(TILE, _BLOCK // together // 256 * 256))
    decision = _Decision(stream, rows, metric, k, together, parts_for(together, block), direct=False)
    tables = [stream.scratch(4 * together * block) for _ in range(1 + (block < there or together < total))]
    factors, weights = (
        _weigh(stream, v, metric, decision.slack, of_queries=i == 0) for i, v in enumerate((queries, rows))
    )
    for first in range(0, total, together):
        count = min(together, total - first)
        some, some_mask = lines(queries, first, count), mask_of(mask, first, count)
        lowest = decision.lowest(count)
        for i, row in enumerate(range(0, there, block)):
            size = min(block, there - row)
            products = matrix(tables[i % len(tables)], count, size)
            stream.product(products, some, _turned(lines(rows, row, size)))
            weighed = (
                weights,
                stream.address(weights) + 4 * row,
                factors,
                stream.address(factors) + 4 * first,
            )
            _keep_low(stream, lowest, products, row, weighed, some_mask, metric, decision.slack)
        decision.decide([lines(v, first, count) for v in outs], some, some_mask)


def _turned(view: Any) -> View:
    """Return a packed matrix with its axes exchanged."""
    spec = view.spec
    layout = make_layout(spec.shape[::-1], spec.strides[::-1])
    return View(view.buffer, make_spec(layout, spec.dtype, spec.context), view.offset, None)


def _weigh(stream: Any, view: Any, metric: str, slack: float, *, of_queries: bool) -> Any:
    """Return what bounds are made of besides products; see ``weigh.comp``."""
    rows, width = view.shape
    memory = stream.scratch(4 * rows)
    push = _WEIGH.pack(stream.address(memory), stream.address(view), rows, width, slack)
    pipeline = stream.pipeline("memory.weigh", (METRICS[metric], wide(stream, view, width), of_queries))
    stream.launch(pipeline, (min(-(-rows // 128), 65535), 1, 1), push, [view], [memory])
    return memory


def _keep_low(
    stream: Any, lowest: Best, products: Any, row: int, weighed: Any, mask: Any, metric: str, slack: float
) -> None:  # fmt: skip
    """Keep the rows with the lowest bounds, those of earlier blocks too; `row` is the first of the block."""
    weights, weights_at, factors, factors_at = weighed
    size = products.shape[1]
    push = SCORES.pack(
        stream.address(products), 0 if mask is None else stream.address(mask), weights_at, factors_at, size, row,
        mask_step(mask), row > 0, 1.0 - 4.0 * slack,
    )  # fmt: skip
    more = (METRICS[metric], wide(stream, products, size) and row % 4 == 0, mask is not None)
    lowest.launch(stream, "best_products", more, push, [products, mask, weights, factors, lowest.entries])
