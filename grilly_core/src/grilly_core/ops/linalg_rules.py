"""What the decompositions and the solutions of linear algebra share: products, checks and samples."""

from __future__ import annotations

from typing import Any

import numpy as np

from grilly_core import dtypes
from grilly_core.buffer import Spec
from grilly_core.errors import DTypeError, ShapeError
from grilly_core.ops import primitives as p
from grilly_core.ops.creation import eye
from grilly_core.ops.linalg import matmul_any
from grilly_core.ops.math import conj
from grilly_core.ops.structure import swapped
from grilly_core.ops.views import expand_dims

__all__ = ["adjoint", "definite", "matrix_of", "on_diagonal", "product", "scaled"]


def adjoint(x: Any) -> Any:
    """Conjugate transpose of matrices."""
    return conj(swapped(x, x.ndim - 2, x.ndim - 1))


def product(*parts: Any) -> Any:
    """Matrix product of several."""
    result = parts[0]
    for part in parts[1:]:
        result = matmul_any(result, part)
    return result


def scaled(x: Any, s: Any) -> Any:
    """``x @ diag(s)``."""
    return p.mul(x, p.cast(expand_dims(s, axis=s.ndim - 1), dtype=x.dtype))


def matrix_of(name: str, x: Spec, square: bool = True) -> tuple[tuple[int, ...], Any]:
    """Return the leading axes and the dtype of matrices that LAPACK takes."""
    if x.dtype.kind not in "fc" or x.dtype.itemsize == 2:
        raise DTypeError(
            f"{name}: expected float32, float64 or a complex type; received {x.dtype.name}. Cast with .to(...)."
        )
    if x.ndim < 2 or (square and x.shape[-1] != x.shape[-2]):
        kind = "square matrices" if square else "matrices"
        raise ShapeError(
            f"{name}: expected {kind} (..., {'N, N' if square else 'M, N'}); received shape {x.shape}."
        )
    return x.shape[:-2], x.dtype


def definite(s: Any, *lead: int) -> Any:
    """Return samples of positive definite matrices."""
    x = s.f32(*lead, 3, 3)
    return s.array((x @ np.swapaxes(x, -1, -2) + 2 * np.eye(3)).astype(np.float32))


def on_diagonal(x: Any) -> Any:
    """Return the mask of the diagonal of square matrices."""
    return p.cast(eye(x.shape[-1], device=x.device), dtype=dtypes.bool_)
