"""What the metrics are: the score of two rows, as the definition that every kernel is held to.

========== ======================== ==============
metric     score                    nearest first
========== ======================== ==============
sqeuclidean ``sum (q - x)^2``       smallest
l2         ``sqrt(sum (q - x)^2)``  smallest
ip         ``sum q x``              largest
cosine     ``1 - q x / (|q| |x|)``  smallest
l1         ``sum |q - x|``          smallest
========== ======================== ==============

Scores come from differences, never from ``|q|^2 + |x|^2 - 2 q x``, which loses everything where coordinates are large
beside their differences. The squares of `l2` may overflow or vanish: then the differences are scaled by a power of two
first. A row of `cosine` is divided by its largest coordinate before its length is taken; a row of zeros has distance 1
to all, and no distance is negative. Kernels decide by the float64 sum, term by term in order, rounded to float32.
"""

from __future__ import annotations

import builtins
from typing import Any, Final

from grilly_core import dtypes
from grilly_core.errors import DTypeError, ShapeError
from grilly_core.inspection import finfo
from grilly_core.ops.primitives import abs, cast, div, eq, max, maximum, minimum, mul, sqrt, sub, sum, where
from grilly_core.ops.structure import concat
from grilly_core.ops.views import reshape
from grilly_core.tensor import Tensor

__all__ = [
    "METRICS", "SCALES", "check_metric", "check_rows", "largest_first", "scores", "unit", "working",
]  # fmt: skip

#: Name → whether the largest score is the nearest.
METRICS: Final = {"sqeuclidean": False, "l2": False, "ip": True, "cosine": False, "l1": False}

#: Bits of a number → (what is a vanishing sum of squares, the factor that brings it back; the same for overflow).
SCALES: Final = {32: (2.0**-100, 2.0**100), 64: (2.0**-900, 2.0**700)}


#: Differences that a body holds at once.
BLOCK: Final = 1 << 24


def largest_first(metric: str) -> bool:
    """Whether the largest score is the nearest; of any other metric, such as Hamming's, it is not."""
    return METRICS.get(metric, False)


def check_metric(name: str, metric: Any) -> None:
    """Refuse a metric that is not known."""
    if metric not in METRICS:
        raise ValueError(f"{name}: metric is one of {', '.join(map(repr, METRICS))}; received {metric!r}.")


def check_rows(name: str, queries: Tensor, data: Tensor, metric: str) -> None:
    """Refuse an unknown metric, and what is not two tables of floating rows of one width."""
    check_metric(name, metric)
    if queries.ndim != 2 or data.ndim != 2:
        raise ShapeError(
            f"{name}: expected queries (Q, D) and data (N, D); received {tuple(queries.shape)} and "
            f"{tuple(data.shape)}."
        )
    if queries.shape[1] != data.shape[1] or data.shape[1] < 1:
        raise ShapeError(
            f"{name}: queries have the width {queries.shape[1]}, data has the width {data.shape[1]}; they must be "
            "equal and at least 1."
        )
    for what, x in (("queries", queries), ("data", data)):
        if not x.dtype.is_floating:
            raise DTypeError(f"{name}: {what} must be floating; received {x.dtype.name}. Cast with .float().")


def working(queries: Tensor, data: Tensor) -> tuple[Tensor, Tensor]:
    """Return both in the type that scores are computed in: f64 if one of them is, else f32."""
    wide = dtypes.float64 in (queries.dtype, data.dtype)
    dtype = dtypes.float64 if wide else dtypes.float32
    q, x = (t if t.dtype is dtype else cast(t, dtype=dtype) for t in (queries, data))
    return q, x


def unit(x: Tensor) -> tuple[Tensor, Tensor]:
    """Return rows at length 1 (zeros stay) and ``(N, 1)`` what each was multiplied by, 0 for a row of zeros."""
    smallest = float(finfo(x.dtype).smallest_normal)
    largest = max(abs(x), axis=1, keepdims=True)
    scale = minimum(maximum(div(1.0, maximum(largest, smallest)), smallest), 1.0 / smallest)
    scaled = mul(x, scale)
    length = sqrt(sum(mul(scaled, scaled), axis=1, keepdims=True))
    empty = eq(length, 0.0)
    inverse = where(empty, 0.0, div(1.0, where(empty, 1.0, length)))
    return mul(scaled, inverse), mul(scale, inverse)


def scores(q: Tensor, x: Tensor, metric: str) -> Tensor:
    """Return the scores ``(Q, N)`` of rows of one type, so many rows at once that their differences stay small."""
    rows = builtins.max(1, BLOCK // builtins.max(1, q.shape[0] * q.shape[1]))
    if x.shape[0] <= rows:
        return _scores(q, x, metric)
    parts = [_scores(q, x[at : at + rows], metric) for at in range(0, x.shape[0], rows)]
    return concat(parts, axis=1)


def _scores(q: Tensor, x: Tensor, metric: str) -> Tensor:
    (m, d), n = q.shape, x.shape[0]
    if metric == "cosine":
        q, x = unit(q)[0], unit(x)[0]
    a, b = reshape(q, shape=(m, 1, d)), reshape(x, shape=(1, n, d))
    if metric in ("ip", "cosine"):
        product = sum(mul(a, b), axis=2)
        return maximum(sub(1.0, product), 0.0) if metric == "cosine" else product
    difference = sub(a, b)
    if metric == "l1":
        return sum(abs(difference), axis=2)
    squared = sum(mul(difference, difference), axis=2)
    return squared if metric == "sqeuclidean" else _root(squared, difference)


def _root(squared: Tensor, difference: Tensor) -> Tensor:
    """Return the root of a sum of squares, from scaled differences where the squares leave the range."""
    tiny, factor = SCALES[squared.dtype.itemsize * 8]
    infinite = eq(squared, float("inf"))
    up, down = mul(difference, factor), mul(difference, 1.0 / factor)
    large = mul(sqrt(sum(mul(down, down), axis=2)), factor)
    small = mul(sqrt(sum(mul(up, up), axis=2)), 1.0 / factor)
    return where(infinite, large, where(squared < tiny, small, sqrt(squared)))
