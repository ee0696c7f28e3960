"""Elementwise primitives of one tensor."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from grilly_core import dtypes
from grilly_core.buffer import Spec
from grilly_core.ops import rules
from grilly_core.ops.primitives.compare import eq, where
from grilly_core.ops.rules import conjugated
from grilly_core.opspec import Handle, Inferred, Op, primitive
from grilly_core.tensor import Tensor

__all__ = [
    "abs",
    "cos",
    "erf",
    "exp",
    "expm1",
    "floor",
    "isnan",
    "log",
    "log1p",
    "neg",
    "sign",
    "sin",
    "sqrt",
    "tanh",
]

_zeros_like = Handle("zeros_like")


def _unary(
    name: str,
    rule: Any,
    reference: Any,
    vjp: Any,
    doc: str,
    low: float = -3.0,
    high: float = 3.0,
    **options: Any,
) -> Op[..., Tensor]:
    """Declare one elementwise op of one tensor."""

    def infer(x: Spec) -> Inferred:
        return rule(name, x)  # type: ignore[no-any-return]

    infer.__doc__ = doc
    infer.__qualname__ = f"_unary.{name}"
    made = primitive(name, elementwise=True, **options)(infer)
    if vjp is not None:
        made.vjp(lambda grads, outs, ins, attrs, needs: (vjp(grads[0], ins[0], outs[0]),))

    def oracle(x: Any) -> Any:
        with np.errstate(all="ignore"):
            return reference(x)

    made.reference(oracle)

    def samples(s: Any) -> None:
        s.case(s.f32(3, 4, low=low, high=high))
        s.case(s.f32(17, low=low, high=high))
        s.case(s.f32(low=low, high=high))
        s.case(s.f32(0, 3))

    made.samples(samples)
    return made


def _exact(name: str, x: Spec) -> Inferred:
    return rules.same(name, x, "uifc")


def _real(name: str, x: Spec) -> Inferred:
    return rules.same(name, x, "uif")


def _absolute(name: str, x: Spec) -> Inferred:
    rules.require(name, x, "uifc")
    return Inferred(((x.shape, x.dtype.real),))


def _real_float(name: str, x: Spec) -> Inferred:
    return rules.unary_float(name, x, "buif")


def _flag(name: str, x: Spec) -> Inferred:
    rules.require(name, x, "fc")
    return Inferred(((x.shape, dtypes.bool_),))


def _abs_vjp(g: Any, x: Any, y: Any) -> Any:
    if x.dtype.is_complex:
        return g * x / where(eq(y, 0), 1, y)
    return g * sign(x)


def _erf_reference(x: Any) -> Any:
    return np.vectorize(math.erf, otypes=[np.float64])(x)


neg: Op[..., Tensor] = _unary(
    "neg", _exact, np.negative, lambda g, x, y: neg(g), "Elementwise ``-x``.", saves="shapes"
)
abs = _unary("abs", _absolute, np.abs, _abs_vjp, "Elementwise absolute value (modulus for complex).")
sign = _unary(
    "sign",
    _real,
    np.sign,
    lambda g, x, y: _zeros_like(x),
    "Elementwise -1, 0 or 1; NaN stays NaN.",
    saves="shapes",
)
floor = _unary(
    "floor",
    _real,
    np.floor,
    lambda g, x, y: _zeros_like(x),
    "Elementwise largest integer not above x.",
    saves="shapes",
)
exp = _unary(
    "exp",
    rules.unary_float,
    np.exp,
    lambda g, x, y: g * conjugated(y),
    "Elementwise exponential.",
    saves="outs",
    autocast="f32",
)
expm1 = _unary(
    "expm1",
    rules.unary_float,
    np.expm1,
    lambda g, x, y: g * conjugated(y + 1),
    "Elementwise ``exp(x) - 1``, accurate near 0.",
    saves="outs",
    autocast="f32",
)
log = _unary(
    "log",
    rules.unary_float,
    np.log,
    lambda g, x, y: g / conjugated(x),
    "Elementwise natural logarithm.",
    0.1,
    saves="ins",
    autocast="f32",
)
log1p = _unary(
    "log1p",
    rules.unary_float,
    np.log1p,
    lambda g, x, y: g / conjugated(x + 1),
    "Elementwise ``log(1 + x)``, accurate near 0.",
    -0.9,
    saves="ins",
    autocast="f32",
)
sqrt = _unary(
    "sqrt",
    rules.unary_float,
    np.sqrt,
    lambda g, x, y: g / conjugated(y * 2),
    "Elementwise square root.",
    0.1,
    saves="outs",
)
sin = _unary(
    "sin",
    rules.unary_float,
    np.sin,
    lambda g, x, y: g * conjugated(cos(x)),
    "Elementwise sine of radians.",
    saves="ins",
)
cos: Op[..., Tensor] = _unary(
    "cos",
    rules.unary_float,
    np.cos,
    lambda g, x, y: neg(g * conjugated(sin(x))),
    "Elementwise cosine of radians.",
    saves="ins",
)
tanh = _unary(
    "tanh",
    rules.unary_float,
    np.tanh,
    lambda g, x, y: Handle("nn.tanh_vjp")(g, y) if not y.dtype.is_complex else g * conjugated(1 - y * y),
    "Elementwise hyperbolic tangent.",
    saves="outs",
)
erf = _unary(
    "erf",
    _real_float,
    _erf_reference,
    lambda g, x, y: g * exp(neg(x * x)) * (2.0 / math.sqrt(math.pi)),
    "Elementwise error function.",
    saves="ins",
)
isnan = _unary("isnan", _flag, np.isnan, None, "Elementwise test for NaN.", nondiff=True)
