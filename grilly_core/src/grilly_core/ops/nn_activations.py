"""Activations: the fused ones with gradients of their own, the others as plain compositions.

Names, defaults and slopes at the kinks are PyTorch's. Every formula is written so that it neither overflows
nor loses the small tail: exponentials are only taken of numbers that are not positive.
"""

from __future__ import annotations

import math
from typing import Any, Final

from grilly_core.errors import ShapeError
from grilly_core.ops._typing import Attrs, Needs, Samples, Tensors
from grilly_core.ops.primitives import abs, cos, erf, exp, expm1, log1p, maximum, minimum, tanh, where
from grilly_core.ops.views import reshape
from grilly_core.opspec import Op, op
from grilly_core.tensor import Tensor

__all__ = [
    "celu", "elu", "gcu", "geglu", "gelu", "gelu_vjp", "glu", "hardshrink", "hardsigmoid", "hardswish", "hardtanh",
    "leaky_relu", "logsigmoid", "mish", "prelu", "reglu", "relu", "relu6", "relu_vjp", "roswish", "selu", "sigmoid",
    "sigmoid_vjp", "silu", "silu_vjp", "softplus", "softplus_vjp", "softshrink", "softsign", "swiglu",
    "tanh_vjp", "tanhshrink", "threshold",
]  # fmt: skip

_SQRT_HALF: Final = math.sqrt(0.5)
_INV_SQRT_TAU: Final = 1.0 / math.sqrt(2.0 * math.pi)
_TANH_SCALE: Final = math.sqrt(2.0 / math.pi)
_TANH_CUBIC: Final = 0.044715
_SELU_ALPHA: Final = 1.6732632423543772
_SELU_SCALE: Final = 1.0507009873554805


@op("nn.relu", elementwise=True, saves="outs")
def relu(x: Tensor) -> Tensor:
    """Return ``max(x, 0)``; NaN stays NaN and the slope at 0 is 0.

    Examples
    --------
    >>> import grilly
    >>> grilly.functional.relu(grilly.asarray([-1.0, 2.0])).tolist()
    [0.0, 2.0]
    """
    return maximum(x, 0)


@relu.vjp
def _(grads: Tensors, outs: Tensors, ins: Tensors, attrs: Attrs, needs: Needs) -> Tensors:
    return (relu_vjp(grads[0], outs[0]),)


@op("nn.relu_vjp", internal=True, elementwise=True)
def relu_vjp(g: Tensor, y: Tensor) -> Tensor:
    """Gradient of `relu`, from its output `y`."""
    return where(y > 0, g, 0)


@relu_vjp.vjp
def _(grads: Tensors, outs: Tensors, ins: Tensors, attrs: Attrs, needs: Needs) -> Tensors:
    return relu_vjp(grads[0], ins[1]), None


@op("nn.sigmoid", elementwise=True, saves="outs")
def sigmoid(x: Tensor) -> Tensor:
    """Return ``1 / (1 + exp(-x))``, exact in both tails."""
    e = exp(-abs(x))
    return where(x >= 0, 1.0, e) / (e + 1.0)


@sigmoid.vjp
def _(grads: Tensors, outs: Tensors, ins: Tensors, attrs: Attrs, needs: Needs) -> Tensors:
    return (sigmoid_vjp(grads[0], outs[0]),)


@op("nn.sigmoid_vjp", internal=True, elementwise=True)
def sigmoid_vjp(g: Tensor, y: Tensor) -> Tensor:
    """Gradient of `sigmoid`, from its output `y`."""
    return g * y * (1.0 - y)


@op("nn.tanh_vjp", internal=True, elementwise=True)
def tanh_vjp(g: Tensor, y: Tensor) -> Tensor:
    """Gradient of ``tanh``, from its output `y`."""
    return g * (1.0 - y * y)


@op("nn.gelu", elementwise=True, saves="ins")
def gelu(x: Tensor, *, approximate: str = "none") -> Tensor:
    """Return ``x * Phi(x)`` with the normal distribution function, or its ``"tanh"`` approximation."""
    if approximate == "none":
        return 0.5 * x * (1.0 + erf(x * _SQRT_HALF))
    _check_approximate(approximate)
    return 0.5 * x * (1.0 + tanh(_TANH_SCALE * (x + _TANH_CUBIC * x * x * x)))


