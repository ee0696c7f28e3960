"""The cyclical schedule."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from grilly_core.optim.one_cycle import put_momenta, takes_momentum
from grilly_core.optim.optimizer import Optimizer
from grilly_core.optim.schedule_base import LRScheduler, check_optimizer, for_groups

__all__ = ["CyclicLR"]


class CyclicLR(LRScheduler):
    """Go up and down between two rates again and again, a step per batch; momentum moves the other way (Smith 2017).

    A captured step has its momentum or betas as constants, so with `cycle_momentum` it would be recorded for every
    value: give ``cycle_momentum=False`` there.

    Parameters
    ----------
    optimizer : Optimizer
    base_lr, max_lr : float or list of float
        The ends, for all groups or for each.
    step_size_up : int
        Steps up.
    step_size_down : int, optional
        Steps down; as many by default.
    mode : {"triangular", "triangular2", "exp_range"}
        Every cycle as high as the first, half as high as the one before, or by ``gamma ** steps``.
    gamma : float
    scale_fn : callable, optional
        The height, instead of `mode`; it is not part of the state.
    scale_mode : {"cycle", "iterations"}
        What `scale_fn` is a function of: the cycle, from 1, or the step.
    cycle_momentum : bool
        Also move the group's ``"momentum"`` or first beta, from `max_momentum` down to `base_momentum` and back.
    base_momentum, max_momentum : float or list of float
    last_epoch : int

    Examples
    --------
    >>> import grilly_core as grilly
    >>> opt = grilly.optim.SGD([grilly.nn.Parameter(grilly.ones(1))], lr=1.0)
    >>> schedule, seen = grilly.optim.lr_scheduler.CyclicLR(opt, 0.0, 1.0, step_size_up=2), []
    >>> for _ in range(5):
    ...     seen.append(opt.param_groups[0]["lr"])
    ...     schedule.step()
    >>> seen
    [0.0, 0.5, 1.0, 0.5, 0.0]
    """

    _unsaved = ("optimizer", "_scale_fn")

    def __init__(
        self,
        optimizer: Optimizer,
        base_lr: float | Sequence[float],
        max_lr: float | Sequence[float],
        step_size_up: int = 2000,
        step_size_down: int | None = None,
        mode: str = "triangular",
        gamma: float = 1.0,
        scale_fn: Callable[[float], float] | None = None,
        scale_mode: str = "cycle",
        cycle_momentum: bool = True,
        base_momentum: float | Sequence[float] = 0.8,
        max_momentum: float | Sequence[float] = 0.9,
        last_epoch: int = -1,
    ) -> None:
        check_optimizer(optimizer)
        if scale_fn is None and mode not in ("triangular", "triangular2", "exp_range"):
            raise ValueError(f"mode: expected 'triangular', 'triangular2' or 'exp_range'; received {mode!r}.")
        if scale_mode not in ("cycle", "iterations"):
            raise ValueError(f"scale_mode: expected 'cycle' or 'iterations'; received {scale_mode!r}.")
        base_lrs = for_groups("base_lr", optimizer, base_lr)
        self.max_lrs = for_groups("max_lr", optimizer, max_lr)
        if last_epoch == -1:
            for group, lr in zip(optimizer.param_groups, base_lrs, strict=True):
                group["lr"] = lr
        up = float(step_size_up)
        self.total_size = up + (up if step_size_down is None else float(step_size_down))
        self.step_ratio = up / self.total_size
        self.mode = mode
        self.gamma = gamma
        self._scale_fn = scale_fn
        if scale_fn is None:
            scale_mode = "iterations" if mode == "exp_range" else "cycle"
        self.scale_mode = scale_mode
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            takes_momentum(optimizer)
            self.base_momentums = for_groups("base_momentum", optimizer, base_momentum)
            self.max_momentums = for_groups("max_momentum", optimizer, max_momentum)
        super().__init__(optimizer, last_epoch)
        self.base_lrs = base_lrs

    def scale_fn(self, x: float) -> float:
        """Return the height at a cycle or step."""
        if self._scale_fn is not None:
            return self._scale_fn(x)
        if self.mode == "triangular":
            return 1.0
        return 1.0 / 2.0 ** (x - 1.0) if self.mode == "triangular2" else float(self.gamma**x)

    def get_lr(self) -> list[float]:
        """Return the learning rate of each group at ``last_epoch``, and set the momenta."""
        cycle = math.floor(1.0 + self.last_epoch / self.total_size)
        x = 1.0 + self.last_epoch / self.total_size - cycle
        share = x / self.step_ratio if x <= self.step_ratio else (x - 1.0) / (self.step_ratio - 1.0)
        height = self.scale_fn(cycle if self.scale_mode == "cycle" else self.last_epoch)
        if self.cycle_momentum:
            ends = zip(self.base_momentums, self.max_momentums, strict=True)
            put_momenta(self.optimizer, [high - (high - low) * share * height for low, high in ends])
        ends = zip(self.base_lrs, self.max_lrs, strict=True)
        return [low + (high - low) * share * height for low, high in ends]
