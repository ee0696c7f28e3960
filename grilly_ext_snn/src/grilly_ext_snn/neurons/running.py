"""Running a recorded step on tensors: the body of every scan."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from grilly_core.ops.creation import full_like
from grilly_core.ops.math import ge
from grilly_core.ops.primitives import exp, lt, maximum, minimum, where
from grilly_core.tensor import Tensor
from grilly_ext_snn.neurons.expressions import Expr, ordered
from grilly_ext_snn.neurons.model import Program

__all__ = ["run"]

Value = Any  # a tensor, or a number that is the same for all neurons


def _exp(x: Value) -> Value:
    return exp(x) if isinstance(x, Tensor) else math.exp(x)


def _of_two(function: Callable[..., Value], plain: Callable[..., Value]) -> Callable[..., Value]:
    return lambda a, b: function(a, b) if isinstance(a, Tensor) or isinstance(b, Tensor) else plain(a, b)


def _where(condition: Tensor, a: Value, b: Value, like: Value) -> Value:
    """Choose; two numbers become what `like` is, since alone they would be float32."""
    a = a if isinstance(a, Tensor) or isinstance(b, Tensor) else full_like(like, a)
    return where(condition, a, b)


def _above(a: Value, b: Value) -> Value:
    return _where(lt(b, a), 1.0, 0.0, a if isinstance(a, Tensor) else b)


def _spike(distance: Value) -> Value:
    return _where(ge(distance, 0.0), 1.0, 0.0, distance)


def _choice(condition: Value, a: Value, b: Value) -> Value:
    if isinstance(condition, bool):
        return a if condition else b
    if not isinstance(condition, Tensor):
        return a if condition > 0 else b
    return _where(lt(0.0, condition), a, b, condition)


_RULES: Final[dict[str, Callable[..., Value]]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b,
    "neg": lambda a: -a,
    "exp": _exp,
    "min": _of_two(minimum, min),
    "max": _of_two(maximum, max),
    "above": _above,
    "spike": _spike,
    "spike_strict": lambda distance: _above(distance, 0.0),
    "stop": lambda a: a,
    "select": _choice,
    "mix": _choice,
}


def run(
    program: Program, outputs: Sequence[Expr], values: Mapping[str, Value],
    rules: Mapping[str, Callable[..., Value]] | None = None,
) -> list[Value]:  # fmt: skip
    """Return the outputs of a program.

    Parameters
    ----------
    program : Program
    outputs : sequence of Expr
        Those of the program that are wanted.
    values : mapping
        Inputs, constants and flags by name.
    rules : mapping, optional
        What to do for an operation instead of the usual.
    """
    table = {**_RULES, **(rules or {})}
    done: dict[Expr, Value] = {}
    for e in ordered(outputs):
        if e.op == "const":
            done[e] = e.value
        elif e.op in ("symbol", "flag"):
            done[e] = values[str(e.value)]
        else:
            done[e] = table[e.op](*[done[a] for a in e.args])
    return [done[e] for e in outputs]
