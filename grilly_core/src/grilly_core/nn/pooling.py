"""Pooling layers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from grilly_core.functional import pooling as f
from grilly_core.functional._arguments import Size, per_axis
from grilly_core.nn.module import Module
from grilly_core.tensor import Tensor

__all__ = [
    "AdaptiveAvgPool1d", "AdaptiveAvgPool2d", "AdaptiveAvgPool3d", "AdaptiveMaxPool1d", "AdaptiveMaxPool2d",
    "AdaptiveMaxPool3d", "AvgPool1d", "AvgPool2d", "AvgPool3d", "MaxPool1d", "MaxPool2d", "MaxPool3d",
]  # fmt: skip


class _MaxPool(Module):
    def __init__(
        self,
        kernel_size: Size,
        stride: Size | None = None,
        padding: Size = 0,
        dilation: Size = 1,
        return_indices: bool = False,
        ceil_mode: bool = False,
    ) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = kernel_size if stride is None else stride
        self.padding = padding
        self.dilation = dilation
        self.return_indices = return_indices
        self.ceil_mode = ceil_mode

    def _arguments(self) -> tuple[Any, ...]:
        return self.kernel_size, self.stride, self.padding, self.dilation, self.ceil_mode, self.return_indices

    def extra_repr(self) -> str:
        """The geometry."""
        return (
            f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}, "
            f"dilation={self.dilation}, ceil_mode={self.ceil_mode}"
        )


class MaxPool1d(_MaxPool):
    """Take the maximum of each window of ``(N, C, L)``.

    Parameters
    ----------
    kernel_size, dilation : int
    stride : int, optional
        The kernel size if not given.
    padding : int
        Places that count as minus infinity, on both sides.
    return_indices : bool
        Also return where each maximum was.
    ceil_mode : bool
        Keep a last window that hangs over the end.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.nn.MaxPool1d(2)(grilly.tensor([[[1.0, 2.0, 4.0, 3.0]]])).tolist()
    [[[2.0, 4.0]]]
    """

    def forward(self, input: Tensor) -> Any:
        """Pool the last axis."""
        return f.max_pool1d(input, *self._arguments())


class MaxPool2d(_MaxPool):
    """Take the maximum of each window of ``(N, C, H, W)``; parameters as for `MaxPool1d`.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.nn.MaxPool2d(2)(grilly.ones((1, 1, 4, 4))).shape
    (1, 1, 2, 2)
    """

    def forward(self, input: Tensor) -> Any:
        """Pool the last two axes."""
        return f.max_pool2d(input, *self._arguments())


class MaxPool3d(_MaxPool):
    """Take the maximum of each window of ``(N, C, D, H, W)``; parameters as for `MaxPool1d`.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.nn.MaxPool3d(2)(grilly.ones((1, 1, 4, 4, 4))).shape
    (1, 1, 2, 2, 2)
    """

    def forward(self, input: Tensor) -> Any:
        """Pool the last three axes."""
        return f.max_pool3d(input, *self._arguments())


class AvgPool1d(Module):
    """Take the mean of each window of ``(N, C, L)``.

    Parameters
    ----------
    kernel_size : int
    stride : int, optional
        The kernel size if not given.
    padding : int
    ceil_mode : bool
    count_include_pad : bool
        Whether padding counts in the divisor.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.nn.AvgPool1d(2)(grilly.tensor([[[1.0, 3.0]]])).tolist()
    [[[2.0]]]
    """

    axes: ClassVar[int] = 1
    kernel_size: Size
    stride: Size
    padding: Size

    def __init__(
        self,
        kernel_size: Size,
        stride: Size | None = None,
        padding: Size = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> None:
        super().__init__()
        one = self.axes == 1  # PyTorch keeps tuples there, and what it was given elsewhere
        self.kernel_size = per_axis(kernel_size, 1, "kernel_size") if one else kernel_size
        self.stride = self.kernel_size if stride is None else per_axis(stride, 1, "stride") if one else stride
        self.padding = per_axis(padding, 1, "padding", 0) if one else padding
        self.ceil_mode = ceil_mode
        self.count_include_pad = count_include_pad

    def forward(self, input: Tensor) -> Tensor:
        """Pool the last axis."""
        return f.avg_pool1d(
            input, self.kernel_size, self.stride, self.padding, self.ceil_mode, self.count_include_pad
        )

    def extra_repr(self) -> str:
        """The geometry."""
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class AvgPool2d(AvgPool1d):
    """Take the mean of each window of ``(N, C, H, W)``; parameters as for `AvgPool1d`.

    Parameters
    ----------
    divisor_override : int, optional
        Divide by this number instead of the window's size.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.nn.AvgPool2d(2)(grilly.ones((1, 1, 4, 4))).shape
    (1, 1, 2, 2)
    """

    axes = 2

    def __init__(
        self,
        kernel_size: Size,
        stride: Size | None = None,
        padding: Size = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> None:
        super().__init__(kernel_size, stride, padding, ceil_mode, count_include_pad)
        self.divisor_override = divisor_override

    def forward(self, input: Tensor) -> Tensor:
        """Pool the last two axes."""
        return f.avg_pool2d(
            input, self.kernel_size, self.stride, self.padding, self.ceil_mode, self.count_include_pad,
            self.divisor_override,
        )  # fmt: skip


class AvgPool3d(AvgPool2d):
    """Take the mean of each window of ``(N, C, D, H, W)``; parameters as for `AvgPool2d`.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.nn.AvgPool3d(2)(grilly.ones((1, 1, 4, 4, 4))).shape
    (1, 1, 2, 2, 2)
    """

    axes = 3

    def forward(self, input: Tensor) -> Tensor:
        """Pool the last three axes."""
        return f.avg_pool3d(
            input, self.kernel_size, self.stride, self.padding, self.ceil_mode, self.count_include_pad,
            self.divisor_override,
        )  # fmt: skip


class _Adaptive(Module):
    def __init__(self, output_size: int | Sequence[int | None] | None) -> None:
        super().__init__()
        self.output_size: Any = output_size if isinstance(output_size, int | None) else tuple(output_size)

    def extra_repr(self) -> str:
        """The wanted size."""
        return f"output_size={self.output_size}"


class _AdaptiveMax(_Adaptive):
    def __init__(self, output_size: int | Sequence[int | None] | None, return_indices: bool = False) -> None:
        super().__init__(output_size)
        self.return_indices = return_indices


class AdaptiveAvgPool1d(_Adaptive):
    """Average ``(N, C, L)`` to ``(N, C, output_size)``.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.nn.AdaptiveAvgPool1d(2)(grilly.tensor([[[1.0, 2.0, 3.0]]])).tolist()
    [[[1.5, 2.5]]]
    """

    def forward(self, input: Tensor) -> Tensor:
        """Pool the last axis."""
        return f.adaptive_avg_pool1d(input, self.output_size)


class AdaptiveAvgPool2d(_Adaptive):
    """Average ``(N, C, H, W)`` to ``(N, C, *output_size)``; None keeps an axis.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.nn.AdaptiveAvgPool2d(1)(grilly.ones((1, 3, 5, 7))).shape
    (1, 3, 1, 1)
    """

    def forward(self, input: Tensor) -> Tensor:
        """Pool the last two axes."""
        return f.adaptive_avg_pool2d(input, self.output_size)


class AdaptiveAvgPool3d(_Adaptive):
    """Average ``(N, C, D, H, W)`` to ``(N, C, *output_size)``; None keeps an axis.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.nn.AdaptiveAvgPool3d((1, None, 2))(grilly.ones((1, 3, 5, 7, 4))).shape
    (1, 3, 1, 7, 2)
    """

    def forward(self, input: Tensor) -> Tensor:
        """Pool the last three axes."""
        return f.adaptive_avg_pool3d(input, self.output_size)


class AdaptiveMaxPool1d(_AdaptiveMax):
    """Take maxima of ``(N, C, L)`` so that ``(N, C, output_size)`` comes out.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.nn.AdaptiveMaxPool1d(2)(grilly.tensor([[[1.0, 2.0, 3.0]]])).tolist()
    [[[2.0, 3.0]]]
    """

    def forward(self, input: Tensor) -> Any:
        """Pool the last axis."""
        return f.adaptive_max_pool1d(input, self.output_size, self.return_indices)


class AdaptiveMaxPool2d(_AdaptiveMax):
    """Take maxima of ``(N, C, H, W)`` so that ``(N, C, *output_size)`` comes out; None keeps an axis.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.nn.AdaptiveMaxPool2d((1, None))(grilly.ones((1, 3, 5, 7))).shape
    (1, 3, 1, 7)
    """

    def forward(self, input: Tensor) -> Any:
        """Pool the last two axes."""
        return f.adaptive_max_pool2d(input, self.output_size, self.return_indices)


class AdaptiveMaxPool3d(_AdaptiveMax):
    """Take maxima of ``(N, C, D, H, W)`` so that ``(N, C, *output_size)`` comes out; None keeps an axis.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.nn.AdaptiveMaxPool3d(2)(grilly.ones((1, 3, 5, 7, 4))).shape
    (1, 3, 2, 2, 2)
    """

    def forward(self, input: Tensor) -> Any:
        """Pool the last three axes."""
        return f.adaptive_max_pool3d(input, self.output_size, self.return_indices)
