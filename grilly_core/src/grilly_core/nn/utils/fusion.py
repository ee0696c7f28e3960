"""Folding a batch normalisation into the layer before it, for inference."""

from __future__ import annotations

import copy
from typing import Any, TypeVar

from grilly_core.config import no_grad
from grilly_core.errors import ShapeError
from grilly_core.nn.linear import Linear
from grilly_core.nn.module import Module
from grilly_core.nn.norm import _BatchNorm
from grilly_core.nn.parameter import Parameter
from grilly_core.ops.creation import ones_like, zeros_like
from grilly_core.tensor import Tensor

__all__ = ["fuse_conv_bn_eval", "fuse_conv_bn_weights", "fuse_linear_bn_eval", "fuse_linear_bn_weights"]

ConvT = TypeVar("ConvT", bound=Module)
LinearT = TypeVar("LinearT", bound=Linear)


def fuse_conv_bn_eval(conv: ConvT, bn: _BatchNorm, transpose: bool = False) -> ConvT:
    """Return a convolution that does what `conv` and then `bn` do in evaluation.

    Parameters
    ----------
    conv : Module
        A convolution in evaluation mode; it stays as it is.
    bn : BatchNorm1d, BatchNorm2d or BatchNorm3d
        In evaluation mode, with running statistics.
    transpose : bool
        Whether `conv` is a transposed convolution.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> conv, bn = grilly.nn.Conv2d(3, 4, 3).eval(), grilly.nn.BatchNorm2d(4).eval()
    >>> fused, x = grilly.nn.utils.fuse_conv_bn_eval(conv, bn), grilly.randn(1, 3, 5, 5)
    >>> grilly.testing.assert_close(fused(x), bn(conv(x)), rtol=1e-4, atol=1e-5)
    """
    mean, var = _statistics(conv, bn, "fuse_conv_bn_eval")
    fused: Any = copy.deepcopy(conv)
    found = fuse_conv_bn_weights(fused.weight, fused.bias, mean, var, bn.eps, bn.weight, bn.bias, transpose)
    fused.weight, fused.bias = found
    whole: ConvT = fused
    return whole


def _statistics(layer: Module, bn: _BatchNorm, name: str) -> tuple[Tensor, Tensor]:
    if layer.training or bn.training:
        raise ValueError(f"{name}: both modules must be in evaluation mode; call eval() on them.")
    if bn.running_mean is None or bn.running_var is None:
        raise ValueError(f"{name}: bn has no running statistics, so what it does depends on the batch.")
    return bn.running_mean, bn.running_var


def fuse_conv_bn_weights(
    conv_w: Tensor,
    conv_b: Tensor | None,
    bn_rm: Tensor,
    bn_rv: Tensor,
    bn_eps: float,
    bn_w: Tensor | None,
    bn_b: Tensor | None,
    transpose: bool = False,
) -> tuple[Parameter, Parameter]:
    """Return weight and bias of a convolution with a batch normalisation folded in.

    Parameters
    ----------
    conv_w : Tensor
    conv_b : Tensor or None
    bn_rm, bn_rv : Tensor
        Running mean and variance.
    bn_eps : float
    bn_w, bn_b : Tensor or None
    transpose : bool
        Whether the weight is that of a transposed convolution, with the outputs on axis 1.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> w, one = grilly.full((1, 1, 1), 3.0), grilly.ones(1)
    >>> weight, bias = grilly.nn.utils.fuse_conv_bn_weights(w, None, one, 4.0 * one, 0.0, None, None)
    >>> weight.item(), bias.item()
    (1.5, -0.5)
    """
    shape = [1] * conv_w.ndim
    shape[1 if transpose else 0] = -1
    with no_grad():
        scale = (bn_rv + bn_eps).rsqrt() * (ones_like(bn_rm) if bn_w is None else bn_w)
        b = zeros_like(bn_rm) if conv_b is None else conv_b
        shifted = (b - bn_rm) * scale + (0.0 if bn_b is None else bn_b)
        weight = (conv_w * scale.reshape(shape)).to(conv_w.dtype)
        bias = shifted.to(conv_w.dtype if conv_b is None else conv_b.dtype)
    learnt = False if conv_b is None else conv_b.requires_grad
    return Parameter(weight, conv_w.requires_grad), Parameter(bias, learnt)


def fuse_linear_bn_eval(linear: LinearT, bn: _BatchNorm) -> LinearT:
    """Return a dense layer that does what `linear` and then `bn` do in evaluation.

    Parameters
    ----------
    linear : Linear
        In evaluation mode; it stays as it is.
    bn : BatchNorm1d, BatchNorm2d or BatchNorm3d
        In evaluation mode, with running statistics, of as many features as `linear` has outputs, or of one.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> linear, bn = grilly.nn.Linear(3, 4).eval(), grilly.nn.BatchNorm1d(4).eval()
    >>> fused, x = grilly.nn.utils.fuse_linear_bn_eval(linear, bn), grilly.randn(2, 3)
    >>> grilly.testing.assert_close(fused(x), bn(linear(x)), rtol=1e-4, atol=1e-5)
    """
    mean, var = _statistics(linear, bn, "fuse_linear_bn_eval")
    if bn.num_features not in (linear.out_features, 1):
        raise ShapeError(
            f"fuse_linear_bn_eval: bn must have {linear.out_features} features, or one; it has {bn.num_features}."
        )
    w = ones_like(mean) if bn.weight is None else bn.weight
    b = zeros_like(mean) if bn.bias is None else bn.bias
    fused = copy.deepcopy(linear)
    fused.weight, fused.bias = fuse_linear_bn_weights(fused.weight, fused.bias, mean, var, bn.eps, w, b)
    return fused


def fuse_linear_bn_weights(
    linear_w: Tensor,
    linear_b: Tensor | None,
    bn_rm: Tensor,
    bn_rv: Tensor,
    bn_eps: float,
    bn_w: Tensor,
    bn_b: Tensor,
) -> tuple[Parameter, Parameter]:
    """Return weight and bias of a dense layer with a batch normalisation folded in; see `fuse_conv_bn_weights`.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> w, one = grilly.full((1, 1), 3.0), grilly.ones(1)
    >>> weight, bias = grilly.nn.utils.fuse_linear_bn_weights(w, None, one, 4.0 * one, 0.0, one, one)
    >>> weight.item(), bias.item()
    (1.5, 0.5)
    """
    return fuse_conv_bn_weights(linear_w, linear_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b)
