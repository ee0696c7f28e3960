"""Learning-rate schedules: each is a function of the epoch, written to ``group["lr"]``.

A schedule takes effect when it is made (epoch 0) and moves on with every `step`, which belongs after the optimiser's.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from grilly_core.optim.optimizer import Optimizer

__all__ = [
    "CosineAnnealingLR", "ExponentialLR", "LRScheduler", "LambdaLR", "LinearLR", "MultiStepLR", "OneCycleLR",
    "ReduceLROnPlateau", "SequentialLR", "StepLR",
]  # fmt: skip


class LRScheduler:
    """Base of the schedules: a subclass defines `factor` or `get_lr`.

    Parameters
    ----------
    optimizer : Optimizer
    last_epoch : int
        -1 starts; another number resumes, and then every group must have its ``"initial_lr"``.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> class Halving(grilly.optim.lr_scheduler.LRScheduler):
    ...     def factor(self, epoch):
    ...         return 0.5**epoch
    >>> opt = grilly.optim.SGD([grilly.nn.Parameter(grilly.ones(1))], lr=1.0)
    >>> Halving(opt).step()
    >>> opt.param_groups[0]["lr"]
    0.5
    """

    #: Attributes that `state_dict` leaves out.
    _unsaved: tuple[str, ...] = ("optimizer",)

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        if not isinstance(optimizer, Optimizer):
            raise TypeError(f"optimizer: expected an Optimizer; received {type(optimizer).__name__}.")
        self.optimizer = optimizer
        for i, group in enumerate(optimizer.param_groups):
            if last_epoch == -1:
                group.setdefault("initial_lr", group["lr"])
            elif "initial_lr" not in group:
                raise KeyError(
                    f"last_epoch={last_epoch}: param_groups[{i}] has no 'initial_lr' to resume from."
                )
        self.base_lrs: list[float] = [group["initial_lr"] for group in optimizer.param_groups]
        self.last_epoch = last_epoch
        self.step()

    def factor(self, epoch: int) -> float:
        """Return what the first learning rates are multiplied by."""
        raise NotImplementedError(f"{type(self).__name__} defines neither factor() nor get_lr().")

    def get_lr(self) -> list[float]:
        """Return the learning rate of each group at the present epoch."""
        factor = self.factor(self.last_epoch)
        return [base * factor for base in self.base_lrs]

    def get_last_lr(self) -> list[float]:
        """Return the learning rates in force."""
        return [group["lr"] for group in self.optimizer.param_groups]

    def step(self, epoch: int | None = None) -> None:
        """Go to the next epoch, or to the given one."""
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        for group, lr in zip(self.optimizer.param_groups, self.get_lr(), strict=True):
            group["lr"] = lr

    def state_dict(self) -> dict[str, Any]:
        """Return everything but the optimiser and functions, as plain numbers."""
        return {k: v for k, v in self.__dict__.items() if k not in self._unsaved}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue from a state; learning rates are the optimiser's and come with its own state."""
        known = self.state_dict()
        if set(state_dict) != set(known):
            raise ValueError(
                f"{type(self).__name__}: the state has {sorted(state_dict)}, this schedule {sorted(known)}."
            )
        self.__dict__.update(state_dict)


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
        if not 0.0 <= factor < 1.0:
            raise ValueError(f"factor: must be below 1; received {factor}.")
        if mode not in ("min", "max") or threshold_mode not in ("rel", "abs"):
            raise ValueError(
                f"mode is 'min' or 'max', threshold_mode 'rel' or 'abs'; received {mode!r}, {threshold_mode!r}."
            )
        groups = len(optimizer.param_groups)
        self.optimizer = optimizer
        self.mode = mode
        self.reduction = factor
        self.patience = patience
        self.threshold = threshold
        self.threshold_mode = threshold_mode
        self.cooldown = cooldown
        self.min_lrs = list(min_lr) if isinstance(min_lr, Sequence) else [min_lr] * groups
        if len(self.min_lrs) != groups:
            raise ValueError(f"min_lr: {len(self.min_lrs)} numbers for {groups} groups.")
        self.eps = eps
        self.last_epoch = 0
        self.cooldown_counter = 0
        self.num_bad_epochs = 0
        self.best = math.inf if mode == "min" else -math.inf

    def step(self, metrics: Any) -> None:  # type: ignore[override]
        """Report the metric of an epoch."""
        current = float(metrics)
        self.last_epoch += 1
        if self._better(current):
            self.best = current
            self.num_bad_epochs = 0
        else:
            self.num_bad_epochs += 1
        if self.cooldown_counter > 0:
            self.cooldown_counter -= 1
            self.num_bad_epochs = 0
        if self.num_bad_epochs > self.patience:
            self._reduce()
            self.cooldown_counter = self.cooldown
            self.num_bad_epochs = 0

    def _better(self, current: float) -> bool:
        relative = self.threshold_mode == "rel"
        if self.mode == "min":
            return current < (self.best * (1.0 - self.threshold) if relative else self.best - self.threshold)
        return current > (self.best * (1.0 + self.threshold) if relative else self.best + self.threshold)

    def _reduce(self) -> None:
        for group, least in zip(self.optimizer.param_groups, self.min_lrs, strict=True):
            lr = max(group["lr"] * self.reduction, least)
            if group["lr"] - lr > self.eps:
                group["lr"] = lr
