"""Reductions and the running sum."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from grilly_core import dtypes
from grilly_core.buffer import Spec
from grilly_core.errors import ShapeError
from grilly_core.ops import rules
from grilly_core.ops.primitives.compare import eq
from grilly_core.ops.primitives.data import cast
from grilly_core.opspec import Handle, Inferred, primitive

__all__ = [
    "argmax",
    "cumsum",
    "max",
    "sum",
]

_broadcast_to = Handle("broadcast_to")
_flip = Handle("flip")
_reshape = Handle("reshape")


def _spread(g: Any, x: Any, attrs: Any) -> Any:
    """Put reduced axes back and expand to the input's shape."""
    if not attrs["keepdims"]:
        g = _reshape(g, shape=tuple(1 if i in attrs["axis"] else n for i, n in enumerate(x.shape)))
    return _broadcast_to(g, shape=x.shape)


@primitive("sum", saves="shapes", autocast="f32")
def sum(x: Spec, *, axis: Any = None, keepdims: bool = False) -> Inferred:
    """Sum over `axis` (an int, several, or all); small integers and bools are summed as the default integer."""
    shape, axes = rules.reduced("sum", x, axis, keepdims)
    dtype = x.dtype
    if dtype.kind == "b" or (dtype.is_integer and dtype.itemsize < 4):
        dtype = dtypes.uint32 if dtype.kind == "u" else dtypes.int32
    return Inferred(((shape, dtype),), (dtype,), attrs={"axis": axes, "keepdims": keepdims})


@sum.vjp
def _(grads: Any, outs: Any, ins: Any, attrs: Any, needs: Any) -> Any:
    return (_spread(grads[0], ins[0], attrs),)


@sum.reference
def _(x: Any, *, axis: Any, keepdims: Any) -> Any:
    wide = np.float64 if np.asarray(x).dtype.kind == "f" else None
    axes = tuple(range(np.ndim(x))) if axis is None else axis
    return np.sum(x, axis=axes, keepdims=keepdims, dtype=wide)


@primitive("max")
def max(x: Spec, *, axis: Any = None, keepdims: bool = False) -> Inferred:
    """Largest element over `axis` (an int, several, or all); NaN if any is NaN."""
    rules.require("max", x, "uif")
    shape, axes = rules.reduced("max", x, axis, keepdims)
    if x.size == 0 and math.prod(x.shape[a] for a in axes) == 0:
        raise ShapeError(
            f"max: the axes {axes} of shape {x.shape} hold no element, and there is no largest of none."
        )
    return Inferred(((shape, x.dtype),), attrs={"axis": axes, "keepdims": keepdims})


@max.vjp
def _(grads: Any, outs: Any, ins: Any, attrs: Any, needs: Any) -> Any:
    x = ins[0]
    best = cast(eq(x, _spread(outs[0], x, attrs)), dtype=x.dtype)  # ties share the gradient equally
    count = sum(best, axis=attrs["axis"], keepdims=True)
    return (_spread(grads[0], x, attrs) * best / count,)


@max.reference
def _(x: Any, *, axis: Any, keepdims: Any) -> Any:
    return np.max(x, axis=axis, keepdims=keepdims)


def _reduction_samples(s: Any) -> None:
    s.case(s.f32(3, 4), axis=1)
    s.case(s.f32(3, 4, 5), axis=(0, 2), keepdims=True)
    s.case(s.f32(7))
    s.case(s.i32(4, 3), axis=0)
    s.case(s.f32(33, 65), axis=-1)
    s.error(IndexError, "axis", s.f32(3), axis=1)
    s.error(ValueError, "twice", s.f32(3, 4), axis=(0, 0))


@sum.samples
def _(s: Any) -> None:
    _reduction_samples(s)
    s.case(s.f32(0, 4), axis=0)
    s.case(s.bool(5, 3), axis=0)


@max.samples
def _(s: Any) -> None:
    _reduction_samples(s)
    s.error(ValueError, "no element", s.f32(0, 4), axis=0)


@primitive("argmax", nondiff=True)
def argmax(x: Spec, *, axis: Any = None, keepdims: bool = False) -> Inferred:
    """Index of the largest element along `axis`; the first of several; NaN counts as the largest."""
    rules.require("argmax", x, "uif")
    if axis is None:
        raise ShapeError("argmax: axis must be an integer here; reshape the tensor to one axis first.")
    shape, axes = rules.reduced("argmax", x, axis, keepdims)
    if x.shape[axes[0]] == 0:
        raise ShapeError(f"argmax: axis {axes[0]} of shape {x.shape} holds no element.")
    rules.indexable("argmax", x.shape[axes[0]])
    return Inferred(((shape, dtypes.int32),), attrs={"axis": axes[0], "keepdims": keepdims})


@argmax.reference
def _(x: Any, *, axis: Any, keepdims: Any) -> Any:
    return np.argmax(x, axis=axis, keepdims=keepdims).astype(np.int32)


@argmax.samples
def _(s: Any) -> None:
    s.case(s.f32(3, 4), axis=1)
    s.case(s.i32(5, 6, low=0, high=3), axis=0, keepdims=True)
    s.case(s.array(np.array([[1.0, np.nan, 3.0], [2.0, 2.0, 1.0]], "f4")), axis=1)
    s.error(ValueError, "no element", s.f32(0, 2), axis=0)


@primitive("cumsum", saves="shapes", autocast="f32")
def cumsum(x: Spec, *, axis: int) -> Inferred:
    """Running sum along `axis`."""
    dtype = dtypes.int32 if x.dtype.kind == "b" else x.dtype
    return Inferred(((x.shape, dtype),), (dtype,))


@cumsum.vjp
def _(grads: Any, outs: Any, ins: Any, attrs: Any, needs: Any) -> Any:
    axis = attrs["axis"]
    return (_flip(cumsum(_flip(grads[0], axis=axis), axis=axis), axis=axis),)


@cumsum.reference
def _(x: Any, *, axis: Any) -> Any:
    return np.cumsum(x, axis=axis, dtype=np.float64 if np.asarray(x).dtype.kind == "f" else None)


@cumsum.samples
def _(s: Any) -> None:
    s.case(s.f32(3, 4), axis=1)
    s.case(s.i32(5, 2), axis=0)
    s.case(s.f32(0, 4), axis=1)
    s.error(IndexError, "axis", s.f32(3), axis=2)
