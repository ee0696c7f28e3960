"""Activations and their gradients.

The NumPy kernels serve every floating type through f32 or f64; the compiled ones serve f32 in one pass.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from grilly_backend_cpu.fast import activations as fast
from grilly_backend_cpu.kernels.special import erf
from grilly_backend_cpu.kernels.support import FAST, WIDE, WIDENED
from grilly_backend_cpu.quiet import quiet_context

__all__ = ["register"]

Array = NDArray[Any]
_TANH_SCALE: Final = math.sqrt(2 / math.pi)
_TANH_CUBIC: Final = 0.044715


def _sigmoid(x: Array) -> Array:
    """Return the logistic function, through the exponential that cannot overflow."""
    e = np.exp(-np.abs(x))
    result: Array = np.where(x >= 0, 1 / (1 + e), e / (1 + e))
    return result


def _normal_cdf(x: Array) -> Array:
    out = np.empty_like(x)
    erf(x * np.asarray(math.sqrt(0.5), x.dtype), out)
    return 0.5 * (1 + out)


def relu(out: Array, x: Array) -> None:
    """``max(x, 0)``, NaN staying NaN."""
    np.maximum(x, 0, out=out)


def relu_vjp(out: Array, g: Array, y: Array) -> None:
    """`g` where the output was positive."""
    np.copyto(out, np.where(y > 0, g, np.zeros((), g.dtype)))


def sigmoid(out: Array, x: Array) -> None:
    """``1 / (1 + exp(-x))``."""
    np.copyto(out, _sigmoid(x))


def sigmoid_vjp(out: Array, g: Array, y: Array) -> None:
    """``g y (1 - y)``."""
    np.copyto(out, g * y * (1 - y))


def tanh_vjp(out: Array, g: Array, y: Array) -> None:
    """``g (1 - y**2)``."""
    np.copyto(out, g * (1 - y * y))


def gelu(out: Array, x: Array, approximate: str) -> None:
    """``x Phi(x)``, or its approximation by tanh."""
    if approximate == "none":
        np.multiply(x, _normal_cdf(x), out)
    else:
        np.copyto(out, 0.5 * x * (1 + np.tanh(_TANH_SCALE * (x + _TANH_CUBIC * x * x * x))))


def gelu_vjp(out: Array, g: Array, x: Array, approximate: str) -> None:
    """Gradient of `gelu`."""
    if approximate == "none":
        density = np.exp(-0.5 * x * x) * (1 / math.sqrt(2 * math.pi))
        np.copyto(out, g * (_normal_cdf(x) + x * density))
        return
    t = np.tanh(_TANH_SCALE * (x + _TANH_CUBIC * x * x * x))
    inner = _TANH_SCALE * (1 + 3 * _TANH_CUBIC * x * x)
    np.copyto(out, g * (0.5 * (1 + t) + 0.5 * x * (1 - t * t) * inner))


def silu(out: Array, x: Array) -> None:
    """``x sigmoid(x)``."""
    np.multiply(x, _sigmoid(x), out)


def silu_vjp(out: Array, g: Array, x: Array) -> None:
    """Gradient of `silu`."""
    s = _sigmoid(x)
    np.copyto(out, g * s * (1 + x * (1 - s)))


def softplus(out: Array, x: Array, beta: float, threshold: float) -> None:
    """``log(1 + exp(beta x)) / beta``, linear above the threshold."""
    z = x * beta
    np.copyto(out, np.where(z > threshold, x, (np.maximum(z, 0) + np.log1p(np.exp(-np.abs(z)))) / beta))


def softplus_vjp(out: Array, g: Array, x: Array, beta: float, threshold: float) -> None:
    """``g sigmoid(beta x)``, `g` above the threshold."""
    z = x * beta
    np.copyto(out, np.where(z > threshold, g, g * _sigmoid(z)))


def leaky_relu(out: Array, x: Array, negative_slope: float) -> None:
    """`x` where positive, else a fraction of it."""
    np.copyto(out, np.where(x > 0, x, x * negative_slope))


def elu(out: Array, x: Array, alpha: float) -> None:
    """`x` where positive, else ``alpha (exp(x) - 1)``."""
    np.copyto(out, np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0))))


_NUMPY: Final[dict[str, Callable[..., None]]] = {
    "relu": relu, "relu_vjp": relu_vjp, "sigmoid": sigmoid, "sigmoid_vjp": sigmoid_vjp, "tanh_vjp": tanh_vjp,
    "gelu": gelu, "gelu_vjp": gelu_vjp, "silu": silu, "silu_vjp": silu_vjp, "softplus": softplus,
    "softplus_vjp": softplus_vjp, "leaky_relu": leaky_relu, "elu": elu,
}  # fmt: skip


def _by_numpy(function: Callable[..., None]) -> Callable[..., None]:
    def kernel(stream: Any, outs: Any, ins: Any, attrs: dict[str, Any]) -> None:
        quiet_context().run(function, outs[0].array, *[v.array for v in ins], **attrs)

    return kernel


def _compiled(name: str) -> Callable[..., None]:
    block = fast.block_of(name)

    def kernel(stream: Any, outs: Any, ins: Any, attrs: dict[str, Any]) -> None:
        run, scalars = fast.chosen(name, attrs)
        x = ins[0].array
        run(x.size, block, (*[v.array.reshape(-1) for v in ins], outs[0].array.reshape(-1), *scalars))

    return kernel


def _same_shapes(c: Any) -> bool:
    return all(s.shape == c.outs[0].shape for s in c.ins)


def register(kernels: Any, runtime: Any) -> None:
    """Declare the kernels of this module."""
    for name, function in _NUMPY.items():
        kernels.add(f"nn.{name}", _by_numpy(function), dtypes=WIDE, compute=WIDENED)
    if runtime.has_numba:
        for name in fast.NAMES:
            kernels.add(
                f"nn.{name}",
                _compiled(name),
                dtypes={"f32"},
                layout="contiguous",
                priority=FAST,
                when=_same_shapes,
            )
