"""Averages of weights: stochastic weight averaging (Izmailov et al. 2018) and exponential moving averages."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from grilly_core import dtypes
from grilly_core.config import no_grad
from grilly_core.device import Device
from grilly_core.nn.module import Module
from grilly_core.nn.norm import _BatchNorm
from grilly_core.ops.creation import zeros
from grilly_core.ops.primitives import where
from grilly_core.optim.optimizer import Optimizer
from grilly_core.optim.schedule_base import LRScheduler, check_optimizer, for_groups
from grilly_core.tensor import Tensor

__all__ = [
    "SWALR", "AveragedModel", "get_ema_avg_fn", "get_ema_multi_avg_fn", "get_swa_avg_fn", "get_swa_multi_avg_fn",
    "update_bn",
]  # fmt: skip

Average = Callable[[Tensor, Tensor, Any], Tensor]
MultiAverage = Callable[[Sequence[Tensor], Sequence[Tensor], Any], None]


def get_ema_avg_fn(decay: float = 0.999) -> Average:
    """Return the rule of an exponential moving average, ``decay · average + (1 − decay) · model``.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> from grilly_core.optim.swa_utils import get_ema_avg_fn
    >>> get_ema_avg_fn(0.75)(grilly.tensor(1.0), grilly.tensor(5.0), 1).item()
    2.0
    """
    if not 0.0 <= decay <= 1.0:
        raise ValueError(f"decay: expected a number from 0 to 1; received {decay}.")

    def ema(averaged: Tensor, current: Tensor, num_averaged: Any) -> Tensor:
        result: Tensor = averaged * decay + current * (1.0 - decay)
        return result

    return ema


def get_swa_avg_fn() -> Average:
    """Return the rule of an equally weighted average.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> from grilly_core.optim.swa_utils import get_swa_avg_fn
    >>> get_swa_avg_fn()(grilly.tensor(1.0), grilly.tensor(5.0), 3).item()
    2.0
    """

    def swa(averaged: Tensor, current: Tensor, num_averaged: Any) -> Tensor:
        result: Tensor = averaged + (current - averaged) / (num_averaged + 1)
        return result

    return swa


def get_ema_multi_avg_fn(decay: float = 0.999) -> MultiAverage:
    """Return `get_ema_avg_fn`'s rule for lists of tensors, which it writes to.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> from grilly_core.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
    >>> ema = AveragedModel(grilly.nn.Linear(2, 1), multi_avg_fn=get_ema_multi_avg_fn(0.99))
    """
    return _for_lists(get_ema_avg_fn(decay))


def get_swa_multi_avg_fn() -> MultiAverage:
    """Return `get_swa_avg_fn`'s rule for lists of tensors, which it writes to.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> from grilly_core.optim.swa_utils import get_swa_multi_avg_fn
    >>> average = grilly.tensor([1.0])
    >>> get_swa_multi_avg_fn()([average], [grilly.tensor([5.0])], 3)
    >>> average.tolist()
    [2.0]
    """
    return _for_lists(get_swa_avg_fn())


def _for_lists(rule: Average) -> MultiAverage:
    def update(averaged: Sequence[Tensor], current: Sequence[Tensor], num_averaged: Any) -> None:
        with no_grad():
            for a, c in zip(averaged, current, strict=True):
                a.copy_(rule(a, c, num_averaged).to(a.dtype))

    return update


class AveragedModel(Module):
    """A copy of a model whose parameters are averages over training.

    `update_parameters` first copies, then averages; the decision is taken on the device, so that it can stand in a
    captured step (give this model in ``state``).

    Parameters
    ----------
    model : Module
    device : Device or str, optional
        Where the averages lie; by default beside the model's parameters.
    avg_fn : callable, optional
        ``avg_fn(averaged, current, num_averaged)`` returns the new average of one tensor; equal weights by default.
    multi_avg_fn : callable, optional
        Instead, a function that writes to the averages in a list of tensors of one device and dtype.
    use_buffers : bool
        Average buffers too; otherwise they are copied, and `update_bn` can compute the statistics of batch norms.

    Attributes
    ----------
    module : Module
        The averaged model.
    n_averaged : Tensor
        How many models were averaged.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> from grilly_core.optim.swa_utils import AveragedModel
    >>> model = grilly.nn.Linear(1, 1, bias=False)
    >>> averaged = AveragedModel(model)
    >>> for value in (1.0, 2.0, 6.0):
    ...     _ = grilly.nn.init.constant_(model.weight, value)
    ...     averaged.update_parameters(model)
    >>> averaged(grilly.ones((1, 1))).item()
    3.0
    """

    n_averaged: Tensor

    def __init__(
        self,
        model: Module,
        device: Device | str | None = None,
        avg_fn: Average | None = None,
        multi_avg_fn: MultiAverage | None = None,
        use_buffers: bool = False,
    ) -> None:
        super().__init__()
        if avg_fn is not None and multi_avg_fn is not None:
            raise ValueError("avg_fn and multi_avg_fn: give at most one of them.")
        self.module = copy.deepcopy(model)
        if device is not None:
            self.module.to(device=device)
        first = next((p for p in self.module.parameters()), None)
        where_ = device if device is not None else None if first is None else first.device
        self.register_buffer("n_averaged", zeros((), dtype=dtypes.int64, device=where_))
        self.avg_fn = avg_fn
        self.multi_avg_fn = multi_avg_fn
        self.use_buffers = use_buffers

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Run the averaged model."""
        return self.module(*args, **kwargs)

    def update_parameters(self, model: Module) -> None:
        """Take the present parameters of a model into the averages."""
        own: list[Tensor] = list(self.module.parameters())
        other: list[Tensor] = list(model.parameters())
        own_buffers, other_buffers = list(self.module.buffers()), list(model.buffers())
        if self.use_buffers:
            own, other = own + own_buffers, other + other_buffers
        with no_grad():
            places: dict[Any, list[tuple[Tensor, Tensor]]] = {}
            for a, c in zip(own, other, strict=True):
                places.setdefault((a.device, a.dtype), []).append((a, c.detach().to(a.device)))
            for (device, _), pairs in places.items():
                self._average(pairs, self.n_averaged.to(device))
            if not self.use_buffers:
                for a, c in zip(own_buffers, other_buffers, strict=True):
                    a.copy_(c.detach().to(a.device))
            self.n_averaged.add_(1)

    def _average(self, pairs: list[tuple[Tensor, Tensor]], count: Tensor) -> None:
        averages, current = [Tensor(a._value) for a, _ in pairs], [c for _, c in pairs]
        if self.avg_fn is not None:
            rule = self.avg_fn
            averages = [rule(a, c, count) for a, c in zip(averages, current, strict=True)]
        else:
            (self.multi_avg_fn or get_swa_multi_avg_fn())(averages, current, count)
        first = count == 0
        for (cell, _), average, c in zip(pairs, averages, current, strict=True):
            cell.copy_(where(first, c.to(cell.dtype), average.to(cell.dtype)))


