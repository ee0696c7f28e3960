"""Bessel functions of orders 0 and 1, from Chebyshev series (see tools/fit_special.py)."""

from __future__ import annotations

import math as _m
from typing import Any

import numpy as np

from grilly_core.ops import special_fits as fits
from grilly_core.ops.math import as_float, elementwise
from grilly_core.ops.primitives import (
    abs,
    add,
    cos,
    div,
    eq,
    exp,
    log,
    lt,
    maximum,
    minimum,
    mul,
    neg,
    sign,
    sin,
    sqrt,
    sub,
    where,
)  # fmt: skip
from grilly_core.ops.special import chebyshev
from grilly_core.tensor import Tensor

__all__ = [
    "bessel_j0", "bessel_j1", "bessel_y0", "bessel_y1", "i0", "i0e", "i1", "i1e", "modified_bessel_k0",
    "modified_bessel_k1", "scaled_modified_bessel_k0", "scaled_modified_bessel_k1", "spherical_bessel_j0",
]  # fmt: skip


def _integral(function: Any) -> Any:
    """NumPy oracle of a Bessel function by its integral over [0, pi] (Simpson's rule converges fast there)."""
    t = (np.arange(400) + 0.5) / 400 * np.pi

    def oracle(x: Any) -> Any:
        return np.mean(function(np.asarray(x)[..., None], t), axis=-1)

    return oracle


# -- modified, first kind ------------------------------------------------------------------------------------


def _scaled(x: Any, small: Any, large: Any) -> Any:
    """Series of the scaled function for ``abs(x)`` up to 8, and of its multiple by ``sqrt(x)`` beyond."""
    near = chebyshev(small, sub(div(minimum(x, 8.0), 4.0), 1.0))
    far = div(chebyshev(large, sub(div(16.0, maximum(x, 8.0)), 1.0)), sqrt(maximum(x, 8.0)))
    return near, far, lt(8.0, x)


@elementwise("i0e", _integral(lambda x, t: np.exp(x * np.cos(t) - np.abs(x))))
def i0e(x: Any) -> Tensor:
    """Elementwise ``exp(-abs(x)) * i0(x)``."""
    size = abs(as_float(x))
    near, far, beyond = _scaled(size, fits.I0_SMALL, fits.I0_LARGE)
    return where(beyond, far, near)


@i0e.vjp
def _(grads: Any, outs: Any, ins: Any, attrs: Any, needs: Any) -> Any:
    (g,), (out,), (x,) = grads, outs, ins
    return (mul(g, sub(i1e(x), mul(sign(x), out))),)


@elementwise("i0", _integral(lambda x, t: np.exp(x * np.cos(t))))
def i0(x: Any) -> Tensor:
    """Elementwise modified Bessel function of the first kind and order 0."""
    return mul(exp(abs(as_float(x))), i0e(x))


@i0.vjp
def _(grads: Any, outs: Any, ins: Any, attrs: Any, needs: Any) -> Any:
    return (mul(grads[0], i1(ins[0])),)


@elementwise("i1e", _integral(lambda x, t: np.exp(x * np.cos(t) - np.abs(x)) * np.cos(t)))
def i1e(x: Any) -> Tensor:
    """Elementwise ``exp(-abs(x)) * i1(x)``."""
    x = as_float(x)
    size = abs(x)
    near, far, beyond = _scaled(size, fits.I1_SMALL, fits.I1_LARGE)
    return where(beyond, mul(far, sign(x)), mul(near, x))


@i1e.vjp
def _(grads: Any, outs: Any, ins: Any, attrs: Any, needs: Any) -> Any:
    (g,), (out,), (x,) = grads, outs, ins
    ratio = where(eq(x, 0.0), 0.5, div(out, where(eq(x, 0.0), 1.0, x)))
    return (mul(g, sub(sub(i0e(x), ratio), mul(sign(x), out))),)


@elementwise("i1", _integral(lambda x, t: np.exp(x * np.cos(t)) * np.cos(t)))
def i1(x: Any) -> Tensor:
    """Elementwise modified Bessel function of the first kind and order 1."""
    return mul(exp(abs(as_float(x))), i1e(x))


@i1.vjp
def _(grads: Any, outs: Any, ins: Any, attrs: Any, needs: Any) -> Any:
    (g,), (out,), (x,) = grads, outs, ins
    ratio = where(eq(x, 0.0), 0.5, div(out, where(eq(x, 0.0), 1.0, x)))
    return (mul(g, sub(i0(x), ratio)),)


# -- first and second kind -----------------------------------------------------------------------------------


