"""Pooling: fixed windows, and windows that follow from a wanted output size."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, cast

from grilly_core.errors import ShapeError
from grilly_core.functional._arguments import Size, TensorLike, batched, per_axis, tensor
from grilly_core.ops import nn as ops
from grilly_core.ops.creation import asarray
from grilly_core.ops.manipulate import moveaxis
from grilly_core.ops.primitives import gather
from grilly_core.tensor import Tensor

__all__ = [
    "adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d", "adaptive_max_pool1d", "adaptive_max_pool2d",
    "adaptive_max_pool3d", "avg_pool1d", "avg_pool2d", "avg_pool3d", "max_pool1d", "max_pool2d", "max_pool3d",
]  # fmt: skip


def _geometry(
    x: Tensor,
    axes: int,
    kernel_size: Size,
    stride: Size | None,
    padding: Size,
    dilation: Size,
    ceil_mode: bool,
    name: str,
) -> dict[str, Any]:
    kernel = per_axis(kernel_size, axes, "kernel_size")
    steps = kernel if stride is None or stride == () else per_axis(stride, axes, "stride")
    pads, holes = per_axis(padding, axes, "padding", 0), per_axis(dilation, axes, "dilation")
    if any(2 * p > k for p, k in zip(pads, kernel, strict=True)):
        raise ShapeError(f"{name}: padding {pads} may be at most half of the kernel {kernel}.")
    sizes = tuple(
        ops.pool_output_size(n, k, s, p, d, ceil_mode)
        for n, k, s, p, d in zip(x.shape[2:], kernel, steps, pads, holes, strict=True)
    )
    if any(n < 1 for n in sizes):
        raise ShapeError(f"{name}: the kernel {kernel} does not fit the input of shape {tuple(x.shape)}.")
    both = tuple((p, p) for p in pads)
    return {"kernel": kernel, "stride": steps, "padding": both, "dilation": holes, "output_size": sizes}


def _max_pool(
    axes: int, input: Any, return_indices: bool, kernel_size: Size, stride: Size | None, padding: Size, dilation: Size,
    ceil_mode: bool,
) -> Any:  # fmt: skip
    name = f"max_pool{axes}d"
    x, added = batched(tensor(input), axes, name)
    geometry = _geometry(x, axes, kernel_size, stride, padding, dilation, ceil_mode, name)
    if return_indices:
        y, index = ops.max_pool_with_index(x, **geometry)
        return (y.squeeze(0), index.squeeze(0)) if added else (y, index)
    y = cast(Tensor, ops.max_pool(x, **geometry))
    return y.squeeze(0) if added else y


def max_pool1d(
    input: TensorLike,
    kernel_size: Size,
    stride: Size | None = None,
    padding: Size = 0,
    dilation: Size = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """Return the maximum of each window along one axis.

    Parameters
    ----------
    input : array_like, (N, C, L) or (C, L)
    kernel_size, dilation : int
    stride : int, optional
        The kernel size if not given.
    padding : int
        Places that count as minus infinity, on both sides; at most half the kernel.
    ceil_mode : bool
        Also keep a last window that hangs over the end, if it starts inside the input or its left padding.
    return_indices : bool
        Also return where each maximum was.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.functional.max_pool1d(grilly.tensor([[1.0, 2.0, 3.0, 4.0]]), 2).tolist()
    [[2.0, 4.0]]
    """
    return _max_pool(1, input, return_indices, kernel_size, stride, padding, dilation, ceil_mode)


def max_pool2d(
    input: TensorLike,
    kernel_size: Size,
    stride: Size | None = None,
    padding: Size = 0,
    dilation: Size = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """Return the maximum of each window along two axes; see `max_pool1d`.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.functional.max_pool2d(grilly.ones((1, 4, 4)), 2).shape
    (1, 2, 2)
    """
    return _max_pool(2, input, return_indices, kernel_size, stride, padding, dilation, ceil_mode)


def max_pool3d(
    input: TensorLike,
    kernel_size: Size,
    stride: Size | None = None,
    padding: Size = 0,
    dilation: Size = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """Return the maximum of each window along three axes; see `max_pool1d`.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.functional.max_pool3d(grilly.ones((1, 4, 4, 4)), 2).shape
    (1, 2, 2, 2)
    """
    return _max_pool(3, input, return_indices, kernel_size, stride, padding, dilation, ceil_mode)


def _avg_pool(
    axes: int, input: Any, kernel_size: Size, stride: Size | None, padding: Size, ceil_mode: bool,
    count_include_pad: bool, divisor_override: int | None,
) -> Tensor:  # fmt: skip
    name = f"avg_pool{axes}d"
    if divisor_override == 0:
        raise ValueError(f"{name}: divisor_override must not be 0.")
    x, added = batched(tensor(input), axes, name)
    how = _geometry(x, axes, kernel_size, stride, padding, 1, ceil_mode, name)
    del how["dilation"]
    y = ops.avg_pool(x, count_include_pad=count_include_pad, divisor_override=divisor_override, **how)
    return y.squeeze(0) if added else y


def avg_pool1d(
    input: TensorLike,
    kernel_size: Size,
    stride: Size | None = None,
    padding: Size = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Tensor:
    """Return the mean of each window along one axis; see `max_pool1d`.

    Parameters
    ----------
    input : array_like, (N, C, L) or (C, L)
    kernel_size, padding : int
    stride : int, optional
    ceil_mode : bool
    count_include_pad : bool
        Whether padding counts in the divisor.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.functional.avg_pool1d(grilly.tensor([[1.0, 3.0]]), 2).tolist()
    [[2.0]]
    """
    return _avg_pool(1, input, kernel_size, stride, padding, ceil_mode, count_include_pad, None)


def avg_pool2d(
    input: TensorLike,
    kernel_size: Size,
    stride: Size | None = None,
    padding: Size = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Tensor:
    """Return the mean of each window along two axes; `divisor_override` replaces the count. See `avg_pool1d`.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.functional.avg_pool2d(grilly.ones((1, 2, 2)), 2).tolist()
    [[[1.0]]]
    """
    return _avg_pool(2, input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)


def avg_pool3d(
    input: TensorLike,
    kernel_size: Size,
    stride: Size | None = None,
    padding: Size = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Tensor:
    """Return the mean of each window along three axes; `divisor_override` replaces the count. See `avg_pool1d`.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.functional.avg_pool3d(grilly.ones((1, 2, 2, 2)), 2).tolist()
    [[[[1.0]]]]
    """
    return _avg_pool(3, input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)


def _wanted(size: int | Sequence[int | None] | None, x: Tensor, axes: int, name: str) -> tuple[int, ...]:
    given = list(size) if isinstance(size, Sequence) else [size] * axes
    if len(given) != axes:
        raise ShapeError(f"{name}: output_size must be an integer or {axes} of them; received {size!r}.")
    return tuple(n if want is None else int(want) for want, n in zip(given, x.shape[2:], strict=True))


def _bins(size: int, count: int) -> list[tuple[int, int]]:
    """PyTorch's windows: they cover the axis and overlap by at most one element."""
    return [(i * size // count, -(-(i + 1) * size // count)) for i in range(count)]


def _even(x: Tensor, sizes: tuple[int, ...]) -> bool:
    return all(out > 0 and n % out == 0 for n, out in zip(x.shape[2:], sizes, strict=True))


def _adaptive(
    axes: int, input: Any, output_size: Any, name: str, even: Callable[..., Any], uneven: Callable[..., Any]
) -> Any:
    x, added = batched(tensor(input), axes, name)
    sizes = _wanted(output_size, x, axes, name)
    if _even(x, sizes):
        kernel = tuple(n // out for n, out in zip(x.shape[2:], sizes, strict=True))
        y = even(x, kernel)
    else:
        y = uneven(x, [_bins(n, out) for n, out in zip(x.shape[2:], sizes, strict=True)])
    if isinstance(y, tuple):
        return tuple(t.squeeze(0) for t in y) if added else y
    return y.squeeze(0) if added else y


def _mean_of_bins(x: Tensor, bins: list[list[tuple[int, int]]]) -> Tensor:
    """Average along one axis after the other, each as a product with a small constant matrix."""
    for axis, ranges in enumerate(bins, 2):
        rows = [
            [1.0 / (stop - start) if start <= i < stop else 0.0 for start, stop in ranges]
            for i in range(x.shape[axis])
        ]
        matrix = asarray(rows, dtype=x.dtype, device=x.device)
        x = moveaxis(moveaxis(x, axis, -1) @ matrix, -1, axis)
    return x


def _max_of_bins(x: Tensor, bins: list[list[tuple[int, int]]]) -> tuple[Tensor, Tensor]:
    """Lay the windows out side by side (repeating the last element of short ones), then pool them."""
    size = x.shape[2:]
    kernel, sources = [], []
    for axis, ranges in enumerate(bins, 2):
        width = max(stop - start for start, stop in ranges)
        source = [min(start + j, stop - 1) for start, stop in ranges for j in range(width)]
        x = gather(x, asarray(source, dtype="int32", device=x.device), axis=axis)
        kernel.append(width)
        sources.append(source)
    y, index = _pooled(x, tuple(kernel))
    return y, _original_index(index, x.shape[2:], size, sources)


def _pooled(x: Tensor, kernel: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    sizes = tuple(n // k for n, k in zip(x.shape[2:], kernel, strict=True))
    none, ones = ((0, 0),) * len(kernel), (1,) * len(kernel)
    return ops.max_pool_with_index(
        x, kernel=kernel, stride=kernel, padding=none, dilation=ones, output_size=sizes
    )


def _original_index(
    index: Tensor, laid_out: Sequence[int], size: Sequence[int], sources: list[list[int]]
) -> Tensor:
    result: Tensor | None = None
    for i, source in enumerate(sources):
        place = index // math.prod(laid_out[i + 1 :]) % laid_out[i]
        table = asarray(source, dtype="int32", device=index.device)
        at = gather(table, place.reshape((-1,)), axis=0).reshape(index.shape)
        result = at if result is None else result * size[i] + at
    return cast(Tensor, result)


def _adaptive_max(axes: int, input: Any, output_size: Any, return_indices: bool) -> Any:
    y, index = _adaptive(axes, input, output_size, f"adaptive_max_pool{axes}d", _pooled, _max_of_bins)
    return (y, index) if return_indices else y


def adaptive_avg_pool1d(input: TensorLike, output_size: Size | None) -> Tensor:
    """Average along one axis so that `output_size` windows come out.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.functional.adaptive_avg_pool1d(grilly.tensor([[1.0, 2.0, 3.0]]), 2).tolist()
    [[1.5, 2.5]]
    """
    return cast(
        Tensor,
        _adaptive(1, input, output_size, "adaptive_avg_pool1d", lambda x, k: avg_pool1d(x, k), _mean_of_bins),
    )


def adaptive_avg_pool2d(input: TensorLike, output_size: int | Sequence[int | None] | None) -> Tensor:
    """Average along two axes so that windows of `output_size` come out; None keeps an axis.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.functional.adaptive_avg_pool2d(grilly.ones((1, 5, 7)), (1, None)).shape
    (1, 1, 7)
    """
    return cast(
        Tensor,
        _adaptive(2, input, output_size, "adaptive_avg_pool2d", lambda x, k: avg_pool2d(x, k), _mean_of_bins),
    )


def adaptive_avg_pool3d(input: TensorLike, output_size: int | Sequence[int | None] | None) -> Tensor:
    """Average along three axes so that windows of `output_size` come out; None keeps an axis.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.functional.adaptive_avg_pool3d(grilly.ones((1, 5, 7, 3)), (1, None, 2)).shape
    (1, 1, 7, 2)
    """
    return cast(
        Tensor,
        _adaptive(3, input, output_size, "adaptive_avg_pool3d", lambda x, k: avg_pool3d(x, k), _mean_of_bins),
    )


def adaptive_max_pool1d(input: TensorLike, output_size: Size | None, return_indices: bool = False) -> Any:
    """Take maxima along one axis so that `output_size` windows come out.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.functional.adaptive_max_pool1d(grilly.tensor([[1.0, 3.0, 2.0]]), 2).tolist()
    [[3.0, 3.0]]
    """
    return _adaptive_max(1, input, output_size, return_indices)


def adaptive_max_pool2d(
    input: TensorLike, output_size: int | Sequence[int | None] | None, return_indices: bool = False
) -> Any:
    """Take maxima along two axes so that windows of `output_size` come out; None keeps an axis.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.functional.adaptive_max_pool2d(grilly.ones((1, 5, 7)), 2).shape
    (1, 2, 2)
    """
    return _adaptive_max(2, input, output_size, return_indices)


def adaptive_max_pool3d(
    input: TensorLike, output_size: int | Sequence[int | None] | None, return_indices: bool = False
) -> Any:
    """Take maxima along three axes so that windows of `output_size` come out; None keeps an axis.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.functional.adaptive_max_pool3d(grilly.ones((1, 5, 7, 3)), 2).shape
    (1, 2, 2, 2)
    """
    return _adaptive_max(3, input, output_size, return_indices)
