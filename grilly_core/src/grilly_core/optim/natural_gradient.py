"""Natural gradient descent."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from grilly_core.ops.optim import fisher_step
from grilly_core.optim.optimizer import Group
from grilly_core.optim.stepped import Stepped, check_not_negative
from grilly_core.tensor import Tensor

__all__ = ["NaturalGradient"]


class NaturalGradient(Stepped):
    """Descend along the natural gradient of a diagonal empirical Fisher matrix (Amari 1998; Martens 2020).

    ``F = mF + (1−m)g²``, ``p −= lr g / (F/(1−mᵗ) + damping)``: unlike RMSprop it divides by the mean square, not by its
    root, so that the step does not depend on how the model is parametrised.

    Parameters
    ----------
    params : iterable of Tensor, or of dict
    lr : float
    fisher_momentum : float
        Share of the old Fisher diagonal that is kept.
    damping : float
        Added to the diagonal, so that a small one does not give a huge step.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> p = grilly.nn.Parameter(grilly.tensor([1.0]))
    >>> opt = grilly.optim.NaturalGradient([p], lr=0.3, damping=0.0)
    >>> (p * 3.0).sum().backward()
    >>> opt.step()
    >>> round(p.item(), 4)
    0.9
    """

    def __init__(
        self, params: Iterable[Any], lr: float = 1e-3, fisher_momentum: float = 0.9, damping: float = 1e-3
    ) -> None:
        super().__init__(params, {"lr": lr, "fisher_momentum": fisher_momentum, "damping": damping})

    def _check_group(self, group: Group) -> None:
        super()._check_group(group)
        check_not_negative(group, "damping")
        if not 0.0 <= group["fisher_momentum"] < 1.0:
            raise ValueError(
                f"fisher_momentum: expected a number in [0, 1); received {group['fisher_momentum']}."
            )

    def _slots(self, group: Group) -> tuple[str, ...]:
        return ("fisher",)

    def _move(
        self,
        group: Group,
        params: list[Tensor],
        grads: list[Tensor],
        slots: list[list[Tensor]],
        shared: dict[str, Tensor],
        lr: Tensor,
    ) -> None:
        moved = fisher_step(
            params, grads, slots[0], lr, shared["step"], self._skip, momentum=group["fisher_momentum"],
            damping=group["damping"],
        )  # fmt: skip
        self._assign(params, slots, moved)
