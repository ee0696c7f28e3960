"""Contrastive losses: what belongs together is near, what does not is far."""

from __future__ import annotations

import numpy as np

from grilly_core.errors import DTypeError, ShapeError
from grilly_core.functional._arguments import TensorLike, reduced, tensor
from grilly_core.functional.layers import normalize
from grilly_core.functional.losses import cosine_similarity, cross_entropy
from grilly_core.ops import nn as nn_ops
from grilly_core.ops.primitives import where
from grilly_core.ops.structure import concat
from grilly_core.tensor import Tensor

__all__ = [
    "contrastive_loss", "info_nce_loss", "nt_xent_loss", "pair_contrastive_loss", "supervised_contrastive_loss",
]  # fmt: skip

#: In place of minus infinity: a row of nothing else still has a finite softmax.
_FAR = -1e30


def _vectors(value: TensorLike, name: str, like: Tensor | None = None) -> Tensor:
    x = tensor(value, like=like)
    if x.ndim != 2 or 0 in x.shape:
        raise ShapeError(f"{name}: expected vectors (N, D), at least one; received shape {tuple(x.shape)}.")
    return x


def _positive(temperature: float, name: str) -> None:
    if not temperature > 0:
        raise ValueError(f"{name}: temperature must be positive; received {temperature}.")


def _numbers(n: int, like: Tensor) -> Tensor:
    return tensor(np.arange(n, dtype=np.int32), like=like)


def info_nce_loss(
    anchor: TensorLike,
    positive: TensorLike,
    negative: TensorLike | None = None,
    temperature: float = 0.07,
    reduction: str = "mean",
    *,
    symmetric: bool = False,
) -> Tensor:
    """InfoNCE: cross-entropy of finding the positive among the negatives by cosine (van den Oord et al. 2018).

    Parameters
    ----------
    anchor, positive : array_like, (N, D)
        Row i of one belongs to row i of the other.
    negative : array_like, (N, K, D) or (K, D), optional
        Negatives of each anchor, or of all. Without them the other rows of `positive` are the negatives.
    temperature : float
        Cosines are divided by it.
    reduction : {"mean", "sum", "none"}
    symmetric : bool
        Half of it, and half of finding the anchor from its positive, as CLIP does. Only without `negative`.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> a = grilly.tensor([[1.0, 0.0], [0.0, 1.0]])
    >>> round(grilly.functional.info_nce_loss(a, a, temperature=1.0).item(), 4)
    0.3133
    """
    _positive(temperature, "info_nce_loss")
    a = _vectors(anchor, "info_nce_loss")
    p = _vectors(positive, "info_nce_loss", a)
    if a.shape != p.shape:
        raise ShapeError(
            "info_nce_loss: anchor and positive must have one shape; received "
            f"{tuple(a.shape)} and {tuple(p.shape)}."
        )
    if symmetric and negative is not None:
        raise ValueError("info_nce_loss: symmetric=True has no use for negatives of its own; leave one out.")
    a, p = normalize(a), normalize(p)
    if negative is not None:
        logits = _with_negatives(a, p, tensor(negative, like=a)) / temperature
        target = tensor(np.zeros(a.shape[0], np.int32), like=a)
        return cross_entropy(logits, target, reduction=reduction)
    logits, target = a @ p.T / temperature, _numbers(a.shape[0], a)
    losses = cross_entropy(logits, target, reduction=reduction)
    if symmetric:
        losses = 0.5 * (losses + cross_entropy(logits.T, target, reduction=reduction))
    return losses


def _with_negatives(a: Tensor, p: Tensor, negative: Tensor) -> Tensor:
    """Return the cosines of each anchor with its positive, in column 0, and with its negatives."""
    n, width = a.shape
    shape = tuple(negative.shape)
    if negative.ndim not in (2, 3) or shape[-1] != width or (negative.ndim == 3 and shape[0] != n):
        raise ShapeError(
            f"info_nce_loss: negative must be (K, {width}) or ({n}, K, {width}); received {tuple(shape)}."
        )
    others = normalize(negative, dim=-1)
    far = a @ others.T if negative.ndim == 2 else (others @ a.unsqueeze(2)).squeeze(2)
    return concat([(a * p).sum(dim=1, keepdim=True), far], axis=1)


