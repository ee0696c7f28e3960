"""Images at other resolutions and at given places, and channels turned into pixels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from grilly_core.errors import ShapeError
from grilly_core.functional._arguments import TensorLike, tensor
from grilly_core.functional.pooling import adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d
from grilly_core.ops import nn as ops
from grilly_core.ops.creation import asarray
from grilly_core.ops.manipulate import moveaxis
from grilly_core.ops.views import permute_dims
from grilly_core.tensor import Tensor

__all__ = [
    "affine_grid", "channel_shuffle", "grid_sample", "interpolate", "native_channel_shuffle", "pixel_shuffle",
    "pixel_unshuffle", "upsample", "upsample_bilinear", "upsample_nearest",
]  # fmt: skip

#: Mode → how many axes it works on, and what it is along one.
_MODES = {
    "linear": (1, "linear"),
    "bilinear": (2, "linear"),
    "bicubic": (2, "cubic"),
    "trilinear": (3, "linear"),
}
_AREA = {1: adaptive_avg_pool1d, 2: adaptive_avg_pool2d, 3: adaptive_avg_pool3d}


def interpolate(
    input: TensorLike,
    size: int | Sequence[int] | None = None,
    scale_factor: float | Sequence[float] | None = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> Tensor:
    """Change the resolution of ``(N, C, ...)`` with one to three spatial axes.

    Parameters
    ----------
    input : array_like, (N, C, L), (N, C, H, W) or (N, C, D, H, W)
    size : int or sequence of int, optional
        The new size; give this or `scale_factor`.
    scale_factor : float or sequence of float, optional
        By what the size is multiplied, rounded down.
    mode : str
        ``"nearest"`` (the element before), ``"nearest-exact"``, ``"area"``, and by the number of axes ``"linear"``,
        ``"bilinear"`` or ``"bicubic"``, ``"trilinear"``.
    align_corners : bool, optional
        Whether the first and last elements of the old and the new axis coincide (linear and cubic modes).
    recompute_scale_factor : bool, optional
        Whether positions follow from the rounded sizes instead of from `scale_factor` itself.
    antialias : bool
        Average over what falls between the elements when shrinking (``"bilinear"`` and ``"bicubic"``).

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.functional.interpolate(grilly.tensor([[[1.0, 3.0]]]), 4, mode="linear").tolist()
    [[[1.0, 1.5, 2.5, 3.0]]]
    """
    x = tensor(input)
    axes = x.ndim - 2
    if axes not in (1, 2, 3):
        raise ShapeError(
            f"interpolate: expected an input of 3 to 5 axes (N, C, ...); received {tuple(x.shape)}."
        )
    _check_mode(mode, axes, align_corners, antialias)
    sizes, factors = _sizes(x, axes, size, scale_factor, recompute_scale_factor)
    if mode == "area":
        return _AREA[axes](x, sizes)
    kind = _MODES.get(mode, (axes, mode))[1]
    for i, (new, factor) in enumerate(zip(sizes, factors, strict=True)):
        same = new == x.shape[2 + i] and not antialias
        if same and (kind == "linear" or (kind == "nearest" and axes > 1)):
            continue  # whatever the factor was, as in PyTorch
        step = _step(x.shape[2 + i], new, factor, bool(align_corners))
        if antialias:
            x = _antialiased(x, 2 + i, new, step, kind)
        else:
            x = ops.resample(
                x, axis=2 + i, size=new, scale=step, mode=kind, align_corners=bool(align_corners)
            )
    return x


def _check_mode(mode: str, axes: int, align_corners: bool | None, antialias: bool) -> None:
    if mode not in (*_MODES, "nearest", "nearest-exact", "area"):
        known = ", ".join(map(repr, ("nearest", "nearest-exact", "area", *_MODES)))
        raise ValueError(f"interpolate: mode is one of {known}; received {mode!r}.")
    if mode in _MODES and _MODES[mode][0] != axes:
        raise ValueError(
            f"interpolate: mode {mode!r} is for {_MODES[mode][0]} spatial axes; the input has {axes}."
        )
    if align_corners is not None and mode not in _MODES:
        raise ValueError(f"interpolate: align_corners has no meaning in mode {mode!r}.")
    if antialias and mode not in ("bilinear", "bicubic"):
        raise ValueError(f"interpolate: antialias is for 'bilinear' and 'bicubic'; mode is {mode!r}.")


def _sizes(
    x: Tensor, axes: int, size: Any, scale_factor: Any, recompute: bool | None
) -> tuple[tuple[int, ...], tuple[float | None, ...]]:
    """Return the new sizes, and the factors that positions follow from where they do."""
    if (size is None) == (scale_factor is None):
        raise ValueError("interpolate: give either size or scale_factor.")
    if size is not None:
        if recompute:
            raise ValueError("interpolate: recompute_scale_factor has no meaning where size is given.")
        sizes = (size,) * axes if isinstance(size, int) else tuple(size)
        if len(sizes) != axes or any(not isinstance(n, int) or n < 1 for n in sizes):
            raise ShapeError(f"interpolate: size must be {axes} positive integers; received {size!r}.")
        return sizes, (None,) * axes
    factors = (scale_factor,) * axes if isinstance(scale_factor, int | float) else tuple(scale_factor)
    if len(factors) != axes or any(f <= 0 for f in factors):
        raise ShapeError(
            f"interpolate: scale_factor must be {axes} positive numbers; received {scale_factor!r}."
        )
    sizes = tuple(math.floor(float(n) * f) for n, f in zip(x.shape[2:], factors, strict=True))
    if any(n < 1 for n in sizes):
        raise ShapeError(f"interpolate: scale_factor={scale_factor} leaves nothing of {tuple(x.shape[2:])}.")
    return sizes, (None,) * axes if recompute else tuple(map(float, factors))


def _step(old: int, new: int, factor: float | None, align_corners: bool) -> float:
    """Return how many old elements lie between two new ones."""
    if align_corners:
        return (old - 1) / (new - 1) if new > 1 else 0.0
    return 1.0 / factor if factor is not None else old / new


def _triangle(t: NDArray[Any]) -> NDArray[Any]:
    weights: NDArray[Any] = np.maximum(1.0 - np.abs(t), 0.0)
    return weights


def _cubic(t: NDArray[Any]) -> NDArray[Any]:
    t = np.abs(t)
    near, far = (1.5 * t - 2.5) * t * t + 1.0, ((-0.5 * t + 2.5) * t - 4.0) * t + 2.0
    weights: NDArray[Any] = np.where(t < 1.0, near, np.where(t < 2.0, far, 0.0))
    return weights


def _antialiased(x: Tensor, axis: int, size: int, step: float, kind: str) -> Tensor:
    """Multiply an axis with the matrix of a filter that is as wide as a step."""
    kernel, reach = (_triangle, 1.0) if kind == "linear" else (_cubic, 2.0)
    width = max(step, 1.0)
    old = x.shape[axis]
    matrix = np.zeros((old, size))
    for i in range(size):
        middle = step * (i + 0.5)
        start = max(int(middle - reach * width + 0.5), 0)
        stop = min(int(middle + reach * width + 0.5), old)
        weights = kernel((np.arange(start, stop) - middle + 0.5) / width)
        matrix[start:stop, i] = weights / weights.sum()
    product: Tensor = moveaxis(x, axis, -1) @ asarray(matrix, dtype=x.dtype, device=x.device)
    return moveaxis(product, -1, axis)


def upsample(input: TensorLike, size: Any = None, scale_factor: Any = None, mode: str = "nearest",
             align_corners: bool | None = None) -> Tensor:  # fmt: skip
    """Call `interpolate`, whose older name this is.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.functional.upsample(grilly.ones((1, 1, 2, 2)), scale_factor=2).shape
    (1, 1, 4, 4)
    """
    return interpolate(input, size, scale_factor, mode, align_corners)


def upsample_nearest(input: TensorLike, size: Any = None, scale_factor: Any = None) -> Tensor:
    """Call `interpolate` in mode ``"nearest"``.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.functional.upsample_nearest(grilly.tensor([[[1.0, 2.0]]]), 4).tolist()
    [[[1.0, 1.0, 2.0, 2.0]]]
    """
    return interpolate(input, size, scale_factor, "nearest")


def upsample_bilinear(input: TensorLike, size: Any = None, scale_factor: Any = None) -> Tensor:
    """Call `interpolate` in mode ``"bilinear"`` with corners aligned.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.functional.upsample_bilinear(grilly.ones((1, 1, 2, 2)), 3).shape
    (1, 1, 3, 3)
    """
    return interpolate(input, size, scale_factor, "bilinear", True)


def pixel_shuffle(input: TensorLike, upscale_factor: int) -> Tensor:
    """Turn channels into pixels: ``(..., C * r * r, H, W)`` to ``(..., C, H * r, W * r)``.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.functional.pixel_shuffle(grilly.arange(4.0).reshape((4, 1, 1)), 2).tolist()
    [[[0.0, 1.0], [2.0, 3.0]]]
    """
    x, r = tensor(input), upscale_factor
    if x.ndim < 3 or r < 1 or x.shape[-3] % (r * r):
        raise ShapeError(
            f"pixel_shuffle: the third axis from the end must be a multiple of {r}**2; received {tuple(x.shape)}."
        )
    *lead, c, h, w = x.shape
    n = len(lead)
    parts = x.reshape((*lead, c // (r * r), r, r, h, w))
    turned = permute_dims(parts, axes=(*range(n), n, n + 3, n + 1, n + 4, n + 2))
    return turned.reshape((*lead, c // (r * r), h * r, w * r))


def pixel_unshuffle(input: TensorLike, downscale_factor: int) -> Tensor:
    """Turn pixels into channels: ``(..., C, H * r, W * r)`` to ``(..., C * r * r, H, W)``.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.functional.pixel_unshuffle(grilly.ones((1, 4, 6)), 2).shape
    (4, 2, 3)
    """
    x, r = tensor(input), downscale_factor
    if x.ndim < 3 or r < 1 or x.shape[-2] % r or x.shape[-1] % r:
        raise ShapeError(
            f"pixel_unshuffle: height and width must be multiples of {r}; received shape {tuple(x.shape)}."
        )
    *lead, c, h, w = x.shape
    n = len(lead)
    parts = x.reshape((*lead, c, h // r, r, w // r, r))
    turned = permute_dims(parts, axes=(*range(n), n, n + 2, n + 4, n + 1, n + 3))
    return turned.reshape((*lead, c * r * r, h // r, w // r))


def channel_shuffle(input: TensorLike, groups: int) -> Tensor:
    """Deal the channels of ``(N, C, ...)`` out to groups, like cards.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.functional.channel_shuffle(grilly.arange(4.0).reshape((1, 4, 1)), 2).flatten().tolist()
    [0.0, 2.0, 1.0, 3.0]
    """
    x = tensor(input)
    if x.ndim < 3 or groups < 1 or x.shape[1] % groups:
        raise ShapeError(
            f"channel_shuffle: groups={groups} must divide axis 1 of an input (N, C, ...); received shape "
            f"{tuple(x.shape)}."
        )
    n, c, *rest = x.shape
    parts = x.reshape((n, groups, c // groups, *rest))
    return permute_dims(parts, axes=(0, 2, 1, *range(3, parts.ndim))).reshape(x.shape)


native_channel_shuffle = channel_shuffle


def affine_grid(theta: TensorLike, size: Sequence[int], align_corners: bool | None = None) -> Tensor:
    """Return the places that an affine map takes an image's pixels from, for `grid_sample`.

    Parameters
    ----------
    theta : array_like, (N, 2, 3) or (N, 3, 4)
    size : sequence of int
        The image's shape ``(N, C, H, W)`` or ``(N, C, D, H, W)``.
    align_corners : bool
        Whether -1 and 1 are the middles of the outer pixels, or their outer edges.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> theta = grilly.tensor([[[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]])
    >>> grilly.functional.affine_grid(theta, (1, 1, 1, 2), align_corners=True).tolist()
    [[[[-1.0, 0.0], [1.0, 0.0]]]]
    """
    t = tensor(theta)
    d = len(size) - 2
    if d not in (2, 3) or tuple(t.shape) != (size[0], d, d + 1) or any(n < 1 for n in size):
        raise ShapeError(
            f"affine_grid: expected theta (N, 2, 3) with a size (N, C, H, W), or (N, 3, 4) with (N, C, D, H, W); "
            f"received {tuple(t.shape)} and {tuple(size)}."
        )
    sides = [_coordinates(n, bool(align_corners)) for n in size[2:]]
    mesh = np.meshgrid(*sides, indexing="ij")
    base = np.stack([*reversed(mesh), np.ones(tuple(size[2:]))], axis=-1).reshape(1, -1, d + 1)
    places: Tensor = asarray(base, dtype=t.dtype, device=t.device) @ permute_dims(t, axes=(0, 2, 1))
    return places.reshape((size[0], *size[2:], d))


def _coordinates(n: int, align_corners: bool) -> NDArray[Any]:
    if n == 1:
        return np.zeros(1)
    ends = np.linspace(-1.0, 1.0, n)
    return ends if align_corners else ends * (n - 1) / n


def grid_sample(
    input: TensorLike,
    grid: TensorLike,
    mode: str = "bilinear",
    padding_mode: str = "zeros",
    align_corners: bool | None = None,
) -> Tensor:
    """Return the values of an image at the places of a grid.

    Parameters
    ----------
    input : array_like, (N, C, H, W) or (N, C, D, H, W)
    grid : array_like, (N, H', W', 2) or (N, D', H', W', 3)
        Places (x, y) or (x, y, z), from -1 to 1.
    mode : {"bilinear", "nearest", "bicubic"}
        Bicubic for images only.
    padding_mode : {"zeros", "border", "reflection"}
        What lies outside.
    align_corners : bool
        Whether -1 and 1 are the middles of the outer pixels, or their outer edges.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> image = grilly.tensor([[[[1.0, 3.0]]]])
    >>> grilly.functional.grid_sample(image, grilly.zeros((1, 1, 1, 2))).item()
    2.0
    """
    x = tensor(input)
    return ops.grid_sample(
        x, tensor(grid, like=x), mode=mode, padding_mode=padding_mode, align_corners=bool(align_corners)
    )
