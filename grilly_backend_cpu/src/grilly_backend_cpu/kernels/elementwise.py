"""The elementwise primitives: one table of ufuncs, each wrapped as directly as possible.

A kernel is one call; running it without floating-point warnings costs 25 ns (see `grilly_backend_cpu.quiet`).
Types without warnings (comparisons) skip even that.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from grilly_backend_cpu.fast import elementwise as fast
from grilly_backend_cpu.kernels.special import erf
from grilly_backend_cpu.kernels.support import ALL, BOOL, COMPLEX, FAST, FLOATS, INTEGERS, REALS, WIDE
from grilly_backend_cpu.quiet import quiet_context

__all__ = ["binary", "register", "unary"]

Kernel = Callable[[Any, Any, Any, Any], None]
_BITS: Final = INTEGERS | BOOL

_UNARY: Final = {
    "neg": (np.negative, REALS | COMPLEX),
    "abs": (np.absolute, ALL),
    "sign": (np.sign, REALS),
    "floor": (np.floor, REALS),
    "exp": (np.exp, FLOATS | COMPLEX),
    "expm1": (np.expm1, FLOATS | COMPLEX),
    "log": (np.log, FLOATS | COMPLEX),
    "log1p": (np.log1p, FLOATS | COMPLEX),
    "sqrt": (np.sqrt, FLOATS | COMPLEX),
    "sin": (np.sin, FLOATS | COMPLEX),
    "cos": (np.cos, FLOATS | COMPLEX),
    "tanh": (np.tanh, FLOATS | COMPLEX),
    "erf": (erf, FLOATS),
    "isnan": (np.isnan, FLOATS | COMPLEX),
}
_BINARY: Final = {
    "add": (np.add, ALL),
    "sub": (np.subtract, REALS | COMPLEX),
    "mul": (np.multiply, ALL),
    "div": (np.true_divide, FLOATS | COMPLEX),
    "floordiv": (np.floor_divide, REALS),
    "pow": (np.power, REALS | COMPLEX),
    "maximum": (np.maximum, BOOL | REALS),
    "minimum": (np.minimum, BOOL | REALS),
    "atan2": (np.arctan2, FLOATS),
}
_QUIET_BINARY: Final = {
    "bitwise_and": (np.bitwise_and, _BITS),
    "bitwise_or": (np.bitwise_or, _BITS),
    "bitwise_xor": (np.bitwise_xor, _BITS),
    "shift_left": (np.left_shift, INTEGERS),
    "shift_right": (np.right_shift, INTEGERS),
    "eq": (np.equal, ALL),
    "lt": (np.less, BOOL | REALS),
}


def unary(function: Callable[..., Any]) -> Kernel:
    """Return the kernel of a function ``f(x, out)``."""

    def kernel(stream: Any, outs: Any, ins: Any, attrs: Any) -> None:
        quiet_context().run(function, ins[0].array, outs[0].array)

    return kernel


def binary(function: Callable[..., Any]) -> Kernel:
    """Return the kernel of a ufunc of two arguments (NumPy deprecates `out` by position for some)."""

    def kernel(stream: Any, outs: Any, ins: Any, attrs: Any) -> None:
        quiet_context().run(function, ins[0].array, ins[1].array, out=outs[0].array)

    return kernel


def _binary_without_warnings(function: Callable[..., Any]) -> Kernel:
    def kernel(stream: Any, outs: Any, ins: Any, attrs: Any) -> None:
        function(ins[0].array, ins[1].array, out=outs[0].array)

    return kernel


def where(stream: Any, outs: Any, ins: Any, attrs: Any) -> None:
    """Choose elementwise; NumPy's own three-argument `where` would allocate its result."""
    condition, x, y = ins[0].array, ins[1].array, ins[2].array
    out = outs[0].array
    np.copyto(out, y)
    np.copyto(out, x, where=condition)


def floor_halves(x: Any, out: Any) -> None:
    """Floor, for types whose own `floor` is absent: it is the identity on integers."""
    if x.dtype.kind in "iu":
        np.copyto(out, x)
    else:
        np.floor(x, out)


def register(kernels: Any, runtime: Any) -> None:
    """Declare the kernels of this module; NumPy repeats axes itself, so core need not expand them first."""
    for name, (function, dtypes) in _UNARY.items():
        kernels.add(name, unary(floor_halves if name == "floor" else function), dtypes=dtypes)
    for name, (function, dtypes) in _BINARY.items():
        kernels.add(name, binary(function), dtypes=dtypes, layout="broadcast")
    for name, (function, dtypes) in _QUIET_BINARY.items():
        kernels.add(name, _binary_without_warnings(function), dtypes=dtypes, layout="broadcast")
    kernels.add("where", where, dtypes=ALL, layout="broadcast")
    if runtime.has_numba:
        for name, run, smallest in fast.UNARY:
            kernels.add(
                name,
                _compiled(run, fast.BLOCK),
                dtypes={"f32"},
                layout="contiguous",
                priority=FAST,
                when=_at_least(smallest),
            )
        for name, run in fast.BINARY.items():
            kernels.add(
                name, _compiled(run, fast.CHEAP_BLOCK), dtypes=WIDE, priority=FAST, when=_large_and_plain
            )


def _at_least(smallest: int) -> Callable[[Any], bool]:
    return lambda c: c.ins[0].size >= smallest and c.ins[0].contiguous


def _large_and_plain(c: Any) -> bool:
    return c.outs[0].size >= fast.LARGE and all(s.contiguous and s.shape == c.outs[0].shape for s in c.ins)


def _compiled(run: Callable[..., None], block: int) -> Kernel:
    def kernel(stream: Any, outs: Any, ins: Any, attrs: Any) -> None:
        flat = [v.array.reshape(-1) for v in (*ins, *outs)]
        run(flat[0].size, block, tuple(flat))

    return kernel
