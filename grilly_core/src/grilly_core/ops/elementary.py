"""Exponentials, logarithms and trigonometry beyond the primitives."""

from __future__ import annotations

import math as _m
from typing import Any

import numpy as np

from grilly_core.ops.math import as_float, copysign, elementwise, isinf
from grilly_core.ops.primitives import (
    abs,
    add,
    atan2,
    bitwise_or,
    cos,
    div,
    eq,
    exp,
    expm1,
    log,
    log1p,
    lt,
    maximum,
    minimum,
    mul,
    neg,
    sin,
    sqrt,
    sub,
    where,
)  # fmt: skip
from grilly_core.tensor import Tensor

__all__ = [
    "acos",
    "acosh",
    "asin",
    "asinh",
    "atan",
    "atanh",
    "cosh",
    "exp2",
    "hypot",
    "log2",
    "log10",
    "logaddexp",
    "sinh",
    "tan",
]


@elementwise("exp2", np.exp2)
def exp2(x: Any) -> Tensor:
    """Elementwise ``2 ** x``."""
    return exp(mul(as_float(x), _m.log(2.0)))


@elementwise("log2", np.log2, low=0.1)
def log2(x: Any) -> Tensor:
    """Elementwise logarithm to base 2."""
    return mul(log(x), 1 / _m.log(2.0))


@elementwise("log10", np.log10, low=0.1)
def log10(x: Any) -> Tensor:
    """Elementwise logarithm to base 10."""
    return mul(log(x), 1 / _m.log(10.0))


@elementwise("logaddexp", np.logaddexp, two=True)
def logaddexp(x: Any, y: Any) -> Tensor:
    """Elementwise ``log(exp(x) + exp(y))`` without overflow."""
    top = maximum(x, y)
    gap = neg(abs(sub(x, y)))
    return where(eq(x, y), add(x, _m.log(2.0)), add(top, log1p(exp(gap))))


@logaddexp.vjp
def _(grads: Any, outs: Any, ins: Any, attrs: Any, needs: Any) -> Any:
    (g,), (out,), (x, y) = grads, outs, ins
    return mul(g, exp(sub(x, out))), mul(g, exp(sub(y, out)))


@elementwise("hypot", np.hypot, two=True, low=0.3)
def hypot(x: Any, y: Any) -> Tensor:
    """Elementwise ``sqrt(x**2 + y**2)`` without overflow."""
    a, b = abs(x), abs(y)
    top = maximum(a, b)
    ratio = div(minimum(a, b), where(bitwise_or(eq(top, 0), isinf(top)), 1.0, top))
    return where(isinf(top), top, mul(top, sqrt(add(mul(ratio, ratio), 1))))


# -- trigonometry --------------------------------------------------------------------------------------------


@elementwise("tan", np.tan, low=-1.2, high=1.2)
def tan(x: Any) -> Tensor:
    """Elementwise tangent of radians."""
    return div(sin(x), cos(x))


@elementwise("asin", np.arcsin, low=-0.9, high=0.9)
def asin(x: Any) -> Tensor:
    """Elementwise angle whose sine is x."""
    x = as_float(x)
    return atan2(x, sqrt(mul(sub(1, x), add(x, 1))))


@elementwise("acos", np.arccos, low=-0.9, high=0.9)
def acos(x: Any) -> Tensor:
    """Elementwise angle whose cosine is x."""
    x = as_float(x)
    return atan2(sqrt(mul(sub(1, x), add(x, 1))), x)


@elementwise("atan", np.arctan)
def atan(x: Any) -> Tensor:
    """Elementwise angle whose tangent is x."""
    return atan2(x, 1.0)


@elementwise("sinh", np.sinh)
def sinh(x: Any) -> Tensor:
    """Elementwise hyperbolic sine."""
    x = as_float(x)
    half = exp(sub(abs(x), _m.log(2.0)))  # exp(x)/2, which overflows where sinh does
    small = expm1(abs(x))
    size = where(lt(abs(x), 1.0), mul(add(small, div(small, add(small, 1))), 0.5), sub(half, div(0.25, half)))
    return copysign(size, x)


@elementwise("cosh", np.cosh)
def cosh(x: Any) -> Tensor:
    """Elementwise hyperbolic cosine."""
    half = exp(sub(abs(as_float(x)), _m.log(2.0)))
    return add(half, div(0.25, half))


@elementwise("asinh", np.arcsinh)
def asinh(x: Any) -> Tensor:
    """Elementwise inverse of `sinh`."""
    a = abs(as_float(x))
    big = lt(1e9, a)
    safe = where(big, 1.0, a)
    near = log1p(add(safe, div(mul(safe, safe), add(sqrt(add(mul(safe, safe), 1)), 1))))
    return copysign(where(big, add(log(where(big, a, 1.0)), _m.log(2.0)), near), x)


@elementwise("acosh", np.arccosh, low=1.2, high=4.0)
def acosh(x: Any) -> Tensor:
    """Elementwise inverse of `cosh`, not negative."""
    x = as_float(x)
    big = lt(1e9, x)
    t = sub(where(big, 2.0, x), 1)
    near = log1p(add(t, sqrt(mul(t, add(t, 2)))))
    return where(big, add(log(where(big, x, 1.0)), _m.log(2.0)), near)


@elementwise("atanh", np.arctanh, low=-0.9, high=0.9)
def atanh(x: Any) -> Tensor:
    """Elementwise inverse of `tanh`."""
    x = as_float(x)
    return mul(sub(log1p(x), log1p(neg(x))), 0.5)
