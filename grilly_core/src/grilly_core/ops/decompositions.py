"""Public decompositions of matrices: Cholesky, QR, LU, eigenvalues and singular values."""

from __future__ import annotations

from typing import Any, NamedTuple

from grilly_core import dtypes
from grilly_core.apply import as_tensor
from grilly_core.errors import ShapeError
from grilly_core.ops import linalg_host as host
from grilly_core.ops import linalg_rules as rule
from grilly_core.ops import primitives as p
from grilly_core.ops.arrange import _diag_embed
from grilly_core.ops.creation import _tril, _triu, eye
from grilly_core.ops.math import as_float
from grilly_core.ops.structure import diagonal
from grilly_core.ops.views import expand_dims
from grilly_core.opspec import op
from grilly_core.tensor import Tensor

__all__ = [
    "cholesky", "eig", "eigh", "eigvals", "eigvalsh", "householder_product", "lu", "lu_factor", "lu_unpack", "qr",
    "svd", "svdvals",
]  # fmt: skip


class QR(NamedTuple):
    """Orthonormal and triangular factors."""

    Q: Tensor
    R: Tensor


class Eigen(NamedTuple):
    """Eigenvalues, and eigenvectors as columns."""

    eigenvalues: Tensor
    eigenvectors: Tensor


class SVD(NamedTuple):
    """Left singular vectors as columns, singular values, right singular vectors as rows."""

    U: Tensor
    S: Tensor
    Vh: Tensor


class LU(NamedTuple):
    """Permutation matrix, lower and upper triangular factors."""

    P: Tensor
    L: Tensor
    U: Tensor


class PackedLU(NamedTuple):
    """Both triangular factors in one matrix, and the rows exchanged in turn, counted from 1."""

    LU: Tensor
    pivots: Tensor


def matrix(x: Any) -> Tensor:
    """Return a matrix argument in a type that LAPACK takes; half precision is widened."""
    x = as_float(as_tensor(x))
    result: Tensor = p.cast(x, dtype=dtypes.float32) if x.dtype.itemsize == 2 else x
    return result


def cholesky(x: Any, /, *, upper: bool = False) -> Tensor:
    """Return the triangular factor of positive definite matrices: ``L @ L^H``, or ``U^H @ U`` with `upper`.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.linalg.cholesky([[4.0, 2.0], [2.0, 2.0]]).tolist()
    [[2.0, 0.0], [1.0, 1.0]]
    """
    x = _one_triangle(matrix(x), "U" if upper else "L")
    low = host.cholesky(x)
    result: Tensor = rule.adjoint(low) if upper else low
    return result


@op("one_triangle", internal=True)
def one_triangle(x: Any, *, lower: bool) -> Tensor:
    """The Hermitian matrices that one triangle of `x` determines; the gradient, as PyTorch's, is theirs.

    A gradient of the triangle alone would be just as right, but a step along it would leave the Hermitian matrices.
    """
    half = _tril(x, k=-1) if lower else _triu(x, k=1)
    own = diagonal(x)
    if x.dtype.is_complex:
        own = p.cast(own.real, dtype=x.dtype)
    return p.add(p.add(half, rule.adjoint(half)), _diag_embed(own))


@one_triangle.vjp
def _(grads: Any, outs: Any, ins: Any, attrs: Any, needs: Any) -> Any:
    return (grads[0],)


@one_triangle.samples
def _(s: Any) -> None:
    for lower in (True, False):
        s.case(s.f32(2, 3, 3), lower=lower, grad="surrogate")


def _one_triangle(x: Any, uplo: str) -> Any:
    if x.ndim < 2 or x.shape[-1] != x.shape[-2]:
        return x  # the decomposition says what is wrong
    return one_triangle(x, lower=uplo == "L")


def qr(x: Any, /, *, mode: str = "reduced") -> QR:
    """Return Q with orthonormal columns and upper triangular R, with ``Q @ R`` equal to `x`.

    Parameters
    ----------
    x : array_like
        ``(..., M, N)``.
    mode : {"reduced", "complete", "r"}
        "complete" makes Q square; "r" leaves it out (an empty tensor stands for it).

    Examples
    --------
    >>> import grilly_core as grilly
    >>> q, r = grilly.linalg.qr([[3.0, 1.0], [4.0, 2.0]])
    >>> (q @ r).round(3).tolist()
    [[3.0, 1.0], [4.0, 2.0]]
    """
    if mode not in ("reduced", "complete", "r"):
        raise ValueError(f"qr: mode must be 'reduced', 'complete' or 'r'; received {mode!r}.")
    q, r = host.qr(matrix(x), complete=mode == "complete")
    if mode == "r":
        from grilly_core.ops.creation import zeros

        q = zeros(0, dtype=r.dtype, device=r.device)
    return QR(q, r)


def eigh(x: Any, /, *, UPLO: str = "L") -> Eigen:
    """Return eigenvalues in rising order and eigenvectors (columns) of Hermitian matrices.

    Parameters
    ----------
    x : array_like
        ``(..., N, N)``.
    UPLO : {"L", "U"}
        The triangle that is looked at.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.linalg.eigh([[2.0, 0.0], [0.0, 1.0]]).eigenvalues.tolist()
    [1.0, 2.0]
    """
    if UPLO not in ("L", "U"):
        raise ValueError(f"eigh: UPLO must be 'L' or 'U'; received {UPLO!r}.")
    return Eigen(*host.eigh(_one_triangle(matrix(x), UPLO)))


