"""First values of parameters, with PyTorch's names and distributions.

Every function writes to its tensor and returns it. Numbers are drawn on the CPU and copied to the tensor's device, so a
seed gives the same parameters everywhere; `rng` replaces the default generator.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np

from grilly_core.config import no_grad
from grilly_core.errors import ShapeError
from grilly_core.ops import random
from grilly_core.ops.creation import asarray
from grilly_core.random import Generator
from grilly_core.tensor import Tensor

__all__ = [
    "calculate_gain", "constant_", "dirac_", "eye_", "kaiming_normal_", "kaiming_uniform_", "normal_", "ones_",
    "orthogonal_", "sparse_", "trunc_normal_", "uniform_", "xavier_normal_", "xavier_uniform_", "zeros_",
]  # fmt: skip

_GAINS = {"tanh": 5.0 / 3.0, "relu": math.sqrt(2.0), "selu": 0.75}
_LINEAR = {"linear", "sigmoid", "conv1d", "conv2d", "conv3d"}


_idle: ContextVar[bool] = ContextVar("idle", default=False)


@contextmanager
def _nothing_drawn() -> Iterator[None]:
    """Inside, functions that would draw numbers leave their tensors as they are."""
    token = _idle.set(True)
    try:
        yield
    finally:
        _idle.reset(token)


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """Return the factor that keeps the variance through a nonlinearity.

    Parameters
    ----------
    nonlinearity : str
        ``"linear"``, ``"sigmoid"``, ``"conv1d"`` to ``"conv3d"``, ``"tanh"``, ``"relu"``, ``"leaky_relu"`` or
        ``"selu"``.
    param : float, optional
        The negative slope of ``"leaky_relu"``; 0.01 by default.

    Examples
    --------
    >>> calculate_gain("tanh")
    1.6666666666666667
    """
    if nonlinearity in _LINEAR:
        return 1.0
    if nonlinearity == "leaky_relu":
        slope = 0.01 if param is None else float(param)
        return math.sqrt(2.0 / (1.0 + slope * slope))
    if nonlinearity in _GAINS:
        return _GAINS[nonlinearity]
    known = ", ".join(sorted(_LINEAR | {"leaky_relu", *_GAINS}))
    raise ValueError(f"nonlinearity: expected one of {known}; received {nonlinearity!r}.")


def _write(tensor: Tensor, values: Any) -> Tensor:
    """Write an array or a tensor, cast and moved to where `tensor` is."""
    with no_grad():
        made = (
            values
            if isinstance(values, Tensor)
            else asarray(np.ascontiguousarray(values), dtype=tensor.dtype)
        )
        tensor.copy_(made.to(tensor.device, tensor.dtype))
    return tensor


def uniform_(tensor: Tensor, a: float = 0.0, b: float = 1.0, *, rng: Generator | None = None) -> Tensor:
    """Fill with uniform numbers from ``[a, b)``.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> w = grilly.nn.init.uniform_(grilly.zeros(3), 2.0, 3.0)
    >>> bool((w >= 2.0).all())
    True
    """
    if _idle.get():
        return tensor
    return _write(tensor, random.uniform(a, b, tensor.shape, device="cpu", rng=rng))


def normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0, *, rng: Generator | None = None) -> Tensor:
    """Fill with normally distributed numbers.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.nn.init.normal_(grilly.zeros(2), mean=3.0, std=0.0).tolist()
    [3.0, 3.0]
    """
    if _idle.get():
        return tensor
    return _write(tensor, random.normal(mean, std, tensor.shape, device="cpu", rng=rng))


def trunc_normal_(
    tensor: Tensor,
    mean: float = 0.0,
    std: float = 1.0,
    a: float = -2.0,
    b: float = 2.0,
    *,
    rng: Generator | None = None,
) -> Tensor:
    """Fill with normally distributed numbers from ``[a, b]``: those outside are drawn again.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> w = grilly.nn.init.trunc_normal_(grilly.zeros(9), a=0.0)
    >>> bool((w >= 0).all())
    True
    """
    if not a < b:
        raise ValueError(f"trunc_normal_: a must be less than b; received {a} and {b}.")
    if max(a - mean, mean - b) > 6.0 * std:
        raise ValueError(
            f"trunc_normal_: [{a}, {b}] lies more than 6 standard deviations from the mean {mean}; widen it."
        )
    if _idle.get():
        return tensor
    values = _draws(tensor.shape, mean, std, rng)
    outside = (values < a) | (values > b)
    while outside.any():
        values[outside] = _draws((int(outside.sum()),), mean, std, rng)
        outside = (values < a) | (values > b)
    return _write(tensor, values)


def _draws(shape: tuple[int, ...], mean: float, std: float, rng: Generator | None) -> Any:
    return random.normal(mean, std, shape, device="cpu", rng=rng).numpy(copy=True)


def constant_(tensor: Tensor, val: float) -> Tensor:
    """Fill with one value.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.nn.init.constant_(grilly.zeros(2), 0.5).tolist()
    [0.5, 0.5]
    """
    with no_grad():
        tensor.fill_(val)
    return tensor


def ones_(tensor: Tensor) -> Tensor:
    """Fill with ones.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.nn.init.ones_(grilly.zeros(2)).tolist()
    [1.0, 1.0]
    """
    return constant_(tensor, 1.0)


def zeros_(tensor: Tensor) -> Tensor:
    """Fill with zeros.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.nn.init.zeros_(grilly.ones(2)).tolist()
    [0.0, 0.0]
    """
    return constant_(tensor, 0.0)


def eye_(tensor: Tensor) -> Tensor:
    """Write the identity to a matrix.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.nn.init.eye_(grilly.zeros((2, 2))).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    if tensor.ndim != 2:
        raise ShapeError(f"eye_: expected a matrix; received shape {tuple(tensor.shape)}.")
    return _write(tensor, np.eye(tensor.shape[0], tensor.shape[1]))


