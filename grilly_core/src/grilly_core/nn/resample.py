"""Layers that change the resolution of images, or lay windows out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from grilly_core.functional import folding, resample
from grilly_core.functional._arguments import Size
from grilly_core.nn.module import Module
from grilly_core.tensor import Tensor

__all__ = [
    "ChannelShuffle", "Fold", "PixelShuffle", "PixelUnshuffle", "Unfold", "Upsample", "UpsamplingBilinear2d",
    "UpsamplingNearest2d",
]  # fmt: skip


class Upsample(Module):
    """Change the resolution of ``(N, C, ...)``; see `functional.interpolate`.

    Parameters
    ----------
    size : int or sequence of int, optional
        The new size; give this or `scale_factor`.
    scale_factor : float or sequence of float, optional
        By what the size is multiplied, rounded down.
    mode : str
        ``"nearest"``, ``"nearest-exact"``, ``"area"``, ``"linear"``, ``"bilinear"``, ``"bicubic"`` or ``"trilinear"``.
    align_corners : bool, optional
    recompute_scale_factor : bool, optional

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.nn.Upsample(scale_factor=2)(grilly.tensor([[[1.0, 2.0]]])).tolist()
    [[[1.0, 1.0, 2.0, 2.0]]]
    """

    def __init__(
        self,
        size: int | Sequence[int] | None = None,
        scale_factor: float | Sequence[float] | None = None,
        mode: str = "nearest",
        align_corners: bool | None = None,
        recompute_scale_factor: bool | None = None,
    ) -> None:
        super().__init__()
        self.size = size
        self.scale_factor: Any = None
        if scale_factor is not None:
            one = isinstance(scale_factor, int | float)
            self.scale_factor = float(scale_factor) if one else tuple(map(float, scale_factor))  # type: ignore[arg-type]
        self.mode = mode
        self.align_corners = align_corners
        self.recompute_scale_factor = recompute_scale_factor

    def forward(self, input: Tensor) -> Tensor:
        """Change the resolution."""
        return resample.interpolate(
            input, self.size, self.scale_factor, self.mode, self.align_corners, self.recompute_scale_factor
        )

    def extra_repr(self) -> str:
        """The size or factor, and the mode."""
        given = f"size={self.size!r}" if self.scale_factor is None else f"scale_factor={self.scale_factor!r}"
        return f"{given}, mode={self.mode!r}"


class UpsamplingNearest2d(Upsample):
    """`Upsample` in mode ``"nearest"``.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.nn.UpsamplingNearest2d(scale_factor=2)(grilly.ones((1, 1, 2, 2))).shape
    (1, 1, 4, 4)
    """

    def __init__(self, size: Any = None, scale_factor: Any = None) -> None:
        super().__init__(size, scale_factor, "nearest")


class UpsamplingBilinear2d(Upsample):
    """`Upsample` in mode ``"bilinear"`` with corners aligned.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.nn.UpsamplingBilinear2d(3)(grilly.ones((1, 1, 2, 2))).shape
    (1, 1, 3, 3)
    """

    def __init__(self, size: Any = None, scale_factor: Any = None) -> None:
        super().__init__(size, scale_factor, "bilinear", True)


class PixelShuffle(Module):
    """Turn channels into pixels: ``(..., C * r * r, H, W)`` to ``(..., C, H * r, W * r)``.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.nn.PixelShuffle(3)(grilly.ones((1, 9, 4, 4))).shape
    (1, 1, 12, 12)
    """

    def __init__(self, upscale_factor: int) -> None:
        super().__init__()
        self.upscale_factor = upscale_factor

    def forward(self, input: Tensor) -> Tensor:
        """Turn channels into pixels."""
        return resample.pixel_shuffle(input, self.upscale_factor)

    def extra_repr(self) -> str:
        """The factor."""
        return f"upscale_factor={self.upscale_factor}"


class PixelUnshuffle(Module):
    """Turn pixels into channels: ``(..., C, H * r, W * r)`` to ``(..., C * r * r, H, W)``.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.nn.PixelUnshuffle(3)(grilly.ones((1, 1, 12, 12))).shape
    (1, 9, 4, 4)
    """

    def __init__(self, downscale_factor: int) -> None:
        super().__init__()
        self.downscale_factor = downscale_factor

    def forward(self, input: Tensor) -> Tensor:
        """Turn pixels into channels."""
        return resample.pixel_unshuffle(input, self.downscale_factor)

    def extra_repr(self) -> str:
        """The factor."""
        return f"downscale_factor={self.downscale_factor}"


class ChannelShuffle(Module):
    """Deal the channels of ``(N, C, ...)`` out to groups.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.nn.ChannelShuffle(2)(grilly.arange(4.0).reshape((1, 4, 1, 1))).flatten().tolist()
    [0.0, 2.0, 1.0, 3.0]
    """

    def __init__(self, groups: int) -> None:
        super().__init__()
        self.groups = groups

    def forward(self, input: Tensor) -> Tensor:
        """Deal the channels out."""
        return resample.channel_shuffle(input, self.groups)

    def extra_repr(self) -> str:
        """The number of groups."""
        return f"groups={self.groups}"


class Unfold(Module):
    """Return each window of ``(N, C, H, W)`` as a column.

    Parameters
    ----------
    kernel_size, dilation, padding, stride : int or pair of int

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.nn.Unfold(2)(grilly.ones((1, 3, 5, 5))).shape
    (1, 12, 16)
    """

    def __init__(self, kernel_size: Size, dilation: Size = 1, padding: Size = 0, stride: Size = 1) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.dilation = dilation
        self.padding = padding
        self.stride = stride

    def forward(self, input: Tensor) -> Tensor:
        """Lay the windows out."""
        return folding.unfold(input, self.kernel_size, self.dilation, self.padding, self.stride)

    def extra_repr(self) -> str:
        """The geometry."""
        return f"kernel_size={self.kernel_size}, dilation={self.dilation}, padding={self.padding}, stride={self.stride}"


class Fold(Unfold):
    """Add columns up to an image, each where `Unfold` takes it from.

    Parameters
    ----------
    output_size : int or pair of int
    kernel_size, dilation, padding, stride : int or pair of int

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.nn.Fold((5, 5), 2)(grilly.ones((1, 12, 16))).shape
    (1, 3, 5, 5)
    """

    def __init__(
        self, output_size: Size, kernel_size: Size, dilation: Size = 1, padding: Size = 0, stride: Size = 1
    ) -> None:
        super().__init__(kernel_size, dilation, padding, stride)
        self.output_size = output_size

    def forward(self, input: Tensor) -> Tensor:
        """Add the columns up."""
        return folding.fold(
            input, self.output_size, self.kernel_size, self.dilation, self.padding, self.stride
        )

    def extra_repr(self) -> str:
        """The geometry."""
        return f"output_size={self.output_size}, {super().extra_repr()}"
