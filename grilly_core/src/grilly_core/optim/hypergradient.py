"""AdamW that learns its own rate."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from grilly_core.config import no_grad
from grilly_core.ops.optim import hypergradient_rate
from grilly_core.ops.primitives import exp, maximum, minimum, where
from grilly_core.optim.adam import AdamW
from grilly_core.optim.optimizer import Group
from grilly_core.tensor import Tensor

__all__ = ["HypergradientAdamW"]


class HypergradientAdamW(AdamW):
    """AdamW whose learning rate descends its own gradient (Baydin et al. 2018).

    The loss after a step depends on the rate through ``−g·d``, where d is the direction of the step before and g the
    present gradient. So before every step ``lr += β Σ g·d``, or on a logarithmic scale ``lr *= exp(β Σ g·d)``, held in
    ``[lr_min, lr_max]``. The rate lives on the device; `current_lr` reads it. What is written to ``group["lr"]``, by
    hand or by a schedule, replaces it; a state dict holds the learned one.

    Parameters
    ----------
    params : iterable of Tensor, or of dict
    lr : float
        Where the rate starts.
    betas : (float, float)
    eps : float
    weight_decay : float
    amsgrad : bool
    beta_hyper : float
        The rate of the rate.
    lr_min, lr_max : float
    log_scale : bool
    maximize : bool

    Examples
    --------
    >>> import grilly_core as grilly
    >>> p = grilly.nn.Parameter(grilly.tensor([1.0]))
    >>> opt = grilly.optim.HypergradientAdamW([p], lr=0.1, beta_hyper=0.01)
    >>> for _ in range(2):
    ...     opt.zero_grad()
    ...     (p * 3.0).sum().backward()
    ...     opt.step()
    >>> round(opt.current_lr[0], 4)
    0.13
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        amsgrad: bool = False,
        beta_hyper: float = 1e-7,
        lr_min: float = 1e-6,
        lr_max: float = 1.0,
        log_scale: bool = False,
        *,
        maximize: bool = False,
    ) -> None:
        self._hyper = {
            "beta_hyper": beta_hyper, "lr_min": lr_min, "lr_max": lr_max, "log_scale": log_scale,
        }  # fmt: skip
        super().__init__(params, lr, betas, eps, weight_decay, amsgrad, maximize=maximize)

    def add_param_group(self, param_group: Group) -> None:
        """Add a group: a dict with ``"params"`` and, where they differ from the defaults, settings."""
        self.defaults.update(self._hyper)
        super().add_param_group(param_group)

    def _check_group(self, group: Group) -> None:
        super()._check_group(group)
        if not 0.0 <= group["lr_min"] <= group["lr_max"]:
            raise ValueError(
                f"lr_min and lr_max: expected two rates in order; received {group['lr_min']} and {group['lr_max']}."
            )

    @property
    def current_lr(self) -> list[float]:
        """The learning rate of each group, read from the device."""
        return [self._current(i) for i in range(len(self.param_groups))]

    def _current(self, index: int) -> float:
        lr = self.param_groups[index]["lr"]
        for (group, _, _), rate in self._rates.items():
            if group == index and rate.mirror == lr:  # else it was written since the last step
                return float(rate.cell.item())
        return float(lr)

    def _update(self, group: Group, params: list[Tensor], grads: list[Tensor], lr: Tensor) -> None:
        learned = self._learned(group, params, grads, lr)
        if learned is not None:
            kept = learned if self._skip is None else where(self._skip != 0.0, lr, learned)
            lr._value = kept._value
        super()._update(group, params, grads, lr)

    def _learned(self, group: Group, params: list[Tensor], grads: list[Tensor], lr: Tensor) -> Tensor | None:
        """Return the new rate, None before the first step."""
        product = self._product(group, params, grads, lr)
        if product is None:
            return None
        change = product * float(group["beta_hyper"])
        new = lr * exp(change) if group["log_scale"] else lr + change
        return maximum(minimum(new, float(group["lr_max"])), float(group["lr_min"]))

    def _product(self, group: Group, params: list[Tensor], grads: list[Tensor], lr: Tensor) -> Tensor | None:
        """Return the gradients times the last step's direction, None before the first step."""
        by_parameter = {id(p): g for p, g in zip(params, grads, strict=True)}
        beta1, beta2 = group["betas"]
        total = None
        for chosen in self._cohorts(params):
            states = [self.state[p] for p in chosen]
            part = hypergradient_rate(
                [by_parameter[id(p)] for p in chosen], [s["exp_avg"] for s in states],
                [s["exp_avg_sq"] for s in states], lr, states[0]["step"], beta1=beta1, beta2=beta2, eps=group["eps"],
                maximize=group["maximize"],
            )  # fmt: skip
            total = part if total is None else total + part
        return total

    def _cohorts(self, params: list[Tensor]) -> list[list[Tensor]]:
        """Return the parameters that have moved before, those with one step counter together."""
        cohorts: dict[int, list[Tensor]] = {}
        for p in params:
            if p in self.state:
                cohorts.setdefault(id(self.state[p]["step"]), []).append(p)
        return list(cohorts.values())

    def state_dict(self) -> dict[str, Any]:
        """Return the state as other optimisers do, with the learned rates in the groups."""
        made = super().state_dict()
        with no_grad():
            for group, lr in zip(made["param_groups"], self.current_lr, strict=True):
                group["lr"] = lr
        return made

    def __getstate__(self) -> dict[str, Any]:
        """As of other optimisers, with the learned rates in the groups."""
        saved = self.state_dict()["param_groups"]
        groups = [
            {**there, "params": group["params"]}
            for group, there in zip(self.param_groups, saved, strict=True)
        ]
        return {**super().__getstate__(), "param_groups": groups}

    def _after_load(self) -> None:
        super()._after_load()
        self._rates.clear()
