"""``nn.softmax``, ``nn.log_softmax`` and their gradients, along any axis."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from grilly_backend_cpu.fast import softmax as fast
from grilly_backend_cpu.kernels.support import FAST, WIDE, WIDENED
from grilly_backend_cpu.quiet import quiet_context

__all__ = ["register"]

Array = NDArray[Any]


def softmax(out: Array, x: Array, axis: int) -> None:
    """``exp(x - max) / sum``; a slice of ``-inf`` alone gives NaN."""
    np.subtract(x, np.max(x, axis, keepdims=True, initial=-np.inf), out)
    np.exp(out, out)
    np.divide(out, np.sum(out, axis, keepdims=True), out)


def softmax_vjp(out: Array, g: Array, y: Array, axis: int) -> None:
    """``y (g - sum(g y))``."""
    np.subtract(g, np.sum(g * y, axis, keepdims=True), out)
    np.multiply(out, y, out)


def log_softmax(out: Array, x: Array, axis: int) -> None:
    """``x - max - log(sum(exp(x - max)))``."""
    np.subtract(x, np.max(x, axis, keepdims=True, initial=-np.inf), out)
    np.subtract(out, np.log(np.sum(np.exp(out), axis, keepdims=True)), out)


def log_softmax_vjp(out: Array, g: Array, y: Array, axis: int) -> None:
    """``g - exp(y) sum(g)``."""
    np.subtract(g, np.exp(y) * np.sum(g, axis, keepdims=True), out)


_NUMPY: Final[dict[str, Callable[..., None]]] = {
    "softmax": softmax,
    "softmax_vjp": softmax_vjp,
    "log_softmax": log_softmax,
    "log_softmax_vjp": log_softmax_vjp,
}


def _by_numpy(function: Callable[..., None]) -> Callable[..., None]:
    def kernel(stream: Any, outs: Any, ins: Any, attrs: dict[str, Any]) -> None:
        quiet_context().run(function, outs[0].array, *[v.array for v in ins], attrs["axis"])

    return kernel


def _compiled(over_rows: Callable[..., None], over_columns: Callable[..., None]) -> Callable[..., None]:
    def kernel(stream: Any, outs: Any, ins: Any, attrs: dict[str, Any]) -> None:
        shape = outs[0].array.shape
        axis = attrs["axis"] % len(shape)
        if axis == len(shape) - 1:
            over_rows(*[v.array.reshape(-1, shape[axis]) for v in (*ins, *outs)])
            return
        blocks = (math.prod(shape[:axis]), shape[axis], math.prod(shape[axis + 1 :]))
        over_columns(*[v.array.reshape(blocks) for v in (*ins, *outs)])

    return kernel


def register(kernels: Any, runtime: Any) -> None:
    """Declare the kernels of this module."""
    for name, function in _NUMPY.items():
        kernels.add(f"nn.{name}", _by_numpy(function), dtypes=WIDE, compute=WIDENED)
    if runtime.has_numba:
        for name, runs in fast.KERNELS.items():
            kernels.add(
                f"nn.{name}", _compiled(*runs), dtypes={"f32"}, layout="contiguous", priority=FAST,
                when=lambda c: c.outs[0].size > 0 and len(c.outs[0].shape) > 0,
            )  # fmt: skip