def nt_xent_loss(
    input1: TensorLike, input2: TensorLike, temperature: float = 0.5, reduction: str = "mean"
) -> Tensor:
    """NT-Xent of SimCLR (Chen et al. 2020): each of 2N views finds its partner among the 2N - 1 others.

    Parameters
    ----------
    input1, input2 : array_like, (N, D)
        Two views of the same N things.
    temperature : float
        Cosines are divided by it.
    reduction : {"mean", "sum", "none"}
        ``"none"`` gives 2N losses, those of `input1` first.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> a = grilly.tensor([[1.0, 0.0], [0.0, 1.0]])
    >>> round(grilly.functional.nt_xent_loss(a, a, temperature=1.0).item(), 4)
    0.5514
    """
    _positive(temperature, "nt_xent_loss")
    a = _vectors(input1, "nt_xent_loss")
    b = _vectors(input2, "nt_xent_loss", a)
    if a.shape != b.shape:
        raise ShapeError(
            f"nt_xent_loss: both views must have one shape; received {tuple(a.shape)} and {tuple(b.shape)}."
        )
    n = a.shape[0]
    target = tensor(np.concatenate([np.arange(n, 2 * n), np.arange(n)]).astype(np.int32), like=a)
    logits = _between(concat([a, b], axis=0), temperature)
    return cross_entropy(logits, target, reduction=reduction)


def _between(x: Tensor, temperature: float) -> Tensor:
    """Return the scaled cosines of all pairs; nothing is its own partner."""
    units, at = normalize(x), _numbers(x.shape[0], x)
    return where(at.unsqueeze(1) == at, _FAR, units @ units.T / temperature)


def supervised_contrastive_loss(
    input: TensorLike, labels: TensorLike, temperature: float = 0.1, reduction: str = "mean"
) -> Tensor:
    """Supervised contrastive loss, the form with the sum outside of the logarithm (Khosla et al. 2020, L_out).

    Parameters
    ----------
    input : array_like, (N, D) or (N, V, D)
        Vectors, or V views of each thing.
    labels : array_like of int, (N,)
        Vectors with one label are positives of each other.
    temperature : float
        Cosines are divided by it.
    reduction : {"mean", "sum", "none"}
        A vector without positives counts for nothing: its loss is 0, and the mean is over the others. ``"none"``
        gives N V losses, the views of a thing together.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> x = grilly.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    >>> round(grilly.functional.supervised_contrastive_loss(x, grilly.tensor([0, 0, 1]), 1.0).item(), 4)
    0.3133
    """
    _positive(temperature, "supervised_contrastive_loss")
    x, y = _views(tensor(input), labels)
    n, at = x.shape[0], _numbers(x.shape[0], x)
    partners = (y.unsqueeze(1) == y) & (at.unsqueeze(1) != at)
    counts = partners.to(x.dtype).sum(dim=1)
    logp = nn_ops.log_softmax(_between(x, temperature), axis=-1)
    losses = -where(partners, logp, 0.0).sum(dim=1) / counts.clamp(min=1.0)
    if reduction == "mean":
        return losses.sum() / (counts > 0).to(x.dtype).sum().clamp(min=1.0)
    return reduced(losses.reshape((n,)), reduction)


def _views(x: Tensor, labels: TensorLike) -> tuple[Tensor, Tensor]:
    """Return all views as rows, and the label of each."""
    y = tensor(labels, like=x)
    if x.ndim not in (2, 3) or 0 in x.shape or tuple(y.shape) != tuple(x.shape[:1]):
        raise ShapeError(
            "supervised_contrastive_loss: expected vectors (N, D) or (N, V, D) and N labels; received shapes "
            f"{tuple(x.shape)} and {tuple(y.shape)}."
        )
    if not y.dtype.is_integer:
        raise DTypeError(f"supervised_contrastive_loss: labels must be integers; received {y.dtype.name}.")
    if x.ndim == 3:
        n, views, width = x.shape
        return x.reshape((n * views, width)), y.unsqueeze(1).expand((n, views)).reshape((n * views,))
    return x, y


