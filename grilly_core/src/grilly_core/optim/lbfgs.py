"""Limited-memory BFGS."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from grilly_core.apply import as_tensor
from grilly_core.config import enable_grad, no_grad
from grilly_core.ops.creation import zeros_like
from grilly_core.ops.manipulate import concat
from grilly_core.optim.line_search import Point, strong_wolfe
from grilly_core.optim.optimizer import Group, Optimizer, OptimizerStateError, check_parts
from grilly_core.optim.stepped import check_not_negative
from grilly_core.tensor import Tensor

__all__ = ["LBFGS"]

#: Pairs whose curvature is smaller are not remembered, so that the approximation stays positive definite.
_LEAST_CURVATURE = 1e-10


@dataclass(slots=True)
class _Memory:
    """What is remembered between steps: the last pairs of gradient and parameter differences, and the last move."""

    func_evals: int = 0
    n_iter: int = 0
    d: Tensor | None = None
    t: float = 1.0
    old_dirs: list[Tensor] = field(default_factory=list)
    old_stps: list[Tensor] = field(default_factory=list)
    ro: list[float] = field(default_factory=list)
    H_diag: float = 1.0
    prev_flat_grad: Tensor | None = None
    prev_loss: float | None = None


class LBFGS(Optimizer):
    """Limited-memory BFGS (Liu and Nocedal 1989), with an optional line search for the strong Wolfe conditions.

    A step calls the closure several times; decisions are taken on the host, so it cannot be captured. There is one
    group of parameters, all on one device and of one dtype.

    Parameters
    ----------
    params : iterable of Tensor
    lr : float
        Length of a move; with a line search, its first trial.
    max_iter : int
        Moves per step.
    max_eval : int, optional
        Calls of the closure per step, by default 1.25 times `max_iter`.
    tolerance_grad : float
        Stop when no element of the gradient is larger.
    tolerance_change : float
        Stop when neither the loss nor any parameter moves further.
    history_size : int
        How many pairs are remembered.
    line_search_fn : {None, "strong_wolfe"}

    Examples
    --------
    >>> import grilly_core as grilly
    >>> p = grilly.nn.Parameter(grilly.tensor([3.0, -4.0]))
    >>> opt = grilly.optim.LBFGS([p], line_search_fn="strong_wolfe")
    >>> def closure():
    ...     opt.zero_grad()
    ...     loss = (p**4 + p**2).sum()
    ...     loss.backward()
    ...     return loss
    >>> opt.step(closure).item()
    362.0
    >>> closure().item() < 1e-6
    True
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1,
        max_iter: int = 20,
        max_eval: int | None = None,
        tolerance_grad: float = 1e-7,
        tolerance_change: float = 1e-9,
        history_size: int = 100,
        line_search_fn: str | None = None,
    ) -> None:
        defaults = {
            "lr": lr, "max_iter": max_iter, "max_eval": max_iter * 5 // 4 if max_eval is None else max_eval,
            "tolerance_grad": tolerance_grad, "tolerance_change": tolerance_change, "history_size": history_size,
            "line_search_fn": line_search_fn,
        }  # fmt: skip
        self._memory = _Memory()
        super().__init__(params, defaults)

    def add_param_group(self, param_group: Group) -> None:
        """Set the one group.

        Raises
        ------
        ValueError
            If there is one already, or its parameters lie on several devices or have several dtypes.
        """
        if self.param_groups:
            raise ValueError("LBFGS: there can be one group of parameters only.")
        super().add_param_group(param_group)
        places = {(p.device, p.dtype) for p in self._parameters()}
        if len(places) > 1 or not all(p.dtype.is_floating for p in self._parameters()):
            raise ValueError(
                f"LBFGS: expected real parameters on one device and of one dtype; received {places}."
            )

    def _check_group(self, group: Group) -> None:
        super()._check_group(group)
        check_not_negative(group, "max_iter", "max_eval", "tolerance_grad", "tolerance_change")
        if not group["history_size"] >= 1:
            raise ValueError(f"history_size: must be at least 1; received {group['history_size']}.")
        if group["line_search_fn"] not in (None, "strong_wolfe"):
            raise ValueError(
                f"line_search_fn: expected None or 'strong_wolfe'; received {group['line_search_fn']!r}."
            )

    def step(
        self, closure: Callable[[], Any] | None = None, gradients: Mapping[Tensor, Any] | None = None
    ) -> Any:
        """Make up to `max_iter` moves; returns the loss before the first.

        Parameters
        ----------
        closure : callable
            Computes the loss and its gradients anew.
        gradients : None
            Refused, since they would be needed at places that are not known yet.
        """
        if closure is None or gradients is not None:
            raise TypeError("LBFGS.step: needs a closure that computes the loss and calls backward().")
        with enable_grad():
            result = closure()
        with no_grad():
            _Step(self, closure, float(result)).run()
        return result

    # -- parameters as one vector ------------------------------------------------------------------------------

    def _flat_grad(self) -> Tensor:
        parts = [(zeros_like(p) if p.grad is None else p.grad).reshape((-1,)) for p in self._parameters()]
        flat: Tensor = concat(parts, axis=0)
        return flat

    def _add(self, t: float, d: Tensor) -> None:
        start = 0
        for p in self._parameters():
            p.add_(d[start : start + p.numel()].reshape(p.shape) * t)
            start += p.numel()

    # -- state ---------------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Return what is remembered, at the first parameter as in PyTorch, and the group."""
        made = super().state_dict()
        if self._memory.func_evals:
            content = {name: getattr(self._memory, name) for name in _Memory.__slots__}
            made["state"] = {0: {k: list(v) if isinstance(v, list) else v for k, v in content.items()}}
        return made

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Take over a state; everything is checked first.

        Raises
        ------
        OptimizerStateError
            (a ``ValueError``) if the state belongs to another list of parameters.
        """
        check_parts(state_dict)
        content = dict(state_dict["state"].get(0, {}))
        size = sum(p.numel() for p in self._parameters())
        vectors = [content.get("d"), content.get("prev_flat_grad")]
        vectors += [*(content.get("old_dirs") or []), *(content.get("old_stps") or [])]
        for v in vectors:
            if v is not None and tuple(v.shape) != (size,):
                raise OptimizerStateError(
                    f"the parameters have {size} elements, a vector of the state {tuple(v.shape)}; nothing was loaded."
                )
        super().load_state_dict({**state_dict, "state": {}})
        self._memory = self._remembered(content)

    def _remembered(self, content: dict[str, Any]) -> _Memory:
        like = self._parameters()[0]

        def vector(value: Any) -> Tensor | None:
            if value is None:
                return None
            made = value if isinstance(value, Tensor) else as_tensor(value, dtype=like.dtype)
            return Tensor(made.detach().to(like.device, like.dtype)._value)

        memory = _Memory()
        for name in ("d", "prev_flat_grad"):
            setattr(memory, name, vector(content.get(name)))
        for name in ("old_dirs", "old_stps"):
            setattr(memory, name, [vector(v) for v in content.get(name) or []])
        memory.ro = [float(r) for r in content.get("ro") or []]
        for name, kind in (("func_evals", int), ("n_iter", int), ("t", float), ("H_diag", float)):
            if content.get(name) is not None:
                setattr(memory, name, kind(content[name]))
        loss = content.get("prev_loss")
        memory.prev_loss = None if loss is None else float(loss)
        return memory


class _Step:
    """One call of `LBFGS.step`: up to `max_iter` moves."""

    def __init__(self, optimizer: LBFGS, closure: Callable[[], Any], loss: float) -> None:
        self._optimizer = optimizer
        self._closure = closure
        self._group = optimizer.param_groups[0]
        self._memory = optimizer._memory
        self._loss = loss
        self._grad = optimizer._flat_grad()
        self._evaluations = 1
        self._memory.func_evals += 1

    def run(self) -> None:
        """Move until a condition says stop."""
        if self._converged():
            return
        memory = self._memory
        for turn in range(1, self._group["max_iter"] + 1):
            memory.n_iter += 1
            memory.d = self._direction()
            memory.prev_flat_grad, memory.prev_loss = self._grad, self._loss
            memory.t = self._first_trial()
            slope = _dot(self._grad, memory.d)
            if slope > -self._group["tolerance_change"]:
                break
            self._move(memory.d, slope, last=turn == self._group["max_iter"])
            if self._finished(memory.d, memory.t, memory.prev_loss):
                break

    def _first_trial(self) -> float:
        lr = float(self._group["lr"])
        return min(1.0, 1.0 / float(self._grad.abs().sum())) * lr if self._memory.n_iter == 1 else lr

    def _converged(self) -> bool:
        return _largest(self._grad) <= float(self._group["tolerance_grad"])

    def _finished(self, d: Tensor, t: float, before: float) -> bool:
        tolerance = float(self._group["tolerance_change"])
        return (
            self._evaluations >= int(self._group["max_eval"])
            or self._converged()
            or _largest(d * t) <= tolerance
            or abs(self._loss - before) < tolerance
        )

    def _direction(self) -> Tensor:
        """Return minus the gradient times the inverse Hessian, by the two loops (Nocedal 1980)."""
        memory = self._memory
        if memory.n_iter == 1 or memory.d is None or memory.prev_flat_grad is None:
            return -self._grad
        self._remember(self._grad - memory.prev_flat_grad, memory.d * memory.t)
        pairs = list(zip(memory.old_dirs, memory.old_stps, memory.ro, strict=True))
        q = -self._grad
        shares = []
        for y, s, r in reversed(pairs):
            share = _dot(s, q) * r
            shares.append(share)
            q = q - y * share
        direction = q * memory.H_diag
        for (y, s, r), share in zip(pairs, reversed(shares), strict=True):
            direction = direction + s * (share - _dot(y, direction) * r)
        return direction

    def _remember(self, y: Tensor, s: Tensor) -> None:
        memory = self._memory
        curvature = _dot(y, s)
        if curvature <= _LEAST_CURVATURE:
            return
        if len(memory.ro) == self._group["history_size"]:
            del memory.old_dirs[0], memory.old_stps[0], memory.ro[0]
        memory.old_dirs.append(y)
        memory.old_stps.append(s)
        memory.ro.append(1.0 / curvature)
        memory.H_diag = curvature / _dot(y, y)

    def _move(self, d: Tensor, slope: float, last: bool) -> None:
        """Go along the direction; afterwards loss and gradient are those of the new place."""
        if self._group["line_search_fn"] is not None:
            self._search(d, slope)
            return
        self._optimizer._add(self._memory.t, d)
        if not last:  # otherwise nobody would use them
            self._loss, self._grad = self._evaluated()
            self._evaluations += 1
            self._memory.func_evals += 1

    def _evaluated(self) -> tuple[float, Tensor]:
        with enable_grad():
            loss = float(self._closure())
        return loss, self._optimizer._flat_grad()

    def _search(self, d: Tensor, slope: float) -> None:
        params = self._optimizer._parameters()
        start = [p._value for p in params]

        def evaluate(t: float) -> Point:
            self._optimizer._add(t, d)
            loss, grad = self._evaluated()
            for p, value in zip(params, start, strict=True):
                p._value = value
            return Point(t, loss, grad, _dot(grad, d))

        here = Point(0.0, self._loss, self._grad, slope)
        budget = self._group["max_eval"] - self._evaluations
        best, count = strong_wolfe(
            evaluate, here, self._memory.t, _largest(d), self._group["tolerance_change"], budget
        )
        self._loss, self._grad, self._memory.t = best.value, best.grad, best.t
        self._optimizer._add(best.t, d)
        self._evaluations += count
        self._memory.func_evals += count


def _dot(a: Tensor, b: Tensor) -> float:
    return float((a * b).sum())


def _largest(x: Tensor) -> float:
    return float(x.abs().amax())
