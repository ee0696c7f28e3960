"""What the tape remembers: a `Node` for each recorded op, a `Leaf` for each tensor the user watches.

Nodes hold the *values* of forward time, never tensors, so a later write to a tensor changes no gradient.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from grilly_core.buffer import View

if TYPE_CHECKING:
    from grilly_core.opspec import Op
    from grilly_core.tensor import Tensor

__all__ = ["Edge", "Leaf", "Node", "now"]

_sequence = itertools.count()
Edge = tuple["Node | Leaf", int]
Hook = Callable[["Tensor"], "Tensor | None"]


def now() -> int:
    """Return a number above the order of every node so far, and below that of every later one."""
    return next(_sequence)


class Leaf:
    """Where the gradient of a watched tensor arrives.

    Attributes
    ----------
    grad : Tensor or None
    hooks : dict
        Called with the gradient before it is accumulated.
    """

    __slots__ = ("accumulated", "grad", "hooks")

    def __init__(self) -> None:
        self.grad: Tensor | None = None
        self.hooks: dict[int, Hook] | None = None
        self.accumulated: dict[int, Callable[[], None]] | None = None


class Node:
    """One recorded op.

    Attributes
    ----------
    op : Op
    attrs : dict
        As kernels receive them.
    values : tuple
        Attributes in schema order, for ops that are differentiated through their body.
    ins, outs : tuple of View or None
        The values of forward time; None once freed.
    edges : tuple of (node, output index) or None
        Where the gradient of each input goes; None if it needs none.
    order : int
        Grows with time, so that sorting by it is a topological sort.
    freed : bool or callable
        True once the values were let go; a function that brings them back if they can be computed again.
    """

    __slots__ = (
        "__weakref__", "attrs", "edges", "freed", "hooks", "ins", "op", "order", "outs", "retained", "values",
    )  # fmt: skip

    def __init__(
        self,
        op: Op[Any, Any],
        attrs: dict[str, Any],
        values: tuple[Any, ...],
        ins: tuple[View | None, ...],
        outs: tuple[View, ...],
        edges: tuple[Edge | None, ...],
    ) -> None:
        self.op = op
        self.attrs = attrs
        self.values = values
        self.ins = ins
        self.outs = outs
        self.edges = edges
        self.order = next(_sequence)
        self.freed: bool | Callable[[], None] = False
        self.hooks: dict[int, list[Hook]] | None = None
        self.retained: dict[int, Leaf] | None = None

    def free(self) -> None:
        """Let go of the saved values."""
        self.ins = self.outs = ()
        self.freed = True
