"""Transposed convolution layers."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from grilly_core.apply import as_tensor
from grilly_core.errors import ShapeError
from grilly_core.functional import transposed as f
from grilly_core.functional._arguments import Size, per_axis
from grilly_core.nn import init
from grilly_core.nn.linear import DeviceLike, positive
from grilly_core.nn.module import Module
from grilly_core.nn.parameter import Parameter
from grilly_core.ops.creation import zeros
from grilly_core.random import Generator
from grilly_core.tensor import Tensor

__all__ = ["ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d"]


class _ConvTranspose(Module):
    """What the transposed convolutions share; `axes` is the number of spatial axes."""

    axes: ClassVar[int]
    function: ClassVar[Callable[..., Tensor]]
    weight: Parameter
    bias: Parameter | None

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Size,
        stride: Size = 1,
        padding: Size = 0,
        output_padding: Size = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: Size = 1,
        padding_mode: str = "zeros",
        device: DeviceLike = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        positive(in_channels=in_channels, out_channels=out_channels, groups=groups)
        if in_channels % groups or out_channels % groups:
            raise ShapeError(
                f"groups={groups} must divide in_channels={in_channels} and out_channels={out_channels}."
            )
        if padding_mode != "zeros":
            raise ValueError(
                f"padding_mode: a transposed convolution knows 'zeros' only; received {padding_mode!r}."
            )
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.kernel_size = per_axis(kernel_size, self.axes, "kernel_size")
        self.stride = per_axis(stride, self.axes, "stride")
        self.padding = per_axis(padding, self.axes, "padding", 0)
        self.output_padding = per_axis(output_padding, self.axes, "output_padding", 0)
        self.groups = groups
        self.dilation = per_axis(dilation, self.axes, "dilation")
        self.padding_mode = padding_mode
        how: dict[str, Any] = {"device": device, "dtype": dtype}
        self.weight = Parameter(zeros((in_channels, out_channels // groups, *self.kernel_size), **how))
        self.register_parameter("bias", Parameter(zeros((out_channels,), **how)) if bias else None)
        self.reset_parameters()

    def reset_parameters(self, *, rng: Generator | None = None) -> None:
        """Draw the first values again: uniform in ``±1 / sqrt(out_channels / groups * kernel)``, as in PyTorch."""
        bound = 1.0 / math.sqrt(self.out_channels // self.groups * math.prod(self.kernel_size))
        init.uniform_(self.weight, -bound, bound, rng=rng)
        if self.bias is not None:
            init.uniform_(self.bias, -bound, bound, rng=rng)

    def _output_padding(self, input: Tensor, output_size: Sequence[int] | None) -> tuple[int, ...]:
        """Return the output padding that gives `output_size`."""
        if output_size is None:
            return self.output_padding
        wanted = tuple(output_size)[-self.axes :]
        if len(output_size) not in (self.axes, input.ndim):
            raise ShapeError(
                f"output_size: expected {self.axes} integers or the whole shape; received {tuple(output_size)}."
            )
        least = tuple(
            (n - 1) * s - 2 * p + d * (k - 1) + 1
            for n, s, p, d, k in zip(
                input.shape[-self.axes :],
                self.stride,
                self.padding,
                self.dilation,
                self.kernel_size,
                strict=True,
            )
        )
        if any(not 0 <= w - low < s for w, low, s in zip(wanted, least, self.stride, strict=True)):
            most = tuple(low + s - 1 for low, s in zip(least, self.stride, strict=True))
            raise ShapeError(f"output_size: expected sizes from {least} to {most}; received {wanted}.")
        return tuple(w - low for w, low in zip(wanted, least, strict=True))

    def forward(self, input: Tensor, output_size: Sequence[int] | None = None) -> Tensor:
        """Map ``(N, C, ...)`` or ``(C, ...)`` to the same form with `out_channels`.

        `output_size` chooses among the sizes that `output_padding` can give.
        """
        if not isinstance(input, Tensor):
            input = as_tensor(input, self.weight)
        extra = self._output_padding(input, output_size)
        return type(self).function(
            input, self.weight, self.bias, self.stride, self.padding, extra, self.groups, self.dilation
        )

    def extra_repr(self) -> str:
        """Sizes, and options that differ from the defaults."""
        nought, ones = (0,) * self.axes, (1,) * self.axes
        text = (
            f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, stride={self.stride}"
        )
        usual = {"padding": nought, "dilation": ones, "output_padding": nought, "groups": 1}
        text += "".join(f", {k}={getattr(self, k)!r}" for k, v in usual.items() if getattr(self, k) != v)
        return text + (", bias=False" if self.bias is None else "")


class ConvTranspose1d(_ConvTranspose):
    """Spread ``(N, C, L)`` over a longer axis by learnt filters: the gradient of a convolution as a layer.

    Parameters
    ----------
    in_channels, out_channels : int
    kernel_size, stride, dilation : int
    padding : int
        How much is cut off the result on both sides.
    output_padding : int
        How much less is cut off at the far side.
    groups : int
    bias : bool
    padding_mode : {"zeros"}
    device : Device or str, optional
    dtype : DType, optional

    Attributes
    ----------
    weight : Parameter, (in_channels, out_channels / groups, kernel_size)
    bias : Parameter, (out_channels,) or None

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.nn.ConvTranspose1d(2, 4, 3, stride=2)(grilly.ones((1, 2, 8))).shape
    (1, 4, 17)
    """

    axes = 1
    function = staticmethod(f.conv_transpose1d)


class ConvTranspose2d(_ConvTranspose):
    """Spread ``(N, C, H, W)`` by learnt filters; parameters as for `ConvTranspose1d`.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> layer = grilly.nn.ConvTranspose2d(2, 4, 3, stride=2, padding=1)
    >>> layer(grilly.ones((1, 2, 8, 8)), output_size=(16, 15)).shape
    (1, 4, 16, 15)
    """

    axes = 2
    function = staticmethod(f.conv_transpose2d)


class ConvTranspose3d(_ConvTranspose):
    """Spread ``(N, C, D, H, W)`` by learnt filters; parameters as for `ConvTranspose1d`.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.nn.ConvTranspose3d(1, 2, 2)(grilly.ones((1, 1, 3, 3, 3))).shape
    (1, 2, 4, 4, 4)
    """

    axes = 3
    function = staticmethod(f.conv_transpose3d)
