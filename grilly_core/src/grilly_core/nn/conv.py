"""Convolution layers."""

from __future__ import annotations

import math
from typing import Any, ClassVar

from grilly_core.apply import as_tensor
from grilly_core.errors import ShapeError
from grilly_core.functional._arguments import Size, batched, per_axis
from grilly_core.functional.layers import same_padding
from grilly_core.functional.padding import pad
from grilly_core.nn import init
from grilly_core.nn.linear import DeviceLike, positive
from grilly_core.nn.module import Module
from grilly_core.nn.parameter import Parameter
from grilly_core.ops.creation import zeros
from grilly_core.ops.nn_conv import conv
from grilly_core.random import Generator
from grilly_core.tensor import Tensor

__all__ = ["Conv1d", "Conv2d", "Conv3d"]

_MODES = ("zeros", "reflect", "replicate", "circular")


class _Conv(Module):
    """What the convolutions share; `axes` is the number of spatial axes."""

    axes: ClassVar[int]
    weight: Parameter
    bias: Parameter | None

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Size,
        stride: Size = 1,
        padding: Size | str = 0,
        dilation: Size = 1,
        groups: int = 1,
        bias: bool = True,
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
        if padding_mode not in _MODES:
            raise ValueError(f"padding_mode: expected one of {_MODES}; received {padding_mode!r}.")
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.kernel_size = per_axis(kernel_size, self.axes, "kernel_size")
        self.stride = per_axis(stride, self.axes, "stride")
        self.dilation = per_axis(dilation, self.axes, "dilation")
        self.padding = padding if isinstance(padding, str) else per_axis(padding, self.axes, "padding", 0)
        self.groups = groups
        self.padding_mode = padding_mode
        self._pads = self._low_and_high()
        shape = (out_channels, in_channels // groups, *self.kernel_size)
        self.weight = Parameter(zeros(shape, device=device, dtype=dtype))
        self.register_parameter(
            "bias", Parameter(zeros((out_channels,), device=device, dtype=dtype)) if bias else None
        )
        self.reset_parameters()

    def _low_and_high(self) -> tuple[tuple[int, int], ...]:
        if self.padding == "same":
            return same_padding(self.kernel_size, self.stride, self.dilation)
        if self.padding == "valid":
            return ((0, 0),) * self.axes
        if isinstance(self.padding, str):
            raise ValueError(f"padding: expected 'same', 'valid' or numbers; received {self.padding!r}.")
        return tuple((p, p) for p in self.padding)

    def reset_parameters(self, *, rng: Generator | None = None) -> None:
        """Draw the first values again: uniform in ``±1 / sqrt(fan_in)``."""
        bound = 1.0 / math.sqrt(self.in_channels // self.groups * math.prod(self.kernel_size))
        init.uniform_(self.weight, -bound, bound, rng=rng)
        if self.bias is not None:
            init.uniform_(self.bias, -bound, bound, rng=rng)

    def forward(self, input: Tensor) -> Tensor:
        """Map ``(N, C, ...)`` or ``(C, ...)`` to the same form with `out_channels`."""
        if not isinstance(input, Tensor):
            input = as_tensor(input, self.weight)
        added = False
        if input.ndim != self.axes + 2:
            input, added = batched(input, self.axes, type(self).__name__)
        pads = self._pads
        if self.padding_mode != "zeros":
            input = pad(input, [n for pair in reversed(pads) for n in pair], self.padding_mode)
            pads = ((0, 0),) * self.axes
        output = conv(
            input,
            self.weight,
            self.bias,
            stride=self.stride,
            padding=pads,
            dilation=self.dilation,
            groups=self.groups,
        )
        return output.squeeze(0) if added else output

    def extra_repr(self) -> str:
        """Sizes, and options that differ from the defaults."""
        parts = [
            f"{self.in_channels}, {self.out_channels}",
            f"kernel_size={self.kernel_size}",
            f"stride={self.stride}",
        ]
        defaults = {
            "padding": (0,) * self.axes,
            "dilation": (1,) * self.axes,
            "groups": 1,
        }
        parts += [f"{k}={getattr(self, k)}" for k, v in defaults.items() if getattr(self, k) != v]
        if self.bias is None:
            parts.append("bias=False")
        if self.padding_mode != "zeros":
            parts.append(f"padding_mode={self.padding_mode}")
        return ", ".join(parts)


class Conv1d(_Conv):
    """Cross-correlate ``(N, C, L)`` with learnt filters.

    Parameters
    ----------
    in_channels, out_channels : int
    kernel_size, stride, dilation : int
    padding : int, "same" or "valid"
    groups : int
        Channels are split into this many groups that do not see each other.
    bias : bool
    padding_mode : {"zeros", "reflect", "replicate", "circular"}
    device : Device or str, optional
    dtype : DType, optional

    Attributes
    ----------
    weight : Parameter, (out_channels, in_channels / groups, kernel_size)
        Starts uniform in ``±1 / sqrt(fan_in)``, like the bias.
    bias : Parameter, (out_channels,) or None

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.nn.Conv1d(2, 4, 3, padding="same")(grilly.ones((1, 2, 8))).shape
    (1, 4, 8)
    """

    axes = 1


class Conv2d(_Conv):
    """Cross-correlate ``(N, C, H, W)`` with learnt filters; parameters as for `Conv1d`, per axis or for both.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.nn.Conv2d(1, 4, 3, stride=2, padding=1)(grilly.ones((2, 1, 8, 8))).shape
    (2, 4, 4, 4)
    """

    axes = 2


class Conv3d(_Conv):
    """Cross-correlate ``(N, C, D, H, W)`` with learnt filters; parameters as for `Conv1d`.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.nn.Conv3d(1, 2, 2)(grilly.ones((1, 1, 3, 3, 3))).shape
    (1, 2, 2, 2, 2)
    """

    axes = 3
