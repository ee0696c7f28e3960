"""Error functions and their inverses, entropies, and the normal distribution."""

from __future__ import annotations

import math as _m
from collections.abc import Sequence
from typing import Any

import numpy as np

from grilly_core import dtypes
from grilly_core.ops import special_fits as fits
from grilly_core.ops.math import as_float, elementwise
from grilly_core.ops.primitives import (
    abs,
    add,
    cast,
    div,
    eq,
    erf,
    exp,
    log,
    log1p,
    lt,
    maximum,
    minimum,
    mul,
    neg,
    sign,
    sqrt,
    sub,
    where,
)  # fmt: skip
from grilly_core.ops.reduce import logsumexp
from grilly_core.tensor import Tensor

__all__ = [
    "chebyshev",
    "entr",
    "erfc",
    "erfcx",
    "erfinv",
    "expit",
    "log_ndtr",
    "logsumexp",
    "ndtr",
    "ndtri",
    "xlog1py",
]

_erf = np.vectorize(_m.erf, otypes=[float])
_erfc = np.vectorize(_m.erfc, otypes=[float])


def chebyshev(coefficients: Sequence[float], t: Any) -> Any:
    """Sum of a Chebyshev series for `t` in [-1, 1], by Clenshaw's recurrence."""
    two = mul(t, 2.0)
    before: Any = 0.0
    now: Any = coefficients[-1]
    for c in coefficients[-2:0:-1]:
        now, before = add(sub(mul(two, now), before), c), now
    return add(sub(mul(t, now), before), coefficients[0])


def polynomial(coefficients: Sequence[float], t: Any) -> Any:
    """Value of a polynomial, coefficients of the highest power first."""
    value: Any = coefficients[0]
    for c in coefficients[1:]:
        value = add(mul(value, t), c)
    return value


# -- error functions -----------------------------------------------------------------------------------------


def _scaled(x: Any) -> Any:
    """``exp(x**2) * erfc(x)`` for x not below 0."""
    t = div(2.0, add(x, 2.0))
    return mul(t, chebyshev(fits.ERFCX, sub(mul(t, 2.0), 1.0)))


@elementwise("erfc", _erfc)
def erfc(x: Any) -> Tensor:
    """Elementwise ``1 - erf(x)``, exact where that is tiny."""
    x = as_float(x)
    size = abs(x)
    tail = mul(exp(neg(mul(size, size))), _scaled(size))
    return where(lt(size, 0.5), sub(1.0, erf(x)), where(lt(x, 0.0), sub(2.0, tail), tail))


@erfc.vjp
def _(grads: Any, outs: Any, ins: Any, attrs: Any, needs: Any) -> Any:
    (g,), (x,) = grads, ins
    return (mul(g, mul(exp(neg(mul(x, x))), -2 / _m.sqrt(_m.pi))),)


@elementwise("erfcx", lambda x: np.exp(x * x) * _erfc(x))
def erfcx(x: Any) -> Tensor:
    """Elementwise ``exp(x**2) * erfc(x)``, which neither overflows nor vanishes for large x."""
    x = as_float(x)
    value = _scaled(abs(x))
    return where(lt(x, 0.0), sub(mul(exp(mul(x, x)), 2.0), value), value)


@erfcx.vjp
def _(grads: Any, outs: Any, ins: Any, attrs: Any, needs: Any) -> Any:
    (g,), (out,), (x,) = grads, outs, ins
    return (mul(g, sub(mul(mul(x, 2.0), out), 2 / _m.sqrt(_m.pi))),)


#: Giles, "Approximating the erfinv function" (2012): in single precision, for small and large -log(1 - x**2).
_NEAR = (
    2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087, -0.00125372503,
    -0.00417768164, 0.246640727, 1.50140941,
)  # fmt: skip
_FAR = (
    -0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773, -0.0076224613,
    0.00943887047, 1.00167406, 2.83297682,
)  # fmt: skip


@elementwise("erfinv", lambda y: np.vectorize(_bisected, otypes=[float])(y), low=-0.95, high=0.95)
def erfinv(x: Any) -> Tensor:
    """Elementwise inverse of `erf`: infinite at -1 and 1, NaN beyond."""
    x = as_float(x)
    size = abs(x)
    inside = lt(size, 1.0)
    safe = where(inside, size, 0.0)
    w = neg(add(log1p(safe), log1p(neg(safe))))
    far = sub(sqrt(maximum(w, 5.0)), 3.0)
    y = mul(where(lt(w, 5.0), polynomial(_NEAR, sub(w, 2.5)), polynomial(_FAR, far)), safe)
    for _ in range(2 if x.dtype is dtypes.float64 else 1):  # Halley's steps
        gap = where(lt(safe, 0.5), sub(erf(y), safe), sub(sub(1.0, safe), erfc(y)))
        step = mul(mul(gap, _m.sqrt(_m.pi) / 2), exp(mul(y, y)))
        y = sub(y, div(step, add(mul(step, y), 1.0)))
    edge = where(eq(size, 1.0), _m.inf, where(lt(1.0, size), _m.nan, size))
    return mul(where(inside, y, edge), sign(x))


@erfinv.vjp
def _(grads: Any, outs: Any, ins: Any, attrs: Any, needs: Any) -> Any:
    (g,), (out,) = grads, outs
    return (mul(g, mul(exp(mul(out, out)), _m.sqrt(_m.pi) / 2)),)


