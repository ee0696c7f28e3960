"""Elementwise primitives of two tensors: arithmetic, and operations on bits."""

from __future__ import annotations

from typing import Any

import numpy as np

from grilly_core.buffer import Spec
from grilly_core.errors import DTypeError
from grilly_core.ops import rules
from grilly_core.ops.primitives.compare import eq, lt, where
from grilly_core.ops.primitives.data import cast
from grilly_core.ops.primitives.unary import log, neg
from grilly_core.ops.rules import conjugated, if_needed
from grilly_core.opspec import Handle, Inferred, Op, primitive
from grilly_core.tensor import Tensor

__all__ = [
    "add",
    "atan2",
    "bitwise_and",
    "bitwise_or",
    "bitwise_xor",
    "div",
    "floordiv",
    "maximum",
    "minimum",
    "mul",
    "pow",
    "shift_left",
    "shift_right",
    "sub",
]

_zeros_like = Handle("zeros_like")


def _binary(
    name: str,
    rule: Any,
    reference: Any,
    vjp: Any,
    doc: str,
    ints: bool = True,
    low: float = -3.0,
    **options: Any,
) -> Op[..., Tensor]:
    """Declare one elementwise op of two tensors; broadcasting and promotion are core's."""

    def infer(x: Spec, y: Spec) -> Inferred:
        return rule(name, x, y)  # type: ignore[no-any-return]

    infer.__doc__ = doc
    infer.__qualname__ = f"_binary.{name}"
    made = primitive(name, elementwise=True, **options)(infer)
    if vjp is not None:
        made.vjp(lambda grads, outs, ins, attrs, needs: vjp(grads[0], ins[0], ins[1], outs[0], needs))

    def oracle(x: Any, y: Any) -> Any:
        with np.errstate(all="ignore"):
            return reference(x, y)

    made.reference(oracle)

    def samples(s: Any) -> None:
        s.case(s.f32(3, 4, low=low), s.f32(3, 4, low=low, gap=0.2))
        s.case(s.f32(3, 1, low=low), s.f32(4, low=low, gap=0.2))
        s.case(s.f32(low=low), s.f32(2, 3, low=low, gap=0.2))
        s.case(s.f32(0, 3), s.f32(3))
        if ints:
            s.case(s.i32(3, 4), s.i32(3, 4, low=1, high=9))
        s.error(ValueError, "broadcast", s.f32(3), s.f32(4))

    made.samples(samples)
    return made


def _numbers(name: str, x: Spec, y: Spec) -> Inferred:
    return rules.binary(name, x, y, "buifc")


def _subtractable(name: str, x: Spec, y: Spec) -> Inferred:
    if x.dtype.kind == y.dtype.kind == "b":
        raise DTypeError(
            f"{name}: two bool tensors cannot be subtracted; use logical_xor, or cast one with .to(...)."
        )
    return rules.binary(name, x, y, "buifc")


def _ordered(name: str, x: Spec, y: Spec) -> Inferred:
    return rules.binary(name, x, y, "buif")


def _quotient(name: str, x: Spec, y: Spec) -> Inferred:
    return rules.binary(name, x, y, "buifc", to_float=True)


def _angle(name: str, x: Spec, y: Spec) -> Inferred:
    return rules.binary(name, x, y, "buif", to_float=True)


def _floordiv_reference(x: Any, y: Any) -> Any:
    if np.result_type(x, y).kind in "ui":
        return np.where(y == 0, 0, np.floor_divide(x, np.where(y == 0, 1, y)))
    return np.floor_divide(x, y)


def _div_vjp(g: Any, x: Any, y: Any, out: Any, needs: Any) -> Any:
    scaled = g / conjugated(y)
    return if_needed(needs[0], lambda: scaled), if_needed(needs[1], lambda: neg(scaled * conjugated(out)))


def _pow_vjp(g: Any, x: Any, y: Any, out: Any, needs: Any) -> Any:
    def base() -> Any:  # y == 0 has slope 0 everywhere, also at x == 0
        return where(eq(y, 0), 0.0, g * conjugated(y * pow(x, where(eq(y, 0), 1.0, y - 1))))

    def exponent() -> Any:  # x**y log(x) tends to 0 at x == 0 for y >= 0
        safe = where(eq(x, 0), 1.0, x)
        return where(eq(x, 0), 0.0, g * conjugated(out * log(safe)))

    return if_needed(needs[0], base), if_needed(needs[1], exponent)