def eigvalsh(x: Any, /, *, UPLO: str = "L") -> Tensor:
    """Return the eigenvalues of Hermitian matrices in rising order; see `eigh`.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.linalg.eigvalsh([[2.0, 0.0], [0.0, 1.0]]).tolist()
    [1.0, 2.0]
    """
    return eigh(x, UPLO=UPLO).eigenvalues


def eig(x: Any, /) -> Eigen:
    """Return the complex eigenvalues and eigenvectors (columns) of square matrices, in no special order.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.linalg.eig([[0.0, -1.0], [1.0, 0.0]]).eigenvalues.dtype
    grilly.complex64
    """
    return Eigen(*host.eig(matrix(x)))


def eigvals(x: Any, /) -> Tensor:
    """Return the complex eigenvalues of square matrices, in no special order.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.linalg.eigvals([[2.0, 0.0], [0.0, 1.0]]).real.tolist()
    [2.0, 1.0]
    """
    return eig(x).eigenvalues


def svd(x: Any, /, *, full_matrices: bool = True) -> SVD:
    """Return singular vectors and values: ``(U * S) @ Vh`` equals `x`.

    Parameters
    ----------
    x : array_like
        ``(..., M, N)``.
    full_matrices : bool
        Whether U and Vh are square. The vectors without a singular value pass on no gradient.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.linalg.svd([[3.0, 0.0], [0.0, 4.0]]).S.tolist()
    [4.0, 3.0]
    """
    return SVD(*host.svd(matrix(x), full_matrices=bool(full_matrices)))


def svdvals(x: Any, /) -> Tensor:
    """Return the singular values of matrices in falling order.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.linalg.svdvals([[3.0, 0.0], [0.0, 4.0]]).tolist()
    [4.0, 3.0]
    """
    return svd(x, full_matrices=False).S


# -- LU ------------------------------------------------------------------------------------------------------


def lu_factor(x: Any, /) -> PackedLU:
    """Return both factors of an LU decomposition in one matrix, and the rows exchanged in turn.

    Pivots count from 1, as LAPACK's and PyTorch's.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.linalg.lu_factor([[1.0, 2.0], [4.0, 4.0]]).LU.tolist()
    [[4.0, 4.0], [0.25, 1.0]]
    """
    packed, pivots = host.lu(matrix(x))
    return PackedLU(packed, p.add(pivots, 1))


def lu_unpack(packed: Any, pivots: Any, /) -> LU:
    """Return the permutation and the two factors of a packed LU decomposition; ``P @ L @ U`` is the matrix.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.linalg.lu_unpack(*grilly.linalg.lu_factor([[1.0, 2.0], [4.0, 4.0]])).P.tolist()
    [[0.0, 1.0], [1.0, 0.0]]
    """
    packed, pivots = as_tensor(packed), as_tensor(pivots)
    m, n = packed.shape[-2:]
    k = min(m, n)
    if pivots.shape != (*packed.shape[:-2], k):
        raise ShapeError(f"lu_unpack: expected {k} pivots for {packed.shape}; received {pivots.shape}.")
    low = p.add(_tril(packed[..., :k], k=-1), eye(m, k, dtype=packed.dtype, device=packed.device))
    return LU(_permutation_matrix(pivots, m, packed.dtype), low, _triu(packed[..., :k, :]))


def _permutation_matrix(pivots: Any, size: int, dtype: Any) -> Tensor:
    rows = host.permutation(p.sub(pivots, 1), size=size)
    line = p.add(p.iota(size=size, dtype=dtypes.int32), p.mul(expand_dims(rows, axis=rows.ndim - 1), 0))
    hit = p.eq(expand_dims(rows, axis=rows.ndim - 1), _column(line))
    return p.cast(hit, dtype=dtype)


def _column(line: Any) -> Any:
    from grilly_core.ops.structure import swapped

    return swapped(line, line.ndim - 2, line.ndim - 1)


def lu(x: Any, /) -> LU:
    """Return the permutation matrix and the factors of an LU decomposition: ``P @ L @ U`` equals `x`.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> factors = grilly.linalg.lu([[1.0, 2.0], [4.0, 4.0]])
    >>> (factors.P @ factors.L @ factors.U).tolist()
    [[1.0, 2.0], [4.0, 4.0]]
    """
    return lu_unpack(*lu_factor(x))


def householder_product(x: Any, tau: Any, /) -> Tensor:
    """Return the product of Householder reflections, their vectors below the diagonal of `x`, reduced to its shape.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.linalg.householder_product([[1.0], [0.0]], [2.0]).tolist()
    [[-1.0], [0.0]]
    """
    x, tau = matrix(x), matrix(tau)
    m, n = x.shape[-2:]
    if m < n or tau.shape[:-1] != x.shape[:-2] or tau.shape[-1] > n:
        raise ShapeError(
            f"householder_product: expected (..., M, N) with M >= N and at most N factors; received {x.shape} "
            f"and {tau.shape}."
        )
    low = p.add(_tril(x, k=-1), eye(m, n, dtype=x.dtype, device=x.device))
    result: Tensor = p.add(p.mul(x, 0), eye(m, n, dtype=x.dtype, device=x.device))
    for k in reversed(range(tau.shape[-1])):
        v = low[..., :, k : k + 1]
        factor = tau[..., k : k + 1, None]
        result = p.sub(result, p.mul(rule.product(v, rule.adjoint(v), result), factor))
    return result
