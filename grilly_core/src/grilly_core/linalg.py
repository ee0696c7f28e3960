"""Linear algebra: the Array API's extension, and what PyTorch's users expect beside it.

Decompositions are computed by LAPACK on the host; on a device they are a counted transfer.
"""

from __future__ import annotations

from grilly_core.ops.decompositions import (
    cholesky,
    eig,
    eigh,
    eigvals,
    eigvalsh,
    householder_product,
    lu,
    lu_factor,
    lu_unpack,
    qr,
    svd,
    svdvals,
)
from grilly_core.ops.linalg import cross, diagonal, matmul, outer, tensordot, trace, vecdot, vector_norm
from grilly_core.ops.manipulate import matrix_transpose
from grilly_core.ops.matrix_powers import matrix_exp, matrix_power, multi_dot, vander
from grilly_core.ops.solutions import (
    cholesky_inverse,
    cholesky_solve,
    cond,
    det,
    inv,
    logdet,
    lstsq,
    lu_solve,
    matrix_norm,
    matrix_rank,
    norm,
    pinv,
    slogdet,
    solve,
    solve_triangular,
    tensorinv,
    tensorsolve,
)

__all__ = [
    "cholesky", "cholesky_inverse", "cholesky_solve", "cond", "cross", "det", "diagonal", "eig", "eigh", "eigvals",
    "eigvalsh", "householder_product", "inv", "logdet", "lstsq", "lu", "lu_factor", "lu_solve", "lu_unpack", "matmul",
    "matrix_exp", "matrix_norm", "matrix_power", "matrix_rank", "matrix_transpose", "multi_dot", "norm", "outer",
    "pinv", "qr", "slogdet", "solve", "solve_triangular", "svd", "svdvals", "tensordot", "tensorinv", "tensorsolve",
    "trace", "vander", "vecdot", "vector_norm",
]  # fmt: skip
