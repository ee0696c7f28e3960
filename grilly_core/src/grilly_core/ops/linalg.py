"""Matrix products and what is built from them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from grilly_core.apply import as_tensor
from grilly_core.dtypes import as_dtype
from grilly_core.errors import ShapeError
from grilly_core.layout import broadcast_shapes, normalize_axis
from grilly_core.ops import primitives as p
from grilly_core.ops.math import conj
from grilly_core.ops.reduce import norm
from grilly_core.ops.structure import diagonal, swapped
from grilly_core.ops.views import broadcast_to, expand_dims, permute_dims, reshape, squeeze
from grilly_core.opspec import op
from grilly_core.tensor import Tensor

__all__ = [
    "cross",
    "diagonal",
    "matmul",
    "matrix_norm",
    "outer",
    "tensordot",
    "trace",
    "vecdot",
    "vector_norm",
]


@op("matmul_any", saves="ins", autocast="lower")
def matmul_any(x: Any, y: Any) -> Tensor:
    """Matrix product by the Array API's rules: vectors gain an axis, leading axes broadcast."""
    if x.ndim == 0 or y.ndim == 0:
        raise ShapeError(
            f"matmul: 0-d operands have no product; use * instead. Received {x.shape} and {y.shape}."
        )
    a = expand_dims(x, axis=0) if x.ndim == 1 else x
    b = expand_dims(y, axis=1) if y.ndim == 1 else y
    if a.shape[-1] != b.shape[-2]:
        raise ShapeError(
            f"matmul: the last axis of x and the second last of y must agree; received {x.shape} and {y.shape}."
        )
    if b.ndim == 2 and a.ndim > 2:  # one matrix for a whole batch: a single tall product
        rows = reshape(a, shape=(math.prod(a.shape[:-1]), a.shape[-1]))
        out = reshape(p.matmul(rows, b), shape=(*a.shape[:-1], b.shape[-1]))
    else:
        lead = broadcast_shapes(a.shape[:-2], b.shape[:-2])
        a, b = (t if t.shape[:-2] == lead else broadcast_to(t, shape=(*lead, *t.shape[-2:])) for t in (a, b))
        out = p.matmul(a, b)
    drop = ((out.ndim - 2,) if x.ndim == 1 else ()) + ((out.ndim - 1,) if y.ndim == 1 else ())
    return squeeze(out, axis=drop) if drop else out


@matmul_any.vjp
def _(grads: Any, outs: Any, ins: Any, attrs: Any, needs: Any) -> Any:
    (g,), (x, y) = grads, ins
    a = expand_dims(x, axis=0) if x.ndim == 1 else x
    b = expand_dims(y, axis=1) if y.ndim == 1 else y
    lead = broadcast_shapes(a.shape[:-2], b.shape[:-2])
    g = reshape(g, shape=(*lead, a.shape[-2], b.shape[-1]))
    ga = gb = None
    if needs[0]:
        ga = reshape(_summed(matmul_any(g, swapped(conj(b), b.ndim - 2, b.ndim - 1)), a.shape), shape=x.shape)
    if needs[1]:
        if b.ndim == 2 and a.ndim > 2:
            rows, tall = (reshape(t, shape=(math.prod(t.shape[:-1]), t.shape[-1])) for t in (a, g))
            gb = p.matmul(swapped(conj(rows), 0, 1), tall)
        else:
            gb = _summed(matmul_any(swapped(conj(a), a.ndim - 2, a.ndim - 1), g), b.shape)
        gb = reshape(gb, shape=y.shape)
    return ga, gb


def _summed(x: Any, shape: tuple[int, ...]) -> Any:
    from grilly_core.ops.views import sum_to

    return x if x.shape == shape else sum_to(x, shape=shape)


@matmul_any.reference
def _(x: Any, y: Any) -> Any:
    return np.matmul(x, y)


@matmul_any.samples
def _(s: Any) -> None:
    s.case(s.f32(3, 4), s.f32(4, 5))
    s.case(s.f32(4), s.f32(4))
    s.case(s.f32(2, 3, 4), s.f32(4))
    s.case(s.f32(2, 3, 4), s.f32(4, 5))
    s.case(s.f32(2, 1, 3, 4), s.f32(5, 4, 2))
    s.error(ValueError, "agree", s.f32(3, 4), s.f32(3, 4))


def matmul(x1: Any, x2: Any, /) -> Tensor:
    """Return the matrix product ``x1 @ x2``; vectors gain an axis, leading axes broadcast.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.matmul([[1.0, 2.0]], [[3.0], [4.0]]).tolist()
    [[11.0]]
    """
    like = x1 if isinstance(x1, Tensor) else x2 if isinstance(x2, Tensor) else None
    return matmul_any(as_tensor(x1, like), as_tensor(x2, like))


