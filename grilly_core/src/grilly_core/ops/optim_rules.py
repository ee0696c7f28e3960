"""What the optimiser steps share: checks, stored types, the choice to skip, bias corrections."""

from __future__ import annotations

import math

from grilly_core.errors import ShapeError
from grilly_core.ops.primitives import cast, expm1, where
from grilly_core.opspec import TensorList
from grilly_core.tensor import Tensor

__all__ = ["check_lists", "correction", "like", "unless"]


def check_lists(name: str, params: TensorList, **others: TensorList | None) -> None:
    """Raise unless every list has a tensor of the right shape for every parameter."""
    for label, tensors in others.items():
        if tensors is None:
            continue
        if len(tensors) != len(params):
            raise ShapeError(f"{name}: {len(params)} params, but {len(tensors)} {label}.")
        for i, (p, t) in enumerate(zip(params, tensors, strict=True)):
            if tuple(p.shape) != tuple(t.shape):
                raise ShapeError(
                    f"{name}: params[{i}] has shape {tuple(p.shape)}, {label}[{i}] {tuple(t.shape)}."
                )


def like(x: Tensor, like: Tensor) -> Tensor:
    """Return to the stored dtype: with half-precision parameters the arithmetic is f32, as the rate is."""
    return x if x.dtype is like.dtype else cast(x, dtype=like.dtype)


def unless(skip: Tensor | None, old: list[Tensor], new: list[Tensor]) -> tuple[Tensor, ...]:
    """Return the new values, or the old ones where the step is skipped."""
    if skip is None:
        return tuple(new)
    stays = skip != 0.0
    return tuple(where(stays, o, n) for o, n in zip(old, new, strict=True))


def correction(step: Tensor, beta: float) -> Tensor | float:
    """Return ``1 - beta**step`` without cancellation: in f32 the plain form loses four digits at step 1."""
    return 1.0 if beta == 0 else -expm1(step * math.log(beta))
