"""Activation functions."""

from __future__ import annotations

from typing import Any, cast

from grilly_core.functional._arguments import TensorLike, one_axis, tensor
from grilly_core.ops import nn as ops
from grilly_core.ops import primitives
from grilly_core.tensor import Tensor

__all__ = [
    "celu", "elu", "gcu", "geglu", "gelu", "glu", "hardshrink", "hardsigmoid", "hardswish", "hardtanh", "leaky_relu",
    "log_softmax", "logsigmoid", "mish", "prelu", "reglu", "relu", "relu6", "roswish", "selu", "sigmoid", "silu",
    "softmax", "softmin", "softplus", "softshrink", "softsign", "swiglu", "tanh", "tanhshrink", "threshold",
]  # fmt: skip


def relu(input: TensorLike, inplace: bool = False) -> Tensor:
    """Return ``max(input, 0)``.

    Parameters
    ----------
    input : array_like
    inplace : bool
        Also write the result to `input`, which must then be a tensor.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.functional.relu(grilly.tensor([-1.0, 2.0])).tolist()
    [0.0, 2.0]
    """
    return _written(ops.relu(cast(Tensor, input)), input, inplace)


def _written(result: Any, input: Any, inplace: bool) -> Tensor:
    if not inplace:
        return cast(Tensor, result)
    if not isinstance(input, Tensor):
        raise TypeError(f"inplace=True needs a tensor to write to; received {type(input).__name__}.")
    return input.copy_(result)


def sigmoid(input: TensorLike) -> Tensor:
    """Return ``1 / (1 + exp(-input))``.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.functional.sigmoid(0.0).item()
    0.5
    """
    return ops.sigmoid(tensor(input))


def tanh(input: TensorLike) -> Tensor:
    """Return the hyperbolic tangent.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.functional.tanh(0.0).item()
    0.0
    """
    result: Tensor = primitives.tanh(input)
    return result


def gelu(input: TensorLike, approximate: str = "none") -> Tensor:
    """Return ``input * Phi(input)``, Phi the normal distribution function, or its ``"tanh"`` approximation.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> round(grilly.functional.gelu(1.0).item(), 4)
    0.8413
    """
    return ops.gelu(tensor(input), approximate=approximate)


def silu(input: TensorLike, inplace: bool = False) -> Tensor:
    """Return ``input * sigmoid(input)``.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> round(grilly.functional.silu(1.0).item(), 4)
    0.7311
    """
    return _written(ops.silu(tensor(input)), input, inplace)


def softplus(input: TensorLike, beta: float = 1.0, threshold: float = 20.0) -> Tensor:
    """Return ``log(1 + exp(beta * input)) / beta``; linear where ``beta * input`` exceeds `threshold`.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.functional.softplus(1000.0).item()
    1000.0
    """
    return ops.softplus(tensor(input), beta=float(beta), threshold=float(threshold))


def leaky_relu(input: TensorLike, negative_slope: float = 0.01, inplace: bool = False) -> Tensor:
    """Return `input` where it is positive, else ``negative_slope * input``.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.functional.leaky_relu(-1.0, 0.5).item()
    -0.5
    """
    return _written(ops.leaky_relu(tensor(input), negative_slope=float(negative_slope)), input, inplace)