def _wave(x: Any, order: int, p: Any, q: Any) -> tuple[Any, Any]:
    """J and Y for x above 8, by modulus and phase."""
    u = sub(div(16.0, x), 1.0)
    even, odd = chebyshev(p, u), div(chebyshev(q, u), x)
    phase = sub(x, (0.25 + 0.5 * order) * _m.pi)
    scale = sqrt(div(2 / _m.pi, x))
    c, s = cos(phase), sin(phase)
    return mul(scale, sub(mul(even, c), mul(odd, s))), mul(scale, add(mul(even, s), mul(odd, c)))


def _squared(x: Any) -> Any:
    """Where ``x**2`` lies between 0 and 64, as -1 to 1."""
    return sub(div(mul(x, x), 32.0), 1.0)


@elementwise("bessel_j0", _integral(lambda x, t: np.cos(x * np.sin(t))))
def bessel_j0(x: Any) -> Tensor:
    """Elementwise Bessel function of the first kind and order 0."""
    size = abs(as_float(x))
    near = chebyshev(fits.J0_SMALL, _squared(minimum(size, 8.0)))
    return where(lt(8.0, size), _wave(maximum(size, 8.0), 0, fits.P0, fits.Q0)[0], near)


@bessel_j0.vjp
def _(grads: Any, outs: Any, ins: Any, attrs: Any, needs: Any) -> Any:
    return (mul(grads[0], neg(bessel_j1(ins[0]))),)


@elementwise("bessel_j1", _integral(lambda x, t: np.cos(t - x * np.sin(t))))
def bessel_j1(x: Any) -> Tensor:
    """Elementwise Bessel function of the first kind and order 1."""
    x = as_float(x)
    size = abs(x)
    near = mul(x, chebyshev(fits.J1_SMALL, _squared(minimum(size, 8.0))))
    return where(lt(8.0, size), mul(sign(x), _wave(maximum(size, 8.0), 1, fits.P1, fits.Q1)[0]), near)


@bessel_j1.vjp
def _(grads: Any, outs: Any, ins: Any, attrs: Any, needs: Any) -> Any:
    (g,), (out,), (x,) = grads, outs, ins
    ratio = where(eq(x, 0.0), 0.5, div(out, where(eq(x, 0.0), 1.0, x)))
    return (mul(g, sub(bessel_j0(x), ratio)),)


def _second_oracle(order: int) -> Any:
    t = (np.arange(4000) + 0.5) / 4000

    def oracle(x: Any) -> Any:
        x = np.asarray(x, np.float64)[..., None]
        angle = t * np.pi
        waves = np.mean(np.sin(x * np.sin(angle) - order * angle), axis=-1)
        v = t * 12
        decay = np.exp(-x * np.sinh(v)) * (np.exp(order * v) + (-1) ** order * np.exp(-order * v))
        return waves - np.mean(decay, axis=-1) * 12 / np.pi

    return oracle


def _second(x: Any, order: int, near: Any) -> Any:
    """Y of a positive x; minus infinity at 0, NaN below."""
    p, q = ((fits.P0, fits.Q0), (fits.P1, fits.Q1))[order]
    far = _wave(maximum(x, 8.0), order, p, q)[1]
    found = where(lt(8.0, x), far, near)
    return where(lt(0.0, x), found, where(eq(x, 0.0), -_m.inf, _m.nan))


@elementwise("bessel_y0", _second_oracle(0), low=0.5, high=12.0)
def bessel_y0(x: Any) -> Tensor:
    """Elementwise Bessel function of the second kind and order 0, of positive x."""
    x = as_float(x)
    safe = minimum(where(lt(0.0, x), x, 1.0), 8.0)
    smooth = chebyshev(fits.Y0_SMALL, _squared(safe))
    return _second(x, 0, add(smooth, mul(mul(log(safe), 2 / _m.pi), bessel_j0(safe))))  # type: ignore[no-any-return]


@bessel_y0.vjp
def _(grads: Any, outs: Any, ins: Any, attrs: Any, needs: Any) -> Any:
    return (mul(grads[0], neg(bessel_y1(ins[0]))),)


@elementwise("bessel_y1", _second_oracle(1), low=0.5, high=12.0)
def bessel_y1(x: Any) -> Tensor:
    """Elementwise Bessel function of the second kind and order 1, of positive x."""
    x = as_float(x)
    safe = minimum(where(lt(0.0, x), x, 1.0), 8.0)
    smooth = mul(safe, chebyshev(fits.Y1_SMALL, _squared(safe)))
    singular = sub(mul(log(safe), bessel_j1(safe)), div(1.0, safe))
    return _second(x, 1, add(smooth, mul(singular, 2 / _m.pi)))  # type: ignore[no-any-return]


