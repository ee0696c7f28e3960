"""Masks of attention: three ways to write one become the one that the attention op takes."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from grilly_core.apply import as_tensor
from grilly_core.errors import DTypeError, ShapeError
from grilly_core.ops.creation import arange
from grilly_core.ops.math import logical_and, logical_not, where
from grilly_core.ops.reduce import any as any_
from grilly_core.tensor import Tensor

__all__ = ["additive", "blocking", "causal", "combined", "keeping", "padding", "prosody_bias", "weights_of"]

Scores = tuple[int, int, int, int]


def blocking(mask: Any, scores: Scores, name: str, like: Tensor) -> Tensor:
    """Read PyTorch's ``attn_mask`` of a module: (L, S) or (N * H, L, S); True blocks."""
    n, h, queries, keys = scores
    read = _read(mask, name, like)
    if read.ndim == 3 and tuple(read.shape) == (n * h, queries, keys):
        read = read.reshape(scores)
    elif tuple(read.shape) == (queries, keys):
        read = read.reshape((1, 1, queries, keys))
    else:
        raise ShapeError(
            f"{name}: expected shape {(queries, keys)} or {(n * h, queries, keys)}; received {tuple(read.shape)}."
        )
    return read if read.dtype.is_floating else logical_not(read)


def padding(mask: Any, scores: Scores, name: str, like: Tensor) -> Tensor:
    """Read PyTorch's ``key_padding_mask``: (N, S), or (S,) without a batch; True blocks."""
    n, _, _, keys = scores
    read = _read(mask, name, like)
    if tuple(read.shape) != (n, keys) and not (n == 1 and tuple(read.shape) == (keys,)):
        raise ShapeError(f"{name}: expected shape {(n, keys)}; received {tuple(read.shape)}.")
    read = read.reshape((n, 1, 1, keys))
    return read if read.dtype.is_floating else logical_not(read)


def keeping(mask: Any, scores: Scores, name: str, like: Tensor) -> Tensor:
    """Read the framework's own mask, which broadcasts to (N, H, L, S); True keeps."""
    read = _read(mask, name, like)
    shape = (1,) * (4 - read.ndim) + tuple(read.shape)
    if read.ndim > 4 or any(m not in (1, n) for m, n in zip(shape, scores, strict=True)):
        raise ShapeError(
            f"{name}: a mask of shape {tuple(read.shape)} does not broadcast to the scores {scores}. A mask of keys "
            "alone, (N, S), goes in as mask[:, None, None, :]."
        )
    return read.reshape(shape)


def _read(mask: Any, name: str, like: Tensor) -> Tensor:
    read = mask if isinstance(mask, Tensor) else as_tensor(mask, like)
    if not (read.dtype.is_floating or read.dtype.kind == "b"):
        raise DTypeError(f"{name}: expected a boolean or a floating mask; received {read.dtype.name}.")
    return read


def causal(queries: int, keys: int, like: Tensor) -> Tensor:
    """Return the mask by which query i sees keys up to i."""
    rows = arange(queries, device=like.device).reshape((1, 1, queries, 1))
    return arange(keys, device=like.device).reshape((1, 1, 1, keys)) <= rows


def combined(masks: Iterable[Tensor], like: Tensor) -> Tensor | None:
    """Return one mask that asks for all: boolean (True keeps) if all are, else floating."""
    masks = list(masks)
    if not masks:
        return None
    if any(m.dtype.is_floating for m in masks):
        masks = [additive(m, like) for m in masks]
    found = masks[0]
    for other in masks[1:]:
        found = found + other if found.dtype.is_floating else logical_and(found, other)
    return found


def additive(mask: Tensor, like: Tensor) -> Tensor:
    """Return a mask as numbers to add to the scores: ``-inf`` where a boolean one blocks."""
    if mask.dtype.is_floating:
        return mask
    zero = like.new_zeros(())
    return where(mask, zero, zero - math.inf)


def prosody_bias(prosody: Any, weight: Tensor, strength: float, keys: tuple[int, int]) -> Tensor:
    """Return ``strength * prosody @ weight^T`` as a mask of the heads and keys, (N, H, 1, S).

    `prosody` is (N, S, P), or (N, P) for the same at every key; `weight` is (H, P), and `keys` is (N, S).
    """
    p = prosody if isinstance(prosody, Tensor) else as_tensor(prosody, weight)
    width = weight.shape[1]
    if tuple(p.shape) not in ((*keys, width), (keys[0], width)):
        raise ShapeError(
            f"prosody: expected shape {(*keys, width)} or {(keys[0], width)}; received {tuple(p.shape)}."
        )
    p = p if p.ndim == 3 else p.unsqueeze(1)
    return (p @ weight.transpose(0, 1) * strength).transpose(1, 2).unsqueeze(2)


def weights_of(scores: Tensor, mask: Tensor | None, is_causal: bool) -> Tensor:
    """Return the softmax over the keys; a query that sees none has weights of zero, in the gradients too."""
    if scores.shape[3] == 0:
        return scores
    if is_causal:
        seen = causal(scores.shape[2], scores.shape[3], scores)
        mask = combined([seen] if mask is None else [seen, mask], scores)
    if mask is None:
        return scores.softmax(-1)
    added = additive(mask, scores)
    seen = any_((added.detach() > -math.inf), axis=-1, keepdims=True)
    # A blind row is replaced before the softmax, since 0 * NaN would be NaN on the way back.
    raised = where(seen, scores + added.to(scores.dtype), scores.new_zeros(()))
    return where(seen, raised.softmax(-1), scores.new_zeros(()))
