"""Schedules that multiply the rates by a factor of the epoch."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence

from grilly_core.optim.optimizer import Optimizer
from grilly_core.optim.schedule_base import LRScheduler, check_optimizer, for_groups

__all__ = [
    "ConstantLR", "ExponentialLR", "LambdaLR", "LinearLR", "MultiStepLR", "MultiplicativeLR", "PolynomialLR", "StepLR",
]  # fmt: skip

Rule = Callable[[int], float]


class StepLR(LRScheduler):
    """Multiply by `gamma` every `step_size` epochs.

    Parameters
    ----------
    optimizer : Optimizer
    step_size : int
    gamma : float
    last_epoch : int

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

    def get_lr(self) -> list[float]:
        """Return the learning rate of each group at ``last_epoch``."""
        if self.last_epoch == 0 or self.last_epoch % self.step_size != 0:
            return self._present()
        return [lr * self.gamma for lr in self._present()]

    def _get_closed_form_lr(self) -> list[float]:
        return [base * self.gamma ** (self.last_epoch // self.step_size) for base in self.base_lrs]


class MultiStepLR(LRScheduler):
    """Multiply by `gamma` at each of the milestones.

    Parameters
    ----------
    optimizer : Optimizer
    milestones : iterable of int
        One that appears twice counts twice.
    gamma : float
    last_epoch : int

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

    def get_lr(self) -> list[float]:
        """Return the learning rate of each group at ``last_epoch``."""
        here = self.milestones.count(self.last_epoch)
        return [lr * self.gamma**here if here else lr for lr in self._present()]

    def _get_closed_form_lr(self) -> list[float]:
        return [base * self.gamma ** bisect_right(self.milestones, self.last_epoch) for base in self.base_lrs]


class ConstantLR(LRScheduler):
    """Multiply by `factor` until epoch `total_iters`, then give the rates back.

    Parameters
    ----------
    optimizer : Optimizer
    factor : float
        From 0 to 1.
    total_iters : int
    last_epoch : int

    Examples
    --------
    >>> import grilly_core as grilly
    >>> opt = grilly.optim.SGD([grilly.nn.Parameter(grilly.ones(1))], lr=1.0)
    >>> schedule, seen = grilly.optim.lr_scheduler.ConstantLR(opt, 0.5, total_iters=2), []
    >>> for _ in range(3):
    ...     seen += schedule.get_last_lr()
    ...     schedule.step()
    >>> seen
    [0.5, 0.5, 1.0]
    """

    def __init__(
        self, optimizer: Optimizer, factor: float = 1.0 / 3.0, total_iters: int = 5, last_epoch: int = -1
    ) -> None:
        if not 0.0 <= factor <= 1.0:
            raise ValueError(f"factor: expected a number from 0 to 1; received {factor}.")
        self.factor = factor
        self.total_iters = total_iters
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        """Return the learning rate of each group at ``last_epoch``."""
        if self.last_epoch == 0:
            return [lr * self.factor for lr in self._present()]
        if self.last_epoch != self.total_iters:
            return self._present()
        if self.factor == 0.0:  # nothing is left to be divided
            return list(self.base_lrs)
        return [lr * (1.0 / self.factor) for lr in self._present()]

    def _get_closed_form_lr(self) -> list[float]:
        factor = 1.0 if self.last_epoch >= self.total_iters else self.factor
        return [base * factor for base in self.base_lrs]


class LinearLR(LRScheduler):
    """Go from `start_factor` to `end_factor` in `total_iters` equal steps, then stay.

    Parameters
    ----------
    optimizer : Optimizer
    start_factor : float
        Above 0, up to 1.
    end_factor : float
        From 0 to 1.
    total_iters : int
    last_epoch : int

    Examples
    --------
    >>> import grilly_core as grilly
    >>> opt = grilly.optim.SGD([grilly.nn.Parameter(grilly.ones(1))], lr=1.0)
    >>> schedule = grilly.optim.lr_scheduler.LinearLR(opt, start_factor=0.5, total_iters=2)
    >>> schedule.step()
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

    def get_lr(self) -> list[float]:
        """Return the learning rate of each group at ``last_epoch``."""
        if self.last_epoch == 0:
            return [lr * self.start_factor for lr in self._present()]
        if self._is_initial or self.last_epoch > self.total_iters:
            return self._present()
        rise = self.end_factor - self.start_factor
        before = self.total_iters * self.start_factor + (self.last_epoch - 1) * rise
        return [lr * (1.0 + rise / before) for lr in self._present()]

    def _get_closed_form_lr(self) -> list[float]:
        share = min(self.last_epoch / self.total_iters, 1.0) if self.total_iters else 0.0
        factor = self.start_factor + (self.end_factor - self.start_factor) * share
        return [base * factor for base in self.base_lrs]


class ExponentialLR(LRScheduler):
    """Multiply by `gamma` every epoch.

    Parameters
    ----------
    optimizer : Optimizer
    gamma : float
    last_epoch : int

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

    def get_lr(self) -> list[float]:
        """Return the learning rate of each group at ``last_epoch``."""
        return self._present() if self._is_initial else [lr * self.gamma for lr in self._present()]

    def _get_closed_form_lr(self) -> list[float]:
        return [base * self.gamma**self.last_epoch for base in self.base_lrs]


class PolynomialLR(LRScheduler):
    """Go to 0 in `total_iters` epochs, as ``(1 - epoch / total_iters) ** power``.

    Parameters
    ----------
    optimizer : Optimizer
    total_iters : int
    power : float
    last_epoch : int

    Examples
    --------
    >>> import grilly_core as grilly
    >>> opt = grilly.optim.SGD([grilly.nn.Parameter(grilly.ones(1))], lr=1.0)
    >>> schedule = grilly.optim.lr_scheduler.PolynomialLR(opt, total_iters=4, power=2.0)
    >>> for _ in range(2):
    ...     schedule.step()
    >>> round(opt.param_groups[0]["lr"], 6)
    0.25
    """

    def __init__(
        self, optimizer: Optimizer, total_iters: int = 5, power: float = 1.0, last_epoch: int = -1
    ) -> None:
        self.total_iters = total_iters
        self.power = power
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        """Return the learning rate of each group at ``last_epoch``."""
        if self._is_initial or self.last_epoch > self.total_iters:
            return self._present()
        here = 1.0 - self.last_epoch / self.total_iters
        before = 1.0 - (self.last_epoch - 1) / self.total_iters
        return [lr * (here / before) ** self.power for lr in self._present()]

    def _get_closed_form_lr(self) -> list[float]:
        left = 1.0 - min(self.total_iters, self.last_epoch) / self.total_iters if self.total_iters else 1.0
        return [base * left**self.power for base in self.base_lrs]


class LambdaLR(LRScheduler):
    """Multiply the first rates by a function of the epoch, one for all groups or one for each.

    Functions are not part of the state: give the same ones when resuming.

    Parameters
    ----------
    optimizer : Optimizer
    lr_lambda : callable, or list of callable
    last_epoch : int

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

    def __init__(self, optimizer: Optimizer, lr_lambda: Rule | Sequence[Rule], last_epoch: int = -1) -> None:
        self.lr_lambdas = _rules(optimizer, lr_lambda)
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        """Return the learning rate of each group at ``last_epoch``."""
        return [
            base * rule(self.last_epoch) for base, rule in zip(self.base_lrs, self.lr_lambdas, strict=True)
        ]


class MultiplicativeLR(LRScheduler):
    """Multiply the present rates by a function of the epoch, one for all groups or one for each.

    Functions are not part of the state: give the same ones when resuming.

    Parameters
    ----------
    optimizer : Optimizer
    lr_lambda : callable, or list of callable
    last_epoch : int

    Examples
    --------
    >>> import grilly_core as grilly
    >>> opt = grilly.optim.SGD([grilly.nn.Parameter(grilly.ones(1))], lr=1.0)
    >>> schedule = grilly.optim.lr_scheduler.MultiplicativeLR(opt, lambda epoch: 1 / (1 + epoch))
    >>> for _ in range(2):
    ...     schedule.step()
    >>> round(opt.param_groups[0]["lr"], 4)
    0.1667
    """

    _unsaved = ("optimizer", "lr_lambdas")

    def __init__(self, optimizer: Optimizer, lr_lambda: Rule | Sequence[Rule], last_epoch: int = -1) -> None:
        self.lr_lambdas = _rules(optimizer, lr_lambda)
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        """Return the learning rate of each group at ``last_epoch``."""
        if self._is_initial:
            return self._present()
        return [lr * rule(self.last_epoch) for lr, rule in zip(self._present(), self.lr_lambdas, strict=True)]


def _rules(optimizer: Optimizer, given: Rule | Sequence[Rule]) -> list[Rule]:
    check_optimizer(optimizer)
    rules = for_groups("lr_lambda", optimizer, given)
    for rule in rules:
        if not callable(rule):
            raise TypeError(f"lr_lambda: expected a function; received {type(rule).__name__}.")
    return rules
