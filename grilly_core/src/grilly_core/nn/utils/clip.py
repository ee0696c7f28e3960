"""Clipping gradients, by their common norm and by value.

`foreach`, PyTorch's choice between loops over tensors, is accepted and changes no result.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from grilly_core import dtypes
from grilly_core.config import no_grad
from grilly_core.ops.creation import zeros
from grilly_core.tensor import Tensor

__all__ = ["clip_grad_norm_", "clip_grad_value_", "clip_grads_with_norm_", "get_total_norm"]


def _listed(parameters: Tensor | Iterable[Tensor], foreach: bool | None) -> list[Tensor]:
    if not (foreach is None or isinstance(foreach, bool)):
        raise TypeError(f"foreach: expected a bool or None; received {foreach!r}.")
    return [parameters] if isinstance(parameters, Tensor) else list(parameters)


def _power_sum(t: Tensor, p: float) -> Tensor:
    """Return the sum of the p-th powers of the absolute values (the largest for infinity), in float32 at least."""
    wide: Tensor = t.to(dtypes.float32) if t.dtype in (dtypes.float16, dtypes.bfloat16) else t
    if math.isinf(p):
        return wide.abs().amax() if wide.numel() else wide.abs().sum()
    return (wide * wide).sum() if p == 2.0 else (wide.abs() ** p).sum()


def get_total_norm(
    tensors: Tensor | Iterable[Tensor],
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """Return the p-norm of all elements of all tensors together, on the device of the first.

    Parameters
    ----------
    tensors : Tensor or iterable of Tensor
    norm_type : float
        Positive; ``math.inf`` is the largest absolute element.
    error_if_nonfinite : bool
        Raise if the norm is infinite or NaN. This reads it on the host.
    foreach : bool, optional
        Changes nothing.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.nn.utils.get_total_norm([grilly.tensor([3.0]), grilly.tensor([4.0])]).item()
    5.0
    """
    given = _listed(tensors, foreach)
    p = float(norm_type)
    if not p > 0.0:
        raise ValueError(f"norm_type: must be positive; received {norm_type}.")
    if not given:
        return zeros(())
    with no_grad():
        total = _power_sum(given[0], p)
        for t in given[1:]:
            part = _power_sum(t, p).to(total.device)
            total = total.maximum(part) if math.isinf(p) else total + part
        if not math.isinf(p):
            total = total.sqrt() if p == 2.0 else total ** (1.0 / p)
    if error_if_nonfinite and not math.isfinite(total.item()):
        raise RuntimeError(
            f"the total norm of order {norm_type} is {total.item()}; a gradient is not finite."
        )
    return total


def clip_grads_with_norm_(
    parameters: Tensor | Iterable[Tensor], max_norm: float, total_norm: Tensor, foreach: bool | None = None
) -> None:
    """Scale all gradients by ``max_norm / total_norm`` where that is below 1.

    Parameters
    ----------
    parameters : Tensor or iterable of Tensor
    max_norm : float
    total_norm : Tensor
        As `get_total_norm` returns it.
    foreach : bool, optional
        Changes nothing.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> p = grilly.nn.Parameter(grilly.ones(1))
    >>> (p * 7.0).sum().backward()
    >>> grilly.nn.utils.clip_grads_with_norm_(p, 1.0, grilly.tensor(2.0))
    >>> round(p.grad.item(), 4)
    3.5
    """
    with no_grad():
        scale = (float(max_norm) / (total_norm + 1e-6)).clamp(max=1.0)
        for p in _listed(parameters, foreach):
            if p.grad is not None:
                p.grad = (p.grad * scale.to(p.grad.device)).to(p.grad.dtype)


def clip_grad_norm_(
    parameters: Tensor | Iterable[Tensor],
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """Scale all gradients so that their common norm is at most `max_norm`.

    Parameters
    ----------
    parameters : Tensor or iterable of Tensor
    max_norm : float
    norm_type : float
        Positive; ``math.inf`` is the largest absolute element.
    error_if_nonfinite : bool
        Raise if the norm is infinite or NaN. This reads it on the host.
    foreach : bool, optional
        Changes nothing.

    Returns
    -------
    Tensor
        The norm before.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> p = grilly.nn.Parameter(grilly.ones(2))
    >>> (p * grilly.tensor([3.0, 4.0])).sum().backward()
    >>> grilly.nn.utils.clip_grad_norm_(p, 1.0).item(), [round(g, 3) for g in p.grad.tolist()]
    (5.0, [0.6, 0.8])
    """
    listed = _listed(parameters, foreach)
    total = get_total_norm([p.grad for p in listed if p.grad is not None], norm_type, error_if_nonfinite)
    clip_grads_with_norm_(listed, max_norm, total)
    return total


def clip_grad_value_(
    parameters: Tensor | Iterable[Tensor], clip_value: float, foreach: bool | None = None
) -> None:
    """Clip every element of all gradients to ``[-clip_value, clip_value]``.

    Parameters
    ----------
    parameters : Tensor or iterable of Tensor
    clip_value : float
    foreach : bool, optional
        Changes nothing.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> p = grilly.nn.Parameter(grilly.ones(1))
    >>> (p * 7.0).sum().backward()
    >>> grilly.nn.utils.clip_grad_value_(p, 1.0)
    >>> p.grad.tolist()
    [1.0]
    """
    if not clip_value >= 0:
        raise ValueError(f"clip_value must not be negative; received {clip_value}.")
    with no_grad():
        for p in _listed(parameters, foreach):
            if p.grad is not None:
                p.grad = p.grad.clamp(-float(clip_value), float(clip_value))
