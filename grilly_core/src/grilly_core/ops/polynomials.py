"""Orthogonal polynomials by their recurrences in the degree, elementwise."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from grilly_core import dtypes
from grilly_core.apply import as_tensor
from grilly_core.ops.math import as_float
from grilly_core.ops.primitives import add, cast, eq, lt, mul, sub, where
from grilly_core.ops.reduce import max
from grilly_core.tensor import Tensor

__all__ = [
    "chebyshev_polynomial_t", "chebyshev_polynomial_u", "chebyshev_polynomial_v", "chebyshev_polynomial_w",
    "hermite_polynomial_h", "hermite_polynomial_he", "laguerre_polynomial_l", "legendre_polynomial_p",
    "shifted_chebyshev_polynomial_t", "shifted_chebyshev_polynomial_u", "shifted_chebyshev_polynomial_v",
    "shifted_chebyshev_polynomial_w",
]  # fmt: skip

#: (k, x, value of degree k, value of degree k - 1) → value of degree k + 1
Step = Callable[[int, Any, Any, Any], Any]


def _chebyshev(k: int, x: Any, now: Any, before: Any) -> Any:
    return sub(mul(mul(x, 2.0), now), before)


def _hermite_h(k: int, x: Any, now: Any, before: Any) -> Any:
    return sub(mul(mul(x, 2.0), now), mul(before, 2.0 * k))


def _hermite_he(k: int, x: Any, now: Any, before: Any) -> Any:
    return sub(mul(x, now), mul(before, float(k)))


def _laguerre(k: int, x: Any, now: Any, before: Any) -> Any:
    return mul(sub(mul(sub(2.0 * k + 1, x), now), mul(before, float(k))), 1.0 / (k + 1))


def _legendre(k: int, x: Any, now: Any, before: Any) -> Any:
    return mul(sub(mul(mul(x, 2.0 * k + 1), now), mul(before, float(k))), 1.0 / (k + 1))


def _evaluated(x: Any, n: Any, first: Callable[[Any], Any], step: Step) -> Tensor:
    """Polynomials of degree `n`; 0 for negative degrees.

    Degrees in a tensor are read by the host once, for the largest; inside `capture` that is an error.
    """
    like = x if isinstance(x, Tensor) else n if isinstance(n, Tensor) else None
    x = as_float(as_tensor(x, like))
    degrees = n if isinstance(n, int) else cast(as_tensor(n, x), dtype=dtypes.int32)
    top = degrees if isinstance(degrees, int) else int(max(degrees).item()) if 0 not in degrees.shape else 0
    before, now = add(mul(x, 0.0), 1.0), first(x)
    values = [before, now]
    for k in range(1, top):
        before, now = now, step(k, x, now, before)
        values.append(now)
    if isinstance(degrees, int):
        return values[degrees] if degrees >= 0 else mul(x, 0.0)
    result: Tensor = where(lt(degrees, 0), 0.0, values[0])
    for k in range(1, top + 1):
        result = where(eq(degrees, k), values[k], result)
    return result


def chebyshev_polynomial_t(x: Any, n: Any, /) -> Tensor:
    """Return the Chebyshev polynomial of the first kind of degree `n` (an int, or integers that broadcast).

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.special.chebyshev_polynomial_t(0.5, 2).item()
    -0.5
    """
    return _evaluated(x, n, lambda t: t, _chebyshev)


def chebyshev_polynomial_u(x: Any, n: Any, /) -> Tensor:
    """Return the Chebyshev polynomial of the second kind of degree `n`."""
    return _evaluated(x, n, lambda t: mul(t, 2.0), _chebyshev)


def chebyshev_polynomial_v(x: Any, n: Any, /) -> Tensor:
    """Return the Chebyshev polynomial of the third kind of degree `n`."""
    return _evaluated(x, n, lambda t: sub(mul(t, 2.0), 1.0), _chebyshev)


def chebyshev_polynomial_w(x: Any, n: Any, /) -> Tensor:
    """Return the Chebyshev polynomial of the fourth kind of degree `n`."""
    return _evaluated(x, n, lambda t: add(mul(t, 2.0), 1.0), _chebyshev)


def _shifted(x: Any) -> Any:
    return sub(mul(as_float(as_tensor(x)), 2.0), 1.0)


def shifted_chebyshev_polynomial_t(x: Any, n: Any, /) -> Tensor:
    """Return `chebyshev_polynomial_t` at ``2 x - 1``."""
    return chebyshev_polynomial_t(_shifted(x), n)


def shifted_chebyshev_polynomial_u(x: Any, n: Any, /) -> Tensor:
    """Return `chebyshev_polynomial_u` at ``2 x - 1``."""
    return chebyshev_polynomial_u(_shifted(x), n)


def shifted_chebyshev_polynomial_v(x: Any, n: Any, /) -> Tensor:
    """Return `chebyshev_polynomial_v` at ``2 x - 1``."""
    return chebyshev_polynomial_v(_shifted(x), n)


def shifted_chebyshev_polynomial_w(x: Any, n: Any, /) -> Tensor:
    """Return `chebyshev_polynomial_w` at ``2 x - 1``."""
    return chebyshev_polynomial_w(_shifted(x), n)


def hermite_polynomial_h(x: Any, n: Any, /) -> Tensor:
    """Return the physicists' Hermite polynomial of degree `n`."""
    return _evaluated(x, n, lambda t: mul(t, 2.0), _hermite_h)


def hermite_polynomial_he(x: Any, n: Any, /) -> Tensor:
    """Return the probabilists' Hermite polynomial of degree `n`."""
    return _evaluated(x, n, lambda t: t, _hermite_he)


def laguerre_polynomial_l(x: Any, n: Any, /) -> Tensor:
    """Return the Laguerre polynomial of degree `n`."""
    return _evaluated(x, n, lambda t: sub(1.0, t), _laguerre)


def legendre_polynomial_p(x: Any, n: Any, /) -> Tensor:
    """Return the Legendre polynomial of degree `n`."""
    return _evaluated(x, n, lambda t: t, _legendre)
