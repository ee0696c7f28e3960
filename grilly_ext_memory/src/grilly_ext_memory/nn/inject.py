"""Modules over the functions that pool, aggregate and inject memory."""

from __future__ import annotations

from typing import Any

from grilly_core.nn import Linear, Module
from grilly_core.tensor import Tensor
from grilly_ext_memory.functional import recall

__all__ = [
    "MemoryContextAggregate", "MemoryInjectConcat", "MemoryInjectGate", "MemoryInjectResidual", "MemoryQueryPooling",
]  # fmt: skip


class MemoryContextAggregate(Module):
    """Weigh contexts ``(B, M, D)`` by a learnt score of each, or evenly.

    Parameters
    ----------
    dim : int
    scored : bool
        Whether to learn the scores, by a linear map of each context.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> from grilly_ext_memory.nn.inject import MemoryContextAggregate
    >>> MemoryContextAggregate(3)(grilly.ones((2, 5, 3))).shape
    (2, 3)
    """

    def __init__(self, dim: int, *, scored: bool = False) -> None:
        super().__init__()
        self.dim = dim
        self.score = Linear(dim, 1) if scored else None

    def forward(self, memory_contexts: Any, scores: Any = None, mask: Any = None) -> Tensor:
        """Return one context ``(B, D)``; scores that are given count instead of the learnt ones."""
        if scores is None and self.score is not None:
            scores = self.score(memory_contexts).squeeze(-1)
        return recall.memory_context_aggregate(memory_contexts, scores, mask)


class MemoryQueryPooling(Module):
    """A query ``(B, out_dim)`` of a sequence ``(B, S, in_dim)``: the mean, then linear.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> from grilly_ext_memory.nn.inject import MemoryQueryPooling
    >>> MemoryQueryPooling(3, 4)(grilly.ones((2, 5, 3))).shape
    (2, 4)
    """

    def __init__(self, in_dim: int, out_dim: int, bias: bool = True) -> None:
        super().__init__()
        self.proj = Linear(in_dim, out_dim, bias)

    def forward(self, x: Any, mask: Any = None) -> Tensor:
        """Pool the steps where `mask` ``(B, S)`` is True."""
        return recall.memory_query_pooling(x, self.proj.weight, self.proj.bias, mask)


class MemoryInjectConcat(Module):
    """A linear map of ``[x; memory]``.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> from grilly_ext_memory.nn.inject import MemoryInjectConcat
    >>> MemoryInjectConcat(3)(grilly.ones((2, 5, 3)), grilly.ones((2, 3))).shape
    (2, 5, 3)
    """

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.proj = Linear(2 * dim, dim)

    def forward(self, x: Any, memory_context: Any) -> Tensor:
        """Inject a context ``(B, D)`` into ``(B, D)`` or ``(B, S, D)``."""
        return recall.memory_inject_concat(x, memory_context, self.proj.weight, self.proj.bias)


class MemoryInjectGate(Module):
    """A learnt gate between the input and the projected memory; see `memory_inject_gate`.

    Parameters
    ----------
    dim : int
    mode : {"blend", "additive"}
    gate_input : {"mem", "proj"}

    Examples
    --------
    >>> import grilly_core as grilly
    >>> from grilly_ext_memory.nn.inject import MemoryInjectGate
    >>> MemoryInjectGate(3)(grilly.ones((2, 5, 3)), grilly.ones((2, 3))).shape
    (2, 5, 3)
    """

    def __init__(self, dim: int, *, mode: str = "blend", gate_input: str = "mem") -> None:
        super().__init__()
        self.gate, self.mem_proj = Linear(2 * dim, dim), Linear(dim, dim, bias=False)
        self.mode, self.gate_input = mode, gate_input

    def forward(self, x: Any, memory_context: Any) -> Tensor:
        """Inject a context ``(B, D)`` into ``(B, D)`` or ``(B, S, D)``."""
        return recall.memory_inject_gate(
            x, memory_context, self.gate.weight, self.gate.bias, self.mem_proj.weight, mode=self.mode,
            gate_input=self.gate_input,
        )  # fmt: skip


class MemoryInjectResidual(Module):
    """``x + strength (memory W^T + b)``; see `memory_inject_residual`.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> from grilly_ext_memory.nn.inject import MemoryInjectResidual
    >>> MemoryInjectResidual(3, where="last")(grilly.ones((2, 5, 3)), grilly.ones((2, 3))).shape
    (2, 5, 3)
    """

    def __init__(self, dim: int, *, strength: float = 1.0, where: str = "all") -> None:
        super().__init__()
        self.mem_proj = Linear(dim, dim)
        self.strength, self.where = strength, where

    def forward(self, x: Any, memory_context: Any) -> Tensor:
        """Inject a context ``(B, D)`` into ``(B, D)`` or ``(B, S, D)``."""
        return recall.memory_inject_residual(
            x,
            memory_context,
            self.mem_proj.weight,
            self.mem_proj.bias,
            strength=self.strength,
            where=self.where,
        )
