"""What a step may read and write: tensors, and gradients, that outlive it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from grilly_core import config
from grilly_core.apply import plan_of
from grilly_core.buffer import View, contiguous_spec
from grilly_core.errors import CaptureError
from grilly_core.opspec import Handle
from grilly_core.plan import EAGER
from grilly_core.random import Generator
from grilly_core.tape import Leaf
from grilly_core.tensor import Tensor

_copy: Final = Handle("strided_copy")

__all__ = ["Cell", "cells_of", "packed", "unique"]


@dataclass(frozen=True, slots=True)
class Cell:
    """A place that holds a value between steps: a tensor, or the gradient of one."""

    name: str
    tensor: Tensor
    is_grad: bool = False

    def get(self) -> Tensor | None:
        """The tensor whose value it is, None for a gradient that is not there."""
        return self.tensor.grad if self.is_grad else self.tensor

    def put(self, view: View | None) -> None:
        """Set the value."""
        if not self.is_grad:
            assert view is not None
            self.tensor._value = view
        elif isinstance(self.tensor._node, Leaf):
            self.tensor._node.grad = None if view is None else Tensor(view)


def cells_of(state: Any, prefix: str = "state") -> list[Cell]:
    """Find the tensors in modules, optimisers, tensors and containers of them."""
    if isinstance(state, Tensor):
        cells = [Cell(prefix, state)]
        return [*cells, Cell(f"{prefix}.grad", state, True)] if isinstance(state._node, Leaf) else cells
    if isinstance(state, dict):
        return [c for k, v in state.items() for c in cells_of(v, f"{prefix}[{k!r}]")]
    if isinstance(state, list | tuple):
        return [c for i, v in enumerate(state) for c in cells_of(v, f"{prefix}[{i}]")]
    if isinstance(state, Generator) or state is None:
        return []
    if hasattr(state, "captured_state"):
        return [c for name, t in state.captured_state() for c in cells_of(t, name)]
    if hasattr(state, "named_parameters") and hasattr(state, "named_buffers"):
        pairs = [*state.named_parameters(), *state.named_buffers()]
        return [c for name, t in pairs for c in cells_of(t, name)]
    raise CaptureError(
        f"capture: {prefix} is a {type(state).__name__}; expected modules, optimisers, tensors, or lists "
        "and dicts of them."
    )


def unique(cells: list[Cell]) -> list[Cell]:
    """Return each cell once."""
    seen: set[tuple[int, bool]] = set()
    return [c for c in cells if (key := (id(c.tensor), c.is_grad)) not in seen and not seen.add(key)]  # type: ignore[func-returns-value]


def packed(tensor: Tensor) -> View:
    """A private copy of a value in C order."""
    view = tensor._value
    fresh = view.spec.context.empty(contiguous_spec(view.shape, view.dtype, view.spec.context))
    plan = plan_of(_copy.op, (view.spec,), (), config.current(), False)
    plan.emit(EAGER, [view], {0: fresh})
    return fresh
