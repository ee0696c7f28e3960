"""Elementwise functions beyond the Array API that PyTorch's users expect, all made of primitives."""

from __future__ import annotations

import math as _m
from typing import Any

import numpy as np

from grilly_core import dtypes
from grilly_core.apply import as_tensor
from grilly_core.dtypes import promote
from grilly_core.layout import broadcast_shapes
from grilly_core.ops.complex import complex_of
from grilly_core.ops.elementary import hypot
from grilly_core.ops.math import as_float, elementwise, imag, isinf, ne, real, trunc
from grilly_core.ops.primitives import (
    abs,
    add,
    atan2,
    bitcast,
    bitwise_and,
    bitwise_or,
    cast,
    cos,
    div,
    eq,
    exp,
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
    shift_right,
    sin,
    sub,
    where,
)  # fmt: skip
from grilly_core.ops.primitives import sign as _sign
from grilly_core.ops.views import broadcast_to
from grilly_core.opspec import op
from grilly_core.tensor import Tensor

__all__ = [
    "addcdiv", "addcmul", "angle", "complex", "deg2rad", "float_power", "fmax", "fmin", "fmod", "frac", "frexp",
    "gcd", "heaviside", "isclose", "isneginf", "isposinf", "isreal", "lcm", "ldexp", "lerp", "logaddexp2", "logit",
    "nan_to_num", "polar", "rad2deg", "sgn", "sinc", "xlogy",
]  # fmt: skip


# -- parts of numbers ----------------------------------------------------------------------------------------


@elementwise("frac", lambda x: x - np.trunc(x))
def frac(x: Any) -> Tensor:
    """Elementwise part after the point, with the sign of x."""
    return sub(x, trunc(x))


@elementwise("fmod", np.fmod, two=True, low=0.5)
def fmod(x: Any, y: Any) -> Tensor:
    """Elementwise ``x - y * trunc(x / y)``, with the sign of `x` (C's ``%``)."""
    if x.dtype.is_integer and y.dtype.is_integer:
        rest = sub(x, mul(floordiv(x, y), y))
        wrong = bitwise_and(ne(rest, 0), ne(lt(rest, 0), lt(x, 0)))
        return where(wrong, sub(rest, y), rest)
    return sub(x, mul(trunc(div(x, y)), y))


@op("frexp", nondiff_outputs={1})
def frexp(x: Any) -> tuple[Tensor, ...]:
    """Elementwise mantissa, in [0.5, 1), and exponent to base 2; 0, infinity and NaN keep exponent 0."""
    if x.dtype.itemsize == 2:
        mantissa, exponent = frexp(cast(x, dtype=dtypes.float32))
        return cast(mantissa, dtype=x.dtype), exponent
    long = x.dtype is dtypes.float64
    word, shift, bias = (dtypes.int64, 52, 1022) if long else (dtypes.int32, 23, 126)
    tiny = 2.0**-bias
    small = lt(abs(x), tiny)
    scaled = where(small, mul(x, 2.0**shift), x)  # a subnormal number has no exponent of its own
    bits = bitcast(scaled, dtype=word)
    mask = 2 * bias + 3
    exponent = sub(bitwise_and(shift_right(bits, shift), mask), where(small, bias + shift, bias))
    keep = (1 << shift) - 1 - (1 << 8 * x.dtype.itemsize - 1)
    mantissa = bitcast(bitwise_or(bitwise_and(bits, keep), bias << shift), dtype=x.dtype)
    plain = bitwise_or(eq(x, 0), bitwise_or(isinf(x), isnan(x)))
    return where(plain, x, mantissa), cast(where(plain, 0, exponent), dtype=dtypes.int32)


@frexp.vjp
def _(grads: Any, outs: Any, ins: Any, attrs: Any, needs: Any) -> Any:
    return (mul(grads[0], pow(2.0, neg(cast(outs[1], dtype=grads[0].dtype)))),)


@frexp.reference
def _(x: Any) -> Any:
    return np.frexp(x)


@frexp.samples
def _(s: Any) -> None:
    s.case(s.f32(3, 4))
    s.case(s.array(np.array([0.0, 1.0, -0.5, 1e-38, np.inf, np.nan], "f4")), grad="none")


@elementwise("ldexp", lambda x, y: x * np.exp2(y), two=True)
def ldexp(x: Any, y: Any) -> Tensor:
    """Elementwise ``x * 2**y``."""
    return mul(x, pow(2.0, as_float(y)))


@elementwise("deg2rad", np.deg2rad)
def deg2rad(x: Any) -> Tensor:
    """Elementwise radians of degrees."""
    return mul(as_float(x), _m.pi / 180)


