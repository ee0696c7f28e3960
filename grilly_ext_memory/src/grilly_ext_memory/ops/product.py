"""What each codeword of a product quantiser adds to a distance."""

from __future__ import annotations

from typing import Any

from grilly_core.errors import ShapeError
from grilly_core.ops.views import reshape
from grilly_core.opspec import op
from grilly_core.tensor import Tensor

__all__ = ["code_tables"]

Samples = Any
_METRICS = ("sqeuclidean", "ip", "l1")


@op("faiss.code_tables")
def code_tables(queries: Tensor, codebooks: Tensor, *, metric: str) -> Tensor:
    """Distances ``(R, M, K)`` between the parts of queries ``(R, M, W)`` and the codewords of each part ``(M, K, W)``.

    Metrics: ``"sqeuclidean"``, ``"ip"``, ``"l1"``, whose parts add up. Sums run over the W columns in order, so a row's
    numbers do not depend on how many rows there are.
    """
    if queries.ndim != 3 or codebooks.ndim != 3 or (
        (queries.shape[1], queries.shape[2]) != (codebooks.shape[0], codebooks.shape[2])
    ):  # fmt: skip
        raise ShapeError(
            f"faiss.code_tables: expected queries (R, M, W) and codebooks (M, K, W); received {tuple(queries.shape)} "
            f"and {tuple(codebooks.shape)}."
        )
    if metric not in _METRICS:
        raise ValueError(f"faiss.code_tables: metric is one of {', '.join(_METRICS)}; received {metric!r}.")
    r, m, w = queries.shape
    total = None
    for j in range(w):
        a, b = reshape(queries[:, :, j], shape=(r, m, 1)), codebooks[:, :, j]
        part = a * b if metric == "ip" else a - b
        part = part if metric == "ip" else (part * part if metric == "sqeuclidean" else abs(part))
        total = part if total is None else total + part
    assert total is not None
    return total


@code_tables.samples
def _(s: Samples) -> None:
    for metric in _METRICS:
        s.case(s.f32(3, 2, 4), s.f32(2, 5, 4), metric=metric)
    s.case(s.f32(0, 2, 4), s.f32(2, 5, 4), metric="ip")
    s.case(s.f32(70, 3, 1), s.f32(3, 256, 1), metric="sqeuclidean")
    s.error(ShapeError, "codebooks", s.f32(3, 2, 4), s.f32(3, 5, 4), metric="ip")
    s.error(ValueError, "metric", s.f32(3, 2, 4), s.f32(2, 5, 4), metric="cosine")
