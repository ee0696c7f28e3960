"""Reductions, under the Array API's names and defaults."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from grilly_core import dtypes
from grilly_core.apply import as_tensor
from grilly_core.dtypes import as_dtype
from grilly_core.layout import normalize_axes
from grilly_core.ops import primitives as p
from grilly_core.ops.math import exp, log, logical_not, ne, square, where
from grilly_core.ops.structure import pad
from grilly_core.ops.views import broadcast_to, reshape, squeeze, subview
from grilly_core.opspec import op
from grilly_core.tensor import Tensor

__all__ = [
    "all", "amax", "amin", "any", "argmax", "argmin", "count_nonzero", "logsumexp",
    "max", "mean", "min", "norm", "prod", "std", "sum", "var",
]  # fmt: skip

Axis = int | Sequence[int] | None


def _kept(shape: tuple[int, ...], axes: Sequence[int]) -> tuple[int, ...]:
    return tuple(1 if i in axes else n for i, n in enumerate(shape))


def _count(x: Any, axes: Sequence[int]) -> int:
    return math.prod(x.shape[a] for a in axes)


def sum(x: Any, /, *, axis: Axis = None, dtype: Any = None, keepdims: bool = False) -> Tensor:
    """Sum over `axis`.

    Parameters
    ----------
    x : Tensor
    axis : int, sequence of int or None
        Axes to reduce; all by default.
    dtype : DType, optional
        Type to sum in; by default that of `x`, small integers as int32.
    keepdims : bool
        Keep the reduced axes with size 1.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.sum(grilly.asarray([[1, 2], [3, 4]]), axis=0).tolist()
    [4, 6]
    """
    x = as_tensor(x)
    if dtype is not None:
        x = p.cast(x, dtype=as_dtype(dtype))
    return p.sum(x, axis=axis, keepdims=keepdims)


def max(x: Any, /, *, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Largest element over `axis`; NaN if any is NaN. Ties share the gradient equally."""
    return p.max(as_tensor(x), axis=axis, keepdims=keepdims)


@op("min")
def _min(x: Any, *, axis: Any = None, keepdims: bool = False) -> Tensor:
    """Smallest element over `axis` (an int, several, or all); NaN if any is NaN."""
    if x.dtype.is_integer:  # -x does not exist for the smallest integer, ~x does
        return ~p.max(~x, axis=axis, keepdims=keepdims)
    return p.neg(p.max(p.neg(x), axis=axis, keepdims=keepdims))


@_min.reference
def _(x: Any, *, axis: Any, keepdims: Any) -> Any:
    return np.min(x, axis=axis, keepdims=keepdims)


@_min.samples
def _(s: Any) -> None:
    s.case(s.f32(3, 4), axis=1)
    s.case(s.i32(3, 4), axis=0, keepdims=True)
    s.case(s.f32(3, 4))
    s.error(ValueError, "no element", s.f32(0, 2), axis=0)