@elementwise("rad2deg", np.rad2deg)
def rad2deg(x: Any) -> Tensor:
    """Elementwise degrees of radians."""
    return mul(as_float(x), 180 / _m.pi)


# -- NaN and infinity ----------------------------------------------------------------------------------------


@elementwise("fmax", np.fmax, two=True)
def fmax(x: Any, y: Any) -> Tensor:
    """Elementwise larger number; a NaN loses against a number."""
    return where(isnan(x), y, where(isnan(y), x, maximum(x, y)))


@elementwise("fmin", np.fmin, two=True)
def fmin(x: Any, y: Any) -> Tensor:
    """Elementwise smaller number; a NaN loses against a number."""
    return where(isnan(x), y, where(isnan(y), x, minimum(x, y)))


@elementwise("isposinf", np.isposinf, nondiff=True)
def isposinf(x: Any) -> Tensor:
    """Elementwise test for plus infinity."""
    return bitwise_and(isinf(x), lt(0, x))


@elementwise("isneginf", np.isneginf, nondiff=True)
def isneginf(x: Any) -> Tensor:
    """Elementwise test for minus infinity."""
    return bitwise_and(isinf(x), lt(x, 0))


@op("isreal", nondiff=True)
def isreal(x: Any) -> Tensor:
    """Elementwise test for an imaginary part of 0."""
    part = imag(x) if x.dtype.is_complex else cast(x, dtype=dtypes.bool_)
    return eq(part, 0) if x.dtype.is_complex else bitwise_or(part, True)


@isreal.reference
def _(x: Any) -> Any:
    return np.isreal(x)


@isreal.samples
def _(s: Any) -> None:
    s.case(s.f32(3, 4))
    s.case(s.array(np.array([1, 1j, 2 + 1j], np.complex64)))


_LARGEST = {
    "f16": 65504.0, "bf16": (2 - 2**-7) * 2.0**127, "f32": (2 - 2**-23) * 2.0**127, "f64": (2 - 2**-52) * 2.0**1023,
}  # fmt: skip


@op("nan_to_num")
def nan_to_num(
    x: Any, *, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None
) -> Tensor:
    """Numbers in place of NaN and infinities: by default 0, and the largest and smallest of the type."""
    if not x.dtype.is_floating:
        result: Tensor = x
        return result
    largest = _LARGEST[x.dtype.code]
    high, low = largest if posinf is None else posinf, -largest if neginf is None else neginf
    return where(isnan(x), nan, where(isposinf(x), high, where(isneginf(x), low, x)))


@nan_to_num.samples
def _(s: Any) -> None:
    s.case(
        s.array(np.array([np.nan, np.inf, -np.inf, 1.5], "f4")), nan=1.0, posinf=3.0, neginf=-2.0, grad="none"
    )
    s.case(s.f32(3, 4))