def elu(input: TensorLike, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """Return `input` where it is positive, else ``alpha * (exp(input) - 1)``.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> round(grilly.functional.elu(-1.0).item(), 4)
    -0.6321
    """
    return _written(ops.elu(tensor(input), alpha=float(alpha)), input, inplace)


def selu(input: TensorLike, inplace: bool = False) -> Tensor:
    """Return the self-normalising `elu`.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> round(grilly.functional.selu(1.0).item(), 4)
    1.0507
    """
    return _written(ops.selu(tensor(input)), input, inplace)


def celu(input: TensorLike, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """Return `input` where it is positive, else ``alpha * (exp(input / alpha) - 1)``.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.functional.celu(2.0).item()
    2.0
    """
    return _written(ops.celu(tensor(input), alpha=float(alpha)), input, inplace)


def hardtanh(input: TensorLike, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> Tensor:
    """Return `input` clipped to ``[min_val, max_val]``.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.functional.hardtanh(3.0).item()
    1.0
    """
    return _written(
        ops.hardtanh(tensor(input), min_val=float(min_val), max_val=float(max_val)), input, inplace
    )


def relu6(input: TensorLike, inplace: bool = False) -> Tensor:
    """Return ``min(max(input, 0), 6)``.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.functional.relu6(8.0).item()
    6.0
    """
    return _written(ops.relu6(tensor(input)), input, inplace)


def hardsigmoid(input: TensorLike, inplace: bool = False) -> Tensor:
    """Return ``relu6(input + 3) / 6``.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.functional.hardsigmoid(0.0).item()
    0.5
    """
    return _written(ops.hardsigmoid(tensor(input)), input, inplace)


def hardswish(input: TensorLike, inplace: bool = False) -> Tensor:
    """Return ``input * relu6(input + 3) / 6``.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.functional.hardswish(3.0).item()
    3.0
    """
    return _written(ops.hardswish(tensor(input)), input, inplace)


def logsigmoid(input: TensorLike) -> Tensor:
    """Return ``log(sigmoid(input))``, finite for every finite input.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.functional.logsigmoid(-1000.0).item()
    -1000.0
    """
    return ops.logsigmoid(tensor(input))


def mish(input: TensorLike, inplace: bool = False) -> Tensor:
    """Return ``input * tanh(softplus(input))``.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> round(grilly.functional.mish(1.0).item(), 4)
    0.8651
    """
    return _written(ops.mish(tensor(input)), input, inplace)


def softsign(input: TensorLike) -> Tensor:
    """Return ``input / (1 + |input|)``.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.functional.softsign(1.0).item()
    0.5
    """
    return ops.softsign(tensor(input))


def tanhshrink(input: TensorLike) -> Tensor:
    """Return ``input - tanh(input)``.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.functional.tanhshrink(0.0).item()
    0.0
    """
    return ops.tanhshrink(tensor(input))


def softshrink(input: TensorLike, lambd: float = 0.5) -> Tensor:
    """Move `input` towards 0 by `lambd`, stopping at 0.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.functional.softshrink(2.0).item()
    1.5
    """
    return ops.softshrink(tensor(input), lambd=float(lambd))


def hardshrink(input: TensorLike, lambd: float = 0.5) -> Tensor:
    """Return `input` outside ``[-lambd, lambd]`` and 0 inside.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.functional.hardshrink(0.25).item()
    0.0
    """
    return ops.hardshrink(tensor(input), lambd=float(lambd))


def threshold(input: TensorLike, threshold: float, value: float, inplace: bool = False) -> Tensor:
    """Return `input` where it exceeds `threshold`, else `value`.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.functional.threshold(0.5, 1.0, -7.0).item()
    -7.0
    """
    return _written(
        ops.threshold(tensor(input), threshold=float(threshold), value=float(value)), input, inplace
    )


def prelu(input: TensorLike, weight: TensorLike) -> Tensor:
    """Return `input` where it is positive, else ``weight * input``; one slope, or one per channel (axis 1).

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.functional.prelu(grilly.tensor([-4.0]), grilly.tensor([0.25])).tolist()
    [-1.0]
    """
    return ops.prelu(tensor(input), tensor(weight))


def gcu(input: TensorLike) -> Tensor:
    """Return the growing cosine unit, ``input * cos(input)``.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> round(grilly.functional.gcu(1.0).item(), 4)
    0.5403
    """
    return ops.gcu(tensor(input))


def roswish(input: TensorLike, alpha: TensorLike = 1.0, beta: TensorLike = 1.0) -> Tensor:
    """Return ``(input + alpha) * sigmoid(beta * input) - alpha / 2``.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.functional.roswish(0.0).item()
    0.0
    """
    return ops.roswish(tensor(input), cast(Tensor, alpha), cast(Tensor, beta))


def glu(input: TensorLike, dim: int = -1) -> Tensor:
    """Return ``a * sigmoid(b)`` for the halves `a` and `b` of one axis.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.functional.glu(grilly.tensor([2.0, 0.0])).tolist()
    [1.0]
    """
    return ops.glu(tensor(input), axis=dim)


def swiglu(input: TensorLike, dim: int = -1) -> Tensor:
    """Return ``a * silu(b)`` for the halves `a` and `b` of one axis.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.functional.swiglu(grilly.tensor([2.0, 0.0])).tolist()
    [0.0]
    """
    return ops.swiglu(tensor(input), axis=dim)


def geglu(input: TensorLike, dim: int = -1, approximate: str = "none") -> Tensor:
    """Return ``a * gelu(b)`` for the halves `a` and `b` of one axis.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.functional.geglu(grilly.tensor([2.0, 0.0])).tolist()
    [0.0]
    """
    return ops.geglu(tensor(input), axis=dim, approximate=approximate)


def reglu(input: TensorLike, dim: int = -1) -> Tensor:
    """Return ``a * relu(b)`` for the halves `a` and `b` of one axis.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.functional.reglu(grilly.tensor([2.0, 3.0])).tolist()
    [6.0]
    """
    return ops.reglu(tensor(input), axis=dim)


def softmax(
    input: TensorLike, dim: int | None = None, dtype: Any = None, *, axis: int | None = None
) -> Tensor:
    """Return ``exp(input) / sum(exp(input))`` along one axis.

    Parameters
    ----------
    input : array_like
    dim : int, optional
        The axis; the last one if neither `dim` nor `axis` is given.
    dtype : dtype, optional
        Cast the input first.
    axis : int, optional
        The same as `dim`.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.functional.softmax(grilly.tensor([0.0, 0.0])).tolist()
    [0.5, 0.5]
    """
    return ops.softmax(tensor(input, dtype), axis=one_axis(dim, axis))


def softmin(
    input: TensorLike, dim: int | None = None, dtype: Any = None, *, axis: int | None = None
) -> Tensor:
    """Return ``softmax(-input)``; arguments as for `softmax`.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.functional.softmin(grilly.tensor([1.0, 1.0])).tolist()
    [0.5, 0.5]
    """
    return ops.softmax(-tensor(input, dtype), axis=one_axis(dim, axis))


def log_softmax(
    input: TensorLike, dim: int | None = None, dtype: Any = None, *, axis: int | None = None
) -> Tensor:
    """Return ``log(softmax(input))`` without forming the softmax; arguments as for `softmax`.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.functional.log_softmax(grilly.tensor([0.0, -1000.0])).tolist()
    [0.0, -1000.0]
    """
    return ops.log_softmax(tensor(input, dtype), axis=one_axis(dim, axis))
