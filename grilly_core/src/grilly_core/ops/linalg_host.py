"""Dense decompositions, computed by LAPACK on the host; on a device they are a counted transfer.

Where a decomposition is of a symmetric or Hermitian matrix, `x` stands for ``(x + x^H) / 2``. Sources of the gradients:
Giles, "Collected matrix derivative results for forward and reverse mode algorithmic differentiation" (2008);
Murray, "Differentiation of the Cholesky decomposition" (2016); Townsend, "Differentiating the singular value
decomposition" (2016); Walter and Lehmann, "Algorithmic differentiation of linear algebra functions" (2010); Golub and
Pereyra, "The differentiation of pseudo-inverses" (1973); Boeddeker et al., "On the computation of complex-valued
gradients with application to statistically optimum beamforming" (2017).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from grilly_core import dtypes
from grilly_core.buffer import Spec
from grilly_core.errors import AutogradError
from grilly_core.ops import primitives as p
from grilly_core.ops.arrange import _diag_embed
from grilly_core.ops.creation import _tril, _triu, eye
from grilly_core.ops.linalg_rules import adjoint, definite, matrix_of, on_diagonal, product, scaled
from grilly_core.ops.linalg_solving import solve
from grilly_core.ops.math import conj, imag, real
from grilly_core.ops.structure import concat, diagonal
from grilly_core.ops.views import expand_dims
from grilly_core.opspec import Inferred, host_op

__all__ = ["cholesky", "eig", "eigh", "lu", "permutation", "qr", "svd"]


# -- triangular and orthogonal factors -----------------------------------------------------------------------


@host_op("linalg.cholesky", saves="outs")
def cholesky(x: Spec) -> Inferred:
    """Lower triangular L with ``L @ L^H`` equal to positive definite matrices."""
    matrix_of("cholesky", x)
    return Inferred(((x.shape, x.dtype),))


@cholesky.vjp
def _(grads: Any, outs: Any, ins: Any, attrs: Any, needs: Any) -> Any:
    (g,), (low,) = grads, outs
    inner = _tril(product(adjoint(low), g))
    inner = p.sub(inner, _diag_embed(p.mul(diagonal(inner), 0.5)))
    inner = p.mul(p.add(inner, adjoint(inner)), 0.5)
    half = solve(adjoint(low), inner)
    return (adjoint(solve(adjoint(low), adjoint(half))),)


@cholesky.reference
def _(x: Any) -> Any:
    return np.linalg.cholesky((x + np.swapaxes(x, -1, -2).conj()) / 2)


@cholesky.samples
def _(s: Any) -> None:
    s.case(definite(s, 1))
    s.case(definite(s, 2))
    s.error(ValueError, "square", s.f32(3, 4))
    s.error(ValueError, "positive definite", s.array(-np.eye(2, dtype="f4")))


@host_op("linalg.qr", saves="outs")
def qr(x: Spec, *, complete: bool = False) -> Inferred:
    """Orthonormal Q and upper triangular R with ``Q @ R`` equal to x; `complete` makes Q square."""
    lead, dtype = matrix_of("qr", x, square=False)
    m, n = x.shape[-2:]
    k = m if complete else min(m, n)
    return Inferred((((*lead, m, k), dtype), ((*lead, k, n), dtype)))


def _tall(q: Any, r: Any, gq: Any, gr: Any) -> Any:
    """Gradient of a QR decomposition with a square R."""
    m = p.sub(product(r, adjoint(gr)), product(adjoint(gq), q))
    lower = _tril(m)
    mirrored = p.add(lower, adjoint(p.sub(lower, _diag_embed(diagonal(lower)))))
    return adjoint(solve(r, adjoint(p.add(gq, product(q, mirrored)))))


@qr.vjp
def _(grads: Any, outs: Any, ins: Any, attrs: Any, needs: Any) -> Any:
    (gq, gr), (q, r) = grads, outs
    m, n = q.shape[-2], r.shape[-1]
    if attrs["complete"] and m > n:
        raise AutogradError("qr: mode='complete' has no gradient for tall matrices; use mode='reduced'.")
    if m >= n:
        return (_tall(q, r, gq, gr),)
    left, gleft, gright = r[..., :m], gr[..., :m], gr[..., m:]
    gq = p.add(gq, product(product(q, r[..., m:]), adjoint(gright)))
    return (concat([_tall(q, left, gq, gleft), product(q, gright)], axis=r.ndim - 1),)


@qr.reference
def _(x: Any, *, complete: Any) -> Any:
    return tuple(np.linalg.qr(x, "complete" if complete else "reduced"))


@qr.samples
def _(s: Any) -> None:
    s.case(s.f32(4, 3))
    s.case(s.f32(3, 5))
    s.case(s.f32(2, 3, 3), complete=True)


@host_op("linalg.lu", nondiff_outputs={1}, saves="outs")
def lu(x: Spec) -> Inferred:
    """L below and U on and above the diagonal, in one matrix, and the rows exchanged in turn (counted from 0)."""
    lead, dtype = matrix_of("lu", x, square=False)
    return Inferred(((x.shape, dtype), ((*lead, min(x.shape[-2:])), dtypes.int32)))


@lu.vjp
def _(grads: Any, outs: Any, ins: Any, attrs: Any, needs: Any) -> Any:
    (g, _), (packed, pivots) = grads, outs
    n = packed.shape[-1]
    if packed.shape[-2] != n:
        raise AutogradError(f"lu: only square matrices have a gradient; received shape {packed.shape}.")
    one = eye(n, dtype=packed.dtype, device=packed.device)
    low, up = p.add(_tril(packed, k=-1), one), _triu(packed)
    inner = p.add(_tril(product(adjoint(low), _tril(g, k=-1)), k=-1), _triu(product(_triu(g), adjoint(up))))
    half = adjoint(solve(up, adjoint(inner)))
    turned = solve(adjoint(low), half)
    rows = permutation(pivots, size=n)
    from grilly_core.ops.index import take_along_axis

    order = p.sort(rows, axis=rows.ndim - 1)[1]
    return (take_along_axis(turned, expand_dims(order, axis=order.ndim), axis=-2),)


@lu.reference
def _(x: Any) -> Any:
    x = np.array(x)
    m, n = x.shape[-2:]
    pivots = np.zeros((*x.shape[:-2], min(m, n)), np.int32)
    for at in np.ndindex(x.shape[:-2]):
        a = x[at]
        for k in range(min(m, n)):
            best = k + int(np.argmax(np.abs(a[k:, k])))
            pivots[(*at, k)] = best
            a[[k, best]] = a[[best, k]]
            if a[k, k] != 0:
                a[k + 1 :, k] /= a[k, k]
                a[k + 1 :, k + 1 :] -= np.outer(a[k + 1 :, k], a[k, k + 1 :])
    return x, pivots


@lu.samples
def _(s: Any) -> None:
    s.case(s.f32(4, 4))
    s.case(s.f32(2, 3, 3))
    s.case(s.f32(3, 4), grad="none")


@host_op("linalg.permutation", nondiff=True)
def permutation(x: Spec, *, size: int) -> Inferred:
    """Order of `size` rows after exchanging row k with row ``x[k]``, for each k in turn."""
    return Inferred((((*x.shape[:-1], size), dtypes.int32),))


@permutation.reference
def _(x: Any, *, size: Any) -> Any:
    rows = np.broadcast_to(np.arange(size, dtype=np.int32), (*x.shape[:-1], size)).copy()
    for at in np.ndindex(x.shape[:-1]):
        for k, j in enumerate(x[at]):
            rows[at][[k, j]] = rows[at][[j, k]]
    return rows


@permutation.samples
def _(s: Any) -> None:
    s.case(s.array(np.array([[2, 1, 2], [1, 1, 2]], "i4")), size=3)


# -- spectra -------------------------------------------------------------------------------------------------


@host_op("linalg.eigh", saves="outs")
def eigh(x: Spec) -> Inferred:
    """Eigenvalues in rising order and orthonormal eigenvectors (columns) of Hermitian matrices."""
    lead, dtype = matrix_of("eigh", x)
    return Inferred((((*lead, x.shape[-1]), dtype.real), (x.shape, dtype)))


def _gaps(values: Any) -> Any:
    """``values[j] - values[i]`` at (i, j)."""
    return p.sub(expand_dims(values, axis=values.ndim - 1), expand_dims(values, axis=values.ndim))


def _over(numerator: Any, gap: Any) -> Any:
    """A quotient that is 0 where nothing is divided: equal values matter only to vectors somebody uses."""
    nothing = p.bitwise_or(p.eq(numerator, 0), on_diagonal(numerator))
    safe = p.where(nothing, 1.0, gap)
    return p.where(nothing, 0.0, p.div(numerator, p.cast(safe, dtype=numerator.dtype)))


@eigh.vjp
def _(grads: Any, outs: Any, ins: Any, attrs: Any, needs: Any) -> Any:
    (gw, gv), (w, v) = grads, outs
    inner = _over(product(adjoint(v), gv), _gaps(w))
    inner = p.add(inner, p.cast(_diag_embed(gw), dtype=inner.dtype))
    g = product(v, inner, adjoint(v))
    return (p.mul(p.add(g, adjoint(g)), 0.5),)


@eigh.reference
def _(x: Any) -> Any:
    return tuple(np.linalg.eigh((x + np.swapaxes(x, -1, -2).conj()) / 2))


@eigh.samples
def _(s: Any) -> None:
    s.case(definite(s, 1))
    s.case(definite(s, 2))
    s.error(ValueError, "square", s.f32(2, 3))


@host_op("linalg.eig", saves="outs")
def eig(x: Spec) -> Inferred:
    """Complex eigenvalues and eigenvectors (columns of norm 1) of square matrices."""
    lead, dtype = matrix_of("eig", x)
    wide = dtypes.complex128 if dtype.real is dtypes.float64 else dtypes.complex64
    return Inferred((((*lead, x.shape[-1]), wide), (x.shape, wide)))


@eig.vjp
def _(grads: Any, outs: Any, ins: Any, attrs: Any, needs: Any) -> Any:
    (gw, gv), (w, v) = grads, outs
    vh = adjoint(v)
    inner = product(vh, gv)
    own = p.cast(real(diagonal(inner)), dtype=inner.dtype)  # a column's norm is fixed
    inner = p.sub(inner, p.mul(product(vh, v), expand_dims(own, axis=own.ndim - 1)))
    inner = p.add(_over(inner, conj(_gaps(w))), _diag_embed(gw))
    g = product(solve(vh, inner), vh)
    return (real(g) if not ins[0].dtype.is_complex else g,)


@eig.reference
def _(x: Any) -> Any:
    return tuple(np.linalg.eig(x))


@eig.samples
def _(s: Any) -> None:
    s.case(s.array(np.array([[1.0, 2.0], [0.5, 3.0]], "f4")), grad="none")


@host_op("linalg.svd", saves="outs")
def svd(x: Spec, *, full_matrices: bool = True) -> Inferred:
    """Singular vectors U (columns), singular values in falling order, and V^H (rows)."""
    lead, dtype = matrix_of("svd", x, square=False)
    m, n = x.shape[-2:]
    k = min(m, n)
    u, v = ((m, m), (n, n)) if full_matrices else ((m, k), (k, n))
    return Inferred((((*lead, *u), dtype), ((*lead, k), dtype.real), ((*lead, *v), dtype)))


@svd.vjp
def _(grads: Any, outs: Any, ins: Any, attrs: Any, needs: Any) -> Any:
    (gu, gs, gvh), (u, s, vh) = grads, outs
    m, n, k = u.shape[-2], vh.shape[-1], s.shape[-1]
    u, gu, vh, gvh = (
        u[..., :k],
        gu[..., :k],
        vh[..., :k, :],
        gvh[..., :k, :],
    )  # vectors of no value: no gradient
    squares = p.mul(s, s)
    ugu, vgv = product(adjoint(u), gu), product(vh, adjoint(gvh))
    inner = scaled(_over(p.sub(ugu, adjoint(ugu)), _gaps(squares)), s)
    right = _over(p.sub(vgv, adjoint(vgv)), _gaps(squares))
    column = p.cast(expand_dims(s, axis=s.ndim), dtype=u.dtype)
    inner = p.add(p.add(inner, p.mul(right, column)), p.cast(_diag_embed(gs), dtype=u.dtype))
    if u.dtype.is_complex:
        turn = p.div(imag(diagonal(ugu)), s)
        inner = p.add(inner, p.mul(_diag_embed(p.cast(turn, dtype=u.dtype)), 1j))
    total = product(u, inner, vh)
    inverse = p.div(1.0, s)
    if m > k:
        total = p.add(total, product(scaled(p.sub(gu, product(u, ugu)), inverse), vh))
    if n > k:
        rest = p.sub(gvh, product(adjoint(vgv), vh))
        total = p.add(total, product(scaled(u, inverse), rest))
    return (total,)


@svd.reference
def _(x: Any, *, full_matrices: Any) -> Any:
    return tuple(np.linalg.svd(x, full_matrices))


@svd.samples
def _(s: Any) -> None:
    s.case(s.f32(3, 3), full_matrices=False)
    s.case(s.f32(4, 3), full_matrices=False)
    s.case(s.f32(2, 3, 4), full_matrices=False)
    s.case(s.f32(3, 3))
