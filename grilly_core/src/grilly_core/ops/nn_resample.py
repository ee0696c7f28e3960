"""Values between the elements: an axis at another resolution, and images at given places.

Positions are PyTorch's. Without `align_corners` elements are cells and their values stand in the middle; with it the
first and last elements of the old and the new axis coincide.
"""

from __future__ import annotations

import math
from typing import Any

from grilly_core.dtypes import float32, float64, int32
from grilly_core.errors import ShapeError
from grilly_core.ops._typing import Samples
from grilly_core.ops._windows import Shape
from grilly_core.ops.primitives import abs, cast, floor, gather, iota, lt, maximum, minimum, where
from grilly_core.ops.views import permute_dims, reshape
from grilly_core.opspec import op
from grilly_core.tensor import Tensor

__all__ = ["grid_sample", "resample"]

_CUBIC = -0.75  # the free coefficient of the cubic kernel, as in PyTorch


def _taken(x: Tensor, at: Tensor, axis: int) -> Tensor:
    """Return the elements at positions clipped to the axis."""
    last = x.shape[axis] - 1
    result: Tensor = gather(x, cast(minimum(maximum(at, 0.0), float(last)), dtype=int32), axis=axis)
    return result


def _cubic_weights(t: Any) -> tuple[Any, Any, Any, Any]:
    """Return the weights of the elements -1, 0, 1 and 2 for a place `t` after element 0."""

    def near(s: Any) -> Any:  # up to 1 away
        return ((_CUBIC + 2.0) * s - (_CUBIC + 3.0)) * s * s + 1.0

    def far(s: Any) -> Any:  # from 1 to 2 away
        return ((_CUBIC * s - 5.0 * _CUBIC) * s + 8.0 * _CUBIC) * s - 4.0 * _CUBIC

    return far(t + 1.0), near(t), near(1.0 - t), far(2.0 - t)


@op("nn.resample")
def resample(
    x: Tensor, *, axis: int, size: int, scale: float, mode: str = "linear", align_corners: bool = False
) -> Tensor:
    """Return `x` with `size` elements along one axis; neighbouring results are `scale` old elements apart.

    `mode` is ``"nearest"`` (the element before), ``"nearest-exact"``, ``"linear"`` or ``"cubic"``.
    """
    if mode not in ("nearest", "nearest-exact", "linear", "cubic"):
        raise ValueError(
            f"resample: mode is 'nearest', 'nearest-exact', 'linear' or 'cubic'; received {mode!r}."
        )
    if size < 1 or x.shape[axis] < 1:
        raise ShapeError(f"resample: sizes must be at least 1; received {x.shape[axis]} to {size}.")
    nearest = mode.startswith("nearest")
    dtype = float64 if x.dtype is float64 and not nearest else float32
    place = iota(size=size, start=0, step=1, dtype=dtype)
    if nearest:
        return _taken(x, floor((place + 0.5) * scale if mode == "nearest-exact" else place * scale), axis)
    at = place * scale if align_corners else (place + 0.5) * scale - 0.5
    if mode == "linear":
        at = maximum(at, 0.0)
    first = floor(at)
    rest = reshape(cast(at - first, dtype=x.dtype), shape=(size, *(1,) * (x.ndim - 1 - axis)))
    if mode == "linear":
        low = _taken(x, first, axis)
        return low + rest * (_taken(x, first + 1.0, axis) - low)
    total: Any = 0.0
    for step, weight in zip((-1.0, 0.0, 1.0, 2.0), _cubic_weights(rest), strict=True):
        total = total + weight * _taken(x, first + step, axis)
    result: Tensor = total
    return result


@resample.samples
def _(s: Samples) -> None:
    s.case(s.f32(2, 5, 3), axis=1, size=8, scale=0.625)
    s.case(s.f32(2, 5), axis=1, size=3, scale=2.0, align_corners=True)
    s.case(s.f32(2, 5), axis=1, size=7, scale=5 / 7, mode="nearest")
    s.case(s.f32(2, 5), axis=1, size=7, scale=5 / 7, mode="nearest-exact")
    s.case(s.f32(2, 4, 3), axis=1, size=7, scale=4 / 7, mode="cubic")
    s.error(ValueError, "mode", s.f32(2, 5), axis=1, size=7, scale=1.0, mode="sinc")


def _position(g: Tensor, size: int, align_corners: bool) -> Tensor:
    """Turn coordinates from -1 to 1 into positions."""
    return (g + 1.0) * ((size - 1) / 2.0) if align_corners else ((g + 1.0) * size - 1.0) / 2.0


def _reflected(at: Tensor, low: float, high: float) -> Tensor:
    """Reflect positions at both ends until they lie between them."""
    span = high - low
    if span == 0:
        return at * 0.0
    away = abs(at - low)
    turns = floor(away / span)
    rest = away - turns * span
    even = floor(turns / 2.0) * 2.0
    return where(lt(even, turns), high - rest, rest + low)


def _inside(at: Tensor, size: int, padding_mode: str, align_corners: bool) -> Tensor:
    """Bring positions into the axis where the padding mode says so."""
    if padding_mode == "zeros":
        return at
    if padding_mode == "reflection":
        at = _reflected(at, 0.0, size - 1.0) if align_corners else _reflected(at, -0.5, size - 0.5)
    return minimum(maximum(at, 0.0), size - 1.0)


