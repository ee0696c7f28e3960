"""The gamma function's family: its logarithm, derivatives and incomplete integrals, and the zeta function."""

from __future__ import annotations

import math as _m
from typing import Any

import numpy as np

from grilly_core.apply import as_tensor
from grilly_core.ops import special_fits as fits
from grilly_core.ops.math import as_float, elementwise, floor, round
from grilly_core.ops.primitives import (
    abs,
    add,
    bitwise_and,
    bitwise_or,
    cos,
    div,
    eq,
    exp,
    log,
    log1p,
    lt,
    maximum,
    minimum,
    mul,
    neg,
    pow,
    sin,
    sqrt,
    sub,
    where,
)  # fmt: skip
from grilly_core.ops.special import chebyshev
from grilly_core.opspec import op
from grilly_core.tensor import Tensor

__all__ = ["digamma", "gammainc", "gammaincc", "lgamma", "multigammaln", "polygamma", "zeta"]

#: Bernoulli numbers B2, B4, ... over which the asymptotic series run.
_BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510)
_SHIFTS = 30
_lgamma = np.vectorize(_m.lgamma, otypes=[float])


def _correction(x: Any) -> Any:
    """What Stirling's series adds to his formula."""
    z = div(1.0, mul(x, x))
    rest: Any = 0.0
    for k in range(len(_BERNOULLI), 0, -1):
        rest = add(mul(rest, z), _BERNOULLI[k - 1] / (2 * k * (2 * k - 1)))
    return div(rest, x)


def _stirling(x: Any) -> Any:
    """Logarithm of the gamma function for x of at least 8."""
    return add(add(mul(sub(x, 0.5), log(x)), sub(_correction(x), x)), 0.5 * _m.log(2 * _m.pi))


def _lgamma_small(x: Any) -> Any:
    """Lgamma for x in (0, 8): brought to [1, 3), where it is ``(x - 1)(x - 2)`` times a smooth function."""
    low = lt(x, 1.0)
    shifted = log(where(low, x, 1.0))
    x = where(low, add(x, 1.0), x)
    product: Any = 1.0
    for _ in range(5):
        high = lt(3.0, x) | eq(x, 3.0)
        x = where(high, sub(x, 1.0), x)
        product = mul(product, where(high, x, 1.0))
    middle = mul(mul(sub(x, 1.0), sub(x, 2.0)), chebyshev(fits.LGAMMA, sub(x, 2.0)))
    return add(middle, sub(log(product), shifted))


def _sin_pi(x: Any) -> Any:
    """``sin(pi x)`` without the error of a large product, but for the sign."""
    return sin(mul(sub(x, round(x)), _m.pi))


@elementwise("lgamma", _lgamma)
def lgamma(x: Any) -> Tensor:
    """Elementwise logarithm of the absolute value of the gamma function."""
    x = as_float(x)
    reflected = lt(x, 0.5)
    y = where(reflected, sub(1.0, x), x)
    large = lt(8.0, y)
    value = where(large, _stirling(where(large, y, 9.0)), _lgamma_small(where(large, 1.0, y)))
    sine = abs(_sin_pi(where(reflected, x, 0.5)))
    pole = bitwise_and(eq(x, floor(x)), bitwise_or(lt(x, 0.0), eq(x, 0.0)))
    mirrored = sub(log(div(_m.pi, where(eq(sine, 0.0), 1.0, sine))), value)
    found = where(reflected, mirrored, value)
    return where(bitwise_or(pole, eq(abs(x), _m.inf)), _m.inf, found)


@lgamma.vjp
def _(grads: Any, outs: Any, ins: Any, attrs: Any, needs: Any) -> Any:
    return (mul(grads[0], digamma(ins[0])),)


def _digamma_oracle(x: float) -> float:
    h = 1e-4  # central differences of fourth order
    f = _m.lgamma
    return (8 * (f(x + h) - f(x - h)) - (f(x + 2 * h) - f(x - 2 * h))) / (12 * h)


