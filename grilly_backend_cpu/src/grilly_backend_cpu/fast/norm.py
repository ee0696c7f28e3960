"""Normalisation of rows and of channels, in float32 or float64.

Sums run over pieces in the array's own type and are added in f64. Sums over rows (gradients of weights) are made by
blocks whose number does not depend on the threads, then added in f64.
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from grilly_backend_cpu.jit import njit, split

__all__ = [
    "batch_norm_train", "batch_norm_vjp", "layer_norm", "layer_norm_vjp", "rms_norm", "rms_norm_vjp",
]  # fmt: skip

Array = NDArray[Any]
_SUMS = {"reassoc", "contract", "nsz"}
_PIECE = 2048
_WORK: Final = 32768


@njit(fastmath=_SUMS)
def _total(x: Any) -> Any:
    """Return the sum of a row."""
    total = 0.0
    for start in range(0, x.size, _PIECE):
        piece = x[start : start + _PIECE]
        part = x.dtype.type(0)
        for i in range(piece.size):
            part += piece[i]
        total += part
    return total


@njit(fastmath=_SUMS)
def _squares(x: Any, shift: Any) -> Any:
    """Return the sum of ``(x - shift)**2``."""
    total = 0.0
    for start in range(0, x.size, _PIECE):
        piece = x[start : start + _PIECE]
        part = x.dtype.type(0)
        for i in range(piece.size):
            d = piece[i] - shift
            part += d * d
        total += part
    return total


@njit(fastmath=_SUMS)
def _gradient_sums(g: Any, x: Any, weight: Any, shift: Any) -> Any:
    """Return the sums of ``g w`` and of ``g w (x - shift)``."""
    total, along = 0.0, 0.0
    for start in range(0, x.size, _PIECE):
        a, b, w = g[start : start + _PIECE], x[start : start + _PIECE], weight[start : start + _PIECE]
        part, moment = x.dtype.type(0), x.dtype.type(0)
        for i in range(b.size):
            gy = a[i] * w[i]
            part += gy
            moment += gy * (b[i] - shift)
        total += part
        along += moment
    return total, along


@njit(fastmath=_SUMS)
def _channel_sums(g: Any, x: Any, shift: Any) -> Any:
    """Return the sums of ``g`` and of ``g (x - shift)``."""
    total, along = 0.0, 0.0
    for start in range(0, x.size, _PIECE):
        a, b = g[start : start + _PIECE], x[start : start + _PIECE]
        part, moment = x.dtype.type(0), x.dtype.type(0)
        for i in range(b.size):
            part += a[i]
            moment += a[i] * (b[i] - shift)
        total += part
        along += moment
    return total, along


@njit(fastmath={"contract"})
def _layer_norm(start: int, stop: int, args: Any) -> None:
    x, weight, bias, y, mean, rstd, eps = args
    n, to = x.shape[1], x.dtype.type
    for r in range(start, stop):
        row, out = x[r], y[r]
        middle = to(_total(row) / n)
        scale = to(1.0 / math.sqrt(_squares(row, middle) / n + eps))
        mean[r], rstd[r] = middle, scale
        for i in range(row.size):
            out[i] = (row[i] - middle) * scale * weight[i] + bias[i]


@njit(fastmath={"contract"})
def _rms_norm(start: int, stop: int, args: Any) -> None:
    x, weight, y, rstd, eps = args
    n, to = x.shape[1], x.dtype.type
    for r in range(start, stop):
        row, out = x[r], y[r]
        scale = to(1.0 / math.sqrt(_squares(row, to(0)) / n + eps))
        rstd[r] = scale
        for i in range(row.size):
            out[i] = row[i] * scale * weight[i]


@njit(fastmath={"contract"})
def _norm_vjp(start: int, stop: int, args: Any) -> None:
    """Gradient of rows `block * size` and on, for each block; `centred` 1 for the layer norm, 0 for the RMS norm."""
    g, x, weight, mean, rstd, gx, gweight, gbias, size, centred = args
    rows, n = x.shape
    to = x.dtype.type
    for block in range(start, stop):
        gw, gb = gweight[block], gbias[block]
        gw[:] = 0
        gb[:] = 0
        for r in range(block * size, min(block * size + size, rows)):
            grad, row, out, shift, scale = g[r], x[r], gx[r], mean[r], rstd[r]
            total, along = _gradient_sums(grad, row, weight, shift)
            a, b = to(centred * total / n), to(along * scale / n)
            for i in range(row.size):
                normal = (row[i] - shift) * scale
                out[i] = scale * (grad[i] * weight[i] - a - normal * b)
                gw[i] += grad[i] * normal
                gb[i] += grad[i]


@njit(fastmath={"contract"})
def _batch_norm(start: int, stop: int, args: Any) -> None:
    x, weight, bias, y, mean, var, rstd, eps = args
    count, to = x.shape[0] * x.shape[2], x.dtype.type
    for c in range(start, stop):
        total = 0.0
        for n in range(x.shape[0]):
            total += _total(x[n, c])
        middle = to(total / count)
        total = 0.0
        for n in range(x.shape[0]):
            total += _squares(x[n, c], middle)
        scale = to(1.0 / math.sqrt(total / count + eps))
        mean[c], var[c], rstd[c] = middle, to(total / count), scale
        w, b = scale * weight[c], bias[c]
        for n in range(x.shape[0]):
            row, out = x[n, c], y[n, c]
            for i in range(row.size):
                out[i] = (row[i] - middle) * w + b


@njit(fastmath={"contract"})
def _batch_norm_vjp(start: int, stop: int, args: Any) -> None:
    g, x, weight, mean, rstd, gx, gweight, gbias = args
    count, to = x.shape[0] * x.shape[2], x.dtype.type
    for c in range(start, stop):
        shift, scale = mean[c], rstd[c]
        total, along = 0.0, 0.0
        for n in range(x.shape[0]):
            part, moment = _channel_sums(g[n, c], x[n, c], shift)
            total += part
            along += moment
        along *= scale
        gweight[c], gbias[c] = to(along), to(total)
        a, b, w = to(total / count), to(along / count), scale * weight[c]
        for n in range(x.shape[0]):
            grad, row, out = g[n, c], x[n, c], gx[n, c]
            for i in range(row.size):
                out[i] = w * (grad[i] - a - (row[i] - shift) * scale * b)


_run_layer_norm = split(_layer_norm)
_run_rms_norm = split(_rms_norm)
_run_norm_vjp = split(_norm_vjp)
_run_batch_norm = split(_batch_norm)
_run_batch_norm_vjp = split(_batch_norm_vjp)


def layer_norm(x: Array, weight: Array, bias: Array, y: Array, mean: Array, rstd: Array, eps: float) -> None:
    """Normalise each row."""
    rows, n = x.shape
    _run_layer_norm(rows, max(1, _WORK // n), (x, weight, bias, y, mean, rstd, eps))


def rms_norm(x: Array, weight: Array, y: Array, rstd: Array, eps: float) -> None:
    """Divide each row by its root mean square."""
    rows, n = x.shape
    _run_rms_norm(rows, max(1, _WORK // n), (x, weight, y, rstd, eps))


def _rows_vjp(
    g: Array, x: Array, weight: Array, mean: Array, rstd: Array, gx: Array, centred: float
) -> tuple[Array, Array]:
    rows, n = x.shape
    size = min(max(_WORK // n, 16), 128)
    blocks = -(-rows // size)
    sums = np.empty((2, blocks, n), x.dtype)
    _run_norm_vjp(blocks, 1, (g, x, weight, mean, rstd, gx, sums[0], sums[1], size, centred))
    gweight, gbias = sums[:, 0] if blocks == 1 else np.add.reduce(sums, 1, np.float64)
    return gweight, gbias


def layer_norm_vjp(
    g: Array, x: Array, weight: Array, mean: Array, rstd: Array, gx: Array
) -> tuple[Array, Array]:
    """Write the gradient of x, return those of weight and bias."""
    return _rows_vjp(g, x, weight, mean, rstd, gx, 1.0)


def rms_norm_vjp(g: Array, x: Array, weight: Array, rstd: Array, gx: Array) -> Array:
    """Write the gradient of x, return that of weight."""
    return _rows_vjp(g, x, weight, np.zeros_like(rstd), rstd, gx, 0.0)[0]


def _channels_a_block(x: Array) -> int:
    return max(1, _WORK // (x.shape[0] * x.shape[2]))


def batch_norm_train(
    x: Array, weight: Array, bias: Array, y: Array, mean: Array, var: Array, rstd: Array, eps: float
) -> None:
    """Normalise each channel of (N, C, P)."""
    _run_batch_norm(x.shape[1], _channels_a_block(x), (x, weight, bias, y, mean, var, rstd, eps))


def batch_norm_vjp(
    g: Array, x: Array, weight: Array, mean: Array, rstd: Array, gx: Array, gweight: Array, gbias: Array
) -> None:
    """Write the gradients of x, weight and bias."""
    args = (g, x, weight, mean, rstd, gx, gweight, gbias)
    _run_batch_norm_vjp(x.shape[1], _channels_a_block(x), args)
