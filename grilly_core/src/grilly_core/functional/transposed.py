"""Transposed convolutions: the gradient of a convolution in its input, as a layer of its own."""

from __future__ import annotations

from typing import Any

from grilly_core.errors import ShapeError
from grilly_core.functional._arguments import Size, TensorLike, batched, per_axis, tensor
from grilly_core.ops import nn as ops
from grilly_core.ops.structure import pad
from grilly_core.tensor import Tensor

__all__ = ["conv_transpose1d", "conv_transpose2d", "conv_transpose3d"]


def _check(x: Tensor, weight: Tensor, bias: Tensor | None, groups: int, name: str) -> None:
    if weight.ndim != x.ndim or x.shape[1] != weight.shape[0] or groups < 1 or weight.shape[0] % groups:
        raise ShapeError(
            f"{name}: expected a weight (C, O / groups, ...) of {x.ndim} axes for an input (N, C, ...), with "
            f"groups={groups} dividing C; received shapes {tuple(weight.shape)} and {tuple(x.shape)}."
        )
    if bias is not None and tuple(bias.shape) != (weight.shape[1] * groups,):
        raise ShapeError(
            f"{name}: bias must have shape ({weight.shape[1] * groups},); received {tuple(bias.shape)}."
        )


def _transposed(
    axes: int, input: Any, weight: Any, bias: Any, stride: Size, padding: Size, output_padding: Size, groups: int,
    dilation: Size,
) -> Tensor:  # fmt: skip
    name = f"conv_transpose{axes}d"
    x, added = batched(tensor(input), axes, name)
    w, b = tensor(weight, like=x), None if bias is None else tensor(bias, like=x)
    _check(x, w, b, groups, name)
    steps, holes = per_axis(stride, axes, "stride"), per_axis(dilation, axes, "dilation")
    pads, extra = per_axis(padding, axes, "padding", 0), per_axis(output_padding, axes, "output_padding", 0)
    if any(e >= max(s, d) for e, s, d in zip(extra, steps, holes, strict=True)):
        raise ShapeError(
            f"{name}: output_padding must be smaller than stride or dilation; received {extra}, {steps} and {holes}."
        )
    # What output_padding adds is cut off less at the far side; beyond the last window there is nothing but zeros.
    ends = [(p, max(p - e, 0), max(e - p, 0)) for p, e in zip(pads, extra, strict=True)]
    sizes = tuple(
        (n - 1) * s + d * (k - 1) + 1 - low - high
        for n, s, d, k, (low, high, _) in zip(x.shape[2:], steps, holes, w.shape[2:], ends, strict=True)
    )
    if any(n < 1 for n in sizes):
        raise ShapeError(f"{name}: padding {pads} leaves nothing of the output; it would have shape {sizes}.")
    y = ops.conv_input_grad(
        x, w, input_shape=(x.shape[0], w.shape[1] * groups, *sizes), stride=steps,
        padding=tuple((low, high) for low, high, _ in ends), dilation=holes, groups=groups,
    )  # fmt: skip
    if any(rest for _, _, rest in ends):
        y = pad(y, widths=((0, 0), (0, 0), *((0, rest) for _, _, rest in ends)))
    if b is not None:
        y = y + b.reshape((-1, *(1,) * axes))
    return y.squeeze(0) if added else y


def conv_transpose1d(
    input: TensorLike,
    weight: TensorLike,
    bias: TensorLike | None = None,
    stride: Size = 1,
    padding: Size = 0,
    output_padding: Size = 0,
    groups: int = 1,
    dilation: Size = 1,
) -> Tensor:
    """Spread each element over the outputs that its window would have come from, along one axis.

    Parameters
    ----------
    input : array_like, (N, C, L) or (C, L)
    weight : array_like, (C, O / groups, K)
    bias : array_like, (O,), optional
    stride, dilation : int or sequence of int
    padding : int or sequence of int
        How much is cut off the result on both sides.
    output_padding : int or sequence of int
        How much less is cut off at the far side: it chooses among the sizes that a convolution maps to one.
    groups : int

    Examples
    --------
    >>> import grilly_core as grilly
    >>> x, w = grilly.tensor([[[1.0, 2.0]]]), grilly.tensor([[[1.0, 10.0]]])
    >>> grilly.functional.conv_transpose1d(x, w).tolist()
    [[[1.0, 12.0, 20.0]]]
    """
    return _transposed(1, input, weight, bias, stride, padding, output_padding, groups, dilation)


def conv_transpose2d(
    input: TensorLike,
    weight: TensorLike,
    bias: TensorLike | None = None,
    stride: Size = 1,
    padding: Size = 0,
    output_padding: Size = 0,
    groups: int = 1,
    dilation: Size = 1,
) -> Tensor:
    """Transposed convolution along two axes; see `conv_transpose1d`.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.functional.conv_transpose2d(grilly.ones((1, 2, 3, 3)), grilly.ones((2, 4, 2, 2)), stride=2).shape
    (1, 4, 6, 6)
    """
    return _transposed(2, input, weight, bias, stride, padding, output_padding, groups, dilation)


def conv_transpose3d(
    input: TensorLike,
    weight: TensorLike,
    bias: TensorLike | None = None,
    stride: Size = 1,
    padding: Size = 0,
    output_padding: Size = 0,
    groups: int = 1,
    dilation: Size = 1,
) -> Tensor:
    """Transposed convolution along three axes; see `conv_transpose1d`.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.functional.conv_transpose3d(grilly.ones((1, 2, 2, 2, 2)), grilly.ones((2, 1, 2, 2, 2))).shape
    (1, 1, 3, 3, 3)
    """
    return _transposed(3, input, weight, bias, stride, padding, output_padding, groups, dilation)
