"""Adamax, NAdam and RAdam."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar

from grilly_core.ops.optim import adamax_step, nadam_step, radam_step
from grilly_core.optim.choices import check_choices
from grilly_core.optim.optimizer import Group
from grilly_core.optim.stepped import Stepped, check_betas, check_not_negative
from grilly_core.tensor import Tensor

__all__ = ["Adamax", "NAdam", "RAdam"]


class Adamax(Stepped):
    """Adam with the infinity norm in place of the second moment (Kingma and Ba 2015, section 7).

    ``m = β₁m + (1−β₁)g``, ``u = max(β₂u, |g| + ε)``, ``p −= lr m / ((1 − β₁ᵗ) u)``.

    Parameters
    ----------
    params : iterable of Tensor, or of dict
    lr : float
    betas : (float, float)
        Shares of the old first moment and of the norm that are kept.
    eps : float
        Added to the gradient's absolute value.
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
    >>> opt = grilly.optim.Adamax([p], lr=0.1)
    >>> (p * 3.0).sum().backward()
    >>> opt.step()
    >>> round(p.item(), 4)
    0.9
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        check_choices(foreach, capturable=capturable, differentiable=differentiable)
        defaults = {
            "lr": lr, "betas": tuple(betas), "eps": eps, "weight_decay": weight_decay, "maximize": maximize,
        }  # fmt: skip
        super().__init__(params, defaults)

    def _check_group(self, group: Group) -> None:
        super()._check_group(group)
        check_betas(group)
        check_not_negative(group, "eps")

    def _slots(self, group: Group) -> tuple[str, ...]:
        return ("exp_avg", "exp_inf")

    def _move(
        self,
        group: Group,
        params: list[Tensor],
        grads: list[Tensor],
        slots: list[list[Tensor]],
        shared: dict[str, Tensor],
        lr: Tensor,
    ) -> None:
        (first, second), (beta1, beta2) = slots, group["betas"]
        moved = adamax_step(
            params, grads, first, second, lr, shared["step"], self._skip, beta1=beta1, beta2=beta2, eps=group["eps"],
            weight_decay=group["weight_decay"], maximize=group["maximize"],
        )  # fmt: skip
        self._assign(params, slots, moved)


class NAdam(Stepped):
    """Adam with Nesterov's momentum (Dozat 2016), whose momentum ``μₜ = β₁(1 − ½·0.96^(t·momentum_decay))`` grows.

    ``p −= lr ((1−μₜ)/(1−Πμ) g + μₜ₊₁/(1−Πμ·μₜ₊₁) m) / (√v̂ + ε)``.

    Parameters
    ----------
    params : iterable of Tensor, or of dict
    lr : float
    betas : (float, float)
        Shares of the old first and second moment that are kept.
    eps : float
        Added to the root of the second moment.
    weight_decay : float
        Multiple of the parameter that is added to its gradient.
    momentum_decay : float
        How fast the momentum grows to its end.
    decoupled_weight_decay : bool
        Take the decay off the parameter instead, as `AdamW` does.
    maximize : bool
        Climb instead.
    foreach, capturable, differentiable : bool
        See `choices`: the first two change nothing, the last is refused.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> p = grilly.nn.Parameter(grilly.tensor([1.0]))
    >>> opt = grilly.optim.NAdam([p], lr=0.1)
    >>> (p * 3.0).sum().backward()
    >>> opt.step()
    >>> round(p.item(), 4)
    0.8944
    """

    _shared: ClassVar[dict[str, float]] = {"step": 0.0, "mu_product": 1.0}

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        momentum_decay: float = 4e-3,
        decoupled_weight_decay: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_choices(foreach, capturable=capturable, differentiable=differentiable)
        defaults = {
            "lr": lr, "betas": tuple(betas), "eps": eps, "weight_decay": weight_decay, "momentum_decay": momentum_decay,
            "decoupled_weight_decay": decoupled_weight_decay, "maximize": maximize,
        }  # fmt: skip
        super().__init__(params, defaults)

    def _check_group(self, group: Group) -> None:
        super()._check_group(group)
        check_betas(group)
        check_not_negative(group, "eps", "momentum_decay")

    def _slots(self, group: Group) -> tuple[str, ...]:
        return ("exp_avg", "exp_avg_sq")

    def _move(
        self,
        group: Group,
        params: list[Tensor],
        grads: list[Tensor],
        slots: list[list[Tensor]],
        shared: dict[str, Tensor],
        lr: Tensor,
    ) -> None:
        (first, second), (beta1, beta2) = slots, group["betas"]
        *moved, product = nadam_step(
            params, grads, first, second, shared["mu_product"], lr, shared["step"], self._skip, beta1=beta1,
            beta2=beta2, eps=group["eps"], weight_decay=group["weight_decay"], momentum_decay=group["momentum_decay"],
            decoupled=group["decoupled_weight_decay"], maximize=group["maximize"],
        )  # fmt: skip
        self._assign(params, slots, moved)
        shared["mu_product"]._value = product._value


class RAdam(Stepped):
    """Adam whose adaptive rate waits until its variance is known (Liu et al. 2020).

    While ``ρₜ = ρ∞ − 2tβ₂ᵗ/(1−β₂ᵗ)`` is at most 5, the step is ``lr m̂``; afterwards it is Adam's times
    ``√((ρₜ−4)(ρₜ−2)ρ∞ / ((ρ∞−4)(ρ∞−2)ρₜ))``, where ``ρ∞ = 2/(1−β₂) − 1``.

    Parameters
    ----------
    params : iterable of Tensor, or of dict
    lr : float
    betas : (float, float)
        Shares of the old first and second moment that are kept.
    eps : float
        Added to the root of the second moment.
    weight_decay : float
        Multiple of the parameter that is added to its gradient.
    decoupled_weight_decay : bool
        Take the decay off the parameter instead, as `AdamW` does.
    maximize : bool
        Climb instead.
    foreach, capturable, differentiable : bool
        See `choices`: the first two change nothing, the last is refused.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> p = grilly.nn.Parameter(grilly.tensor([1.0]))
    >>> opt = grilly.optim.RAdam([p], lr=0.1)
    >>> (p * 3.0).sum().backward()
    >>> opt.step()
    >>> round(p.item(), 4)
    0.7
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        decoupled_weight_decay: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_choices(foreach, capturable=capturable, differentiable=differentiable)
        defaults = {
            "lr": lr, "betas": tuple(betas), "eps": eps, "weight_decay": weight_decay,
            "decoupled_weight_decay": decoupled_weight_decay, "maximize": maximize,
        }  # fmt: skip
        super().__init__(params, defaults)

    def _check_group(self, group: Group) -> None:
        super()._check_group(group)
        check_betas(group)
        check_not_negative(group, "eps")

    def _slots(self, group: Group) -> tuple[str, ...]:
        return ("exp_avg", "exp_avg_sq")

    def _move(
        self,
        group: Group,
        params: list[Tensor],
        grads: list[Tensor],
        slots: list[list[Tensor]],
        shared: dict[str, Tensor],
        lr: Tensor,
    ) -> None:
        (first, second), (beta1, beta2) = slots, group["betas"]
        moved = radam_step(
            params, grads, first, second, lr, shared["step"], self._skip, beta1=beta1, beta2=beta2, eps=group["eps"],
            weight_decay=group["weight_decay"], decoupled=group["decoupled_weight_decay"],
            maximize=group["maximize"],
        )  # fmt: skip
        self._assign(params, slots, moved)
