"""Schedules along a cosine (Loshchilov and Hutter 2017)."""

from __future__ import annotations

import math

from grilly_core.optim.optimizer import Optimizer
from grilly_core.optim.schedule_base import LRScheduler

__all__ = ["CosineAnnealingLR", "CosineAnnealingWarmRestarts", "WarmupCosine"]


class CosineAnnealingLR(LRScheduler):
    """Go from the first rate to `eta_min` along half a cosine of `T_max` epochs, and back, and so on.

    Parameters
    ----------
    optimizer : Optimizer
    T_max : int
    eta_min : float
    last_epoch : int

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
        """Return the learning rate of each group at ``last_epoch``."""
        if self._is_initial:
            return self._present()
        if self._step_count == 1 and self.last_epoch > 0:
            return self._get_closed_form_lr()
        if (self.last_epoch - 1 - self.T_max) % (
            2 * self.T_max
        ) == 0:  # at the bottom there is nothing to scale
            rise = (1.0 - math.cos(math.pi / self.T_max)) / 2.0
            return [
                lr + (base - self.eta_min) * rise
                for lr, base in zip(self._present(), self.base_lrs, strict=True)
            ]
        here, before = (
            1.0 + math.cos(math.pi * t / self.T_max) for t in (self.last_epoch, self.last_epoch - 1)
        )
        return [here / before * (lr - self.eta_min) + self.eta_min for lr in self._present()]

    def _get_closed_form_lr(self) -> list[float]:
        share = (1.0 + math.cos(math.pi * self.last_epoch / self.T_max)) / 2.0
        return [self.eta_min + (base - self.eta_min) * share for base in self.base_lrs]


class CosineAnnealingWarmRestarts(LRScheduler):
    """Go from the first rate to `eta_min` along half a cosine, then start again, each time `T_mult` as long.

    Parameters
    ----------
    optimizer : Optimizer
    T_0 : int
        Epochs until the first restart.
    T_mult : int
    eta_min : float
    last_epoch : int

    Examples
    --------
    >>> import grilly_core as grilly
    >>> opt = grilly.optim.SGD([grilly.nn.Parameter(grilly.ones(1))], lr=1.0)
    >>> schedule, seen = grilly.optim.lr_scheduler.CosineAnnealingWarmRestarts(opt, T_0=2), []
    >>> for _ in range(4):
    ...     seen.append(round(opt.param_groups[0]["lr"], 6))
    ...     schedule.step()
    >>> seen
    [1.0, 0.5, 1.0, 0.5]
    """

    def __init__(
        self, optimizer: Optimizer, T_0: int, T_mult: int = 1, eta_min: float = 0.0, last_epoch: int = -1
    ) -> None:
        for name, value in (("T_0", T_0), ("T_mult", T_mult)):
            if not isinstance(value, int) or value < 1:
                raise ValueError(f"{name}: expected an integer of at least 1; received {value!r}.")
        self.T_0 = T_0
        self.T_i = T_0
        self.T_mult = T_mult
        self.eta_min = eta_min
        self.T_cur: float = last_epoch
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        """Return the learning rate of each group at ``T_cur`` of ``T_i`` epochs."""
        share = (1.0 + math.cos(math.pi * self.T_cur / self.T_i)) / 2.0
        return [self.eta_min + (base - self.eta_min) * share for base in self.base_lrs]

    def step(self, epoch: float | None = None) -> None:
        """Go to the next epoch, or to the given one, which may lie between two: ``epoch + batch / batches``."""
        self._step_count += 1
        if epoch is None and self.last_epoch < 0:
            epoch = 0
        if epoch is None:
            epoch = self.last_epoch + 1
            self.T_cur += 1
            if self.T_cur >= self.T_i:
                self.T_cur %= self.T_i
                self.T_i *= self.T_mult
        else:
            self._jump(epoch)
        self.last_epoch = math.floor(epoch)
        self._put(self.get_lr())

    def _jump(self, epoch: float) -> None:
        if epoch < 0:
            raise ValueError(f"epoch: must not be negative; received {epoch}.")
        if self.T_mult == 1:
            self.T_i, self.T_cur = self.T_0, epoch % self.T_0
            return
        start, self.T_i = 0, self.T_0
        while epoch >= start + self.T_i:
            start += self.T_i
            self.T_i *= self.T_mult
        self.T_cur = epoch - start


class WarmupCosine(LRScheduler):
    """Rise in a straight line to the first rate, then fall to `eta_min` along half a cosine, and stay there.

    Parameters
    ----------
    optimizer : Optimizer
    warmup_steps : int
        Steps of the rise; after them the rate is the optimiser's own.
    total_steps : int
        Steps until `eta_min`, those of the rise included.
    eta_min : float
    start_factor : float
        Where the rise starts, as a share of the rate.
    last_epoch : int

    Examples
    --------
    >>> import grilly_core as grilly
    >>> opt = grilly.optim.SGD([grilly.nn.Parameter(grilly.ones(1))], lr=1.0)
    >>> schedule, seen = grilly.optim.lr_scheduler.WarmupCosine(opt, warmup_steps=2, total_steps=4), []
    >>> for _ in range(6):
    ...     seen.append(round(opt.param_groups[0]["lr"], 6))
    ...     schedule.step()
    >>> seen
    [0.0, 0.5, 1.0, 0.5, 0.0, 0.0]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        warmup_steps: int,
        total_steps: int,
        eta_min: float = 0.0,
        start_factor: float = 0.0,
        last_epoch: int = -1,
    ) -> None:
        if not 0 <= warmup_steps < total_steps:
            raise ValueError(
                f"warmup_steps: expected a number from 0 to below total_steps={total_steps}; received {warmup_steps}."
            )
        if not 0.0 <= start_factor <= 1.0:
            raise ValueError(f"start_factor: expected a number from 0 to 1; received {start_factor}.")
        self.warmup_steps = warmup_steps
        self.total_steps = total_steps
        self.eta_min = eta_min
        self.start_factor = start_factor
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        """Return the learning rate of each group at ``last_epoch``."""
        if self.last_epoch < self.warmup_steps:
            share = self.start_factor + (1.0 - self.start_factor) * self.last_epoch / self.warmup_steps
            return [base * share for base in self.base_lrs]
        gone = min((self.last_epoch - self.warmup_steps) / (self.total_steps - self.warmup_steps), 1.0)
        share = (1.0 + math.cos(math.pi * gone)) / 2.0
        return [self.eta_min + (base - self.eta_min) * share for base in self.base_lrs]
