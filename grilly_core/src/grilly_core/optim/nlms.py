"""Normalised least mean squares."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from grilly_core.apply import as_tensor
from grilly_core.config import no_grad
from grilly_core.ops.optim import nlms_step
from grilly_core.optim.optimizer import Group, Optimizer, assign
from grilly_core.optim.stepped import check_not_negative
from grilly_core.tensor import Tensor

__all__ = ["NLMS"]


class NLMS(Optimizer):
    """Normalised least mean squares for linear layers (Haykin, Adaptive Filter Theory, chapter 6).

    ``W += μ e xᵀ / (ε + ‖x‖²)`` and ``b += μ e / (ε + ‖x‖²)``, the mean over the rows of a batch, where e is what is
    wanted minus what is predicted. It needs inputs and errors instead of gradients. The rate is in ``group["lr"]``;
    after every step it is multiplied by `lr_decay`, down to `lr_min`.

    Parameters
    ----------
    params : iterable of Tensor, or of dict
        For each group a weight of shape ``(out, in)`` and, if wanted, a bias of shape ``(out,)``.
    lr : float
        Stable between 0 and 2.
    lr_decay : float
    lr_min : float
    eps : float
        Added to the power of the input.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> layer, x = grilly.nn.Linear(2, 1, bias=False), grilly.tensor([[3.0, 4.0]])
    >>> opt = grilly.optim.NLMS(layer.parameters(), lr=1.0, eps=0.0)
    >>> opt.step(x=x, error=5.0 - layer(x).detach())
    >>> round(layer(x).item(), 4)
    5.0
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 0.5,
        lr_decay: float = 0.99995,
        lr_min: float = 0.1,
        eps: float = 1e-6,
    ) -> None:
        super().__init__(params, {"lr": lr, "lr_decay": lr_decay, "lr_min": lr_min, "eps": eps})

    def _check_group(self, group: Group) -> None:
        super()._check_group(group)
        check_not_negative(group, "lr_min", "eps")
        if not 0.0 < group["lr"] < 2.0:
            raise ValueError(f"lr: expected a number between 0 and 2; received {group['lr']}.")
        if not 0.0 < group["lr_decay"] <= 1.0:
            raise ValueError(f"lr_decay: expected a number in (0, 1]; received {group['lr_decay']}.")
        shapes = [tuple(p.shape) for p in group["params"]]
        whole = len(shapes) in (1, 2) and len(shapes[0]) == 2 and shapes[1:] in ([], [shapes[0][:1]])
        if not whole:
            raise ValueError(
                f"params: expected a weight (out, in) and at most a bias (out,) in each group; received {shapes}."
            )

    def step(self, closure: Any = None, gradients: Any = None, *, x: Any = None, error: Any = None) -> Any:
        """Move the parameters of every group.

        Parameters
        ----------
        closure : callable, optional
            Called first, and must return ``(x, error)``, which is then this method's result.
        gradients : None
            Refused: the rule is one of inputs and errors.
        x : array_like
            Inputs of shape ``(n, in)`` or ``(in,)``; a list of them if there are several groups.
        error : array_like
            Wanted minus predicted outputs, ``(n, out)`` or ``(out,)``; a list as for `x`.
        """
        if gradients is not None:
            raise TypeError("NLMS.step: gradients are not used; give x and error.")
        result = None
        if closure is not None:
            result = x, error = closure()
        if x is None or error is None:
            raise TypeError("NLMS.step: needs x and error, the inputs and what is wanted minus predicted.")
        groups = self.param_groups
        xs, errors = (x, error) if len(groups) > 1 else ([x], [error])
        if len(xs) != len(groups) or len(errors) != len(groups):
            raise ValueError(f"NLMS.step: {len(groups)} groups need as many inputs and errors.")
        with no_grad():
            for index, (group, row, missed) in enumerate(zip(groups, xs, errors, strict=True)):
                self._adapt(index, group, row, missed)
        self._decay()
        return result

    def _adapt(self, index: int, group: Group, x: Any, error: Any) -> None:
        weight, *bias = group["params"]
        spec = weight._value.spec
        x, error = _rows(as_tensor(x, weight)), _rows(as_tensor(error, weight))
        rate = self._rate(index, group, (spec.context, spec.dtype))
        moved = nlms_step(weight, bias[0] if bias else None, x, error, rate, eps=group["eps"])
        assign(group["params"], moved)

    def _decay(self) -> None:
        for group in self.param_groups:
            group["lr"] = max(group["lr"] * group["lr_decay"], min(group["lr_min"], group["lr"]))

    def after_replay(self) -> None:
        """Let the rates fall as the step that was replayed did."""
        self._decay()


def _rows(value: Tensor) -> Tensor:
    detached: Tensor = value.detach()
    return detached.reshape((1, -1)) if detached.ndim == 1 else detached
