"""Elementwise functions, for sizes at which they beat NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from grilly_backend_cpu.fast.maths import erf32, exp32, tanh32
from grilly_backend_cpu.jit import Jit, njit, split

__all__ = ["BINARY", "BLOCK", "CHEAP_BLOCK", "LARGE", "UNARY", "mapped", "mapped2"]

#: Elements of one block: about 20 µs of a function such as exp, or more of mere arithmetic. Waking a second thread
#: costs several µs, so smaller work stays on one.
BLOCK: Final = 1 << 16
CHEAP_BLOCK: Final = 1 << 18

_function: Any = None  # replaced by the function that `mapped` is given


def _map(start: int, stop: int, args: Any) -> None:
    x = args[0][start:stop]
    y = args[1][start:stop]
    for i in range(x.size):
        y[i] = _function(x[i])


def mapped(function: Jit) -> Callable[..., None]:
    """Return ``run(n, block, (x, y))``, which writes ``function(x[i])`` to ``y[i]``."""
    body: Jit = njit(fastmath={"contract"})(_map)
    body.name = f"_map[{function.name}]"
    body.replaced["_function"] = function
    return split(body)


def _map2(start: int, stop: int, args: Any) -> None:
    x = args[0][start:stop]
    y = args[1][start:stop]
    out = args[2][start:stop]
    for i in range(x.size):
        out[i] = _function(x[i], y[i])


def mapped2(function: Jit) -> Callable[..., None]:
    """Return ``run(n, block, (x, y, out))``, which writes ``function(x[i], y[i])`` to ``out[i]``."""
    body: Jit = njit(fastmath={"contract"})(_map2)
    body.name = f"_map2[{function.name}]"
    body.replaced["_function"] = function
    return split(body)


@njit(forceinline=True)
def _add(x: Any, y: Any) -> Any:
    return x + y


@njit(forceinline=True)
def _sub(x: Any, y: Any) -> Any:
    return x - y


@njit(forceinline=True)
def _mul(x: Any, y: Any) -> Any:
    return x * y


@njit(forceinline=True)
def _div(x: Any, y: Any) -> Any:
    return x / y


#: Large sums and products are bound by memory, of which two threads get more than one.
BINARY: Final = {"add": mapped2(_add), "sub": mapped2(_sub), "mul": mapped2(_mul), "div": mapped2(_div)}
LARGE: Final = 1 << 18

#: Name of the op, how to run it, and the smallest size for which it is chosen (NumPy has no erf at all).
UNARY: Final = (
    ("exp", mapped(exp32), 1 << 15),
    ("tanh", mapped(tanh32), 1 << 15),
    ("erf", mapped(erf32), 0),
)
