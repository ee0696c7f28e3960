"""Expressions of one time step of a neuron: recorded once, then run on tensors, differentiated and printed.

A step is written with the operators below on scalars of no particular kind. What it records is small (some ten
operations), has no loops, and equal parts are one object, so that the printed kernels compute nothing twice.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

__all__ = [
    "Expr", "above", "constant", "differentiate", "exp", "flag", "maximum", "minimum", "mix", "ordered", "replaced",
    "select", "spike", "spike_strict", "stop", "symbol",
]  # fmt: skip


class Expr:
    """One operation on others.

    Attributes
    ----------
    op : str
    args : tuple of Expr
    value : float, str or None
        Of a constant its number, of a symbol or flag its name.
    """

    __slots__ = ("args", "op", "value")

    def __init__(self, op: str, args: tuple[Expr, ...], value: float | str | None) -> None:
        self.op, self.args, self.value = op, args, value

    def __add__(self, other: Any) -> Expr:
        return _sum(self, _expr(other))

    def __radd__(self, other: Any) -> Expr:
        return _sum(_expr(other), self)

    def __sub__(self, other: Any) -> Expr:
        return _difference(self, _expr(other))

    def __rsub__(self, other: Any) -> Expr:
        return _difference(_expr(other), self)

    def __mul__(self, other: Any) -> Expr:
        return _product(self, _expr(other))

    def __rmul__(self, other: Any) -> Expr:
        return _product(_expr(other), self)

    def __truediv__(self, other: Any) -> Expr:
        return _made("div", (self, _expr(other)))

    def __neg__(self) -> Expr:
        return _ZERO if self is _ZERO else _made("neg", (self,))


@functools.cache
def _made(op: str, args: tuple[Expr, ...], value: float | str | None = None) -> Expr:
    return Expr(op, args, value)


def constant(value: float) -> Expr:
    """Return a number."""
    return _made("const", (), float(value))


_ZERO = constant(0.0)
_ONE = constant(1.0)


def _expr(x: Any) -> Expr:
    return x if isinstance(x, Expr) else constant(x)


def _sum(a: Expr, b: Expr) -> Expr:
    if a is _ZERO or b is _ZERO:
        return b if a is _ZERO else a
    return _made("add", (a, b))


def _difference(a: Expr, b: Expr) -> Expr:
    if b is _ZERO:
        return a
    return -b if a is _ZERO else _made("sub", (a, b))


def _product(a: Expr, b: Expr) -> Expr:
    if a is _ZERO or b is _ZERO:
        return _ZERO
    if a is _ONE or b is _ONE:
        return b if a is _ONE else a
    return _made("mul", (a, b))


def symbol(name: str) -> Expr:
    """Return a value known by name: an input, a state, a constant of the neuron."""
    return _made("symbol", (), name)


def flag(name: str) -> Expr:
    """Return a choice that is the same for all neurons and steps of a scan; for `select`."""
    return _made("flag", (), name)


def exp(x: Any) -> Expr:
    """Return e to the power of x."""
    return _made("exp", (_expr(x),))


def minimum(a: Any, b: Any) -> Expr:
    """Return the smaller."""
    return _made("min", (_expr(a), _expr(b)))


def maximum(a: Any, b: Any) -> Expr:
    """Return the larger."""
    return _made("max", (_expr(a), _expr(b)))


def above(a: Any, b: Any) -> Expr:
    """Return 1 where a > b, else 0; it has no gradient."""
    return _made("above", (_expr(a), _expr(b)))


def spike(distance: Any) -> Expr:
    """Return 1 where the membrane is at the threshold or above it (distance ≥ 0); its gradient is the surrogate's."""
    return _made("spike", (_expr(distance),))


def spike_strict(distance: Any) -> Expr:
    """Return 1 where the membrane is above the threshold (distance > 0)."""
    return _made("spike_strict", (_expr(distance),))


def stop(x: Any) -> Expr:
    """Return x without a gradient."""
    return _made("stop", (_expr(x),))


def select(condition: Expr, a: Any, b: Any) -> Expr:
    """Return a where the condition (a flag, or a value above 0) holds, else b."""
    a, b = _expr(a), _expr(b)
    return a if a is b else _made("select", (condition, a, b))


def mix(s: Expr, a: Any, b: Any) -> Expr:
    """Return ``s a + (1 - s) b`` for a spike s, which is 0 or 1: a choice, differentiable by s."""
    a, b = _expr(a), _expr(b)
    return a if a is b else _made("mix", (s, a, b))


def ordered(outputs: Sequence[Expr]) -> list[Expr]:
    """Return all expressions that the outputs need, arguments first, each once."""
    seen: dict[Expr, None] = {}

    def visit(e: Expr) -> None:
        if e not in seen:
            for a in e.args:
                visit(a)
            seen[e] = None

    for e in outputs:
        visit(e)
    return list(seen)


def differentiate(outputs: Sequence[Expr], seeds: Sequence[Expr], by: Sequence[Expr]) -> list[Expr]:
    """Return the gradients of ``sum(seed * output)``, written as expressions (reverse mode)."""
    gradients: dict[Expr, Expr] = {}

    def arrive(e: Expr, g: Expr) -> None:
        if g is not _ZERO:
            gradients[e] = gradients.get(e, _ZERO) + g

    for e, seed in zip(outputs, seeds, strict=True):
        arrive(e, seed)
    for e in reversed(ordered(outputs)):
        g = gradients.get(e)
        if g is not None:
            for argument, part in zip(e.args, _pulled(e, g), strict=True):
                arrive(argument, part)
    return [gradients.get(e, _ZERO) for e in by]


def _pulled(e: Expr, g: Expr) -> tuple[Expr, ...]:
    """Return the gradients of the arguments of one operation."""
    match e.op, e.args:
        case "add", _:
            return g, g
        case "sub", _:
            return g, -g
        case "mul", (a, b):
            return g * b, g * a
        case "div", (_, b):
            return g / b, -(g * e / b)
        case "neg", _:
            return (-g,)
        case "exp", _:
            return (g * e,)
        case "min" | "max", (a, b):
            mask = above(b, a) if e.op == "min" else above(a, b)
            return select(mask, g, 0.0), select(mask, 0.0, g)
        case "spike" | "spike_strict", (distance,):
            return (g * _made("surrogate", (distance,)),)
        case "select", (c, _, _):
            return _ZERO, select(c, g, 0.0), select(c, 0.0, g)
        case "mix", (s, a, b):
            return g * (a - b), mix(s, g, 0.0), mix(s, 0.0, g)
    return tuple(_ZERO for _ in e.args)


def replaced(outputs: Sequence[Expr], op: str, function: Callable[..., Expr]) -> list[Expr]:
    """Return the outputs with every operation `op` written as `function` of its arguments."""
    done: dict[Expr, Expr] = {}
    for e in ordered(outputs):
        arguments = tuple(done[a] for a in e.args)
        done[e] = function(*arguments) if e.op == op else _made(e.op, arguments, e.value)
    return [done[e] for e in outputs]
