"""Softmax and the normalisations, each with a fused gradient that is an op of its own."""

from __future__ import annotations

import math
from typing import Any

from grilly_core.errors import ShapeError
from grilly_core.ops._typing import Attrs, Needs, Samples, Tensors
from grilly_core.ops.primitives import exp, log, max, sqrt, sum
from grilly_core.ops.views import reshape
from grilly_core.opspec import Op, op
from grilly_core.tensor import Tensor

__all__ = [
    "batch_norm_eval", "batch_norm_train", "batch_norm_vjp", "layer_norm", "layer_norm_vjp", "log_softmax",
    "log_softmax_vjp", "rms_norm", "rms_norm_vjp", "softmax", "softmax_vjp",
]  # fmt: skip

Shape = tuple[int, ...]


@op("nn.softmax", autocast="f32", saves="outs")
def softmax(x: Tensor, *, axis: int = -1) -> Tensor:
    """Return ``exp(x) / sum(exp(x))`` along one axis; a slice of nothing but ``-inf`` gives NaN (IEEE)."""
    if x.ndim and x.shape[axis] == 0:  # nothing has no maximum
        return exp(x)
    e = exp(x - max(x, axis=axis, keepdims=True))
    return e / sum(e, axis=axis, keepdims=True)


@softmax.vjp
def _(grads: Tensors, outs: Tensors, ins: Tensors, attrs: Attrs, needs: Needs) -> Tensors:
    return (softmax_vjp(grads[0], outs[0], axis=attrs["axis"]),)


@op("nn.softmax_vjp", internal=True)
def softmax_vjp(g: Tensor, y: Tensor, *, axis: int = -1) -> Tensor:
    """Gradient of `softmax`, from its output `y`."""
    return y * (g - sum(g * y, axis=axis, keepdims=True))


@op("nn.log_softmax", autocast="f32", saves="outs")
def log_softmax(x: Tensor, *, axis: int = -1) -> Tensor:
    """Return ``log(softmax(x))`` without forming the softmax."""
    if x.ndim and x.shape[axis] == 0:
        return exp(x)
    shifted = x - max(x, axis=axis, keepdims=True)
    return shifted - log(sum(exp(shifted), axis=axis, keepdims=True))


@log_softmax.vjp
def _(grads: Tensors, outs: Tensors, ins: Tensors, attrs: Attrs, needs: Needs) -> Tensors:
    return (log_softmax_vjp(grads[0], outs[0], axis=attrs["axis"]),)


@op("nn.log_softmax_vjp", internal=True)
def log_softmax_vjp(g: Tensor, y: Tensor, *, axis: int = -1) -> Tensor:
    """Gradient of `log_softmax`, from its output `y`."""
    return g - exp(y) * sum(g, axis=axis, keepdims=True)


def _last_axes(x: Tensor, normalized_shape: Shape, name: str) -> tuple[Shape, int]:
    """Return the axes that `normalized_shape` covers and how many elements they have."""
    k = len(normalized_shape)
    if k == 0 or tuple(x.shape[-k:]) != tuple(normalized_shape):
        raise ShapeError(
            f"{name}: normalized_shape {tuple(normalized_shape)} must equal the last {k} axes of the input, "
            f"which has shape {tuple(x.shape)}."
        )
    return tuple(range(x.ndim - k, x.ndim)), math.prod(normalized_shape)


def _check_affine(name: str, shape: Shape, **parameters: Tensor | None) -> None:
    for label, parameter in parameters.items():
        if parameter is not None and tuple(parameter.shape) != tuple(shape):
            raise ShapeError(
                f"{name}: {label} must have shape {tuple(shape)}; received {tuple(parameter.shape)}."
            )


def _leading(x: Tensor, normalized_shape: Shape) -> Shape:
    return tuple(range(x.ndim - len(normalized_shape)))


