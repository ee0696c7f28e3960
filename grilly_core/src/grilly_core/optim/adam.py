"""Adam and AdamW."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from grilly_core.ops.creation import zeros
from grilly_core.ops.optim import adam_step
from grilly_core.optim.optimizer import Group, Optimizer, _step_dtype, assign, zeros_for
from grilly_core.tensor import Tensor

__all__ = ["Adam", "AdamW"]


class Adam(Optimizer):
    """Adam (Kingma and Ba 2015), with L2 decay in the gradient.

    Parameters
    ----------
    params : iterable of Tensor, or of dict
    lr : float
    betas : (float, float)
        Shares of the old first and second moment that are kept.
    eps : float
        Added to the root of the second moment.
    weight_decay : float
        Multiple of the parameter that is added to its gradient; see `AdamW` for the decoupled form.
    amsgrad : bool
        Divide by the largest second moment so far (Reddi et al. 2018).
    maximize : bool
        Climb instead.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> p = grilly.nn.Parameter(grilly.tensor([1.0]))
    >>> opt = grilly.optim.Adam([p], lr=0.1)
    >>> (p * 3.0).sum().backward()
    >>> opt.step()
    >>> round(p.item(), 4)
    0.9
    """

    _decoupled = False

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        amsgrad: bool = False,
        *,
        maximize: bool = False,
    ) -> None:
        defaults = {
            "lr": lr, "betas": tuple(betas), "eps": eps, "weight_decay": weight_decay, "amsgrad": amsgrad,
            "maximize": maximize,
        }  # fmt: skip
        # How many parameters share a step counter: those that always moved together share one.
        self._sharers: Counter[Tensor] = Counter()
        super().__init__(params, defaults)

    def _check_group(self, group: Group) -> None:
        super()._check_group(group)
        betas = group["betas"]
        if len(betas) != 2 or not all(0.0 <= b < 1.0 for b in betas):
            raise ValueError(f"betas: expected two numbers in [0, 1); received {betas!r}.")
        if not group["eps"] >= 0.0:
            raise ValueError(f"eps: must not be negative; received {group['eps']}.")

    def _update(self, group: Group, params: list[Tensor], grads: list[Tensor], lr: Tensor) -> None:
        self._begin([p for p in params if p not in self.state], group["amsgrad"])
        cohorts: dict[int, list[int]] = {}
        for i, p in enumerate(params):
            cohorts.setdefault(id(self.state[p]["step"]), []).append(i)
        for chosen in cohorts.values():
            whole = len(chosen) == len(params)
            some = params if whole else [params[i] for i in chosen]
            self._move(group, some, grads if whole else [grads[i] for i in chosen], lr)

    def _begin(self, params: list[Tensor], amsgrad: bool) -> None:
        """Make the state of parameters that move for the first time."""
        if not params:
            return
        step = zeros((), dtype=_step_dtype(params[0]), device=params[0].device)
        self._sharers[step] = len(params)
        for p, m, v in zip(params, zeros_for(params), zeros_for(params), strict=True):
            self.state[p] = {"step": step, "exp_avg": m, "exp_avg_sq": v}
        if amsgrad:
            for p, top in zip(params, zeros_for(params), strict=True):
                self.state[p]["max_exp_avg_sq"] = top

    def _counter(self, params: list[Tensor]) -> Tensor:
        """Return the step counter of parameters that share one, their own if others stay behind."""
        step: Tensor = self.state[params[0]]["step"]
        if self._sharers[step] == len(params):
            return step
        self._sharers[step] -= len(params)
        own = Tensor(step._value)
        self._sharers[own] = len(params)
        for p in params:
            self.state[p]["step"] = own
        return own

    def _takes_skip(self) -> bool:
        return True

    def _move(self, group: Group, params: list[Tensor], grads: list[Tensor], lr: Tensor) -> None:
        step = self._counter(params)
        step._value = (step + 1.0 if self._skip is None else step + (self._skip == 0.0).to(step.dtype))._value
        states = [self.state[p] for p in params]
        ms, vs = [s["exp_avg"] for s in states], [s["exp_avg_sq"] for s in states]
        tops = [s["max_exp_avg_sq"] for s in states] if group["amsgrad"] else None
        beta1, beta2 = group["betas"]
        moved = adam_step(
            params, grads, ms, vs, tops, lr, step, self._skip, beta1=beta1, beta2=beta2, eps=group["eps"],
            weight_decay=group["weight_decay"], decoupled=self._decoupled, maximize=group["maximize"],
        )  # fmt: skip
        assign([*params, *ms, *vs, *(tops or ())], moved)

    def _after_load(self) -> None:
        """Share counters again between the parameters of one group that stand at the same step."""
        self._sharers.clear()
        for group in self.param_groups:
            shared: dict[Any, Tensor] = {}
            for p in group["params"]:
                if p in self.state:
                    step: Tensor = self.state[p]["step"]
                    key = (step.item(), step.device, step.dtype, p.dtype)
                    step = self.state[p]["step"] = shared.setdefault(key, step)
                    self._sharers[step] += 1


class AdamW(Adam):
    """Adam with decoupled weight decay (Loshchilov and Hutter 2019).

    Parameters
    ----------
    params : iterable of Tensor, or of dict
    lr : float
    betas : (float, float)
    eps : float
    weight_decay : float
        Share of the parameter that is taken off per step, times the learning rate.
    amsgrad : bool
    maximize : bool

    Examples
    --------
    >>> import grilly_core as grilly
    >>> model = grilly.nn.Linear(2, 1)
    >>> opt = grilly.optim.AdamW(model.parameters(), lr=0.01)
    >>> model(grilly.ones((1, 2))).sum().backward()
    >>> opt.step()
    """

    _decoupled = True

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        amsgrad: bool = False,
        *,
        maximize: bool = False,
    ) -> None:
        super().__init__(params, lr, betas, eps, weight_decay, amsgrad, maximize=maximize)
