"""Elementwise primitives: one shader for each type, an operator chosen by a specialisation constant."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any, Final

from grilly_backend_vulkan.kernels import mapping
from grilly_backend_vulkan.kernels.support import ALL, BOOL, CODES, FLOATS, HALVES, INTEGERS, add
from grilly_core.layout import expand_strides

__all__ = ["register"]

#: Op → the shader's number for it.
UNARY: Final = {
    "neg": 0, "abs": 1, "sign": 2, "floor": 3, "sqrt": 4, "exp": 5, "expm1": 6, "log": 7, "log1p": 8, "sin": 9,
    "cos": 10, "tanh": 11, "erf": 12,
}  # fmt: skip
BINARY: Final = {
    "add": 0, "sub": 1, "mul": 2, "div": 3, "floordiv": 4, "pow": 5, "maximum": 6, "minimum": 7, "atan2": 8,
    "bitwise_and": 9, "bitwise_or": 10, "bitwise_xor": 11, "shift_left": 12, "shift_right": 13,
}  # fmt: skip

_PLACE: Final = {code: i for i, code in enumerate(CODES)}
_REALS: Final = INTEGERS | FLOATS
_NARROW: Final = HALVES | {"f32"}
_EXACT: Final = frozenset({"neg", "abs", "sign", "floor"})
_ARITHMETIC: Final = frozenset({"add", "sub", "mul", "floordiv", "maximum", "minimum"})


def _apply(family: str, constants: tuple[int, ...]) -> Callable[..., None]:
    """Return the kernel that runs the shader ``family_dtype``; the type is that of the last input."""

    def kernel(stream: Any, outs: Any, ins: Any, attrs: dict[str, Any]) -> None:
        run_broadcast(stream, f"{family}_{ins[-1].dtype.code}", constants, (outs[0], *ins))

    return kernel


def _isnan(stream: Any, outs: Any, ins: Any, attrs: dict[str, Any]) -> None:
    mapping.run(stream, f"isnan_{ins[0].dtype.code}", (), (outs[0], ins[0]))  # the shader takes one at a time


def run_broadcast(
    stream: Any, name: str, constants: tuple[int, ...], views: Sequence[Any], **options: Any
) -> None:
    """Launch an elementwise shader on inputs that repeat along axes of the output."""
    shape = views[0].shape
    strides = tuple(expand_strides(v.shape, v.strides, shape) for v in views)
    mapping.run(stream, name, constants, views, strides=strides, fours=True, **options)


def _unary_codes(name: str) -> frozenset[str]:
    if name in _EXACT:
        return _REALS
    return _NARROW | {"f64"} if name == "sqrt" else _NARROW


def _binary_codes(name: str) -> frozenset[str]:
    if name in _ARITHMETIC:
        return _REALS | BOOL
    if name == "div":
        return FLOATS
    if name == "pow":
        return _NARROW | INTEGERS | BOOL
    if name == "atan2":
        return _NARROW
    return INTEGERS | BOOL if name.startswith("bitwise") else INTEGERS


def _where(stream: Any, outs: Any, ins: Any, attrs: dict[str, Any]) -> None:
    run_broadcast(stream, f"where_s{outs[0].dtype.itemsize}", (), (outs[0], *ins))


def _cast(stream: Any, outs: Any, ins: Any, attrs: dict[str, Any]) -> None:
    codes = ins[0].dtype.code, outs[0].dtype.code
    name = "cast_f64" if "f64" in codes else "cast"
    sizes = struct.pack("<2I", outs[0].dtype.itemsize, ins[0].dtype.itemsize)
    fours = set(codes) <= _NARROW
    mapping.run(
        stream, name, (_PLACE[codes[0]], _PLACE[codes[1]]), (outs[0], ins[0]), scalars=sizes, fours=fours
    )


def register(kernels: Any, runtime: Any) -> None:
    """Declare the kernels of this module."""
    for name, number in UNARY.items():
        add(kernels, name, _apply("unary", (number,)), _unary_codes(name))
    for name, number in BINARY.items():
        add(kernels, name, _apply("binary", (number,)), _binary_codes(name), layout="broadcast")
    for name, number in (("eq", 0), ("lt", 1)):
        add(kernels, name, _apply("compare", (number,)), _REALS | BOOL, layout="broadcast")
    add(kernels, "isnan", _isnan, FLOATS)
    kernels.add("where", _where, dtypes=ALL, layout="broadcast")
    add(kernels, "cast", _cast, _REALS | BOOL)
