"""Distances between rows, and the search for the nearest rows, in all of them or in lists."""

from __future__ import annotations

from typing import Any

import numpy as np

from grilly_core.dtypes import bool_, float32, float64, int32
from grilly_core.errors import DTypeError, ShapeError
from grilly_core.ops.math import logical_and, logical_or
from grilly_core.ops.primitives import (
    cast,
    div,
    eq,
    full,
    gather,
    iota,
    lt,
    matmul,
    neg,
    sign,
    sub,
    sum,
    where,
)  # fmt: skip
from grilly_core.ops.views import permute_dims, reshape
from grilly_core.opspec import op
from grilly_core.tensor import Tensor
from grilly_ext_memory.ops.metrics import METRICS, check_rows, scores, unit, working
from grilly_ext_memory.ops.selection import allowed_rows, best, check_k, select

__all__ = ["METRICS", "check_lists", "distances", "in_list", "in_lists", "list_search", "search"]

Samples = Any


def _halves(queries: Tensor, data: Tensor) -> bool:
    """Whether rows are computed in f32 without being it: then they are cast, and kernels for f32 may serve."""
    dtypes = {queries.dtype, data.dtype}
    return float64 not in dtypes and dtypes != {float32}


@op("faiss.distances")
def distances(queries: Tensor, data: Tensor, *, metric: str) -> Tensor:
    """Scores ``(Q, N)`` of `queries` ``(Q, D)`` and `data` ``(N, D)``: "sqeuclidean", "l2", "ip", "cosine" or "l1".

    In f64 if an input is f64, else in f32. See `metrics` for what each is. The body holds a few tables of 2^24
    numbers at once beside the result.
    """
    check_rows("faiss.distances", queries, data, metric)
    if _halves(queries, data):
        made: Tensor = distances(*working(queries, data), metric=metric)
        return made
    return scores(*working(queries, data), metric)


def _turned(x: Tensor) -> Tensor:
    result: Tensor = permute_dims(x, axes=(1, 0))
    return result


