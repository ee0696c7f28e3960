"""Pooling over one or two spatial axes; a unit of work is one plane, so every sum has one order."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from grilly_backend_cpu.jit import njit, split

__all__ = ["avg_pool", "avg_pool_vjp", "max_pool", "max_pool_vjp"]

Array = NDArray[Any]
_WORK: Final = 1 << 16


@njit(forceinline=True)
def _range(window: int, stride: int, low: int, dilation: int, kernel: int, size: int) -> Any:
    """Return the taps [first, end) of a window that lie inside, and where its tap 0 lies."""
    origin = window * stride - low
    first = 0 if origin >= 0 else (-origin + dilation - 1) // dilation
    end = min(kernel, (size - 1 - origin) // dilation + 1)
    return first, end, origin


@njit
def _max_pool(start: int, stop: int, args: Any) -> None:
    x, y, index, k0, k1, s0, s1, l0, l1, d0, d1 = args
    height, width = x.shape[1], x.shape[2]
    lowest = x.dtype.type(-np.inf)
    for p in range(start, stop):
        for i in range(y.shape[1]):
            top, bottom, row = _range(i, s0, l0, d0, k0, height)
            for j in range(y.shape[2]):
                left, right, column = _range(j, s1, l1, d1, k1, width)
                best, place = lowest, 0
                if top < bottom and left < right:  # the first tap wins even if it is -inf
                    h, w = row + top * d0, column + left * d1
                    best, place = x[p, h, w], h * width + w
                for a in range(top, bottom):
                    h = row + a * d0
                    for b in range(left, right):
                        w = column + b * d1
                        value = x[p, h, w]
                        # Choosing instead of branching: which tap wins is chance.
                        better = (value > best) | ((value != value) & (best == best))
                        best = value if better else best
                        place = h * width + w if better else place
                y[p, i, j] = best
                index[p, i, j] = place


@njit
def _max_pool_vjp(start: int, stop: int, args: Any) -> None:
    g, index, gx = args
    for p in range(start, stop):
        grad, place, out = g[p], index[p], gx[p]
        for i in range(out.size):
            out[i] = 0
        for i in range(grad.size):
            out[place[i]] += grad[i]


@njit
def _avg_pool(start: int, stop: int, args: Any) -> None:
    x, y, rows, columns, k0, k1, s0, s1, l0, l1 = args
    for p in range(start, stop):
        for i in range(y.shape[1]):
            top, bottom, row = _range(i, s0, l0, 1, k0, x.shape[1])
            for j in range(y.shape[2]):
                left, right, column = _range(j, s1, l1, 1, k1, x.shape[2])
                total = x.dtype.type(0)
                for a in range(top, bottom):
                    for b in range(left, right):
                        total += x[p, row + a, column + b]
                y[p, i, j] = total / x.dtype.type(rows[i] * columns[j])


@njit
def _avg_pool_vjp(start: int, stop: int, args: Any) -> None:
    g, gx, rows, columns, k0, k1, s0, s1, l0, l1 = args
    for p in range(start, stop):
        gx[p] = 0
        for i in range(g.shape[1]):
            top, bottom, row = _range(i, s0, l0, 1, k0, gx.shape[1])
            for j in range(g.shape[2]):
                left, right, column = _range(j, s1, l1, 1, k1, gx.shape[2])
                share = g[p, i, j] / g.dtype.type(rows[i] * columns[j])
                for a in range(top, bottom):
                    for b in range(left, right):
                        gx[p, row + a, column + b] += share


_run_max_pool = split(_max_pool)
_run_max_pool_vjp = split(_max_pool_vjp)
_run_avg_pool = split(_avg_pool)
_run_avg_pool_vjp = split(_avg_pool_vjp)


def _planes(x: Array) -> Array:
    """Return (planes, h, w), a single spatial axis being the width."""
    return x.reshape(-1, 1 if x.ndim == 3 else x.shape[2], x.shape[-1])


def _two(values: Any, missing: int) -> tuple[int, int]:
    return (missing, values[0]) if len(values) == 1 else (values[0], values[1])


def _how(attrs: dict[str, Any]) -> tuple[int, ...]:
    """Return kernel, stride and low, two numbers each, flat: a parallel loop takes no tuples."""
    low = [p[0] for p in attrs["padding"]]
    return *_two(attrs["kernel"], 1), *_two(attrs["stride"], 1), *_two(low, 0)


def _block(planes: Array) -> int:
    return max(1, _WORK // (planes.shape[1] * planes.shape[2]))


def max_pool(x: Array, y: Array, index: Array, attrs: dict[str, Any]) -> None:
    """Write the largest element of each window and its flat index in the plane."""
    planes = _planes(x)
    args = (planes, _planes(y), _planes(index), *_how(attrs), *_two(attrs["dilation"], 1))
    _run_max_pool(len(planes), _block(planes), args)


def max_pool_vjp(g: Array, index: Array, gx: Array) -> None:
    """Add each gradient at its index."""
    planes = gx.shape[0] * gx.shape[1]
    flat = gx.reshape(planes, -1)
    args = (g.reshape(planes, -1), index.reshape(planes, -1), flat)
    _run_max_pool_vjp(planes, max(1, 2 * _WORK // flat.shape[1]), args)


def _two_divisors(divisors: list[Array]) -> tuple[Array, Array]:
    return (np.ones(1, np.int64), divisors[0]) if len(divisors) == 1 else (divisors[0], divisors[1])


def avg_pool(x: Array, y: Array, divisors: list[Array], attrs: dict[str, Any]) -> None:
    """Write the mean of each window."""
    planes = _planes(x)
    _run_avg_pool(len(planes), _block(planes), (planes, _planes(y), *_two_divisors(divisors), *_how(attrs)))


def avg_pool_vjp(g: Array, gx: Array, divisors: list[Array], attrs: dict[str, Any]) -> None:
    """Spread the share of each window over it."""
    planes = _planes(gx)
    _run_avg_pool_vjp(
        len(planes), _block(planes), (_planes(g), planes, *_two_divisors(divisors), *_how(attrs))
    )