@elementwise("digamma", np.vectorize(_digamma_oracle, otypes=[float]), low=0.2)
def digamma(x: Any) -> Tensor:
    """Elementwise derivative of `lgamma`: minus infinity at 0, NaN at the negative integers."""
    x = as_float(x)
    reflected = lt(x, 0.5)
    y = where(reflected, sub(1.0, x), x)
    total: Any = 0.0
    for _ in range(8):
        small = lt(y, 8.0)
        total = add(total, where(small, div(1.0, y), 0.0))
        y = where(small, add(y, 1.0), y)
    z = div(1.0, mul(y, y))
    rest: Any = 0.0
    for k in range(len(_BERNOULLI), 0, -1):
        rest = mul(add(rest, _BERNOULLI[k - 1] / (2 * k)), z)
    value = sub(sub(sub(log(y), div(0.5, y)), rest), total)
    part = mul(sub(x, round(x)), _m.pi)
    sine = sin(part)
    cotangent = div(mul(cos(part), _m.pi), where(eq(sine, 0.0), 1.0, sine))
    mirrored = where(eq(sine, 0.0), _m.nan, sub(value, cotangent))
    found = where(reflected, where(eq(x, 0.0), neg(div(1.0, x)), mirrored), value)
    return where(eq(x, _m.inf), x, found)


@digamma.vjp
def _(grads: Any, outs: Any, ins: Any, attrs: Any, needs: Any) -> Any:
    return (mul(grads[0], polygamma(1, ins[0])),)


def _zeta_oracle(s: float, q: float) -> float:
    total = sum((q + k) ** -s for k in range(200))
    w = q + 200
    last = s * (s + 1) * (s + 2) * w ** (-s - 3) / 720
    return float(total + w ** (1 - s) / (s - 1) + w**-s / 2 + s * w ** (-s - 1) / 12 - last)


@op("zeta", elementwise=True, nondiff_inputs={"s"})
def zeta(s: Any, q: Any) -> Tensor:
    """Elementwise Hurwitz zeta function: the sum of ``(q + k)**-s`` over k = 0, 1, ...; `s` has no gradient.

    Terms up to ``q + k = 10``, then the formula of Euler and Maclaurin; NaN for q below -20.
    """
    s, q = as_float(s), as_float(q)
    whole = eq(q, floor(q))
    pole = bitwise_and(whole, bitwise_or(lt(q, 0.0), eq(q, 0.0)))
    lost = bitwise_or(lt(s, 1.0), bitwise_and(lt(q, 0.0), bitwise_and(~whole, ~eq(s, floor(s)))))
    base = where(bitwise_or(pole, lost), 1.0, q)
    power = where(lost, 2.0, s)
    total: Any = 0.0
    w = base
    for _ in range(_SHIFTS):
        low = lt(w, 10.0)
        total = add(total, where(low, pow(where(low, w, 1.0), neg(power)), 0.0))
        w = where(low, add(w, 1.0), w)
    tail = pow(w, neg(power))
    total = add(total, mul(tail, add(div(w, sub(power, 1.0)), 0.5)))
    factor = div(mul(tail, power), w)
    for k, bernoulli in enumerate(_BERNOULLI, 1):
        total = add(total, mul(factor, bernoulli / _m.factorial(2 * k)))
        factor = div(mul(mul(factor, add(power, 2.0 * k - 1)), add(power, 2.0 * k)), mul(w, w))
    found = where(bitwise_or(lost, lt(w, 10.0)), _m.nan, where(pole, _m.inf, total))
    return where(eq(s, 1.0), _m.inf, found)


@zeta.vjp
def _(grads: Any, outs: Any, ins: Any, attrs: Any, needs: Any) -> Any:
    (g,), (s, q) = grads, ins
    return None, mul(g, neg(mul(s, zeta(add(s, 1.0), q))))


@zeta.reference
def _(s: Any, q: Any) -> Any:
    return np.vectorize(_zeta_oracle, otypes=[float])(s, q)


@zeta.samples
def _(s: Any) -> None:
    s.case(s.f32(3, 4, low=1.5, high=5.0), s.f32(4, low=0.5, high=6.0))


