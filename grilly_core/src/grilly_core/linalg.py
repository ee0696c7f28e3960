"""Linear algebra: the products and norms of the Array API's extension."""

from __future__ import annotations

from grilly_core.ops.linalg import (
    cross,
    diagonal,
    matmul,
    matrix_norm,
    outer,
    tensordot,
    trace,
    vecdot,
    vector_norm,
)
from grilly_core.ops.manipulate import matrix_transpose

__all__ = [
    "cross", "diagonal", "matmul", "matrix_norm", "matrix_transpose", "outer", "tensordot", "trace", "vecdot",
    "vector_norm",
]  # fmt: skip
