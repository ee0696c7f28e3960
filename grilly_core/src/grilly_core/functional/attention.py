"""Scaled dot-product attention."""

from __future__ import annotations

import math
from typing import Any, cast

from grilly_core.dtypes import int32
from grilly_core.errors import DTypeError, ShapeError
from grilly_core.functional._arguments import TensorLike, tensor
from grilly_core.layout import broadcast_shapes
from grilly_core.ops import nn as ops
from grilly_core.random import Generator, default_generator
from grilly_core.tensor import Tensor

__all__ = ["scaled_dot_product_attention"]

_NAME = "scaled_dot_product_attention"


def scaled_dot_product_attention(
    query: TensorLike,
    key: TensorLike,
    value: TensorLike,
    attn_mask: TensorLike | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
    *,
    key_lengths: TensorLike | None = None,
    causal_alignment: str | None = None,
    rng: Generator | None = None,
) -> Tensor:
    """Return ``dropout(softmax(query @ key^T * scale + attn_mask)) @ value``, without storing the scores.

    A query that sees no key gives zeros, in the gradients too.

    Parameters
    ----------
    query : array_like, (..., H, L, E)
        Leading axes, heads included, broadcast among the three; two axes mean one head.
    key : array_like, (..., H, S, E)
    value : array_like, (..., H, S, F)
    attn_mask : array_like, optional
        Broadcasts to ``(..., H, L, S)``. Boolean: True *keeps*, unlike in ``MultiheadAttention``. Floating: added.
    dropout_p : float
        Probability of dropping a weight. It applies always: pass 0 for evaluation.
    is_causal : bool
        Query i sees keys up to i. May be given together with `attn_mask`, and both hold.
    scale : float, optional
        ``1 / sqrt(E)`` if left out.
    enable_gqa : bool
        Allow fewer heads of key and value than of query: each serves ``Hq / H`` neighbouring heads.
    key_lengths : array_like of int, optional
        How many keys exist for each element of the leading axes without the heads; what lies beyond is not read as a
        number, so it may be NaN.
    causal_alignment : {"upper_left", "lower_right"}, optional
        Where the diagonal starts or ends when L and S differ; only with `is_causal`. By default ``"upper_left"``, as in
        PyTorch. With ``"lower_right"`` the last query sees all (existing) keys, as new queries of a cache do.
    rng : Generator, optional
        Where the dropout mask comes from; the default generator if not given.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> q = k = grilly.zeros((1, 1, 2, 4))
    >>> v = grilly.tensor([[[[1.0], [3.0]]]])
    >>> grilly.functional.scaled_dot_product_attention(q, k, v).tolist()
    [[[[2.0], [2.0]]]]
    >>> grilly.functional.scaled_dot_product_attention(q, k, v, is_causal=True).tolist()
    [[[[1.0], [2.0]]]]
    """
    q = tensor(query)
    k, v = tensor(key, like=q), tensor(value, like=q)
    if not 0 <= dropout_p <= 1:
        raise ValueError(f"{_NAME}: dropout_p must lie in [0, 1]; received {dropout_p}.")
    causal = _alignment(is_causal, causal_alignment)
    batch, (q, k, v), heads = _aligned(q, k, v, enable_gqa)
    mask = (
        None
        if attn_mask is None
        else _mask(tensor(attn_mask, like=q), batch, (heads, q.shape[2], k.shape[2]))
    )
    lengths = None if key_lengths is None else _lengths(tensor(key_lengths), batch, q)
    state, relative = None, 0
    if dropout_p:
        words = math.prod(q.shape[:3]) * (-(-k.shape[2] // 4) * 4)
        state, relative = (rng or default_generator()).take(words, q._value.spec.context)
    y = ops.attention(
        q, k, v, mask, lengths, state,
        scale=None if scale is None else float(scale), causal=causal, dropout=float(dropout_p), relative=relative,
    )  # fmt: skip
    out = cast(Tensor, y)
    shape = (*batch, *out.shape[1:]) if heads is not None else tuple(out.shape[2:])
    return out if out.shape == shape else out.reshape(shape)


def _alignment(is_causal: bool, alignment: str | None) -> str | None:
    if alignment not in (None, "upper_left", "lower_right"):
        raise ValueError(
            f"{_NAME}: causal_alignment must be 'upper_left' or 'lower_right'; received {alignment!r}."
        )
    if alignment is not None and not is_causal:
        raise ValueError(f"{_NAME}: causal_alignment={alignment!r} has a meaning only with is_causal=True.")
    return (alignment or "upper_left") if is_causal else None


def _aligned(
    q: Tensor, k: Tensor, v: Tensor, enable_gqa: bool
) -> tuple[tuple[int, ...], tuple[Tensor, ...], int | None]:
    """Return the batch's shape, the operands with four axes, and the heads of q (None if there was no such axis)."""
    for name, x in (("query", q), ("key", k), ("value", v)):
        if x.ndim < 2:
            raise ShapeError(
                f"{_NAME}: {name} needs at least two axes, (positions, width); received shape {tuple(x.shape)}."
            )
    ranks = max(q.ndim, k.ndim, v.ndim)
    padded = [x.reshape((1,) * (max(ranks, 3) - x.ndim) + tuple(x.shape)) for x in (q, k, v)]
    drop = 0 if enable_gqa else 1  # without groups the heads broadcast like any other leading axis
    try:
        lead = broadcast_shapes(*(x.shape[: -3 + drop] for x in padded))
    except ValueError:
        hint = "" if enable_gqa else "; pass enable_gqa=True if groups of query heads share a head of keys"
        raise ShapeError(
            f"{_NAME}: the leading axes of query {tuple(q.shape)}, key {tuple(k.shape)} and value {tuple(v.shape)} do "
            f"not broadcast{hint}."
        ) from None
    batch = lead[:-1] if drop else lead
    operands = []
    for x in padded:
        shape = (*lead, *x.shape[-3 + drop :])
        x = x if tuple(x.shape) == shape else x.broadcast_to(shape)
        operands.append(x if x.ndim == 4 else x.reshape((math.prod(batch), *x.shape[-3:])))
    return batch, tuple(operands), operands[0].shape[1] if ranks > 2 else None


def _mask(mask: Tensor, batch: tuple[int, ...], scores: tuple[int | None, int, int]) -> Tensor:
    """Return the mask with four axes, of which those of size 1 stay so."""
    if not (mask.dtype.is_floating or mask.dtype.kind == "b"):
        raise DTypeError(
            f"{_NAME}: attn_mask must be boolean (True keeps) or floating (added); received {mask.dtype.name}."
        )
    full = (*batch, scores[0] or 1, *scores[1:])
    shape = (1,) * (len(full) - mask.ndim) + tuple(mask.shape)
    if mask.ndim > len(full) or any(m not in (1, n) for m, n in zip(shape, full, strict=True)):
        raise ShapeError(
            f"{_NAME}: attn_mask of shape {tuple(mask.shape)} does not broadcast to the scores {full}."
        )
    if all(n == 1 for n in shape[:-3]):
        return mask.reshape((1, *shape[-3:]))
    return mask.broadcast_to((*batch, *shape[-3:])).reshape((math.prod(batch), *shape[-3:]))


def _lengths(lengths: Tensor, batch: tuple[int, ...], like: Any) -> Tensor:
    if not lengths.dtype.is_integer:
        raise DTypeError(f"{_NAME}: key_lengths must be integers; received {lengths.dtype.name}.")
    shape = (1,) * (len(batch) - lengths.ndim) + tuple(lengths.shape)
    if lengths.ndim > len(batch) or any(m not in (1, n) for m, n in zip(shape, batch, strict=True)):
        raise ShapeError(
            f"{_NAME}: key_lengths of shape {tuple(lengths.shape)} does not broadcast to the batch {batch}."
        )
    return lengths.to(like.device).to(int32).broadcast_to(batch).reshape((math.prod(batch),))
