"""Activations of float32 arrays and their gradients, one pass each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from grilly_backend_cpu.fast.elementwise import BLOCK, CHEAP_BLOCK, mapped, mapped2
from grilly_backend_cpu.fast.maths import decay32, erfc_tail32, log1p_unit32, normal_cdf32, sigmoid32, tanh32
from grilly_backend_cpu.jit import Jit, njit, split

__all__ = ["NAMES", "block_of", "chosen"]

_CONTRACT = {"fastmath": {"contract"}, "forceinline": True}
_f = np.float32
_ZERO, _HALF, _ONE = _f(0.0), _f(0.5), _f(1.0)
_SQRT_HALF = _f(0.7071067811865476)
_DENSITY = _f(0.3989422804014327)  # 1 / sqrt(2 pi)
_TANH_SCALE = _f(0.7978845608028654)
_TANH_CUBIC = _f(0.044715)
_THREE_CUBIC = _f(3 * 0.044715)


@njit(**_CONTRACT)
def _relu(x: Any) -> Any:
    return _ZERO if x < _ZERO else x


@njit(**_CONTRACT)
def _relu_vjp(g: Any, y: Any) -> Any:
    return g if y > _ZERO else _ZERO


@njit(**_CONTRACT)
def _sigmoid_vjp(g: Any, y: Any) -> Any:
    return g * y * (_ONE - y)


@njit(**_CONTRACT)
def _tanh_vjp(g: Any, y: Any) -> Any:
    return g * (_ONE - y * y)


@njit(**_CONTRACT)
def _gelu(x: Any) -> Any:
    return x * normal_cdf32(x)


@njit(**_CONTRACT)
def _gelu_vjp(g: Any, x: Any) -> Any:
    gauss = decay32(-_HALF * x * x)
    lower = _HALF * erfc_tail32(abs(x) * _SQRT_HALF, gauss)
    return g * ((lower if x < _ZERO else _ONE - lower) + x * (_DENSITY * gauss))


@njit(**_CONTRACT)
def _gelu_tanh(x: Any) -> Any:
    # 0.5 (1 + tanh(z)) is the logistic function of 2 z, which needs one exponential and no cancellation
    return x * sigmoid32((_TANH_SCALE + _TANH_SCALE) * (x + _TANH_CUBIC * x * x * x))


@njit(**_CONTRACT)
def _gelu_tanh_vjp(g: Any, x: Any) -> Any:
    t = tanh32(_TANH_SCALE * (x + _TANH_CUBIC * x * x * x))
    inner = _TANH_SCALE * (_ONE + _THREE_CUBIC * x * x)
    return g * (_HALF * (_ONE + t) + _HALF * x * (_ONE - t * t) * inner)


@njit(**_CONTRACT)
def _silu(x: Any) -> Any:
    return x * sigmoid32(x)


@njit(**_CONTRACT)
def _silu_vjp(g: Any, x: Any) -> Any:
    s = sigmoid32(x)
    return g * s * (_ONE + x * (_ONE - s))


@njit(**_CONTRACT)
def _softplus(x: Any, beta: Any, threshold: Any) -> Any:
    z = x * beta
    inverse = _ONE / beta  # leaves the loop
    positive = _ZERO if z < _ZERO else z
    soft = (positive + log1p_unit32(decay32(-abs(z)))) * inverse
    return x if z > threshold else soft


@njit(**_CONTRACT)
def _softplus_vjp(g: Any, x: Any, beta: Any, threshold: Any) -> Any:
    z = x * beta
    return g if z > threshold else g * sigmoid32(z)


@njit(**_CONTRACT)
def _leaky_relu(x: Any, slope: Any) -> Any:
    return x if x > _ZERO else x * slope


_function: Any = None  # replaced by the function that is mapped


def _map_scalar(start: int, stop: int, args: Any) -> None:
    x = args[0][start:stop]
    out = args[1][start:stop]
    a = args[2]
    for i in range(x.size):
        out[i] = _function(x[i], a)


def _map_scalars(start: int, stop: int, args: Any) -> None:
    x = args[0][start:stop]
    out = args[1][start:stop]
    a, b = args[2], args[3]
    for i in range(x.size):
        out[i] = _function(x[i], a, b)


def _map2_scalars(start: int, stop: int, args: Any) -> None:
    x = args[0][start:stop]
    y = args[1][start:stop]
    out = args[2][start:stop]
    a, b = args[3], args[4]
    for i in range(x.size):
        out[i] = _function(x[i], y[i], a, b)


def _over(template: Any, function: Jit) -> Callable[..., None]:
    body: Jit = njit(fastmath={"contract"})(template)
    body.name = f"{template.__name__}[{function.name}]"
    body.replaced["_function"] = function
    return split(body)


_KERNELS: Final = {
    "relu": mapped(_relu),
    "relu_vjp": mapped2(_relu_vjp),
    "sigmoid": mapped(sigmoid32),
    "sigmoid_vjp": mapped2(_sigmoid_vjp),
    "tanh_vjp": mapped2(_tanh_vjp),
    "gelu": mapped(_gelu),
    "gelu_vjp": mapped2(_gelu_vjp),
    "gelu.tanh": mapped(_gelu_tanh),
    "gelu_vjp.tanh": mapped2(_gelu_tanh_vjp),
    "silu": mapped(_silu),
    "silu_vjp": mapped2(_silu_vjp),
    "softplus": _over(_map_scalars, _softplus),
    "softplus_vjp": _over(_map2_scalars, _softplus_vjp),
    "leaky_relu": _over(_map_scalar, _leaky_relu),
}
_CHEAP: Final = frozenset({"relu", "relu_vjp", "sigmoid_vjp", "tanh_vjp", "leaky_relu"})
NAMES: Final = tuple(name for name in _KERNELS if "." not in name)


def chosen(name: str, attrs: dict[str, Any]) -> tuple[Callable[..., None], tuple[Any, ...]]:
    """Return what runs the op `name` with these attributes, and the scalars it takes."""
    if not attrs:
        return _KERNELS[name], ()
    if "approximate" in attrs:
        return _KERNELS[name if attrs["approximate"] == "none" else f"{name}.tanh"], ()
    return _KERNELS[name], tuple(_f(value) for value in attrs.values())


def block_of(name: str) -> int:
    """Return the elements of one block of the op `name`."""
    return CHEAP_BLOCK if name in _CHEAP else BLOCK
