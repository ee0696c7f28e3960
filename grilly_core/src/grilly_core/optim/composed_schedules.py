"""Schedules made of schedules."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Any

from grilly_core.optim.optimizer import Optimizer
from grilly_core.optim.plateau import ReduceLROnPlateau
from grilly_core.optim.schedule_base import LRScheduler

__all__ = ["ChainedScheduler", "SequentialLR"]


class _Composed(LRScheduler):
    """What both have: parts of one optimiser, and their states."""

    _unsaved = ("optimizer", "_schedulers")
    _schedulers: list[LRScheduler]

    def _take(self, schedulers: Sequence[LRScheduler], optimizer: Optimizer | None) -> None:
        kind = type(self).__name__
        if not schedulers:
            raise ValueError(f"{kind}: needs at least one schedule.")
        for i, part in enumerate(schedulers):
            if not isinstance(part, LRScheduler):
                raise TypeError(f"{kind}: schedulers[{i}] is no schedule but a {type(part).__name__}.")
            if isinstance(part, ReduceLROnPlateau):
                raise ValueError(f"{kind}: schedulers[{i}] is ReduceLROnPlateau, whose step needs a metric.")
        self.optimizer = schedulers[0].optimizer if optimizer is None else optimizer
        if any(part.optimizer is not self.optimizer for part in schedulers):
            raise ValueError(f"{kind}: a schedule belongs to another optimiser.")
        self._schedulers = list(schedulers)

    def state_dict(self) -> dict[str, Any]:
        """Return the state, and that of every schedule."""
        return {**super().state_dict(), "_schedulers": [part.state_dict() for part in self._schedulers]}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue from a state.

        Raises
        ------
        ValueError
            If it is the state of other schedules.
        """
        parts = state_dict.get("_schedulers", [])
        if len(parts) != len(self._schedulers):
            raise ValueError(f"{type(self).__name__}: the state belongs to other schedules.")
        for part, content in zip(self._schedulers, parts, strict=True):
            part.load_state_dict(content)
        own = {k: v for k, v in state_dict.items() if k != "_schedulers"}
        if set(own) != set(LRScheduler.state_dict(self)):
            raise ValueError(f"{type(self).__name__}: the state has {sorted(own)}.")
        self.__dict__.update(own)


class SequentialLR(_Composed):
    """Run schedules one after the other, each from its own epoch 0.

    Parameters
    ----------
    optimizer : Optimizer
    schedulers : list of LRScheduler
        All of this optimiser.
    milestones : list of int
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

    def __init__(
        self,
        optimizer: Optimizer,
        schedulers: Sequence[LRScheduler],
        milestones: Sequence[int],
        last_epoch: int = -1,
    ) -> None:
        self._take(schedulers, optimizer)
        if len(milestones) != len(schedulers) - 1:
            raise ValueError(
                f"milestones: {len(schedulers)} schedules need {len(schedulers) - 1}; received {len(milestones)}."
            )
        self._milestones = list(milestones)
        self.last_epoch = last_epoch + 1
        for group in optimizer.param_groups:  # every part made its first step; only the first part's counts
            group["lr"] = group["initial_lr"]
        _undo(self)
        first = self._schedulers[bisect_right(self._milestones, 0)]
        first._initial_step()
        self._last_lr = first.get_last_lr()

    def step(self, epoch: int | None = None) -> None:
        """Go to the next epoch; jumping to a given one is not possible here."""
        if epoch is not None:
            raise ValueError("SequentialLR: step() takes no epoch.")
        self.last_epoch += 1
        index = bisect_right(self._milestones, self.last_epoch)
        part = self._schedulers[index]
        if index and self._milestones[index - 1] == self.last_epoch:
            part._update_lr(0)
        else:
            part.step()
        self._last_lr = part.get_last_lr()


def _undo(schedule: LRScheduler) -> None:
    """Take the first step of all parts back."""
    if isinstance(schedule, _Composed):
        for part in schedule._schedulers:
            _undo(part)
    else:
        schedule.last_epoch -= 1


class ChainedScheduler(_Composed):
    """Let several schedules change the same rates, one after the other in every step.

    Parameters
    ----------
    schedulers : sequence of LRScheduler
        All of one optimiser.
    optimizer : Optimizer, optional
        By default that of the first schedule.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> opt = grilly.optim.SGD([grilly.nn.Parameter(grilly.ones(1))], lr=1.0)
    >>> from grilly_core.optim import lr_scheduler
    >>> parts = [lr_scheduler.ConstantLR(opt, 0.5, total_iters=1), lr_scheduler.ExponentialLR(opt, 0.5)]
    >>> schedule = lr_scheduler.ChainedScheduler(parts)
    >>> schedule.step()
    >>> opt.param_groups[0]["lr"]
    0.5
    """

    def __init__(self, schedulers: Sequence[LRScheduler], optimizer: Optimizer | None = None) -> None:
        self._take(schedulers, optimizer)
        self._last_lr = self._present()

    def step(self, epoch: int | None = None) -> None:
        """Let every schedule make its step; jumping to a given epoch is not possible here."""
        if epoch is not None:
            raise ValueError("ChainedScheduler: step() takes no epoch.")
        for part in self._schedulers:
            part.step()
        self._last_lr = self._present()