def polygamma(n: int, x: Any, /) -> Tensor:
    """Return the `n`-th derivative of `digamma`, elementwise.

    Parameters
    ----------
    n : int
        Not negative.
    x : array_like

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.special.polygamma(1, 1.0).round(3).item()
    1.6449999809265137
    """
    if not isinstance(n, int) or n < 0:
        raise ValueError(f"polygamma: n must be an integer that is not negative; received {n!r}.")
    x = as_float(as_tensor(x))
    if n == 0:
        return digamma(x)
    if n == 1:
        return _trigamma(x)
    return mul(zeta(float(n + 1), x), (-1.0) ** (n + 1) * _m.factorial(n))


@op("trigamma", internal=True, elementwise=True)
def _trigamma(x: Any) -> Tensor:
    """Derivative of `digamma`, below 1/2 by reflection."""
    reflected = lt(x, 0.5)
    value = zeta(2.0, where(reflected, sub(1.0, x), x))
    sine = div(_m.pi, _sin_pi(where(reflected, x, 0.5)))
    return where(reflected, sub(mul(sine, sine), value), value)


@_trigamma.vjp
def _(grads: Any, outs: Any, ins: Any, attrs: Any, needs: Any) -> Any:
    return (mul(grads[0], polygamma(2, ins[0])),)


@_trigamma.samples
def _(s: Any) -> None:
    s.case(s.f32(3, 4, low=0.3, high=9.0))


def multigammaln(x: Any, p: int, /) -> Tensor:
    """Return the logarithm of the multivariate gamma function of dimension `p`, elementwise.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.special.multigammaln(2.0, 1).item()
    0.0
    """
    x = as_float(as_tensor(x))
    total = lgamma(x)
    for j in range(1, p):
        total = add(total, lgamma(sub(x, j / 2)))
    return add(total, p * (p - 1) / 4 * _m.log(_m.pi))


# -- incomplete gamma functions ------------------------------------------------------------------------------

#: Terms of the series and of the continued fraction: enough for a up to `_LARGE`.
_TERMS = 90
_LARGE = 60.0
_NODES, _WEIGHTS = (t.tolist() for t in np.polynomial.legendre.leggauss(40))


def _lower_and_upper(a: Any, x: Any) -> tuple[Any, Any]:
    """Both regularised integrals: each from the one of the two that is small, so that it keeps its digits."""
    a, x = add(as_float(a), mul(as_float(x), 0.0)), add(as_float(x), mul(as_float(a), 0.0))
    good = bitwise_and(bitwise_and(lt(0.0, a), lt(a, _m.inf)), bitwise_and(lt(0.0, x), lt(x, _m.inf)))
    a_, x_ = where(good, a, 1.0), where(good, x, 1.0)
    large = lt(_LARGE, a_)
    below, low, high = _by_terms(where(large, 1.0, a_), where(large, 1.0, x_))
    below_large, part = _by_quadrature(where(large, a_, 100.0), where(large, x_, 100.0))
    below = where(large, below_large, below)
    low, high = where(large, part, low), where(large, part, high)
    low, high = where(below, low, sub(1.0, high)), where(below, sub(1.0, low), high)
    edge = where(eq(x, 0.0), where(eq(a, 0.0), _m.nan, 0.0), _m.nan)
    edge = where(bitwise_and(eq(x, _m.inf), lt(a, _m.inf)), 1.0, edge)
    edge = where(bitwise_and(eq(a, 0.0), lt(0.0, x)), 1.0, edge)
    edge = where(bitwise_and(eq(a, _m.inf), lt(x, _m.inf)), 0.0, edge)
    return where(good, low, edge), where(good, high, sub(1.0, edge))


def _by_terms(a: Any, x: Any) -> tuple[Any, Any, Any]:
    """Whether the lower integral is taken, that by its series, and the upper by Lentz's continued fraction."""
    front = exp(sub(sub(mul(a, log(x)), x), lgamma(a)))
    below = lt(x, add(a, 1.0))
    xs = where(below, x, a)
    term = div(1.0, a)
    total = term
    for k in range(1, _TERMS):
        term = mul(term, div(xs, add(a, float(k))))
        total = add(total, term)
    upper = mul(front, _fraction(a, where(below, add(a, 1.0), x)))
    return below, minimum(mul(front, total), 1.0), minimum(maximum(upper, 0.0), 1.0)


