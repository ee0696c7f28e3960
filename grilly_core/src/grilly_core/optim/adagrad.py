"""Adagrad and Adadelta."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from grilly_core.ops.creation import full_like
from grilly_core.ops.optim import adadelta_step, adagrad_step
from grilly_core.optim.choices import check_choices
from grilly_core.optim.optimizer import Group
from grilly_core.optim.stepped import Stepped, check_not_negative
from grilly_core.tensor import Tensor

__all__ = ["Adadelta", "Adagrad"]


class Adagrad(Stepped):
    """Divide by the root of the sum of all squared gradients (Duchi, Hazan and Singer 2011).

    ``s += g²``, ``p −= lr / (1 + (t−1) lr_decay) · g / (√s + ε)``.

    Parameters
    ----------
    params : iterable of Tensor, or of dict
    lr : float
    lr_decay : float
        How fast the learning rate falls.
    weight_decay : float
        Multiple of the parameter that is added to its gradient.
    initial_accumulator_value : float
        Where the sums start.
    eps : float
        Added to the root of the sum.
    maximize : bool
        Climb instead.
    foreach, fused, differentiable : bool
        See `choices`: the first two change nothing, the last is refused.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> p = grilly.nn.Parameter(grilly.tensor([1.0]))
    >>> opt = grilly.optim.Adagrad([p], lr=0.1)
    >>> (p * 3.0).sum().backward()
    >>> opt.step()
    >>> round(p.item(), 4)
    0.9
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-2,
        lr_decay: float = 0.0,
        weight_decay: float = 0.0,
        initial_accumulator_value: float = 0.0,
        eps: float = 1e-10,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        check_choices(foreach, fused, differentiable=differentiable)
        defaults = {
            "lr": lr, "lr_decay": lr_decay, "eps": eps, "weight_decay": weight_decay,
            "initial_accumulator_value": initial_accumulator_value, "maximize": maximize,
        }  # fmt: skip
        super().__init__(params, defaults)

    def _check_group(self, group: Group) -> None:
        super()._check_group(group)
        check_not_negative(group, "lr_decay", "eps", "initial_accumulator_value")

    def _slots(self, group: Group) -> tuple[str, ...]:
        return ("sum",)

    def _filled(self, name: str, params: list[Tensor], group: Group) -> list[Tensor]:
        return [full_like(p, group["initial_accumulator_value"]) for p in params]

    def _move(
        self,
        group: Group,
        params: list[Tensor],
        grads: list[Tensor],
        slots: list[list[Tensor]],
        shared: dict[str, Tensor],
        lr: Tensor,
    ) -> None:
        moved = adagrad_step(
            params, grads, slots[0], lr, shared["step"], self._skip, lr_decay=group["lr_decay"], eps=group["eps"],
            weight_decay=group["weight_decay"], maximize=group["maximize"],
        )  # fmt: skip
        self._assign(params, slots, moved)


class Adadelta(Stepped):
    """Scale by the root mean square of the last steps over that of the gradients (Zeiler 2012).

    ``v = ρv + (1−ρ)g²``, ``Δ = √(a+ε)/√(v+ε) · g``, ``a = ρa + (1−ρ)Δ²``, ``p −= lr Δ``.

    Parameters
    ----------
    params : iterable of Tensor, or of dict
    lr : float
    rho : float
        Share of the old means that is kept.
    eps : float
        Added to both means below their roots.
    weight_decay : float
        Multiple of the parameter that is added to its gradient.
    maximize : bool
        Climb instead.
    foreach, capturable, differentiable : bool
        See `choices`: the first two change nothing, the last is refused.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> p = grilly.nn.Parameter(grilly.tensor([1.0]))
    >>> opt = grilly.optim.Adadelta([p], lr=1.0, eps=0.01)
    >>> (p * 3.0).sum().backward()
    >>> opt.step()
    >>> round(p.item(), 4)
    0.6855
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1.0,
        rho: float = 0.9,
        eps: float = 1e-6,
        weight_decay: float = 0.0,
        foreach: bool | None = None,
        *,
        capturable: bool = False,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_choices(foreach, capturable=capturable, differentiable=differentiable)
        defaults = {"lr": lr, "rho": rho, "eps": eps, "weight_decay": weight_decay, "maximize": maximize}
        super().__init__(params, defaults)

    def _check_group(self, group: Group) -> None:
        super()._check_group(group)
        check_not_negative(group, "eps")
        if not 0.0 <= group["rho"] <= 1.0:
            raise ValueError(f"rho: expected a number from 0 to 1; received {group['rho']}.")

    def _slots(self, group: Group) -> tuple[str, ...]:
        return ("square_avg", "acc_delta")

    def _move(
        self,
        group: Group,
        params: list[Tensor],
        grads: list[Tensor],
        slots: list[list[Tensor]],
        shared: dict[str, Tensor],
        lr: Tensor,
    ) -> None:
        moved = adadelta_step(
            params, grads, slots[0], slots[1], lr, self._skip, rho=group["rho"], eps=group["eps"],
            weight_decay=group["weight_decay"], maximize=group["maximize"],
        )  # fmt: skip
        self._assign(params, slots, moved)
