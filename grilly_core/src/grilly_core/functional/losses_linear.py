"""Cross-entropy with the layer that makes its logits."""

from __future__ import annotations

import math

from grilly_core.errors import ShapeError
from grilly_core.functional._arguments import TensorLike, tensor
from grilly_core.functional.losses import cross_entropy
from grilly_core.ops.nn_conv import linear
from grilly_core.tensor import Tensor

__all__ = ["linear_cross_entropy"]


def linear_cross_entropy(
    input: TensorLike,
    linear_weight: TensorLike,
    target: TensorLike,
    *,
    linear_bias: TensorLike | None = None,
    weight: TensorLike | None = None,
    reduction: str = "mean",
    ignore_index: int | None = None,
    label_smoothing: float = 0.0,
) -> Tensor:
    """Cross-entropy of ``input @ linear_weight.T + linear_bias`` against classes or class probabilities.

    Parameters
    ----------
    input : array_like, (N, I) or (I,)
    linear_weight : array_like, (C, I) or (C, d1, ..., I)
        With further axes there is a prediction at each of ``(d1, ...)``.
    target : array_like
        Class indices ``(N, d1, ...)`` or probabilities ``(N, C, d1, ...)``, without N for an input ``(I,)``.
    linear_bias : array_like, (C, d1, ...), optional
    weight : array_like, (C,), optional
        Weight of each class.
    reduction : {"mean", "sum", "none"}
    ignore_index : int, optional
        Targets of this value count for nothing; None is -100. Only for class indices.
    label_smoothing : float

    Examples
    --------
    >>> import grilly_core as grilly
    >>> x, w = grilly.tensor([[2.0, 0.0]]), grilly.eye(2)
    >>> round(grilly.functional.linear_cross_entropy(x, w, grilly.tensor([0])).item(), 4)
    0.1269
    """
    x = tensor(input)
    w, t = tensor(linear_weight, like=x), tensor(target, like=x)
    if x.ndim not in (1, 2) or w.ndim < 2 or w.shape[-1] != x.shape[-1]:
        raise ShapeError(
            "linear_cross_entropy: expected an input (N, I) or (I,) and a weight (C, ..., I); received shapes "
            f"{tuple(x.shape)} and {tuple(w.shape)}."
        )
    if ignore_index is not None and t.dtype.is_floating:
        raise ValueError("linear_cross_entropy: ignore_index is for class indices, not for probabilities.")
    if x.ndim == 1 and w.ndim > 2:
        raise ShapeError(
            f"linear_cross_entropy: a weight of shape {tuple(w.shape)} needs an input (N, I); received "
            f"{tuple(x.shape)}."
        )
    outputs = tuple(w.shape[:-1])
    b = None if linear_bias is None else tensor(linear_bias, like=x)
    if b is not None and tuple(b.shape) != outputs:
        raise ShapeError(
            f"linear_cross_entropy: linear_bias must have shape {outputs}; received {tuple(b.shape)}."
        )
    count = math.prod(outputs)
    flat = linear(x, w.reshape((count, w.shape[-1])), None if b is None else b.reshape((count,)))
    return cross_entropy(
        flat.reshape((*x.shape[:-1], *outputs)), t, weight, -100 if ignore_index is None else ignore_index,
        reduction, label_smoothing,
    )  # fmt: skip
