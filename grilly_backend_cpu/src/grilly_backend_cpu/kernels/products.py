"""Which way a matrix product goes: compiled tiles where they pay, else BLAS through NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from grilly_backend_cpu import jit
from grilly_backend_cpu.fast import gemm

__all__ = ["matrices", "product"]


def product(a: NDArray[Any], b: NDArray[Any], out: NDArray[Any]) -> None:
    """Write ``a @ b`` for two matrices; `out` overlaps neither."""
    if gemm.serves(a, b, out) and jit.available():
        gemm.multiply(a, b, out)
    else:
        np.matmul(a, b, out)


def matrices(a: NDArray[Any], b: NDArray[Any], out: NDArray[Any]) -> None:
    """Write ``a @ b`` where either may be one matrix for all those of `out` ``(n, rows, columns)``."""
    one = (a if a.ndim == 2 else a[0]), (b if b.ndim == 2 else b[0])
    if len(out) and gemm.serves(*one, out[0]) and jit.available():
        for i, target in enumerate(out):
            gemm.multiply(a if a.ndim == 2 else a[i], b if b.ndim == 2 else b[i], target)
    else:
        np.matmul(a, b, out)
