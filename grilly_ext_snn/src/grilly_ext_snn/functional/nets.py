"""What is done to every node of a network at once."""

from __future__ import annotations

from grilly_core.nn import Module
from grilly_ext_snn.nn.base_node import BaseNode
from grilly_ext_snn.nn.memory import MemoryModule

__all__ = ["detach_net", "reset_net", "set_step_mode"]


def reset_net(net: Module) -> None:
    """Forget the state of every module with memories.

    Examples
    --------
    >>> import grilly
    >>> from grilly_ext_snn.functional.nets import reset_net
    >>> from grilly_ext_snn.nn.nodes import IFNode
    >>> net = grilly.nn.Sequential(IFNode())
    >>> _ = net(grilly.ones((2, 3)))
    >>> reset_net(net)
    >>> net[0].v is None
    True
    """
    for module in net.modules():
        if isinstance(module, MemoryModule):
            module.reset()


def detach_net(net: Module) -> None:
    """Keep the state of every module with memories, cut off its history (truncated backpropagation through time)."""
    for module in net.modules():
        if isinstance(module, MemoryModule):
            module.detach()


def set_step_mode(net: Module, step_mode: str) -> None:
    """Let every node take one step a call, ``"s"``, or a sequence, ``"m"``."""
    for module in net.modules():
        if isinstance(module, BaseNode):
            module.step_mode = step_mode
