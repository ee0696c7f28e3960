"""Search among codes: sums of table entries (product quantisation) and counts of differing bits."""

from __future__ import annotations

from typing import Any

import numpy as np

from grilly_core import dtypes
from grilly_core.dtypes import int32
from grilly_core.errors import DTypeError, ShapeError
from grilly_core.ops.math import logical_and, logical_or
from grilly_core.ops.primitives import (
    bitwise_and,
    bitwise_xor,
    cast,
    full,
    gather,
    minimum,
    mul,
    shift_right,
    sub,
    sum,
    where,
)  # fmt: skip
from grilly_core.ops.views import reshape
from grilly_core.opspec import op
from grilly_core.tensor import Tensor
from grilly_ext_memory.ops.distances import check_lists, in_list, in_lists
from grilly_ext_memory.ops.selection import allowed_rows, best, check_k, select

__all__ = ["code_search", "hamming_topk"]

Samples = Any
_LARGEST = (1 << 31) - 1


def _check_codes(tables: Tensor, codes: Tensor) -> None:
    if tables.ndim != 4 or codes.ndim != 2 or tables.shape[2] != codes.shape[1] or tables.shape[3] < 1:
        raise ShapeError(
            "faiss.code_search: expected tables (Q, P, M, K) and codes (N, M); received "
            f"{tuple(tables.shape)} and {tuple(codes.shape)}."
        )
    if tables.dtype is not dtypes.float32 or codes.dtype is not dtypes.uint8:
        raise DTypeError(
            f"faiss.code_search: tables must be float32 and codes uint8; received {tables.dtype.name} and "
            f"{codes.dtype.name}."
        )


