"""Primitives that make, convert and copy data."""

from __future__ import annotations

from typing import Any

import numpy as np

from grilly_core import dtypes
from grilly_core.buffer import Spec
from grilly_core.dtypes import DType
from grilly_core.errors import DTypeError, ShapeError
from grilly_core.ops import rules
from grilly_core.opspec import Handle, Inferred, primitive

__all__ = [
    "bitcast",
    "cast",
    "full",
    "iota",
    "strided_copy",
]


@primitive("full", nondiff=True)
def full(*, value: Any, shape: tuple[int, ...], dtype: DType) -> Inferred:
    """A tensor of `shape` filled with `value`."""
    return Inferred(((shape, dtype),))


@full.reference
def _(*, value: Any, shape: Any, dtype: Any) -> Any:
    return np.full(shape, value, dtype.numpy)


@full.samples
def _(s: Any) -> None:
    s.case(value=2.5, shape=(3, 4), dtype=dtypes.float32)
    s.case(value=-7, shape=(5,), dtype=dtypes.int32)
    s.case(value=True, shape=(), dtype=dtypes.bool_)
    s.case(value=0.0, shape=(0, 3), dtype=dtypes.float32)


@primitive("iota", nondiff=True)
def iota(*, size: int, start: Any = 0, step: Any = 1, dtype: DType) -> Inferred:
    """``start + step * i`` for i from 0 to size - 1."""
    if size < 0:
        raise ShapeError(f"iota: size must not be negative; received {size}.")
    if dtype is dtypes.int32:
        rules.indexable("iota", size)
    return Inferred((((size,), dtype),))


@iota.reference
def _(*, size: Any, start: Any, step: Any, dtype: Any) -> Any:
    return (start + step * np.arange(size, dtype=np.float64 if dtype.is_floating else np.int64)).astype(
        dtype.numpy
    )


@iota.samples
def _(s: Any) -> None:
    s.case(size=7, start=3, step=-2, dtype=dtypes.int32)
    s.case(size=5, start=0.5, step=0.25, dtype=dtypes.float32)
    s.case(size=0, start=0, step=1, dtype=dtypes.int32)


@primitive("cast", elementwise=True, saves="shapes")
def cast(x: Spec, *, dtype: DType) -> Inferred:
    """Convert to `dtype`: floats are truncated towards zero for integers, anything nonzero is True."""
    if x.dtype.is_complex and not dtype.is_complex:
        raise DTypeError(
            f"cast: {x.dtype.name} to {dtype.name} would drop the imaginary part; use real() or abs()."
        )
    return Inferred(((x.shape, dtype),))


@cast.vjp
def _(grads: Any, outs: Any, ins: Any, attrs: Any, needs: Any) -> Any:
    if not attrs["dtype"].is_differentiable:
        return (None,)
    g = grads[0]
    if g.dtype.is_complex and not ins[0].dtype.is_complex:
        g = Handle("real")(g)
    return (cast(g, dtype=ins[0].dtype),)


@cast.reference
def _(x: Any, *, dtype: Any) -> Any:
    with np.errstate(all="ignore"):
        return np.asarray(x).astype(dtype.numpy)


@cast.samples
def _(s: Any) -> None:
    s.case(s.i32(3, 4), dtype=dtypes.float32)
    s.case(s.f32(3, 4, scale=9.0), dtype=dtypes.int32)
    s.case(s.f32(5), dtype=dtypes.bool_)
    s.case(s.bool(5), dtype=dtypes.float32)
    s.case(s.f32(2, 3), dtype=dtypes.float32)
    s.error(TypeError, "imaginary", s.c64(2), dtype=dtypes.float32)


@primitive("bitcast", nondiff=True)
def bitcast(x: Spec, *, dtype: DType) -> Inferred:
    """Read the same bits as another type of the same size."""
    if x.dtype.itemsize != dtype.itemsize:
        raise DTypeError(
            f"bitcast: {x.dtype.name} and {dtype.name} differ in size; pick a type of {x.dtype.itemsize} bytes."
        )
    return Inferred(((x.shape, dtype),))


@bitcast.reference
def _(x: Any, *, dtype: Any) -> Any:
    return np.ascontiguousarray(x).view(dtype.numpy).reshape(np.shape(x))


@bitcast.samples
def _(s: Any) -> None:
    s.case(s.f32(3, 4), dtype=dtypes.uint32)
    s.case(s.i32(3), dtype=dtypes.float32, compare="bits")
    s.error(TypeError, "size", s.f32(3), dtype=dtypes.uint8)


@primitive("strided_copy", saves="shapes")
def strided_copy(x: Spec) -> Inferred:
    """The same elements in C order."""
    return Inferred(((x.shape, x.dtype),))


@strided_copy.vjp
def _(grads: Any, outs: Any, ins: Any, attrs: Any, needs: Any) -> Any:
    return (grads[0],)


@strided_copy.reference
def _(x: Any) -> Any:
    return np.array(x)


@strided_copy.samples
def _(s: Any) -> None:
    s.case(s.f32(3, 4))
    s.case(s.i32(2, 3, 4))
    s.case(s.bool(7))