def _pull_squares(g: Tensor, q: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
    """Gradient of sums of squares, as ``2 (sum_n g) q - 2 g x``: no table of Q N D numbers."""
    left, right = sum(g, axis=1, keepdims=True), reshape(sum(g, axis=0), shape=(x.shape[0], 1))
    return 2.0 * (left * q - matmul(g, x)), 2.0 * (right * x - matmul(_turned(g), q))


def _pull_cosine(g: Tensor, q: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
    (uq, iq), (ux, ix) = unit(q), unit(x)
    made = []
    for weight, u, other, inverse in ((g, uq, ux, iq), (_turned(g), ux, uq, ix)):
        along = matmul(weight, other)
        made.append(neg(inverse * (along - u * sum(u * along, axis=1, keepdims=True))))
    return made[0], made[1]


def _pull_l1(g: Tensor, q: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
    (m, d), n = q.shape, x.shape[0]
    signs = sign(sub(reshape(q, shape=(m, 1, d)), reshape(x, shape=(1, n, d)))) * reshape(g, shape=(m, n, 1))
    return sum(signs, axis=1), neg(sum(signs, axis=0))


@distances.vjp
def _(grads: Any, outs: Any, ins: Any, attrs: Any, needs: Any) -> Any:
    (g,), (score,), metric = grads, outs, attrs["metric"]
    q, x = working(*ins)
    if metric == "ip":
        pulled = matmul(g, x), matmul(_turned(g), q)
    elif metric == "cosine":
        pulled = _pull_cosine(g, q, x)
    elif metric == "l1":
        pulled = _pull_l1(g, q, x)
    else:
        same = eq(score, 0.0)  # rows at distance 0 have no direction: their gradient is 0, as PyTorch's
        by = g if metric == "sqeuclidean" else where(same, 0.0, div(g, where(same, 1.0, 2.0 * score)))
        pulled = _pull_squares(by, q, x)
    return tuple(
        p if p.dtype is t.dtype else cast(p, dtype=t.dtype) for p, t in zip(pulled, ins, strict=True)
    )


def reference(q: Any, x: Any, metric: str) -> Any:
    """Return the scores in NumPy, in the type of the rows."""
    if metric in ("ip", "cosine"):
        if metric == "ip":
            return q @ x.T
        lengths = [np.linalg.norm(t, axis=1, keepdims=True) for t in (q, x)]
        a, b = (t / np.where(n == 0, 1, n) for t, n in zip((q, x), lengths, strict=True))
        return np.maximum(1 - a @ b.T, 0)
    difference = q[:, None] - x[None]
    if metric == "l1":
        return np.abs(difference).sum(-1)
    squared = (difference**2).sum(-1)
    return squared if metric == "sqeuclidean" else np.sqrt(squared)


@distances.reference
def _(queries: Any, data: Any, *, metric: str) -> Any:
    return reference(queries, data, metric)


@distances.samples
def _(s: Samples) -> None:
    q, x = s.f32(3, 5), s.f32(6, 5)
    for metric in METRICS:
        s.case(q, x, metric=metric)
        s.case(s.f32(5, 37), s.f32(70, 37), metric=metric, grad="none")
    zero = s.array(np.zeros((1, 3), np.float32))
    s.case(zero, s.f32(4, 3), metric="cosine", grad="none")
    far = s.array(np.array([[4000005, 2000003, 3000002]], np.float32))
    near = far + np.array([[-600, 700, 150], [-4, 6, 1]], np.float32)
    s.case(far, near, metric="sqeuclidean", grad="none")
    s.case(s.f32(2, 3, scale=1e19), s.f32(3, 3, scale=1e19), metric="l2", grad="none")
    s.case(s.f32(2, 3), s.f32(0, 3), metric="l2")
    s.case(s.f32(0, 3), s.f32(2, 3), metric="cosine")
    s.error(ValueError, "'sqeuclidean'", q, x, metric="euclid")
    s.error(ShapeError, "width 5", q, s.f32(6, 4), metric="l2")
    s.error(ShapeError, "queries (Q, D)", s.f32(5), x, metric="l2")
    s.error(DTypeError, "floating", q.astype("int32"), x, metric="l2")


@op("faiss.search", nondiff=True)
def search(
    queries: Tensor, data: Tensor, mask: Tensor | None = None, *, k: int, metric: str
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """The `k` nearest rows of `data` ``(N, D)`` for each of `queries` ``(Q, D)``: scores ``(Q, k)``, positions int32.

    `mask` ``(N,)`` or ``(Q, N)`` is True where a row may be found. The order is that of `topk` over `distances`,
    computed directly, so it depends on neither the number of queries nor that of threads. The body makes the whole
    table; kernels take a block of it at a time.
    """
    check_rows("faiss.search", queries, data, metric)
    check_k("faiss.search", k)
    if _halves(queries, data):
        found: tuple[Tensor, Tensor] = search(*working(queries, data), mask, k=k, metric=metric)
        return found
    valid = allowed_rows("faiss.search", mask, queries.shape[0], data.shape[0])
    return select(distances(queries, data, metric=metric), valid, k, largest=METRICS[metric])


@search.reference
def _(queries: Any, data: Any, mask: Any = None, *, k: int, metric: str) -> Any:
    return best(reference(queries, data, metric), mask, k, METRICS[metric])


@search.samples
def _(s: Samples) -> None:
    q, x = s.f32(4, 6), s.f32(30, 6)
    for metric in METRICS:
        s.case(q, x, None, k=4, metric=metric)
        s.case(s.f32(33, 20), s.f32(300, 20), s.bool(300), k=12, metric=metric)
    s.case(s.f32(1, 33), s.f32(520, 33), None, k=100, metric="l2")
    s.case(q, x, None, k=50, metric="sqeuclidean")
    s.case(q, x, s.bool(4, 30), k=5, metric="l2")
    s.case(q, s.array(np.repeat(x[:3], 5, axis=0)), None, k=9, metric="sqeuclidean")
    s.case(q, s.f32(0, 6), None, k=2, metric="ip")
    s.case(s.f32(0, 6), x, None, k=2, metric="ip")
    odd = np.array([[0, 0], [np.nan, 0], [1, 1]], np.float32)
    s.case(s.array([[0, 0], [np.nan, 0]]).astype("float32"), odd, None, k=3, metric="sqeuclidean")
    s.error(ValueError, "at least 1", q, x, k=0, metric="l2")
    s.error(ValueError, "metric is one of", q, x, k=1, metric="dot")
    s.error(ShapeError, "width 6", q, s.f32(6, 5), k=1, metric="l2")
    s.error(ShapeError, "mask", q, x, s.bool(29), k=1, metric="l2")


def check_lists(name: str, offsets: Tensor, probes: Tensor, queries: int) -> None:
    """Refuse offsets ``(L + 1,)`` or probes ``(Q, P)`` of other shapes or types."""
    if offsets.ndim != 1 or offsets.shape[0] < 2 or probes.ndim != 2 or probes.shape[0] != queries:
        raise ShapeError(
            f"{name}: expected offsets (L + 1,) of one list or more and probes (Q, P) with Q = {queries}; received "
            f"{tuple(offsets.shape)} and {tuple(probes.shape)}."
        )
    for what, x in (("offsets", offsets), ("probes", probes)):
        if x.dtype is not int32:
            raise DTypeError(f"{name}: {what} must be int32; received {x.dtype.name}.")


def in_list(offsets: Tensor, probe: Tensor, rows: int) -> Tensor:
    """Whether each row ``(Q, N)`` is in the list `probe` ``(Q,)``; a list that does not exist has none."""
    q, lists = probe.shape[0], offsets.shape[0] - 1
    there = logical_and(probe >= 0, lt(probe, lists))
    safe = where(there, probe, 0)
    start, stop = (reshape(gather(offsets, at, axis=0), shape=(q, 1)) for at in (safe, safe + 1))
    row = reshape(iota(size=rows, dtype=int32), shape=(1, rows))
    return logical_and(reshape(there, shape=(q, 1)), logical_and(row >= start, lt(row, stop)))


def in_lists(offsets: Any, probes: Any, rows: int, mask: Any) -> Any:
    """Return in NumPy which rows ``(Q, N)`` the probed lists hold and the mask allows: the oracle."""
    allowed = np.zeros((len(probes), rows), bool)
    for q, row in enumerate(probes):
        for probe in row[(row >= 0) & (row < len(offsets) - 1)]:
            allowed[q, offsets[probe] : offsets[probe + 1]] = True
    return allowed if mask is None else allowed & mask


@op("faiss.list_search", nondiff=True)
def list_search(
    queries: Tensor, data: Tensor, offsets: Tensor, probes: Tensor, mask: Tensor | None = None, *, k: int, metric: str
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """`search` in the lists that each query probes: list i of `data` are the rows ``offsets[i]`` to ``offsets[i + 1]``.

    `offsets` ``(L + 1,)`` int32 rise from 0 to N; `probes` ``(Q, P)`` int32, a number outside of 0 to L - 1 (such as
    -1) for none. A list that is probed twice counts once. The body makes the whole table of scores; kernels visit the
    probed lists alone.
    """
    name, q, n = "faiss.list_search", queries.shape[0], data.shape[0]
    check_rows(name, queries, data, metric)
    check_k(name, k)
    check_lists(name, offsets, probes, q)
    if _halves(queries, data):
        q32, x32 = working(queries, data)
        found: tuple[Tensor, Tensor] = list_search(q32, x32, offsets, probes, mask, k=k, metric=metric)
        return found
    inside = full(shape=(q, n), value=False, dtype=bool_)
    for p in range(probes.shape[1]):
        inside = logical_or(inside, in_list(offsets, probes[:, p], n))
    valid = logical_and(inside, allowed_rows(name, mask, q, n))
    return select(distances(queries, data, metric=metric), valid, k, largest=METRICS[metric])


@list_search.reference
def _(
    queries: Any, data: Any, offsets: Any, probes: Any, mask: Any = None, *, k: int, metric: str
) -> Any:  # fmt: skip
    allowed = in_lists(offsets, probes, len(data), mask)
    return best(reference(queries, data, metric), allowed, k, METRICS[metric])


@list_search.samples
def _(s: Samples) -> None:
    offsets = s.array([0, 11, 11, 25, 40]).astype("int32")
    q, x, probes = s.f32(3, 6), s.f32(40, 6), s.array([[0, 2], [3, -1], [1, 9]]).astype("int32")
    for metric in METRICS:
        s.case(q, x, offsets, probes, None, k=4, metric=metric)
    s.case(q, x, offsets, probes, s.bool(40), k=30, metric="ip")
    s.case(q, x, offsets, s.array([[2, 2, 0]] * 3).astype("int32"), None, k=30, metric="l2")
    s.case(q, x, offsets, s.array(np.zeros((3, 0), np.int32)), None, k=2, metric="l2")
    many = s.array(np.arange(0, 401, 40)).astype("int32")
    s.case(
        s.f32(50, 17), s.f32(400, 17), many, s.i32(50, 4, low=-1, high=10), None, k=10, metric="sqeuclidean"
    )
    s.error(ShapeError, "probes (Q, P)", q, x, offsets, probes[:2], k=1, metric="l2")
    s.error(DTypeError, "int32", q, x, offsets.astype("float32"), probes, k=1, metric="l2")
    s.error(ValueError, "at least 1", q, x, offsets, probes, k=-1, metric="l2")
