"""Running reductions along an axis, differences of neighbours, and integrals."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from grilly_core import dtypes
from grilly_core.apply import as_tensor
from grilly_core.dtypes import as_dtype
from grilly_core.errors import ShapeError
from grilly_core.layout import normalize_axes, normalize_axis
from grilly_core.ops import primitives as p
from grilly_core.ops.elementary import logaddexp
from grilly_core.ops.index import Sorted, scatter_along_axis
from grilly_core.ops.math import as_float, exp, isnan, ne
from grilly_core.ops.structure import concat, pad
from grilly_core.ops.views import flip, reshape, subview
from grilly_core.opspec import op
from grilly_core.tensor import Tensor

__all__ = [
    "cummax", "cummin", "cumprod", "cumulative_prod", "cumulative_sum", "cumulative_trapezoid", "diff", "gradient",
    "logcumsumexp", "trapezoid",
]  # fmt: skip


def running(combine: Callable[[Any, Any], Any], x: Any, axis: int, neutral: float) -> Any:
    """Combine each element with all before it along `axis`, in log2 steps (Hillis and Steele 1986)."""
    n, reach = x.shape[axis], 1
    while reach < n:
        widths = tuple((reach, -reach) if i == axis else (0, 0) for i in range(x.ndim))
        x = combine(x, pad(x, widths=widths, value=neutral))
        reach *= 2
    return x


def cumulative_sum(
    x: Any, /, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False
) -> Tensor:
    """Running sum along `axis`, with a leading 0 if `include_initial`."""
    return _cumulative(p.cumsum, 0, x, axis, dtype, include_initial)


@op("cumprod", autocast="f32")
def cumprod(x: Any, *, axis: int) -> Tensor:
    """Running product along `axis`, in log2 steps."""
    if x.dtype.kind == "b":
        x = p.cast(x, dtype=dtypes.default_int)
    result: Tensor = running(p.mul, x, axis, 1)
    return result


@cumprod.reference
def _(x: Any, *, axis: Any) -> Any:
    return np.cumprod(x, axis=axis)


@cumprod.samples
def _(s: Any) -> None:
    s.case(s.f32(3, 5), axis=1)
    s.case(s.i32(4, low=1, high=4), axis=0)


def cumulative_prod(
    x: Any, /, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False
) -> Tensor:
    """Running product along `axis`, with a leading 1 if `include_initial`."""
    return _cumulative(cumprod, 1, x, axis, dtype, include_initial)


def _cumulative(
    kernel: Any, initial: int, x: Any, axis: int | None, dtype: Any, include_initial: bool
) -> Tensor:
    x = as_tensor(x)
    if axis is None:
        if x.ndim != 1:
            raise ShapeError(
                f"a running reduction of {x.ndim} dimensions needs axis=...; only 1-D tensors may leave it out."
            )
        axis = 0
    if dtype is not None:
        x = p.cast(x, dtype=as_dtype(dtype))
    out: Tensor = kernel(x, axis=axis)
    if include_initial:
        (axis,) = normalize_axes(axis, x.ndim)
        out = pad(out, widths=tuple((1, 0) if i == axis else (0, 0) for i in range(x.ndim)), value=initial)
    return out


# -- running extremes ----------------------------------------------------------------------------------------


def _lowest(dtype: Any) -> Any:
    """What no value of the type lies below."""
    if dtype.is_floating:
        return -math.inf
    if dtype.kind == "b":
        return False
    return 0 if dtype.kind == "u" else -(1 << 8 * dtype.itemsize - 1)


def _positions(x: Any, axis: int) -> Any:
    """Indices along `axis`, shaped to broadcast against `x`."""
    n = x.shape[axis]
    return reshape(
        p.iota(size=n, dtype=dtypes.int32), shape=tuple(n if i == axis else 1 for i in range(x.ndim))
    )


@op("cummax", nondiff_outputs={1})
def _cummax(x: Any, *, axis: int) -> tuple[Tensor, ...]:
    """Running maximum along `axis`, and where it was last reached; from the first NaN on NaN."""
    wide = p.cast(x, dtype=dtypes.int32) if x.dtype.kind == "b" else x
    top = running(p.maximum, wide, axis, _lowest(wide.dtype))
    reached = p.eq(wide, top)
    if x.dtype.is_floating:
        reached = p.bitwise_or(reached, isnan(x))
    where = p.where(reached, _positions(x, axis), -1)
    return p.cast(top, dtype=x.dtype), running(p.maximum, where, axis, -1)


@_cummax.vjp
def _(grads: Any, outs: Any, ins: Any, attrs: Any, needs: Any) -> Any:
    return (scatter_along_axis(p.mul(ins[0], 0), outs[1], grads[0], axis=attrs["axis"], mode="add"),)


@_cummax.reference
def _(x: Any, *, axis: Any) -> Any:
    top = np.maximum.accumulate(x, axis)
    with np.errstate(invalid="ignore"):
        reached = (x == top) | (x != x)
    shape = tuple(-1 if i == axis else 1 for i in range(x.ndim))
    where = np.where(reached, np.arange(x.shape[axis]).reshape(shape), -1)
    return top, np.maximum.accumulate(where, axis)


@_cummax.samples
def _(s: Any) -> None:
    s.case(s.f32(3, 7), axis=1)
    s.case(s.i32(9, 2, low=0, high=4), axis=0)
    s.case(s.array(np.array([1.0, -np.inf, 2.0, np.nan, 5.0], "f4")), axis=0, grad="none")


def cummax(x: Any, /, *, axis: int) -> Sorted:
    """Return the running maximum along `axis` and the index where it was last reached.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> values, indices = grilly.cummax([1, 3, 2, 3], axis=0)
    >>> values.tolist(), indices.tolist()
    ([1, 3, 3, 3], [0, 1, 1, 3])
    """
    x = as_tensor(x)
    return Sorted(*_cummax(x, axis=normalize_axis(axis, x.ndim)))


def cummin(x: Any, /, *, axis: int) -> Sorted:
    """Return the running minimum along `axis` and the index where it was last reached.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.cummin([3, 1, 2], axis=0).values.tolist()
    [3, 1, 1]
    """
    x = as_tensor(x)
    exact = (
        x.dtype.is_integer or x.dtype.kind == "b"
    )  # the smallest integer has no negative, but a complement
    values, indices = cummax(~x if exact else p.neg(x), axis=axis)
    return Sorted(~values if exact else p.neg(values), indices)


@op("logcumsumexp", autocast="f32")
def _logcumsumexp(x: Any, *, axis: int) -> Tensor:
    """Logarithm of the running sum of exponentials along `axis`, without overflow."""
    result: Tensor = running(logaddexp, as_float(x), axis, -math.inf)
    return result


@_logcumsumexp.vjp
def _(grads: Any, outs: Any, ins: Any, attrs: Any, needs: Any) -> Any:
    (g,), (out,), (x,), axis = grads, outs, ins, attrs["axis"]

    def reached(part: Any) -> Any:
        """exp(x) times the sum of ``part * exp(-out)`` from here on, in logarithms."""
        size = p.where(p.lt(0, part), p.log(p.where(p.lt(0, part), part, 1.0)), -math.inf)
        reversed_sum = flip(_logcumsumexp(flip(p.sub(size, out), axis=axis), axis=axis), axis=axis)
        return exp(p.add(reversed_sum, x))

    return (p.sub(reached(g), reached(p.neg(g))),)


@_logcumsumexp.reference
def _(x: Any, *, axis: Any) -> Any:
    return np.logaddexp.accumulate(x, axis)


@_logcumsumexp.samples
def _(s: Any) -> None:
    s.case(s.f32(3, 7), axis=1)
    s.case(s.f32(5, 2, scale=100.0), axis=0, grad="none")


def logcumsumexp(x: Any, /, *, axis: int) -> Tensor:
    """Return the logarithm of the running sum of ``exp(x)`` along `axis`, without overflow.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.logcumsumexp([1000.0, 1000.0], axis=0)[0].item()
    1000.0
    """
    return _logcumsumexp(as_tensor(x), axis=axis)


# -- differences and integrals -------------------------------------------------------------------------------


def diff(x: Any, /, *, axis: int = -1, n: int = 1, prepend: Any = None, append: Any = None) -> Tensor:
    """n-th differences of neighbours along `axis`."""
    x = as_tensor(x)
    if n == 0:
        unchanged: Tensor = x
        return unchanged
    parts = [as_tensor(t, x) for t in (prepend, x, append) if t is not None]
    x = concat(parts, axis=axis) if len(parts) > 1 else x
    (axis,) = normalize_axes(axis, x.ndim)
    for _ in range(n):
        m = x.shape[axis]
        sizes = tuple((m - 1 if m else 0) if i == axis else k for i, k in enumerate(x.shape))
        later, earlier = (
            subview(
                x,
                starts=tuple(s if i == axis else 0 for i in range(x.ndim)),
                sizes=sizes,
                steps=(1,) * x.ndim,
            )
            for s in (1, 0)
        )
        x = ne(later, earlier) if x.dtype.kind == "b" else p.sub(later, earlier)
    result: Tensor = x
    return result


def _slice(x: Any, axis: int, start: int, stop: int) -> Any:
    """Elements from `start` to `stop` (counted from the end if negative) along `axis`."""
    stop = stop if stop > 0 else x.shape[axis] + stop
    sizes = tuple(max(stop - start, 0) if i == axis else n for i, n in enumerate(x.shape))
    return subview(
        x, starts=tuple(start if i == axis else 0 for i in range(x.ndim)), sizes=sizes, steps=(1,) * x.ndim
    )


def _areas(y: Any, x: Any, dx: Any, axis: int) -> tuple[Any, int]:
    y = as_tensor(y)
    axis = normalize_axis(axis, y.ndim)
    sums = p.add(_slice(y, axis, 1, 0), _slice(y, axis, 0, -1))
    if x is None:
        return p.mul(sums, p.mul(as_tensor(dx, y), 0.5)), axis
    x = as_tensor(x, y)
    if x.ndim == 1:
        x = reshape(x, shape=tuple(x.shape[0] if i == axis else 1 for i in range(y.ndim)))
    along = axis - y.ndim  # x may have fewer axes than y, aligned at the end
    widths = p.sub(_slice(x, along % x.ndim, 1, 0), _slice(x, along % x.ndim, 0, -1))
    return p.mul(p.mul(sums, widths), 0.5), axis


def trapezoid(y: Any, x: Any = None, /, *, dx: Any = 1.0, axis: int = -1) -> Tensor:
    """Return the integral of `y` along `axis` by the trapezoid rule.

    Parameters
    ----------
    y : array_like
        Values.
    x : array_like, optional
        Where they were taken; equally spaced at `dx` by default.
    dx : float
    axis : int

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.trapezoid([1.0, 2.0, 3.0]).item()
    4.0
    """
    areas, along = _areas(y, x, dx, axis)
    return p.sum(areas, axis=along)


def cumulative_trapezoid(y: Any, x: Any = None, /, *, dx: Any = 1.0, axis: int = -1) -> Tensor:
    """Return the running integral of `y` along `axis` by the trapezoid rule; see `trapezoid`.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.cumulative_trapezoid([1.0, 2.0, 3.0]).tolist()
    [1.5, 4.0]
    """
    areas, along = _areas(y, x, dx, axis)
    return p.cumsum(areas, axis=along)


def gradient(
    x: Any, /, *, spacing: Any = None, axis: int | Sequence[int] | None = None, edge_order: int = 1
) -> list[Tensor]:
    """Return the derivative along each axis, by central differences of second order.

    Parameters
    ----------
    x : array_like
        Samples of a function.
    spacing : float, sequence, optional
        Distance of the samples: one for all axes, or one for each axis; a sequence or tensor among them gives
        the coordinates along that axis.
    axis : int or sequence of int, optional
        All axes by default.
    edge_order : {1, 2}
        Order of the one-sided differences at both ends.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.gradient([1.0, 2.0, 4.0, 7.0])[0].tolist()
    [1.0, 1.5, 2.5, 3.0]
    """
    x = as_tensor(x)
    if edge_order not in (1, 2):
        raise ValueError(f"gradient: edge_order must be 1 or 2; received {edge_order!r}.")
    axes = normalize_axes(list(axis) if isinstance(axis, Sequence) else axis, x.ndim)
    given = (
        [1.0 if spacing is None else spacing] * len(axes)
        if not isinstance(spacing, list | tuple)
        else spacing
    )
    if len(given) != len(axes):
        raise ValueError(
            f"gradient: expected one spacing for each of {len(axes)} axes; received {len(given)}."
        )
    return [_derivative(x, a, h, edge_order) for a, h in zip(axes, given, strict=True)]


def _derivative(x: Tensor, axis: int, spacing: Any, edge_order: int) -> Tensor:
    n = x.shape[axis]
    if n <= edge_order:
        raise ShapeError(f"gradient: axis {axis} needs more than {edge_order} elements; received {n}.")
    spacing = as_tensor(spacing, x) if not isinstance(spacing, int | float | complex) else spacing
    if isinstance(spacing, Tensor) and spacing.ndim == 1:
        widths = p.sub(_slice(spacing, 0, 1, 0), _slice(spacing, 0, 0, -1))
        h = reshape(widths, shape=tuple(n - 1 if i == axis else 1 for i in range(x.ndim)))
    else:
        h = p.mul(_slice(p.add(p.mul(_positions(x, axis), 0), 1), axis, 1, 0), spacing)
    steps = p.sub(_slice(x, axis, 1, 0), _slice(x, axis, 0, -1))
    slopes = p.div(steps, h)
    left, right = _slice(slopes, axis, 0, 1), _slice(slopes, axis, n - 2, n - 1)
    if n == 2:
        return concat([left, right], axis=axis)
    ha, hb = _slice(h, axis, 0, -1), _slice(h, axis, 1, 0)
    a, b = _slice(slopes, axis, 0, -1), _slice(slopes, axis, 1, 0)
    middle = p.div(p.add(p.mul(a, hb), p.mul(b, ha)), p.add(ha, hb))
    if edge_order == 2:
        left = _edge(slopes, h, axis, 0, 1)
        right = _edge(slopes, h, axis, n - 2, n - 3)
    return concat([left, middle, right], axis=axis)


def _edge(slopes: Any, h: Any, axis: int, near: int, far: int) -> Any:
    """One-sided derivative of second order, from the two slopes nearest to an end."""
    a, b = (_slice(slopes, axis, k, k + 1) for k in (near, far))
    ha, hb = (_slice(h, axis, k, k + 1) for k in (near, far))
    return p.sub(a, p.mul(p.div(ha, p.add(ha, hb)), p.sub(b, a)))
