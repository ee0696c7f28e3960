"""What is done to every node of a network at once."""

from __future__ import annotations

from grilly_core.nn import Module
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
    """Let every module with steps take one a call, ``"s"``, or a sequence, ``"m"``.

    What lies inside a container that goes through the steps itself, such as `MultiStepContainer`, stays as it is.

    Examples
    --------
    >>> import grilly
    >>> from grilly_ext_snn.functional.nets import set_step_mode
    >>> from grilly_ext_snn.nn.nodes import IFNode
    >>> net = grilly.nn.Sequential(IFNode())
    >>> set_step_mode(net, "m")
    >>> net[0].step_mode
    'm'
    """
    if step_mode not in ("s", "m"):
        raise ValueError(f"set_step_mode: step_mode is 's' (one step) or 'm' (many); received {step_mode!r}.")
    if hasattr(net, "step_mode"):
        net.step_mode = step_mode
    if not getattr(net, "steps_inside", False):
        for child in net.children():
            set_step_mode(child, step_mode)
