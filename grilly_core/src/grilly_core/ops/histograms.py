"""Counting: how often integers occur, and how many numbers fall into bins."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from grilly_core import dtypes
from grilly_core.apply import as_tensor
from grilly_core.errors import ShapeError
from grilly_core.ops import primitives as p
from grilly_core.ops.math import as_float, clip, floor
from grilly_core.ops.reduce import sum
from grilly_core.ops.sets import searchsorted
from grilly_core.ops.statistics import aminmax
from grilly_core.ops.views import broadcast_to, reshape
from grilly_core.tensor import Tensor

__all__ = ["bincount", "histc", "histogram"]


class Histogram(NamedTuple):
    """Counts, and the edges of the bins."""

    hist: Tensor
    bin_edges: Tensor


def bincount(x: Any, weights: Any = None, /, *, minlength: int = 0) -> Tensor:
    """Return how often each integer 0, 1, ... occurs, or the sums of `weights` where it does.

    The largest one is read by the host once; inside `capture` that is an error.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.bincount([0, 2, 2]).tolist()
    [1, 0, 2]
    """
    from grilly_core.ops.creation import zeros

    x = as_tensor(x)
    if x.ndim != 1 or not x.dtype.is_integer:
        raise ShapeError(
            f"bincount: expected a 1-D tensor of integers; received {x.dtype.name} of shape {x.shape}."
        )
    low, top = (int(v.item()) for v in aminmax(x)) if x.shape[0] else (0, -1)
    if low < 0:
        raise ValueError(f"bincount: expected integers that are not negative; received {low}.")
    size = top + 1 if top + 1 > minlength else minlength
    ones = broadcast_to(as_tensor(1, x), shape=x.shape) if weights is None else as_tensor(weights)
    ones = p.cast(ones, dtype=dtypes.default_int) if weights is None else as_float(ones)
    return p.scatter(zeros(size, dtype=ones.dtype, device=x.device), x, ones, axis=0, mode="add")


def histc(x: Any, bins: int = 100, *, min: float = 0.0, max: float = 0.0) -> Tensor:
    """Return the counts of `bins` equal bins from `min` to `max` (of the data, if both are equal).

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.histc([1.0, 2.0, 1.0], 4, min=0, max=3).tolist()
    [0.0, 2.0, 1.0, 0.0]
    """
    x = as_float(as_tensor(x))
    return _counted(x, bins, (float(min), float(max)) if min != max else None, None, 1.0)[0]


def _counted(x: Tensor, bins: int, range: Any, weights: Any, margin: float) -> tuple[Tensor, float, float]:
    from grilly_core.ops.creation import zeros

    flat = reshape(x, shape=(-1,))
    if range is None:
        low, high = (float(v.item()) for v in aminmax(flat.detach())) if flat.shape[0] else (0.0, 1.0)
    else:
        low, high = range
    if low == high:
        low, high = low - margin, high + margin
    inside = p.bitwise_and(flat >= low, flat <= high)
    place = floor(p.div(p.mul(p.sub(flat, low), float(bins)), high - low))
    place = clip(p.cast(p.where(inside, place, 0.0), dtype=dtypes.int32), 0, bins - 1)
    one = p.cast(inside, dtype=x.dtype)
    if weights is not None:
        one = p.mul(one, reshape(as_tensor(weights, x), shape=(-1,)))
    counts = p.scatter(zeros(bins, dtype=x.dtype, device=x.device), place, one, axis=0, mode="add")
    return counts, low, high


def histogram(
    x: Any,
    bins: int | Sequence[float] | Tensor,
    /,
    *,
    range: Sequence[float] | None = None,
    weights: Any = None,
    density: bool = False,
) -> Histogram:
    """Return the counts in bins and the edges of the bins.

    Parameters
    ----------
    x : array_like
    bins : int or sequence of float
        How many equal bins, or their edges in rising order.
    range : (float, float), optional
        Ends of equal bins; those of the data by default.
    weights : array_like, optional
        What each element counts, in the shape of `x`.
    density : bool
        Whether the area, in place of the sum, is the total: counts divided by their sum and the width of the bin.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.histogram([1.0, 2.0, 1.0], 4, range=(0, 4)).hist.tolist()
    [0.0, 2.0, 1.0, 0.0]
    """
    from grilly_core.ops.creation import linspace, zeros

    x = as_float(as_tensor(x))
    if isinstance(bins, int):
        counts, low, high = _counted(
            x, bins, None if range is None else tuple(map(float, range)), weights, 0.5
        )
        edges = linspace(low, high, bins + 1, dtype=x.dtype, device=x.device)
    else:
        edges = as_tensor(bins, x)
        flat = reshape(x, shape=(-1,))
        n = edges.shape[0] - 1
        place = p.sub(searchsorted(edges, flat, side="right"), 1)
        place = p.where(p.eq(flat, edges[-1:]), n - 1, place)
        inside = p.bitwise_and(p.bitwise_and(place >= 0, place < n), flat == flat)
        one = p.cast(inside, dtype=x.dtype)
        if weights is not None:
            one = p.mul(one, reshape(as_tensor(weights, x), shape=(-1,)))
        counts = p.scatter(
            zeros(n, dtype=x.dtype, device=x.device), clip(place, 0, n - 1), one, axis=0, mode="add"
        )
    if density:
        counts = p.div(p.div(counts, sum(counts)), p.sub(edges[1:], edges[:-1]))
    return Histogram(counts, edges)
