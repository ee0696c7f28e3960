"""Functions that draw: whole channels dropped, dropping that keeps mean and variance, random slopes and choices."""

from __future__ import annotations

import math
import warnings
from typing import Any

from grilly_core.errors import DTypeError, ShapeError
from grilly_core.functional._arguments import TensorLike, tensor
from grilly_core.functional.activations import softmax
from grilly_core.functional.layers import dropout
from grilly_core.ops import random
from grilly_core.ops.creation import ones
from grilly_core.ops.index import put_along_axis
from grilly_core.ops.primitives import argmax, log, where
from grilly_core.random import Generator
from grilly_core.tensor import Tensor

__all__ = [
    "alpha_dropout", "dropout1d", "dropout2d", "dropout3d", "feature_alpha_dropout", "gumbel_softmax", "rrelu",
]  # fmt: skip

#: What `selu` goes to at minus infinity.
_FLOOR = -1.7580993408473766


def _checked(name: str, input: Any, p: float) -> Tensor:
    if not 0 <= p <= 1:
        raise ValueError(f"{name}: p must lie in [0, 1]; received {p}.")
    x = tensor(input)
    if not x.dtype.is_floating:
        raise DTypeError(f"{name}: expected a floating input; received {x.dtype.name}.")
    return x


def _written(y: Tensor, input: Any, inplace: bool) -> Tensor:
    if not inplace:
        return y
    if not isinstance(input, Tensor):
        raise TypeError(f"inplace=True needs a tensor to write to; received {type(input).__name__}.")
    return input.copy_(y)


def _mask(x: Tensor, lead: int, p: float, rng: Generator | None) -> Tensor:
    """Return ones, dropped and scaled, over the first `lead` axes."""
    shape = (*x.shape[:lead], *(1,) * (x.ndim - lead))
    return dropout(ones(shape, dtype=x.dtype, device=x.device), p, rng=rng)


def _channels(
    axes: int, input: Any, p: float, training: bool, inplace: bool, rng: Generator | None, batch: bool
) -> Tensor:
    name = f"dropout{axes}d"
    x = _checked(name, input, p)
    if x.ndim not in (axes + 1, axes + 2):
        raise ShapeError(
            f"{name}: expected {axes + 2} axes (N, C, ...), or {axes + 1}; received shape {tuple(x.shape)}."
        )
    if not training or p == 0:
        return x
    lead = 2 if batch or x.ndim == axes + 2 else 1
    # zeros even where x is infinite
    y = where(_mask(x, lead, p, rng) == 0, 0.0, x * (1.0 / (1.0 - p))) if p < 1 else where(False, x, 0.0)
    return _written(y, input, inplace)


def dropout1d(
    input: TensorLike, p: float = 0.5, training: bool = True, inplace: bool = False, *, rng: Generator | None = None
) -> Tensor:  # fmt: skip
    """Zero whole channels with probability `p` and scale the others by ``1 / (1 - p)``.

    Parameters
    ----------
    input : array_like, (N, C, L) or (C, L)
    p : float
    training : bool
        False returns the input.
    inplace : bool
        Also write the result to `input`.
    rng : Generator, optional

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.functional.dropout1d(grilly.ones((1, 2, 3)), p=1.0).sum().item()
    0.0
    """
    return _channels(1, input, p, training, inplace, rng, False)


def dropout2d(
    input: TensorLike, p: float = 0.5, training: bool = True, inplace: bool = False, *, rng: Generator | None = None
) -> Tensor:  # fmt: skip
    """Zero whole channels of ``(N, C, H, W)``; see `dropout1d`.

    An input of 3 axes is ``(N, C, L)``, as in PyTorch, with a warning.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.functional.dropout2d(grilly.ones((1, 2, 3, 3)), training=False).sum().item()
    18.0
    """
    if tensor(input).ndim == 3:
        warnings.warn(
            "dropout2d: an input of 3 axes is taken as (N, C, L); use dropout1d for that.", stacklevel=2
        )
    return _channels(2, input, p, training, inplace, rng, True)


def dropout3d(
    input: TensorLike, p: float = 0.5, training: bool = True, inplace: bool = False, *, rng: Generator | None = None
) -> Tensor:  # fmt: skip
    """Zero whole channels of ``(N, C, D, H, W)`` or ``(C, D, H, W)``; see `dropout1d`.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.functional.dropout3d(grilly.ones((1, 2, 1, 1, 1)), p=1.0).sum().item()
    0.0
    """
    return _channels(3, input, p, training, inplace, rng, False)


