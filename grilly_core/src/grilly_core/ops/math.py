"""Elementwise mathematics: the primitives, and composites over them, under the Array API's names."""

from __future__ import annotations

import math as _m
from collections.abc import Callable
from typing import Any

import numpy as np

from grilly_core import dtypes
from grilly_core.ops.primitives import (
    abs,
    add,
    atan2,
    bitcast,
    bitwise_and,
    bitwise_or,
    bitwise_xor,
    cast,
    cos,
    div,
    eq,
    erf,
    exp,
    expm1,
    floor,
    floordiv,
    isnan,
    log,
    log1p,
    lt,
    maximum,
    minimum,
    mul,
    neg,
    pow,
    shift_left,
    shift_right,
    sign,
    sin,
    sqrt,
    sub,
    tanh,
    where,
)  # fmt: skip
from grilly_core.opspec import Op, op
from grilly_core.tensor import Tensor

__all__ = [
    "abs",
    "add",
    "atan2",
    "bitwise_and",
    "bitwise_invert",
    "bitwise_left_shift",
    "bitwise_not",
    "bitwise_or",
    "bitwise_right_shift",
    "bitwise_xor",
    "cast",
    "ceil",
    "clip",
    "conj",
    "copysign",
    "cos",
    "div",
    "divide",
    "eq",
    "equal",
    "erf",
    "exp",
    "expm1",
    "floor",
    "floor_divide",
    "floordiv",
    "ge",
    "greater",
    "greater_equal",
    "gt",
    "imag",
    "isfinite",
    "isinf",
    "isnan",
    "le",
    "less",
    "less_equal",
    "log",
    "log1p",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "lt",
    "maximum",
    "minimum",
    "mul",
    "multiply",
    "ne",
    "neg",
    "negative",
    "nextafter",
    "not_equal",
    "positive",
    "pow",
    "real",
    "reciprocal",
    "remainder",
    "round",
    "rsqrt",
    "shift_left",
    "shift_right",
    "sign",
    "signbit",
    "sin",
    "sqrt",
    "square",
    "sub",
    "subtract",
    "tanh",
    "trunc",
    "where",
]  # fmt: skip

divide, subtract, multiply, negative, equal, less, floor_divide = div, sub, mul, neg, eq, lt, floordiv
bitwise_left_shift, bitwise_right_shift = shift_left, shift_right


def elementwise(
    name: str, reference: Any, *, low: float = -3.0, high: float = 3.0, two: bool = False, **options: Any
) -> Callable[[Callable[..., Any]], Op[..., Tensor]]:
    """Declare an elementwise composite with its NumPy oracle and ordinary samples."""

    def declare(body: Any) -> Any:
        made = op(name, elementwise=True, **options)(body)

        def oracle(*arrays: Any) -> Any:
            with np.errstate(all="ignore"):
                return reference(*arrays)

        made.reference(oracle)

        def samples(s: Any) -> None:
            if two:
                s.case(s.f32(3, 4, low=low, high=high), s.f32(4, low=low, high=high, gap=0.2))
                s.case(s.f32(3, 1, low=low, high=high), s.f32(low=low, high=high, gap=0.2))
            else:
                s.case(s.f32(3, 4, low=low, high=high))
                s.case(s.f32(low=low, high=high))
            s.case(*[s.f32(0, 3)] * (2 if two else 1))

        made.samples(samples)
        return made

    return declare


def as_float(x: Any) -> Any:
    """An integer or bool tensor as the default float."""
    return x if x.dtype.kind in "fc" else cast(x, dtype=dtypes.default_float)


# -- comparison and logic ------------------------------------------------------------------------------------


@elementwise("le", np.less_equal, two=True, nondiff=True)
def le(x: Any, y: Any) -> Tensor:
    """Elementwise ``x <= y``."""
    return bitwise_or(lt(x, y), eq(x, y))


@elementwise("gt", np.greater, two=True, nondiff=True)
def gt(x: Any, y: Any) -> Tensor:
    """Elementwise ``x > y``."""
    return lt(y, x)


@elementwise("ge", np.greater_equal, two=True, nondiff=True)
def ge(x: Any, y: Any) -> Tensor:
    """Elementwise ``x >= y``."""
    return le(y, x)


@elementwise("ne", np.not_equal, two=True, nondiff=True)
def ne(x: Any, y: Any) -> Tensor:
    """Elementwise ``x != y``; NaN differs from everything."""
    return bitwise_xor(eq(x, y), True)


