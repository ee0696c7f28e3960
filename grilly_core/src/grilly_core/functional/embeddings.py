"""Sequences of embeddings: looking up, positions, pooling, mixing, and linear recurrences along them."""

from __future__ import annotations

from typing import Any

import numpy as np

from grilly_core.errors import ShapeError
from grilly_core.functional import activations
from grilly_core.functional._arguments import TensorLike, tensor
from grilly_core.functional.attention import scaled_dot_product_attention
from grilly_core.functional.layers import embedding, linear
from grilly_core.ops.primitives import where
from grilly_core.ops.structure import concat
from grilly_core.tensor import Tensor

__all__ = [
    "embedding_attention", "embedding_ffn", "embedding_lookup", "embedding_normalize", "embedding_pool",
    "embedding_position", "prefix_scan_causal",
]  # fmt: skip


def embedding_lookup(weight: TensorLike, indices: TensorLike) -> Tensor:
    """Return the rows of a table at some indices: `embedding` with the table first.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.functional.embedding_lookup(grilly.eye(3), [2, 0]).tolist()
    [[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]]
    """
    table = tensor(weight)
    return embedding(tensor(indices, like=table), table)


def embedding_normalize(embeddings: TensorLike, eps: float = 1e-8) -> Tensor:
    """Scale vectors along the last axis to length 1; lengths count as at least `eps`.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> [round(v, 4) for v in grilly.functional.embedding_normalize([3.0, 4.0]).tolist()]
    [0.6, 0.8]
    """
    x = tensor(embeddings)
    return x / x.norm(dim=-1, keepdim=True).clamp(min=eps)


def _sequence(value: TensorLike, name: str) -> Tensor:
    x = tensor(value)
    if x.ndim != 3:
        raise ShapeError(f"{name}: expected embeddings (B, S, D); received shape {tuple(x.shape)}.")
    return x