@gelu.vjp
def _(grads: Tensors, outs: Tensors, ins: Tensors, attrs: Attrs, needs: Needs) -> Tensors:
    return (gelu_vjp(grads[0], ins[0], approximate=attrs["approximate"]),)


@op("nn.gelu_vjp", internal=True, elementwise=True)
def gelu_vjp(g: Tensor, x: Tensor, *, approximate: str = "none") -> Tensor:
    """Gradient of `gelu`, from its input `x`."""
    if approximate == "none":
        density = exp(-0.5 * x * x) * _INV_SQRT_TAU
        return g * (0.5 * (1.0 + erf(x * _SQRT_HALF)) + x * density)
    _check_approximate(approximate)
    t = tanh(_TANH_SCALE * (x + _TANH_CUBIC * x * x * x))
    slope = _TANH_SCALE * (1.0 + 3.0 * _TANH_CUBIC * x * x)
    return g * (0.5 * (1.0 + t) + 0.5 * x * (1.0 - t * t) * slope)


def _check_approximate(approximate: str) -> None:
    if approximate != "tanh":
        raise ValueError(f"gelu: approximate is 'none' or 'tanh'; received {approximate!r}.")


@op("nn.silu", elementwise=True, saves="ins")
def silu(x: Tensor) -> Tensor:
    """Return ``x * sigmoid(x)``, also called swish."""
    return x * sigmoid(x)


@silu.vjp
def _(grads: Tensors, outs: Tensors, ins: Tensors, attrs: Attrs, needs: Needs) -> Tensors:
    return (silu_vjp(grads[0], ins[0]),)


@op("nn.silu_vjp", internal=True, elementwise=True)
def silu_vjp(g: Tensor, x: Tensor) -> Tensor:
    """Gradient of `silu`, from its input `x`."""
    s = sigmoid(x)
    return g * s * (1.0 + x * (1.0 - s))


@op("nn.softplus", elementwise=True, saves="ins")
def softplus(x: Tensor, *, beta: float = 1.0, threshold: float = 20.0) -> Tensor:
    """Return ``log(1 + exp(beta x)) / beta``, linear where ``beta x`` exceeds `threshold`."""
    scaled = x * beta
    smooth = (log1p(exp(-abs(scaled))) + maximum(scaled, 0)) / beta
    return where(scaled > threshold, x, smooth)


@softplus.vjp
def _(grads: Tensors, outs: Tensors, ins: Tensors, attrs: Attrs, needs: Needs) -> Tensors:
    return (softplus_vjp(grads[0], ins[0], beta=attrs["beta"], threshold=attrs["threshold"]),)


@op("nn.softplus_vjp", internal=True, elementwise=True)
def softplus_vjp(g: Tensor, x: Tensor, *, beta: float = 1.0, threshold: float = 20.0) -> Tensor:
    """Gradient of `softplus`, from its input `x`."""
    scaled = x * beta
    return where(scaled > threshold, g, g * sigmoid(scaled))


@op("nn.leaky_relu", elementwise=True)
def leaky_relu(x: Tensor, *, negative_slope: float = 0.01) -> Tensor:
    """Return `x` where it is positive, else ``negative_slope * x``."""
    return where(x > 0, x, x * negative_slope)


@op("nn.elu", elementwise=True)
def elu(x: Tensor, *, alpha: float = 1.0) -> Tensor:
    """Return `x` where it is positive, else ``alpha * (exp(x) - 1)``."""
    return where(x > 0, x, alpha * expm1(_negative_part(x)))


@op("nn.selu", elementwise=True)
def selu(x: Tensor) -> Tensor:
    """Return the self-normalising `elu` (fixed scale and alpha)."""
    return _SELU_SCALE * where(x > 0, x, _SELU_ALPHA * expm1(_negative_part(x)))


@op("nn.celu", elementwise=True)
def celu(x: Tensor, *, alpha: float = 1.0) -> Tensor:
    """Return `x` where it is positive, else ``alpha * (exp(x / alpha) - 1)``, smooth at 0."""
    if alpha == 0:
        raise ValueError("celu: alpha must not be 0.")
    return where(x > 0, x, alpha * expm1(_negative_part(x) / alpha))


def _negative_part(x: Tensor) -> Tensor:
    # Keeps exp from overflowing in the branch that `where` drops: inf times 0 would be NaN in its gradient.
    return where(x > 0, 0.0, x)


