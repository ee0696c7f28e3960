"""Layer, RMS and batch normalisation with their gradients.

The NumPy kernels work on any layout; the compiled ones on rows (layer, RMS) or on whole channels (batch).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from grilly_backend_cpu.fast import norm as fast
from grilly_backend_cpu.kernels.reduce import accurate_sum
from grilly_backend_cpu.kernels.support import FAST, WIDE, WIDENED
from grilly_backend_cpu.quiet import quietly

__all__ = ["register"]

Array = NDArray[Any]


def _mean(x: Array, axes: tuple[int, ...]) -> Array:
    n = math.prod(x.shape[a] for a in axes)
    return (accurate_sum(x, axes) / np.float64(n)).astype(x.dtype)


def _affine(y: Array, weight: Array | None, bias: Array | None, out: Array) -> None:
    if weight is not None:
        y = y * weight
    np.copyto(out, y if bias is None else y + bias)


def _put(outs: Any, *values: Array) -> None:
    """Write as many results as there are outputs: hidden ones are wanted only while a tape records."""
    for view, value in zip(outs, values, strict=False):
        np.copyto(view.array, value.reshape(view.array.shape))


def _arrays(views: Any) -> list[Any]:
    return [None if v is None else v.array for v in views]


def _last(x: Array, attrs: dict[str, Any]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the leading and the normalised axes."""
    first = x.ndim - len(attrs["normalized_shape"])
    return tuple(range(first)), tuple(range(first, x.ndim))


@quietly
def layer_norm(stream: Any, outs: Any, ins: Any, attrs: dict[str, Any]) -> None:
    """``(x - mean) / sqrt(var + eps) * weight + bias``."""
    x, weight, bias = _arrays(ins)
    _, axes = _last(x, attrs)
    mean = _mean(x, axes)
    centred = x - mean
    rstd = 1 / np.sqrt(_mean(centred * centred, axes) + attrs["eps"])
    _affine(centred * rstd, weight, bias, outs[0].array)
    _put(outs[1:], mean, rstd.astype(x.dtype))


@quietly
def layer_norm_vjp(stream: Any, outs: Any, ins: Any, attrs: dict[str, Any]) -> None:
    """Gradients for x, weight and bias."""
    g, x, weight, mean, rstd = _arrays(ins)
    leading, axes = _last(x, attrs)
    normal = (x - mean) * rstd
    gy = g if weight is None else g * weight
    gx = rstd * (gy - _mean(gy, axes) - normal * _mean(gy * normal, axes))
    _put(outs, gx, accurate_sum(g * normal, leading), accurate_sum(g, leading))


def _rms_eps(x: Array, attrs: dict[str, Any]) -> float:
    eps = attrs["eps"]
    return float(np.finfo(x.dtype).eps) if eps is None else eps


@quietly
def rms_norm(stream: Any, outs: Any, ins: Any, attrs: dict[str, Any]) -> None:
    """``x / sqrt(mean(x**2) + eps) * weight``."""
    x, weight = _arrays(ins)
    _, axes = _last(x, attrs)
    rstd = 1 / np.sqrt(_mean(x * x, axes) + _rms_eps(x, attrs))
    _affine(x * rstd, weight, None, outs[0].array)
    _put(outs[1:], rstd.astype(x.dtype))


@quietly
def rms_norm_vjp(stream: Any, outs: Any, ins: Any, attrs: dict[str, Any]) -> None:
    """Gradients for x and weight."""
    g, x, weight, rstd = _arrays(ins)
    leading, axes = _last(x, attrs)
    normal = x * rstd
    gy = g if weight is None else g * weight
    gx = rstd * (gy - normal * _mean(gy * normal, axes))
    _put(outs, gx, accurate_sum(g * normal, leading))


def _channels(x: Array, *vectors: Array | None) -> tuple[tuple[int, ...], list[Any]]:
    """Return the axes that a channel spans, and vectors over channels lined up with `x`."""
    shape = (x.shape[1],) + (1,) * (x.ndim - 2)
    return (0, *range(2, x.ndim)), [None if v is None else v.reshape(shape) for v in vectors]


@quietly
def batch_norm_train(stream: Any, outs: Any, ins: Any, attrs: dict[str, Any]) -> None:
    """Normalise channels by the statistics of the batch (biased variance)."""
    x, weight, bias = _arrays(ins)
    axes, (weight, bias) = _channels(x, weight, bias)
    mean = _mean(x, axes)
    centred = x - mean
    var = _mean(centred * centred, axes)
    rstd = 1 / np.sqrt(var + attrs["eps"])
    _affine(centred * rstd, weight, bias, outs[0].array)
    _put(outs[1:], mean, var, rstd.astype(x.dtype))


@quietly
def batch_norm_vjp(stream: Any, outs: Any, ins: Any, attrs: dict[str, Any]) -> None:
    """Gradients for x, weight and bias."""
    g, x, weight, mean, rstd = _arrays(ins)
    axes, (weight, mean, rstd) = _channels(x, weight, mean, rstd)
    normal = (x - mean) * rstd
    total, along = accurate_sum(g, axes), accurate_sum(g * normal, axes)
    n = np.float64(math.prod(x.shape[a] for a in axes))
    scale = rstd if weight is None else rstd * weight
    gx = scale * (g - (total / n).astype(x.dtype) - normal * (along / n).astype(x.dtype))
    _put(outs, gx, along, total)


@quietly
def batch_norm_eval(stream: Any, outs: Any, ins: Any, attrs: dict[str, Any]) -> None:
    """Normalise channels by given statistics."""
    x, weight, bias, mean, var = _arrays(ins)
    _, (weight, bias, mean, var) = _channels(x, weight, bias, mean, var)
    scale = (1 / np.sqrt(var + attrs["eps"])).astype(x.dtype)
    _affine((x - mean) * scale, weight, bias, outs[0].array)


