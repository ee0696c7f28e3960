"""Normalisation of single images, and of channels by their neighbours."""

from __future__ import annotations

import math

from grilly_core.errors import ShapeError
from grilly_core.functional._arguments import TensorLike, tensor
from grilly_core.functional.layers import batch_norm
from grilly_core.ops.primitives import sum
from grilly_core.ops.structure import pad
from grilly_core.ops.views import sliding_window
from grilly_core.tensor import Tensor

__all__ = ["instance_norm", "local_response_norm"]


def instance_norm(
    input: TensorLike,
    running_mean: Tensor | None = None,
    running_var: Tensor | None = None,
    weight: TensorLike | None = None,
    bias: TensorLike | None = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """Normalise each channel of each sample, then scale and shift.

    Parameters
    ----------
    input : array_like, (N, C, ...)
    running_mean, running_var : Tensor, (C,), optional
        Moved towards the mean of the samples' statistics, or used where `use_input_stats` is False.
    weight, bias : array_like, (C,), optional
    use_input_stats : bool
    momentum : float
        How far the running statistics move.
    eps : float
        Added to the variance.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.functional.instance_norm(grilly.tensor([[[-2.0, 2.0]]]), eps=0.0).tolist()
    [[[-1.0, 1.0]]]
    """
    x = tensor(input)
    if x.ndim < 3:
        raise ShapeError(
            f"instance_norm: expected (N, C, ...) with a spatial axis; received {tuple(x.shape)}."
        )
    if not use_input_stats:
        return batch_norm(x, running_mean, running_var, weight, bias, False, momentum, eps)
    if math.prod(x.shape[2:]) == 1:
        raise ShapeError(
            f"instance_norm: statistics need more than one spatial element; received shape {tuple(x.shape)}."
        )
    n, c = x.shape[:2]
    joined = x.reshape((1, n * c, *x.shape[2:]))
    moving = [None if r is None else _repeated(r, n) for r in (running_mean, running_var)]
    y = batch_norm(joined, moving[0], moving[1], None, None, True, momentum, eps).reshape(x.shape)
    for running, moved in zip((running_mean, running_var), moving, strict=True):
        if running is not None and moved is not None:
            running.copy_(moved.reshape((n, c)).mean(dim=0))
    per_channel = (c, *(1,) * (x.ndim - 2))
    if weight is not None:
        y = y * tensor(weight, like=y).reshape(per_channel)
    return y if bias is None else y + tensor(bias, like=y).reshape(per_channel)


def _repeated(vector: Tensor, times: int) -> Tensor:
    """Return a cell of its own with a vector for each sample."""
    wide = vector.detach().unsqueeze(0).expand((times, vector.shape[0])).reshape((-1,))
    return Tensor(wide.clone()._value)


def local_response_norm(
    input: TensorLike, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0
) -> Tensor:
    """Divide each channel by ``(k + alpha * m) ** beta``, m being the mean square of `size` neighbouring channels.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.functional.local_response_norm(grilly.ones((1, 1, 1)), 1, alpha=3.0, beta=0.5).item()
    0.5
    """
    x = tensor(input)
    if x.ndim < 3:
        raise ShapeError(
            f"local_response_norm: expected 3 axes or more (N, C, ...); received {tuple(x.shape)}."
        )
    if size < 1:
        raise ShapeError(f"local_response_norm: size must be positive; received {size}.")
    if x.numel() == 0:
        return x
    widths = tuple((size // 2, (size - 1) // 2) if i == 1 else (0, 0) for i in range(x.ndim))
    squares = pad(x * x, widths=widths)
    near = sliding_window(squares, axes=(1,), sizes=(size,), strides=(1,), dilations=(1,))
    mean = sum(near, axis=-1) * (1.0 / size)
    return x / (mean * alpha + k) ** beta
