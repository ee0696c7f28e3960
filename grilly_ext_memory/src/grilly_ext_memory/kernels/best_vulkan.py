"""The best of scores on Vulkan: each work group keeps those of a part, then a second launch merges the parts."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any, Final

from grilly_core.buffer import View, contiguous_spec

__all__ = [
    "HEAD", "MOST", "SCORES", "Best", "best_scores", "fewest_parts", "grid", "lines", "mask_of", "mask_step",
    "most_parts", "parts_for", "power_of_two", "register", "wide",
]  # fmt: skip

#: Results of a query that shared memory holds; bodies sort whole rows for more.
MOST: Final = 1024
#: Push constants that all shaders begin with, and those of tables of scores behind.
HEAD: Final = struct.Struct("<3Q3I")
SCORES: Final = struct.Struct("<4x4Q4If4x")
_MERGE: Final = struct.Struct("<4xQ")
_LEAST_SPACE: Final = 512
_GROUPS: Final = 1024  # that fill a device some times over
_MAX_GROUPS: Final = 65535
_PART: Final = 8192  # scores that are worth a work group
_LONGEST_PART: Final = 1 << 17  # a software driver leaves loops after 65535 turns
_MOST_ENTRIES: Final = 1 << 17  # of all parts of a query


def grid(groups: int) -> tuple[int, int, int]:
    """Return at least `groups` work groups in two axes."""
    across = min(groups, _MAX_GROUPS)
    return across, -(-groups // across) if across else 0, 1


def wide(stream: Any, view: Any, length: int) -> bool:
    """Whether every line of `length` numbers is whole, aligned groups of four."""
    return length % 4 == 0 and stream.address(view) % 16 == 0


def power_of_two(n: int) -> int:
    """Return the least power of two that is not below `n`.

    Examples
    --------
    >>> power_of_two(10), power_of_two(16)
    (16, 16)
    """
    return 1 << max(n - 1, 0).bit_length()


def most_parts(wanted: int) -> int:
    """Return how many parts one work group merges."""
    return _MOST_ENTRIES // power_of_two(wanted)


@dataclass(frozen=True, slots=True)
class Best:
    """The best `wanted` entries of each query, kept by parts until they are merged.

    Attributes
    ----------
    values, positions : View or None
        ``(queries, wanted)``: where results go.
    queries, wanted, parts : int
    entries : scratch memory or None
        ``[queries, parts, wanted]`` pairs; None if the only part writes the results.
    negate : bool
        Whether large scores are near: they are kept with their signs turned.
    counts : bool
        Whether scores are whole numbers.
    """

    values: Any
    positions: Any
    queries: int
    wanted: int
    parts: int
    entries: Any
    negate: bool = False
    counts: bool = False

    @staticmethod
    def of(stream: Any, outs: Any, parts: int, *, negate: bool = False, counts: bool = False) -> Best:
        """Return what keeps the best for the outputs, with memory for parts."""
        queries, wanted = outs[0].shape
        parts = max(1, min(parts, most_parts(wanted)))
        entries = stream.scratch(8 * queries * parts * wanted) if parts > 1 else None
        return Best(*outs, queries, wanted, parts, entries, negate, counts)

    def constants(self, *, last: bool) -> tuple[Any, ...]:
        """Return the first five specialisation constants of shaders that keep the best."""
        keep = power_of_two(self.wanted)
        return keep, max(_LEAST_SPACE, 2 * keep), self.negate, self.counts, last

    def head(self, stream: Any) -> bytes:
        """Return the first push constants of shaders that keep the best."""
        places = (0 if v is None else stream.address(v) for v in (self.values, self.positions, self.entries))
        return HEAD.pack(*places, self.queries, self.wanted, self.parts)

    @property
    def last(self) -> bool:
        """Whether parts are results."""
        return self.entries is None

    def written(self) -> list[Any]:
        """What parts are written to."""
        return [self.values, self.positions] if self.entries is None else [self.entries]

    def launch(self, stream: Any, name: str, more: tuple[Any, ...], push: bytes, reads: list[Any]) -> None:
        """Launch a shader with a work group for each part of each query."""
        pipeline = stream.pipeline(f"memory.{name}", (*self.constants(last=self.last), *more))
        given = [v for v in reads if v is not None]
        stream.launch(
            pipeline, grid(self.queries * self.parts), self.head(stream) + push, given, self.written()
        )

    def merge(self, stream: Any, flags: Any = None) -> None:
        """Write the results of all queries, or of those that are flagged."""
        if self.last:
            return
        push = self.head(stream) + _MERGE.pack(0 if flags is None else stream.address(flags))
        reads = [v for v in (self.entries, flags) if v is not None]
        pipeline = stream.pipeline("memory.best_merge", self.constants(last=True))
        stream.launch(pipeline, grid(self.queries), push, reads, [self.values, self.positions])


def parts_for(queries: int, rows: int, least: int = _PART) -> int:
    """Return into how many parts `rows` are cut, by numbers alone."""
    wanted = min(-(-_GROUPS // max(queries, 1)), rows // least)
    return max(1, wanted, -(-rows // _LONGEST_PART))


def fewest_parts(facts: Any, rows: int, tile: int, turns: int) -> int:
    """Return into how many parts rows must be cut, of which each `tile` takes so many turns of loops.

    A driver allows some turns, see `Facts`; half of them are for sorting.
    """
    return max(1, -(-(-(-rows // tile) * turns) // (facts.max_turns // 2)))


def mask_step(mask: Any) -> int:
    """Return how far apart the masks of two queries are."""
    return 0 if mask is None or len(mask.shape) == 1 else int(mask.shape[1])


def lines(view: Any, first: int, count: int) -> View:
    """Return a packed matrix's rows from `first` on."""
    spec = view.spec
    shape = (count, *spec.shape[1:])
    return View(
        view.buffer,
        contiguous_spec(shape, spec.dtype, spec.context),
        view.offset + first * spec.strides[0],
        None,
    )


def mask_of(mask: Any, first: int, count: int) -> Any:
    """Return the mask of some queries."""
    return mask if mask is None or len(mask.shape) == 1 else lines(mask, first, count)


def best_scores(stream: Any, best: Best, scores: Any, rows: int, mask: Any) -> None:
    """Keep the best of a table of scores ``(queries, rows)``."""
    push = SCORES.pack(
        stream.address(scores),
        0 if mask is None else stream.address(mask),
        0,
        0,
        rows,
        0,
        mask_step(mask),
        0,
        0.0,
    )
    more = (0, wide(stream, scores, rows), mask is not None)
    best.launch(stream, "best_scores", more, push, [scores, mask])


def _topk(stream: Any, outs: Any, ins: Any, attrs: dict[str, Any]) -> None:
    scores, mask = ins
    queries, rows = scores.shape
    best = Best.of(stream, outs, parts_for(queries, rows), negate=attrs["largest"])
    best_scores(stream, best, scores, rows, mask)
    best.merge(stream)


def _served(c: Any) -> bool:
    queries, rows = c.ins[0].shape
    return c.attrs["k"] <= MOST and rows < 1 << 31 and queries * max(rows, c.attrs["k"]) < 1 << 40


def register(kernels: Any, runtime: Any) -> None:
    """Declare the kernels of this module."""
    kernels.add("faiss.topk", _topk, dtypes={"f32"}, layout="contiguous", when=_served)