def _distance(a: Tensor, b: Tensor, metric: str, name: str) -> Tensor:
    """Distance of each row from its partner; `euclidean` has gradient 0 where it is 0."""
    if metric == "cosine":
        return 1.0 - cosine_similarity(a, b, dim=-1)
    if metric != "euclidean":
        raise ValueError(f"{name}: distance_metric must be 'cosine' or 'euclidean'; received {metric!r}.")
    square = ((a - b) * (a - b)).sum(dim=-1)
    apart = square > 0
    return where(apart, where(apart, square, 1.0).sqrt(), 0.0)


def contrastive_loss(
    anchor: TensorLike,
    positive: TensorLike,
    negative: TensorLike | None = None,
    margin: float = 0.5,
    distance_metric: str = "cosine",
    reduction: str = "mean",
) -> Tensor:
    """``max(0, margin + d(anchor, positive) - d(anchor, negative))``; without negatives ``d(anchor, positive)**2``.

    Parameters
    ----------
    anchor, positive : array_like, (..., D)
    negative : array_like, (..., D), optional
    margin : float
    distance_metric : {"cosine", "euclidean"}
        ``"cosine"`` is ``1 - cos``.
    reduction : {"mean", "sum", "none"}

    Examples
    --------
    >>> import grilly_core as grilly
    >>> a, n = grilly.tensor([[1.0, 0.0]]), grilly.tensor([[0.0, 1.0]])
    >>> grilly.functional.contrastive_loss(a, n, a).item()
    1.5
    """
    if margin < 0:
        raise ValueError(f"contrastive_loss: margin must not be negative; received {margin}.")
    a = tensor(anchor)
    near = _distance(a, tensor(positive, like=a), distance_metric, "contrastive_loss")
    if negative is None:
        return reduced(near * near, reduction)
    far = _distance(a, tensor(negative, like=a), distance_metric, "contrastive_loss")
    return reduced(nn_ops.relu(margin + near - far), reduction)


def pair_contrastive_loss(
    input1: TensorLike,
    input2: TensorLike,
    target: TensorLike,
    margin: float = 1.0,
    distance_metric: str = "euclidean",
    reduction: str = "mean",
) -> Tensor:
    """Half the squared distance of similar pairs, half ``max(0, margin - d)**2`` of the others (Hadsell et al. 2006).

    Parameters
    ----------
    input1, input2 : array_like, (..., D)
    target : array_like, (...)
        1 for pairs that are similar, 0 for those that are not.
    margin : float
        Dissimilar pairs this far apart cost nothing.
    distance_metric : {"euclidean", "cosine"}
    reduction : {"mean", "sum", "none"}

    Examples
    --------
    >>> import grilly_core as grilly
    >>> a, b = grilly.zeros((2, 2)), grilly.tensor([[0.0, 0.5], [0.0, 0.5]])
    >>> grilly.functional.pair_contrastive_loss(a, b, grilly.tensor([1, 0]), reduction="none").tolist()
    [0.125, 0.125]
    """
    if margin < 0:
        raise ValueError(f"pair_contrastive_loss: margin must not be negative; received {margin}.")
    a = tensor(input1)
    d = _distance(a, tensor(input2, like=a), distance_metric, "pair_contrastive_loss")
    t = tensor(target, like=a).to(d.dtype)
    if t.shape != d.shape:
        raise ShapeError(
            f"pair_contrastive_loss: expected one target for each pair, shape {tuple(d.shape)}; received "
            f"{tuple(t.shape)}."
        )
    gap = nn_ops.relu(margin - d)
    return reduced(0.5 * (t * d * d + (1.0 - t) * gap * gap), reduction)
