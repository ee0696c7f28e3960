"""The base of optimisers whose parameters count their steps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import chain
from typing import Any, ClassVar

from grilly_core.ops.creation import full
from grilly_core.optim.optimizer import Group, Optimizer, _step_dtype, assign, zeros_for
from grilly_core.tensor import Tensor

__all__ = ["Stepped", "check_betas", "check_not_negative"]


class Stepped(Optimizer):
    """Keeps tensors for every parameter, and 0-d tensors such as ``"step"`` for those that always moved together.

    A subclass names the tensors in `_slots` and moves parameters in `_move`. It hands `self._skip` to its op.
    """

    #: The 0-d tensors of a parameter's state, and where they start.
    _shared: ClassVar[dict[str, float]] = {"step": 0.0}

    def __init__(self, params: Iterable[Any], defaults: Group) -> None:
        # How many parameters share a step counter: those that always moved together share one.
        self._sharers: Counter[Tensor] = Counter()
        super().__init__(params, defaults)

    def _start(self, name: str, group: Group) -> float:
        """Return where a 0-d tensor of the state starts."""
        return self._shared[name]

    def _slots(self, group: Group) -> tuple[str, ...]:
        """Return the names of the tensors kept for each parameter, of its shape."""
        raise NotImplementedError(f"{type(self).__name__} does not define _slots().")

    def _filled(self, name: str, params: list[Tensor], group: Group) -> list[Tensor]:
        """Return what a tensor is at the start; zeros unless a subclass says otherwise."""
        return zeros_for(params)

    def _move(
        self,
        group: Group,
        params: list[Tensor],
        grads: list[Tensor],
        slots: list[list[Tensor]],
        shared: dict[str, Tensor],
        lr: Tensor,
    ) -> None:
        """Move parameters that share their counters; subclasses define it."""
        raise NotImplementedError(f"{type(self).__name__} does not define _move().")

    def _update(self, group: Group, params: list[Tensor], grads: list[Tensor], lr: Tensor) -> None:
        names = self._slots(group)
        self._begin(params, names, group)
        cohorts: dict[int, list[int]] = {}
        for i, p in enumerate(params):
            cohorts.setdefault(id(self.state[p]["step"]), []).append(i)
        for chosen in cohorts.values():
            whole = len(chosen) == len(params)
            some = params if whole else [params[i] for i in chosen]
            shared = self._advanced(some)
            states = [self.state[p] for p in some]
            slots = [[s[name] for s in states] for name in names]
            self._move(group, some, grads if whole else [grads[i] for i in chosen], slots, shared, lr)

    def _begin(self, params: list[Tensor], names: tuple[str, ...], group: Group) -> None:
        """Make the state of parameters that move for the first time, and what a changed setting needs."""
        fresh = [p for p in params if p not in self.state]
        if fresh:
            how: dict[str, Any] = {"dtype": _step_dtype(fresh[0]), "device": fresh[0].device}
            shared = {name: full((), self._start(name, group), **how) for name in self._shared}
            self._sharers[shared["step"]] = len(fresh)
            for p in fresh:
                self.state[p] = dict(shared)
        for name in names:
            lacking = [p for p in params if name not in self.state[p]]
            if lacking:
                for p, value in zip(lacking, self._filled(name, lacking, group), strict=True):
                    self.state[p][name] = value

    def _advanced(self, params: list[Tensor]) -> dict[str, Tensor]:
        """Return the shared cells of parameters, their own if others stay behind, after counting the step."""
        first = self.state[params[0]]
        shared = {name: first[name] for name in self._shared}
        step: Tensor = shared["step"]
        if self._sharers[step] != len(params):
            self._sharers[step] -= len(params)
            shared = {name: Tensor(cell._value) for name, cell in shared.items()}
            step = shared["step"]
            self._sharers[step] = len(params)
            for p in params:
                self.state[p].update(shared)
        step._value = (step + 1.0 if self._skip is None else step + (self._skip == 0.0).to(step.dtype))._value
        return shared

    @staticmethod
    def _assign(params: list[Tensor], slots: list[list[Tensor]], moved: Iterable[Tensor]) -> None:
        """Give parameters and their state what a step returned."""
        assign([*params, *chain.from_iterable(slots)], moved)

    def _takes_skip(self) -> bool:
        return True

    def _after_load(self) -> None:
        """Share counters again between the parameters of one group that stand at the same step."""
        self._sharers.clear()
        for group in self.param_groups:
            known: dict[Any, dict[str, Tensor]] = {}
            for p in group["params"]:
                if p in self.state:
                    own = {name: self.state[p][name] for name in self._shared}
                    step = own["step"]
                    key = (*[cell.item() for cell in own.values()], step.device, step.dtype, p.dtype)
                    shared = known.setdefault(key, own)
                    self.state[p].update(shared)
                    self._sharers[shared["step"]] += 1


def check_betas(group: Group) -> None:
    """Raise unless ``group["betas"]`` are two shares below 1."""
    betas = group["betas"]
    if len(betas) != 2 or not all(0.0 <= b < 1.0 for b in betas):
        raise ValueError(f"betas: expected two numbers in [0, 1); received {betas!r}.")


def check_not_negative(group: Group, *names: str) -> None:
    """Raise if one of these settings is negative or NaN."""
    for name in names:
        if not group[name] >= 0.0:
            raise ValueError(f"{name}: must not be negative; received {group[name]}.")
