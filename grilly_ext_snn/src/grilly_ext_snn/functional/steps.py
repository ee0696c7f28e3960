"""Steps and sequences as functions: one step of a neuron, a module over time, a sequence through a stateless module."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import grilly_core as grilly
from grilly_core.nn import Module
from grilly_core.tensor import Tensor
from grilly_ext_snn.functional._arguments import tensor, timed
from grilly_ext_snn.nn.memory import MemoryModule
from grilly_ext_snn.nn.nodes import IFNode, LIFNode
from grilly_ext_snn.nn.surrogates import Surrogate

__all__ = ["if_step", "lif_step", "multi_step_forward", "seq_to_ann_forward"]


def _stepped(node: IFNode | LIFNode, x: Any, v: Any) -> tuple[Tensor, Tensor]:
    now = tensor(x)
    node.v = grilly.broadcast_to(tensor(v, now), now.shape)
    return node(now), node.v


def lif_step(
    x: Any, v: Any, tau: float = 2.0, v_threshold: float = 1.0, v_reset: float | None = 0.0,
    surrogate_fn: Surrogate | None = None, *, decay_input: bool = False,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Take one step of `LIFNode` from the membrane `v`; return the spikes and the new membrane.

    Parameters
    ----------
    x : array_like
    v : array_like
        Of the shape of `x`, or a number.
    tau, v_threshold, v_reset, surrogate_fn, decay_input
        See `LIFNode`.

    Examples
    --------
    >>> from grilly_ext_snn.functional.steps import lif_step
    >>> spike, v = lif_step([0.5, 0.9], [0.2, 0.4])
    >>> spike.tolist(), v.numpy().round(2).tolist()
    ([0.0, 1.0], [0.6000000238418579, 0.0])
    """
    node = LIFNode(tau, decay_input, v_threshold, v_reset, surrogate_fn)
    return _stepped(node, x, v)


def if_step(
    x: Any, v: Any, v_threshold: float = 1.0, v_reset: float | None = 0.0, surrogate_fn: Surrogate | None = None
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Take one step of `IFNode` from the membrane `v`; return the spikes and the new membrane.

    Examples
    --------
    >>> from grilly_ext_snn.functional.steps import if_step
    >>> if_step([0.75], [0.5], v_reset=None)[1].tolist()
    [0.25]
    """
    return _stepped(IFNode(v_threshold, v_reset, surrogate_fn), x, v)


def multi_step_forward(x: Any, module: Callable[[Tensor], Any]) -> Tensor:
    """Call a module, or several one after the other, for every step of ``(T, B, ...)``; return the outputs over time.

    Examples
    --------
    >>> import grilly
    >>> from grilly_ext_snn.functional.steps import multi_step_forward
    >>> from grilly_ext_snn.nn.nodes import IFNode
    >>> multi_step_forward(grilly.full((4, 1), 0.5), IFNode())[:, 0].tolist()
    [0.0, 1.0, 0.0, 1.0]
    """
    made = timed("multi_step_forward", x)
    result: Tensor = grilly.stack([_through(step, module) for step in made])
    return result


def seq_to_ann_forward(x: Any, module: Callable[[Tensor], Any]) -> Tensor:
    """Send all steps of ``(T, B, ...)`` through a module without state as one batch ``(T B, ...)``.

    Raises
    ------
    ValueError
        If the module keeps state from step to step.

    Examples
    --------
    >>> import grilly
    >>> from grilly_ext_snn.functional.steps import seq_to_ann_forward
    >>> seq_to_ann_forward(grilly.ones((4, 2, 1, 8, 8)), grilly.nn.Conv2d(1, 3, 3)).shape
    (4, 2, 3, 6, 6)
    """
    made = timed("seq_to_ann_forward", x)
    for m in module if isinstance(module, list | tuple) else [module]:
        if isinstance(m, Module):
            refuse_state("seq_to_ann_forward", m)
    t, b = made.shape[:2]
    y = _through(made.reshape(t * b, *made.shape[2:]), module)
    return y.reshape(t, b, *y.shape[1:])


def refuse_state(who: str, module: Module) -> None:
    """Raise if a module has memories, which steps taken as one batch would mix up."""
    for name, found in module.named_modules():
        if isinstance(found, MemoryModule):
            raise ValueError(
                f"{who}: {name or type(found).__name__} ({type(found).__name__}) keeps state from step to step, so "
                "steps cannot be taken as one batch; put it outside, with step_mode 'm'."
            )


def _through(x: Tensor, module: Any) -> Tensor:
    for m in module if isinstance(module, list | tuple) else [module]:
        x = m(x)
    return x
