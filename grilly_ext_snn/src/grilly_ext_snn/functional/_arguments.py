"""Reading arguments: arrays become tensors, axes and ranges are checked with a clear message."""

from __future__ import annotations

from typing import Any

from grilly_core.apply import as_tensor
from grilly_core.errors import ShapeError
from grilly_core.tensor import Tensor

__all__ = ["finite", "in_unit_interval", "steps", "tensor", "timed"]


def tensor(value: Any, like: Tensor | None = None) -> Tensor:
    """Return a value as a tensor."""
    return value if isinstance(value, Tensor) else as_tensor(value, like)


def timed(name: str, value: Any, least: int = 2) -> Tensor:
    """Return a value as a tensor ``(T, ...)`` of at least `least` axes and one step."""
    made = tensor(value)
    if made.ndim < least or made.shape[0] < 1:
        raise ShapeError(
            f"{name}: expected time as the first axis, (T, {'B, ' if least > 1 else ''}...), with at least one step; "
            f"received shape {tuple(made.shape)}."
        )
    return made


def steps(name: str, count: Any) -> int:
    """Return a number of time steps."""
    if isinstance(count, bool) or not isinstance(count, int) or count < 1:
        raise ValueError(f"{name}: the number of steps must be a positive integer; received {count!r}.")
    return count


def finite(name: str, **values: float) -> None:
    """Raise unless every constant is positive and finite."""
    for key, value in values.items():
        if not 0 < value < float("inf"):
            raise ValueError(f"{name}: {key} must be positive and finite; received {value!r}.")


def in_unit_interval(name: str, x: Tensor) -> None:
    """Raise unless every element lies in [0, 1]; reads the values."""
    if x.numel() and not bool(((x >= 0) & (x <= 1)).all().item()):
        raise ValueError(
            f"{name}: every value must lie between 0 and 1; received {float(x.detach().min().item()):.4g} to "
            f"{float(x.detach().max().item()):.4g}. Scale the data, or squash it."
        )
