"""Learning-rate schedules: each is a function of the epoch, written to ``group["lr"]``.

A schedule takes effect when it is made (epoch 0) and moves on with every `step`, which belongs after the optimiser's.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from grilly_core.optim.one_cycle import OneCycleLR
from grilly_core.optim.optimizer import Optimizer
from grilly_core.optim.plateau import ReduceLROnPlateau
from grilly_core.optim.schedule_base import LRScheduler

__all__ = [
    "CosineAnnealingLR", "ExponentialLR", "LRScheduler", "LambdaLR", "LinearLR", "MultiStepLR", "OneCycleLR",
    "ReduceLROnPlateau", "SequentialLR", "StepLR",
]  # fmt: skip


class StepLR(LRScheduler):
    """Multiply by `gamma` every `step_size` epochs.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> opt = grilly.optim.SGD([grilly.nn.Parameter(grilly.ones(1))], lr=1.0)
    >>> schedule = grilly.optim.lr_scheduler.StepLR(opt, step_size=1, gamma=0.5)
    >>> schedule.step()
    >>> opt.param_groups[0]["lr"]
    0.5
    """

    def __init__(
        self, optimizer: Optimizer, step_size: int, gamma: float = 0.1, last_epoch: int = -1
    ) -> None:
        if step_size < 1:
            raise ValueError(f"step_size: must be at least 1; received {step_size}.")
        self.step_size = step_size
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def factor(self, epoch: int) -> float:
        """``gamma ** (epoch // step_size)``."""
        return float(self.gamma ** (epoch // self.step_size))


class MultiStepLR(LRScheduler):
    """Multiply by `gamma` at each of the milestones.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> opt = grilly.optim.SGD([grilly.nn.Parameter(grilly.ones(1))], lr=1.0)
    >>> schedule = grilly.optim.lr_scheduler.MultiStepLR(opt, [1, 3], gamma=0.5)
    >>> for _ in range(2):
    ...     schedule.step()
    >>> round(opt.param_groups[0]["lr"], 6)
    0.5
    """

    def __init__(
        self, optimizer: Optimizer, milestones: Iterable[int], gamma: float = 0.1, last_epoch: int = -1
    ) -> None:
        self.milestones = sorted(milestones)
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def factor(self, epoch: int) -> float:
        """`gamma` to the number of milestones passed."""
        return float(self.gamma ** bisect_right(self.milestones, epoch))


class ExponentialLR(LRScheduler):
    """Multiply by `gamma` every epoch.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> opt = grilly.optim.SGD([grilly.nn.Parameter(grilly.ones(1))], lr=1.0)
    >>> schedule = grilly.optim.lr_scheduler.ExponentialLR(opt, gamma=0.5)
    >>> for _ in range(2):
    ...     schedule.step()
    >>> round(opt.param_groups[0]["lr"], 6)
    0.25
    """

    def __init__(self, optimizer: Optimizer, gamma: float, last_epoch: int = -1) -> None:
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def factor(self, epoch: int) -> float:
        """``gamma ** epoch``."""
        return float(self.gamma**epoch)


class CosineAnnealingLR(LRScheduler):
    """Go from the first rate to `eta_min` along half a cosine of `T_max` epochs, and back, and so on.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> opt = grilly.optim.SGD([grilly.nn.Parameter(grilly.ones(1))], lr=1.0)
    >>> schedule = grilly.optim.lr_scheduler.CosineAnnealingLR(opt, T_max=4)
    >>> for _ in range(2):
    ...     schedule.step()
    >>> round(opt.param_groups[0]["lr"], 6)
    0.5
    """

    def __init__(self, optimizer: Optimizer, T_max: int, eta_min: float = 0.0, last_epoch: int = -1) -> None:
        if T_max < 1:
            raise ValueError(f"T_max: must be at least 1; received {T_max}.")
        self.T_max = T_max
        self.eta_min = eta_min
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        """Return the learning rate of each group at the present epoch."""
        share = 0.5 * (1.0 + math.cos(math.pi * self.last_epoch / self.T_max))
        return [self.eta_min + (base - self.eta_min) * share for base in self.base_lrs]


class LinearLR(LRScheduler):
    """Go from `start_factor` to `end_factor` in `total_iters` equal steps, then stay.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> opt = grilly.optim.SGD([grilly.nn.Parameter(grilly.ones(1))], lr=1.0)
    >>> schedule = grilly.optim.lr_scheduler.LinearLR(opt, start_factor=0.5, total_iters=2)
    >>> for _ in range(1):
    ...     schedule.step()
    >>> round(opt.param_groups[0]["lr"], 6)
    0.75
    """

    def __init__(
        self,
        optimizer: Optimizer,
        start_factor: float = 1.0 / 3.0,
        end_factor: float = 1.0,
        total_iters: int = 5,
        last_epoch: int = -1,
    ) -> None:
        if not 0.0 < start_factor <= 1.0 or not 0.0 <= end_factor <= 1.0:
            raise ValueError(
                f"start_factor and end_factor: expected numbers up to 1, the first above 0; received {start_factor} "
                f"and {end_factor}."
            )
        self.start_factor = start_factor
        self.end_factor = end_factor
        self.total_iters = total_iters
        super().__init__(optimizer, last_epoch)

    def factor(self, epoch: int) -> float:
        """The straight line."""
        share = min(epoch / self.total_iters, 1.0) if self.total_iters else 1.0
        return self.start_factor + (self.end_factor - self.start_factor) * share


class LambdaLR(LRScheduler):
    """Multiply the first rates by a function of the epoch, one for all groups or one for each.

    Functions are not part of the state: give the same ones when resuming.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> opt = grilly.optim.SGD([grilly.nn.Parameter(grilly.ones(1))], lr=1.0)
    >>> schedule = grilly.optim.lr_scheduler.LambdaLR(opt, lambda epoch: 1 / (1 + epoch))
    >>> for _ in range(3):
    ...     schedule.step()
    >>> round(opt.param_groups[0]["lr"], 6)
    0.25
    """

    _unsaved = ("optimizer", "lr_lambdas")

    def __init__(
        self,
        optimizer: Optimizer,
        lr_lambda: Callable[[int], float] | Sequence[Callable[[int], float]],
        last_epoch: int = -1,
    ) -> None:
        groups = len(optimizer.param_groups)
        self.lr_lambdas = list(lr_lambda) if isinstance(lr_lambda, Sequence) else [lr_lambda] * groups
        if len(self.lr_lambdas) != groups:
            raise ValueError(f"lr_lambda: {len(self.lr_lambdas)} functions for {groups} groups.")
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        """Return the learning rate of each group at the present epoch."""
        return [base * fn(self.last_epoch) for base, fn in zip(self.base_lrs, self.lr_lambdas, strict=True)]


class SequentialLR(LRScheduler):
    """Run schedules one after the other, each from its own epoch 0.

    Parameters
    ----------
    optimizer : Optimizer
    schedulers : sequence of LRScheduler
        All of this optimiser.
    milestones : sequence of int
        Epochs at which the next one takes over.
    last_epoch : int

    Examples
    --------
    >>> import grilly_core as grilly
    >>> opt = grilly.optim.SGD([grilly.nn.Parameter(grilly.ones(1))], lr=1.0)
    >>> from grilly_core.optim import lr_scheduler
    >>> parts = [lr_scheduler.LinearLR(opt, 0.5, total_iters=2), lr_scheduler.ExponentialLR(opt, 0.5)]
    >>> schedule = lr_scheduler.SequentialLR(opt, parts, milestones=[2])
    >>> for _ in range(3):
    ...     schedule.step()
    >>> opt.param_groups[0]["lr"]
    0.5
    """

    _unsaved = ("optimizer", "schedulers")

    def __init__(
        self,
        optimizer: Optimizer,
        schedulers: Sequence[LRScheduler],
        milestones: Sequence[int],
        last_epoch: int = -1,
    ) -> None:
        if not schedulers or len(milestones) != len(schedulers) - 1:
            raise ValueError(
                f"SequentialLR: {len(schedulers)} schedules need {len(schedulers) - 1} milestones."
            )
        if any(s.optimizer is not optimizer for s in schedulers):
            raise ValueError("SequentialLR: a schedule belongs to another optimiser.")
        self.optimizer = optimizer
        self.schedulers = list(schedulers)
        self.milestones = list(milestones)
        self.last_epoch = last_epoch + 1
        self._at_milestone(0)

    def _at_milestone(self, index: int) -> None:
        self.schedulers[index].step(0)

    def step(self, epoch: int | None = None) -> None:
        """Go to the next epoch; jumping to a given one is not possible here."""
        if epoch is not None:
            raise ValueError("SequentialLR: step() takes no epoch.")
        self.last_epoch += 1
        index = bisect_right(self.milestones, self.last_epoch)
        if index and self.milestones[index - 1] == self.last_epoch:
            self._at_milestone(index)
        else:
            self.schedulers[index].step()

    def state_dict(self) -> dict[str, Any]:
        """Return the state, and that of every schedule."""
        return {**super().state_dict(), "schedulers": [s.state_dict() for s in self.schedulers]}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue from a state."""
        own = {k: v for k, v in state_dict.items() if k != "schedulers"}
        if set(own) != set(super().state_dict()) or len(state_dict["schedulers"]) != len(self.schedulers):
            raise ValueError("SequentialLR: the state belongs to other schedules.")
        self.__dict__.update(own)
        for schedule, content in zip(self.schedulers, state_dict["schedulers"], strict=True):
            schedule.load_state_dict(content)
