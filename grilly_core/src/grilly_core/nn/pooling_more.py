"""Pooling layers that undo, generalise or randomise the plain kind."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from grilly_core.functional import pooling_more as f
from grilly_core.functional._arguments import Size, per_axis
from grilly_core.nn.module import Module
from grilly_core.tensor import Tensor

__all__ = [
    "FractionalMaxPool2d", "FractionalMaxPool3d", "LPPool1d", "LPPool2d", "LPPool3d", "MaxUnpool1d", "MaxUnpool2d",
    "MaxUnpool3d",
]  # fmt: skip


class _MaxUnpool(Module):
    axes: ClassVar[int]
    function: ClassVar[Callable[..., Tensor]]

    def __init__(self, kernel_size: Size, stride: Size | None = None, padding: Size = 0) -> None:
        super().__init__()
        self.kernel_size = per_axis(kernel_size, self.axes, "kernel_size")
        self.stride = self.kernel_size if stride is None else per_axis(stride, self.axes, "stride")
        self.padding = per_axis(padding, self.axes, "padding", 0)

    def forward(self, input: Tensor, indices: Tensor, output_size: Sequence[int] | None = None) -> Tensor:
        """Put the maxima back; `output_size` is the size before the pooling where several give this one."""
        return type(self).function(input, indices, self.kernel_size, self.stride, self.padding, output_size)

    def extra_repr(self) -> str:
        """The geometry."""
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class MaxUnpool1d(_MaxUnpool):
    """Put the maxima of `MaxPool1d` back where they came from, among zeros.

    Parameters
    ----------
    kernel_size, padding : int
    stride : int, optional
        The kernel size if not given.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> y, index = grilly.nn.MaxPool1d(2, return_indices=True)(grilly.tensor([[[1.0, 2.0, 4.0, 3.0]]]))
    >>> grilly.nn.MaxUnpool1d(2)(y, index).tolist()
    [[[0.0, 2.0, 4.0, 0.0]]]
    """

    axes = 1
    function = staticmethod(f.max_unpool1d)


class MaxUnpool2d(_MaxUnpool):
    """Put the maxima of `MaxPool2d` back where they came from; parameters as for `MaxUnpool1d`.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> y, index = grilly.nn.MaxPool2d(2, return_indices=True)(grilly.ones((1, 1, 4, 4)))
    >>> grilly.nn.MaxUnpool2d(2)(y, index).shape
    (1, 1, 4, 4)
    """

    axes = 2
    function = staticmethod(f.max_unpool2d)


class MaxUnpool3d(_MaxUnpool):
    """Put the maxima of `MaxPool3d` back where they came from; parameters as for `MaxUnpool1d`.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> y, index = grilly.nn.MaxPool3d(2, return_indices=True)(grilly.ones((1, 1, 4, 4, 4)))
    >>> grilly.nn.MaxUnpool3d(2)(y, index).shape
    (1, 1, 4, 4, 4)
    """

    axes = 3
    function = staticmethod(f.max_unpool3d)


class _LPPool(Module):
    function: ClassVar[Callable[..., Tensor]]

    def __init__(
        self, norm_type: float, kernel_size: Size, stride: Size | None = None, ceil_mode: bool = False
    ) -> None:
        super().__init__()
        self.norm_type = norm_type
        self.kernel_size = kernel_size
        self.stride = stride
        self.ceil_mode = ceil_mode

    def forward(self, input: Tensor) -> Tensor:
        """Pool the last axes."""
        return type(self).function(
            input, float(self.norm_type), self.kernel_size, self.stride, self.ceil_mode
        )

    def extra_repr(self) -> str:
        """The power and the geometry."""
        return (
            f"norm_type={self.norm_type}, kernel_size={self.kernel_size}, stride={self.stride}, "
            f"ceil_mode={self.ceil_mode}"
        )


class LPPool1d(_LPPool):
    """Return ``sum(x ** p) ** (1 / p)`` of each window of ``(N, C, L)``.

    Parameters
    ----------
    norm_type : float
        The power p.
    kernel_size : int
    stride : int, optional
        The kernel size if not given.
    ceil_mode : bool

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.nn.LPPool1d(2, 2)(grilly.tensor([[[3.0, 4.0]]])).tolist()
    [[[5.0]]]
    """

    function = staticmethod(f.lp_pool1d)


class LPPool2d(_LPPool):
    """Return ``sum(x ** p) ** (1 / p)`` of each window of ``(N, C, H, W)``; parameters as for `LPPool1d`.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.nn.LPPool2d(2, 2)(grilly.ones((1, 1, 2, 2))).item()
    2.0
    """

    function = staticmethod(f.lp_pool2d)


class LPPool3d(_LPPool):
    """Return ``sum(x ** p) ** (1 / p)`` of each window of ``(N, C, D, H, W)``; parameters as for `LPPool1d`.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.nn.LPPool3d(1, 2)(grilly.ones((1, 1, 2, 2, 2))).item()
    8.0
    """

    function = staticmethod(f.lp_pool3d)


class _FractionalMaxPool(Module):
    axes: ClassVar[int]
    function: ClassVar[Callable[..., Any]]
    _random_samples: Tensor | None

    def __init__(
        self, kernel_size: Size, output_size: Size | None = None, output_ratio: Any = None,
        return_indices: bool = False, _random_samples: Tensor | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        if (output_size is None) == (output_ratio is None):
            raise ValueError(f"{type(self).__name__}: give either output_size or output_ratio.")
        self.kernel_size = per_axis(kernel_size, self.axes, "kernel_size")
        self.output_size = output_size
        self.output_ratio = output_ratio
        self.return_indices = return_indices
        self.register_buffer("_random_samples", _random_samples)

    def forward(self, input: Tensor) -> Any:
        """Pool the last axes."""
        return type(self).function(
            input,
            self.kernel_size,
            self.output_size,
            self.output_ratio,
            self.return_indices,
            self._random_samples,
        )


class FractionalMaxPool2d(_FractionalMaxPool):
    """Take the maximum of windows of ``(N, C, H, W)`` at random, evenly spread places.

    Parameters
    ----------
    kernel_size : int or pair of int
    output_size : int or pair of int, optional
    output_ratio : float or pair of float, optional
        The size as a part of the input's; give this or `output_size`.
    return_indices : bool
        Also return where each maximum was.
    _random_samples : Tensor, (N, C, 2), optional
        Numbers from 0 to 1 that choose the places, instead of random ones.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.nn.FractionalMaxPool2d(2, output_ratio=0.5)(grilly.ones((1, 1, 8, 8))).shape
    (1, 1, 4, 4)
    """

    axes = 2
    function = staticmethod(f.fractional_max_pool2d)


class FractionalMaxPool3d(_FractionalMaxPool):
    """Take the maximum of windows at random places; parameters as for `FractionalMaxPool2d`, for three axes.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.nn.FractionalMaxPool3d(2, output_size=3)(grilly.ones((1, 1, 8, 8, 8))).shape
    (1, 1, 3, 3, 3)
    """

    axes = 3
    function = staticmethod(f.fractional_max_pool3d)