@op("faiss.code_search", nondiff=True)
def code_search(
    tables: Tensor, codes: Tensor, offsets: Tensor, probes: Tensor, mask: Tensor | None = None, *, k: int,
    largest: bool = False,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """The `k` best rows of codes in the probed lists: scores ``(Q, k)`` and positions, int32.

    `tables` ``(Q, P, M, K)`` f32, `codes` ``(N, M)`` uint8, `offsets` and `probes` ``(Q, P)`` as for `list_search` (one
    list of all rows: offsets ``[0, N]``, probes of zeros). A row of the list that is probed p-th scores the sum over m,
    in order, of ``tables[q, p, m, codes[row, m]]``; a code of K or more counts as K - 1. A list that is probed twice
    counts with its first tables. The body makes tables of Q N numbers.
    """
    name, (q, probed, m, width) = "faiss.code_search", _shape(tables, codes)
    check_lists(name, offsets, probes, q)
    if probes.shape[1] != probed:
        raise ShapeError(f"{name}: tables are for {probed} probes; received probes {tuple(probes.shape)}.")
    check_k(name, k)
    n = codes.shape[0]
    index = minimum(cast(codes, dtype=int32), width - 1)
    total = full(shape=(q, n), value=0.0, dtype=dtypes.float32)
    inside = full(shape=(q, n), value=False, dtype=dtypes.bool_)
    for p in range(probed):
        score = full(shape=(q, n), value=0.0, dtype=dtypes.float32)
        for j in range(m):
            score = score + gather(tables[:, p, j], index[:, j], axis=1)
        here = in_list(offsets, probes[:, p], n)
        total, inside = where(inside, total, where(here, score, total)), logical_or(inside, here)
    return select(total, logical_and(inside, allowed_rows(name, mask, q, n)), k, largest=largest)


def _shape(tables: Tensor, codes: Tensor) -> tuple[int, int, int, int]:
    _check_codes(tables, codes)
    q, p, m, k = tables.shape
    return q, p, m, k


@code_search.reference
def _(tables: Any, codes: Any, offsets: Any, probes: Any, mask: Any = None, *, k: int, largest: bool) -> Any:
    q, probed, _, width = tables.shape
    scores = np.full((q, len(codes)), np.nan)
    index = np.minimum(codes, width - 1)
    for row in range(q):
        for p in reversed(range(probed)):
            if 0 <= probes[row, p] < len(offsets) - 1:
                rows = slice(offsets[probes[row, p]], offsets[probes[row, p] + 1])
                scores[row, rows] = sum_of(tables[row, p], index[rows])
    return best(scores, in_lists(offsets, probes, len(codes), mask), k, largest)


def sum_of(table: Any, index: Any) -> Any:
    """Return in NumPy the sums of the entries ``(M, K)`` that rows of codes pick."""
    return table[np.arange(len(table)), index].sum(1)


@code_search.samples
def _(s: Samples) -> None:
    codes = s.i32(60, 4, low=0, high=16).astype("uint8")
    whole, zeros = s.array([0, 60]).astype("int32"), s.array([[0], [0]]).astype("int32")
    s.case(s.f32(2, 1, 4, 16), codes, whole, zeros, None, k=7)
    s.case(s.f32(2, 1, 4, 16), codes, whole, zeros, s.bool(60), k=70, largest=True)
    s.case(s.f32(2, 1, 4, 8), codes, whole, zeros, None, k=5)
    offsets, probes = s.array([0, 10, 35, 60]).astype("int32"), s.array([[2, 0], [1, -1]]).astype("int32")
    s.case(s.f32(2, 2, 4, 16), codes, offsets, probes, None, k=12)
    s.case(s.f32(1, 2, 4, 16), codes, offsets, s.array([[1, 1]]).astype("int32"), None, k=40)
    s.case(s.f32(3, 1, 9, 256), s.i32(300, 9, low=0, high=256).astype("uint8"), s.array([0, 300]).astype("int32"),
           s.array([[0]] * 3).astype("int32"), None, k=10)  # fmt: skip
    s.error(ShapeError, "codes (N, M)", s.f32(2, 1, 3, 16), codes, whole, zeros, k=1)
    s.error(ShapeError, "probes", s.f32(2, 2, 4, 16), codes, whole, zeros, k=1)
    s.error(DTypeError, "uint8", s.f32(2, 1, 4, 16), codes.astype("int32"), whole, zeros, k=1)
    s.error(ValueError, "at least 1", s.f32(2, 1, 4, 16), codes, whole, zeros, k=0)


def _popcount(x: Tensor) -> Tensor:
    """Return how many bits of each word are set (Warren, Hacker's Delight, 5-1)."""
    x = sub(x, bitwise_and(shift_right(x, 1), 0x55555555))
    x = bitwise_and(x, 0x33333333) + bitwise_and(shift_right(x, 2), 0x33333333)
    x = bitwise_and(x + shift_right(x, 4), 0x0F0F0F0F)
    return cast(shift_right(mul(x, 0x01010101), 24), dtype=int32)


@op("faiss.hamming_topk", nondiff=True)
def hamming_topk(
    queries: Tensor, data: Tensor, mask: Tensor | None = None, *, k: int
) -> tuple[Tensor, Tensor]:
    """The `k` rows of `data` ``(N, W)`` that differ from each of `queries` ``(Q, W)`` in the fewest bits; both uint32.

    Distances ``(Q, k)`` and positions, both int32; of equal distances the lower position comes first. Where nothing is
    left, and for rows that `mask` ``(N,)`` forbids, the position is -1 and the distance 2^31 - 1. The body takes a few
    tables of Q N W words.
    """
    name = "faiss.hamming_topk"
    if queries.ndim != 2 or data.ndim != 2 or queries.shape[1] != data.shape[1]:
        raise ShapeError(
            f"{name}: expected queries (Q, W) and data (N, W) of one width; received {tuple(queries.shape)} and "
            f"{tuple(data.shape)}."
        )
    if queries.dtype is not dtypes.uint32 or data.dtype is not dtypes.uint32:
        raise DTypeError(
            f"{name}: expected packed uint32; received {queries.dtype.name} and {data.dtype.name}."
        )
    check_k(name, k)
    (q, w), n = queries.shape, data.shape[0]
    different = bitwise_xor(reshape(queries, shape=(q, 1, w)), reshape(data, shape=(1, n, w)))
    counts = cast(sum(_popcount(different), axis=2), dtype=int32)
    values, positions = select(counts, allowed_rows(name, mask, q, n), k, largest=False)
    return where(positions < 0, _LARGEST, values), positions


@hamming_topk.reference
def _(queries: Any, data: Any, mask: Any = None, *, k: int) -> Any:
    counts = np.bitwise_count(queries[:, None] ^ data[None]).sum(-1).astype(np.int64)
    return [x.astype(np.int32) for x in best(counts, mask, k, False, _LARGEST)]


@hamming_topk.samples
def _(s: Samples) -> None:
    s.case(s.u32(3, 2), s.u32(40, 2), None, k=6)
    s.case(s.u32(2, 5), s.u32(300, 5), s.bool(300), k=20)
    s.case(s.u32(2, 1), s.u32(7, 1), s.bool(7), k=9)
    s.case(s.u32(2, 3), s.u32(0, 3), None, k=2)
    s.error(ShapeError, "one width", s.u32(2, 3), s.u32(4, 2), k=1)
    s.error(DTypeError, "uint32", s.i32(2, 3), s.u32(4, 3), k=1)
    s.error(ValueError, "at least 1", s.u32(2, 3), s.u32(4, 3), k=0)
