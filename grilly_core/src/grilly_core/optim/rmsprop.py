"""RMSprop and Rprop."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from grilly_core.ops.creation import full_like
from grilly_core.ops.optim import rmsprop_step, rprop_step
from grilly_core.optim.choices import check_choices
from grilly_core.optim.optimizer import Group
from grilly_core.optim.stepped import Stepped, check_not_negative
from grilly_core.tensor import Tensor

__all__ = ["RMSprop", "Rprop"]


class RMSprop(Stepped):
    """Divide by the root of a running mean of squared gradients (Hinton 2012, lecture 6).

    ``v = αv + (1−α)g²``, ``p −= lr g / (√v + ε)``; centred (Graves 2013), ``v − ḡ²`` takes the place of v, where ḡ is
    the running mean of the gradients. With momentum the quotients are summed up: ``b = μb + g/(√v + ε)``.

    Parameters
    ----------
    params : iterable of Tensor, or of dict
    lr : float
    alpha : float
        Share of the old mean that is kept.
    eps : float
        Added to the root.
    weight_decay : float
        Multiple of the parameter that is added to its gradient.
    momentum : float
        Share of the last step that is kept.
    centered : bool
        Divide by the standard deviation.
    maximize : bool
        Climb instead.
    foreach, capturable, differentiable : bool
        See `choices`: the first two change nothing, the last is refused.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> p = grilly.nn.Parameter(grilly.tensor([1.0]))
    >>> opt = grilly.optim.RMSprop([p], lr=0.1, alpha=0.75)
    >>> (p * 3.0).sum().backward()
    >>> opt.step()
    >>> round(p.item(), 4)
    0.8
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-2,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        momentum: float = 0.0,
        centered: bool = False,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_choices(foreach, capturable=capturable, differentiable=differentiable)
        defaults = {
            "lr": lr, "momentum": momentum, "alpha": alpha, "eps": eps, "centered": centered,
            "weight_decay": weight_decay, "maximize": maximize,
        }  # fmt: skip
        super().__init__(params, defaults)

    def _check_group(self, group: Group) -> None:
        super()._check_group(group)
        check_not_negative(group, "alpha", "eps", "momentum")

    def _slots(self, group: Group) -> tuple[str, ...]:
        means = ("grad_avg",) if group["centered"] else ()
        momenta = ("momentum_buffer",) if group["momentum"] else ()
        return ("square_avg", *means, *momenta)

    def _move(
        self,
        group: Group,
        params: list[Tensor],
        grads: list[Tensor],
        slots: list[list[Tensor]],
        shared: dict[str, Tensor],
        lr: Tensor,
    ) -> None:
        by_name = dict(zip(self._slots(group), slots, strict=True))
        moved = rmsprop_step(
            params, grads, slots[0], by_name.get("grad_avg"), by_name.get("momentum_buffer"), lr, self._skip,
            alpha=group["alpha"], eps=group["eps"], momentum=group["momentum"], weight_decay=group["weight_decay"],
            maximize=group["maximize"],
        )  # fmt: skip
        self._assign(params, slots, moved)


class Rprop(Stepped):
    """Move every element by a step size of its own, along the gradient's sign (Riedmiller and Braun 1993).

    The size grows while the sign stays and shrinks where it changes; there the element rests for one step.

    Parameters
    ----------
    params : iterable of Tensor, or of dict
    lr : float
        The first step size.
    etas : (float, float)
        What the size is multiplied by where the sign changed, and where it stayed.
    step_sizes : (float, float)
        The least and the largest size.
    maximize : bool
        Climb instead.
    foreach, capturable, differentiable : bool
        See `choices`: the first two change nothing, the last is refused.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> p = grilly.nn.Parameter(grilly.tensor([1.0]))
    >>> opt = grilly.optim.Rprop([p], lr=0.1)
    >>> (p * 3.0).sum().backward()
    >>> opt.step()
    >>> round(p.item(), 4)
    0.9
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-2,
        etas: tuple[float, float] = (0.5, 1.2),
        step_sizes: tuple[float, float] = (1e-6, 50.0),
        *,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_choices(foreach, capturable=capturable, differentiable=differentiable)
        defaults = {"lr": lr, "etas": tuple(etas), "step_sizes": tuple(step_sizes), "maximize": maximize}
        super().__init__(params, defaults)

    def _check_group(self, group: Group) -> None:
        super()._check_group(group)
        shrink, grow = group["etas"]
        if not 0.0 < shrink < 1.0 < grow:
            raise ValueError(
                f"etas: expected one number in (0, 1) and one above 1; received {group['etas']!r}."
            )
        least, largest = group["step_sizes"]
        if not 0.0 <= least <= largest:
            raise ValueError(f"step_sizes: expected two sizes in order; received {group['step_sizes']!r}.")

    def _slots(self, group: Group) -> tuple[str, ...]:
        return ("prev", "step_size")

    def _filled(self, name: str, params: list[Tensor], group: Group) -> list[Tensor]:
        start = float(group["lr"]) if name == "step_size" else 0.0
        return [full_like(p, start) for p in params]

    def _move(
        self,
        group: Group,
        params: list[Tensor],
        grads: list[Tensor],
        slots: list[list[Tensor]],
        shared: dict[str, Tensor],
        lr: Tensor,
    ) -> None:
        (shrink, grow), (smallest, largest) = group["etas"], group["step_sizes"]
        moved = rprop_step(
            params, grads, slots[0], slots[1], self._skip, shrink=shrink, grow=grow, smallest=smallest, largest=largest,
            maximize=group["maximize"],
        )  # fmt: skip
        self._assign(params, slots, moved)