def embedding_position(embeddings: TensorLike, max_seq_len: int = 512, dim: int | None = None) -> Tensor:
    """Add sinusoids of the position (Vaswani et al. 2017): sines at even features, cosines at odd ones.

    Parameters
    ----------
    embeddings : array_like, (B, S, D)
    max_seq_len : int
        Longer sequences are refused.
    dim : int, optional
        How many of the first features get positions; all by default. It is the width of the formula.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.functional.embedding_position(grilly.zeros((1, 1, 4))).tolist()
    [[[0.0, 1.0, 0.0, 1.0]]]
    """
    x = _sequence(embeddings, "embedding_position")
    length, width = x.shape[1:]
    used = width if dim is None else dim
    if length > max_seq_len or not 0 < used <= width:
        raise ShapeError(
            f"embedding_position: at most {max_seq_len} positions and from 1 to {width} features; received "
            f"{length} positions and dim={dim}."
        )
    even = np.arange(0, used, 2)
    angles = np.arange(length)[:, None] / 10000.0 ** (even / used)
    table = np.zeros((length, width))
    table[:, even] = np.sin(angles)
    table[:, even[: used // 2] + 1] = np.cos(angles[:, : used // 2])
    return x + tensor(table, dtype=x.dtype, like=x)


def embedding_pool(embeddings: TensorLike, pool_type: str = "mean", mask: TensorLike | None = None) -> Tensor:
    """Return one vector for each sequence.

    Parameters
    ----------
    embeddings : array_like, (B, S, D)
    pool_type : {"mean", "max", "sum"}
    mask : array_like, (B, S), optional
        True keeps a position. A sequence that keeps none gives zeros.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> x = grilly.tensor([[[1.0], [3.0], [8.0]]])
    >>> grilly.functional.embedding_pool(x, mask=[[True, True, False]]).tolist()
    [[2.0]]
    """
    if pool_type not in ("mean", "max", "sum"):
        raise ValueError(f"embedding_pool: pool_type must be 'mean', 'max' or 'sum'; received {pool_type!r}.")
    x = _sequence(embeddings, "embedding_pool")
    keep = tensor(np.ones(x.shape[:2], bool) if mask is None else mask, like=x) != 0
    if keep.shape != x.shape[:2]:
        raise ShapeError(f"embedding_pool: mask must be {tuple(x.shape[:2])}; received {tuple(keep.shape)}.")
    kept = keep.unsqueeze(2)
    if pool_type == "max":
        return where(keep.any(dim=1).unsqueeze(1), where(kept, x, -np.inf).amax(dim=1), 0.0)
    total = where(kept, x, 0.0).sum(dim=1)
    if pool_type == "sum":
        return total
    return total / kept.to(x.dtype).sum(dim=1).clamp(min=1.0)


def embedding_ffn(
    embeddings: TensorLike,
    W1: TensorLike,
    b1: TensorLike | None,
    W2: TensorLike,
    b2: TensorLike | None,
    activation: str = "gelu",
) -> Tensor:
    """Two dense layers with an activation between them.

    Parameters
    ----------
    embeddings : array_like, (..., D)
    W1 : array_like, (H, D)
    b1 : array_like, (H,), optional
    W2 : array_like, (O, H)
    b2 : array_like, (O,), optional
    activation : str
        Name of a function here, such as ``"gelu"``, ``"relu"`` or ``"silu"``.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> one = grilly.ones((1, 1))
    >>> grilly.functional.embedding_ffn([[-2.0]], one, None, one, [0.5], "relu").tolist()
    [[0.5]]
    """
    if activation not in activations.__all__:
        raise ValueError(
            f"embedding_ffn: activation must be one of {activations.__all__}; received {activation!r}."
        )
    x = tensor(embeddings)
    hidden = getattr(activations, activation)(linear(x, W1, b1))
    return linear(hidden, W2, b2)


def embedding_attention(embeddings: TensorLike, num_heads: int = 8, head_dim: int | None = None) -> Tensor:
    """Self-attention of embeddings as they are, without projections, in heads.

    Parameters
    ----------
    embeddings : array_like, (B, S, D)
    num_heads : int
    head_dim : int, optional
        ``num_heads * head_dim`` must be D; ``D / num_heads`` by default.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.functional.embedding_attention(grilly.ones((1, 3, 4)), num_heads=2).shape
    (1, 3, 4)
    """
    x = _sequence(embeddings, "embedding_attention")
    batch, length, width = x.shape
    size = width // num_heads if head_dim is None else head_dim
    if num_heads < 1 or num_heads * size != width:
        raise ShapeError(
            f"embedding_attention: {num_heads} heads of {size} features do not make the width {width}."
        )
    heads = x.reshape((batch, length, num_heads, size)).transpose(1, 2)
    mixed = scaled_dot_product_attention(heads, heads, heads)
    whole: Tensor = mixed.transpose(1, 2).reshape((batch, length, width))
    return whole


def prefix_scan_causal(x: TensorLike, a: TensorLike) -> Tensor:
    """Linear recurrence ``h[t] = a[t] * h[t - 1] + x[t]`` along axis 1, from ``h[-1] = 0``, in log2(S) steps.

    Parameters
    ----------
    x : array_like, (B, S, D)
    a : array_like, (B, S, D), or what broadcasts to it

    Examples
    --------
    >>> import grilly_core as grilly
    >>> x, a = grilly.ones((1, 3, 1)), grilly.full((1, 3, 1), 0.5)
    >>> grilly.functional.prefix_scan_causal(x, a).tolist()
    [[[1.0], [1.5], [1.75]]]
    """
    h = _sequence(x, "prefix_scan_causal")
    decay: Any = tensor(a, like=h)
    if decay.ndim > 3 or np.broadcast_shapes(tuple(decay.shape), tuple(h.shape)) != tuple(h.shape):
        raise ShapeError(
            f"prefix_scan_causal: a must broadcast to {tuple(h.shape)}; received {tuple(decay.shape)}."
        )
    decay = decay.expand(h.shape)
    length, step = h.shape[1], 1
    while step < length:
        # After this, h[t] holds the last 2 * step terms, and decay[t] the product of as many factors.
        moved = h[:, step:] + decay[:, step:] * h[:, :-step]
        product = decay[:, step:] * decay[:, :-step]
        h = concat([h[:, :step], moved], axis=1)
        decay = concat([decay[:, :step], product], axis=1)
        step *= 2
    return h
