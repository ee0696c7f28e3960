"""`MemoryModule`: modules that keep state from one call to the next."""

from __future__ import annotations

import math
from typing import Any

import grilly_core as grilly
from grilly_core.errors import AutogradError, DeviceError, ShapeError
from grilly_core.nn import Module
from grilly_core.tensor import Tensor
from grilly_ext_snn.functional._arguments import tensor

__all__ = ["MemoryModule"]


class MemoryModule(Module):
    """A module with memories: buffers that take the shape of the first input after `reset` and are in no state dict.

    Examples
    --------
    >>> import grilly
    >>> from grilly_ext_snn.nn.memory import MemoryModule
    >>> class Total(MemoryModule):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.register_memory("sum", 0.0)
    ...     def forward(self, x):
    ...         self.prepare(x)
    ...         self.sum = self.sum + x
    ...         return self.sum
    >>> total = Total()
    >>> total(grilly.ones(2)).tolist(), total(grilly.ones(2)).tolist()
    ([1.0, 1.0], [2.0, 2.0])
    >>> total.reset()
    >>> total(grilly.ones(3)).tolist()
    [1.0, 1.0, 1.0]
    """

    def __init__(self) -> None:
        super().__init__()
        self._memories: dict[str, float] = {}

    def register_memory(self, name: str, default_value: float) -> None:
        """Declare a memory; `default_value` fills it after `reset`."""
        if not math.isfinite(default_value):
            raise ValueError(f"register_memory: {name} must start finite; received {default_value!r}.")
        self.register_buffer(name, None, persistent=False)
        self._memories[name] = float(default_value)

    def memories(self) -> dict[str, Tensor | None]:
        """Return the memories by name; None before the first input."""
        return {name: getattr(self, name) for name in self._memories}

    def set_memory(self, name: str, value: Any) -> None:
        """Give a memory a value of the shape of one step; refuses NaN and infinities."""
        if name not in self._memories:
            raise KeyError(
                f"{type(self).__name__} has no memory {name!r}; it has {', '.join(self._memories)}."
            )
        made = tensor(value)
        if not bool(grilly.isfinite(made.detach()).all().item()):
            raise ValueError(
                f"{type(self).__name__}: {name} must be finite; the value has NaN or infinities."
            )
        setattr(self, name, made)

    def reset(self) -> None:
        """Forget all memories, with their history of gradients."""
        for name in self._memories:
            setattr(self, name, None)

    def detach(self) -> None:
        """Keep the values of all memories and cut them from the graph (truncated backpropagation through time)."""
        for name, value in self.memories().items():
            if value is not None:
                setattr(self, name, value.detach())

    def prepare(self, x: Tensor | None = None, **by_name: Tensor) -> None:
        """Make the memories for one step like `x`, or like what is given by name, or check that those held fit it."""
        for name, like in (by_name or dict.fromkeys(self._memories, x)).items():
            self._prepare(name, like)

    def _prepare(self, name: str, x: Any) -> None:
        held, default = getattr(self, name), self._memories[name]
        if held is None:
            setattr(self, name, grilly.full(x.shape, default, dtype=x.dtype, device=x.device))
        else:
            self._fits(name, held, x)

    def _fits(self, name: str, held: Tensor, x: Tensor) -> None:
        who = f"{type(self).__name__}.{name}"
        if held.shape != x.shape:
            raise ShapeError(
                f"{who}: the state held has shape {tuple(held.shape)}, one step of the input has {tuple(x.shape)}; "
                "reset the state (reset(), functional.reset_net) before another batch size."
            )
        if held.device != x.device:
            raise DeviceError(
                f"{who} is on {held.device}, the input on {x.device}; move one, or call reset()."
            )
        if held._node is not None and getattr(held._node, "freed", False) is True:
            raise AutogradError(
                f"{who} belongs to a graph that backward has already gone through: call detach() to go on with its "
                "value, or reset() to start anew."
            )
