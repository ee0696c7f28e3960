"""Sliding windows over spatial axes in NumPy: what convolution and pooling of any dimension share."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

__all__ = ["padded", "taps", "windows"]

Array = NDArray[Any]
Shape = tuple[int, ...]


def padded(x: Array, low: Shape, size: Shape, value: float) -> Array:
    """Return `x` with its spatial axes placed at `low` in axes of `size` filled with `value`.

    A negative `low`, or a `size` too small, cuts off what lies outside.
    """
    if not any(low) and tuple(size) == x.shape[2:]:
        return x
    result = np.full((*x.shape[:2], *size), value, x.dtype)
    target = tuple(slice(max(p, 0), max(p + n, 0)) for p, n in zip(low, x.shape[2:], strict=True))
    source = tuple(slice(max(-p, 0), max(m - p, 0)) for p, m in zip(low, size, strict=True))
    result[(slice(None), slice(None), *target)] = x[(slice(None), slice(None), *source)]
    return result


def windows(x: Array, kernel: Shape, stride: Shape, dilation: Shape, count: Shape) -> Array:
    """Return the view (N, C, *kernel, *count) of the windows of a padded input."""
    steps = x.strides[2:]
    shape = (*x.shape[:2], *kernel, *count)
    inner = tuple(s * d for s, d in zip(steps, dilation, strict=True))
    outer = tuple(s * t for s, t in zip(steps, stride, strict=True))
    return as_strided(x, shape, (*x.strides[:2], *inner, *outer), writeable=False)


def taps(kernel: Shape, stride: Shape, dilation: Shape, count: Shape) -> Any:
    """Yield, for each place in the window, its index and the slices of the padded input that it meets."""
    for place in np.ndindex(*kernel):
        starts = [p * d for p, d in zip(place, dilation, strict=True)]
        slices = tuple(
            slice(b, b + (n - 1) * s + 1, s) for b, n, s in zip(starts, count, stride, strict=True)
        )
        yield place, (slice(None), slice(None), *slices)
