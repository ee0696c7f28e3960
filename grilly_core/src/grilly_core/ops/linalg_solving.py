"""Solutions and inverses, computed by LAPACK on the host; sources are those of `linalg_host`."""

from __future__ import annotations

from typing import Any

import numpy as np

from grilly_core import dtypes
from grilly_core.buffer import Spec
from grilly_core.errors import ShapeError
from grilly_core.ops import primitives as p
from grilly_core.ops.linalg_rules import adjoint, definite, matrix_of, product
from grilly_core.opspec import Inferred, host_op

__all__ = ["inv", "pinv", "solve"]


@host_op("linalg.solve")
def solve(a: Spec, b: Spec) -> Inferred:
    """X with ``a @ X`` equal to b, for square matrices a and matrices b with the same leading axes."""
    lead, dtype = matrix_of("solve", a)
    if b.ndim < 2 or b.shape[-2] != a.shape[-1] or b.shape[:-2] != lead:
        raise ShapeError(f"solve: expected (..., N, N) and (..., N, K); received {a.shape} and {b.shape}.")
    wide = dtypes.promote(dtype, b.dtype)
    return Inferred(((b.shape, wide),), (wide, wide))


@solve.vjp
def _(grads: Any, outs: Any, ins: Any, attrs: Any, needs: Any) -> Any:
    (g,), (x,), (a, _) = grads, outs, ins
    gb = solve(adjoint(a), g)
    return p.neg(product(gb, adjoint(x))) if needs[0] else None, gb


@solve.reference
def _(a: Any, b: Any) -> Any:
    return np.linalg.solve(a, b)


@solve.samples
def _(s: Any) -> None:
    s.case(definite(s, 1), s.f32(1, 3, 2))
    s.case(definite(s, 2), s.f32(2, 3, 1))
    s.error(ValueError, "expected", s.f32(3, 3), s.f32(2, 2))
    s.error(ValueError, "singular", s.array(np.zeros((2, 2), "f4")), s.f32(2, 2))


@host_op("linalg.inv", saves="outs")
def inv(x: Spec) -> Inferred:
    """Inverse of square matrices."""
    matrix_of("inv", x)
    return Inferred(((x.shape, x.dtype),))


@inv.vjp
def _(grads: Any, outs: Any, ins: Any, attrs: Any, needs: Any) -> Any:
    y = adjoint(outs[0])
    return (p.neg(product(y, grads[0], y)),)


@inv.reference
def _(x: Any) -> Any:
    return np.linalg.inv(x)


@inv.samples
def _(s: Any) -> None:
    s.case(definite(s, 1))
    s.case(definite(s, 2))
    s.error(ValueError, "singular", s.array(np.zeros((2, 2), "f4")))


@host_op("linalg.pinv")
def pinv(x: Spec, *, rtol: float = 0.0, atol: float = 0.0) -> Inferred:
    """Moore-Penrose inverse; singular values not above ``max(atol, rtol * largest)`` count as 0."""
    lead, dtype = matrix_of("pinv", x, square=False)
    return Inferred((((*lead, x.shape[-1], x.shape[-2]), dtype),))


@pinv.vjp
def _(grads: Any, outs: Any, ins: Any, attrs: Any, needs: Any) -> Any:
    (g,), (y,), (a,) = grads, outs, ins
    gh, yh = adjoint(g), adjoint(y)
    total = p.neg(product(yh, g, yh))
    left = product(gh, y, yh)
    total = p.add(total, p.sub(left, product(a, y, left)))
    right = product(yh, y, gh)
    return (p.add(total, p.sub(right, product(right, y, a))),)


@pinv.reference
def _(x: Any, *, rtol: Any, atol: Any) -> Any:
    u, s, vh = np.linalg.svd(x, full_matrices=False)
    cut = np.maximum(rtol * s.max(-1, keepdims=True, initial=0), atol)
    inverse = np.divide(1, s, where=s > cut, out=np.zeros_like(s))
    back = (np.swapaxes(m, -1, -2).conj() for m in (vh, u))
    v, uh = back
    return np.matmul(v * inverse[..., None, :], uh)


@pinv.samples
def _(s: Any) -> None:
    s.case(s.f32(4, 3), rtol=1e-6)
    s.case(s.f32(2, 3, 4), rtol=1e-6)
