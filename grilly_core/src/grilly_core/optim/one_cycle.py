"""The one-cycle schedule."""

from __future__ import annotations

import math
from collections.abc import Sequence

from grilly_core.optim.optimizer import Optimizer
from grilly_core.optim.schedule_base import LRScheduler

__all__ = ["OneCycleLR"]


class OneCycleLR(LRScheduler):
    """One cycle: up to `max_lr`, then down far below the start; momentum moves the other way (Smith 2018).

    Parameters
    ----------
    optimizer : Optimizer
    max_lr : float or sequence of float
        The peak, for all groups or for each.
    total_steps : int, optional
        Length of the cycle; else `epochs` times `steps_per_epoch`.
    epochs, steps_per_epoch : int, optional
    pct_start : float
        Share of the cycle that goes up.
    anneal_strategy : {"cos", "linear"}
    cycle_momentum : bool
        Also move the group's ``"momentum"`` or first beta between `max_momentum` and `base_momentum`.
    base_momentum, max_momentum : float
    div_factor : float
        The start is ``max_lr / div_factor``.
    final_div_factor : float
        The end is the start divided by this.
    last_epoch : int

    Examples
    --------
    >>> import grilly_core as grilly
    >>> opt = grilly.optim.SGD([grilly.nn.Parameter(grilly.ones(1))], lr=1.0)
    >>> schedule = grilly.optim.lr_scheduler.OneCycleLR(opt, max_lr=1.0, total_steps=10)
    >>> for _ in range(2):
    ...     schedule.step()
    >>> round(opt.param_groups[0]["lr"], 6)
    1.0
    """

    def __init__(
        self,
        optimizer: Optimizer,
        max_lr: float | Sequence[float],
        total_steps: int | None = None,
        epochs: int | None = None,
        steps_per_epoch: int | None = None,
        pct_start: float = 0.3,
        anneal_strategy: str = "cos",
        cycle_momentum: bool = True,
        base_momentum: float = 0.85,
        max_momentum: float = 0.95,
        div_factor: float = 25.0,
        final_div_factor: float = 1e4,
        last_epoch: int = -1,
    ) -> None:
        if total_steps is None:
            if epochs is None or steps_per_epoch is None:
                raise ValueError("OneCycleLR: give total_steps, or epochs and steps_per_epoch.")
            total_steps = epochs * steps_per_epoch
        if total_steps < 1 or not 0.0 <= pct_start <= 1.0:
            raise ValueError(
                f"OneCycleLR: expected a positive number of steps and pct_start in [0, 1]; received {total_steps} "
                f"and {pct_start}."
            )
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(f"anneal_strategy: expected 'cos' or 'linear'; received {anneal_strategy!r}.")
        groups = optimizer.param_groups
        self.max_lrs = list(max_lr) if isinstance(max_lr, Sequence) else [max_lr] * len(groups)
        if len(self.max_lrs) != len(groups):
            raise ValueError(f"max_lr: {len(self.max_lrs)} numbers for {len(groups)} groups.")
        if cycle_momentum and not all("momentum" in g or "betas" in g for g in groups):
            raise ValueError("cycle_momentum: the optimiser has neither momentum nor betas.")
        self.total_steps = total_steps
        self.pct_start = pct_start
        self.anneal_strategy = anneal_strategy
        self.cycle_momentum = cycle_momentum
        self.base_momentum = base_momentum
        self.max_momentum = max_momentum
        self.div_factor = div_factor
        self.final_div_factor = final_div_factor
        super().__init__(optimizer, last_epoch)

    def _between(self, start: float, end: float, share: float) -> float:
        if self.anneal_strategy == "cos":
            return end + (start - end) / 2.0 * (1.0 + math.cos(math.pi * share))
        return start + (end - start) * share

    def _at(self, low: float, high: float, last: float) -> float:
        """Return the value on the way low → high → last."""
        top = float(self.pct_start * self.total_steps) - 1.0
        t = self.last_epoch
        if t <= top:
            return self._between(low, high, t / top if top > 0 else 1.0)
        rest = self.total_steps - 1.0 - top
        return self._between(high, last, (t - top) / rest if rest > 0 else 1.0)

    def get_lr(self) -> list[float]:
        """Return the learning rate of each group at the present step, and set the momenta."""
        if self.last_epoch >= self.total_steps:
            raise ValueError(f"OneCycleLR: step {self.last_epoch} of a cycle of {self.total_steps}.")
        if self.cycle_momentum:
            momentum = self._at(self.max_momentum, self.base_momentum, self.max_momentum)
            for group in self.optimizer.param_groups:
                if "betas" in group:
                    group["betas"] = (momentum, *group["betas"][1:])
                else:
                    group["momentum"] = momentum
        starts = [peak / self.div_factor for peak in self.max_lrs]
        return [
            self._at(start, peak, start / self.final_div_factor)
            for start, peak in zip(starts, self.max_lrs, strict=True)
        ]