not_equal, less_equal, greater, greater_equal = ne, le, gt, ge


def _truth(x: Any) -> Any:
    return x if x.dtype.kind == "b" else ne(x, 0)


@elementwise("logical_not", np.logical_not, nondiff=True)
def logical_not(x: Any) -> Tensor:
    """Elementwise NOT of truth values."""
    return bitwise_xor(_truth(x), True)


@elementwise("logical_and", np.logical_and, two=True, nondiff=True)
def logical_and(x: Any, y: Any) -> Tensor:
    """Elementwise AND of truth values."""
    return bitwise_and(_truth(x), _truth(y))


@elementwise("logical_or", np.logical_or, two=True, nondiff=True)
def logical_or(x: Any, y: Any) -> Tensor:
    """Elementwise OR of truth values."""
    return bitwise_or(_truth(x), _truth(y))


@elementwise("logical_xor", np.logical_xor, two=True, nondiff=True)
def logical_xor(x: Any, y: Any) -> Tensor:
    """Elementwise exclusive OR of truth values."""
    return bitwise_xor(_truth(x), _truth(y))


@op("bitwise_not", elementwise=True, nondiff=True)
def bitwise_not(x: Any) -> Tensor:
    """Elementwise inversion of bits (logical for bools)."""
    if x.dtype.kind == "b":
        return bitwise_xor(x, True)
    ones = -1 if x.dtype.kind == "i" else (1 << 8 * x.dtype.itemsize) - 1
    return bitwise_xor(x, ones)


@bitwise_not.reference
def _(x: Any) -> Any:
    return np.invert(x)


@bitwise_not.samples
def _(s: Any) -> None:
    s.case(s.i32(3, 4, low=-9, high=9))
    s.case(s.u32(4))
    s.case(s.bool(4))
    s.error(TypeError, "must be", s.f32(3))


bitwise_invert = bitwise_not


@elementwise("isinf", np.isinf, nondiff=True)
def isinf(x: Any) -> Tensor:
    """Elementwise test for plus or minus infinity."""
    return eq(abs(x), _m.inf) if x.dtype.is_floating else ne(x, x)


@elementwise("isfinite", np.isfinite, nondiff=True)
def isfinite(x: Any) -> Tensor:
    """Elementwise test for a number that is neither infinite nor NaN."""
    return lt(abs(x), _m.inf) if x.dtype.is_floating else eq(x, x)


@elementwise("signbit", np.signbit, nondiff=True)
def signbit(x: Any) -> Tensor:
    """Elementwise test for a negative sign, also of -0.0."""
    return bitwise_or(lt(x, 0), bitwise_and(eq(x, 0), lt(div(1.0, x), 0)))


# -- rounding and signs --------------------------------------------------------------------------------------


def _flat_vjp(made: Any) -> None:
    """The slope is 0 wherever it exists."""
    made.vjp(lambda grads, outs, ins, attrs, needs: (mul(grads[0], 0),))


@elementwise("ceil", np.ceil)
def ceil(x: Any) -> Tensor:
    """Elementwise smallest integer not below x."""
    return neg(floor(neg(x))) if x.dtype.is_floating else x


@elementwise("trunc", np.trunc)
def trunc(x: Any) -> Tensor:
    """Elementwise integer part, rounding towards zero."""
    return where(lt(x, 0), ceil(x), floor(x)) if x.dtype.is_floating else x


@elementwise("round", np.round)
def round(x: Any) -> Tensor:
    """Elementwise nearest integer; halves go to the even one."""
    if not x.dtype.is_floating:
        result: Tensor = x
        return result
    low = floor(x)
    part = sub(x, low)
    odd = sub(low, mul(floor(mul(low, 0.5)), 2))
    return where(
        lt(part, 0.5), low, where(lt(0.5, part), add(low, 1), where(eq(part, 0.5), add(low, odd), x))
    )


for _rounding in (ceil, trunc, round):
    _flat_vjp(_rounding)


@elementwise("copysign", np.copysign, two=True)
def copysign(x: Any, y: Any) -> Tensor:
    """Elementwise magnitude of x with the sign of y."""
    size = abs(x)
    return where(signbit(y), neg(size), size)


