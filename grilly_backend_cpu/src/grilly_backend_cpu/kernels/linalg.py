"""Dense decompositions by LAPACK, as NumPy brings it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from grilly_backend_cpu.kernels.support import COMPLEX, INTEGERS, WIDE
from grilly_backend_cpu.quiet import quietly

__all__ = ["register"]

Kernel = Callable[..., None]


def _adjoint(x: Any) -> Any:
    return np.swapaxes(x, -1, -2).conj()


def _symmetric(x: Any) -> Any:
    return (x + _adjoint(x)) * x.real.dtype.type(0.5)


def _kernel(name: str, compute: Callable[..., Any]) -> Kernel:
    """A kernel of a NumPy function; LAPACK's complaints say which op they are about."""

    @quietly
    def run(stream: Any, outs: Any, ins: Any, attrs: dict[str, Any]) -> None:
        try:
            found = compute(*(v.array for v in ins), **attrs)
        except np.linalg.LinAlgError as error:
            raise ValueError(f"{name}: {_REASONS.get(str(error), str(error))}") from error
        for out, value in zip(outs, found if isinstance(found, tuple) else (found,), strict=True):
            out.array[...] = value

    return run


_REASONS = {
    "Singular matrix": "a matrix is singular; use pinv or lstsq.",
    "Matrix is not positive definite": "a matrix is not positive definite.",
}


def _pinv(x: Any, *, rtol: float, atol: float) -> Any:
    u, s, vh = np.linalg.svd(x, full_matrices=False)
    cut = np.maximum(rtol * s.max(-1, keepdims=True, initial=0), atol)
    inverse = np.divide(1, s, where=s > cut, out=np.zeros_like(s))
    return np.matmul(_adjoint(vh) * inverse[..., None, :], _adjoint(u))


def _lu(x: Any) -> tuple[Any, Any]:
    """Gaussian elimination with the largest pivot of each column, all matrices of a batch in step."""
    m, n = x.shape[-2:]
    a = x.reshape(-1, m, n).copy()
    batch = np.arange(len(a))
    pivots = np.empty((len(a), min(m, n)), np.int32)
    for k in range(min(m, n)):
        best = k + np.argmax(np.abs(a[:, k:, k]), axis=1)
        pivots[:, k] = best
        a[batch, k], a[batch, best] = a[batch, best], a[batch, k].copy()
        pivot = a[:, k, k, None]
        a[:, k + 1 :, k] /= np.where(pivot == 0, 1, pivot)
        a[:, k + 1 :, k + 1 :] -= a[:, k + 1 :, k, None] * a[:, k, None, k + 1 :]
    return a.reshape(x.shape), pivots.reshape(*x.shape[:-2], min(m, n))


def _permutation(x: Any, *, size: int) -> Any:
    exchanges = x.reshape(-1, x.shape[-1])
    rows = np.tile(np.arange(size, dtype=np.int32), (len(exchanges), 1))
    batch = np.arange(len(rows))
    for k in range(exchanges.shape[1]):
        j = exchanges[:, k]
        rows[batch, k], rows[batch, j] = rows[batch, j], rows[batch, k].copy()
    return rows.reshape(*x.shape[:-1], size)


def register(kernels: Any, runtime: Any) -> None:
    """Declare the kernels of this module."""
    computed: dict[str, Callable[..., Any]] = {
        "cholesky": lambda x: np.linalg.cholesky(_symmetric(x)),
        "det": np.linalg.det,
        "eig": lambda x: tuple(np.linalg.eig(x)),
        "eigh": lambda x: tuple(np.linalg.eigh(_symmetric(x))),
        "inv": np.linalg.inv,
        "lu": _lu,
        "pinv": _pinv,
        "qr": lambda x, *, complete: tuple(np.linalg.qr(x, "complete" if complete else "reduced")),
        "slogdet": lambda x: tuple(np.linalg.slogdet(x)),
        "solve": np.linalg.solve,
        "svd": lambda x, *, full_matrices: tuple(np.linalg.svd(x, full_matrices)),
    }
    for name, compute in computed.items():
        kernels.add(f"linalg.{name}", _kernel(name, compute), dtypes=WIDE | COMPLEX)
    kernels.add("linalg.permutation", _kernel("permutation", _permutation), dtypes=INTEGERS)