@op("isclose", nondiff=True)
def isclose(x: Any, y: Any, *, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> Tensor:
    """Elementwise ``abs(x - y) <= atol + rtol * abs(y)``; equal infinities are close."""
    same = eq(x, y)
    if equal_nan and x.dtype.kind in "fc":
        same = bitwise_or(same, bitwise_and(ne(x, x), ne(y, y)))
    gap = abs(sub(as_float(x), as_float(y)))
    near = bitwise_or(
        lt(gap, add(mul(abs(as_float(y)), rtol), atol)), eq(gap, add(mul(abs(as_float(y)), rtol), atol))
    )
    return bitwise_or(same, bitwise_and(lt(gap, _m.inf), near))


@isclose.reference
def _(x: Any, y: Any, *, rtol: Any, atol: Any, equal_nan: Any) -> Any:
    return np.isclose(x, y, rtol, atol, equal_nan)


@isclose.samples
def _(s: Any) -> None:
    values = np.array([1.0, np.nan, np.inf, -np.inf, 2.0], "f4")
    s.case(s.array(values), s.array(np.array([1.0001, np.nan, np.inf, np.inf, 3.0], "f4")), rtol=1e-3)
    s.case(s.array(values), s.array(values), equal_nan=True)
    s.case(s.i32(3, 4), s.i32(4))


# -- mixtures ------------------------------------------------------------------------------------------------


@op("lerp", elementwise=True)
def lerp(x: Any, y: Any, weight: Any) -> Tensor:
    """Elementwise ``x + weight * (y - x)``, exact at both ends."""
    gap = sub(y, x)
    size = weight if not weight.dtype.is_complex else abs(weight)
    return where(lt(size, 0.5), add(x, mul(gap, weight)), sub(y, mul(gap, sub(1, weight))))


@lerp.reference
def _(x: Any, y: Any, weight: Any) -> Any:
    return x + weight * (y - x)


@lerp.samples
def _(s: Any) -> None:
    s.case(s.f32(3, 4), s.f32(4), s.f32(3, 1, low=0.0, high=1.0))
    s.case(s.f32(3), s.f32(3), s.array(np.float32(0.25)))


@op("addcmul", elementwise=True)
def _addcmul(x: Any, a: Any, b: Any, value: Any) -> Tensor:
    """Elementwise ``x + value * a * b``."""
    return add(x, mul(mul(a, b), value))


@_addcmul.reference
def _(x: Any, a: Any, b: Any, value: Any) -> Any:
    return x + value * a * b


@op("addcdiv", elementwise=True)
def _addcdiv(x: Any, a: Any, b: Any, value: Any) -> Tensor:
    """Elementwise ``x + value * a / b``."""
    return add(x, mul(div(a, b), value))


@_addcdiv.reference
def _(x: Any, a: Any, b: Any, value: Any) -> Any:
    return x + value * a / b


for _mixture in (_addcmul, _addcdiv):

    @_mixture.samples
    def _(s: Any) -> None:
        s.case(s.f32(3, 4), s.f32(4), s.f32(3, 1, gap=0.2), s.array(np.float32(0.5)))


def addcmul(x: Any, tensor1: Any, tensor2: Any, /, *, value: Any = 1) -> Tensor:
    """Return ``x + value * tensor1 * tensor2``, elementwise.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.addcmul([1.0, 2.0], [3.0, 4.0], 2.0, value=0.5).tolist()
    [4.0, 6.0]
    """
    return _addcmul(x, tensor1, tensor2, value)


def addcdiv(x: Any, tensor1: Any, tensor2: Any, /, *, value: Any = 1) -> Tensor:
    """Return ``x + value * tensor1 / tensor2``, elementwise.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.addcdiv([1.0, 2.0], [3.0, 4.0], 2.0).tolist()
    [2.5, 4.0]
    """
    return _addcdiv(x, tensor1, tensor2, value)


def float_power(x: Any, y: Any, /) -> Tensor:
    """Return ``x ** y`` in double precision.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.float_power(grilly.asarray([2, 3]), 2).dtype
    grilly.float64
    """
    x, y = (as_tensor(t) for t in (x, y))
    wide = dtypes.complex128 if x.dtype.is_complex or y.dtype.is_complex else dtypes.float64
    return pow(cast(x, dtype=wide), cast(y, dtype=wide))


# -- logarithms, steps ---------------------------------------------------------------------------------------


@elementwise("logaddexp2", np.logaddexp2, two=True)
def logaddexp2(x: Any, y: Any) -> Tensor:
    """Elementwise ``log2(2**x + 2**y)`` without overflow."""
    gap = mul(abs(sub(x, y)), -_m.log(2.0))
    return where(eq(x, y), add(x, 1.0), add(maximum(x, y), mul(log1p(exp(gap)), 1 / _m.log(2.0))))


@logaddexp2.vjp
def _(grads: Any, outs: Any, ins: Any, attrs: Any, needs: Any) -> Any:
    (g,), (out,) = grads, outs
    return tuple(mul(g, exp(mul(sub(t, out), _m.log(2.0)))) for t in ins)


@elementwise("xlogy", lambda x, y: np.where(x == 0, 0, x * np.log(y)), two=True, low=0.2)
def xlogy(x: Any, y: Any) -> Tensor:
    """Elementwise ``x * log(y)``, 0 where x is 0."""
    y = as_float(y)
    return where(isnan(y), y, where(eq(x, 0), 0.0, mul(x, log(y))))


@xlogy.vjp
def _(grads: Any, outs: Any, ins: Any, attrs: Any, needs: Any) -> Any:
    (g,), (x, y) = grads, ins
    dead = bitwise_and(eq(x, 0), bitwise_or(lt(y, 0), eq(y, 0)))
    return mul(g, log(where(dead, 1.0, y))), mul(g, div(x, y))


@op("logit")
def logit(x: Any, *, eps: float | None = None) -> Tensor:
    """Elementwise ``log(x / (1 - x))``, with `x` first limited to ``[eps, 1 - eps]`` if `eps` is given."""
    x = as_float(x)
    if eps is not None:
        x = minimum(maximum(x, eps), 1 - eps)
    return sub(log(x), log1p(neg(x)))


@logit.reference
def _(x: Any, *, eps: Any) -> Any:
    x = x if eps is None else np.clip(x, eps, 1 - eps)
    return np.log(x) - np.log1p(-x)


@logit.samples
def _(s: Any) -> None:
    s.case(s.f32(3, 4, low=0.05, high=0.95))
    s.case(s.f32(3, 4, low=-0.5, high=1.5), eps=0.1)


@elementwise("heaviside", np.heaviside, two=True, nondiff=True)
def heaviside(x: Any, y: Any) -> Tensor:
    """Elementwise step: 0 below 0, 1 above, and `y` at 0."""
    step = cast(lt(0, x), dtype=x.dtype)
    return where(eq(x, 0), y, where(isnan(x), x, step) if x.dtype.is_floating else step)


@elementwise("sinc", np.sinc)
def sinc(x: Any) -> Tensor:
    """Elementwise ``sin(pi x) / (pi x)``, 1 at 0."""
    t = mul(as_float(x), _m.pi)
    safe = where(eq(t, 0), 1.0, t)
    return where(eq(t, 0), 1.0, div(sin(safe), safe))


# -- integers ------------------------------------------------------------------------------------------------

#: Steps after which Euclid's algorithm has ended for every pair of a type (Lamé: consecutive Fibonacci numbers).
_EUCLID = {1: 13, 2: 24, 4: 47, 8: 93}


@op("gcd", elementwise=True, nondiff=True)
def gcd(x: Any, y: Any) -> Tensor:
    """Elementwise greatest common divisor of integers."""
    a, b = abs(x), abs(y)
    for _ in range(_EUCLID[max(x.dtype.itemsize, y.dtype.itemsize)]):
        divisor = where(eq(b, 0), 1, b)
        rest = sub(a, mul(floordiv(a, divisor), divisor))
        a, b = where(eq(b, 0), a, b), where(eq(b, 0), b, rest)
    result: Tensor = a
    return result


@gcd.reference
def _(x: Any, y: Any) -> Any:
    return np.gcd(x, y)


@op("lcm", elementwise=True, nondiff=True)
def lcm(x: Any, y: Any) -> Tensor:
    """Elementwise least common multiple of integers."""
    common = gcd(x, y)
    return mul(floordiv(abs(x), where(eq(common, 0), 1, common)), abs(y))


@lcm.reference
def _(x: Any, y: Any) -> Any:
    return np.lcm(x, y)


for _divisor in (gcd, lcm):

    @_divisor.samples
    def _(s: Any) -> None:
        s.case(s.i32(3, 4), s.i32(4))
        s.case(s.array(np.array([0, 0, 12, -18], "i4")), s.array(np.array([0, 5, 18, 12], "i4")))


# -- complex -------------------------------------------------------------------------------------------------


@op("angle")
def angle(x: Any) -> Tensor:
    """Elementwise argument of complex numbers; of real ones 0 or pi."""
    if x.dtype.is_complex:
        return atan2(imag(x), real(x))
    x = as_float(x)
    return where(isnan(x), x, where(lt(x, 0), _m.pi, 0.0))


@angle.reference
def _(x: Any) -> Any:
    return np.angle(x)


@angle.samples
def _(s: Any) -> None:
    s.case(s.c64(3, 4))
    s.case(s.f32(3, 4))


@op("sgn")
def sgn(x: Any) -> Tensor:
    """Elementwise sign; of complex numbers ``x / abs(x)``, 0 at 0."""
    if not x.dtype.is_complex:
        return _sign(x)
    a, b = real(x), imag(x)
    size = hypot(a, b)
    safe = where(eq(size, 0), 1.0, size)
    return complex(div(a, safe), div(b, safe))


@sgn.reference
def _(x: Any) -> Any:
    return np.sign(x)


@sgn.samples
def _(s: Any) -> None:
    s.case(s.c64(3, 4))
    s.case(s.f32(3, 4))


@op("complex", elementwise=True)
def complex(real: Any, imag: Any) -> Tensor:
    """Complex numbers of real and imaginary parts."""
    shape, dtype = broadcast_shapes(real.shape, imag.shape), promote(real.dtype, imag.dtype)
    parts = [broadcast_to(cast(t, dtype=dtype), shape=shape) for t in (real, imag)]
    result: Tensor = complex_of(*parts)
    return result


@complex.reference
def _(real: Any, imag: Any) -> Any:
    return real + 1j * imag


@op("polar", elementwise=True)
def polar(abs: Any, angle: Any) -> Tensor:
    """Complex numbers of absolute values and angles."""
    return complex(mul(abs, cos(angle)), mul(abs, sin(angle)))


@polar.reference
def _(abs: Any, angle: Any) -> Any:
    return abs * np.exp(1j * angle)


for _pair in (complex, polar):

    @_pair.samples
    def _(s: Any) -> None:
        s.case(s.f32(3, 4), s.f32(4))
        s.case(s.f32(3), s.f32())