def _alpha(
    name: str, input: Any, p: float, training: bool, inplace: bool, lead: int | None, rng: Any
) -> Tensor:
    x = _checked(name, input, p)
    if not training or p == 0:
        return x
    if p == 1:
        return _written(where(False, x, 0.0), input, inplace)
    kept = _mask(x, x.ndim if lead is None else lead, p, rng) > 0
    scale = 1.0 / math.sqrt((_FLOOR * _FLOOR * p + 1.0) * (1.0 - p))
    y = where(kept, x, _FLOOR) * scale - scale * _FLOOR * p
    return _written(y, input, inplace)


def alpha_dropout(
    input: TensorLike, p: float = 0.5, training: bool = False, inplace: bool = False, *, rng: Generator | None = None
) -> Tensor:  # fmt: skip
    """Set elements to the floor of `selu` with probability `p`, then scale and shift: mean and variance stay.

    Parameters
    ----------
    input : array_like
    p : float
    training : bool
        False returns the input.
    inplace : bool
        Also write the result to `input`.
    rng : Generator, optional

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.functional.alpha_dropout(grilly.ones(2)).tolist()
    [1.0, 1.0]
    """
    return _alpha("alpha_dropout", input, p, training, inplace, None, rng)


def feature_alpha_dropout(
    input: TensorLike, p: float = 0.5, training: bool = False, inplace: bool = False, *, rng: Generator | None = None
) -> Tensor:  # fmt: skip
    """Like `alpha_dropout`, for whole channels of ``(N, C, ...)``.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.functional.feature_alpha_dropout(grilly.ones((1, 2, 3))).sum().item()
    6.0
    """
    if tensor(input).ndim < 2:
        raise ShapeError(
            f"feature_alpha_dropout: expected (N, C, ...); received {tuple(tensor(input).shape)}."
        )
    return _alpha("feature_alpha_dropout", input, p, training, inplace, 2, rng)


def rrelu(
    input: TensorLike, lower: float = 1.0 / 8, upper: float = 1.0 / 3, training: bool = False, inplace: bool = False,
    *, rng: Generator | None = None,
) -> Tensor:  # fmt: skip
    """Return `input` where it is positive, else a random part of it; the mean of both bounds outside training.

    Parameters
    ----------
    input : array_like
    lower, upper : float
        Bounds of the slope.
    training : bool
    inplace : bool
        Also write the result to `input`.
    rng : Generator, optional

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.functional.rrelu(-4.0, 0.25, 0.75).item()
    -2.0
    """
    if lower > upper:
        raise ValueError(f"rrelu: lower must not exceed upper; received {lower} and {upper}.")
    x = tensor(input)
    slope: Any = (lower + upper) / 2.0
    if training:
        slope = random.uniform(lower, upper, x.shape, dtype=x.dtype, device=x.device, rng=rng)
    return _written(where(x > 0, x, x * slope), input, inplace)


def gumbel_softmax(
    logits: TensorLike, tau: float = 1.0, hard: bool = False, eps: float = 1e-10, dim: int = -1, *,
    rng: Generator | None = None,
) -> Tensor:  # fmt: skip
    """Return a random near-choice among `logits`, through which gradients flow (Jang et al. 2017).

    Parameters
    ----------
    logits : array_like
    tau : float
        Temperature: the smaller, the closer to a choice.
    hard : bool
        Return exact choices, with the gradient of the soft ones.
    eps : float
        Without effect, as in PyTorch; only its default is taken.
    dim : int
    rng : Generator, optional

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.functional.gumbel_softmax(grilly.zeros((2, 3)), hard=True).sum(dim=1).tolist()
    [1.0, 1.0]
    """
    if eps != 1e-10:
        raise ValueError(f"gumbel_softmax: eps has no meaning any more; leave it out. Received {eps}.")
    x = tensor(logits)
    draws = random.uniform(0.0, 1.0, x.shape, dtype=x.dtype, device=x.device, rng=rng)
    tiny = (
        2.0**-25 if x.dtype.itemsize <= 4 else 2.0**-54
    )  # half a step of the grid, so that the logs are finite
    gumbel = -log(-log(draws + tiny))
    y = softmax((x + gumbel) / tau, dim)
    if not hard:
        return y
    axis = dim % y.ndim
    best = argmax(y, axis=axis, keepdims=True)
    chosen = put_along_axis(
        y.detach() * 0.0, best, ones(best.shape, dtype=y.dtype, device=y.device), axis=axis
    )
    return chosen - y.detach() + y