def min(x: Any, /, *, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Smallest element over `axis`; NaN if any is NaN. Ties share the gradient equally."""
    return _min(as_tensor(x), axis=axis, keepdims=keepdims)


amax, amin = max, min


@op("prod", autocast="f32")
def _prod(x: Any, *, axis: Any = None, keepdims: bool = False) -> Tensor:
    """Product over `axis` (an int, several, or all), folded in halves; the product of nothing is 1."""
    axes = normalize_axes(axis, x.ndim)
    if x.dtype.kind == "b" or (x.dtype.is_integer and x.dtype.itemsize < 4):
        x = p.cast(x, dtype=dtypes.uint32 if x.dtype.kind == "u" else dtypes.int32)
    for a in axes:
        while x.shape[a] != 1:
            n = x.shape[a]
            if n % 2 or n == 0:
                x = pad(x, widths=tuple((0, 1) if i == a else (0, 0) for i in range(x.ndim)), value=1)
                continue
            sizes = tuple(n // 2 if i == a else m for i, m in enumerate(x.shape))
            steps = tuple(2 if i == a else 1 for i in range(x.ndim))
            starts = [tuple(k if i == a else 0 for i in range(x.ndim)) for k in (0, 1)]
            x = p.mul(*[subview(x, starts=s, sizes=sizes, steps=steps) for s in starts])
    return x if keepdims or not axes else squeeze(x, axis=axes)


@_prod.reference
def _(x: Any, *, axis: Any, keepdims: Any) -> Any:
    return np.prod(x, axis=axis, keepdims=keepdims)


@_prod.samples
def _(s: Any) -> None:
    s.case(s.f32(3, 5), axis=1)
    s.case(s.f32(2, 3, 4), axis=(0, 2), keepdims=True)
    s.case(s.i32(4, low=1, high=5))
    s.case(s.f32(0, 4), axis=0)


def prod(x: Any, /, *, axis: Axis = None, dtype: Any = None, keepdims: bool = False) -> Tensor:
    """Product over `axis`; see `sum` for the parameters."""
    x = as_tensor(x)
    if dtype is not None:
        x = p.cast(x, dtype=as_dtype(dtype))
    return _prod(x, axis=axis, keepdims=keepdims)


def _wide(x: Any) -> Any:
    """Floats at least float32: a half-precision mean must not overflow on the way."""
    if not (x.dtype.is_floating or x.dtype.is_complex):
        return p.cast(x, dtype=dtypes.default_float)
    return p.cast(x, dtype=dtypes.float32) if x.dtype.itemsize == 2 else x


def _result_dtype(x: Any) -> Any:
    return x.dtype if x.dtype.kind in "fc" else dtypes.default_float


@op("mean", saves="shapes")
def _mean(x: Any, *, axis: Any = None, keepdims: bool = False) -> Tensor:
    """Mean over `axis` (an int, several, or all); the mean of nothing is NaN."""
    axes = normalize_axes(axis, x.ndim)
    n = _count(x, axes)
    total = p.sum(_wide(x), axis=axes, keepdims=keepdims)
    return p.cast(p.mul(total, 1.0 / n) if n else p.div(total, 0.0), dtype=_result_dtype(x))


@_mean.vjp
def _(grads: Any, outs: Any, ins: Any, attrs: Any, needs: Any) -> Any:
    (g,), (x,) = grads, ins
    axes = normalize_axes(attrs["axis"], x.ndim)
    n = _count(x, axes)
    if not attrs["keepdims"]:
        g = reshape(g, shape=_kept(x.shape, axes))
    return (broadcast_to(p.mul(g, 1.0 / (n or 1)), shape=x.shape),)


@_mean.reference
def _(x: Any, *, axis: Any, keepdims: Any) -> Any:
    axes = tuple(range(np.ndim(x))) if axis is None else axis
    with np.errstate(all="ignore"):
        n = math.prod(np.shape(x)[a] for a in ((axes,) if isinstance(axes, int) else axes))
        return np.sum(x, axis=axes, keepdims=keepdims, dtype=np.float64) / np.float64(n)


@_mean.samples
def _(s: Any) -> None:
    s.case(s.f32(3, 4), axis=1)
    s.case(s.f32(2, 3, 4), axis=(0, 2), keepdims=True)
    s.case(s.i32(5))
    s.case(s.f32(0, 4), axis=1)


def mean(x: Any, /, *, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Mean over `axis`; integers give the default float."""
    return _mean(as_tensor(x), axis=axis, keepdims=keepdims)


@op("var", saves="ins")
def _var(x: Any, *, axis: Any = None, correction: float = 0.0, keepdims: bool = False) -> Tensor:
    """Variance over `axis` in two passes, divided by the count minus `correction`."""
    axes = normalize_axes(axis, x.ndim)
    wide = _wide(x)
    centred = p.sub(wide, _mean(wide, axis=axes, keepdims=True))
    power = square(p.abs(centred)) if x.dtype.is_complex else square(centred)
    total = p.sum(power, axis=axes, keepdims=keepdims)
    free = _count(x, axes) - correction
    return p.cast(p.div(total, float(free) if free > 0 else 0.0), dtype=_result_dtype(x).real)


@_var.vjp
def _(grads: Any, outs: Any, ins: Any, attrs: Any, needs: Any) -> Any:
    (g,), (x,) = grads, ins
    axes = normalize_axes(attrs["axis"], x.ndim)
    free = _count(x, axes) - attrs["correction"]
    if not attrs["keepdims"]:
        g = reshape(g, shape=_kept(x.shape, axes))
    centred = p.sub(x, _mean(x, axis=axes, keepdims=True))
    return (p.mul(centred, p.div(p.mul(g, 2.0), float(free) if free > 0 else 0.0)),)


@_var.reference
def _(x: Any, *, axis: Any, correction: Any, keepdims: Any) -> Any:
    with np.errstate(all="ignore"):
        return np.var(x, axis=axis, ddof=correction, keepdims=keepdims, dtype=np.float64)


@_var.samples
def _(s: Any) -> None:
    s.case(s.f32(3, 4), axis=1)
    s.case(s.f32(3, 4), axis=0, correction=1, keepdims=True)
    s.case(s.f32(2, 5))


def var(x: Any, /, *, axis: Axis = None, correction: float = 0.0, keepdims: bool = False) -> Tensor:
    """Variance over `axis`, divided by the count minus `correction`."""
    return _var(as_tensor(x), axis=axis, correction=correction, keepdims=keepdims)


def std(x: Any, /, *, axis: Axis = None, correction: float = 0.0, keepdims: bool = False) -> Tensor:
    """Square root of `var`."""
    return p.sqrt(var(x, axis=axis, correction=correction, keepdims=keepdims))


@op("any", nondiff=True)
def _any(x: Any, *, axis: Any = None, keepdims: bool = False) -> Tensor:
    """Whether any element over `axis` is true."""
    axes = normalize_axes(axis, x.ndim)
    truth = x if x.dtype.kind == "b" else ne(x, 0)
    return ne(p.sum(truth, axis=axes, keepdims=keepdims), 0)


@_any.reference
def _(x: Any, *, axis: Any, keepdims: Any) -> Any:
    return np.any(x, axis=axis, keepdims=keepdims)


@op("all", nondiff=True)
def _all(x: Any, *, axis: Any = None, keepdims: bool = False) -> Tensor:
    """Whether all elements over `axis` are true."""
    return logical_not(_any(logical_not(x), axis=axis, keepdims=keepdims))


@_all.reference
def _(x: Any, *, axis: Any, keepdims: Any) -> Any:
    return np.all(x, axis=axis, keepdims=keepdims)


for _truth_op in (_any, _all):

    @_truth_op.samples
    def _(s: Any) -> None:
        s.case(s.bool(3, 4), axis=1)
        s.case(s.f32(3, 4), axis=(0, 1), keepdims=True)
        s.case(s.bool(0, 2), axis=0)


def any(x: Any, /, *, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Whether any element over `axis` is true (NaN is)."""
    return _any(as_tensor(x), axis=axis, keepdims=keepdims)


def all(x: Any, /, *, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Whether all elements over `axis` are true."""
    return _all(as_tensor(x), axis=axis, keepdims=keepdims)


def count_nonzero(x: Any, /, *, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """How many elements over `axis` are not zero."""
    return p.sum(ne(as_tensor(x), 0), axis=axis, keepdims=keepdims)


def _index_of(kernel: Any, x: Any, axis: int | None, keepdims: bool) -> Tensor:
    x = as_tensor(x)
    if axis is not None:
        return kernel(x, axis=axis, keepdims=keepdims)  # type: ignore[no-any-return]
    found = kernel(reshape(x, shape=(-1,)), axis=0, keepdims=False)
    return reshape(found, shape=(1,) * x.ndim) if keepdims else found


def argmax(x: Any, /, *, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """Index of the largest element along `axis` (of the flat tensor if None); the first of several."""
    return _index_of(p.argmax, x, axis, keepdims)


@op("argmin", nondiff=True)
def _argmin(x: Any, *, axis: int, keepdims: bool = False) -> Tensor:
    """Index of the smallest element along `axis`; the first of several; NaN counts as the smallest."""
    flipped = ~x if x.dtype.is_integer else p.neg(x)
    return p.argmax(flipped, axis=axis, keepdims=keepdims)


@_argmin.reference
def _(x: Any, *, axis: Any, keepdims: Any) -> Any:
    return np.argmin(x, axis=axis, keepdims=keepdims).astype(np.int32)


@_argmin.samples
def _(s: Any) -> None:
    s.case(s.f32(3, 4), axis=1)
    s.case(s.i32(3, 4, low=0, high=3), axis=0, keepdims=True)


def argmin(x: Any, /, *, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """Index of the smallest element along `axis` (of the flat tensor if None); the first of several."""
    return _index_of(_argmin, x, axis, keepdims)


@op("logsumexp", autocast="f32")
def logsumexp(x: Any, *, axis: Any = None, keepdims: bool = False) -> Tensor:
    """``log(sum(exp(x)))`` over `axis` without overflow; -inf for nothing but -inf."""
    axes = normalize_axes(axis, x.ndim)
    top = p.max(x, axis=axes, keepdims=True)
    finite = where(p.lt(p.abs(top), math.inf), top, 0.0)
    total = p.add(log(p.sum(exp(p.sub(x, finite)), axis=axes, keepdims=True)), finite)
    return total if keepdims else squeeze(total, axis=axes) if axes else total


@logsumexp.vjp
def _(grads: Any, outs: Any, ins: Any, attrs: Any, needs: Any) -> Any:
    (g,), (out,), (x,) = grads, outs, ins
    shape = _kept(x.shape, normalize_axes(attrs["axis"], x.ndim))
    g, out = reshape(g, shape=shape), reshape(out, shape=shape)
    lost = p.eq(out, -math.inf)  # a slice of nothing but -inf: the gradient is 0, not 0/0
    return (p.mul(g, exp(p.sub(x, where(lost, 0.0, out)))),)


@logsumexp.reference
def _(x: Any, *, axis: Any, keepdims: Any) -> Any:
    return np.logaddexp.reduce(x, axis=tuple(range(np.ndim(x))) if axis is None else axis, keepdims=keepdims)


@logsumexp.samples
def _(s: Any) -> None:
    s.case(s.f32(3, 4), axis=1)
    s.case(s.f32(3, 4, scale=100.0), axis=0, keepdims=True)
    s.case(s.f32(5))
    s.case(
        s.array(np.array([[-np.inf, -np.inf], [1000.0, 1000.0], [np.inf, 1.0]], "f4")), axis=1, grad="none"
    )


@op("norm", autocast="f32")
def norm(x: Any, *, ord: float = 2.0, axis: Any = None, keepdims: bool = False) -> Tensor:
    """Vector p-norm over `axis`; its gradient at 0 is 0. Scaled by the largest element, so squares cannot overflow."""
    axes = normalize_axes(axis, x.ndim)
    size = p.abs(_wide(x))
    if ord == math.inf:
        found = p.max(size, axis=axes, keepdims=True)
    elif ord == -math.inf:
        found = p.neg(p.max(p.neg(size), axis=axes, keepdims=True))
    elif ord == 0:
        found = p.cast(p.sum(ne(size, 0), axis=axes, keepdims=True), dtype=size.dtype)
    elif ord == 1:
        found = p.sum(size, axis=axes, keepdims=True)
    else:
        top = (
            p.max(size, axis=axes, keepdims=True)
            if _count(x, axes)
            else p.sum(size, axis=axes, keepdims=True)
        )
        scale = where(p.lt(0.0, top) & p.lt(top, math.inf), top, 1.0)
        ratio = p.div(size, scale)
        total = p.sum(square(ratio) if ord == 2 else p.pow(ratio, float(ord)), axis=axes, keepdims=True)
        found = p.mul(p.sqrt(total) if ord == 2 else p.pow(total, 1.0 / ord), scale)
    found = p.cast(found, dtype=_result_dtype(x).real)
    return found if keepdims or not axes else squeeze(found, axis=axes)


@norm.vjp
def _(grads: Any, outs: Any, ins: Any, attrs: Any, needs: Any) -> Any:
    (g,), (out,), (x,), ord = grads, outs, ins, attrs["ord"]
    axes = normalize_axes(attrs["axis"], x.ndim)
    shape = _kept(x.shape, axes)
    g, out = reshape(g, shape=shape), reshape(out, shape=shape)
    size = p.abs(x)
    direction = p.div(x, where(p.eq(size, 0), 1.0, size)) if x.dtype.is_complex else p.sign(x)
    if ord in (math.inf, -math.inf):
        best = p.cast(p.eq(size, out), dtype=out.dtype)
        return (p.mul(p.mul(g, direction), p.div(best, p.sum(best, axis=axes, keepdims=True))),)
    if ord == 0:
        return (p.mul(x, 0.0),)
    if ord == 1:
        return (p.mul(g, direction),)
    ratio = p.div(size, where(p.eq(out, 0), 1.0, out))
    if ord == 2:
        return (p.mul(p.mul(g, direction), ratio),)
    slope = where(p.eq(size, 0), 0.0, p.pow(where(p.eq(size, 0), 1.0, ratio), float(ord) - 1.0))
    return (p.mul(p.mul(g, direction), slope),)


@norm.reference
def _(x: Any, *, ord: Any, axis: Any, keepdims: Any) -> Any:
    axes = tuple(range(np.ndim(x))) if axis is None else axis
    size = np.abs(np.asarray(x))
    if ord == math.inf:
        return np.max(size, axis=axes, keepdims=keepdims)
    if ord == 1:
        return np.sum(size, axis=axes, keepdims=keepdims)
    return np.sum(size**ord, axis=axes, keepdims=keepdims) ** (1 / ord)


@norm.samples
def _(s: Any) -> None:
    for ord in (1.0, 2.0, 3.0, math.inf):
        s.case(s.f32(3, 4), ord=ord, axis=1)
    s.case(s.f32(3, 4))
    s.case(s.f32(2, 3, 4), axis=(0, 2), keepdims=True)
