"""What the methods of indexes accept."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from grilly_core.errors import ShapeError
from grilly_core.tensor import Tensor
from grilly_ext_memory.ops.metrics import METRICS, largest_first

__all__ = [
    "METRICS",
    "Vectors",
    "as_count",
    "as_ids",
    "as_metric",
    "as_vectors",
    "largest_first",
    "unit_rows",
]

Vectors = NDArray[np.float32]


def as_metric(metric: str) -> str:
    """Return a metric that is known."""
    if metric not in METRICS:
        raise ValueError(f"metric: expected one of {', '.join(METRICS)}; received {metric!r}.")
    return metric


def as_vectors(x: Any, d: int, who: str, *, finite: bool = False) -> Vectors:
    """Return rows ``(N, d)`` in float32, packed; a single row may be ``(d,)``. The caller's array stays as it is.

    Raises
    ------
    ShapeError
        For another width.
    ValueError
        If `finite` and something is not.
    """
    try:
        array = x.detach().numpy() if isinstance(x, Tensor) else np.asarray(x)
    except ValueError as error:  # rows of different lengths
        raise TypeError(f"{who}: expected rows of numbers, all of width {d}: {error}.") from error
    if array.dtype.kind not in "fiub":
        raise TypeError(f"{who}: expected rows of numbers; received dtype {array.dtype}.")
    if array.ndim == 1 and array.shape[0] == d:
        array = array[None]
    if array.ndim != 2 or array.shape[1] != d:
        raise ShapeError(
            f"{who}: the index holds vectors of width {d}; received shape {array.shape}"
            + (f", of width {array.shape[-1]}." if array.ndim else ".")
        )
    with np.errstate(over="ignore"):  # told of below, where it matters
        rows = np.ascontiguousarray(array, np.float32)
    if finite and not np.isfinite(rows).all():
        bad = int(np.flatnonzero(~np.isfinite(rows).all(axis=1))[0])
        raise ValueError(f"{who}: row {bad} holds numbers that are not finite in float32.")
    return rows


def as_ids(ids: Any, who: str) -> NDArray[np.int64]:
    """Return ids ``(N,)`` as int64, none negative."""
    array = ids.numpy() if isinstance(ids, Tensor) else np.asarray(ids)
    if array.size == 0:
        array = array.astype(np.int64)
    if array.dtype.kind not in "iu" or array.ndim != 1:
        raise TypeError(f"{who}: expected ids as integers (N,); received {array.dtype} {array.shape}.")
    made = array.astype(np.int64)
    if made.size and made.min() < 0:
        raise ValueError(f"{who}: ids are not negative (-1 stands for nothing found); received {made.min()}.")
    return made


def as_count(k: Any, who: str, name: str = "k") -> int:
    """Return a positive whole number."""
    try:
        number = operator.index(k)
    except TypeError as error:
        raise TypeError(f"{who}: {name} must be a whole number; received {k!r}.") from error
    if number < 1:
        raise ValueError(f"{who}: {name} must be at least 1; received {number}.")
    return number


def unit_rows(x: Vectors) -> Vectors:
    """Return the rows at length 1, in a new array; a row of zeros stays."""
    lengths = np.sqrt(np.einsum("ij,ij->i", x, x, dtype=np.float64))[:, None]
    return np.divide(x, lengths, out=np.zeros_like(x), where=lengths > 0, casting="same_kind")