@op("nn.hardtanh", elementwise=True)
def hardtanh(x: Tensor, *, min_val: float = -1.0, max_val: float = 1.0) -> Tensor:
    """Return `x` clipped to ``[min_val, max_val]``, with slope 0 at and beyond both ends."""
    if min_val > max_val:
        raise ValueError(f"hardtanh: min_val {min_val} is greater than max_val {max_val}.")
    # NaN is in neither comparison, so it passes through the last branch.
    return where(x <= min_val, min_val, where(x >= max_val, max_val, x))


@op("nn.relu6", elementwise=True)
def relu6(x: Tensor) -> Tensor:
    """Return ``min(max(x, 0), 6)``."""
    return hardtanh(x, min_val=0.0, max_val=6.0)


@op("nn.hardsigmoid", elementwise=True)
def hardsigmoid(x: Tensor) -> Tensor:
    """Return ``relu6(x + 3) / 6``."""
    return relu6(x + 3.0) / 6.0


@op("nn.hardswish", elementwise=True)
def hardswish(x: Tensor) -> Tensor:
    """Return ``x * relu6(x + 3) / 6``."""
    return x * relu6(x + 3.0) / 6.0


@op("nn.logsigmoid", elementwise=True)
def logsigmoid(x: Tensor) -> Tensor:
    """Return ``log(sigmoid(x))`` without ever forming a sigmoid that rounds to 0."""
    return minimum(x, 0) - log1p(exp(-abs(x)))


@logsigmoid.vjp
def _(grads: Tensors, outs: Tensors, ins: Tensors, attrs: Attrs, needs: Needs) -> Tensors:
    # The body has a kink in both terms at 0, although the function is smooth there.
    return (grads[0] * sigmoid(-ins[0]),)


@op("nn.mish", elementwise=True)
def mish(x: Tensor) -> Tensor:
    """Return ``x * tanh(softplus(x))``."""
    return x * tanh(softplus(x))


@op("nn.softsign", elementwise=True)
def softsign(x: Tensor) -> Tensor:
    """Return ``x / (1 + |x|)``."""
    return x / (1.0 + abs(x))


@op("nn.tanhshrink", elementwise=True)
def tanhshrink(x: Tensor) -> Tensor:
    """Return ``x - tanh(x)``."""
    return x - tanh(x)


@op("nn.softshrink", elementwise=True)
def softshrink(x: Tensor, *, lambd: float = 0.5) -> Tensor:
    """Move `x` towards 0 by `lambd`, stopping at 0."""
    if lambd < 0:
        raise ValueError(f"softshrink: lambd must not be negative; received {lambd}.")
    return where(x > lambd, x - lambd, where(x < -lambd, x + lambd, x * 0.0))


@op("nn.hardshrink", elementwise=True)
def hardshrink(x: Tensor, *, lambd: float = 0.5) -> Tensor:
    """Return `x` outside ``[-lambd, lambd]`` and 0 inside."""
    return where((x >= -lambd) & (x <= lambd), 0.0, x)


@op("nn.threshold", elementwise=True)
def threshold(x: Tensor, *, threshold: float, value: float) -> Tensor:
    """Return `x` where it exceeds `threshold`, else `value`."""
    return where(x <= threshold, value, x)


@op("nn.prelu")
def prelu(x: Tensor, weight: Tensor) -> Tensor:
    """Return `x` where it is positive, else ``weight * x`` with one slope, or one per channel (axis 1)."""
    if weight.ndim > 1:
        raise ShapeError(f"prelu: weight must have at most one axis; received shape {weight.shape}.")
    slope = weight
    if weight.ndim == 1 and weight.shape[0] != 1:
        channels = x.shape[1] if x.ndim > 1 else 1
        if weight.shape[0] != channels:
            raise ShapeError(
                f"prelu: weight has {weight.shape[0]} slopes, but the input of shape {x.shape} has "
                f"{channels} channels; give one slope or one per channel."
            )
        slope = reshape(weight, shape=(channels, *(1,) * (x.ndim - 2)))
    return where(x > 0, x, x * slope)


@op("nn.gcu", elementwise=True)
def gcu(x: Tensor) -> Tensor:
    """Return the growing cosine unit ``x * cos(x)``."""
    return x * cos(x)


@op("nn.roswish")
def roswish(x: Tensor, alpha: Tensor, beta: Tensor) -> Tensor:
    """Return ``(x + alpha) * sigmoid(beta * x) - alpha / 2``, which is 0 at 0."""
    return (x + alpha) * sigmoid(beta * x) - 0.5 * alpha


