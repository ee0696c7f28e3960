"""AdamW that learns its own rate, whatever the scale of the loss."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from grilly_core.config import no_grad
from grilly_core.ops.creation import full
from grilly_core.ops.optim import direction_power
from grilly_core.ops.primitives import maximum, minimum, sqrt, where
from grilly_core.optim.hypergradient import HypergradientAdamW
from grilly_core.optim.optimizer import Group
from grilly_core.tensor import Tensor

__all__ = ["AutoHypergradientAdamW"]

_KEPT = 0.99  # share of the old mean square that is kept
_MOST = 0.1  # by which a rate may change in one step


class AutoHypergradientAdamW(HypergradientAdamW):
    """AdamW whose rate descends a normalised hypergradient, so that `hyper_lr` needs no tuning to the loss.

    With the present gradient g and the direction d of the step before: ``h = clip(−g·d/‖d‖², ±1)``,
    ``G = 0.99 G + 0.01 h²``, ``lr −= hyper_lr h/√G``, by a tenth of the rate at most, held in ``[lr_min, lr_max]``.
    Each group has a rate and a G of its own, on the device; `current_lr` reads the rates.

    Parameters
    ----------
    params : iterable of Tensor, or of dict
    lr : float
        Where the rate starts.
    betas : (float, float)
    eps : float
    weight_decay : float
    amsgrad : bool
    hyper_lr : float
        The rate of the rate.
    lr_min, lr_max : float
    warmup_steps : int
        The rate stays for so many steps, while G gathers.
    maximize : bool

    Examples
    --------
    >>> import grilly_core as grilly
    >>> p = grilly.nn.Parameter(grilly.tensor([1.0]))
    >>> opt = grilly.optim.AutoHypergradientAdamW([p], lr=0.01, warmup_steps=0)
    >>> for _ in range(3):
    ...     opt.zero_grad()
    ...     (p * 3.0).sum().backward()
    ...     opt.step()
    >>> round(opt.current_lr[0], 6)
    0.0121
    """

    _not_in_key = HypergradientAdamW._not_in_key | {"hyper_power"}

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        amsgrad: bool = False,
        hyper_lr: float = 0.01,
        lr_min: float = 1e-6,
        lr_max: float = 1.0,
        warmup_steps: int = 10,
        *,
        maximize: bool = False,
    ) -> None:
        self._own = {"hyper_lr": hyper_lr, "warmup_steps": warmup_steps, "hyper_power": 0.0}
        self._powers: dict[int, tuple[Group, Tensor]] = {}  # by the cell of the rate
        super().__init__(
            params, lr, betas, eps, weight_decay, amsgrad, 0.0, lr_min, lr_max, maximize=maximize
        )

    def add_param_group(self, param_group: Group) -> None:
        """Add a group: a dict with ``"params"`` and, where they differ from the defaults, settings."""
        self._hyper = {"lr_min": self._hyper["lr_min"], "lr_max": self._hyper["lr_max"], **self._own}
        super().add_param_group(param_group)

    def _check_group(self, group: Group) -> None:
        super()._check_group(group)
        if not group["hyper_lr"] >= 0.0 or not group["warmup_steps"] >= 0:
            raise ValueError(
                f"hyper_lr and warmup_steps: must not be negative; received {group['hyper_lr']} and "
                f"{group['warmup_steps']}."
            )

    def _learned(self, group: Group, params: list[Tensor], grads: list[Tensor], lr: Tensor) -> Tensor | None:
        power = self._power(group, lr)  # made at the first step, so that the second can be captured
        product = self._product(group, params, grads, lr)
        if product is None:
            return None
        length = self._direction_power(group, params, lr)
        h = maximum(minimum(-product / maximum(length, 1e-30), 1.0), -1.0)
        mean = _KEPT * power + (1.0 - _KEPT) * h * h
        power._value = (mean if self._skip is None else where(self._skip != 0.0, power, mean))._value
        change = group["hyper_lr"] * h / maximum(sqrt(mean), 1e-30)
        change = maximum(minimum(change, _MOST * lr), -_MOST * lr)
        new = maximum(minimum(lr - change, float(group["lr_max"])), float(group["lr_min"]))
        step = next(self.state[p]["step"] for p in params if p in self.state)
        return where(step < float(group["warmup_steps"]), lr, new)

    def _direction_power(self, group: Group, params: list[Tensor], lr: Tensor) -> Tensor:
        """Return the squared length of the last step's direction."""
        beta1, beta2 = group["betas"]
        total = lr * 0.0
        for chosen in self._cohorts(params):
            states = [self.state[p] for p in chosen]
            total = total + direction_power(
                [s["exp_avg"] for s in states], [s["exp_avg_sq"] for s in states], lr, states[0]["step"],
                beta1=beta1, beta2=beta2, eps=group["eps"],
            )  # fmt: skip
        return total

    def _power(self, group: Group, lr: Tensor) -> Tensor:
        found = self._powers.get(id(lr))
        if found is None:
            cell = full((), group["hyper_power"], dtype=lr.dtype, device=lr.device)
            found = self._powers[id(lr)] = (group, cell)
        return found[1]

    def captured_state(self) -> Iterator[tuple[str, Tensor]]:
        """Yield every tensor that a step reads or writes besides parameters and gradients."""
        yield from super().captured_state()
        for i, (_, cell) in enumerate(self._powers.values()):
            yield f"optimizer.hyper_power{i}", cell

    def state_dict(self) -> dict[str, Any]:
        """Return the state as other optimisers do, with the learned rates and G in the groups."""
        made = super().state_dict()
        with no_grad():
            for group, cell in self._powers.values():
                index = next(i for i, g in enumerate(self.param_groups) if g is group)
                made["param_groups"][index]["hyper_power"] = float(cell.item())
        return made

    def __getstate__(self) -> dict[str, Any]:
        """As of `HypergradientAdamW`, with G in the groups: its tensors are known by the rates they belong to."""
        return {**super().__getstate__(), "_powers": {}}

    def _after_load(self) -> None:
        super()._after_load()
        self._powers.clear()
