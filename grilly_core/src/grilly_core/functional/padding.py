"""Padding in PyTorch's form: pairs from the last axis to the first."""

from __future__ import annotations

from collections.abc import Sequence

from grilly_core.errors import ShapeError
from grilly_core.functional._arguments import TensorLike, tensor
from grilly_core.ops import structure
from grilly_core.ops.views import flip, subview
from grilly_core.tensor import Tensor

__all__ = ["pad"]


def pad(input: TensorLike, pad: Sequence[int], mode: str = "constant", value: float | None = None) -> Tensor:
    """Extend a tensor at its last axes.

    Parameters
    ----------
    input : array_like
    pad : sequence of int
        (low, high) of the last axis, then of the one before it, and so on; negative numbers crop in
        ``"constant"`` mode.
    mode : {"constant", "reflect", "replicate", "circular"}
    value : float, optional
        What ``"constant"`` fills with; 0 by default.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.functional.pad(grilly.tensor([1.0, 2.0, 3.0]), (2, 1), "reflect").tolist()
    [3.0, 2.0, 1.0, 2.0, 3.0, 2.0]
    """
    x = tensor(input)
    if len(pad) % 2 or len(pad) // 2 > x.ndim:
        raise ShapeError(
            f"pad: expected (low, high) pairs for at most {x.ndim} axes of the shape {tuple(x.shape)}; "
            f"received {tuple(pad)}."
        )
    pairs = [(int(pad[i]), int(pad[i + 1])) for i in range(0, len(pad), 2)]
    if mode == "constant":
        widths = ((0, 0),) * (x.ndim - len(pairs)) + tuple(reversed(pairs))
        made: Tensor = structure.pad(x, widths=widths, value=0.0 if value is None else value)
        return made
    if value is not None:
        raise ValueError(f"pad: value has no meaning in mode {mode!r}.")
    if mode not in _EDGES:
        raise ValueError(f"pad: mode is 'constant', 'reflect', 'replicate' or 'circular'; received {mode!r}.")
    for i, (low, high) in enumerate(pairs):
        if low or high:
            x = _extended(x, x.ndim - 1 - i, low, high, mode)
    return x


def _cut(x: Tensor, axis: int, start: int, size: int) -> Tensor:
    starts = tuple(start if i == axis else 0 for i in range(x.ndim))
    sizes = tuple(size if i == axis else n for i, n in enumerate(x.shape))
    cut: Tensor = subview(x, starts=starts, sizes=sizes, steps=(1,) * x.ndim)
    return cut


def _reflect(x: Tensor, axis: int, low: int, high: int) -> tuple[Tensor, Tensor]:
    n = x.shape[axis]
    return flip(_cut(x, axis, 1, low), axis=axis), flip(_cut(x, axis, n - 1 - high, high), axis=axis)


def _circular(x: Tensor, axis: int, low: int, high: int) -> tuple[Tensor, Tensor]:
    return _cut(x, axis, x.shape[axis] - low, low), _cut(x, axis, 0, high)


def _replicate(x: Tensor, axis: int, low: int, high: int) -> tuple[Tensor, Tensor]:
    def edge(start: int, size: int) -> Tensor:
        one = _cut(x, axis, start, 1)
        return one.expand(tuple(size if i == axis else n for i, n in enumerate(one.shape)))

    return edge(0, low), edge(x.shape[axis] - 1, high)


_EDGES = {"reflect": _reflect, "circular": _circular, "replicate": _replicate}
_LIMITS = {"reflect": 1, "circular": 0}


def _extended(x: Tensor, axis: int, low: int, high: int, mode: str) -> Tensor:
    limit = x.shape[axis] - _LIMITS[mode] if mode in _LIMITS else None
    if min(low, high) < 0 or (limit is not None and max(low, high) > limit) or x.shape[axis] == 0:
        raise ShapeError(
            f"pad: mode {mode!r} can extend axis {axis} of shape {tuple(x.shape)} by 0 to "
            f"{'any number of' if limit is None else limit} elements; received {(low, high)}."
        )
    before, after = _EDGES[mode](x, axis, low, high)
    joined: Tensor = structure.concat([t for t in (before, x, after) if t.shape[axis]], axis=axis)
    return joined