def _affine(y: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
    if weight is not None:
        y = y * weight
    return y if bias is None else y + bias


@op("nn.layer_norm", hidden=2, autocast="f32")
def layer_norm(
    x: Tensor,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    *,
    normalized_shape: Shape,
    eps: float = 1e-5,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return ``(x - mean) / sqrt(var + eps) * weight + bias`` over the last axes (biased variance).

    The hidden outputs are the mean and ``1 / sqrt(var + eps)``.
    """
    axes, n = _last_axes(x, normalized_shape, "layer_norm")
    _check_affine("layer_norm", normalized_shape, weight=weight, bias=bias)
    mean = sum(x, axis=axes, keepdims=True) / n
    centred = x - mean
    rstd = 1.0 / sqrt(sum(centred * centred, axis=axes, keepdims=True) / n + eps)
    return _affine(centred * rstd, weight, bias), mean, rstd


@layer_norm.vjp
def _(grads: Tensors, outs: Tensors, ins: Tensors, attrs: Attrs, needs: Needs) -> Tensors:
    gx, gweight, gbias = layer_norm_vjp(
        grads[0], ins[0], ins[1], outs[1], outs[2], normalized_shape=attrs["normalized_shape"]
    )
    return gx, gweight if needs[1] else None, gbias if needs[2] else None


@op("nn.layer_norm_vjp", internal=True)
def layer_norm_vjp(
    g: Tensor,
    x: Tensor,
    weight: Tensor | None = None,
    mean: Tensor | None = None,
    rstd: Tensor | None = None,
    *,
    normalized_shape: Shape,
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of `layer_norm` for x, weight and bias."""
    assert mean is not None and rstd is not None
    axes, n = _last_axes(x, normalized_shape, "layer_norm_vjp")
    normal = (x - mean) * rstd
    leading = _leading(x, normalized_shape)
    gweight, gbias = sum(g * normal, axis=leading), sum(g, axis=leading)
    gy = g if weight is None else g * weight
    inner = sum(gy, axis=axes, keepdims=True) + normal * sum(gy * normal, axis=axes, keepdims=True)
    return rstd * (gy - inner / n), gweight, gbias


@op("nn.rms_norm", hidden=1, autocast="f32")
def rms_norm(
    x: Tensor, weight: Tensor | None = None, *, normalized_shape: Shape, eps: float | None = None
) -> tuple[Tensor, Tensor]:
    """Return ``x / sqrt(mean(x**2) + eps) * weight`` over the last axes.

    Without `eps` the machine epsilon of the input's dtype is used. The hidden output is ``1 / sqrt(...)``.
    """
    axes, n = _last_axes(x, normalized_shape, "rms_norm")
    _check_affine("rms_norm", normalized_shape, weight=weight)
    if eps is None:
        eps = machine_epsilon(x)
    rstd = 1.0 / sqrt(sum(x * x, axis=axes, keepdims=True) / n + eps)
    return _affine(x * rstd, weight, None), rstd


def machine_epsilon(x: Tensor) -> float:
    """Distance from 1 to the next number of the input's dtype."""
    return {"float16": 2.0**-10, "bfloat16": 2.0**-7, "float64": 2.0**-52}.get(x.dtype.name, 2.0**-23)


@rms_norm.vjp
def _(grads: Tensors, outs: Tensors, ins: Tensors, attrs: Attrs, needs: Needs) -> Tensors:
    gx, gweight = rms_norm_vjp(grads[0], ins[0], ins[1], outs[1], normalized_shape=attrs["normalized_shape"])
    return gx, gweight if needs[1] else None


@op("nn.rms_norm_vjp", internal=True)
def rms_norm_vjp(
    g: Tensor,
    x: Tensor,
    weight: Tensor | None = None,
    rstd: Tensor | None = None,
    *,
    normalized_shape: Shape,
) -> tuple[Tensor, Tensor]:
    """Gradients of `rms_norm` for x and weight."""
    assert rstd is not None
    axes, n = _last_axes(x, normalized_shape, "rms_norm_vjp")
    normal = x * rstd
    gweight = sum(g * normal, axis=_leading(x, normalized_shape))
    gy = g if weight is None else g * weight
    return rstd * (gy - normal * (sum(gy * normal, axis=axes, keepdims=True) / n)), gweight


def _channel_axes(x: Tensor, name: str) -> tuple[Shape, Shape, int]:
    """Return the axes a channel spans, the shape that lines a (C,) tensor up with x, and the count."""
    if x.ndim < 2:
        raise ShapeError(f"{name}: expected (N, C, ...); received shape {tuple(x.shape)}.")
    axes = (0, *range(2, x.ndim))
    return axes, (x.shape[1],) + (1,) * (x.ndim - 2), math.prod(x.shape[a] for a in axes)


def _per_channel(v: Tensor | None, shape: Shape) -> Tensor | None:
    return None if v is None else reshape(v, shape=shape)


@op("nn.batch_norm_train", hidden=1, nondiff_outputs={1, 2}, autocast="f32")
def batch_norm_train(
    x: Tensor, weight: Tensor | None = None, bias: Tensor | None = None, *, eps: float = 1e-5
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Normalise each channel (axis 1) by its batch statistics.

    Returns the output, the mean and the biased variance (both ``(C,)``, without gradient); the hidden
    output is ``1 / sqrt(var + eps)``.
    """
    axes, shape, n = _channel_axes(x, "batch_norm")
    _check_affine("batch_norm", (x.shape[1],), weight=weight, bias=bias)
    mean = sum(x, axis=axes) / n
    centred = x - reshape(mean, shape=shape)
    var = sum(centred * centred, axis=axes) / n
    rstd = 1.0 / sqrt(var + eps)
    y = centred * reshape(rstd, shape=shape)
    return _affine(y, _per_channel(weight, shape), _per_channel(bias, shape)), mean, var, rstd


@batch_norm_train.vjp
def _(grads: Tensors, outs: Tensors, ins: Tensors, attrs: Attrs, needs: Needs) -> Tensors:
    gx, gweight, gbias = batch_norm_vjp(grads[0], ins[0], ins[1], outs[1], outs[3])
    return gx, gweight if needs[1] else None, gbias if needs[2] else None


@op("nn.batch_norm_vjp", internal=True)
def batch_norm_vjp(
    g: Tensor,
    x: Tensor,
    weight: Tensor | None = None,
    mean: Tensor | None = None,
    rstd: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of `batch_norm_train` for x, weight and bias."""
    assert mean is not None and rstd is not None
    axes, shape, n = _channel_axes(x, "batch_norm_vjp")
    scale = reshape(rstd, shape=shape)
    normal = (x - reshape(mean, shape=shape)) * scale
    gweight, gbias = sum(g * normal, axis=axes), sum(g, axis=axes)
    inner = (reshape(gbias, shape=shape) + normal * reshape(gweight, shape=shape)) / n
    factor = scale if weight is None else scale * reshape(weight, shape=shape)
    return factor * (g - inner), gweight, gbias


@op("nn.batch_norm_eval", autocast="f32")
def batch_norm_eval(
    x: Tensor,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    mean: Tensor | None = None,
    var: Tensor | None = None,
    *,
    eps: float = 1e-5,
) -> Tensor:
    """Normalise each channel (axis 1) by given statistics."""
    if mean is None or var is None:
        raise TypeError("batch_norm_eval: mean and var are needed; they come after weight and bias.")
    _, shape, _ = _channel_axes(x, "batch_norm")
    _check_affine("batch_norm", (x.shape[1],), weight=weight, bias=bias, mean=mean, var=var)
    scale = 1.0 / sqrt(var + eps)
    if weight is not None:
        scale = scale * weight
    y = (x - reshape(mean, shape=shape)) * reshape(scale, shape=shape)
    return y if bias is None else y + reshape(bias, shape=shape)


def _by_axis(s: Samples) -> None:
    s.case(s.f32(3, 5))
    s.case(s.f32(3, 5, 2), axis=1)
    s.case(s.f32(4), axis=0)
    s.case(s.f32(2, 0))


def _by_axis_with_gradient(s: Samples) -> None:
    s.case(s.f32(3, 5), s.f32(3, 5, low=0.0, high=0.4))
    s.case(s.f32(3, 5, 2), s.f32(3, 5, 2, low=0.0, high=0.4), axis=1)


_made: Op[..., Any]
for _made in (softmax, log_softmax):
    _made.samples(_by_axis)
for _made in (softmax_vjp, log_softmax_vjp):
    _made.samples(_by_axis_with_gradient)


@layer_norm.samples
def _(s: Samples) -> None:
    s.case(s.f32(4, 6), s.f32(6), s.f32(6), normalized_shape=(6,))
    s.case(s.f32(2, 3, 4), None, None, normalized_shape=(3, 4), eps=1e-3)
    s.error(ShapeError, "normalized_shape", s.f32(4, 6), normalized_shape=(5,))


@layer_norm_vjp.samples
def _(s: Samples) -> None:
    mean, rstd = s.f32(4, 1), s.f32(4, 1, low=0.5, high=2.0)
    s.case(s.f32(4, 6), s.f32(4, 6), s.f32(6), mean, rstd, normalized_shape=(6,))
    s.case(s.f32(4, 6), s.f32(4, 6), None, mean, rstd, normalized_shape=(6,))


@rms_norm.samples
def _(s: Samples) -> None:
    s.case(s.f32(4, 6), s.f32(6), normalized_shape=(6,), eps=1e-5)
    s.case(s.f32(2, 3, 4), None, normalized_shape=(3, 4))
    s.error(ShapeError, "normalized_shape", s.f32(4, 6), normalized_shape=(5,))


@rms_norm_vjp.samples
def _(s: Samples) -> None:
    s.case(s.f32(4, 6), s.f32(4, 6), s.f32(6), s.f32(4, 1, low=0.5, high=2.0), normalized_shape=(6,))
    s.case(s.f32(4, 6), s.f32(4, 6), None, s.f32(4, 1, low=0.5, high=2.0), normalized_shape=(6,))


@batch_norm_train.samples
def _(s: Samples) -> None:
    s.case(s.f32(6, 3), s.f32(3), s.f32(3))
    s.case(s.f32(2, 3, 4, 2), None, None)
    s.error(ShapeError, "weight", s.f32(6, 3), s.f32(4))


@batch_norm_vjp.samples
def _(s: Samples) -> None:
    s.case(s.f32(6, 3), s.f32(6, 3), s.f32(3), s.f32(3), s.f32(3, low=0.5, high=2.0))
    s.case(s.f32(2, 3, 4), s.f32(2, 3, 4), None, s.f32(3), s.f32(3, low=0.5, high=2.0))


@batch_norm_eval.samples
def _(s: Samples) -> None:
    s.case(s.f32(6, 3), s.f32(3), s.f32(3), s.f32(3), s.f32(3, low=0.5, high=2.0))
    s.case(s.f32(2, 3, 4), None, None, s.f32(3), s.f32(3, low=0.5, high=2.0))
