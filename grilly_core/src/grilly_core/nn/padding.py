"""Padding layers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from grilly_core.errors import ShapeError
from grilly_core.functional.padding import pad
from grilly_core.nn.module import Module
from grilly_core.tensor import Tensor

__all__ = [
    "CircularPad1d", "CircularPad2d", "CircularPad3d", "ConstantPad1d", "ConstantPad2d", "ConstantPad3d",
    "ReflectionPad1d", "ReflectionPad2d", "ReflectionPad3d", "ReplicationPad1d", "ReplicationPad2d", "ReplicationPad3d",
    "ZeroPad1d", "ZeroPad2d", "ZeroPad3d",
]  # fmt: skip


class _Pad(Module):
    """What the padding layers share; `axes` is the number of spatial axes."""

    axes: ClassVar[int]
    mode: ClassVar[str]

    def __init__(self, padding: int | Sequence[int]) -> None:
        super().__init__()
        self.padding = (padding,) * (2 * self.axes) if isinstance(padding, int) else tuple(padding)
        if len(self.padding) != 2 * self.axes:
            raise ShapeError(
                f"{type(self).__name__}: padding must be an integer or {2 * self.axes} of them, low and high of the "
                f"last axis first; received {padding!r}."
            )

    def forward(self, input: Tensor) -> Tensor:
        """Extend the last axes."""
        return pad(input, self.padding, self.mode)

    def extra_repr(self) -> str:
        """The padding."""
        return f"{self.padding}"


class _ConstantPad(_Pad):
    mode = "constant"

    def __init__(self, padding: int | Sequence[int], value: float) -> None:
        super().__init__(padding)
        self.value = value

    def forward(self, input: Tensor) -> Tensor:
        """Extend the last axes."""
        return pad(input, self.padding, "constant", self.value)

    def extra_repr(self) -> str:
        """The padding and the value."""
        return f"padding={self.padding}, value={self.value}"


class _ZeroPad(_ConstantPad):
    def __init__(self, padding: int | Sequence[int]) -> None:
        super().__init__(padding, 0.0)

    def extra_repr(self) -> str:
        """The padding."""
        return f"{self.padding}"


class ConstantPad1d(_ConstantPad):
    """Extend ``(N, C, L)`` with one value.

    Parameters
    ----------
    padding : int or pair of int
        Low and high; negative numbers crop.
    value : float

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.nn.ConstantPad1d(1, 7.0)(grilly.tensor([[1.0, 2.0]])).tolist()
    [[7.0, 1.0, 2.0, 7.0]]
    """

    axes = 1


class ConstantPad2d(_ConstantPad):
    """Extend ``(N, C, H, W)`` with one value; see `ConstantPad1d`.

    `padding` is low and high of each axis, the last one first.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.nn.ConstantPad2d(1, 7.0)(grilly.ones((1, 1, 2, 2))).shape
    (1, 1, 4, 4)
    """

    axes = 2


class ConstantPad3d(_ConstantPad):
    """Extend ``(N, C, D, H, W)`` with one value; see `ConstantPad1d`.

    `padding` is low and high of each axis, the last one first.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.nn.ConstantPad3d(1, 7.0)(grilly.ones((1, 1, 2, 2, 2))).shape
    (1, 1, 4, 4, 4)
    """

    axes = 3


class ZeroPad1d(_ZeroPad):
    """Extend ``(N, C, L)`` with zeros.

    Parameters
    ----------
    padding : int or pair of int
        Low and high; negative numbers crop.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.nn.ZeroPad1d(1)(grilly.tensor([[1.0, 2.0]])).tolist()
    [[0.0, 1.0, 2.0, 0.0]]
    """

    axes = 1


class ZeroPad2d(_ZeroPad):
    """Extend ``(N, C, H, W)`` with zeros; see `ZeroPad1d`.

    `padding` is low and high of each axis, the last one first.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.nn.ZeroPad2d(1)(grilly.ones((1, 1, 2, 2))).shape
    (1, 1, 4, 4)
    """

    axes = 2


class ZeroPad3d(_ZeroPad):
    """Extend ``(N, C, D, H, W)`` with zeros; see `ZeroPad1d`.

    `padding` is low and high of each axis, the last one first.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.nn.ZeroPad3d(1)(grilly.ones((1, 1, 2, 2, 2))).shape
    (1, 1, 4, 4, 4)
    """

    axes = 3


class ReflectionPad1d(_Pad):
    """Extend ``(N, C, L)`` with its mirror image, without the edge itself.

    Parameters
    ----------
    padding : int or pair of int
        Low and high.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.nn.ReflectionPad1d(1)(grilly.tensor([[1.0, 2.0]])).tolist()
    [[2.0, 1.0, 2.0, 1.0]]
    """

    axes = 1
    mode = "reflect"


class ReflectionPad2d(_Pad):
    """Extend ``(N, C, H, W)`` with its mirror image, without the edge itself; see `ReflectionPad1d`.

    `padding` is low and high of each axis, the last one first.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.nn.ReflectionPad2d(1)(grilly.ones((1, 1, 2, 2))).shape
    (1, 1, 4, 4)
    """

    axes = 2
    mode = "reflect"


class ReflectionPad3d(_Pad):
    """Extend ``(N, C, D, H, W)`` with its mirror image, without the edge itself; see `ReflectionPad1d`.

    `padding` is low and high of each axis, the last one first.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.nn.ReflectionPad3d(1)(grilly.ones((1, 1, 2, 2, 2))).shape
    (1, 1, 4, 4, 4)
    """

    axes = 3
    mode = "reflect"


class ReplicationPad1d(_Pad):
    """Extend ``(N, C, L)`` with copies of its edges.

    Parameters
    ----------
    padding : int or pair of int
        Low and high.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.nn.ReplicationPad1d(1)(grilly.tensor([[1.0, 2.0]])).tolist()
    [[1.0, 1.0, 2.0, 2.0]]
    """

    axes = 1
    mode = "replicate"


class ReplicationPad2d(_Pad):
    """Extend ``(N, C, H, W)`` with copies of its edges; see `ReplicationPad1d`.

    `padding` is low and high of each axis, the last one first.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.nn.ReplicationPad2d(1)(grilly.ones((1, 1, 2, 2))).shape
    (1, 1, 4, 4)
    """

    axes = 2
    mode = "replicate"


class ReplicationPad3d(_Pad):
    """Extend ``(N, C, D, H, W)`` with copies of its edges; see `ReplicationPad1d`.

    `padding` is low and high of each axis, the last one first.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.nn.ReplicationPad3d(1)(grilly.ones((1, 1, 2, 2, 2))).shape
    (1, 1, 4, 4, 4)
    """

    axes = 3
    mode = "replicate"


class CircularPad1d(_Pad):
    """Extend ``(N, C, L)`` with itself, as if it went round.

    Parameters
    ----------
    padding : int or pair of int
        Low and high.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.nn.CircularPad1d(1)(grilly.tensor([[1.0, 2.0]])).tolist()
    [[2.0, 1.0, 2.0, 1.0]]
    """

    axes = 1
    mode = "circular"


class CircularPad2d(_Pad):
    """Extend ``(N, C, H, W)`` with itself, as if it went round; see `CircularPad1d`.

    `padding` is low and high of each axis, the last one first.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.nn.CircularPad2d(1)(grilly.ones((1, 1, 2, 2))).shape
    (1, 1, 4, 4)
    """

    axes = 2
    mode = "circular"


class CircularPad3d(_Pad):
    """Extend ``(N, C, D, H, W)`` with itself, as if it went round; see `CircularPad1d`.

    `padding` is low and high of each axis, the last one first.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.nn.CircularPad3d(1)(grilly.ones((1, 1, 2, 2, 2))).shape
    (1, 1, 4, 4, 4)
    """

    axes = 3
    mode = "circular"
