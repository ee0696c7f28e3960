"""All parameters as one vector."""

from __future__ import annotations

from collections.abc import Iterable

from grilly_core.config import no_grad
from grilly_core.errors import ShapeError
from grilly_core.ops.structure import concat
from grilly_core.tensor import Tensor

__all__ = ["parameters_to_vector", "vector_to_parameters"]


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
