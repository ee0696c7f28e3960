"""Rows of a table by index, and random dropping of elements."""

from __future__ import annotations

import math

from grilly_core.dtypes import uint32
from grilly_core.errors import DTypeError, ShapeError
from grilly_core.ops._typing import Attrs, Needs, Samples, Tensors
from grilly_core.ops.primitives import eq, full, gather, random_bits, scatter, where
from grilly_core.ops.views import reshape
from grilly_core.opspec import op
from grilly_core.tensor import Tensor

__all__ = ["dropout", "embedding", "embedding_vjp"]


@op("nn.embedding", saves="ins")
def embedding(ids: Tensor, weight: Tensor, *, padding_idx: int | None = None) -> Tensor:
    """Return the rows `ids` of `weight` ``(N, D)``; the row `padding_idx` gets no gradient.

    An id outside ``[0, N)`` raises IndexError.
    """
    if not ids.dtype.is_integer:
        raise DTypeError(f"embedding: ids must be integers; received {ids.dtype.name}.")
    if weight.ndim != 2:
        raise ShapeError(f"embedding: weight must be (N, D); received shape {tuple(weight.shape)}.")
    flat = reshape(ids, shape=(math.prod(ids.shape),))
    result: Tensor = reshape(gather(weight, flat, axis=0), shape=(*ids.shape, weight.shape[1]))
    return result


@embedding.vjp
def _(grads: Tensors, outs: Tensors, ins: Tensors, attrs: Attrs, needs: Needs) -> Tensors:
    ids, weight = ins
    rows = weight.shape[0]
    return None, embedding_vjp(grads[0], ids, num_embeddings=rows, padding_idx=attrs["padding_idx"])


@embedding.samples
def _(s: Samples) -> None:
    s.case(s.i32(3, 4, low=0, high=5), s.f32(5, 2))
    s.case(s.i32(7, low=0, high=5), s.f32(5, 2), padding_idx=1, grad="surrogate")  # the padding row has none
    s.case(s.i32(low=0, high=5), s.f32(5, 2))
    s.error(TypeError, "integers", s.f32(3), s.f32(5, 2))


@op("nn.embedding_vjp", internal=True)
def embedding_vjp(g: Tensor, ids: Tensor, *, num_embeddings: int, padding_idx: int | None = None) -> Tensor:
    """Gradient of `embedding` for its weight: duplicates add up, the padding row stays 0."""
    n, width = math.prod(ids.shape), g.shape[-1]
    flat, rows = reshape(ids, shape=(n,)), reshape(g, shape=(n, width))
    if padding_idx is not None:
        rows = where(reshape(eq(flat, padding_idx), shape=(n, 1)), 0.0, rows)
    zeros = full(value=0, shape=(num_embeddings, width), dtype=g.dtype)
    result: Tensor = scatter(zeros, flat, rows, axis=0, mode="add")
    return result


@embedding_vjp.samples
def _(s: Samples) -> None:
    s.case(s.f32(3, 4, 2), s.i32(3, 4, low=0, high=5), num_embeddings=5)
    s.case(s.f32(7, 2), s.i32(7, low=0, high=5), num_embeddings=5, padding_idx=1)


@op("nn.dropout", saves="ins")
def dropout(x: Tensor, state: Tensor, *, p: float = 0.5, relative: int = 0) -> Tensor:
    """Zero each element with probability `p` and scale the others by ``1 / (1 - p)``.

    Element i (in C order) is kept if random word i of the generator `state` is at least ``floor(p * 2**32)``,
    so every device drops the same elements.
    """
    if not 0 <= p <= 1:
        raise ValueError(f"dropout: p must lie in [0, 1]; received {p}.")
    if p == 1:
        return where(False, x, 0.0)  # zeros even where x is infinite
    words = reshape(random_bits(state, size=math.prod(x.shape), relative=relative), shape=tuple(x.shape))
    limit = full(value=math.floor(p * 2.0**32), shape=(), dtype=uint32)
    return where(words < limit, 0.0, x * (1.0 / (1.0 - p)))


@dropout.vjp
def _(grads: Tensors, outs: Tensors, ins: Tensors, attrs: Attrs, needs: Needs) -> Tensors:
    return dropout(grads[0], ins[1], **attrs), None


@dropout.samples
def _(s: Samples) -> None:
    s.case(s.f32(3, 7), s.state(), p=0.3)
    s.case(s.f32(33), s.state(), p=0.5, relative=4)
    s.case(s.f32(3, 7), s.state(), p=0.0)
    s.case(s.f32(3, 7), s.state(), p=1.0)
    s.error(ValueError, "dropout", s.f32(3), s.state(), p=1.5)
