"""The primitives: what a device must run so that everything else does.

Each declaration is the shape rule; beside it stand the gradient, the NumPy oracle and the samples. The oracle is the
definition: a kernel is right if it agrees with it.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from grilly_core import dtypes
from grilly_core.buffer import Spec
from grilly_core.dtypes import DType, promote
from grilly_core.errors import DTypeError, ShapeError
from grilly_core.layout import broadcast_shapes
from grilly_core.ops import rules
from grilly_core.opspec import Handle, Inferred, Op, primitive
from grilly_core.tensor import Tensor

__all__ = [
    "abs", "add", "argmax", "atan2", "bitcast", "bitwise_and", "bitwise_or", "bitwise_xor", "cast", "cos", "cumsum",
    "div", "eq", "erf", "exp", "expm1", "floor", "floordiv", "full", "gather", "iota", "isnan", "log", "log1p", "lt",
    "matmul", "max", "maximum", "minimum", "mul", "neg", "pow", "random_bits", "scatter", "shift_left", "shift_right",
    "sign", "sin", "sort", "sqrt", "strided_copy", "sub", "sum", "tanh", "where",
]  # fmt: skip

_expand_dims, _broadcast_to, _zeros_like, _flip, _permute, _reshape, _take, _conj, _argsort = (
    Handle(n)
    for n in (
        "expand_dims",
        "broadcast_to",
        "zeros_like",
        "flip",
        "permute_dims",
        "reshape",
        "take",
        "conj",
        "argsort",
    )
)


# -- data ----------------------------------------------------------------------------------------------------


@primitive("full", nondiff=True)
def full(*, value: Any, shape: tuple[int, ...], dtype: DType) -> Inferred:
    """A tensor of `shape` filled with `value`."""
    return Inferred(((shape, dtype),))


@full.reference
def _(*, value: Any, shape: Any, dtype: Any) -> Any:
    return np.full(shape, value, dtype.numpy)


@full.samples
def _(s: Any) -> None:
    s.case(value=2.5, shape=(3, 4), dtype=dtypes.float32)
    s.case(value=-7, shape=(5,), dtype=dtypes.int32)
    s.case(value=True, shape=(), dtype=dtypes.bool_)
    s.case(value=0.0, shape=(0, 3), dtype=dtypes.float32)


@primitive("iota", nondiff=True)
def iota(*, size: int, start: Any = 0, step: Any = 1, dtype: DType) -> Inferred:
    """``start + step * i`` for i from 0 to size - 1."""
    if size < 0:
        raise ShapeError(f"iota: size must not be negative; received {size}.")
    if dtype is dtypes.int32:
        rules.indexable("iota", size)
    return Inferred((((size,), dtype),))


@iota.reference
def _(*, size: Any, start: Any, step: Any, dtype: Any) -> Any:
    return (start + step * np.arange(size, dtype=np.float64 if dtype.is_floating else np.int64)).astype(
        dtype.numpy
    )


@iota.samples
def _(s: Any) -> None:
    s.case(size=7, start=3, step=-2, dtype=dtypes.int32)
    s.case(size=5, start=0.5, step=0.25, dtype=dtypes.float32)
    s.case(size=0, start=0, step=1, dtype=dtypes.int32)


@primitive("cast", elementwise=True)
def cast(x: Spec, *, dtype: DType) -> Inferred:
    """Convert to `dtype`: floats are truncated towards zero for integers, anything nonzero is True."""
    if x.dtype.is_complex and not dtype.is_complex:
        raise DTypeError(
            f"cast: {x.dtype.name} to {dtype.name} would drop the imaginary part; use real() or abs()."
        )
    return Inferred(((x.shape, dtype),))


@cast.vjp
def _(grads: Any, outs: Any, ins: Any, attrs: Any, needs: Any) -> Any:
    if not attrs["dtype"].is_differentiable:
        return (None,)
    g = grads[0]
    if g.dtype.is_complex and not ins[0].dtype.is_complex:
        g = Handle("real")(g)
    return (cast(g, dtype=ins[0].dtype),)


@cast.reference
def _(x: Any, *, dtype: Any) -> Any:
    with np.errstate(all="ignore"):
        return np.asarray(x).astype(dtype.numpy)


@cast.samples
def _(s: Any) -> None:
    s.case(s.i32(3, 4), dtype=dtypes.float32)
    s.case(s.f32(3, 4, scale=9.0), dtype=dtypes.int32)
    s.case(s.f32(5), dtype=dtypes.bool_)
    s.case(s.bool(5), dtype=dtypes.float32)
    s.case(s.f32(2, 3), dtype=dtypes.float32)
    s.error(TypeError, "imaginary", s.c64(2), dtype=dtypes.float32)


@primitive("bitcast", nondiff=True)
def bitcast(x: Spec, *, dtype: DType) -> Inferred:
    """Read the same bits as another type of the same size."""
    if x.dtype.itemsize != dtype.itemsize:
        raise DTypeError(
            f"bitcast: {x.dtype.name} and {dtype.name} differ in size; pick a type of {x.dtype.itemsize} bytes."
        )
    return Inferred(((x.shape, dtype),))


@bitcast.reference
def _(x: Any, *, dtype: Any) -> Any:
    return np.ascontiguousarray(x).view(dtype.numpy).reshape(np.shape(x))


@bitcast.samples
def _(s: Any) -> None:
    s.case(s.f32(3, 4), dtype=dtypes.uint32)
    s.case(s.i32(3), dtype=dtypes.float32, compare="bits")
    s.error(TypeError, "size", s.f32(3), dtype=dtypes.uint8)


@primitive("strided_copy")
def strided_copy(x: Spec) -> Inferred:
    """The same elements in C order."""
    return Inferred(((x.shape, x.dtype),))


@strided_copy.vjp
def _(grads: Any, outs: Any, ins: Any, attrs: Any, needs: Any) -> Any:
    return (grads[0],)


@strided_copy.reference
def _(x: Any) -> Any:
    return np.array(x)


@strided_copy.samples
def _(s: Any) -> None:
    s.case(s.f32(3, 4))
    s.case(s.i32(2, 3, 4))
    s.case(s.bool(7))


# -- unary ---------------------------------------------------------------------------------------------------


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


def _c(x: Any) -> Any:
    """The conjugate of a factor in a gradient (PyTorch's convention)."""
    return _conj(x) if x.dtype.is_complex else x


neg: Op[..., Tensor] = _unary("neg", _exact, np.negative, lambda g, x, y: neg(g), "Elementwise ``-x``.")
abs = _unary("abs", _absolute, np.abs, _abs_vjp, "Elementwise absolute value (modulus for complex).")
sign = _unary(
    "sign", _real, np.sign, lambda g, x, y: _zeros_like(x), "Elementwise -1, 0 or 1; NaN stays NaN."
)
floor = _unary(
    "floor", _real, np.floor, lambda g, x, y: _zeros_like(x), "Elementwise largest integer not above x."
)
exp = _unary("exp", rules.unary_float, np.exp, lambda g, x, y: g * _c(y), "Elementwise exponential.")
expm1 = _unary(
    "expm1",
    rules.unary_float,
    np.expm1,
    lambda g, x, y: g * _c(y + 1),
    "Elementwise ``exp(x) - 1``, accurate near 0.",
)
log = _unary(
    "log", rules.unary_float, np.log, lambda g, x, y: g / _c(x), "Elementwise natural logarithm.", 0.1
)
log1p = _unary(
    "log1p",
    rules.unary_float,
    np.log1p,
    lambda g, x, y: g / _c(x + 1),
    "Elementwise ``log(1 + x)``, accurate near 0.",
    -0.9,
)
sqrt = _unary(
    "sqrt", rules.unary_float, np.sqrt, lambda g, x, y: g / _c(y * 2), "Elementwise square root.", 0.1
)
sin = _unary("sin", rules.unary_float, np.sin, lambda g, x, y: g * _c(cos(x)), "Elementwise sine of radians.")
cos: Op[..., Tensor] = _unary(
    "cos", rules.unary_float, np.cos, lambda g, x, y: neg(g * _c(sin(x))), "Elementwise cosine of radians."
)
tanh = _unary(
    "tanh",
    rules.unary_float,
    np.tanh,
    lambda g, x, y: Handle("nn.tanh_vjp")(g, y) if not y.dtype.is_complex else g * _c(1 - y * y),
    "Elementwise hyperbolic tangent.",
)
erf = _unary(
    "erf",
    _real_float,
    _erf_reference,
    lambda g, x, y: g * exp(neg(x * x)) * (2.0 / math.sqrt(math.pi)),
    "Elementwise error function.",
)
isnan = _unary("isnan", _flag, np.isnan, None, "Elementwise test for NaN.", nondiff=True)


# -- binary --------------------------------------------------------------------------------------------------


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


def _if(need: bool, make: Any) -> Any:
    return make() if need else None


def _floordiv_reference(x: Any, y: Any) -> Any:
    if np.result_type(x, y).kind in "ui":
        return np.where(y == 0, 0, np.floor_divide(x, np.where(y == 0, 1, y)))
    return np.floor(np.divide(x, y))


def _div_vjp(g: Any, x: Any, y: Any, out: Any, needs: Any) -> Any:
    scaled = g / _c(y)
    return _if(needs[0], lambda: scaled), _if(needs[1], lambda: neg(scaled * _c(out)))


def _pow_vjp(g: Any, x: Any, y: Any, out: Any, needs: Any) -> Any:
    def base() -> Any:  # y == 0 has slope 0 everywhere, also at x == 0
        return where(eq(y, 0), 0.0, g * _c(y * pow(x, where(eq(y, 0), 1.0, y - 1))))

    def exponent() -> Any:  # x**y log(x) tends to 0 at x == 0 for y >= 0
        safe = where(eq(x, 0), 1.0, x)
        return where(eq(x, 0), 0.0, g * _c(out * log(safe)))

    return _if(needs[0], base), _if(needs[1], exponent)


def _chosen(first: Any) -> Any:
    """Gradient of maximum and minimum: to the chosen side, half each on a tie."""

    def vjp(g: Any, x: Any, y: Any, out: Any, needs: Any) -> Any:
        half = where(eq(x, y), 0.5, where(first(x, y), 1.0, 0.0))
        share = cast(half, dtype=g.dtype)
        return _if(needs[0], lambda: g * share), _if(needs[1], lambda: g * (1 - share))

    return vjp


def _atan2_vjp(g: Any, y: Any, x: Any, out: Any, needs: Any) -> Any:
    scaled = g / (x * x + y * y)
    return _if(needs[0], lambda: scaled * x), _if(needs[1], lambda: neg(scaled * y))


add = _binary("add", _numbers, np.add, lambda g, x, y, o, n: (g, g), "Elementwise ``x + y``.")
sub = _binary(
    "sub",
    _subtractable,
    np.subtract,
    lambda g, x, y, o, n: (g, _if(n[1], lambda: neg(g))),
    "Elementwise ``x - y``.",
)
mul = _binary(
    "mul",
    _numbers,
    np.multiply,
    lambda g, x, y, o, n: (_if(n[0], lambda: g * _c(y)), _if(n[1], lambda: g * _c(x))),
    "Elementwise ``x * y``.",
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
    "Elementwise quotient rounded towards minus infinity; an integer divided by 0 gives 0.",
)
pow = _binary("pow", _numbers, np.power, _pow_vjp, "Elementwise ``x ** y``.", low=0.3)
maximum = _binary(
    "maximum",
    _ordered,
    np.maximum,
    _chosen(lambda x, y: lt(y, x)),
    "Elementwise larger one; NaN if either is NaN.",
)
minimum = _binary(
    "minimum",
    _ordered,
    np.minimum,
    _chosen(lambda x, y: lt(x, y)),
    "Elementwise smaller one; NaN if either is NaN.",
)
atan2 = _binary(
    "atan2", _angle, np.arctan2, _atan2_vjp, "Elementwise angle of the point (y, x) in radians.", ints=False
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


# -- compare and choose --------------------------------------------------------------------------------------


def _compare(name: str, reference: Any, kinds: str, doc: str) -> Op[..., Tensor]:
    def infer(x: Spec, y: Spec) -> Inferred:
        return rules.compare(name, x, y, kinds)

    infer.__doc__ = doc
    infer.__qualname__ = f"_compare.{name}"
    made = primitive(name, elementwise=True, nondiff=True)(infer)
    made.reference(reference)

    def samples(s: Any) -> None:
        s.case(s.i32(3, 4, low=0, high=3), s.i32(4, low=0, high=3))
        s.case(s.f32(3, 4), s.f32(3, 1))
        s.case(
            s.array(np.array([1.0, np.nan, np.inf, -0.0], "f4")),
            s.array(np.array([1.0, np.nan, np.inf, 0.0], "f4")),
        )

    made.samples(samples)
    return made


eq = _compare("eq", np.equal, "buifc", "Elementwise ``x == y``; NaN equals nothing.")
lt: Op[..., Tensor] = _compare("lt", np.less, "buif", "Elementwise ``x < y``.")


@primitive("where", elementwise=True)
def where(condition: Spec, x: Spec, y: Spec) -> Inferred:
    """Elementwise `x` where `condition` holds, else `y`."""
    rules.require("where", condition, "b", "condition")
    inner = rules.binary("where", x, y)
    shape = broadcast_shapes(condition.shape, x.shape, y.shape)
    dtype = inner.outs[0][1]
    return Inferred(((shape, dtype),), (dtypes.bool_, dtype, dtype), shape)


@where.vjp
def _(grads: Any, outs: Any, ins: Any, attrs: Any, needs: Any) -> Any:
    (g,) = grads
    return None, _if(needs[1], lambda: where(ins[0], g, 0)), _if(needs[2], lambda: where(ins[0], 0, g))


@where.reference
def _(condition: Any, x: Any, y: Any) -> Any:
    return np.where(condition, x, y)


@where.samples
def _(s: Any) -> None:
    s.case(s.bool(3, 4), s.f32(3, 4), s.f32(4))
    s.case(s.bool(3, 1), s.i32(4), s.i32(3, 4))
    s.error(TypeError, "condition", s.f32(3), s.f32(3), s.f32(3))


# -- reductions ----------------------------------------------------------------------------------------------


def _spread(g: Any, x: Any, attrs: Any) -> Any:
    """Put reduced axes back and expand to the input's shape."""
    if not attrs["keepdims"]:
        g = _reshape(g, shape=tuple(1 if i in attrs["axis"] else n for i, n in enumerate(x.shape)))
    return _broadcast_to(g, shape=x.shape)


@primitive("sum")
def sum(x: Spec, *, axis: Any = None, keepdims: bool = False) -> Inferred:
    """Sum over `axis` (an int, several, or all); small integers and bools are summed as the default integer."""
    shape, axes = rules.reduced("sum", x, axis, keepdims)
    dtype = x.dtype
    if dtype.kind == "b" or (dtype.is_integer and dtype.itemsize < 4):
        dtype = dtypes.uint32 if dtype.kind == "u" else dtypes.int32
    return Inferred(((shape, dtype),), (dtype,), attrs={"axis": axes, "keepdims": keepdims})


@sum.vjp
def _(grads: Any, outs: Any, ins: Any, attrs: Any, needs: Any) -> Any:
    return (_spread(grads[0], ins[0], attrs),)


@sum.reference
def _(x: Any, *, axis: Any, keepdims: Any) -> Any:
    wide = np.float64 if np.asarray(x).dtype.kind == "f" else None
    axes = tuple(range(np.ndim(x))) if axis is None else axis
    return np.sum(x, axis=axes, keepdims=keepdims, dtype=wide)


@primitive("max")
def max(x: Spec, *, axis: Any = None, keepdims: bool = False) -> Inferred:
    """Largest element over `axis` (an int, several, or all); NaN if any is NaN."""
    rules.require("max", x, "uif")
    shape, axes = rules.reduced("max", x, axis, keepdims)
    if x.size == 0 and math.prod(x.shape[a] for a in axes) == 0:
        raise ShapeError(
            f"max: the axes {axes} of shape {x.shape} hold no element, and there is no largest of none."
        )
    return Inferred(((shape, x.dtype),), attrs={"axis": axes, "keepdims": keepdims})


@max.vjp
def _(grads: Any, outs: Any, ins: Any, attrs: Any, needs: Any) -> Any:
    x = ins[0]
    best = cast(eq(x, _spread(outs[0], x, attrs)), dtype=x.dtype)  # ties share the gradient equally
    count = sum(best, axis=attrs["axis"], keepdims=True)
    return (_spread(grads[0], x, attrs) * best / count,)


@max.reference
def _(x: Any, *, axis: Any, keepdims: Any) -> Any:
    return np.max(x, axis=axis, keepdims=keepdims)


def _reduction_samples(s: Any) -> None:
    s.case(s.f32(3, 4), axis=1)
    s.case(s.f32(3, 4, 5), axis=(0, 2), keepdims=True)
    s.case(s.f32(7))
    s.case(s.i32(4, 3), axis=0)
    s.case(s.f32(33, 65), axis=-1)
    s.error(IndexError, "axis", s.f32(3), axis=1)
    s.error(ValueError, "twice", s.f32(3, 4), axis=(0, 0))


@sum.samples
def _(s: Any) -> None:
    _reduction_samples(s)
    s.case(s.f32(0, 4), axis=0)
    s.case(s.bool(5, 3), axis=0)


@max.samples
def _(s: Any) -> None:
    _reduction_samples(s)
    s.error(ValueError, "no element", s.f32(0, 4), axis=0)


@primitive("argmax", nondiff=True)
def argmax(x: Spec, *, axis: Any = None, keepdims: bool = False) -> Inferred:
    """Index of the largest element along `axis`; the first of several; NaN counts as the largest."""
    rules.require("argmax", x, "uif")
    if axis is None:
        raise ShapeError("argmax: axis must be an integer here; reshape the tensor to one axis first.")
    shape, axes = rules.reduced("argmax", x, axis, keepdims)
    if x.shape[axes[0]] == 0:
        raise ShapeError(f"argmax: axis {axes[0]} of shape {x.shape} holds no element.")
    rules.indexable("argmax", x.shape[axes[0]])
    return Inferred(((shape, dtypes.int32),), attrs={"axis": axes[0], "keepdims": keepdims})


@argmax.reference
def _(x: Any, *, axis: Any, keepdims: Any) -> Any:
    return np.argmax(x, axis=axis, keepdims=keepdims).astype(np.int32)


@argmax.samples
def _(s: Any) -> None:
    s.case(s.f32(3, 4), axis=1)
    s.case(s.i32(5, 6, low=0, high=3), axis=0, keepdims=True)
    s.case(s.array(np.array([[1.0, np.nan, 3.0], [2.0, 2.0, 1.0]], "f4")), axis=1)
    s.error(ValueError, "no element", s.f32(0, 2), axis=0)


@primitive("cumsum")
def cumsum(x: Spec, *, axis: int) -> Inferred:
    """Running sum along `axis`."""
    dtype = dtypes.int32 if x.dtype.kind == "b" else x.dtype
    return Inferred(((x.shape, dtype),), (dtype,))


@cumsum.vjp
def _(grads: Any, outs: Any, ins: Any, attrs: Any, needs: Any) -> Any:
    axis = attrs["axis"]
    return (_flip(cumsum(_flip(grads[0], axis=axis), axis=axis), axis=axis),)


@cumsum.reference
def _(x: Any, *, axis: Any) -> Any:
    return np.cumsum(x, axis=axis, dtype=np.float64 if np.asarray(x).dtype.kind == "f" else None)


@cumsum.samples
def _(s: Any) -> None:
    s.case(s.f32(3, 4), axis=1)
    s.case(s.i32(5, 2), axis=0)
    s.case(s.f32(0, 4), axis=1)
    s.error(IndexError, "axis", s.f32(3), axis=2)


# -- linear algebra, indexing, order, randomness -------------------------------------------------------------


@primitive("matmul", autocast="lower")
def matmul(x: Spec, y: Spec) -> Inferred:
    """Product of matrices ``(..., M, K) @ (..., K, N)`` with equal leading axes."""
    if x.ndim < 2 or y.ndim < 2 or x.shape[:-2] != y.shape[:-2] or x.shape[-1] != y.shape[-2]:
        raise ShapeError(
            f"matmul: expected (..., M, K) and (..., K, N) with equal leading axes; received {x.shape} and {y.shape}."
        )
    dtype = promote(x.dtype, y.dtype)
    if dtype.kind == "b":
        raise DTypeError("matmul: bool matrices have no product; cast them with .to(...).")
    return Inferred((((*x.shape[:-1], y.shape[-1]), dtype),), (dtype, dtype))


def _swapped(x: Any) -> Any:
    return _permute(x, axes=(*range(x.ndim - 2), x.ndim - 1, x.ndim - 2))


@matmul.vjp
def _(grads: Any, outs: Any, ins: Any, attrs: Any, needs: Any) -> Any:
    (g,), (x, y) = grads, ins
    return _if(needs[0], lambda: matmul(g, _swapped(_c(y)))), _if(
        needs[1], lambda: matmul(_swapped(_c(x)), g)
    )


@matmul.reference
def _(x: Any, y: Any) -> Any:
    return np.matmul(x, y)


@matmul.samples
def _(s: Any) -> None:
    s.case(s.f32(3, 4), s.f32(4, 5))
    s.case(s.f32(2, 3, 4), s.f32(2, 4, 5))
    s.case(s.f32(33, 65), s.f32(65, 17))
    s.case(s.f32(2, 0), s.f32(0, 3))
    s.case(s.f32(1, 7), s.f32(7, 1))
    s.error(ValueError, "(..., M, K)", s.f32(3, 4), s.f32(3, 4))


@primitive("gather")
def gather(x: Spec, index: Spec, *, axis: int) -> Inferred:
    """Elements of `x` at the positions `index` (1-D) along `axis`."""
    rules.require("gather", index, "ui", "index")
    if index.ndim != 1 or x.ndim == 0:
        raise ShapeError(
            f"gather: expected a 1-D index and x with at least one axis; received {index.shape} and {x.shape}."
        )
    return Inferred((((*x.shape[:axis], *index.shape, *x.shape[axis + 1 :]), x.dtype),))


@gather.vjp
def _(grads: Any, outs: Any, ins: Any, attrs: Any, needs: Any) -> Any:
    return scatter(_zeros_like(ins[0]), ins[1], grads[0], axis=attrs["axis"], mode="add"), None


@gather.reference
def _(x: Any, index: Any, *, axis: Any) -> Any:
    return np.take(x, index, axis=axis)


@gather.samples
def _(s: Any) -> None:
    s.case(s.f32(5, 3), s.i32(7, low=0, high=5), axis=0)
    s.case(s.f32(2, 5, 3), s.i32(4, low=0, high=5), axis=1)
    s.case(s.i32(6), s.i32(0), axis=0)
    s.error(TypeError, "index", s.f32(3), s.f32(2), axis=0)


@primitive("scatter")
def scatter(x: Spec, index: Spec, updates: Spec, *, axis: int, mode: str = "set") -> Inferred:
    """`x` with `updates` put at the positions `index` (1-D) along `axis`.

    ``mode`` is ``"set"`` (the last of duplicates wins), ``"add"``, ``"min"`` or ``"max"``.
    """
    rules.require("scatter", index, "ui", "index")
    if mode not in ("set", "add", "min", "max"):
        raise ValueError(f"scatter: mode must be 'set', 'add', 'min' or 'max'; received {mode!r}.")
    wanted = (*x.shape[:axis], *index.shape, *x.shape[axis + 1 :])
    if index.ndim != 1 or updates.shape != wanted:
        raise ShapeError(
            f"scatter: expected updates of shape {wanted} for x {x.shape} and index {index.shape}; received "
            f"{updates.shape}."
        )
    return Inferred(((x.shape, x.dtype),), (x.dtype, None, x.dtype))


@scatter.vjp
def _(grads: Any, outs: Any, ins: Any, attrs: Any, needs: Any) -> Any:
    (g,), (x, index, updates), axis, mode = grads, ins, attrs["axis"], attrs["mode"]
    if mode == "add":
        return g, None, _if(needs[2], lambda: gather(g, index, axis=axis))
    if mode == "set":
        return (
            _if(needs[0], lambda: scatter(g, index, _zeros_like(updates), axis=axis)),
            None,
            _if(needs[2], lambda: _last_written(g, index, updates, axis)),
        )
    out = outs[0]  # min and max: to whichever operands equal the result, shared equally
    kept = cast(eq(x, out), dtype=g.dtype)
    chosen = cast(eq(updates, gather(out, index, axis=axis)), dtype=g.dtype)
    count = scatter(kept, index, chosen, axis=axis, mode="add")
    share = g / maximum(count, 1)
    return (
        _if(needs[0], lambda: share * kept),
        None,
        _if(needs[2], lambda: gather(share, index, axis=axis) * chosen),
    )


def _last_written(g: Any, index: Any, updates: Any, axis: int) -> Any:
    """Gradient of the updates of a set: only the last of duplicates was seen."""
    size = index.shape[0]
    order = iota(size=size, dtype=dtypes.int32)
    winners = scatter(
        full(value=-1, shape=(g.shape[axis],), dtype=dtypes.int32), index, order, axis=0, mode="max"
    )
    won = cast(eq(gather(winners, index, axis=0), order), dtype=g.dtype)
    shape = tuple(size if i == axis else 1 for i in range(updates.ndim))
    return gather(g, index, axis=axis) * _reshape(won, shape=shape)


@scatter.reference
def _(x: Any, index: Any, updates: Any, *, axis: Any, mode: Any) -> Any:
    out = np.moveaxis(np.array(x), axis, 0)
    parts = np.moveaxis(np.asarray(updates), axis, 0)
    if mode == "set":
        for i, part in zip(index, parts, strict=True):
            out[i] = part
    else:
        {"add": np.add, "min": np.minimum, "max": np.maximum}[mode].at(out, index, parts)
    return np.moveaxis(out, 0, axis)


@scatter.samples
def _(s: Any) -> None:
    for mode in ("set", "add", "min", "max"):
        s.case(s.f32(5, 3), s.array(np.array([0, 4, 0, 2], "i4")), s.f32(4, 3), axis=0, mode=mode)
    s.case(s.f32(2, 5), s.i32(3, low=0, high=5), s.f32(2, 3), axis=1, mode="add")
    s.case(s.i32(4), s.i32(0), s.i32(0), axis=0, mode="set")
    s.error(ValueError, "updates", s.f32(5, 3), s.i32(2), s.f32(3, 3), axis=0, mode="add")


@primitive("sort", nondiff_outputs={1})
def sort(x: Spec, *, axis: int = -1, descending: bool = False) -> Inferred:
    """Sorted values along `axis` and the indices they came from; stable, NaN is the greatest."""
    rules.require("sort", x, "buif")
    rules.indexable("sort", x.shape[axis])
    return Inferred(((x.shape, x.dtype), (x.shape, dtypes.int32)))


@sort.vjp
def _(grads: Any, outs: Any, ins: Any, attrs: Any, needs: Any) -> Any:
    return (Handle("put_along_axis")(_zeros_like(ins[0]), outs[1], grads[0], axis=attrs["axis"]),)


@sort.reference
def _(x: Any, *, axis: Any, descending: Any) -> Any:
    flipped = np.flip(x, axis) if descending else x
    order = np.argsort(flipped, axis=axis, kind="stable")
    if descending:
        order = np.flip(x.shape[axis] - 1 - order, axis)
    return np.take_along_axis(x, order, axis), order.astype(np.int32)


@sort.samples
def _(s: Any) -> None:
    s.case(s.f32(3, 7), axis=1)
    s.case(s.i32(9, 2, low=0, high=4), axis=0, descending=True)
    s.case(s.array(np.array([1.0, np.nan, -np.inf, 3.0, 1.0], "f4")), axis=0, grad="none")
    s.case(s.array(np.array([1.0, np.nan, 3.0], "f4")), axis=0, descending=True, grad="none")
    s.case(s.f32(0, 3), axis=0)


@primitive("random_bits", nondiff=True)
def random_bits(state: Spec, *, size: int, relative: int = 0) -> Inferred:
    """`size` random 32-bit words: Philox4x32-10 (Salmon et al. 2011) of the generator `state`.

    ``state`` is uint32[4]: key low, key high, block offset low, block offset high. Word ``4 b + j`` is
    word j of the block
    with counter ``offset + relative + b``.
    """
    if state.dtype is not dtypes.uint32 or state.shape != (4,):
        raise DTypeError(
            f"random_bits: state must be uint32 of shape (4,); received {state.dtype.name} of shape {state.shape}."
        )
    return Inferred((((size,), dtypes.uint32),))


@random_bits.reference
def _(state: Any, *, size: Any, relative: Any) -> Any:
    key = int(state[0]) | int(state[1]) << 32
    offset = int(state[2]) | int(state[3]) << 32
    blocks = -(-size // 4)
    counter = (offset + relative + np.arange(blocks, dtype=np.uint64)) if blocks else np.zeros(0, np.uint64)
    words = [counter & 0xFFFFFFFF, counter >> np.uint64(32), np.zeros_like(counter), np.zeros_like(counter)]
    k0, k1 = key & 0xFFFFFFFF, key >> 32
    mask, half = np.uint64(0xFFFFFFFF), np.uint64(32)
    for _ in range(10):
        p0, p1 = words[0] * np.uint64(0xD2511F53), words[2] * np.uint64(0xCD9E8D57)
        words = [
            (p1 >> half) ^ words[1] ^ np.uint64(k0),
            p1 & mask,
            (p0 >> half) ^ words[3] ^ np.uint64(k1),
            p0 & mask,
        ]
        k0, k1 = (k0 + 0x9E3779B9) & 0xFFFFFFFF, (k1 + 0xBB67AE85) & 0xFFFFFFFF
    return np.stack(words, 1).reshape(-1)[:size].astype(np.uint32)


@random_bits.samples
def _(s: Any) -> None:
    s.case(s.state(), size=37)
    s.case(s.state(), size=4, relative=5)
    s.case(s.state(), size=0)
    s.case(s.array(np.array([1, 2, 0xFFFFFFFF, 0], "u4")), size=9)
