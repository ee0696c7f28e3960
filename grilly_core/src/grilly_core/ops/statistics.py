"""Order statistics, averages that skip NaN, and covariances."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from grilly_core import dtypes
from grilly_core.apply import as_tensor
from grilly_core.errors import ShapeError
from grilly_core.layout import normalize_axis
from grilly_core.ops import primitives as p
from grilly_core.ops.index import Sorted, _take_along, move_axes_first
from grilly_core.ops.math import as_float, ceil, clip, floor, isnan, logical_not, ne
from grilly_core.ops.reduce import Axis, max, mean, min, norm, std, sum, var
from grilly_core.ops.scan import running
from grilly_core.ops.structure import pad
from grilly_core.ops.views import expand_dims, reshape, squeeze, subview
from grilly_core.opspec import op
from grilly_core.tensor import Tensor

__all__ = [
    "aminmax", "corrcoef", "cov", "kthvalue", "median", "mode", "nanmean",
    "nanmedian", "nanquantile", "nansum", "quantile", "renorm", "std_mean", "var_mean",
]  # fmt: skip


class MinMax(NamedTuple):
    """Smallest and largest elements."""

    min: Tensor
    max: Tensor


# -- sums and means ------------------------------------------------------------------------------------------


def nansum(x: Any, /, *, axis: Axis = None, dtype: Any = None, keepdims: bool = False) -> Tensor:
    """Return the sum over `axis`, NaN counting as 0.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.nansum([1.0, float("nan")]).item()
    1.0
    """
    x = as_tensor(x)
    return sum(_without_nan(x), axis=axis, dtype=dtype, keepdims=keepdims)


def _without_nan(x: Tensor) -> Tensor:
    return p.where(isnan(x), 0, x) if x.dtype.kind in "fc" else x


def nanmean(x: Any, /, *, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Return the mean over `axis` of what is not NaN.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.nanmean([1.0, float("nan"), 3.0]).item()
    2.0
    """
    x = as_float(as_tensor(x))
    number = sum(logical_not(isnan(x)), axis=axis, keepdims=keepdims)
    return p.div(sum(_without_nan(x), axis=axis, keepdims=keepdims), p.cast(number, dtype=x.dtype))


def aminmax(x: Any, /, *, axis: int | None = None, keepdims: bool = False) -> MinMax:
    """Return the smallest and the largest element over `axis`.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> [v.item() for v in grilly.aminmax([3, 1, 2])]
    [1, 3]
    """
    return MinMax(min(x, axis=axis, keepdims=keepdims), max(x, axis=axis, keepdims=keepdims))


def var_mean(
    x: Any, /, *, axis: Axis = None, correction: float = 1.0, keepdims: bool = False
) -> tuple[Tensor, Tensor]:
    """Return variance (PyTorch's, divided by the count less 1) and mean over `axis`."""
    return var(x, axis=axis, correction=correction, keepdims=keepdims), mean(x, axis=axis, keepdims=keepdims)


def std_mean(
    x: Any, /, *, axis: Axis = None, correction: float = 1.0, keepdims: bool = False
) -> tuple[Tensor, Tensor]:
    """Return standard deviation (PyTorch's, by the count less 1) and mean over `axis`."""
    return std(x, axis=axis, correction=correction, keepdims=keepdims), mean(x, axis=axis, keepdims=keepdims)


def renorm(x: Any, /, ord: float, maxnorm: float, *, axis: int) -> Tensor:
    """Return `x` with every slice along `axis` scaled down to a norm of at most `maxnorm`.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.renorm([[3.0, 4.0], [0.25, 0.5]], 2, 2.5, axis=0).tolist()
    [[1.5, 2.0], [0.25, 0.5]]
    """
    x = as_tensor(x)
    axis = normalize_axis(axis, x.ndim)
    size = norm(x, ord=float(ord), axis=tuple(i for i in range(x.ndim) if i != axis), keepdims=True)
    large = p.lt(maxnorm, size)
    return p.mul(x, p.where(large, p.div(maxnorm, p.add(p.where(large, size, 1.0), 1e-7)), 1.0))


# -- order ---------------------------------------------------------------------------------------------------


def _rows(x: Any, axis: int | None) -> tuple[Tensor, int]:
    x = as_tensor(x)
    if axis is None:
        return reshape(x, shape=(-1,)), 0
    return x, normalize_axis(axis, x.ndim)


