"""The base of learning-rate schedules."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from grilly_core.optim.optimizer import Optimizer

__all__ = ["LRScheduler", "check_optimizer", "for_groups"]

#: What PyTorch's state dicts hold besides, and nobody needs.
_FOREIGN: Final = frozenset(["_get_lr_called_within_step", "_is_initial", "verbose"])


class LRScheduler:
    """Base of the schedules: a subclass defines `get_lr`.

    As in PyTorch, most schedules compute the next rates from the present ones, so that several can work on one
    optimiser, and what is written to ``group["lr"]`` in between counts. A subclass may also define
    ``_get_closed_form_lr``, the rates as a function of ``last_epoch``, for jumps.

    Parameters
    ----------
    optimizer : Optimizer
    last_epoch : int
        -1 starts; another number resumes, and then every group must have its ``"initial_lr"``.

    Attributes
    ----------
    base_lrs : list of float
        The rates at the start, one for each group.
    last_epoch : int

    Examples
    --------
    >>> import grilly_core as grilly
    >>> class Halving(grilly.optim.lr_scheduler.LRScheduler):
    ...     def get_lr(self):
    ...         return [base * 0.5**self.last_epoch for base in self.base_lrs]
    >>> opt = grilly.optim.SGD([grilly.nn.Parameter(grilly.ones(1))], lr=1.0)
    >>> Halving(opt).step()
    >>> opt.param_groups[0]["lr"]
    0.5
    """

    #: Attributes that `state_dict` leaves out.
    _unsaved: tuple[str, ...] = ("optimizer",)
    #: Whether this is the step that construction makes.
    _is_initial: bool = False
    _last_lr: list[float]

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        check_optimizer(optimizer)
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
        self._initial_step()

    def _initial_step(self) -> None:
        """Put epoch 0, or the one to resume after, in force."""
        self._step_count = 0
        self._is_initial = True
        try:
            self.step()
        finally:
            del self._is_initial

    def get_lr(self) -> list[float]:
        """Return the learning rate of each group at ``last_epoch``."""
        raise NotImplementedError(f"{type(self).__name__} does not define get_lr().")

    def get_last_lr(self) -> list[float]:
        """Return the learning rates that this schedule set last."""
        return list(self._last_lr)

    def step(self, epoch: int | None = None) -> None:
        """Go to the next epoch, or to the given one."""
        self._step_count += 1
        self._update_lr(epoch)

    def _update_lr(self, epoch: int | None = None) -> None:
        """Set the rates of the next epoch, or of the given one, by the closed form if there is one."""
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        rule = self.get_lr if epoch is None else getattr(self, "_get_closed_form_lr", self.get_lr)
        self._put(rule())

    def _put(self, rates: Sequence[float]) -> None:
        for group, lr in zip(self.optimizer.param_groups, rates, strict=True):
            group["lr"] = lr
        self._last_lr = list(rates)

    def _present(self) -> list[float]:
        """The learning rates in force."""
        return [group["lr"] for group in self.optimizer.param_groups]

    def state_dict(self) -> dict[str, Any]:
        """Return everything but the optimiser and functions, as plain numbers."""
        return {k: v for k, v in self.__dict__.items() if k not in self._unsaved}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue from a state; learning rates are the optimiser's and come with its own state.

        Raises
        ------
        ValueError
            If it is the state of another kind of schedule; nothing was loaded.
        """
        state = {k: v for k, v in state_dict.items() if k not in _FOREIGN}
        known = self.state_dict()
        if set(state) != set(known):
            raise ValueError(
                f"{type(self).__name__}: the state has {sorted(state)}, this schedule {sorted(known)}."
            )
        self.__dict__.update(state)


def check_optimizer(optimizer: Any) -> None:
    """Raise unless it is an optimiser."""
    if not isinstance(optimizer, Optimizer):
        raise TypeError(f"optimizer: expected an Optimizer; received {type(optimizer).__name__}.")


def for_groups(name: str, optimizer: Optimizer, value: Any) -> list[Any]:
    """Return a value for each group: those given in a list or tuple, or one for all."""
    groups = len(optimizer.param_groups)
    if not isinstance(value, list | tuple):
        return [value] * groups
    if len(value) != groups:
        raise ValueError(f"{name}: {len(value)} values for {groups} groups.")
    return list(value)