@elementwise("remainder", np.remainder, two=True, low=0.5)
def remainder(x: Any, y: Any) -> Tensor:
    """Elementwise ``x - y * floor(x / y)``, with the sign of `y` (Python's ``%``)."""
    if x.dtype.is_integer and y.dtype.is_integer:
        return sub(x, mul(floordiv(x, y), y))
    rest = sub(x, mul(trunc(div(x, y)), y))
    return where(bitwise_and(ne(rest, 0), ne(lt(rest, 0), lt(y, 0))), add(rest, y), rest)


@op("clip", elementwise=True)
def clip(x: Any, min: Any = None, max: Any = None) -> Tensor:
    """Elementwise limits: at least `min`, at most `max`; the gradient passes inside and at the limits."""
    if min is not None:
        x = where(lt(x, min), min, x)
    if max is not None:
        x = where(lt(max, x), max, x)
    result: Tensor = x
    return result


@clip.reference
def _(x: Any, min: Any = None, max: Any = None) -> Any:
    return np.clip(x, min, max)


@clip.samples
def _(s: Any) -> None:
    s.case(s.f32(3, 4), s.array(np.float32(-0.5)), s.array(np.float32(1.0)))
    s.case(s.f32(3, 4), None, s.f32(4))
    s.case(s.f32(3, 4), s.f32(3, 1))


@elementwise("square", np.square)
def square(x: Any) -> Tensor:
    """Elementwise ``x * x``."""
    return mul(x, x)


@square.vjp
def _(grads: Any, outs: Any, ins: Any, attrs: Any, needs: Any) -> Any:
    return (grads[0] * conj(ins[0]) * 2,)


@elementwise("reciprocal", np.reciprocal, low=0.2)
def reciprocal(x: Any) -> Tensor:
    """Elementwise ``1 / x``."""
    return div(1, x)


@elementwise("rsqrt", lambda x: 1 / np.sqrt(x), low=0.2)
def rsqrt(x: Any) -> Tensor:
    """Elementwise ``1 / sqrt(x)``."""
    return div(1.0, sqrt(x))


@op("conj")
def conj(x: Any) -> Tensor:
    """Elementwise complex conjugate; a real tensor stays as it is."""
    result: Tensor = _complex(real(x), neg(imag(x))) if x.dtype.is_complex else x
    return result


@op("real")
def real(x: Any) -> Tensor:
    """Elementwise real part."""
    part: Tensor = _complex_part(x, 0) if x.dtype.is_complex else x
    return part


@op("imag")
def imag(x: Any) -> Tensor:
    """Elementwise imaginary part."""
    part: Tensor = _complex_part(x, 1) if x.dtype.is_complex else mul(x, 0)
    return part


def _complex_part(x: Any, index: int) -> Any:
    from grilly_core.ops.complex import view_as_real
    from grilly_core.ops.views import squeeze, subview

    pairs = view_as_real(x)
    part = subview(pairs, starts=(0,) * x.ndim + (index,), sizes=(*x.shape, 1), steps=(1,) * pairs.ndim)
    return squeeze(part, axis=(x.ndim,))


def _complex(a: Any, b: Any) -> Any:
    from grilly_core.ops.complex import complex_of

    return complex_of(a, b)


for _part, _of in ((conj, np.conj), (real, np.real), (imag, np.imag)):
    _part.reference(_of)

    @_part.samples
    def _(s: Any) -> None:
        s.case(s.c64(3, 4))
        s.case(s.f32(3))


def positive(x: Any) -> Any:
    """The tensor itself (Array API's unary plus)."""
    return +x


@elementwise("nextafter", np.nextafter, two=True, nondiff=True)
def nextafter(x: Any, y: Any) -> Tensor:
    """Elementwise next representable number after x towards y."""
    bits = bitcast(x, dtype=dtypes.int64 if x.dtype is dtypes.float64 else dtypes.int32)
    away = bitwise_xor(lt(x, 0), lt(x, y))  # towards larger magnitude
    step = where(away, add(bits, 1), sub(bits, 1))
    moved = bitcast(step, dtype=x.dtype)
    smallest = bitcast(add(bitwise_and(bits, 0), 1), dtype=x.dtype)
    from_zero = where(lt(y, 0), neg(smallest), smallest)
    result = where(eq(x, 0), from_zero, moved)
    return where(bitwise_or(isnan(x), isnan(y)), add(x, y), where(eq(x, y), y, result))
