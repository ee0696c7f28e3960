"""Determinants, computed by LAPACK on the host; sources of the gradients are those of `linalg_host`."""

from __future__ import annotations

from typing import Any

import numpy as np

from grilly_core.buffer import Spec
from grilly_core.ops import primitives as p
from grilly_core.ops.linalg_host import svd
from grilly_core.ops.linalg_rules import adjoint, matrix_of, on_diagonal, product, scaled
from grilly_core.ops.linalg_solving import inv
from grilly_core.ops.math import conj, imag
from grilly_core.ops.views import expand_dims
from grilly_core.opspec import Inferred, host_op

__all__ = ["det", "slogdet"]


@host_op("linalg.det")
def det(x: Spec) -> Inferred:
    """Determinant of square matrices."""
    lead, dtype = matrix_of("det", x)
    return Inferred(((lead, dtype),))


@det.vjp
def _(grads: Any, outs: Any, ins: Any, attrs: Any, needs: Any) -> Any:
    """The cofactors, through singular values, so that singular matrices have their gradient too."""
    (g,), (x,) = grads, ins
    u, s, vh = svd(x, full_matrices=False)
    turn = p.mul(det(u), det(vh))
    n = s.shape[-1]
    others = p.where(on_diagonal(x), 1.0, expand_dims(s, axis=s.ndim - 1))
    from grilly_core.ops.reduce import prod

    cofactors = prod(others, axis=-1) if n else s
    matrix = product(scaled(u, cofactors), vh)
    factor = expand_dims(expand_dims(p.mul(g, conj(turn)), axis=g.ndim), axis=g.ndim + 1)
    return (p.mul(matrix, factor),)


@det.reference
def _(x: Any) -> Any:
    return np.linalg.det(x)


@det.samples
def _(s: Any) -> None:
    s.case(s.f32(3, 3))
    s.case(s.f32(2, 3, 3))
    s.error(ValueError, "square", s.f32(2, 3))


@host_op("linalg.slogdet")
def slogdet(x: Spec) -> Inferred:
    """Sign of the determinant, and logarithm of its absolute value."""
    lead, dtype = matrix_of("slogdet", x)
    return Inferred(((lead, dtype), (lead, dtype.real)))


@slogdet.vjp
def _(grads: Any, outs: Any, ins: Any, attrs: Any, needs: Any) -> Any:
    (gsign, glog), (sign, _), (x,) = grads, outs, ins
    factor = p.cast(glog, dtype=x.dtype)
    if x.dtype.is_complex:
        turn = imag(p.mul(conj(gsign), sign))
        factor = p.sub(factor, p.mul(p.cast(turn, dtype=x.dtype), 1j))
    factor = expand_dims(expand_dims(factor, axis=factor.ndim), axis=factor.ndim + 1)
    return (p.mul(adjoint(inv(x)), factor),)


@slogdet.reference
def _(x: Any) -> Any:
    return tuple(np.linalg.slogdet(x))


@slogdet.samples
def _(s: Any) -> None:
    s.case(s.f32(3, 3))
    s.case(s.f32(2, 3, 3))