def _vector(v: Any, n: int, value: float, dtype: Any) -> Array:
    return np.full(n, value, dtype) if v is None else v.array.reshape(-1)


def _hidden(outs: Any, i: int, n: int, dtype: Any) -> Array:
    result: Array = outs[i].array.reshape(-1) if len(outs) > i else np.empty(n, dtype)
    return result


def layer_norm_fast(stream: Any, outs: Any, ins: Any, attrs: dict[str, Any]) -> None:
    """`layer_norm` row by row."""
    n = math.prod(attrs["normalized_shape"])
    x = ins[0].array.reshape(-1, n)
    rows, dtype = len(x), x.dtype
    weight, bias = _vector(ins[1], n, 1, dtype), _vector(ins[2], n, 0, dtype)
    mean, rstd = _hidden(outs, 1, rows, dtype), _hidden(outs, 2, rows, dtype)
    fast.layer_norm(x, weight, bias, outs[0].array.reshape(-1, n), mean, rstd, attrs["eps"])


def layer_norm_vjp_fast(stream: Any, outs: Any, ins: Any, attrs: dict[str, Any]) -> None:
    """`layer_norm_vjp` row by row."""
    n = math.prod(attrs["normalized_shape"])
    g, x = (v.array.reshape(-1, n) for v in ins[:2])
    weight = _vector(ins[2], n, 1, x.dtype)
    mean, rstd = (v.array.reshape(-1) for v in ins[3:5])
    sums = fast.layer_norm_vjp(g, x, weight, mean, rstd, outs[0].array.reshape(-1, n))
    _put(outs[1:], *sums)


def rms_norm_fast(stream: Any, outs: Any, ins: Any, attrs: dict[str, Any]) -> None:
    """`rms_norm` row by row."""
    n = math.prod(attrs["normalized_shape"])
    x = ins[0].array.reshape(-1, n)
    rstd = _hidden(outs, 1, len(x), x.dtype)
    weight = _vector(ins[1], n, 1, x.dtype)
    fast.rms_norm(x, weight, outs[0].array.reshape(-1, n), rstd, _rms_eps(x, attrs))


def rms_norm_vjp_fast(stream: Any, outs: Any, ins: Any, attrs: dict[str, Any]) -> None:
    """`rms_norm_vjp` row by row: the layer norm's without its mean."""
    n = math.prod(attrs["normalized_shape"])
    g, x = (v.array.reshape(-1, n) for v in ins[:2])
    weight = _vector(ins[2], n, 1, x.dtype)
    _put(outs[1:], fast.rms_norm_vjp(g, x, weight, ins[3].array.reshape(-1), outs[0].array.reshape(-1, n)))


def _planes(view: Any) -> Array:
    x = view.array
    result: Array = x.reshape(x.shape[0], x.shape[1], -1)
    return result


def batch_norm_train_fast(stream: Any, outs: Any, ins: Any, attrs: dict[str, Any]) -> None:
    """`batch_norm_train` channel by channel."""
    x = _planes(ins[0])
    c, dtype = x.shape[1], x.dtype
    weight, bias = _vector(ins[1], c, 1, dtype), _vector(ins[2], c, 0, dtype)
    mean, var, rstd = (_hidden(outs, i, c, dtype) for i in (1, 2, 3))
    fast.batch_norm_train(x, weight, bias, _planes(outs[0]), mean, var, rstd, attrs["eps"])


def batch_norm_vjp_fast(stream: Any, outs: Any, ins: Any, attrs: dict[str, Any]) -> None:
    """`batch_norm_vjp` channel by channel."""
    g, x = _planes(ins[0]), _planes(ins[1])
    weight = _vector(ins[2], x.shape[1], 1, x.dtype)
    mean, rstd = ins[3].array, ins[4].array
    fast.batch_norm_vjp(g, x, weight, mean, rstd, _planes(outs[0]), outs[1].array, outs[2].array)


_NUMPY: Final[dict[str, Callable[..., None]]] = {
    "layer_norm": layer_norm, "layer_norm_vjp": layer_norm_vjp, "rms_norm": rms_norm, "rms_norm_vjp": rms_norm_vjp,
    "batch_norm_train": batch_norm_train, "batch_norm_vjp": batch_norm_vjp, "batch_norm_eval": batch_norm_eval,
}  # fmt: skip
_BY_ROWS: Final = {
    "layer_norm": layer_norm_fast, "layer_norm_vjp": layer_norm_vjp_fast,
    "rms_norm": rms_norm_fast, "rms_norm_vjp": rms_norm_vjp_fast,
}  # fmt: skip
_BY_CHANNELS: Final = {"batch_norm_train": batch_norm_train_fast, "batch_norm_vjp": batch_norm_vjp_fast}


def _same_float(c: Any) -> bool:
    return c.outs[0].size > 0 and len({s.dtype for s in c.ins if s is not None}) == 1


def _has_planes(c: Any) -> bool:
    """Whether channels have rows to work along; (N, C) alone is better served by NumPy."""
    shape = c.outs[0].shape
    return _same_float(c) and math.prod(shape[2:]) > 1


def register(kernels: Any, runtime: Any) -> None:
    """Declare the kernels of this module."""
    for name, function in _NUMPY.items():
        kernels.add(f"nn.{name}", function, dtypes=WIDE, compute=WIDENED)
    if not runtime.has_numba:
        return
    for table, when in ((_BY_ROWS, _same_float), (_BY_CHANNELS, _has_planes)):
        for name, function in table.items():
            kernels.add(f"nn.{name}", function, dtypes=WIDE, layout="contiguous", priority=FAST, when=when)
