"""Reading arguments: arrays become tensors, one number serves all axes, `dim` and `axis` mean the same."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from grilly_core.apply import as_tensor
from grilly_core.dtypes import as_dtype
from grilly_core.errors import ShapeError
from grilly_core.tensor import Tensor

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Size", "TensorLike", "batched", "one_axis", "per_axis", "reduced", "tensor"]

TensorLike: TypeAlias = "Tensor | NDArray[Any] | Sequence[Any] | complex"
Size: TypeAlias = int | Sequence[int]


def tensor(value: Any, dtype: Any = None, like: Tensor | None = None) -> Tensor:
    """Return `value` as a tensor, cast to `dtype` if one is given."""
    made = value if isinstance(value, Tensor) else as_tensor(value, like)
    if dtype is None:
        return made
    wanted = as_dtype(dtype)
    return made if made.dtype is wanted else made.to(wanted)


def one_axis(dim: int | None, axis: int | None, default: int = -1) -> int:
    """Return the axis that `dim` or its alias `axis` names."""
    if dim is not None and axis is not None and dim != axis:
        raise TypeError(f"dim={dim} and axis={axis} mean the same; give one of them.")
    chosen = axis if dim is None else dim
    return default if chosen is None else chosen


def per_axis(value: Size, axes: int, name: str, least: int = 1) -> tuple[int, ...]:
    """Return one integer for each of `axes` axes, at least `least`.

    Examples
    --------
    >>> per_axis(3, 2, "kernel_size")
    (3, 3)
    """
    sizes = (value,) * axes if isinstance(value, int) else tuple(value)
    if len(sizes) == 1:
        sizes = sizes * axes
    if len(sizes) != axes or not all(isinstance(n, int) for n in sizes):
        raise ShapeError(f"{name}: expected an integer or {axes} integers; received {value!r}.")
    if any(n < least for n in sizes):
        raise ShapeError(f"{name}: every number must be at least {least}; received {value!r}.")
    return sizes


def batched(x: Tensor, axes: int, name: str) -> tuple[Tensor, bool]:
    """Return x as ``(N, C, *S)``, and whether the batch axis had to be added."""
    if x.ndim == axes + 1:
        return x.unsqueeze(0), True
    if x.ndim != axes + 2:
        raise ShapeError(
            f"{name}: expected an input of {axes + 2} axes (N, C, ...) or {axes + 1} without the batch; "
            f"received shape {tuple(x.shape)}."
        )
    return x, False


def reduced(values: Tensor, reduction: str) -> Tensor:
    """Return the mean, the sum or the values themselves."""
    if reduction == "mean":
        return values.mean()
    if reduction == "sum":
        return values.sum()
    if reduction != "none":
        raise ValueError(f"reduction: expected 'none', 'mean' or 'sum'; received {reduction!r}.")
    return values
