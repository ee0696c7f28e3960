"""Matrix products with more done to them: a dense layer in one op, and exact products of 8-bit integers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from grilly_core import dtypes
from grilly_core.errors import DTypeError, ShapeError
from grilly_core.ops._typing import Attrs, Needs, Samples, Tensors
from grilly_core.ops.nn_activations import (
    gelu,
    gelu_vjp,
    relu,
    relu_vjp,
    sigmoid,
    sigmoid_vjp,
    silu,
    silu_vjp,
    tanh_vjp,
)  # fmt: skip
from grilly_core.ops.nn_conv import linear
from grilly_core.ops.primitives import cast, matmul, sum, tanh
from grilly_core.ops.views import permute_dims, reshape
from grilly_core.opspec import op
from grilly_core.tensor import Tensor

__all__ = ["linear_act", "matmul_int8", "matmul_relu_vjp"]

#: Activation → the function, its gradient, and whether that takes the function's output (or its input).
_ACTIVATIONS: Final[dict[str, tuple[Callable[[Any], Any], Callable[[Any, Any], Any], bool]]] = {
    "none": (lambda z: z, lambda g, z: g, False),
    "relu": (relu, relu_vjp, True),
    "gelu": (gelu, gelu_vjp, False),
    "gelu_tanh": (
        lambda z: gelu(z, approximate="tanh"), lambda g, z: gelu_vjp(g, z, approximate="tanh"), False,
    ),
    "silu": (silu, silu_vjp, False),
    "sigmoid": (sigmoid, sigmoid_vjp, True),
    "tanh": (tanh, tanh_vjp, True),
}  # fmt: skip


@op("nn.linear_act", autocast="lower", saves="ins")
def linear_act(
    x: Tensor, weight: Tensor, bias: Tensor | None = None, residual: Tensor | None = None, *, activation: str
) -> Tensor:
    """Return ``activation(x @ weight.T + bias) + residual`` over the last axis; weight is ``(out, in)``.

    Examples
    --------
    >>> import grilly
    >>> x, w = grilly.ones((1, 2)), grilly.asarray([[1.0, 2.0], [-3.0, -4.0]])
    >>> grilly.functional.linear_act(x, w, activation="relu").tolist()
    [[3.0, 0.0]]
    """
    if activation not in _ACTIVATIONS:
        known = ", ".join(map(repr, _ACTIVATIONS))
        raise ValueError(f"linear_act: activation is one of {known}; received {activation!r}.")
    y: Tensor = _ACTIVATIONS[activation][0](linear(x, weight, bias))
    if residual is None:
        return y
    if tuple(residual.shape) != tuple(y.shape):
        raise ShapeError(
            f"linear_act: residual must have the shape of the result, {tuple(y.shape)}; received "
            f"{tuple(residual.shape)}."
        )
    return y + residual


@linear_act.vjp
def _(grads: Tensors, outs: Tensors, ins: Tensors, attrs: Attrs, needs: Needs) -> Tensors:
    g, (x, weight, bias, _residual) = grads[0], ins
    function, gradient, of_output = _ACTIVATIONS[attrs["activation"]]
    if not any(needs[:3]):
        return None, None, None, g
    rows, gz = reshape(x, shape=(-1, x.shape[-1])), g
    if attrs["activation"] != "none":  # made anew: keeping it would cost the memory that the op saves
        z = linear(x, weight, bias)
        gz = gradient(g, function(z) if of_output else z)
    flat = reshape(gz, shape=(-1, weight.shape[0]))
    return (
        reshape(matmul(flat, weight), shape=x.shape) if needs[0] else None,
        matmul(permute_dims(flat, axes=(1, 0)), rows) if needs[1] else None,
        sum(flat, axis=0) if needs[2] else None,
        g if needs[3] else None,
    )


@linear_act.samples
def _(s: Samples) -> None:
    for activation in _ACTIVATIONS:
        s.case(s.f32(4, 3), s.f32(5, 3), s.f32(5), s.f32(4, 5), activation=activation)
    s.case(s.f32(2, 4, 3), s.f32(5, 3), None, None, activation="gelu")
    s.case(s.f32(2, 4, 3), s.f32(5, 3), None, s.f32(2, 4, 5), activation="silu")
    s.case(s.f32(3), s.f32(5, 3), s.f32(5), activation="tanh")
    s.error(ValueError, "activation", s.f32(4, 3), s.f32(5, 3), activation="cube")
    s.error(ShapeError, "residual", s.f32(4, 3), s.f32(5, 3), None, s.f32(5), activation="relu")


@op("nn.matmul_relu_vjp", internal=True, nondiff=True)
def matmul_relu_vjp(a: Tensor, b: Tensor, y: Tensor) -> Tensor:
    """Return ``relu_vjp(a @ b, y)``: a gradient through a dense layer and the ReLU before it, whose output is `y`.

    Recorded steps put it in place of the two; see `grilly_core.capture.epilogues`.
    """
    return relu_vjp(matmul(a, b), y)


@matmul_relu_vjp.samples
def _(s: Samples) -> None:
    s.case(s.f32(4, 3), s.f32(3, 5), s.f32(4, 5))
    s.case(s.f32(2, 4, 3), s.f32(2, 3, 5), s.f32(2, 4, 5))
    s.case(s.f32(20, 300), s.f32(300, 70), s.f32(20, 70))


@op("nn.matmul_int8", nondiff=True)
def matmul_int8(a: Tensor, b: Tensor) -> Tensor:
    """Return the exact product of int8 matrices ``(..., M, K) @ (..., K, N)`` as int32.

    `matmul` keeps the type, as the Array API asks, and so wraps around.

    Examples
    --------
    >>> import grilly
    >>> x = grilly.full((2, 2), 100, dtype=grilly.int8)
    >>> grilly.functional.matmul_int8(x, x).tolist()
    [[20000, 20000], [20000, 20000]]
    """
    if a.dtype.code != "i8" or b.dtype.code != "i8":
        raise DTypeError(
            f"matmul_int8: both matrices must be int8; received {a.dtype} and {b.dtype}. Cast them with .to(...)."
        )
    return matmul(cast(a, dtype=dtypes.int32), cast(b, dtype=dtypes.int32))


@matmul_int8.samples
def _(s: Samples) -> None:
    def i8(*shape: int) -> Any:
        return s.i32(*shape, low=-128, high=128).astype("i1")

    s.case(i8(3, 4), i8(4, 5))
    s.case(i8(2, 3, 4), i8(2, 4, 5))
    s.case(i8(33, 70), i8(70, 17))
    s.error(DTypeError, "int8", s.i32(3, 4), s.i32(4, 5))
