"""A router: which experts see a row, by how similar it is to a vector of each."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

import grilly_core as grilly
from grilly_core.apply import as_tensor
from grilly_core.errors import ShapeError
from grilly_core.nn import Module, Parameter
from grilly_core.nn.linear import positive
from grilly_core.random import Generator
from grilly_core.tensor import Tensor
from grilly_ext_memory.functional.routing import load_balance_loss, router_z_loss

__all__ = ["ExpertRouter", "Routing"]

_SIMILARITY: Final = ("dot", "cosine")


class Routing(NamedTuple):
    """Where rows go.

    Attributes
    ----------
    experts : Tensor of int32, (B, k)
        The most probable experts, best first; of equals the lower one.
    gates : Tensor, (B, k)
        What each expert's answer is multiplied by; 0 where it had no room.
    kept : Tensor of bool, (B, k)
        Whether the expert had room.
    probabilities : Tensor, (B, E)
    balance_loss, z_loss : Tensor, ()
        See `load_balance_loss` and `router_z_loss`; a network's loss takes small multiples of them.
    """

    experts: Tensor
    gates: Tensor
    kept: Tensor
    probabilities: Tensor
    balance_loss: Tensor
    z_loss: Tensor


class ExpertRouter(Module):
    """Choose the k experts whose vectors are most similar to a row, with gates by softmax.

    Probabilities are ``softmax(similarity / temperature)`` over all experts; the gates are those of the chosen ones
    (Switch Transformer, Fedus et al. 2022), so they have gradients with one expert too.

    Parameters
    ----------
    dim : int
    num_experts : int
    top_k : int
    temperature : float
    similarity : {"dot", "cosine"}
    capacity_factor : float, optional
        An expert takes at most ``ceil(capacity_factor B top_k / num_experts)`` rows of a batch: first choices come
        before second ones, then the order of the rows counts. Without it, there is room for all.
    renormalize : bool
        Whether the gates of a row sum to 1 before capacities (Shazeer et al. 2017). Not with one expert, whose gate
        would be 1 and have no gradient.
    rng : Generator, optional

    Attributes
    ----------
    weight : Parameter, (num_experts, dim)
        The experts' vectors.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> from grilly_ext_memory.nn.routing import ExpertRouter
    >>> router = ExpertRouter(2, 2)
    >>> _ = router.load_state_dict({"weight": grilly.tensor([[1.0, 0.0], [0.0, 1.0]])})
    >>> router(grilly.tensor([[3.0, 0.0], [0.0, 3.0]])).experts.tolist()
    [[0], [1]]
    """

    weight: Parameter

    def __init__(
        self, dim: int, num_experts: int, top_k: int = 1, *, temperature: float = 1.0, similarity: str = "dot",
        capacity_factor: float | None = None, renormalize: bool = False, rng: Generator | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        positive(dim=dim, num_experts=num_experts, top_k=top_k)
        if top_k > num_experts:
            raise ValueError(f"ExpertRouter: top_k is at most num_experts = {num_experts}; received {top_k}.")
        if similarity not in _SIMILARITY:
            raise ValueError(
                f"ExpertRouter: similarity is one of {', '.join(_SIMILARITY)}; received {similarity!r}."
            )
        for name, value in (("temperature", temperature), ("capacity_factor", capacity_factor)):
            if value is not None and not 0 < value < math.inf:
                raise ValueError(f"ExpertRouter: {name} must be positive and finite; received {value!r}.")
        if renormalize and top_k == 1:
            raise ValueError(
                "ExpertRouter: renormalize needs top_k of 2 or more; one gate would always be 1."
            )
        self.dim, self.num_experts, self.top_k, self.temperature = dim, num_experts, top_k, float(temperature)
        self.similarity, self.capacity_factor, self.renormalize = similarity, capacity_factor, renormalize
        self.weight = Parameter(grilly.randn((num_experts, dim), rng=rng) / math.sqrt(dim))

    def logits(self, x: Any) -> Tensor:
        """Return the similarities over the temperature ``(B, E)`` of rows ``(B, D)``."""
        rows = as_tensor(x, self.weight)
        weight: Tensor = self.weight
        if rows.ndim != 2 or rows.shape[1] != self.dim:
            raise ShapeError(f"ExpertRouter: expected rows (B, {self.dim}); received {tuple(rows.shape)}.")
        if self.similarity == "cosine":
            rows, weight = (grilly.functional.normalize(t, dim=1) for t in (rows, weight))
        made: Tensor = (rows @ weight.T) / self.temperature
        return made

    def capacity(self, rows: int) -> int:
        """Return how many rows of a batch each expert takes."""
        if self.capacity_factor is None:
            return rows
        return min(rows, math.ceil(self.capacity_factor * rows * self.top_k / self.num_experts))

    def forward(self, x: Any) -> Routing:
        """Route rows ``(B, D)``."""
        logits = self.logits(x)
        probabilities = logits.softmax(-1)
        experts = probabilities.detach().topk(self.top_k)[1]
        gates = probabilities.gather(1, experts)
        if self.renormalize:
            gates = gates / gates.sum(1, keepdim=True)
        kept = self._kept(experts)
        return Routing(
            experts, grilly.where(kept, gates, 0.0), kept, probabilities, load_balance_loss(probabilities, experts),
            router_z_loss(logits),
        )  # fmt: skip

    def _kept(self, experts: Tensor) -> Tensor:
        """Return which choices ``(B, k)`` an expert has room for."""
        rows, k = experts.shape
        if self.capacity_factor is None:
            return grilly.ones((rows, k), dtype="bool", device=experts.device)
        queue = experts.T.reshape(-1, 1)  # all first choices, then all second ones
        mine = queue == grilly.arange(self.num_experts, dtype=experts.dtype, device=experts.device)
        place = grilly.where(mine, mine.to("int32").cumsum(0), 0).sum(1)
        return (place <= self.capacity(rows)).reshape(k, rows).T

    def combine(
        self, x: Any, experts: Sequence[Callable[[Tensor], Tensor]], routing: Routing | None = None
    ) -> Tensor:
        """Return the sum of gate times answer, each expert asked only about the rows that it gets.

        Parameters
        ----------
        x : array_like, (B, D)
        experts : sequence of callable
            Each from ``(n, D)`` to ``(n, O)``. One that gets no row is not called, unless none gets any.
        routing : Routing, optional
            Of these rows, if it is known already.

        Returns
        -------
        Tensor, (B, O)
            A row without any expert is 0.
        """
        if len(experts) != self.num_experts:
            raise ValueError(f"ExpertRouter: expected {self.num_experts} experts; received {len(experts)}.")
        rows = as_tensor(x, self.weight)
        found = self(rows) if routing is None else routing
        if tuple(found.experts.shape) != (rows.shape[0], self.top_k):
            raise ShapeError(
                f"ExpertRouter: the routing is for {tuple(found.experts.shape)} choices; received "
                f"{rows.shape[0]} rows with top_k = {self.top_k}."
            )
        chosen = np.where(found.kept.numpy(), found.experts.numpy(), -1)
        total: Tensor | None = None
        for number, expert in enumerate(experts):
            at, rank = np.nonzero(chosen == number)
            if len(at):
                places, gates = _picked(rows, found.gates, at, rank)
                answer = expert(rows.index_select(0, places)) * gates
                total = _zeros(answer, rows.shape[0]) if total is None else total
                total = total.index_add(0, places, answer)
        return _zeros(experts[0](rows[:0]), rows.shape[0]) if total is None else total


def _picked(rows: Tensor, gates: Tensor, at: Any, rank: Any) -> tuple[Tensor, Tensor]:
    """Return the numbers of rows ``(n,)`` on their device, and the gates ``(n, 1)`` of one expert."""
    places, flat = (
        grilly.asarray(numbers.astype(np.int32), device=rows.device)
        for numbers in (at, at * gates.shape[1] + rank)
    )
    return places, gates.reshape(-1).index_select(0, flat).unsqueeze(1)


def _zeros(like: Tensor, rows: int) -> Tensor:
    return grilly.zeros((rows, *like.shape[1:]), dtype=like.dtype, device=like.device)