def outer(x1: Any, x2: Any, /) -> Tensor:
    """Return the products of all pairs of elements of two vectors."""
    x1, x2 = as_tensor(x1), as_tensor(x2)
    result: Tensor = expand_dims(x1, axis=x1.ndim) * x2
    return result


def vecdot(x1: Any, x2: Any, /, *, axis: int = -1) -> Tensor:
    """Return ``sum(conj(x1) * x2)`` along `axis`."""
    x1, x2 = as_tensor(x1), as_tensor(x2)
    return p.sum(conj(x1) * x2, axis=axis)


def tensordot(x1: Any, x2: Any, /, *, axes: int | Sequence[Sequence[int]] = 2) -> Tensor:
    """Return the sum of products over `axes`: a number of inner axes, or a pair of axis lists."""
    x1, x2 = as_tensor(x1), as_tensor(x2)
    if isinstance(axes, int):
        left, right = list(range(x1.ndim - axes, x1.ndim)), list(range(axes))
    else:
        left = [normalize_axis(a, x1.ndim) for a in axes[0]]
        right = [normalize_axis(a, x2.ndim) for a in axes[1]]
    if [x1.shape[a] for a in left] != [x2.shape[a] for a in right]:
        raise ShapeError(f"tensordot: axes {left} of {x1.shape} and {right} of {x2.shape} differ in size.")
    keep1 = [a for a in range(x1.ndim) if a not in left]
    keep2 = [a for a in range(x2.ndim) if a not in right]
    inner = math.prod(x1.shape[a] for a in left)
    rows, cols = math.prod(x1.shape[a] for a in keep1), math.prod(x2.shape[a] for a in keep2)
    a = reshape(permute_dims(x1, axes=(*keep1, *left)), shape=(rows, inner))
    b = reshape(permute_dims(x2, axes=(*right, *keep2)), shape=(inner, cols))
    shape = tuple(x1.shape[i] for i in keep1) + tuple(x2.shape[i] for i in keep2)
    return reshape(p.matmul(a, b), shape=shape)


def trace(x: Any, /, *, offset: int = 0, dtype: Any = None) -> Tensor:
    """Return the sum of the diagonal of the last two axes, in `dtype` if one is given."""
    found = diagonal(as_tensor(x), offset=offset)
    return p.sum(found if dtype is None else p.cast(found, dtype=as_dtype(dtype)), axis=-1)


def vector_norm(
    x: Any, /, *, axis: int | Sequence[int] | None = None, keepdims: bool = False, ord: float = 2
) -> Tensor:
    """Return the vector norm of order `ord` over `axis`."""
    return norm(as_tensor(x), ord=float(ord), axis=axis, keepdims=keepdims)


def matrix_norm(x: Any, /, *, keepdims: bool = False, ord: Any = "fro") -> Tensor:
    """Return the matrix norm over the last two axes: ``"fro"``, 1, -1, inf or -inf."""
    x = as_tensor(x)
    if ord == "fro":
        return norm(x, ord=2.0, axis=(x.ndim - 2, x.ndim - 1), keepdims=keepdims)
    sums = {1: -2, -1: -2, math.inf: -1, -math.inf: -1}
    if ord not in sums:
        raise ValueError(f"matrix_norm: ord must be 'fro', 1, -1, inf or -inf; received {ord!r}.")
    size = p.sum(p.abs(x), axis=sums[ord], keepdims=True)
    found = (
        p.max(size, axis=(x.ndim - 2, x.ndim - 1), keepdims=True)
        if ord > 0
        else p.neg(p.max(p.neg(size), axis=(x.ndim - 2, x.ndim - 1), keepdims=True))
    )
    return found if keepdims else squeeze(found, axis=(x.ndim - 2, x.ndim - 1))


def cross(x1: Any, x2: Any, /, *, axis: int = -1) -> Tensor:
    """Return the cross product of 3-vectors along `axis`."""
    from grilly_core.ops.manipulate import roll

    x1, x2 = as_tensor(x1), as_tensor(x2)
    if x1.shape[axis] != 3 or x2.shape[axis] != 3:
        raise ShapeError(f"cross: axis {axis} must have size 3 in both; received {x1.shape} and {x2.shape}.")
    a1, a2 = roll(x1, -1, axis=axis), roll(x1, -2, axis=axis)
    b1, b2 = roll(x2, -1, axis=axis), roll(x2, -2, axis=axis)
    return a1 * b2 - a2 * b1