@bessel_y1.vjp
def _(grads: Any, outs: Any, ins: Any, attrs: Any, needs: Any) -> Any:
    (g,), (out,), (x,) = grads, outs, ins
    return (mul(g, sub(bessel_y0(x), div(out, x))),)


# -- modified, second kind -----------------------------------------------------------------------------------


def _k_oracle(order: int, scaled: bool) -> Any:
    v = (np.arange(4000) + 0.5) / 4000 * 10

    def oracle(x: Any) -> Any:
        x = np.asarray(x, np.float64)[..., None]
        return np.mean(np.exp(-x * (np.cosh(v) - scaled)) * np.cosh(order * v), axis=-1) * 10

    return oracle


def _decaying(x: Any, order: int, scaled: bool) -> Any:
    """K of a positive x; infinity at 0, NaN below."""
    x = as_float(x)
    low = minimum(where(lt(0.0, x), x, 1.0), 2.0)
    t = sub(div(mul(low, low), 2.0), 1.0)
    if order == 0:
        near = sub(chebyshev(fits.K0_SMALL, t), mul(log(div(low, 2.0)), i0(low)))
    else:
        near = add(
            add(mul(low, chebyshev(fits.K1_SMALL, t)), mul(log(div(low, 2.0)), i1(low))), div(1.0, low)
        )
    high = maximum(x, 2.0)
    table = fits.K1_LARGE if order else fits.K0_LARGE
    far = div(chebyshev(table, sub(div(4.0, high), 1.0)), sqrt(high))
    if scaled:
        near = mul(near, exp(low))
    else:
        far = mul(far, exp(neg(high)))
    found = where(lt(2.0, x), far, near)
    return where(lt(0.0, x), found, where(eq(x, 0.0), _m.inf, _m.nan))


@elementwise("modified_bessel_k0", _k_oracle(0, False), low=0.3)
def modified_bessel_k0(x: Any) -> Tensor:
    """Elementwise modified Bessel function of the second kind and order 0, of positive x."""
    return _decaying(x, 0, False)  # type: ignore[no-any-return]


@elementwise("modified_bessel_k1", _k_oracle(1, False), low=0.3)
def modified_bessel_k1(x: Any) -> Tensor:
    """Elementwise modified Bessel function of the second kind and order 1, of positive x."""
    return _decaying(x, 1, False)  # type: ignore[no-any-return]


@elementwise("scaled_modified_bessel_k0", _k_oracle(0, True), low=0.3)
def scaled_modified_bessel_k0(x: Any) -> Tensor:
    """Elementwise ``exp(x) * modified_bessel_k0(x)``."""
    return _decaying(x, 0, True)  # type: ignore[no-any-return]


@elementwise("scaled_modified_bessel_k1", _k_oracle(1, True), low=0.3)
def scaled_modified_bessel_k1(x: Any) -> Tensor:
    """Elementwise ``exp(x) * modified_bessel_k1(x)``."""
    return _decaying(x, 1, True)  # type: ignore[no-any-return]


@modified_bessel_k0.vjp
def _(grads: Any, outs: Any, ins: Any, attrs: Any, needs: Any) -> Any:
    return (mul(grads[0], neg(modified_bessel_k1(ins[0]))),)


@modified_bessel_k1.vjp
def _(grads: Any, outs: Any, ins: Any, attrs: Any, needs: Any) -> Any:
    (g,), (out,), (x,) = grads, outs, ins
    return (mul(g, neg(add(modified_bessel_k0(x), div(out, x)))),)


@scaled_modified_bessel_k0.vjp
def _(grads: Any, outs: Any, ins: Any, attrs: Any, needs: Any) -> Any:
    (g,), (out,), (x,) = grads, outs, ins
    return (mul(g, sub(out, scaled_modified_bessel_k1(x))),)


@scaled_modified_bessel_k1.vjp
def _(grads: Any, outs: Any, ins: Any, attrs: Any, needs: Any) -> Any:
    (g,), (out,), (x,) = grads, outs, ins
    return (mul(g, sub(sub(out, scaled_modified_bessel_k0(x)), div(out, x))),)


@elementwise("spherical_bessel_j0", lambda x: np.sinc(x / np.pi))
def spherical_bessel_j0(x: Any) -> Tensor:
    """Elementwise ``sin(x) / x``, 1 at 0."""
    x = as_float(x)
    safe = where(eq(x, 0.0), 1.0, x)
    return where(eq(x, 0.0), 1.0, where(eq(abs(x), _m.inf), 0.0, div(sin(safe), safe)))
