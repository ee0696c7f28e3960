"""Adam and AdamW."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from grilly_core.ops.optim import adam_step
from grilly_core.optim.choices import check_choices
from grilly_core.optim.optimizer import Group
from grilly_core.optim.stepped import Stepped, check_betas, check_not_negative
from grilly_core.tensor import Tensor

__all__ = ["Adam", "AdamW"]


class Adam(Stepped):
    """Adam (Kingma and Ba 2015), with L2 decay in the gradient.

    Parameters
    ----------
    params : iterable of Tensor, or of dict
    lr : float
    betas : (float, float)
        Shares of the old first and second moment that are kept.
    eps : float
        Added to the root of the second moment.
    weight_decay : float
        Multiple of the parameter that is added to its gradient; see `AdamW` for the decoupled form.
    amsgrad : bool
        Divide by the largest second moment so far (Reddi et al. 2018).
    maximize : bool
        Climb instead.
    foreach, fused, capturable, differentiable : bool
        See `choices`: the first three change nothing, the last is refused.
    decoupled_weight_decay : bool
        Take the decay off the parameter instead, as `AdamW` does.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> p = grilly.nn.Parameter(grilly.tensor([1.0]))
    >>> opt = grilly.optim.Adam([p], lr=0.1)
    >>> (p * 3.0).sum().backward()
    >>> opt.step()
    >>> round(p.item(), 4)
    0.9
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        amsgrad: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
        decoupled_weight_decay: bool = False,
    ) -> None:
        check_choices(foreach, fused, capturable, differentiable)
        defaults = {
            "lr": lr, "betas": tuple(betas), "eps": eps, "weight_decay": weight_decay, "amsgrad": amsgrad,
            "maximize": maximize, "decoupled_weight_decay": decoupled_weight_decay,
        }  # fmt: skip
        super().__init__(params, defaults)

    def _check_group(self, group: Group) -> None:
        super()._check_group(group)
        check_betas(group)
        check_not_negative(group, "eps")

    def _slots(self, group: Group) -> tuple[str, ...]:
        return ("exp_avg", "exp_avg_sq", "max_exp_avg_sq") if group["amsgrad"] else ("exp_avg", "exp_avg_sq")

    def _move(
        self,
        group: Group,
        params: list[Tensor],
        grads: list[Tensor],
        slots: list[list[Tensor]],
        shared: dict[str, Tensor],
        lr: Tensor,
    ) -> None:
        ms, vs, *tops = slots
        beta1, beta2 = group["betas"]
        moved = adam_step(
            params, grads, ms, vs, tops[0] if tops else None, lr, shared["step"], self._skip, beta1=beta1, beta2=beta2,
            eps=group["eps"], weight_decay=group["weight_decay"], decoupled=group["decoupled_weight_decay"],
            maximize=group["maximize"],
        )  # fmt: skip
        self._assign(params, slots, moved)


class AdamW(Adam):
    """Adam with decoupled weight decay (Loshchilov and Hutter 2019).

    Parameters
    ----------
    params : iterable of Tensor, or of dict
    lr : float
    betas : (float, float)
    eps : float
    weight_decay : float
        Share of the parameter that is taken off per step, times the learning rate.
    amsgrad : bool
    maximize : bool
    foreach, fused, capturable, differentiable : bool
        See `choices`: the first three change nothing, the last is refused.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> model = grilly.nn.Linear(2, 1)
    >>> opt = grilly.optim.AdamW(model.parameters(), lr=0.01)
    >>> model(grilly.ones((1, 2))).sum().backward()
    >>> opt.step()
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        amsgrad: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        super().__init__(
            params, lr, betas, eps, weight_decay, amsgrad, foreach=foreach, maximize=maximize, capturable=capturable,
            differentiable=differentiable, fused=fused, decoupled_weight_decay=True,
        )  # fmt: skip
