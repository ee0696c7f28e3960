"""Exact scores on Vulkan: a float64 sum for each, term by term in order, rounded to float32; see ``exact.glsl``."""

from __future__ import annotations

import struct
from typing import Any, Final

from grilly_core.buffer import View, contiguous_spec
from grilly_core.dtypes import float32
from grilly_ext_memory.kernels.best_vulkan import (
    MOST,
    Best,
    fewest_parts,
    grid,
    mask_step,
    most_parts,
    power_of_two,
    wide,
)

__all__ = ["METRICS", "TILE", "best_rows", "distances", "least_parts", "matrix", "served"]

#: Metric → its number in ``exact.glsl``.
METRICS: Final = {"sqeuclidean": 0, "l2": 1, "ip": 2, "cosine": 3, "l1": 4}
#: Rows of a work group.
TILE: Final = 128
_DISTANCES: Final = struct.Struct("<3Q3I4x")
_ROWS: Final = struct.Struct("<4x6Q6I")
_TOGETHER: Final = 8  # queries that share a pass over the rows
_WIDEST: Final = 1 << 14


def matrix(memory: Any, rows: int, columns: int) -> View:
    """Return scratch memory as a matrix of f32."""
    return View(memory.buffer, contiguous_spec((rows, columns), float32, memory.spec.context), 0, None)


def distances(stream: Any, scores: Any, queries: Any, rows: Any, metric: str) -> None:
    """Write all scores, ``(queries, rows)``."""
    (count, width), there = queries.shape, rows.shape[0]
    together = min(_TOGETHER, power_of_two(count))
    groups = -(-count // together) * -(-there // TILE)
    push = _DISTANCES.pack(*(stream.address(v) for v in (scores, queries, rows)), count, there, width)
    pipeline = stream.pipeline("memory.distances", (together, METRICS[metric], wide(stream, rows, width)))
    stream.launch(pipeline, grid(groups), push, [queries, rows], [scores])


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


def least_parts(facts: Any, rows: int, width: int) -> int:
    """Return into how many parts rows must be cut that one work group scores exactly."""
    return fewest_parts(facts, rows, TILE, -(-width // 16) * 12 + 128)


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
        and least_parts(c.runtime.facts, rows.shape[0], rows.shape[1]) <= most_parts(c.attrs.get("k", 1))
    )
