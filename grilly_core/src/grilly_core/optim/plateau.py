"""The schedule that follows a metric."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from grilly_core.optim.optimizer import Optimizer
from grilly_core.optim.schedule_base import LRScheduler, check_optimizer, for_groups

__all__ = ["ReduceLROnPlateau"]


class ReduceLROnPlateau(LRScheduler):
    """Multiply by `factor` when a metric has not improved for more than `patience` steps.

    Parameters
    ----------
    optimizer : Optimizer
    mode : {"min", "max"}
        Whether smaller or larger is better.
    factor : float
        Below 1.
    patience : int
    threshold : float
        Improvements below it do not count.
    threshold_mode : {"rel", "abs"}
    cooldown : int
        Steps to wait after a reduction.
    min_lr : float or sequence of float
    eps : float
        Smaller reductions are not made.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> opt = grilly.optim.SGD([grilly.nn.Parameter(grilly.ones(1))], lr=1.0)
    >>> schedule = grilly.optim.lr_scheduler.ReduceLROnPlateau(opt, patience=0)
    >>> for loss in (1.0, 1.0):
    ...     schedule.step(loss)
    >>> opt.param_groups[0]["lr"]
    0.1
    """

    def __init__(
        self,
        optimizer: Optimizer,
        mode: str = "min",
        factor: float = 0.1,
        patience: int = 10,
        threshold: float = 1e-4,
        threshold_mode: str = "rel",
        cooldown: int = 0,
        min_lr: float | Sequence[float] = 0.0,
        eps: float = 1e-8,
    ) -> None:
        check_optimizer(optimizer)
        if not 0.0 <= factor < 1.0:
            raise ValueError(f"factor: must be below 1; received {factor}.")
        if mode not in ("min", "max") or threshold_mode not in ("rel", "abs"):
            raise ValueError(
                f"mode is 'min' or 'max', threshold_mode 'rel' or 'abs'; received {mode!r}, {threshold_mode!r}."
            )
        self.optimizer = optimizer
        self.mode = mode
        self.factor = factor
        self.patience = patience
        self.threshold = threshold
        self.threshold_mode = threshold_mode
        self.cooldown = cooldown
        self.min_lrs = for_groups("min_lr", optimizer, min_lr)
        self.default_min_lr = None if isinstance(min_lr, list | tuple) else min_lr
        self.eps = eps
        self.last_epoch = 0
        self.cooldown_counter = 0
        self.num_bad_epochs = 0
        self.best = math.inf if mode == "min" else -math.inf
        self._last_lr = self._present()

    @property
    def in_cooldown(self) -> bool:
        """Whether it waits after a reduction."""
        return self.cooldown_counter > 0

    def step(self, metrics: Any, epoch: int | None = None) -> None:  # type: ignore[override]
        """Report the metric of the next epoch, or of the given one."""
        current = float(metrics)
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        if self._better(current):
            self.best = current
            self.num_bad_epochs = 0
        else:
            self.num_bad_epochs += 1
        if self.in_cooldown:
            self.cooldown_counter -= 1
            self.num_bad_epochs = 0
        if self.num_bad_epochs > self.patience:
            self._reduce()
            self.cooldown_counter = self.cooldown
            self.num_bad_epochs = 0
        self._last_lr = self._present()

    def _better(self, current: float) -> bool:
        relative = self.threshold_mode == "rel"
        if self.mode == "min":
            return current < (self.best * (1.0 - self.threshold) if relative else self.best - self.threshold)
        return current > (self.best * (1.0 + self.threshold) if relative else self.best + self.threshold)

    def _reduce(self) -> None:
        groups = self.optimizer.param_groups
        if len(groups) != len(self.min_lrs):  # one was added
            if self.default_min_lr is None:
                raise ValueError(
                    f"min_lr: {len(self.min_lrs)} numbers for {len(groups)} groups; set min_lrs."
                )
            self.min_lrs = [self.default_min_lr] * len(groups)
        for group, least in zip(groups, self.min_lrs, strict=True):
            lr = max(group["lr"] * self.factor, least)
            if group["lr"] - lr > self.eps:
                group["lr"] = lr
