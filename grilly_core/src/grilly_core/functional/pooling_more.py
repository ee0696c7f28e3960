"""Pooling that undoes, generalises or randomises the plain kind."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from grilly_core.errors import ShapeError
from grilly_core.functional._arguments import Size, TensorLike, batched, per_axis, tensor
from grilly_core.functional.pooling import avg_pool1d, avg_pool2d, avg_pool3d
from grilly_core.ops import nn as ops
from grilly_core.ops import random
from grilly_core.ops.creation import arange
from grilly_core.ops.index import take_along_axis
from grilly_core.ops.primitives import argmax, floor, where
from grilly_core.random import Generator
from grilly_core.tensor import Tensor

__all__ = [
    "fractional_max_pool2d", "fractional_max_pool3d", "lp_pool1d", "lp_pool2d", "lp_pool3d", "max_unpool1d",
    "max_unpool2d", "max_unpool3d",
]  # fmt: skip


def _unpool(
    axes: int, input: Any, indices: Any, kernel_size: Size, stride: Size | None, padding: Size,
    output_size: Sequence[int] | None,
) -> Tensor:  # fmt: skip
    name = f"max_unpool{axes}d"
    x, added = batched(tensor(input), axes, name)
    index, _ = batched(tensor(indices), axes, name)
    kernel = per_axis(kernel_size, axes, "kernel_size")
    steps = kernel if stride is None else per_axis(stride, axes, "stride")
    pads = per_axis(padding, axes, "padding", 0)
    usual = tuple(
        (n - 1) * s + k - 2 * p for n, s, k, p in zip(x.shape[2:], steps, kernel, pads, strict=True)
    )
    sizes = usual if output_size is None else tuple(output_size)[-axes:]
    if len(sizes) != axes or any(abs(n - u) >= s for n, u, s in zip(sizes, usual, steps, strict=True)):
        raise ShapeError(
            f"{name}: output_size must be less than the stride {steps} away from {usual}; received {output_size}."
        )
    y = ops.max_unpool(x, index, output_size=sizes)
    return y.squeeze(0) if added else y


def max_unpool1d(
    input: TensorLike, indices: TensorLike, kernel_size: Size, stride: Size | None = None, padding: Size = 0,
    output_size: Sequence[int] | None = None,
) -> Tensor:  # fmt: skip
    """Put maxima back where `max_pool1d` took them from, among zeros.

    Parameters
    ----------
    input : array_like, (N, C, L) or (C, L)
    indices : array_like of int
        What `max_pool1d` with ``return_indices=True`` gave.
    kernel_size, stride, padding : int
        As in the pooling.
    output_size : sequence of int, optional
        The size before the pooling, where it is not the smallest that gives this one.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> y, index = grilly.functional.max_pool1d(grilly.tensor([[1.0, 2.0, 4.0, 3.0]]), 2, return_indices=True)
    >>> grilly.functional.max_unpool1d(y, index, 2).tolist()
    [[0.0, 2.0, 4.0, 0.0]]
    """
    return _unpool(1, input, indices, kernel_size, stride, padding, output_size)


def max_unpool2d(
    input: TensorLike, indices: TensorLike, kernel_size: Size, stride: Size | None = None, padding: Size = 0,
    output_size: Sequence[int] | None = None,
) -> Tensor:  # fmt: skip
    """Put maxima back where `max_pool2d` took them from; see `max_unpool1d`.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> y, index = grilly.functional.max_pool2d(grilly.ones((1, 4, 4)), 2, return_indices=True)
    >>> grilly.functional.max_unpool2d(y, index, 2).sum().item()
    4.0
    """
    return _unpool(2, input, indices, kernel_size, stride, padding, output_size)


def max_unpool3d(
    input: TensorLike, indices: TensorLike, kernel_size: Size, stride: Size | None = None, padding: Size = 0,
    output_size: Sequence[int] | None = None,
) -> Tensor:  # fmt: skip
    """Put maxima back where `max_pool3d` took them from; see `max_unpool1d`.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> y, index = grilly.functional.max_pool3d(grilly.ones((1, 4, 4, 4)), 2, return_indices=True)
    >>> grilly.functional.max_unpool3d(y, index, 2).sum().item()
    8.0
    """
    return _unpool(3, input, indices, kernel_size, stride, padding, output_size)


def _lp_pool(
    axes: int, input: Any, norm_type: float, kernel_size: Size, stride: Size | None, ceil_mode: bool
) -> Tensor:
    pool = (avg_pool1d, avg_pool2d, avg_pool3d)[axes - 1]
    count = 1
    for k in per_axis(kernel_size, axes, "kernel_size"):
        count *= k
    mean = pool(tensor(input) ** float(norm_type), kernel_size, stride, 0, ceil_mode)
    # A sum below 0 (odd powers) gives 0 under the root, as in PyTorch.
    total: Tensor = mean.sign() * ops.relu(mean.abs()) * float(count)
    return total ** (1.0 / float(norm_type))


def lp_pool1d(
    input: TensorLike, norm_type: float, kernel_size: Size, stride: Size | None = None, ceil_mode: bool = False
) -> Tensor:  # fmt: skip
    """Return ``sum(x ** p) ** (1 / p)`` of each window along one axis.

    Parameters
    ----------
    input : array_like, (N, C, L) or (C, L)
    norm_type : float
        The power p: 1 gives sums, large ones come close to maxima.
    kernel_size : int
    stride : int, optional
        The kernel size if not given.
    ceil_mode : bool

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.functional.lp_pool1d(grilly.tensor([[3.0, 4.0]]), 2, 2).tolist()
    [[5.0]]
    """
    return _lp_pool(1, input, norm_type, kernel_size, stride, ceil_mode)


def lp_pool2d(
    input: TensorLike, norm_type: float, kernel_size: Size, stride: Size | None = None, ceil_mode: bool = False
) -> Tensor:  # fmt: skip
    """Return ``sum(x ** p) ** (1 / p)`` of each window along two axes; see `lp_pool1d`.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.functional.lp_pool2d(grilly.ones((1, 2, 2)), 2, 2).tolist()
    [[[2.0]]]
    """
    return _lp_pool(2, input, norm_type, kernel_size, stride, ceil_mode)


def lp_pool3d(
    input: TensorLike, norm_type: float, kernel_size: Size, stride: Size | None = None, ceil_mode: bool = False
) -> Tensor:  # fmt: skip
    """Return ``sum(x ** p) ** (1 / p)`` of each window along three axes; see `lp_pool1d`.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.functional.lp_pool3d(grilly.ones((1, 2, 2, 2)), 1, 2).tolist()
    [[[[8.0]]]]
    """
    return _lp_pool(3, input, norm_type, kernel_size, stride, ceil_mode)


def _starts(samples: Tensor, size: int, kernel: int, count: int) -> Tensor:
    """Return where windows start, ``(N, C, count)``: steps of the mean width, shifted by a random part of one."""
    last = size - kernel
    places = arange(count, dtype=samples.dtype, device=samples.device)
    width = last / (count - 1) if count > 1 else 0.0
    shift = samples.unsqueeze(-1)
    starts = floor((places + shift) * width) - floor(shift * width)
    at_the_end: Tensor = where(places == count - 1, float(last), starts)
    return at_the_end.to("int32")


def _fractional(
    axes: int, input: Any, kernel_size: Size, output_size: Any, output_ratio: Any, return_indices: bool, samples: Any,
    rng: Generator | None,
) -> Any:  # fmt: skip
    name = f"fractional_max_pool{axes}d"
    x, added = batched(tensor(input), axes, name)
    kernel = per_axis(kernel_size, axes, "kernel_size")
    if (output_size is None) == (output_ratio is None):
        raise ValueError(f"{name}: give either output_size or output_ratio.")
    if output_size is None:
        ratios = (output_ratio,) * axes if isinstance(output_ratio, int | float) else tuple(output_ratio)
        if any(not 0 < r < 1 for r in ratios):
            raise ValueError(f"{name}: output_ratio must lie between 0 and 1; received {output_ratio}.")
        output_size = tuple(int(n * r) for n, r in zip(x.shape[2:], ratios, strict=True))
    sizes = per_axis(output_size, axes, "output_size")
    if any(out + k - 1 > n for out, k, n in zip(sizes, kernel, x.shape[2:], strict=True)):
        raise ShapeError(f"{name}: {sizes} windows of {kernel} do not fit the input's {tuple(x.shape[2:])}.")
    if samples is None:
        samples = random.rand(*x.shape[:2], axes, dtype=x.dtype, device=x.device, rng=rng)
    drawn = tensor(samples, like=x)
    if tuple(drawn.shape) != (*x.shape[:2], axes):
        raise ShapeError(f"{name}: samples must be {(*x.shape[:2], axes)}; received {tuple(drawn.shape)}.")
    y, index = _windows_at(x, drawn, kernel, sizes)
    if added:
        y, index = y.squeeze(0), index.squeeze(0)
    return (y, index) if return_indices else y


def _windows_at(
    x: Tensor, samples: Tensor, kernel: tuple[int, ...], sizes: tuple[int, ...]
) -> tuple[Tensor, Tensor]:
    axes, planes = len(kernel), tuple(x.shape[:2])
    index: Any = 0
    for i, (n, k, count) in enumerate(zip(x.shape[2:], kernel, sizes, strict=True)):
        starts = _starts(samples[:, :, i if axes == 3 else 1 - i], n, k, count)
        at = starts.unsqueeze(-1) + arange(k, dtype="int32", device=x.device)  # (N, C, count, k)
        shape = [1] * (2 * axes)
        shape[i], shape[axes + i] = count, k
        index = index * n + at.reshape((*planes, *shape))
    places = index.reshape((*planes, -1))
    values = take_along_axis(x.reshape((*planes, -1)), places, axis=2).reshape((*planes, *sizes, -1))
    best = argmax(values, axis=values.ndim - 1, keepdims=True)
    picked = take_along_axis(values, best, axis=values.ndim - 1).squeeze(-1)
    return picked, take_along_axis(places.reshape(values.shape), best, axis=values.ndim - 1).squeeze(-1)


def fractional_max_pool2d(
    input: TensorLike, kernel_size: Size, output_size: Size | None = None, output_ratio: Any = None,
    return_indices: bool = False, _random_samples: TensorLike | None = None, *, rng: Generator | None = None,
) -> Any:  # fmt: skip
    """Return the maximum of windows at random, evenly spread places (Graham 2014).

    Parameters
    ----------
    input : array_like, (N, C, H, W) or (C, H, W)
    kernel_size : int or pair of int
    output_size : int or pair of int, optional
    output_ratio : float or pair of float, optional
        The size as a part of the input's; give this or `output_size`.
    return_indices : bool
        Also return where each maximum was.
    _random_samples : array_like, (N, C, 2), optional
        Numbers from 0 to 1 that choose the places, instead of random ones.
    rng : Generator, optional

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.functional.fractional_max_pool2d(grilly.ones((1, 7, 7)), 2, output_size=4).shape
    (1, 4, 4)
    """
    return _fractional(2, input, kernel_size, output_size, output_ratio, return_indices, _random_samples, rng)


def fractional_max_pool3d(
    input: TensorLike, kernel_size: Size, output_size: Size | None = None, output_ratio: Any = None,
    return_indices: bool = False, _random_samples: TensorLike | None = None, *, rng: Generator | None = None,
) -> Any:  # fmt: skip
    """Return the maximum of windows at random places along three axes; see `fractional_max_pool2d`.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.functional.fractional_max_pool3d(grilly.ones((1, 7, 7, 7)), 2, output_ratio=0.5).shape
    (1, 3, 3, 3)
    """
    return _fractional(3, input, kernel_size, output_size, output_ratio, return_indices, _random_samples, rng)