def _bisected(y: float) -> float:
    """Oracle of `erfinv`: bisection of `math.erf`."""
    low, high = -6.0, 6.0
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if _m.erf(middle) < y else (low, middle)
    return low


# -- normal distribution -------------------------------------------------------------------------------------


@elementwise("ndtr", lambda x: _erfc(-x / np.sqrt(2)) / 2)
def ndtr(x: Any) -> Tensor:
    """Elementwise probability that a standard normal number is below x."""
    return mul(erfc(mul(as_float(x), -_m.sqrt(0.5))), 0.5)


@ndtr.vjp
def _(grads: Any, outs: Any, ins: Any, attrs: Any, needs: Any) -> Any:
    (g,), (x,) = grads, ins
    return (mul(g, mul(exp(mul(mul(x, x), -0.5)), 1 / _m.sqrt(2 * _m.pi))),)


@elementwise("log_ndtr", lambda x: np.log(_erfc(-x / np.sqrt(2)) / 2))
def log_ndtr(x: Any) -> Tensor:
    """Elementwise logarithm of `ndtr`, which does not vanish for small x."""
    x = as_float(x)
    t = mul(x, _m.sqrt(0.5))
    low = lt(x, -1.0)
    tail = sub(log(mul(_scaled(where(low, neg(t), 1.0)), 0.5)), mul(t, t))
    return where(low, tail, log1p(mul(erfc(where(low, 0.0, t)), -0.5)))


@log_ndtr.vjp
def _(grads: Any, outs: Any, ins: Any, attrs: Any, needs: Any) -> Any:
    (g,), (out,), (x,) = grads, outs, ins
    return (mul(g, mul(exp(sub(mul(mul(x, x), -0.5), out)), 1 / _m.sqrt(2 * _m.pi))),)


@elementwise(
    "ndtri", lambda q: np.sqrt(2) * np.vectorize(_bisected, otypes=[float])(2 * q - 1), low=0.05, high=0.95
)
def ndtri(x: Any) -> Tensor:
    """Elementwise inverse of `ndtr`: minus infinity at 0, infinity at 1, NaN outside.

    The start is formula 26.2.23 of Abramowitz and Stegun; two steps of Halley's method make it exact.
    """
    x = as_float(x)
    tail = minimum(x, sub(1.0, x))
    inside = lt(0.0, tail)
    q = where(inside, tail, 0.25)
    t = sqrt(mul(log(q), -2.0))
    above = polynomial((0.010328, 0.802853, 2.515517), t)
    y = sub(div(above, polynomial((0.001308, 0.189269, 1.432788, 1.0), t)), t)
    for _ in range(2):
        below = mul(_scaled(mul(abs(y), _m.sqrt(0.5))), 0.5)  # of ndtr(y), times exp(y**2 / 2)
        value = where(lt(0.0, y), sub(exp(mul(mul(y, y), 0.5)), below), below)
        gap = mul(sub(value, mul(q, exp(mul(mul(y, y), 0.5)))), _m.sqrt(2 * _m.pi))
        y = sub(y, div(gap, add(mul(mul(gap, y), 0.5), 1.0)))
    y = where(lt(x, 0.5), y, neg(y))
    edge = where(eq(x, 0.0), -_m.inf, where(eq(x, 1.0), _m.inf, _m.nan))
    return where(inside, y, edge)


@ndtri.vjp
def _(grads: Any, outs: Any, ins: Any, attrs: Any, needs: Any) -> Any:
    (g,), (out,) = grads, outs
    return (mul(g, mul(exp(mul(mul(out, out), 0.5)), _m.sqrt(2 * _m.pi))),)


# -- entropies and the logistic function ---------------------------------------------------------------------


@elementwise("entr", lambda x: np.where(x > 0, -x * np.log(np.abs(x)), -np.inf), low=0.1)
def entr(x: Any) -> Tensor:
    """Elementwise ``-x * log(x)``: 0 at 0, minus infinity below."""
    x = as_float(x)
    safe = where(lt(0.0, x), x, 1.0)
    return where(lt(x, 0.0), -_m.inf, where(eq(x, x), neg(mul(where(eq(x, 0.0), 0.0, safe), log(safe))), x))


@elementwise("xlog1py", lambda x, y: np.where(x == 0, 0, x * np.log1p(y)), two=True, low=-0.5)
def xlog1py(x: Any, y: Any) -> Tensor:
    """Elementwise ``x * log1p(y)``, 0 where x is 0."""
    y = as_float(y)
    return where(eq(y, y), where(eq(x, 0), 0.0, mul(x, log1p(y))), y)


@xlog1py.vjp
def _(grads: Any, outs: Any, ins: Any, attrs: Any, needs: Any) -> Any:
    (g,), (x, y) = grads, ins
    dead = eq(x, 0) & ~lt(-1, y)
    return mul(g, log1p(where(dead, 0.0, y))), mul(g, div(x, add(y, 1.0)))


def expit(x: Any, /) -> Tensor:
    """Return the logistic function ``1 / (1 + exp(-x))`` (also called sigmoid), elementwise.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.special.expit(0.0).item()
    0.5
    """
    from grilly_core.apply import as_tensor
    from grilly_core.ops.nn_activations import sigmoid

    x = as_tensor(x)
    return sigmoid(x if x.dtype.kind in "fc" else cast(x, dtype=dtypes.default_float))