def update_bn(loader: Iterable[Any], model: Module, device: Device | str | None = None) -> None:
    """Compute the statistics of a model's batch norms anew, as means over the batches of a loader.

    Parameters
    ----------
    loader : iterable
        Of batches: inputs, or tuples and lists whose first element is the input.
    model : Module
    device : Device or str, optional
        Where inputs are moved to.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> from grilly_core.optim.swa_utils import update_bn
    >>> model = grilly.nn.BatchNorm1d(1)
    >>> update_bn([grilly.tensor([[1.0], [3.0]]), grilly.tensor([[5.0], [7.0]])], model)
    >>> model.running_mean.tolist()
    [4.0]
    """
    momenta: dict[_BatchNorm, float | None] = {}
    for module in model.modules():
        if isinstance(module, _BatchNorm):
            module.reset_running_stats()
            momenta[module] = module.momentum
    if not momenta:
        return
    was_training = model.training
    model.train()
    try:
        for module in momenta:
            module.momentum = None
        with no_grad():
            for batch in loader:
                input = batch[0] if isinstance(batch, list | tuple) else batch
                model(input if device is None else input.to(device))
    finally:
        for module, momentum in momenta.items():
            module.momentum = momentum
        model.train(was_training)


class SWALR(LRScheduler):
    """Go from the present rates to fixed ones, at which weights are then averaged.

    Parameters
    ----------
    optimizer : Optimizer
    swa_lr : float or list of float
        The rate at the end, for all groups or for each.
    anneal_epochs : int
    anneal_strategy : {"cos", "linear"}
    last_epoch : int

    Examples
    --------
    >>> import grilly_core as grilly
    >>> opt = grilly.optim.SGD([grilly.nn.Parameter(grilly.ones(1))], lr=1.0)
    >>> schedule = grilly.optim.swa_utils.SWALR(opt, swa_lr=0.5, anneal_epochs=2, anneal_strategy="linear")
    >>> schedule.step()
    >>> opt.param_groups[0]["lr"]
    0.75
    """

    def __init__(
        self,
        optimizer: Optimizer,
        swa_lr: float | Sequence[float],
        anneal_epochs: int = 10,
        anneal_strategy: str = "cos",
        last_epoch: int = -1,
    ) -> None:
        check_optimizer(optimizer)
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(f"anneal_strategy: expected 'cos' or 'linear'; received {anneal_strategy!r}.")
        if not isinstance(anneal_epochs, int) or anneal_epochs < 0:
            raise ValueError(
                f"anneal_epochs: expected an integer that is not negative; received {anneal_epochs!r}."
            )
        self.swa_lrs = for_groups("swa_lr", optimizer, swa_lr)
        self.anneal_epochs = anneal_epochs
        self.anneal_strategy = anneal_strategy
        super().__init__(optimizer, last_epoch)

    def _share(self, step: int) -> float:
        """Return how far the way is gone after a step."""
        t = max(0.0, min(1.0, step / max(1, self.anneal_epochs)))
        return (1.0 - math.cos(math.pi * t)) / 2.0 if self.anneal_strategy == "cos" else t

    def get_lr(self) -> list[float]:
        """Return the learning rate of each group at the present step."""
        step = self._step_count - 1
        if self.anneal_epochs == 0:
            step = max(1, step)
        before, here = self._share(step - 1), self._share(step)
        rates = []
        for lr, goal in zip(self._present(), self.swa_lrs, strict=True):
            start = goal if before == 1.0 else (lr - before * goal) / (1.0 - before)
            rates.append(goal * here + start * (1.0 - here))
        return rates