def _at(x: Any, axis: int, index: int) -> Any:
    """One slice along `axis`, kept as an axis of size 1."""
    sizes = tuple(1 if i == axis else n for i, n in enumerate(x.shape))
    return subview(
        x, starts=tuple(index if i == axis else 0 for i in range(x.ndim)), sizes=sizes, steps=(1,) * x.ndim
    )


@op("kthvalue", nondiff_outputs={1})
def _kthvalue(x: Any, *, k: int, axis: int) -> tuple[Tensor, ...]:
    """The `k`-th smallest element along `axis` (counted from 1) and its index; the axis keeps size 1."""
    if not 1 <= k <= x.shape[axis]:
        raise ShapeError(
            f"kthvalue: k must lie between 1 and {x.shape[axis]}, the size of axis {axis}; received {k}."
        )
    return tuple(_at(t, axis, k - 1) for t in p.sort(x, axis=axis))


@_kthvalue.samples
def _(s: Any) -> None:
    s.case(s.f32(3, 7), k=3, axis=1)
    s.case(s.i32(5, 2), k=5, axis=0)
    s.error(ValueError, "between", s.f32(3), k=4, axis=0)


def _dropped(found: tuple[Tensor, ...], axis: int, keepdims: bool) -> Sorted:
    return Sorted(*(found if keepdims else (squeeze(t, axis=(axis,)) for t in found)))


def kthvalue(x: Any, k: int, /, *, axis: int = -1, keepdims: bool = False) -> Sorted:
    """Return the `k`-th smallest element along `axis`, counted from 1, and its index.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.kthvalue([3.0, 1.0, 2.0], 2).values.item()
    2.0
    """
    x, axis = _rows(x, axis)
    return _dropped(_kthvalue(x, k=k, axis=axis), axis, keepdims)


