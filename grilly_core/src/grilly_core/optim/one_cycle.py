"""The one-cycle schedule."""

from __future__ import annotations

import math
from collections.abc import Sequence

from grilly_core.optim.optimizer import Optimizer
from grilly_core.optim.schedule_base import LRScheduler, check_optimizer, for_groups

__all__ = ["OneCycleLR", "put_momenta", "takes_momentum"]

Points = list[list[float]]


class OneCycleLR(LRScheduler):
    """One cycle: up to `max_lr`, then down far below the start; momentum moves the other way (Smith 2018).

    A captured step has its momentum or betas as constants, so with `cycle_momentum` it would be recorded for every
    value: give ``cycle_momentum=False`` there.

    Parameters
    ----------
    optimizer : Optimizer
    max_lr : float or list of float
        The peak, for all groups or for each.
    total_steps : int, optional
        Length of the cycle; else `epochs` times `steps_per_epoch`.
    epochs, steps_per_epoch : int, optional
    pct_start : float
        Share of the cycle that goes up.
    anneal_strategy : {"cos", "linear"}
    cycle_momentum : bool
        Also move the group's ``"momentum"`` or first beta between `max_momentum` and `base_momentum`.
    base_momentum, max_momentum : float or list of float
    div_factor : float
        The start is ``max_lr / div_factor``.
    final_div_factor : float
        The end is the start divided by this.
    three_phase : bool
        Go down to the start as fast as up, and in a third phase on to the end.
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
        base_momentum: float | Sequence[float] = 0.85,
        max_momentum: float | Sequence[float] = 0.95,
        div_factor: float = 25.0,
        final_div_factor: float = 1e4,
        three_phase: bool = False,
        last_epoch: int = -1,
    ) -> None:
        check_optimizer(optimizer)
        if not 0.0 <= pct_start <= 1.0:
            raise ValueError(f"pct_start: expected a number from 0 to 1; received {pct_start}.")
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(f"anneal_strategy: expected 'cos' or 'linear'; received {anneal_strategy!r}.")
        self.total_steps = _length(total_steps, epochs, steps_per_epoch)
        self.anneal_strategy = anneal_strategy
        self.cycle_momentum = cycle_momentum
        tops = for_groups("max_lr", optimizer, max_lr)
        starts = [top / div_factor for top in tops]
        lasts = [start / final_div_factor for start in starts]
        up = float(pct_start * self.total_steps)
        end = self.total_steps - 1.0
        # Where phases end, and the rates and momenta at their ends, from the start of the first.
        self._ends = [up - 1.0, 2.0 * up - 2.0, end] if three_phase else [up - 1.0, end]
        self._rates: Points = [starts, tops, starts, lasts] if three_phase else [starts, tops, lasts]
        self._momenta: Points = []
        if cycle_momentum:
            takes_momentum(optimizer)
            high = for_groups("max_momentum", optimizer, max_momentum)
            low = for_groups("base_momentum", optimizer, base_momentum)
            self._momenta = [high, low, high, high] if three_phase else [high, low, high]
        if last_epoch == -1:
            for group, start in zip(optimizer.param_groups, starts, strict=True):
                group["initial_lr"] = start
        super().__init__(optimizer, last_epoch)

    def _between(self, start: float, end: float, share: float) -> float:
        if self.anneal_strategy == "cos":
            return end + (start - end) / 2.0 * (1.0 + math.cos(math.pi * share))
        return start + (end - start) * share

    def _at(self, points: Points) -> list[float]:
        """Return the values at the present step, of one for each group."""
        before = 0.0
        for phase, end in enumerate(self._ends):
            if self.last_epoch <= end or phase == len(self._ends) - 1:
                share = (self.last_epoch - before) / (end - before) if end != before else 1.0
                ways = zip(points[phase], points[phase + 1], strict=True)
                return [self._between(start, stop, share) for start, stop in ways]
            before = end
        raise AssertionError("a cycle has phases")

    def get_lr(self) -> list[float]:
        """Return the learning rate of each group at the present step, and set the momenta."""
        if self.last_epoch > self.total_steps:
            raise ValueError(f"OneCycleLR: step {self.last_epoch} of a cycle of {self.total_steps}.")
        if self.cycle_momentum:
            put_momenta(self.optimizer, self._at(self._momenta))
        return self._at(self._rates)


def _length(total_steps: int | None, epochs: int | None, steps_per_epoch: int | None) -> int:
    given = {"total_steps": total_steps}
    if total_steps is None:
        given = {"epochs": epochs, "steps_per_epoch": steps_per_epoch}
    length = 1
    for name, value in given.items():
        if value is None:
            raise ValueError("OneCycleLR: give total_steps, or epochs and steps_per_epoch.")
        if not isinstance(value, int) or value < 1:
            raise ValueError(f"{name}: expected a positive integer; received {value!r}.")
        length *= value
    return length


def takes_momentum(optimizer: Optimizer) -> None:
    """Raise unless the optimiser has a momentum to move."""
    if not {"momentum", "betas"} & set(optimizer.defaults):
        raise ValueError("cycle_momentum: the optimiser has neither momentum nor betas.")


def put_momenta(optimizer: Optimizer, momenta: Sequence[float]) -> None:
    """Set each group's first beta, or its momentum if it has no betas."""
    for group, momentum in zip(optimizer.param_groups, momenta, strict=True):
        if "betas" in group:
            group["betas"] = (momentum, *group["betas"][1:])
        else:
            group["momentum"] = momentum
