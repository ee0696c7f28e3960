"""Arranging tensors: stacking and splitting by rows and columns, diagonals, turns, and index tables."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from grilly_core import dtypes
from grilly_core.apply import as_tensor
from grilly_core.errors import ShapeError
from grilly_core.layout import normalize_axis
from grilly_core.ops import primitives as p
from grilly_core.ops.manipulate import concat, flip, moveaxis, split, swapaxes
from grilly_core.ops.structure import diagonal, pad
from grilly_core.ops.views import expand_dims, reshape
from grilly_core.opspec import op
from grilly_core.tensor import Tensor

__all__ = [
    "argwhere", "atleast_1d", "atleast_2d", "atleast_3d", "column_stack", "diag", "diag_embed", "diagflat", "dsplit",
    "dstack", "hsplit", "hstack", "logspace", "ravel", "rot90", "tensor_split", "tril_indices", "triu_indices",
    "unravel_index", "vsplit", "vstack",
]  # fmt: skip


def ravel(x: Any, /) -> Tensor:
    """Return the elements in C order, 1-D.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.ravel([[1, 2], [3, 4]]).tolist()
    [1, 2, 3, 4]
    """
    return reshape(as_tensor(x), shape=(-1,))


# -- more axes -----------------------------------------------------------------------------------------------


def _each(tensors: tuple[Any, ...], one: Any) -> Any:
    """Apply to one tensor, or to each of several (given one by one or as a sequence)."""
    if (
        len(tensors) == 1
        and isinstance(tensors[0], tuple | list)
        and any(isinstance(t, Tensor) for t in tensors[0])
    ):
        tensors = tuple(tensors[0])
    elif len(tensors) == 1:
        return one(as_tensor(tensors[0]))
    return tuple(one(as_tensor(t)) for t in tensors)


def atleast_1d(*tensors: Any) -> Any:
    """Return each tensor with at least one axis.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.atleast_1d(3.0).shape
    (1,)
    """
    return _each(tensors, lambda x: x if x.ndim else reshape(x, shape=(1,)))


def atleast_2d(*tensors: Any) -> Any:
    """Return each tensor with at least two axes; a vector becomes a row.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.atleast_2d([1.0, 2.0]).shape
    (1, 2)
    """
    return _each(tensors, lambda x: x if x.ndim > 1 else reshape(x, shape=(1, math.prod(x.shape))))


def atleast_3d(*tensors: Any) -> Any:
    """Return each tensor with at least three axes: ``(N,)`` becomes ``(1, N, 1)``, ``(M, N)`` becomes ``(M, N, 1)``.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.atleast_3d([1.0, 2.0]).shape
    (1, 2, 1)
    """

    def one(x: Tensor) -> Tensor:
        if x.ndim > 2:
            return x
        return expand_dims(x, axis=2) if x.ndim == 2 else reshape(x, shape=(1, math.prod(x.shape), 1))

    return _each(tensors, one)


# -- stacking and splitting ----------------------------------------------------------------------------------


def hstack(tensors: Sequence[Any], /) -> Tensor:
    """Return tensors joined along the second axis (vectors along their only one).

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.hstack([[1, 2], [3]]).tolist()
    [1, 2, 3]
    """
    parts = [atleast_1d(t) for t in tensors]
    return concat(parts, axis=0 if parts and parts[0].ndim == 1 else 1)


def vstack(tensors: Sequence[Any], /) -> Tensor:
    """Return tensors joined along the first axis; vectors are rows.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.vstack([[1, 2], [3, 4]]).tolist()
    [[1, 2], [3, 4]]
    """
    return concat([atleast_2d(t) for t in tensors], axis=0)


def dstack(tensors: Sequence[Any], /) -> Tensor:
    """Return tensors joined along the third axis; see `atleast_3d`.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.dstack([[1, 2], [3, 4]]).tolist()
    [[[1, 3], [2, 4]]]
    """
    return concat([atleast_3d(t) for t in tensors], axis=2)


def column_stack(tensors: Sequence[Any], /) -> Tensor:
    """Return tensors joined along the second axis; vectors are columns.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.column_stack([[1, 2], [3, 4]]).tolist()
    [[1, 3], [2, 4]]
    """
    parts = [as_tensor(t) for t in tensors]
    return concat([t if t.ndim > 1 else reshape(t, shape=(-1, 1)) for t in parts], axis=1)


def tensor_split(x: Any, sections: int | Sequence[int], /, *, axis: int = 0) -> tuple[Tensor, ...]:
    """Return `sections` slices of nearly equal size along `axis`, or slices that end at the given indices.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> [t.tolist() for t in grilly.tensor_split([1, 2, 3, 4, 5], 3)]
    [[1, 2], [3, 4], [5]]
    """
    x = as_tensor(x)
    if x.ndim == 0:
        raise ShapeError("tensor_split: a 0-d tensor has no axis to split.")
    axis = normalize_axis(axis, x.ndim)
    n = x.shape[axis]
    if isinstance(sections, int):
        if sections < 1:
            raise ValueError(f"tensor_split: expected at least one section; received {sections}.")
        small, more = divmod(n, sections)
        return split(x, [small + (i < more) for i in range(sections)], axis=axis)
    key = (slice(None),) * axis
    bounds = [0, *(int(i) for i in sections), n]
    return tuple(x[(*key, slice(a, b))] for a, b in itertools.pairwise(bounds))


def _split(name: str, x: Any, sections: Any, axis: int, least: int) -> tuple[Tensor, ...]:
    x = as_tensor(x)
    if x.ndim < least:
        raise ShapeError(f"{name}: expected at least {least} axes; received shape {x.shape}.")
    if isinstance(sections, int) and (sections < 1 or x.shape[axis] % sections):
        raise ValueError(
            f"{name}: axis {axis} of size {x.shape[axis]} does not divide into {sections} equal parts."
        )
    return tensor_split(x, sections, axis=axis)


def hsplit(x: Any, sections: int | Sequence[int], /) -> tuple[Tensor, ...]:
    """Return slices along the second axis (of a vector the only one); see `tensor_split`.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> [t.tolist() for t in grilly.hsplit([1, 2, 3, 4], 2)]
    [[1, 2], [3, 4]]
    """
    x = as_tensor(x)
    return _split("hsplit", x, sections, 0 if x.ndim == 1 else 1, 1)


def vsplit(x: Any, sections: int | Sequence[int], /) -> tuple[Tensor, ...]:
    """Return slices along the first axis of at least two; see `tensor_split`.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> [t.tolist() for t in grilly.vsplit([[1], [2]], 2)]
    [[[1]], [[2]]]
    """
    return _split("vsplit", x, sections, 0, 2)


def dsplit(x: Any, sections: int | Sequence[int], /) -> tuple[Tensor, ...]:
    """Return slices along the third axis; see `tensor_split`.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> [t.shape for t in grilly.dsplit(grilly.zeros(2, 2, 4), 2)]
    [(2, 2, 2), (2, 2, 2)]
    """
    return _split("dsplit", x, sections, 2, 3)


# -- diagonals and turns -------------------------------------------------------------------------------------


@op("diag_embed")
def _diag_embed(x: Any, *, offset: int = 0) -> Tensor:
    """Matrices whose `offset`-th diagonal is the last axis, 0 elsewhere."""
    size = x.shape[-1] + abs(offset)
    widths = (*((0, 0),) * (x.ndim - 1), (max(-offset, 0), max(offset, 0)))
    rows = expand_dims(pad(x, widths=widths), axis=x.ndim)
    line = p.iota(size=size, dtype=dtypes.int32)
    hit = p.eq(reshape(line, shape=(1, size)), p.add(reshape(line, shape=(size, 1)), offset))
    return p.where(hit, rows, 0)


@_diag_embed.samples
def _(s: Any) -> None:
    s.case(s.f32(3))
    s.case(s.f32(2, 3), offset=1)
    s.case(s.f32(2, 3), offset=-2)


def diag_embed(x: Any, /, *, offset: int = 0, axis1: int = -2, axis2: int = -1) -> Tensor:
    """Return matrices over the axes `axis1` and `axis2` whose `offset`-th diagonal is the last axis of `x`.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.diag_embed([1, 2]).tolist()
    [[1, 0], [0, 2]]
    """
    x = as_tensor(x)
    a, b = normalize_axis(axis1, x.ndim + 1), normalize_axis(axis2, x.ndim + 1)
    if a == b:
        raise ShapeError(f"diag_embed: axis1 and axis2 must differ; received {axis1} and {axis2}.")
    return moveaxis(_diag_embed(x, offset=offset), (-2, -1), (a, b))


def diag(x: Any, /, *, k: int = 0) -> Tensor:
    """Return a matrix with a vector on its `k`-th diagonal, or the `k`-th diagonal of a matrix.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.diag([[1, 2], [3, 4]]).tolist()
    [1, 4]
    """
    x = as_tensor(x)
    if x.ndim not in (1, 2):
        raise ShapeError(f"diag: expected a vector or a matrix; received shape {x.shape}.")
    return _diag_embed(x, offset=k) if x.ndim == 1 else diagonal(x, offset=k)


def diagflat(x: Any, /, *, k: int = 0) -> Tensor:
    """Return a matrix with all elements of `x` on its `k`-th diagonal.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.diagflat([[1], [2]]).tolist()
    [[1, 0], [0, 2]]
    """
    return _diag_embed(ravel(x), offset=k)


def rot90(x: Any, k: int = 1, /, *, axes: Sequence[int] = (0, 1)) -> Tensor:
    """Return `x` turned by `k` quarters in the plane of two axes, from the first towards the second.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.rot90([[1, 2], [3, 4]]).tolist()
    [[2, 4], [1, 3]]
    """
    x = as_tensor(x)
    a, b = (normalize_axis(i, x.ndim, "axes") for i in axes)
    if a == b:
        raise ShapeError(f"rot90: the two axes must differ; received {tuple(axes)}.")
    turns = k % 4
    if turns == 0:
        return p.strided_copy(x)
    if turns == 2:
        return flip(x, axis=(a, b))
    return swapaxes(flip(x, axis=b), a, b) if turns == 1 else flip(swapaxes(x, a, b), axis=b)


# -- tables of numbers ---------------------------------------------------------------------------------------


def _triangle(pair: tuple[Any, ...], device: Any) -> Tensor:
    from grilly_core.ops.creation import asarray

    return asarray(np.stack(pair).astype(np.int32), device=device)


def tril_indices(rows: int, cols: int | None = None, /, *, k: int = 0, device: Any = None) -> Tensor:
    """Return the row and column indices of the lower triangle, on and below the `k`-th diagonal.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.tril_indices(2).tolist()
    [[0, 1, 1], [0, 0, 1]]
    """
    return _triangle(np.tril_indices(rows, k, cols), device)


def triu_indices(rows: int, cols: int | None = None, /, *, k: int = 0, device: Any = None) -> Tensor:
    """Return the row and column indices of the upper triangle, on and above the `k`-th diagonal.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.triu_indices(2).tolist()
    [[0, 0, 1], [0, 1, 1]]
    """
    return _triangle(np.triu_indices(rows, k, cols), device)


def logspace(
    start: float, stop: float, /, num: int, *, base: float = 10.0, dtype: Any = None, device: Any = None
) -> Tensor:
    """Return `num` powers of `base`, whose exponents go in equal steps from `start` to `stop`.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.logspace(0, 2, 3).tolist()
    [1.0, 10.0, 100.0]
    """
    from grilly_core.ops.creation import asarray, plain_number

    first, last, root = (plain_number(v) for v in (start, stop, base))
    exponents = np.linspace(first, last, num)
    return asarray(
        np.power(np.result_type(root, 1.0).type(root), exponents),
        dtype=dtype or dtypes.default_float,
        device=device,
    )


def argwhere(x: Any, /) -> Tensor:
    """Return the positions of the elements that are not zero, a row for each.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.argwhere([0, 3, 4]).tolist()
    [[1], [2]]
    """
    return as_tensor(x).nonzero()


def unravel_index(x: Any, shape: Sequence[int], /) -> tuple[Tensor, ...]:
    """Return, for positions in a flat tensor, the index along each axis of `shape`.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> [i.item() for i in grilly.unravel_index(5, (2, 3))]
    [1, 2]
    """
    x = as_tensor(x)
    sizes = (shape,) if isinstance(shape, int) else tuple(shape)
    found: list[Tensor] = []
    for n in reversed(sizes):
        rest = p.floordiv(x, n)
        found.append(p.sub(x, p.mul(rest, n)))
        x = rest
    return tuple(found[::-1])
