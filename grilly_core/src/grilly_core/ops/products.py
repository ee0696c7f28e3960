"""Products joined with sums (`addmm` and its family), products of all pairs, and distances."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np

from grilly_core import dtypes
from grilly_core.apply import as_tensor
from grilly_core.errors import ShapeError
from grilly_core.ops import primitives as p
from grilly_core.ops.linalg import matmul_any, outer, vector_norm
from grilly_core.ops.reduce import norm
from grilly_core.ops.structure import assemble
from grilly_core.ops.views import broadcast_to, expand_dims, reshape
from grilly_core.opspec import op
from grilly_core.tensor import Tensor

__all__ = [
    "addbmm", "addmm", "addmv", "addr", "baddbmm", "block_diag", "cartesian_prod", "cdist", "combinations", "dist",
    "inner", "kron", "pdist",
]  # fmt: skip


def _added(x: Any, product: Any, beta: Any, alpha: Any) -> Tensor:
    """``beta * x + alpha * product``; with ``beta=0`` what is in `x` does not matter."""
    if alpha != 1:
        product = p.mul(product, alpha)
    x = as_tensor(x, product)
    if beta == 0:
        return product if x.shape == product.shape else broadcast_to(product, shape=product.shape)
    return p.add(x if beta == 1 else p.mul(x, beta), product)


def _operands(name: str, a: Any, b: Any, dims: tuple[int, int]) -> tuple[Tensor, Tensor]:
    a, b = as_tensor(a), as_tensor(b)
    if (a.ndim, b.ndim) != dims:
        raise ShapeError(
            f"{name}: expected operands of {dims[0]} and {dims[1]} dimensions; received {a.shape} and {b.shape}."
        )
    return a, b


def addmm(x: Any, a: Any, b: Any, /, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """Return ``beta * x + alpha * (a @ b)`` of matrices.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.addmm([[1.0]], [[2.0, 3.0]], [[1.0], [1.0]]).tolist()
    [[6.0]]
    """
    return _added(x, matmul_any(*_operands("addmm", a, b, (2, 2))), beta, alpha)


def addmv(x: Any, a: Any, b: Any, /, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """Return ``beta * x + alpha * (a @ b)`` of a matrix and a vector; see `addmm`."""
    return _added(x, matmul_any(*_operands("addmv", a, b, (2, 1))), beta, alpha)


def addr(x: Any, a: Any, b: Any, /, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """Return ``beta * x + alpha * outer(a, b)``; see `addmm`."""
    return _added(x, outer(*_operands("addr", a, b, (1, 1))), beta, alpha)


def baddbmm(x: Any, a: Any, b: Any, /, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """Return ``beta * x + alpha * (a @ b)`` of batches of matrices; see `addmm`."""
    return _added(x, matmul_any(*_operands("baddbmm", a, b, (3, 3))), beta, alpha)


def addbmm(x: Any, a: Any, b: Any, /, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """Return ``beta * x + alpha * (a @ b)``, summed over the batch; see `addmm`."""
    return _added(x, p.sum(matmul_any(*_operands("addbmm", a, b, (3, 3))), axis=0), beta, alpha)


def inner(x1: Any, x2: Any, /) -> Tensor:
    """Return the sum of products over the last axes of both.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.inner([1.0, 2.0], [3.0, 4.0]).item()
    11.0
    """
    from grilly_core.ops.linalg import tensordot

    x1, x2 = as_tensor(x1), as_tensor(x2)
    if x1.ndim == 0 or x2.ndim == 0:
        return p.mul(x1, x2)
    return tensordot(x1, x2, axes=((-1,), (-1,)))


@op("kron")
def _kron(x: Any, y: Any) -> Tensor:
    """Kronecker product of tensors with the same number of axes: blocks of `y`, each times one element of `x`."""
    n = x.ndim
    a = reshape(x, shape=tuple(k for m in x.shape for k in (m, 1)))
    b = reshape(y, shape=tuple(k for m in y.shape for k in (1, m)))
    return reshape(p.mul(a, b), shape=tuple(x.shape[i] * y.shape[i] for i in range(n)))


@_kron.reference
def _(x: Any, y: Any) -> Any:
    return np.kron(x, y)


@_kron.samples
def _(s: Any) -> None:
    s.case(s.f32(2, 3), s.f32(3, 2))
    s.case(s.f32(4), s.f32(3))


def kron(x1: Any, x2: Any, /) -> Tensor:
    """Return the Kronecker product: blocks of `x2`, each times one element of `x1`.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.kron([1, 10], [1, 2]).tolist()
    [1, 2, 10, 20]
    """
    x1, x2 = as_tensor(x1), as_tensor(x2)
    n = max(x1.ndim, x2.ndim)
    return _kron(*(reshape(t, shape=(1,) * (n - t.ndim) + t.shape) for t in (x1, x2)))


def block_diag(*tensors: Any) -> Tensor:
    """Return a matrix with the given ones along its diagonal; vectors count as rows, numbers as 1 × 1.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.block_diag([[1, 2]], [[3]]).tolist()
    [[1, 2, 0], [0, 0, 3]]
    """
    parts = [as_tensor(t) for t in tensors] or [as_tensor(np.zeros((1, 0), np.float32))]
    if any(t.ndim > 2 for t in parts):
        raise ShapeError("block_diag: expected at most 2 dimensions in each tensor.")
    parts = [t if t.ndim == 2 else reshape(t, shape=(1, -1 if t.ndim else 1)) for t in parts]
    dtype = parts[0].dtype
    for t in parts[1:]:
        dtype = dtypes.promote(dtype, t.dtype)
    parts = [p.cast(t, dtype=dtype) for t in parts]
    rows = [0, *itertools.accumulate(t.shape[0] for t in parts)]
    cols = [0, *itertools.accumulate(t.shape[1] for t in parts)]
    places = tuple(((r, c), (1, 1)) for r, c in zip(rows[:-1], cols[:-1], strict=True))
    return assemble(parts, shape=(rows[-1], cols[-1]), places=places, fill=0)


def cartesian_prod(*tensors: Any) -> Tensor:
    """Return all tuples with one element of each 1-D tensor, a row for each.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.cartesian_prod([1, 2], [3, 4]).tolist()
    [[1, 3], [1, 4], [2, 3], [2, 4]]
    """
    from grilly_core.ops.creation import meshgrid
    from grilly_core.ops.manipulate import stack

    parts = [as_tensor(t) for t in tensors]
    if len(parts) == 1:
        return parts[0]
    return stack([reshape(t, shape=(-1,)) for t in meshgrid(*parts, indexing="ij")], axis=1)


def combinations(x: Any, /, r: int = 2, *, with_replacement: bool = False) -> Tensor:
    """Return all choices of `r` elements of a 1-D tensor, a row for each, in the order of `itertools`.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.combinations([1, 2, 3]).tolist()
    [[1, 2], [1, 3], [2, 3]]
    """
    x = as_tensor(x)
    if x.ndim != 1:
        raise ShapeError(f"combinations: expected a 1-D tensor; received shape {x.shape}.")
    choose = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    index = np.array(list(choose(range(x.shape[0]), r)), np.int32).reshape(-1, r)
    if r == 0:  # one empty choice, of which PyTorch makes none
        index = np.zeros((0,), np.int32)
    picked = p.gather(x, as_tensor(index.reshape(-1), x), axis=0)
    return reshape(picked, shape=index.shape)


# -- distances -----------------------------------------------------------------------------------------------


def dist(x1: Any, x2: Any, /, ord: float = 2.0) -> Tensor:
    """Return the norm of order `ord` of ``x1 - x2``.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.dist([3.0, 0.0], [0.0, 4.0]).item()
    5.0
    """
    x1 = as_tensor(x1)
    return vector_norm(p.sub(x1, as_tensor(x2, x1)), ord=ord)


def cdist(x1: Any, x2: Any, /, ord: float = 2.0) -> Tensor:
    """Return the distances of all pairs of rows of two (batches of) matrices, by the norm of order `ord`.

    Differences are taken before squares, so close points far from the origin keep their distance.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.cdist([[0.0, 0.0]], [[3.0, 4.0], [0.0, 1.0]]).tolist()
    [[5.0, 1.0]]
    """
    x1 = as_tensor(x1)
    x2 = as_tensor(x2, x1)
    if x1.ndim < 2 or x2.ndim < 2 or x1.shape[-1] != x2.shape[-1]:
        raise ShapeError(f"cdist: expected (..., P, M) and (..., R, M); received {x1.shape} and {x2.shape}.")
    gap = p.sub(expand_dims(x1, axis=x1.ndim - 1), expand_dims(x2, axis=x2.ndim - 2))
    if gap.shape[-1] == 0:
        return p.sum(gap, axis=-1)
    return norm(gap, ord=float(ord), axis=-1)


def pdist(x: Any, /, ord: float = 2.0) -> Tensor:
    """Return the distances of all pairs of different rows of a matrix: the upper triangle of `cdist`, flat.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.pdist([[0.0], [1.0], [3.0]]).tolist()
    [1.0, 3.0, 2.0]
    """
    x = as_tensor(x)
    if x.ndim != 2:
        raise ShapeError(f"pdist: expected a matrix; received shape {x.shape}.")
    i, j = (as_tensor(k.astype(np.int32), x) for k in np.triu_indices(x.shape[0], 1))
    gap = p.sub(p.gather(x, i, axis=0), p.gather(x, j, axis=0))
    if math.prod(gap.shape) == 0:
        return p.sum(gap, axis=-1)
    return norm(gap, ord=float(ord), axis=-1)
