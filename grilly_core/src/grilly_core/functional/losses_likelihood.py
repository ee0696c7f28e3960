"""Negative log-likelihoods of counts and of normal variables."""

from __future__ import annotations

import math

from grilly_core.errors import ShapeError
from grilly_core.functional._arguments import TensorLike, reduced, tensor
from grilly_core.ops.primitives import where
from grilly_core.tensor import Tensor

__all__ = ["gaussian_nll_loss", "poisson_nll_loss"]


def poisson_nll_loss(
    input: TensorLike,
    target: TensorLike,
    log_input: bool = True,
    full: bool = False,
    eps: float = 1e-8,
    reduction: str = "mean",
) -> Tensor:
    """Negative log-likelihood of counts `target` under Poisson distributions.

    Parameters
    ----------
    input : array_like
        Logarithms of the rates, or the rates with ``log_input=False``.
    target : array_like
    log_input : bool
    full : bool
        Add Stirling's approximation of ``log(target!)`` for targets above 1.
    eps : float
        Added to rates before their logarithm.
    reduction : {"mean", "sum", "none"}

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.functional.poisson_nll_loss(grilly.tensor([0.0]), grilly.tensor([2.0])).item()
    1.0
    """
    x = tensor(input)
    t = tensor(target, like=x)
    t = t if t.dtype.is_floating else t.to(x.dtype)
    losses = x.exp() - t * x if log_input else x - t * (x + eps).log()
    if full:
        many = t > 1
        safe = where(many, t, 1.0)  # log(0) would leave NaN in the gradient of the part not taken
        losses = losses + where(many, t * safe.log() - t + 0.5 * (2.0 * math.pi * safe).log(), 0.0)
    return reduced(losses, reduction)


def gaussian_nll_loss(
    input: TensorLike,
    target: TensorLike,
    var: TensorLike,
    full: bool = False,
    eps: float = 1e-6,
    reduction: str = "mean",
) -> Tensor:
    """Negative log-likelihood of `target` under normal distributions of mean `input` and variance `var`.

    Parameters
    ----------
    input, target : array_like
    var : array_like
        One number, the shape of `input`, or that shape without its last axis or with 1 there.
    full : bool
        Add the constant ``log(2 pi) / 2``.
    eps : float
        Least variance; the gradient of `var` is that at the raised value.
    reduction : {"mean", "sum", "none"}

    Examples
    --------
    >>> import grilly_core as grilly
    >>> f = grilly.functional.gaussian_nll_loss
    >>> f(grilly.tensor([0.0]), grilly.tensor([2.0]), grilly.tensor([1.0])).item()
    2.0
    """
    if eps <= 0:
        raise ValueError(f"gaussian_nll_loss: eps must be positive; received {eps}.")
    x = tensor(input)
    t, v = tensor(target, like=x), tensor(var, like=x)
    if isinstance(var, (int, float)):
        v = v.expand(tuple(x.shape))
    elif v.shape != x.shape:
        if tuple(v.shape) == tuple(x.shape[:-1]):
            v = v.unsqueeze(-1)
        elif tuple(v.shape[:-1]) != tuple(x.shape[:-1]) or v.shape[-1:] != (1,):
            raise ShapeError(
                f"gaussian_nll_loss: for an input of shape {tuple(x.shape)} var has that shape, or lacks its last "
                f"axis, or has 1 there; received {tuple(v.shape)}."
            )
    if v.numel() and bool((v.detach() < 0).any().item()):
        raise ValueError("gaussian_nll_loss: every variance must be at least 0; received a negative one.")
    fixed = v.detach()
    v = v + where(fixed < eps, eps - fixed, 0.0)
    losses = 0.5 * (v.log() + (x - t) ** 2 / v)
    return reduced(losses + 0.5 * math.log(2.0 * math.pi) if full else losses, reduction)