def _corner(rows: Tensor, places: list[Tensor], sizes: Shape, batch: int) -> Tensor:
    """Return the rows at whole positions, ``(batch * places, C)``, zeros where they are outside."""
    count = places[0].shape[1]
    index: Any = reshape(iota(size=batch, start=0, step=1, dtype=int32), shape=(batch, 1))
    outside: Any = False
    for at, size in zip(places, sizes, strict=True):
        kept = minimum(maximum(at, 0.0), size - 1.0)
        outside = (kept < at) | (at < kept) | outside
        index = index * size + cast(kept, dtype=int32)
    found = gather(rows, reshape(index, shape=(batch * count,)), axis=0)
    result: Tensor = where(reshape(outside, shape=(batch * count, 1)), 0.0, found)
    return result


def _neighbours(position: Tensor, mode: str) -> list[tuple[Tensor, Any]]:
    """Return whole positions round one, and their weights."""
    if mode == "nearest":
        low = floor(position)
        rest = position - low  # to the nearest, halves to the even one
        odd = lt(floor(low / 2.0) * 2.0, low)
        up = lt(0.5, rest) | ((rest >= 0.5) & odd)
        return [(where(up, low + 1.0, low), 1.0)]
    first = floor(position)
    rest = position - first
    if mode == "bilinear":
        return [(first, 1.0 - rest), (first + 1.0, rest)]
    return [(first + step, w) for step, w in zip((-1.0, 0.0, 1.0, 2.0), _cubic_weights(rest), strict=True)]


@op("nn.grid_sample")
def grid_sample(
    x: Tensor,
    grid: Tensor,
    *,
    mode: str = "bilinear",
    padding_mode: str = "zeros",
    align_corners: bool = False,
) -> Tensor:
    """Return the values of `x` ``(N, C, *S)`` at the places of `grid` ``(N, *O, d)``: ``(N, C, *O)``.

    A place is d coordinates from -1 to 1, the last axis first.
    """
    d = x.ndim - 2
    if d not in (2, 3) or grid.ndim != x.ndim or grid.shape[0] != x.shape[0] or grid.shape[-1] != d:
        raise ShapeError(
            "grid_sample: expected an input (N, C, H, W) with a grid (N, H', W', 2), or (N, C, D, H, W) with "
            f"(N, D', H', W', 3); received shapes {tuple(x.shape)} and {tuple(grid.shape)}."
        )
    if mode not in ("bilinear", "nearest", "bicubic") or (mode == "bicubic" and d == 3):
        raise ValueError(
            f"grid_sample: mode is 'bilinear', 'nearest', or for images 'bicubic'; received {mode!r}."
        )
    if padding_mode not in ("zeros", "border", "reflection"):
        raise ValueError(
            f"grid_sample: padding_mode is 'zeros', 'border' or 'reflection'; received {padding_mode!r}."
        )
    batch, channels, sizes = x.shape[0], x.shape[1], tuple(x.shape[2:])
    out = tuple(grid.shape[1:-1])
    count = math.prod(out)
    flat = permute_dims(reshape(grid, shape=(batch, count, d)), axes=(2, 0, 1))
    around = []
    for i, size in enumerate(sizes):
        at = _position(flat[d - 1 - i], size, align_corners)
        at = at if mode == "bicubic" else _inside(at, size, padding_mode, align_corners)
        steps = _neighbours(at, mode)
        if mode == "bicubic":
            steps = [(_inside(p, size, padding_mode, align_corners), w) for p, w in steps]
        around.append(steps)
    rows = permute_dims(reshape(x, shape=(batch, channels, math.prod(sizes))), axes=(0, 2, 1))
    total = _weighted(reshape(rows, shape=(batch * math.prod(sizes), channels)), around, sizes, batch)
    moved = permute_dims(reshape(total, shape=(batch, count, channels)), axes=(0, 2, 1))
    return reshape(moved, shape=(batch, channels, *out))


def _weighted(rows: Tensor, around: list[list[tuple[Tensor, Any]]], sizes: Shape, batch: int) -> Tensor:
    """Sum the corners of all cells with their weights."""
    corners: list[tuple[list[Tensor], Any]] = [([], 1.0)]
    for axis in around:
        corners = [([*places, place], weight * w) for places, weight in corners for place, w in axis]
    total: Any = 0.0
    for places, weight in corners:
        value = _corner(rows, places, sizes, batch)
        if isinstance(weight, float):
            return value
        total = total + value * reshape(weight, shape=(value.shape[0], 1))
    result: Tensor = total
    return result


@grid_sample.samples
def _(s: Samples) -> None:
    s.case(s.f32(2, 3, 4, 5), s.f32(2, 3, 2, 2))
    s.case(s.f32(1, 2, 4, 5), s.f32(1, 3, 2, 2), padding_mode="border", align_corners=True)
    s.case(s.f32(1, 2, 4, 5), s.f32(1, 3, 2, 2), padding_mode="reflection")
    s.case(s.f32(1, 2, 4, 5), s.f32(1, 3, 2, 2), mode="nearest", grad="none")
    s.case(s.f32(1, 2, 4, 5), s.f32(1, 3, 2, 2), mode="bicubic", tol=1e-4)
    s.case(s.f32(1, 2, 3, 4, 5), s.f32(1, 2, 3, 2, 3))
    s.error(ShapeError, "grid_sample", s.f32(1, 2, 4, 5), s.f32(1, 3, 2, 3))
    s.error(ValueError, "bicubic", s.f32(1, 2, 3, 4, 5), s.f32(1, 2, 3, 2, 3), mode="bicubic")
