"""The base of learning-rate schedules."""

from __future__ import annotations

from typing import Any

from grilly_core.optim.optimizer import Optimizer

__all__ = ["LRScheduler"]


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