def _by_quadrature(a: Any, x: Any) -> tuple[Any, Any]:
    """Whether `x` lies below the peak at ``a - 1``, and the integral from `x` away from it (Gauss and Legendre).

    The integrand is divided by its peak, whose height over the gamma function Stirling's series gives.
    """
    peak = sub(a, 1.0)
    width = sqrt(peak)
    below = lt(x, peak)
    left = maximum(minimum(sub(peak, mul(width, 9.0)), sub(x, mul(width, 6.0))), 0.0)
    right = maximum(add(peak, mul(width, 12.0)), add(x, mul(width, 7.0)))
    half = mul(sub(where(below, left, right), x), 0.5)
    total: Any = 0.0
    for node, weight in zip(_NODES, _WEIGHTS, strict=True):
        gap = sub(add(x, mul(half, node + 1.0)), peak)
        fall = sub(mul(peak, log1p(maximum(div(gap, peak), -1.0))), gap)
        total = add(total, mul(exp(fall), weight))
    height = div(exp(neg(_correction(peak))), mul(width, _m.sqrt(2 * _m.pi)))
    return below, minimum(mul(mul(total, abs(half)), height), 1.0)


def _fraction(a: Any, x: Any) -> Any:
    tiny = 1e-30
    b = sub(add(x, 1.0), a)
    c: Any = 1 / tiny
    d = div(1.0, where(eq(b, 0.0), tiny, b))
    h = d
    for k in range(1, _TERMS):
        an = mul(sub(a, float(k)), float(k))
        b = add(b, 2.0)
        d = add(mul(an, d), b)
        d = div(1.0, where(lt(abs(d), tiny), tiny, d))
        c = add(b, div(an, c))
        c = where(lt(abs(c), tiny), tiny, c)
        h = mul(h, mul(d, c))
    return h


def _gammainc_oracle(a: float, x: float) -> float:
    t = (np.arange(200000) + 0.5) / 200000 * x ** (1 / 1)
    return float(np.sum(np.exp((a - 1) * np.log(t) - t - _m.lgamma(a))) * x / 200000)


@op("gammainc", elementwise=True, nondiff_inputs={"a"})
def gammainc(a: Any, x: Any) -> Tensor:
    """Elementwise lower incomplete gamma function, divided by the complete one; `a` has no gradient."""
    result: Tensor = _lower_and_upper(a, x)[0]
    return result


@op("gammaincc", elementwise=True, nondiff_inputs={"a"})
def gammaincc(a: Any, x: Any) -> Tensor:
    """Elementwise upper incomplete gamma function, divided by the complete one; `a` has no gradient."""
    result: Tensor = _lower_and_upper(a, x)[1]
    return result


def _density(a: Any, x: Any) -> Any:
    return exp(sub(sub(mul(sub(a, 1.0), log(x)), x), lgamma(a)))


@gammainc.vjp
def _(grads: Any, outs: Any, ins: Any, attrs: Any, needs: Any) -> Any:
    return None, mul(grads[0], _density(*ins))


@gammaincc.vjp
def _(grads: Any, outs: Any, ins: Any, attrs: Any, needs: Any) -> Any:
    return None, mul(grads[0], neg(_density(*ins)))


@gammainc.reference
def _(a: Any, x: Any) -> Any:
    return np.vectorize(_gammainc_oracle, otypes=[float])(a, x)


@gammaincc.reference
def _(a: Any, x: Any) -> Any:
    return 1 - np.vectorize(_gammainc_oracle, otypes=[float])(a, x)


for _integral in (gammainc, gammaincc):

    @_integral.samples
    def _(s: Any) -> None:
        s.case(s.f32(3, 4, low=1.5, high=9.0), s.f32(4, low=0.3, high=15.0), tol=2e-4)
        s.case(s.f32(3, low=80.0, high=120.0), s.f32(3, low=80.0, high=120.0), tol=2e-4)
