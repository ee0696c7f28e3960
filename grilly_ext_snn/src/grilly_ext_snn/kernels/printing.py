"""What the printers share: the lines of a program, one for each operation, in the words of a language."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from grilly_ext_snn.neurons.expressions import Expr, ordered

__all__ = ["constants", "lines"]


def constants(outputs: Sequence[Expr]) -> list[float]:
    """Return the numbers that a program is written with, other than 0 and 1."""
    return sorted({float(e.value) for e in ordered(outputs) if e.op == "const"} - {0.0, 1.0})  # type: ignore[arg-type]


def lines(
    outputs: Sequence[Expr], words: Mapping[str, str], symbol: Callable[[Expr], str], assign: str
) -> tuple[list[str], list[str]]:
    """Return the assignments of a program, and how its outputs are called.

    Parameters
    ----------
    outputs : sequence of Expr
    words : mapping
        Operation → text with ``{0}``, ``{1}``, … for its arguments; ``choose`` serves selections by a flag.
    symbol : callable
        The text of a symbol, flag or constant.
    assign : str
        Text of an assignment with ``{name}`` and ``{value}``.
    """
    names: dict[Expr, str] = {}
    result = []
    for e in ordered(outputs):
        if not e.args:
            names[e] = symbol(e)
        elif e.op == "stop" or (e.op == "select" and names[e.args[1]] == names[e.args[2]]):
            names[e] = names[e.args[-1]]  # what differs in its gradient alone
        else:
            word = "choose" if e.op == "select" and e.args[0].op == "flag" else e.op
            names[e] = f"e{len(result)}"
            value = words[word].format(*[names[a] for a in e.args])
            result.append(assign.format(name=names[e], value=value))
    return result, [names[e] for e in outputs]
