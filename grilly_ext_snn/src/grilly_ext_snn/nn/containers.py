"""Containers that bring layers for one step and sequences of steps together."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import grilly_core as grilly
from grilly_core.nn import Module, Sequential
from grilly_core.tensor import Tensor
from grilly_ext_snn.functional._arguments import tensor, timed
from grilly_ext_snn.functional.nets import set_step_mode
from grilly_ext_snn.functional.steps import multi_step_forward, refuse_state, seq_to_ann_forward
from grilly_ext_snn.nn.memory import MemoryModule

__all__ = ["ElementWiseRecurrentContainer", "MultiStepContainer", "SeqToANNContainer"]


class MultiStepContainer(Sequential):
    """Modules that take one step, called for every step of ``(T, B, ...)``.

    Their nodes are set to ``step_mode="s"``, and `set_step_mode` leaves them there.

    Examples
    --------
    >>> import grilly
    >>> from grilly_ext_snn.nn.containers import MultiStepContainer
    >>> from grilly_ext_snn.nn.nodes import LIFNode
    >>> MultiStepContainer(grilly.nn.Linear(4, 3), LIFNode())(grilly.ones((5, 2, 4))).shape
    (5, 2, 3)
    """

    steps_inside = True

    def __init__(self, *modules: Any) -> None:
        super().__init__(*modules)
        for module in self:
            set_step_mode(module, "s")

    def forward(self, x: Any) -> Tensor:
        """Return the outputs over time."""
        return multi_step_forward(x, list(self))


class SeqToANNContainer(Sequential):
    """Modules without state that take all steps of ``(T, B, ...)`` as one batch.

    Examples
    --------
    >>> import grilly
    >>> from grilly_ext_snn.nn.containers import SeqToANNContainer
    >>> SeqToANNContainer(grilly.nn.Conv2d(1, 3, 3), grilly.nn.MaxPool2d(2))(grilly.ones((4, 2, 1, 8, 8))).shape
    (4, 2, 3, 3, 3)
    """

    def __init__(self, *modules: Any) -> None:
        super().__init__(*modules)
        refuse_state("SeqToANNContainer", self)

    def forward(self, x: Any) -> Tensor:
        """Return the outputs over time."""
        return seq_to_ann_forward(x, list(self))


class ElementWiseRecurrentContainer(MemoryModule):
    """A module that sees its own last output: ``y[t] = module(f(x[t], y[t - 1]))``, ``y[-1] = 0``.

    Parameters
    ----------
    sub_module : Module
        Its output has the shape of its input; nodes inside take one step.
    element_wise_function : callable
        ``f(x, y)``, such as ``lambda x, y: x + y``.
    step_mode : {"s", "m"}
        Whether a call is one step ``(B, ...)`` or a sequence ``(T, B, ...)``.

    Examples
    --------
    >>> import grilly
    >>> from grilly_ext_snn.nn.containers import ElementWiseRecurrentContainer
    >>> from grilly_ext_snn.nn.nodes import IFNode
    >>> net = ElementWiseRecurrentContainer(IFNode(), lambda x, y: x + y, step_mode="m")
    >>> net(grilly.full((5, 1), 0.5))[:, 0].tolist()
    [0.0, 1.0, 1.0, 1.0, 1.0]
    """

    steps_inside = True

    def __init__(
        self,
        sub_module: Module,
        element_wise_function: Callable[[Tensor, Tensor], Tensor],
        step_mode: str = "s",
    ) -> None:
        super().__init__()
        if not callable(element_wise_function):
            raise TypeError(
                f"ElementWiseRecurrentContainer: element_wise_function must be callable; received "
                f"{element_wise_function!r}."
            )
        if step_mode not in ("s", "m"):
            raise ValueError(
                f"ElementWiseRecurrentContainer: step_mode is 's' or 'm'; received {step_mode!r}."
            )
        set_step_mode(sub_module, "s")
        self.sub_module, self.element_wise_function = sub_module, element_wise_function
        self.step_mode = step_mode
        self.register_memory("y", 0.0)

    def forward(self, x: Any) -> Tensor:
        """Return the outputs, of the shape of `x`."""
        if self.step_mode == "s":
            return self._step(tensor(x))
        made = timed("ElementWiseRecurrentContainer", x)
        result: Tensor = grilly.stack([self._step(step) for step in made])
        return result

    def _step(self, x: Tensor) -> Tensor:
        self.prepare(x)
        self.y = self.sub_module(self.element_wise_function(x, self.y))
        result: Tensor = self.y
        return result