def _chosen(first: Any) -> Any:
    """Gradient of maximum and minimum: to the chosen side, half each on a tie."""

    def vjp(g: Any, x: Any, y: Any, out: Any, needs: Any) -> Any:
        half = where(eq(x, y), 0.5, where(first(x, y), 1.0, 0.0))
        share = cast(half, dtype=g.dtype)
        return if_needed(needs[0], lambda: g * share), if_needed(needs[1], lambda: g * (1 - share))

    return vjp


def _atan2_vjp(g: Any, y: Any, x: Any, out: Any, needs: Any) -> Any:
    scaled = g / (x * x + y * y)
    return if_needed(needs[0], lambda: scaled * x), if_needed(needs[1], lambda: neg(scaled * y))


add = _binary("add", _numbers, np.add, lambda g, x, y, o, n: (g, g), "Elementwise ``x + y``.", saves="shapes")
sub = _binary(
    "sub",
    _subtractable,
    np.subtract,
    lambda g, x, y, o, n: (g, if_needed(n[1], lambda: neg(g))),
    "Elementwise ``x - y``.",
    saves="shapes",
)
mul = _binary(
    "mul",
    _numbers,
    np.multiply,
    lambda g, x, y, o, n: (
        if_needed(n[0], lambda: g * conjugated(y)),
        if_needed(n[1], lambda: g * conjugated(x)),
    ),
    "Elementwise ``x * y``.",
    saves="ins",
)
div = _binary(
    "div",
    _quotient,
    np.divide,
    _div_vjp,
    "Elementwise ``x / y``; integers give the default float.",
    ints=False,
)
floordiv = _binary(
    "floordiv",
    _ordered,
    _floordiv_reference,
    lambda g, x, y, o, n: (_zeros_like(g), _zeros_like(g)),
    "Elementwise quotient rounded towards minus infinity, as Python's (``inf // 1`` is NaN, ``-1 // inf`` is -1); an "
    "integer divided by 0 gives 0.",
)
pow = _binary("pow", _numbers, np.power, _pow_vjp, "Elementwise ``x ** y``.", low=0.3, autocast="f32")
maximum = _binary(
    "maximum",
    _ordered,
    np.maximum,
    _chosen(lambda x, y: lt(y, x)),
    "Elementwise larger one; NaN if either is NaN.",
    saves="ins",
)
minimum = _binary(
    "minimum",
    _ordered,
    np.minimum,
    _chosen(lambda x, y: lt(x, y)),
    "Elementwise smaller one; NaN if either is NaN.",
    saves="ins",
)
atan2 = _binary(
    "atan2",
    _angle,
    np.arctan2,
    _atan2_vjp,
    "Elementwise angle of the point (y, x) in radians.",
    ints=False,
    saves="ins",
)


def _bits(name: str, reference: Any, doc: str, bools: bool = True) -> Op[..., Tensor]:
    """Declare one op on the bits of integers (or on bools)."""

    def infer(x: Spec, y: Spec) -> Inferred:
        return rules.binary(name, x, y, "bui" if bools else "ui")

    infer.__doc__ = doc
    infer.__qualname__ = f"_bits.{name}"
    made = primitive(name, elementwise=True, nondiff=True)(infer)
    made.reference(reference)

    def samples(s: Any) -> None:
        s.case(s.i32(3, 4, low=0, high=1 << 20), s.i32(4, low=0, high=8))
        s.case(s.u32(5), s.u32(5, high=8))
        if bools:
            s.case(s.bool(3, 4), s.bool(4))
        s.error(TypeError, "must be", s.f32(3), s.f32(3))

    made.samples(samples)
    return made


bitwise_and = _bits("bitwise_and", np.bitwise_and, "Elementwise AND of bits (logical for bools).")
bitwise_or = _bits("bitwise_or", np.bitwise_or, "Elementwise OR of bits (logical for bools).")
bitwise_xor = _bits("bitwise_xor", np.bitwise_xor, "Elementwise exclusive OR of bits (logical for bools).")
shift_left = _bits("shift_left", np.left_shift, "Elementwise ``x << y`` for 0 <= y < bits of x.", bools=False)
shift_right = _bits(
    "shift_right", np.right_shift, "Elementwise ``x >> y``, keeping the sign of signed integers.", bools=False
)
