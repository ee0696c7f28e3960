"""Search in lists, among codes and bits on Vulkan: a work group for each slice of a list that a query probes."""

from __future__ import annotations

import struct
from typing import Any, Final

from grilly_core.buffer import View
from grilly_core.dtypes import float32
from grilly_ext_memory.kernels.best_vulkan import (
    MOST,
    Best,
    best_scores,
    fewest_parts,
    lines,
    mask_of,
    mask_step,
    most_parts,
    parts_for,
    wide,
)
from grilly_ext_memory.kernels.exact_vulkan import METRICS, best_rows, least_parts, served

__all__ = ["register"]

_CODES: Final = struct.Struct("<4x5Q7I4x")
_BITS: Final = struct.Struct("<4x3Q3I4x")
_TABLES: Final = struct.Struct("<3Q4I")
_GROUPS: Final = 1024  # that fill a device some times over
_ENTRIES: Final = 1 << 24  # that are kept at once, 128 MiB
_SLICE: Final = 256  # rows that are worth a work group
_MOST_WORDS: Final = 1 << 12


def _slices(queries: int, probed: int, lists: int, rows: int, k: int, least: int) -> int:
    """Return into how many slices a list is cut, by numbers alone; `least` if one list held all rows."""
    wanted = min(-(-_GROUPS // max(1, queries * probed)), rows // max(1, lists) // _SLICE)
    return max(1, min(max(wanted, least), most_parts(k) // probed))


def _by_lists(stream: Any, outs: Any, probes: Any, slices: int, negate: bool, keep: Any) -> None:
    """Call `keep` with what keeps the best, for so many queries at once that entries stay few."""
    count, k = outs[0].shape
    parts = probes.shape[1] * slices
    each = max(1, _ENTRIES // (parts * k))
    for first in range(0, count, each):
        some = min(each, count - first)
        best = Best.of(stream, [lines(v, first, some) for v in outs], parts, negate=negate)
        keep(best, first, some)
        best.merge(stream)


def _nothing(stream: Any, outs: Any, view: Any, negate: bool) -> None:
    """Write that nothing was found: no list is probed."""
    best_scores(stream, Best.of(stream, outs, 1, negate=negate), view, 0, None)


def _list_search(stream: Any, outs: Any, ins: Any, attrs: dict[str, Any]) -> None:
    queries, rows, offsets, probes, mask = ins
    metric, negate = attrs["metric"], attrs["metric"] == "ip"
    (count, probed), there = probes.shape, rows.shape[0]
    if probed == 0:
        _nothing(stream, outs, queries, negate)
        return
    least = least_parts(stream.facts, there, rows.shape[1])
    slices = _slices(count, probed, offsets.shape[0] - 1, there, attrs["k"], least)

    def keep(best: Best, first: int, some: int) -> None:
        asked, probing = lines(queries, first, some), lines(probes, first, some)
        lists = (offsets, probing)
        best_rows(stream, best, asked, rows, mask_of(mask, first, some), metric, lists=lists, slices=slices)

    _by_lists(stream, outs, probes, slices, negate, keep)


def _code_search(stream: Any, outs: Any, ins: Any, attrs: dict[str, Any]) -> None:
    tables, codes, offsets, probes, mask = ins
    (count, probed), (there, length) = probes.shape, codes.shape
    if probed == 0:
        _nothing(stream, outs, tables, attrs["largest"])
        return
    width = tables.shape[3]
    least = fewest_parts(stream.facts, there, 256, length + 64)
    slices = _slices(count, probed, offsets.shape[0] - 1, there, attrs["k"], least)

    def keep(best: Best, first: int, some: int) -> None:
        held = length * width
        if 4 * held + 8 * best.constants(last=False)[1] + 64 > stream.facts.shared_memory:
            held = 1
        places: list[View | None] = [
            lines(tables, first, some), codes, mask_of(mask, first, some), offsets, lines(probes, first, some)
        ]  # fmt: skip
        push = _CODES.pack(
            *(0 if v is None else stream.address(v) for v in places), there, length, width, mask_step(mask),
            offsets.shape[0] - 1, probed, slices,
        )  # fmt: skip
        words = length % 4 == 0 and stream.address(codes) % 4 == 0
        best.launch(stream, "best_codes", (held, words), push, places)

    _by_lists(stream, outs, probes, slices, attrs["largest"], keep)


def _hamming(stream: Any, outs: Any, ins: Any, attrs: dict[str, Any]) -> None:
    queries, rows, mask = ins
    there, words = rows.shape
    fewest = fewest_parts(stream.facts, there, 256, words + 64)
    best = Best.of(stream, outs, max(fewest, parts_for(queries.shape[0], there)), counts=True)
    places = (queries, rows, mask)
    push = _BITS.pack(
        *(0 if v is None else stream.address(v) for v in places), there, words, mask_step(mask)
    )  # fmt: skip
    aligned = wide(stream, rows, words) and wide(stream, queries, words)
    best.launch(stream, "best_bits", (aligned,), push, list(places))
    best.merge(stream)


def _code_tables(stream: Any, outs: Any, ins: Any, attrs: dict[str, Any]) -> None:
    queries, books = ins
    count, pieces, width = queries.shape
    push = _TABLES.pack(
        *(stream.address(v) for v in (outs[0], queries, books)), count, pieces, books.shape[1], width
    )
    groups = min(-(-outs[0].spec.size // 256), 65535)
    pipeline = stream.pipeline("memory.code_tables", (METRICS[attrs["metric"]],))
    stream.launch(pipeline, (groups, 1, 1), push, [queries, books], [outs[0]])


def _served_lists(c: Any, least: int) -> bool:
    """Whether the parts of a query are not too many to be merged; `least` slices if one list held all rows."""
    offsets, probes = c.ins[2:4]
    k = c.attrs["k"]
    return offsets.shape[0] > 1 and k <= MOST and least * probes.shape[1] <= most_parts(k)


def _served_rows(c: Any) -> bool:
    rows = c.ins[1]
    return served(c) and _served_lists(c, least_parts(c.runtime.facts, *rows.shape))


def _served_codes(c: Any) -> bool:
    there, length = c.ins[1].shape
    least = fewest_parts(c.runtime.facts, there, 256, length + 64)
    return there < 1 << 31 and length <= _MOST_WORDS and _served_lists(c, least)


def _served_bits(c: Any) -> bool:
    (count, words), there, k = c.ins[0].shape, c.ins[1].shape[0], c.attrs["k"]
    fewest = fewest_parts(c.runtime.facts, there, 256, words + 64)
    small = k <= MOST and there < 1 << 31 and words <= _MOST_WORDS and count < 1 << 31
    return small and fewest <= most_parts(k)


def _served_tables(c: Any) -> bool:
    return all(s.dtype is float32 for s in c.ins) and c.ins[0].shape[2] <= _MOST_WORDS


def register(kernels: Any, runtime: Any) -> None:
    """Declare the kernels of this module."""
    floats: dict[str, Any] = {"dtypes": {"f32"}, "layout": "contiguous"}
    kernels.add("faiss.list_search", _list_search, when=_served_rows, **floats)
    kernels.add("faiss.code_search", _code_search, when=_served_codes, **floats)
    kernels.add("faiss.code_tables", _code_tables, when=_served_tables, **floats)
    kernels.add(
        "faiss.hamming_topk", _hamming, dtypes={"u32", "i32", "b1"}, layout="contiguous", when=_served_bits
    )