def _halves(x: Tensor, axis: int, name: str) -> tuple[Tensor, Tensor]:
    size = x.shape[axis]
    if size % 2:
        raise ShapeError(f"{name}: axis {axis} must have an even size; received shape {x.shape}.")
    key = [slice(None)] * x.ndim
    key[axis] = slice(0, size // 2)
    first = x[tuple(key)]
    key[axis] = slice(size // 2, size)
    return first, x[tuple(key)]


@op("nn.glu")
def glu(x: Tensor, *, axis: int = -1) -> Tensor:
    """Return ``a * sigmoid(b)`` for the halves `a` and `b` of one axis."""
    a, b = _halves(x, axis, "glu")
    return a * sigmoid(b)


@op("nn.swiglu")
def swiglu(x: Tensor, *, axis: int = -1) -> Tensor:
    """Return ``a * silu(b)`` for the halves `a` (value) and `b` (gate) of one axis."""
    a, b = _halves(x, axis, "swiglu")
    return a * silu(b)


@op("nn.geglu")
def geglu(x: Tensor, *, axis: int = -1, approximate: str = "none") -> Tensor:
    """Return ``a * gelu(b)`` for the halves `a` (value) and `b` (gate) of one axis."""
    a, b = _halves(x, axis, "geglu")
    return a * gelu(b, approximate=approximate)


@op("nn.reglu")
def reglu(x: Tensor, *, axis: int = -1) -> Tensor:
    """Return ``a * relu(b)`` for the halves `a` (value) and `b` (gate) of one axis."""
    a, b = _halves(x, axis, "reglu")
    return a * relu(b)


def _unary(s: Samples) -> None:
    s.case(s.f32(3, 4, gap=0.1))
    s.case(s.f32(17, gap=0.1))
    s.case(s.f32(gap=0.1))
    s.case(s.f32(0, 3))


def _with_gradient(s: Samples) -> None:
    s.case(s.f32(3, 4), s.f32(3, 4, gap=0.1))
    s.case(s.f32(0, 3), s.f32(0, 3))


_made: Op[..., Any]
for _made in (
    relu, sigmoid, silu, selu, relu6, hardsigmoid, hardswish, logsigmoid, mish, softsign, tanhshrink, gcu,
    leaky_relu, elu, celu, hardtanh, softshrink, hardshrink, softplus,
):  # fmt: skip
    _made.samples(_unary)
for _made in (relu_vjp, sigmoid_vjp, tanh_vjp, silu_vjp, softplus_vjp):
    _made.samples(_with_gradient)


@gelu.samples
def _(s: Samples) -> None:
    _unary(s)
    s.case(s.f32(3, 4), approximate="tanh")
    s.error(ValueError, "approximate", s.f32(3), approximate="fast")


@gelu_vjp.samples
def _(s: Samples) -> None:
    s.case(s.f32(3, 4), s.f32(3, 4))
    s.case(s.f32(3, 4), s.f32(3, 4), approximate="tanh")


@threshold.samples
def _(s: Samples) -> None:
    s.case(s.f32(3, 4, gap=0.1), threshold=0.0, value=-2.0)


@prelu.samples
def _(s: Samples) -> None:
    s.case(s.f32(2, 3, 4, gap=0.1), s.f32(3))
    s.case(s.f32(5, gap=0.1), s.f32(1))
    s.error(ShapeError, "prelu", s.f32(2, 3), s.f32(4))


@roswish.samples
def _(s: Samples) -> None:
    s.case(s.f32(3, 4), s.f32(), s.f32())


@glu.samples
def _(s: Samples) -> None:
    s.case(s.f32(3, 4))
    s.case(s.f32(4, 3), axis=0)
    s.error(ShapeError, "even", s.f32(3))


@swiglu.samples
def _(s: Samples) -> None:
    s.case(s.f32(3, 4))
    s.error(ShapeError, "even", s.f32(3))


@geglu.samples
def _(s: Samples) -> None:
    s.case(s.f32(3, 4))
    s.case(s.f32(4, 3), axis=0, approximate="tanh")


@reglu.samples
def _(s: Samples) -> None:
    s.case(s.f32(3, 4, gap=0.1))
    s.error(ShapeError, "even", s.f32(3))
