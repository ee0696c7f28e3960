"""Sums of products in Einstein's notation, contracted pair by pair with batched matrix products."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from grilly_core.apply import as_tensor
from grilly_core.errors import ShapeError
from grilly_core.ops import primitives as p
from grilly_core.ops.structure import diagonal
from grilly_core.ops.views import broadcast_to, permute_dims, reshape
from grilly_core.tensor import Tensor

__all__ = ["einsum"]

#: Labels of the axes that an ellipsis stands for, counted from the last.
_ELLIPSIS = tuple(chr(0x2460 + i) for i in range(32))


def einsum(equation: str, /, *operands: Any) -> Tensor:
    """Return a sum of products over named axes.

    Parameters
    ----------
    equation : str
        Labels of the axes of each operand, separated by commas, and after ``->`` those of the result. Without
        an arrow the result has the labels that appear once, in alphabetical order. ``...`` stands for axes that
        broadcast.
    *operands : array_like

    Notes
    -----
    Operands are contracted from left to right.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.einsum("ij,jk->ik", [[1.0, 2.0]], [[3.0], [4.0]]).tolist()
    [[11.0]]
    """
    tensors = [as_tensor(t) for t in operands]
    terms, out = _parsed(equation, tensors)
    sizes = _sizes(terms, tensors)
    terms_left = [_simple(t, labels, sizes) for t, labels in zip(tensors, terms, strict=True)]
    x, labels = terms_left.pop(0)
    while terms_left:
        y, other = terms_left.pop(0)
        kept = set(out).union(*(set(n) for _, n in terms_left))
        x, labels = _contracted(x, labels, y, other, kept)
    x, labels = _summed(x, labels, set(out))
    return _ordered(x, labels, out, sizes)


def _parsed(equation: str, tensors: Sequence[Tensor]) -> tuple[list[list[str]], list[str]]:
    """Labels of every operand and of the result, the ellipsis written out."""
    left, arrow, right = equation.replace(" ", "").partition("->")
    parts = left.split(",")
    if len(parts) != len(tensors):
        raise ValueError(f"einsum: {equation!r} names {len(parts)} operands; received {len(tensors)}.")
    terms = [_labels(part, t, equation) for part, t in zip(parts, tensors, strict=True)]
    spread = max((sum(n in _ELLIPSIS for n in term) for term in terms), default=0)
    dots = list(_ELLIPSIS[:spread][::-1])
    if arrow:
        head, found, tail = right.partition("...")
        out = [*head, *(dots if found else ()), *tail]
    else:
        every = [n for term in terms for n in term if n not in _ELLIPSIS]
        out = dots + sorted(n for n in set(every) if every.count(n) == 1)
    known = {n for term in terms for n in term}
    wrong = [n for n in out if n not in known or out.count(n) > 1]
    if wrong:
        raise ValueError(
            f"einsum: the result of {equation!r} must name axes of the operands, each once; see {wrong[0]!r}."
        )
    return terms, out


def _labels(part: str, tensor: Tensor, equation: str) -> list[str]:
    head, found, tail = part.partition("...")
    named = head + tail
    spare = tensor.ndim - len(named)
    if not all(c.isalpha() for c in named) or spare < 0 or (spare and not found):
        raise ShapeError(f"einsum: {part!r} of {equation!r} does not fit a tensor of shape {tensor.shape}.")
    return [*head, *_ELLIPSIS[:spare][::-1], *tail]


def _sizes(terms: Sequence[Sequence[str]], tensors: Sequence[Tensor]) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for term, t in zip(terms, tensors, strict=True):
        for name, n in zip(term, t.shape, strict=True):
            known = sizes.get(name, 1)
            if n != known and 1 not in (n, known):
                raise ShapeError(f"einsum: the axis {name!r} has sizes {known} and {n}.")
            sizes[name] = n if known == 1 else known
    return sizes


def _simple(x: Tensor, labels: list[str], sizes: dict[str, int]) -> tuple[Tensor, list[str]]:
    """Each label once: a repeated one means the diagonal."""
    for name in sorted({n for n in labels if labels.count(n) > 1}):
        while labels.count(name) > 1:
            i = labels.index(name)
            j = labels.index(name, i + 1)
            rest = [k for k in range(x.ndim) if k not in (i, j)]
            x = diagonal(permute_dims(x, axes=(*rest, i, j)))
            labels = [labels[k] for k in rest] + [name]
    return x, labels


def _summed(x: Any, labels: list[str], kept: set[str]) -> tuple[Any, list[str]]:
    drop = tuple(i for i, n in enumerate(labels) if n not in kept)
    return (p.sum(x, axis=drop) if drop else x), [n for n in labels if n in kept]


def _contracted(x: Any, a: list[str], y: Any, b: list[str], kept: set[str]) -> tuple[Any, list[str]]:
    """Product of two operands, summed over what nobody needs any more."""
    x, a = _summed(x, a, kept | set(b))
    y, b = _summed(y, b, kept | set(a))
    both = [n for n in a if n in b]
    batch, inner = [n for n in both if n in kept], [n for n in both if n not in kept]
    left, right = [n for n in a if n not in b], [n for n in b if n not in a]
    sizes = {n: max(x.shape[a.index(n)], y.shape[b.index(n)]) for n in both}
    x = _grouped(x, a, (batch, left, inner), sizes)
    y = _grouped(y, b, (batch, inner, right), sizes)
    product = p.matmul(x[0], y[0]) if x[0].dtype.kind != "b" else p.mul(x[0], y[0])
    shape = (*(sizes[n] for n in batch), *x[1], *y[1])
    return reshape(product, shape=shape), batch + left + right


def _grouped(x: Any, labels: list[str], groups: Sequence[Sequence[str]], sizes: dict[str, int]) -> Any:
    """The axes of three groups, each joined to one; and the sizes of the group that only this operand has."""
    order = [labels.index(n) for group in groups for n in group]
    x = permute_dims(x, axes=tuple(order))
    names = [labels[i] for i in order]
    full = tuple(sizes.get(n, m) for n, m in zip(names, x.shape, strict=True))
    x = broadcast_to(x, shape=full) if full != x.shape else x
    wide = dict(zip(names, full, strict=True))
    own = tuple(wide[n] for group in groups for n in group if n not in sizes)
    return reshape(x, shape=tuple(math.prod(wide[n] for n in group) for group in groups)), own


def _ordered(x: Any, labels: list[str], out: list[str], sizes: dict[str, int]) -> Tensor:
    x = permute_dims(x, axes=tuple(labels.index(n) for n in out))
    shape = tuple(sizes[n] for n in out)
    result: Tensor = broadcast_to(x, shape=shape) if shape != x.shape else x
    return result
