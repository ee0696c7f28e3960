"""Work on all parameters at once: clipping gradients, and one vector of everything."""

from __future__ import annotations

import math
from collections.abc import Iterable

from grilly_core.config import no_grad
from grilly_core.errors import ShapeError
from grilly_core.ops.creation import zeros
from grilly_core.ops.structure import concat
from grilly_core.tensor import Tensor

__all__ = [
    "clip_grad_norm_", "clip_grad_value_", "get_total_norm", "parameters_to_vector", "vector_to_parameters",
]  # fmt: skip


def _listed(parameters: Tensor | Iterable[Tensor]) -> list[Tensor]:
    return [parameters] if isinstance(parameters, Tensor) else list(parameters)


def get_total_norm(
    tensors: Tensor | Iterable[Tensor], norm_type: float = 2.0, error_if_nonfinite: bool = False
) -> Tensor:
    """Return the p-norm of all elements of all tensors together.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.nn.utils.get_total_norm([grilly.tensor([3.0]), grilly.tensor([4.0])]).item()
    5.0
    """
    given = _listed(tensors)
    if not given:
        return zeros(())
    p = float(norm_type)
    with no_grad():
        if math.isinf(p):
            largest = [t.abs().amax() for t in given]
            total = largest[0]
            for other in largest[1:]:
                total = total.maximum(other)
        elif p == 2.0:
            total = sum((t * t).sum() for t in given).sqrt()  # type: ignore[union-attr]
        else:
            total = sum((t.abs() ** p).sum() for t in given) ** (1.0 / p)
    if error_if_nonfinite and not math.isfinite(total.item()):
        raise RuntimeError(
            f"the total norm of order {norm_type} is {total.item()}; a gradient is not finite."
        )
    return total


def clip_grad_norm_(
    parameters: Tensor | Iterable[Tensor],
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
) -> Tensor:
    """Scale all gradients so that their common norm is at most `max_norm`.

    Parameters
    ----------
    parameters : Tensor or iterable of Tensor
    max_norm : float
    norm_type : float
        ``math.inf`` is the largest absolute element.
    error_if_nonfinite : bool
        Raise if the norm is infinite or NaN.

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
    with_grad = [p for p in _listed(parameters) if p.grad is not None]
    grads = [p.grad for p in with_grad if p.grad is not None]
    total = get_total_norm(grads, norm_type, error_if_nonfinite)
    with no_grad():
        scale = (float(max_norm) / (total + 1e-6)).clamp(max=1.0)
        for p, g in zip(with_grad, grads, strict=True):
            p.grad = g * scale
    return total


def clip_grad_value_(parameters: Tensor | Iterable[Tensor], clip_value: float) -> None:
    """Clip every element of all gradients to ``[-clip_value, clip_value]``.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> p = grilly.nn.Parameter(grilly.ones(1))
    >>> (p * 7.0).sum().backward()
    >>> grilly.nn.utils.clip_grad_value_(p, 1.0)
    >>> p.grad.tolist()
    [1.0]
    """
    if clip_value < 0:
        raise ValueError(f"clip_value must not be negative; received {clip_value}.")
    with no_grad():
        for p in _listed(parameters):
            if p.grad is not None:
                p.grad = p.grad.clamp(-float(clip_value), float(clip_value))


def parameters_to_vector(parameters: Iterable[Tensor]) -> Tensor:
    """Return all elements of all parameters in one vector, through which gradients flow.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.nn.utils.parameters_to_vector(grilly.nn.Linear(2, 3).parameters()).shape
    (9,)
    """
    vector: Tensor = concat([p.reshape((p.numel(),)) for p in parameters], axis=0)
    return vector


def vector_to_parameters(vec: Tensor, parameters: Iterable[Tensor]) -> None:
    """Write the elements of one vector back to parameters, in order.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> layer = grilly.nn.Linear(1, 1)
    >>> grilly.nn.utils.vector_to_parameters(grilly.tensor([2.0, 3.0]), layer.parameters())
    >>> layer.bias.tolist()
    [3.0]
    """
    listed = list(parameters)
    wanted = sum(p.numel() for p in listed)
    if tuple(vec.shape) != (wanted,):
        raise ShapeError(
            f"vector_to_parameters: expected a vector of {wanted} elements; received {tuple(vec.shape)}."
        )
    start = 0
    with no_grad():
        for p in listed:
            p.copy_(vec[start : start + p.numel()].reshape(p.shape))
            start += p.numel()
