"""Solving with matrices: linear systems, inverses, determinants, ranks, norms and powers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from grilly_core import dtypes
from grilly_core.apply import as_tensor
from grilly_core.errors import ShapeError
from grilly_core.layout import broadcast_shapes, normalize_axes, normalize_axis
from grilly_core.ops import linalg_determinants as determinants
from grilly_core.ops import linalg_rules as rule
from grilly_core.ops import linalg_solving as host
from grilly_core.ops import primitives as p
from grilly_core.ops.creation import _tril, _triu, eye
from grilly_core.ops.decompositions import _permutation_matrix, eigvalsh, matrix, svdvals
from grilly_core.ops.linalg import matmul, vector_norm
from grilly_core.ops.linalg import matrix_norm as _plain_norm
from grilly_core.ops.manipulate import moveaxis
from grilly_core.ops.math import as_float
from grilly_core.ops.reduce import max, min, sum
from grilly_core.ops.views import broadcast_to, expand_dims, reshape, squeeze
from grilly_core.tensor import Tensor

__all__ = [
    "cholesky_inverse", "cholesky_solve", "cond", "det", "inv", "logdet", "lstsq", "lu_solve",
    "matrix_norm", "matrix_rank", "norm", "pinv", "slogdet", "solve",
    "solve_triangular", "tensorinv", "tensorsolve",
]  # fmt: skip


class SlogDet(NamedTuple):
    """Sign, and logarithm of the absolute value, of a determinant."""

    sign: Tensor
    logabsdet: Tensor


class LeastSquares(NamedTuple):
    """Solution, sums of squared residuals, rank and singular values of the matrix."""

    solution: Tensor
    residuals: Tensor
    rank: Tensor
    singular_values: Tensor


def _together(a: Any, b: Any) -> tuple[Any, Any]:
    lead = broadcast_shapes(a.shape[:-2], b.shape[:-2])
    return tuple(t if t.shape[:-2] == lead else broadcast_to(t, shape=(*lead, *t.shape[-2:])) for t in (a, b))  # type: ignore[return-value]


def solve(x1: Any, x2: Any, /) -> Tensor:
    """Return X with ``x1 @ X`` equal to `x2`, for square matrices `x1`.

    Parameters
    ----------
    x1 : array_like
        ``(..., N, N)``.
    x2 : array_like
        A vector ``(N,)``, or matrices ``(..., N, K)``.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.linalg.solve([[2.0, 0.0], [0.0, 4.0]], [2.0, 2.0]).tolist()
    [1.0, 0.5]
    """
    a, b = matrix(x1), matrix(x2)
    if b.ndim == 1:
        return squeeze(solve(a, expand_dims(b, axis=1)), axis=(-1,))
    return host.solve(*_together(a, b))  # type: ignore[no-any-return]


def solve_triangular(
    x1: Any, x2: Any, /, *, upper: bool, left: bool = True, unitriangular: bool = False
) -> Tensor:
    """Return X with ``x1 @ X`` (or, without `left`, ``X @ x1``) equal to `x2`, for triangular `x1`.

    Parameters
    ----------
    x1, x2 : array_like
        Matrices; what lies on the other side of the diagonal of `x1` is not looked at.
    upper : bool
        Which triangle `x1` is.
    left : bool
    unitriangular : bool
        Whether the diagonal counts as 1, whatever it holds.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.linalg.solve_triangular([[2.0, 0.0], [1.0, 1.0]], [[2.0], [3.0]], upper=False).tolist()
    [[1.0], [2.0]]
    """
    a, b = matrix(x1), matrix(x2)
    k = int(unitriangular)
    part = _triu(a, k=k) if upper else _tril(a, k=-k)
    if unitriangular:
        part = p.add(part, eye(a.shape[-1], dtype=a.dtype, device=a.device))
    if left:
        return host.solve(*_together(part, b))  # type: ignore[no-any-return]
    return _mirrored(host.solve(*_together(_mirrored(part), _mirrored(b))))  # type: ignore[no-any-return]


def _mirrored(x: Any) -> Any:
    from grilly_core.ops.structure import swapped

    return swapped(x, x.ndim - 2, x.ndim - 1)


def cholesky_solve(b: Any, low: Any, /, *, upper: bool = False) -> Tensor:
    """Return X with ``A @ X`` equal to `b`, given the Cholesky factor of A.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.linalg.cholesky_solve([[4.0]], [[2.0]]).tolist()
    [[1.0]]
    """
    low = matrix(low)
    low = rule.adjoint(_triu(low)) if upper else _tril(low)
    half = solve(low, b)
    return solve(rule.adjoint(low), half)


def cholesky_inverse(low: Any, /, *, upper: bool = False) -> Tensor:
    """Return the inverse of a matrix, given its Cholesky factor.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.linalg.cholesky_inverse([[2.0]]).tolist()
    [[0.25]]
    """
    low = matrix(low)
    one = eye(low.shape[-1], dtype=low.dtype, device=low.device)
    return cholesky_solve(one, low, upper=upper)


def lu_solve(packed: Any, pivots: Any, b: Any, /, *, left: bool = True, adjoint: bool = False) -> Tensor:
    """Return X with ``A @ X`` equal to `b`, given A's packed LU decomposition; see `lu_factor`.

    Parameters
    ----------
    packed, pivots : Tensor
    b : array_like
    left : bool
        Without it, ``X @ A`` equals `b`.
    adjoint : bool
        Solve with the conjugate transpose of A.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> packed, pivots = grilly.linalg.lu_factor([[0.0, 2.0], [4.0, 0.0]])
    >>> grilly.linalg.lu_solve(packed, pivots, [[2.0], [4.0]]).tolist()
    [[1.0], [1.0]]
    """
    packed, b = matrix(packed), matrix(b)
    if not left:
        return rule.adjoint(lu_solve(packed, pivots, rule.adjoint(b), adjoint=not adjoint))  # type: ignore[no-any-return]
    order = _permutation_matrix(as_tensor(pivots), packed.shape[-1], packed.dtype)
    if adjoint:
        half = solve_triangular(rule.adjoint(packed), b, upper=False)
        inner = solve_triangular(rule.adjoint(packed), half, upper=True, unitriangular=True)
        return matmul(order, inner)
    half = solve_triangular(packed, matmul(rule.adjoint(order), b), upper=False, unitriangular=True)
    return solve_triangular(packed, half, upper=True)


def inv(x: Any, /) -> Tensor:
    """Return the inverse of square matrices.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.linalg.inv([[2.0, 0.0], [0.0, 4.0]]).tolist()
    [[0.5, 0.0], [0.0, 0.25]]
    """
    return host.inv(matrix(x))  # type: ignore[no-any-return]


def pinv(x: Any, /, *, rtol: float | None = None, atol: float = 0.0, hermitian: bool = False) -> Tensor:
    """Return the Moore-Penrose inverse of matrices.

    Parameters
    ----------
    x : array_like
        ``(..., M, N)``.
    rtol : float, optional
        Singular values below `rtol` times the largest count as 0; ``max(M, N)`` times the rounding error by
        default, 0 if `atol` is given.
    atol : float
    hermitian : bool
        Whether `x` is Hermitian: then its lower triangle is looked at.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.linalg.pinv([[2.0, 0.0], [0.0, 0.0]]).tolist()
    [[0.5, 0.0], [0.0, 0.0]]
    """
    from grilly_core.ops.decompositions import _one_triangle

    x = matrix(x)
    x = _one_triangle(x, "L") if hermitian else x
    relative, absolute = _cuts(x, rtol, atol)
    return host.pinv(x, rtol=relative, atol=absolute)  # type: ignore[no-any-return]


def _cuts(x: Any, rtol: Any, atol: Any) -> tuple[float, float]:
    from grilly_core.ops.creation import plain_number

    absolute = float(plain_number(atol) if atol is not None else 0.0)
    if rtol is None:
        eps = 2.0**-52 if x.dtype.real is dtypes.float64 else 2.0**-23
        rtol = 0.0 if absolute > 0 else eps * (x.shape[-1] if x.shape[-1] > x.shape[-2] else x.shape[-2])
    return float(plain_number(rtol)), absolute


def matrix_rank(x: Any, /, *, rtol: Any = None, atol: Any = None, hermitian: bool = False) -> Tensor:
    """Return the number of singular values above the cut; see `pinv` for `rtol` and `atol`.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.linalg.matrix_rank([[1.0, 2.0], [2.0, 4.0]]).item()
    1
    """
    x = matrix(x).detach()
    size = p.abs(eigvalsh(x)) if hermitian else svdvals(x)
    if size.shape[-1] == 0:
        return sum(p.cast(size, dtype=dtypes.int32), axis=-1)
    top = max(size, axis=-1, keepdims=True)
    if isinstance(rtol, Tensor) or isinstance(atol, Tensor):
        like = size
        absolute = as_tensor(0.0 if atol is None else atol, like)
        default = _cuts(x, None, None)[0]
        relative = p.where(p.lt(0, absolute), 0.0, default) if rtol is None else as_tensor(rtol, like)
        absolute, relative = (t if t.ndim == 0 else expand_dims(t, axis=t.ndim) for t in (absolute, relative))
        cut = p.maximum(p.mul(top, relative), absolute)
    else:
        low, floor = _cuts(x, rtol, atol)
        cut = p.maximum(p.mul(top, low), floor)
    return sum(p.lt(cut, size), axis=-1)


def det(x: Any, /) -> Tensor:
    """Return the determinant of square matrices.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.linalg.det([[2.0, 0.0], [0.0, 4.0]]).item()
    8.0
    """
    return determinants.det(matrix(x))  # type: ignore[no-any-return]


def slogdet(x: Any, /) -> SlogDet:
    """Return the sign of the determinant and the logarithm of its absolute value.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.linalg.slogdet([[-1.0, 0.0], [0.0, 1.0]]).sign.item()
    -1.0
    """
    return SlogDet(*determinants.slogdet(matrix(x)))


def logdet(x: Any, /) -> Tensor:
    """Return the logarithm of the determinant; NaN if that is negative.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.linalg.logdet([[1.0, 0.0], [0.0, 1.0]]).item()
    0.0
    """
    sign, size = slogdet(x)
    if sign.dtype.is_complex:
        from grilly_core.ops.arithmetic import angle, complex

        return complex(size, angle(sign))
    return p.where(p.lt(sign, 0), math.nan, size)


def lstsq(x1: Any, x2: Any, /, *, rcond: float | None = None) -> LeastSquares:
    """Return the X of least norm that makes the squares of ``x1 @ X - x2`` least.

    Parameters
    ----------
    x1 : array_like
        ``(..., M, N)``.
    x2 : array_like
        ``(..., M, K)``, or ``(M,)``.
    rcond : float, optional
        Singular values below `rcond` times the largest count as 0.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.linalg.lstsq([[1.0], [1.0]], [[1.0], [3.0]]).solution.round(3).tolist()
    [[2.0]]
    """
    a, b = matrix(x1), matrix(x2)
    vector = b.ndim == 1
    b = expand_dims(b, axis=1) if vector else b
    solution = matmul(pinv(a, rtol=rcond), b)
    rest = p.abs(p.sub(matmul(a, solution), b))
    residuals = sum(p.mul(rest, rest), axis=-2)
    found = squeeze(solution, axis=(-1,)) if vector else solution
    return LeastSquares(found, residuals, matrix_rank(a, rtol=rcond), svdvals(a.detach()))


def tensorinv(x: Any, /, *, ind: int = 2) -> Tensor:
    """Return the inverse of `x` seen as a matrix from its last axes to its first `ind`.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.linalg.tensorinv(grilly.eye(4).reshape(2, 2, 4)).shape
    (4, 2, 2)
    """
    x = matrix(x)
    rows, cols = x.shape[:ind], x.shape[ind:]
    if ind < 1 or math.prod(rows) != math.prod(cols):
        raise ShapeError(f"tensorinv: shape {x.shape} cut at {ind} is not square.")
    flat = reshape(x, shape=(math.prod(rows), math.prod(cols)))
    return reshape(inv(flat), shape=(*cols, *rows))


def tensorsolve(x1: Any, x2: Any, /, *, axes: Sequence[int] | None = None) -> Tensor:
    """Return X with ``tensordot(x1, X, X.ndim)`` equal to `x2`; `axes` of `x1` are moved to its end first.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.linalg.tensorsolve(grilly.eye(4).reshape(2, 2, 4), grilly.ones(2, 2)).tolist()
    [1.0, 1.0, 1.0, 1.0]
    """
    a, b = matrix(x1), matrix(x2)
    if axes is not None:
        a = moveaxis(a, tuple(axes), tuple(range(a.ndim - len(axes), a.ndim)))
    shape = a.shape[b.ndim :]
    size = math.prod(b.shape)
    if math.prod(shape) != size:
        raise ShapeError(f"tensorsolve: shapes {a.shape} and {b.shape} make no square system.")
    return reshape(solve(reshape(a, shape=(size, size)), reshape(b, shape=(size,))), shape=shape)


# -- norms ---------------------------------------------------------------------------------------------------


def matrix_norm(
    x: Any, /, *, keepdims: bool = False, ord: Any = "fro", axis: Sequence[int] = (-2, -1)
) -> Tensor:
    """Return the norm of matrices over two axes, the last by default.

    Parameters
    ----------
    x : array_like
    keepdims : bool
    ord : {"fro", "nuc", 1, -1, 2, -2, inf, -inf}
        Frobenius; sum of the singular values; largest or least sum of a column, singular value, sum of a row.
    axis : (int, int)

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.linalg.matrix_norm([[3.0, 0.0], [0.0, 4.0]], ord=2).item()
    4.0
    """
    x = as_float(as_tensor(x))
    if x.ndim < 2 or len(axis) != 2:
        raise ShapeError(
            f"matrix_norm: expected two axes of matrices; received shape {x.shape}, axis={axis!r}."
        )
    a, b = (normalize_axis(i, x.ndim) for i in axis)
    x = moveaxis(x, (a, b), (-2, -1))
    if ord in (2, -2, "nuc"):
        values = svdvals(x)
        found = {2: max, -2: min, "nuc": sum}[ord](values, axis=-1)
    else:
        found = _plain_norm(x, ord=ord)
    if keepdims:
        for i in sorted((a, b)):
            found = expand_dims(found, axis=i)
    return found


def norm(x: Any, /, ord: Any = None, *, axis: Any = None, keepdims: bool = False) -> Tensor:
    """Return the norm of vectors or matrices.

    Parameters
    ----------
    x : array_like
    ord : optional
        Order, see `vector_norm` and `matrix_norm`; the 2-norm of all elements by default.
    axis : int or (int, int), optional
        One axis for vectors, two for matrices; all by default (and then `ord` needs 1 or 2 axes).
    keepdims : bool

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.linalg.norm([3.0, 4.0]).item()
    5.0
    """
    x = as_float(as_tensor(x))
    axes = None if axis is None else (axis,) if isinstance(axis, int) else tuple(axis)
    if ord is None:
        return vector_norm(x, axis=axes, keepdims=keepdims)
    if isinstance(ord, str) or (axes is not None and len(axes) == 2) or (axes is None and x.ndim == 2):
        return matrix_norm(x, ord=ord, axis=axes or (-2, -1), keepdims=keepdims)
    if axes is None and x.ndim > 2:
        raise ShapeError(f"norm: ord={ord!r} needs a vector, a matrix or axis=...; received shape {x.shape}.")
    return vector_norm(x, axis=normalize_axes(axes, x.ndim), keepdims=keepdims, ord=ord)


def cond(x: Any, /, ord: Any = None) -> Tensor:
    """Return the condition number of matrices: the norm times that of the inverse.

    Parameters
    ----------
    x : array_like
    ord : optional
        Order of the norm, see `matrix_norm`; 2 by default, for which matrices need not be square.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.linalg.cond([[2.0, 0.0], [0.0, 1.0]]).item()
    2.0
    """
    x = matrix(x)
    if ord in (None, 2, -2):
        values = svdvals(x)
        ends = values[..., 0], values[..., -1]
        return p.div(*(ends if ord != -2 else ends[::-1]))
    return p.mul(matrix_norm(x, ord=ord), matrix_norm(inv(x), ord=ord))
