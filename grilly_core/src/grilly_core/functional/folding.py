"""Windows of an image as columns, and columns added up to an image."""

from __future__ import annotations

import math

from grilly_core.errors import ShapeError
from grilly_core.functional._arguments import Size, TensorLike, batched, per_axis, tensor
from grilly_core.ops._windows import padded
from grilly_core.ops.nn_conv import conv_output_size
from grilly_core.ops.views import fold_windows, permute_dims, sliding_window
from grilly_core.tensor import Tensor

__all__ = ["fold", "unfold"]

_AXES = (2, 3)


def _geometry(
    kernel_size: Size, dilation: Size, padding: Size, stride: Size
) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    return (
        per_axis(kernel_size, 2, "kernel_size"), per_axis(dilation, 2, "dilation"),
        per_axis(padding, 2, "padding", 0), per_axis(stride, 2, "stride"),
    )  # fmt: skip


def unfold(
    input: TensorLike, kernel_size: Size, dilation: Size = 1, padding: Size = 0, stride: Size = 1
) -> Tensor:
    """Return each window as a column: ``(N, C, H, W)`` to ``(N, C * kernel, windows)``.

    Parameters
    ----------
    input : array_like, (N, C, H, W) or (C, H, W)
    kernel_size, dilation, padding, stride : int or pair of int

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.functional.unfold(grilly.ones((1, 3, 5, 5)), 2).shape
    (1, 12, 16)
    """
    x, added = batched(tensor(input), 2, "unfold")
    kernel, holes, pads, steps = _geometry(kernel_size, dilation, padding, stride)
    sizes = tuple(
        conv_output_size(n, k, s, (p, p), d)
        for n, k, s, p, d in zip(x.shape[2:], kernel, steps, pads, holes, strict=True)
    )
    if any(n < 1 for n in sizes):
        raise ShapeError(f"unfold: the kernel {kernel} does not fit the input of shape {tuple(x.shape)}.")
    wide = padded(x, tuple((p, p) for p in pads))
    w = sliding_window(wide, axes=_AXES, sizes=kernel, strides=steps, dilations=holes)
    columns = permute_dims(w, axes=(0, 1, 4, 5, 2, 3)).reshape(
        (x.shape[0], x.shape[1] * math.prod(kernel), math.prod(sizes))
    )
    return columns.squeeze(0) if added else columns


def fold(
    input: TensorLike, output_size: Size, kernel_size: Size, dilation: Size = 1, padding: Size = 0, stride: Size = 1
) -> Tensor:  # fmt: skip
    """Add columns up to an image, each where `unfold` takes it from: ``(N, C * kernel, windows)`` to ``(N, C, H, W)``.

    Parameters
    ----------
    input : array_like, (N, C * kernel, windows) or (C * kernel, windows)
    output_size : int or pair of int
        Height and width of the image.
    kernel_size, dilation, padding, stride : int or pair of int

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.functional.fold(grilly.ones((1, 4, 4)), 3, 2).tolist()
    [[[[1.0, 2.0, 1.0], [2.0, 4.0, 2.0], [1.0, 2.0, 1.0]]]]
    """
    x, added = batched(tensor(input), 1, "fold")
    kernel, holes, pads, steps = _geometry(kernel_size, dilation, padding, stride)
    size = per_axis(output_size, 2, "output_size")
    count = tuple(
        conv_output_size(n, k, s, (p, p), d)
        for n, k, s, p, d in zip(size, kernel, steps, pads, holes, strict=True)
    )
    area = math.prod(kernel)
    if any(n < 1 for n in count) or x.shape[1] % area or x.shape[2] != math.prod(count):
        raise ShapeError(
            f"fold: an image of {size} has {count} windows of {kernel}, so the input must be (N, C * {area}, "
            f"{math.prod(count)}); received shape {tuple(x.shape)}."
        )
    channels = x.shape[1] // area
    parts = x.reshape((x.shape[0], channels, *kernel, *count))
    wide = tuple(n + 2 * p for n, p in zip(size, pads, strict=True))
    image = fold_windows(
        permute_dims(parts, axes=(0, 1, 4, 5, 2, 3)), shape=(x.shape[0], channels, *wide), axes=_AXES, sizes=kernel,
        strides=steps, dilations=holes,
    )  # fmt: skip
    image = padded(image, tuple((-p, -p) for p in pads))
    return image.squeeze(0) if added else image