@op("nanmedian", nondiff_outputs={1})
def _nanmedian(x: Any, *, axis: int, skip: bool = True) -> tuple[Tensor, ...]:
    """Lower median along `axis`, which keeps size 1, and its index; without `skip` a NaN makes it NaN."""
    if x.shape[axis] == 0:
        raise ShapeError(f"median: axis {axis} of shape {x.shape} holds no element.")
    values, indices = p.sort(x, axis=axis)  # NaN at the end
    n = x.shape[axis]
    if not x.dtype.is_floating:
        return tuple(_at(t, axis, (n - 1) // 2) for t in (values, indices))
    lost = p.sum(isnan(x), axis=(axis,), keepdims=True)
    if skip:
        place = p.where(p.eq(lost, n), 0, p.floordiv(p.sub(n - 1, lost), 2))
    else:
        place = p.where(p.eq(lost, 0), (n - 1) // 2, p.sub(n, lost))  # the first NaN
    return tuple(_take_along(t, place, axis=axis) for t in (values, indices))


@_nanmedian.samples
def _(s: Any) -> None:
    s.case(s.f32(3, 6), axis=1)
    s.case(s.i32(5, 2), axis=0)
    for skip in (True, False):
        s.case(s.array(np.array([[1.0, np.nan, 3.0], [4.0, 6.0, 5.0]], "f4")), axis=1, skip=skip, grad="none")


def _median(x: Any, axis: int | None, keepdims: bool, skip: bool) -> Any:
    rows, along = _rows(x, axis)
    found = _nanmedian(rows, axis=along, skip=skip)
    if axis is not None:
        return _dropped(found, along, keepdims)
    return reshape(found[0], shape=(1,) * as_tensor(x).ndim if keepdims else ())


def median(x: Any, /, *, axis: int | None = None, keepdims: bool = False) -> Any:
    """Return the lower median, as PyTorch: a tensor, or with `axis` values and indices; NaN if any is NaN.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.median([4.0, 1.0, 3.0, 2.0]).item()
    2.0
    """
    return _median(x, axis, keepdims, skip=False)


def nanmedian(x: Any, /, *, axis: int | None = None, keepdims: bool = False) -> Any:
    """Return the lower median of what is not NaN; see `median`.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.nanmedian([float("nan"), 1.0, 3.0]).item()
    1.0
    """
    return _median(x, axis, keepdims, skip=True)


@op("mode", nondiff_outputs={1})
def _mode(x: Any, *, axis: int) -> tuple[Tensor, ...]:
    """Most frequent value along `axis` (the smallest of several) and its last index; the axis keeps size 1."""
    values, order = p.sort(x, axis=axis)
    n = x.shape[axis]
    position = reshape(
        p.iota(size=n, dtype=dtypes.int32), shape=tuple(n if i == axis else 1 for i in range(x.ndim))
    )
    widths = tuple((1, -1) if i == axis else (0, 0) for i in range(x.ndim))
    changed = p.bitwise_or(ne(values, pad(values, widths=widths)), p.eq(position, 0))
    length = p.sub(position, running(p.maximum, p.where(changed, position, 0), axis, 0))
    last = p.argmax(length, axis=axis, keepdims=True)  # the first place where the longest run ends
    return _take_along(values, last, axis=axis), _take_along(order, last, axis=axis)


@_mode.samples
def _(s: Any) -> None:
    s.case(s.i32(3, 9, low=0, high=4), axis=1)
    s.case(s.f32(4, 3), axis=0)


def mode(x: Any, /, *, axis: int = -1, keepdims: bool = False) -> Sorted:
    """Return the most frequent value along `axis` (the smallest of several) and where it is found last.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.mode([1, 2, 2, 3]).values.item()
    2
    """
    x, axis = _rows(x, axis)
    return _dropped(_mode(x, axis=axis), axis, keepdims)


_METHODS = ("linear", "lower", "higher", "midpoint", "nearest")


@op("quantile")
def _quantile(x: Any, q: Any, *, method: str = "linear", skip: bool = False) -> Tensor:
    """Quantiles `q` (1-D) of the last axis, in front; NaN where any is NaN, unless `skip` leaves them out."""
    if method not in _METHODS:
        raise ValueError(f"quantile: method must be one of {', '.join(_METHODS)}; received {method!r}.")
    if x.shape[-1] == 0:
        raise ShapeError(f"quantile: the axis of shape {x.shape} holds no element.")
    values, _ = p.sort(x, axis=x.ndim - 1)
    lost = p.sum(isnan(x), axis=(x.ndim - 1,), keepdims=True)
    top = p.cast(p.sub(x.shape[-1] - 1, lost) if skip else p.mul(lost, 0) + (x.shape[-1] - 1), dtype=q.dtype)
    rank = p.mul(top, q)  # (..., q)
    if method == "nearest":
        from grilly_core.ops.math import round

        rank = round(rank)
    low, high = floor(rank), ceil(rank)
    pick = [
        _take_along(values, clip(p.cast(place, dtype=dtypes.int32), 0), axis=x.ndim - 1)
        for place in (low, high)
    ]
    if method in ("lower", "higher"):
        out = pick[method == "higher"]
    else:
        weight = p.sub(rank, low) if method != "midpoint" else p.cast(ne(low, high), dtype=q.dtype) * 0.5
        gap = p.where(
            p.eq(pick[0], pick[1]), 0.0, p.sub(pick[1], pick[0])
        )  # equal infinities have no distance
        weight = p.cast(weight, dtype=x.dtype)
        upper = p.sub(pick[1], p.mul(gap, p.sub(1, weight)))
        out = p.where(p.lt(weight, 0.5), p.add(pick[0], p.mul(gap, weight)), upper)
    wrong = p.lt(top, 0) if skip else ne(lost, 0)
    return move_axes_first(p.where(wrong, float("nan"), out), [x.ndim - 1])  # type: ignore[no-any-return]


@_quantile.reference
def _(x: Any, q: Any, *, method: Any, skip: Any) -> Any:
    return (np.nanquantile if skip else np.quantile)(x, q, axis=-1, method=method)


@_quantile.samples
def _(s: Any) -> None:
    q = s.array(np.array([0.0, 0.3, 0.5, 1.0], "f4"))
    for method in _METHODS:
        s.case(s.f32(3, 6), q, method=method, grad="none")
    holes = np.array([[1.0, np.nan, 3.0, 2.0], [4.0, 6.0, 5.0, 7.0]], "f4")
    s.case(s.array(holes), q, skip=True, grad="none")


def _quantiles(x: Any, q: Any, axis: int | None, keepdims: bool, method: str, skip: bool) -> Tensor:
    x = as_float(as_tensor(x))
    q = as_tensor(q, x)
    rows, along = _rows(x, axis)
    last = (
        rows if along == rows.ndim - 1 else move_axes_first(rows, [i for i in range(rows.ndim) if i != along])
    )
    out: Tensor = _quantile(last, reshape(q, shape=(-1,)), method=method, skip=skip)
    if keepdims:
        shape = (
            (1,) * x.ndim if axis is None else tuple(1 if i == along else n for i, n in enumerate(x.shape))
        )
        out = reshape(out, shape=(out.shape[0], *shape))
    return out if q.ndim else squeeze(out, axis=(0,))


def quantile(
    x: Any, q: Any, /, *, axis: int | None = None, keepdims: bool = False, method: str = "linear"
) -> Tensor:
    """Return the quantiles `q` (a number or a 1-D tensor, whose axis comes first) over `axis`.

    Parameters
    ----------
    x : array_like
    q : float or array_like
        Between 0 and 1.
    axis : int, optional
        All elements by default.
    keepdims : bool
    method : {"linear", "lower", "higher", "midpoint", "nearest"}
        What lies between two elements.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.quantile([1.0, 2.0, 3.0, 4.0], 0.5).item()
    2.5
    """
    return _quantiles(x, q, axis, keepdims, method, skip=False)


def nanquantile(
    x: Any, q: Any, /, *, axis: int | None = None, keepdims: bool = False, method: str = "linear"
) -> Tensor:
    """Return the quantiles of what is not NaN; see `quantile`.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.nanquantile([1.0, float("nan"), 3.0], 0.5).item()
    2.0
    """
    return _quantiles(x, q, axis, keepdims, method, skip=True)


# -- covariance ----------------------------------------------------------------------------------------------


def cov(x: Any, /, *, correction: int = 1, fweights: Any = None, aweights: Any = None) -> Tensor:
    """Return the covariance matrix of variables (rows) over observations (columns).

    Parameters
    ----------
    x : array_like
        At most 2-D; one variable if 1-D.
    correction : int
        What is taken off the number of observations.
    fweights : array_like of int, optional
        How often each observation was made.
    aweights : array_like, optional
        Weight of each observation.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.cov([[1.0, 2.0, 3.0], [3.0, 2.0, 1.0]]).tolist()
    [[1.0, -1.0], [-1.0, 1.0]]
    """
    from grilly_core.ops.linalg import matmul
    from grilly_core.ops.manipulate import matrix_transpose
    from grilly_core.ops.math import conj

    x = as_float(as_tensor(x))
    if x.ndim > 2:
        raise ShapeError(f"cov: expected at most 2 dimensions; received shape {x.shape}.")
    rows = reshape(x, shape=(1, -1)) if x.ndim < 2 else x
    n = rows.shape[1]
    weights = None
    for given in (fweights, aweights):
        if given is not None:
            part = p.cast(as_tensor(given, rows), dtype=rows.dtype.real)
            weights = part if weights is None else p.mul(weights, part)
    if weights is None:
        total: Any = float(n)
        centred = p.sub(rows, mean(rows, axis=1, keepdims=True))
        free: Any = n - correction
    else:
        total = sum(weights)
        centred = p.sub(rows, p.div(sum(p.mul(rows, weights), axis=1, keepdims=True), total))
        if aweights is None or correction == 0:
            free = p.sub(total, correction)
        else:
            used = p.cast(as_tensor(aweights, rows), dtype=rows.dtype.real)
            free = p.sub(total, p.mul(p.div(sum(p.mul(weights, used)), total), correction))
    free = clip(as_tensor(free, rows.real), 0)
    weighted = centred if weights is None else p.mul(centred, weights)
    out = p.div(matmul(weighted, conj(matrix_transpose(centred))), free)
    return out if rows.shape[0] != 1 else reshape(out, shape=())


def corrcoef(x: Any, /) -> Tensor:
    """Return the matrix of correlation coefficients of variables (rows).

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.corrcoef([[1.0, 2.0, 3.0], [6.0, 4.0, 2.0]]).round(3).tolist()
    [[1.0, -1.0], [-1.0, 1.0]]
    """
    c = cov(x)
    if c.ndim == 0:
        return p.div(c, c)
    from grilly_core.ops.structure import diagonal

    deviation = p.sqrt(diagonal(c).real)
    return p.div(p.div(c, expand_dims(deviation, axis=1)), deviation)
