"""Stochastic gradient descent."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from grilly_core.ops.optim import sgd_step
from grilly_core.optim.choices import check_choices
from grilly_core.optim.optimizer import Group, Optimizer, assign, zeros_for
from grilly_core.tensor import Tensor

__all__ = ["SGD"]


class SGD(Optimizer):
    """Stochastic gradient descent with momentum.

    Parameters
    ----------
    params : iterable of Tensor, or of dict
    lr : float
    momentum : float
        Share of the last step that is kept.
    dampening : float
        Share of the gradient that does not enter the momentum.
    weight_decay : float
        Multiple of the parameter that is added to its gradient.
    nesterov : bool
        Look ahead along the momentum.
    maximize : bool
        Climb instead.
    foreach, fused, differentiable : bool
        See `choices`: the first two change nothing, the last is refused.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> p = grilly.nn.Parameter(grilly.tensor([1.0]))
    >>> opt = grilly.optim.SGD([p], lr=0.5)
    >>> (p * p).sum().backward()
    >>> opt.step()
    >>> p.tolist()
    [0.0]
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        momentum: float = 0.0,
        dampening: float = 0.0,
        weight_decay: float = 0.0,
        nesterov: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        check_choices(foreach, fused, differentiable=differentiable)
        defaults = {
            "lr": lr, "momentum": momentum, "dampening": dampening, "weight_decay": weight_decay,
            "nesterov": nesterov, "maximize": maximize,
        }  # fmt: skip
        super().__init__(params, defaults)

    def _check_group(self, group: Group) -> None:
        super()._check_group(group)
        if not group["momentum"] >= 0.0:
            raise ValueError(f"momentum: must not be negative; received {group['momentum']}.")
        if group["nesterov"] and (group["momentum"] <= 0 or group["dampening"] != 0):
            raise ValueError("nesterov: needs a positive momentum and no dampening.")

    def _update(self, group: Group, params: list[Tensor], grads: list[Tensor], lr: Tensor) -> None:
        settings = {k: group[k] for k in ("momentum", "dampening", "nesterov", "weight_decay", "maximize")}
        if not group["momentum"]:
            assign(params, sgd_step(params, grads, None, lr, self._skip, **settings))
            return
        for first in (True, False):  # parameters that move for the first time start their momentum
            chosen = [i for i, p in enumerate(params) if (p not in self.state) == first]
            if chosen:
                moved = [params[i] for i in chosen]
                self._update_with_momentum(moved, [grads[i] for i in chosen], lr, first, settings)
                if len(chosen) == len(params):
                    return

    def _update_with_momentum(
        self, params: list[Tensor], grads: list[Tensor], lr: Tensor, first: bool, settings: dict[str, Any]
    ) -> None:
        if first:
            for p, m in zip(params, zeros_for(params), strict=True):
                self.state[p] = {"momentum_buffer": m}
        momenta = [self.state[p]["momentum_buffer"] for p in params]
        assign([*params, *momenta], sgd_step(params, grads, momenta, lr, self._skip, first=first, **settings))

    def _takes_skip(self) -> bool:
        """Not at a first step with dampening: if skipped it leaves momenta of 0, which are not the same as none."""
        if all(not g["momentum"] or not g["dampening"] for g in self.param_groups):
            return True
        return all(p in self.state for p in self._parameters())
