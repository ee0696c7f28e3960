"""Connectionist temporal classification (Graves et al. 2006): the alpha recursion in log space."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from grilly_core.errors import ShapeError
from grilly_core.functional._arguments import TensorLike, reduced, tensor
from grilly_core.ops.manipulate import concat
from grilly_core.ops.primitives import where
from grilly_core.tensor import Tensor

__all__ = ["ctc_loss"]

#: Stands for the logarithm of 0: -inf would leave ``inf - inf`` in the gradients.
NEVER = -1e30


def _lengths(value: Any, n: int, name: str) -> list[int]:
    found = [int(v) for v in np.asarray(tensor(value).detach().to("cpu").numpy()).reshape(-1)]
    if len(found) != n or min(found, default=0) < 0:
        raise ShapeError(f"ctc_loss: {name} needs {n} lengths of at least 0; received {found}.")
    return found


def _labels(targets: Tensor, lengths: list[int], blank: int, classes: int) -> np.ndarray[Any, Any]:
    """Blanks and labels in turn, ``(N, 2 S + 1)``; rows are filled with blanks."""
    given = np.asarray(targets.detach().to("cpu").numpy())
    n, longest = len(lengths), max(lengths, default=0)
    if given.ndim == 2 and (given.shape[0] != n or given.shape[1] < longest):
        raise ShapeError(f"ctc_loss: targets must be ({n}, at least {longest}); received {given.shape}.")
    if given.ndim == 1 and given.size < sum(lengths):
        raise ShapeError(f"ctc_loss: {sum(lengths)} targets are asked for; received {given.size}.")
    labels = np.full((n, 2 * longest + 1), blank, dtype=np.int32)
    start = 0
    for i, length in enumerate(lengths):
        row = given[i, :length] if given.ndim == 2 else given[start : start + length]
        start += length
        if length and (row.min() < 0 or row.max() >= classes):
            raise IndexError(f"ctc_loss: targets must be from 0 to {classes - 1}; received {row.tolist()}.")
        labels[i, 1 : 2 * length : 2] = row
    return labels


def _log_likelihood(x: Tensor, labels: np.ndarray[Any, Any], frames: list[int], lengths: list[int]) -> Tensor:
    """Log-probability of each row's labels, `NEVER` or less where there is no path."""
    n, states = labels.shape
    at = np.arange(states)[None]
    skips = np.zeros(labels.shape, dtype=bool)  # past the blank between two labels that differ
    skips[:, 3::2] = labels[:, 3::2] != labels[:, 1:-2:2]
    may_skip, index = tensor(skips, like=x), tensor(labels, like=x)
    edge = x.new_full((n, min(2, states)), NEVER)
    alpha = where(
        tensor(np.broadcast_to(at == 0, labels.shape).copy(), like=x), 0.0, x.new_full(labels.shape, NEVER)
    )
    for t in range(max(frames, default=0)):
        ways = [alpha]
        if t == 0:
            start = np.broadcast_to(at == 1, labels.shape).copy()
            ways.append(where(tensor(start, like=x), 0.0, x.new_full(labels.shape, NEVER)))
        elif states > 1:
            one = concat([edge[:, :1], alpha[:, :-1]], axis=1)
            two = concat([edge, alpha[:, :-2]], axis=1)
            ways += [one, where(may_skip, two, NEVER)]
        top = ways[0].detach()
        for way in ways[1:]:
            top = top.maximum(way.detach())
        total = (ways[0] - top).exp()
        for way in ways[1:]:
            total = total + (way - top).exp()
        new = (top + total.log() + x[t].gather(1, index)).clamp(min=NEVER)
        runs = np.array([t < f for f in frames])[:, None]
        alpha = where(tensor(runs, like=x), new, alpha)
    last = np.array(lengths)[:, None] * 2
    # with no frames only the empty start is there, and its second state does not exist
    ends = (at == last) | (at == last - 1)
    final = where(tensor(ends, like=x), alpha, NEVER)
    return final.logsumexp(dim=1)


def ctc_loss(
    log_probs: TensorLike,
    targets: TensorLike,
    input_lengths: Any,
    target_lengths: Any,
    blank: int = 0,
    reduction: str = "mean",
    zero_infinity: bool = False,
) -> Tensor:
    """Minus the log-probability of label sequences, summed over all alignments with the frames.

    Parameters
    ----------
    log_probs : array_like, (T, N, C) or (T, C)
        Log-probabilities of the classes in each frame.
    targets : array_like of int, (N, S) or (sum of target_lengths,)
        Labels, padded or one row after the other.
    input_lengths, target_lengths : array_like of int, (N,) or ()
    blank : int
        The class that separates labels.
    reduction : {"mean", "sum", "none"}
        The mean divides every loss by the length of its target (at least 1) first.
    zero_infinity : bool
        Losses of targets that do not fit into their frames become 0.

    Notes
    -----
    The gradient of `log_probs` is the derivative itself, minus the expected counts, and 0 for targets that do not
    fit. PyTorch adds ``exp(log_probs)``, which a log-softmax before the loss takes away: gradients of the logits agree.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> x = grilly.functional.log_softmax(grilly.zeros((2, 1, 2)), -1)
    >>> round(grilly.functional.ctc_loss(x, grilly.tensor([[1]]), [2], [1]).item(), 4)  # 3 of 4 alignments
    0.2877
    """
    x = tensor(log_probs)
    if x.ndim not in (2, 3):
        raise ShapeError(f"ctc_loss: expected log_probs (T, N, C) or (T, C); received {tuple(x.shape)}.")
    alone = x.ndim == 2
    x = x.unsqueeze(1) if alone else x
    frames_there, n, classes = x.shape
    if not 0 <= blank < classes:
        raise ValueError(f"ctc_loss: blank must be a class from 0 to {classes - 1}; received {blank}.")
    frames = _lengths(input_lengths, n, "input_lengths")
    lengths = _lengths(target_lengths, n, "target_lengths")
    if max(frames, default=0) > frames_there:
        raise ShapeError(f"ctc_loss: input_lengths {frames} go beyond the {frames_there} frames.")
    y = tensor(targets, like=x)
    if not y.dtype.is_integer or y.ndim not in (1, 2):
        raise ShapeError(
            f"ctc_loss: targets must be integers, (N, S) or (S,); received {y.dtype.name} {y.shape}."
        )
    work = x.float() if x.dtype.itemsize < 4 else x
    likely = _log_likelihood(work, _labels(y, lengths, blank, classes), frames, lengths)
    losses = where(likely <= 0.5 * NEVER, 0.0 if zero_infinity else math.inf, -likely).to(x.dtype)
    if reduction == "mean":
        return (losses / tensor(np.maximum(lengths, 1).astype(np.float32), like=x).to(x.dtype)).mean()
    return reduced(losses.squeeze(0) if alone else losses, reduction)
