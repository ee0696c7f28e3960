"""Averaged stochastic gradient descent."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar

from grilly_core.ops.optim import asgd_step
from grilly_core.optim.choices import check_choices
from grilly_core.optim.optimizer import Group
from grilly_core.optim.stepped import Stepped, check_not_negative
from grilly_core.tensor import Tensor

__all__ = ["ASGD"]


class ASGD(Stepped):
    """Stochastic gradient descent that also keeps the average of the parameters (Polyak and Juditsky 1992).

    ``p = p(1 − λη) − ηg`` with ``η = lr / (1 + λ lr t)^α``; from step `t0` on ``state[p]["ax"]`` is the mean of p.

    Parameters
    ----------
    params : iterable of Tensor, or of dict
    lr : float
    lambd : float
        Decay of the parameters, and of the rate.
    alpha : float
        Power of the rate's decay.
    t0 : float
        The step at which averaging begins; before, the average is the parameter.
    weight_decay : float
        Multiple of the parameter that is added to its gradient.
    foreach, capturable, differentiable : bool
        See `choices`: the first two change nothing, the last is refused.
    maximize : bool
        Climb instead.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> p = grilly.nn.Parameter(grilly.tensor([1.0]))
    >>> opt = grilly.optim.ASGD([p], lr=0.1, lambd=0.0)
    >>> (p * 3.0).sum().backward()
    >>> opt.step()
    >>> round(p.item(), 4), round(opt.state[p]["ax"].item(), 4)
    (0.7, 0.7)
    """

    _shared: ClassVar[dict[str, float]] = {"step": 0.0, "eta": 0.0, "mu": 1.0}

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-2,
        lambd: float = 1e-4,
        alpha: float = 0.75,
        t0: float = 1e6,
        weight_decay: float = 0.0,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        check_choices(foreach, capturable=capturable, differentiable=differentiable)
        defaults = {
            "lr": lr, "lambd": lambd, "alpha": alpha, "t0": t0, "weight_decay": weight_decay, "maximize": maximize,
        }  # fmt: skip
        super().__init__(params, defaults)

    def _check_group(self, group: Group) -> None:
        super()._check_group(group)
        check_not_negative(group, "lambd", "t0")

    def _slots(self, group: Group) -> tuple[str, ...]:
        return ("ax",)

    def _start(self, name: str, group: Group) -> float:
        return float(group["lr"]) if name == "eta" else super()._start(name, group)

    def _move(
        self,
        group: Group,
        params: list[Tensor],
        grads: list[Tensor],
        slots: list[list[Tensor]],
        shared: dict[str, Tensor],
        lr: Tensor,
    ) -> None:
        *moved, eta, mu = asgd_step(
            params, grads, slots[0], shared["eta"], shared["mu"], lr, shared["step"], self._skip,
            lambd=group["lambd"], alpha=group["alpha"], t0=group["t0"], weight_decay=group["weight_decay"],
            maximize=group["maximize"],
        )  # fmt: skip
        self._assign(params, slots, moved)
        shared["eta"]._value, shared["mu"]._value = eta._value, mu._value
