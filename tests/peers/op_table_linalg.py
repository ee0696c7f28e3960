"""Which function of grilly answers which name of ``torch.linalg`` and ``torch.fft``."""

# ruff: noqa: E501 - a table reads best with one entry a line

from __future__ import annotations

from typing import Any

import numpy as np
from tests.peers.op_samples import Entry

import grilly

L: Any = grilly.linalg
FFT: Any = grilly.fft


def spectral(arrays: Any) -> list[Any]:
    """Singular values, and the matrix that the factors give back; the signs of the vectors are free."""
    u, s, vh = arrays
    k = s.shape[-1]
    return [s, np.matmul(u[..., :k] * s[..., None, :], vh[..., :k, :])]


def torch_svd(x: Any, some: bool = True, compute_uv: bool = True) -> Any:
    """``torch.svd`` gives V in place of its adjoint."""
    u, s, vh = L.svd(x, full_matrices=not some)
    return u, s, vh.mH


def torch_spectral(arrays: Any) -> list[Any]:
    """As `spectral`, for `torch_svd`."""
    u, s, v = arrays
    return spectral([u, s, np.swapaxes(v, -1, -2).conj()])


def eigen(arrays: Any) -> list[Any]:
    """Eigenvalues, and the matrix that they and orthonormal vectors give back."""
    w, v = arrays
    return [w, np.matmul(v * w[..., None, :], np.swapaxes(v, -1, -2).conj())]


def general_eigen(arrays: Any) -> list[Any]:
    """Eigenvalues in a fixed order, and the matrix that they and the vectors give back."""
    w, v = arrays
    back = np.matmul(v * w[..., None, :], np.linalg.pinv(v)) if w.size else v
    return [ordered([w])[0], back]


def ordered(arrays: Any) -> list[Any]:
    """Complex eigenvalues in a fixed order."""
    (w,) = arrays
    return [np.take_along_axis(w, np.lexsort((w.imag.round(3), w.real.round(3))), -1)] if w.size else [w]


def factors(arrays: Any) -> list[Any]:
    """R without the sign of its rows, and the product."""
    q, r = arrays
    return [np.abs(r), np.matmul(q, r) if q.size else np.abs(r)]


def axes(f: Any) -> Any:
    """A transform with PyTorch's arguments."""
    return lambda x, *a, **k: f(x, *a, **k)


def pseudo_inverse(
    x: Any, rcond: Any = None, atol: Any = None, rtol: Any = None, hermitian: bool = False
) -> Any:
    """``torch.linalg.pinv``; one variant of the samples gives the two factors of a singular matrix."""
    if isinstance(rcond, grilly.Tensor) and rcond.ndim > 1:
        return L.pinv(x @ rcond.mT)
    return L.pinv(x, rtol=rcond if rtol is None else rtol, atol=atol or 0.0, hermitian=hermitian)


EMPTY = ((lambda x, a, k: x.numel() == 0, "norms of matrices without elements"),)
PACKED = {
    "lu_factor": lambda x, pivot=True: L.lu_factor(x),
    "lu_factor_ex": lambda x, pivot=True, check_errors=False: (
        *L.lu_factor(x),
        grilly.zeros(x.shape[:-2], dtype=grilly.int32),
    ),
}
NO_PIVOT = (
    (
        lambda x, a, k: k.get("pivot", a[0] if a and isinstance(a[0], bool) else True) is False,
        "elimination without pivoting is unstable and not offered",
    ),
)