def dirac_(tensor: Tensor, groups: int = 1) -> Tensor:
    """Write the convolution weight that keeps its input, as far as there are channels for it.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.nn.init.dirac_(grilly.zeros((1, 1, 3))).tolist()
    [[[0.0, 1.0, 0.0]]]
    """
    if not 3 <= tensor.ndim <= 5:
        raise ShapeError(f"dirac_: expected 3 to 5 axes; received shape {tuple(tensor.shape)}.")
    out, channels = tensor.shape[:2]
    if out % groups:
        raise ShapeError(f"dirac_: groups={groups} must divide the {out} output channels.")
    values = np.zeros(tensor.shape)
    middle = tuple(k // 2 for k in tensor.shape[2:])
    for group in range(groups):
        for i in range(min(out // groups, channels)):
            values[(group * (out // groups) + i, i, *middle)] = 1.0
    return _write(tensor, values)


def _fans(tensor: Tensor) -> tuple[int, int]:
    if tensor.ndim < 2:
        raise ShapeError(
            f"fan-in and fan-out need at least two axes; received shape {tuple(tensor.shape)}. "
            "Use uniform_ or normal_ instead."
        )
    field = math.prod(tensor.shape[2:])
    return tensor.shape[1] * field, tensor.shape[0] * field


def _fan(tensor: Tensor, mode: str) -> int:
    if mode not in ("fan_in", "fan_out"):
        raise ValueError(f"mode: expected 'fan_in' or 'fan_out'; received {mode!r}.")
    return _fans(tensor)[mode == "fan_out"]


def xavier_uniform_(tensor: Tensor, gain: float = 1.0, *, rng: Generator | None = None) -> Tensor:
    """Fill with uniform numbers of variance ``2 gain**2 / (fan_in + fan_out)`` (Glorot and Bengio 2010).

    Examples
    --------
    >>> import grilly_core as grilly
    >>> w = grilly.nn.init.xavier_uniform_(grilly.zeros((3, 3)))
    >>> bool((w.abs() <= 1.0).all())
    True
    """
    bound = gain * math.sqrt(6.0 / sum(_fans(tensor)))
    return uniform_(tensor, -bound, bound, rng=rng)


def xavier_normal_(tensor: Tensor, gain: float = 1.0, *, rng: Generator | None = None) -> Tensor:
    """Fill with normal numbers of variance ``2 gain**2 / (fan_in + fan_out)`` (Glorot and Bengio 2010).

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.nn.init.xavier_normal_(grilly.zeros((2, 3))).shape
    (2, 3)
    """
    return normal_(tensor, 0.0, gain * math.sqrt(2.0 / sum(_fans(tensor))), rng=rng)


def _kaiming_std(tensor: Tensor, a: float, mode: str, nonlinearity: str) -> float:
    return calculate_gain(nonlinearity, a) / math.sqrt(_fan(tensor, mode))


def kaiming_uniform_(
    tensor: Tensor,
    a: float = 0.0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    *,
    rng: Generator | None = None,
) -> Tensor:
    """Fill with uniform numbers of variance ``gain**2 / fan`` (He et al. 2015).

    Parameters
    ----------
    tensor : Tensor
    a : float
        Negative slope of ``"leaky_relu"``.
    mode : {"fan_in", "fan_out"}
        Keep the variance forward or backward.
    nonlinearity : str
        See `calculate_gain`.
    rng : Generator, optional

    Examples
    --------
    >>> import grilly_core as grilly
    >>> w = grilly.nn.init.kaiming_uniform_(grilly.zeros((2, 6)))
    >>> bool((w.abs() <= 1.0).all())
    True
    """
    if 0 in tensor.shape:
        return tensor
    bound = math.sqrt(3.0) * _kaiming_std(tensor, a, mode, nonlinearity)
    return uniform_(tensor, -bound, bound, rng=rng)


def kaiming_normal_(
    tensor: Tensor,
    a: float = 0.0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    *,
    rng: Generator | None = None,
) -> Tensor:
    """Fill with normal numbers of variance ``gain**2 / fan``; see `kaiming_uniform_`.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> w = grilly.nn.init.kaiming_normal_(grilly.zeros((2, 3)), nonlinearity="relu")
    >>> w.shape
    (2, 3)
    """
    if 0 in tensor.shape:
        return tensor
    return normal_(tensor, 0.0, _kaiming_std(tensor, a, mode, nonlinearity), rng=rng)


def orthogonal_(tensor: Tensor, gain: float = 1.0, *, rng: Generator | None = None) -> Tensor:
    """Write a (semi-)orthogonal matrix times `gain` (Saxe et al. 2013); further axes count as columns.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> w = grilly.nn.init.orthogonal_(grilly.zeros((2, 3)))
    >>> bool(((w @ w.T - grilly.eye(2)).abs() < 1e-5).all())
    True
    """
    if tensor.ndim < 2:
        raise ShapeError(f"orthogonal_: expected at least two axes; received shape {tuple(tensor.shape)}.")
    if 0 in tensor.shape or _idle.get():
        return tensor
    rows, columns = tensor.shape[0], math.prod(tensor.shape[1:])
    flat = np.asarray(_draws((rows, columns), 0.0, 1.0, rng), np.float64)
    q, r = np.linalg.qr(flat.T if rows < columns else flat)
    q *= np.sign(np.diag(r))  # makes the result uniform over the orthogonal matrices
    return _write(tensor, gain * (q.T if rows < columns else q).reshape(tensor.shape))


def sparse_(tensor: Tensor, sparsity: float, std: float = 0.01, *, rng: Generator | None = None) -> Tensor:
    """Fill a matrix with normal numbers, then set a share `sparsity` of each column to zero.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> w = grilly.nn.init.sparse_(grilly.zeros((4, 2)), sparsity=0.5)
    >>> (w == 0).sum(dim=0).tolist()
    [2, 2]
    """
    if tensor.ndim != 2:
        raise ShapeError(f"sparse_: expected a matrix; received shape {tuple(tensor.shape)}.")
    if not 0.0 <= sparsity <= 1.0:
        raise ValueError(f"sparse_: sparsity must lie in [0, 1]; received {sparsity}.")
    if _idle.get():
        return tensor
    rows, columns = tensor.shape
    values = _draws((rows, columns), 0.0, std, rng)
    order = np.argsort(random.rand(rows, columns, device="cpu", rng=rng).numpy(), axis=0)
    np.put_along_axis(values, order[: math.ceil(sparsity * rows)], 0.0, axis=0)
    return _write(tensor, values)