LINALG = {
    "linalg.cross": Entry(lambda x, y, dim=-1: L.cross(x, y, axis=dim)),
    "linalg.det": Entry(lambda x: L.det(x), tol=1e-4),
    "linalg.diagonal": Entry(lambda x, offset=0, dim1=-2, dim2=-1: x.diagonal(offset, dim1, dim2)),
    "linalg.vecdot": Entry(lambda x, y, dim=-1: L.vecdot(x, y, axis=dim)),
    "linalg.cholesky": Entry(lambda x, upper=False: L.cholesky(x, upper=upper), tol=1e-4),
    "cholesky": Entry(lambda x, upper=False: L.cholesky(x, upper=upper), tol=1e-4),
    "cholesky_inverse": Entry(lambda x, upper=False: L.cholesky_inverse(x, upper=upper), tol=1e-3),
    "cholesky_solve": Entry(lambda b, low, upper=False: L.cholesky_solve(b, low, upper=upper), tol=1e-3),
    "linalg.cond": Entry(lambda x, p=None: L.cond(x, p), tol=1e-3),
    "linalg.eig": Entry(lambda x: L.eig(x), known_as=general_eigen, tol=1e-3),
    "linalg.eigvals": Entry(lambda x: L.eigvals(x), known_as=ordered, tol=1e-3),
    "linalg.eigh": Entry(lambda x, UPLO="L": L.eigh(x, UPLO=UPLO), known_as=eigen, tol=1e-4),
    "linalg.eigvalsh": Entry(lambda x, UPLO="L": L.eigvalsh(x, UPLO=UPLO), tol=1e-4),
    "linalg.householder_product": Entry(lambda x, tau: L.householder_product(x, tau), tol=1e-4),
    "linalg.matrix_power": Entry(lambda x, n: L.matrix_power(x, n), tol=1e-3),
    "linalg.multi_dot": Entry(lambda ts: L.multi_dot(ts), tol=1e-4),
    "linalg.norm": Entry(lambda x, ord=None, dim=None, keepdim=False, dtype=None: L.norm(x if dtype is None else x.to(dtype), ord, axis=dim, keepdims=keepdim), tol=1e-4, reviewed=EMPTY),
    "linalg.matrix_norm": Entry(lambda x, ord="fro", dim=(-2, -1), keepdim=False, dtype=None: L.matrix_norm(x, ord=ord, axis=dim, keepdims=keepdim), tol=1e-4),
    "linalg.vector_norm": Entry(lambda x, ord=2, dim=None, keepdim=False, dtype=None: L.vector_norm(x if dtype is None else x.to(dtype), ord=ord, axis=dim, keepdims=keepdim), tol=1e-4),
    "linalg.qr": Entry(lambda x, mode="reduced": L.qr(x, mode=mode), known_as=factors, tol=1e-4),
    "qr": Entry(lambda x, some=True: L.qr(x, mode="reduced" if some else "complete"), known_as=factors, tol=1e-4),
    "linalg.slogdet": Entry(lambda x: L.slogdet(x), tol=1e-4),
    "logdet": Entry(lambda x: L.logdet(x), tol=1e-4),
    "linalg.vander": Entry(lambda x, N=None: L.vander(x, N=N), tol=1e-4, reviewed=((lambda x, a, k: x.ndim == 0, "powers of a 0-d tensor"),)),
    **{f"linalg.{n}": Entry(f, tol=1e-4, reviewed=NO_PIVOT) for n, f in PACKED.items()},
    "linalg.lu": Entry(lambda x, pivot=True: L.lu(x), tol=1e-4, reviewed=NO_PIVOT),
    "linalg.lu_solve": Entry(lambda x, pivots, b, left=True, adjoint=False: L.lu_solve(x, pivots, b, left=left, adjoint=adjoint), tol=1e-3),
    "lu_solve": Entry(lambda b, x, pivots: L.lu_solve(x, pivots, b), tol=1e-3),
    "lu_unpack": Entry(lambda x, pivots, unpack_data=True, unpack_pivots=True: L.lu_unpack(x, pivots), tol=1e-4, reviewed=((lambda x, a, k: False in k.values(), "parts left out"),)),
    "linalg.inv": Entry(lambda x: L.inv(x), tol=1e-3),
    "linalg.solve": Entry(lambda a, b, left=True: L.solve(a, b) if left else L.solve(a.mT, b.mT).mT, tol=1e-3, reviewed=((lambda a, b, k: b[0].ndim > 1 and b[0].shape == a.shape[:-1] and a.ndim > 2, "batches of vectors; the Array API takes one vector or matrices"),)),
    "linalg.solve_triangular": Entry(lambda a, b, upper, left=True, unitriangular=False: L.solve_triangular(a, b, upper=upper, left=left, unitriangular=unitriangular), tol=1e-3),
    "triangular_solve": Entry(lambda b, a, upper=True, transpose=False, unitriangular=False: (L.solve_triangular(a.mT if transpose else a, b, upper=upper != transpose, unitriangular=unitriangular), a), tol=1e-3),
    "linalg.matrix_rank": Entry(lambda x, tol=None, atol=None, rtol=None, hermitian=False: L.matrix_rank(x, atol=tol if atol is None else atol, rtol=rtol, hermitian=hermitian)),
    "linalg.pinv": Entry(pseudo_inverse, tol=1e-3),
    "pinverse": Entry(lambda x, rcond=1e-15: L.pinv(x, rtol=rcond), tol=1e-3),
    "linalg.svd": Entry(lambda x, full_matrices=True: L.svd(x, full_matrices=full_matrices), known_as=spectral, tol=1e-4),
    "svd": Entry(torch_svd, known_as=torch_spectral, tol=1e-4),
    "linalg.svdvals": Entry(lambda x: L.svdvals(x), tol=1e-4),
    "linalg.tensorinv": Entry(lambda x, ind=2: L.tensorinv(x, ind=ind), tol=1e-3),
    "linalg.tensorsolve": Entry(lambda a, b, dims=None: L.tensorsolve(a, b, axes=dims), tol=1e-3),
    "linalg.lstsq": Entry(lambda a, b, rcond=None, driver=None: L.lstsq(a, b, rcond=rcond), known_as=lambda r: r[:1], tol=1e-3),
    "lu": Entry(lambda x, pivot=True, get_infos=False: (*L.lu_factor(x), *((grilly.zeros(x.shape[:-2], dtype=grilly.int32),) if get_infos else ())), tol=1e-4),
    "matrix_exp": Entry(lambda x: L.matrix_exp(x), tol=1e-3),
}  # fmt: skip

TRANSFORM_NAMES = """
    fft fft2 fftn hfft hfft2 hfftn rfft rfft2 rfftn ifft ifft2 ifftn ihfft ihfft2 ihfftn irfft irfft2 irfftn fftshift ifftshift
"""
TRANSFORMS = {
    f"fft.{n}": Entry(lambda x, *a, _n=n, **k: getattr(FFT, _n)(x, *a, **k), tol=1e-4)
    for n in TRANSFORM_NAMES.split()
}

ENTRIES = {**LINALG, **TRANSFORMS}
