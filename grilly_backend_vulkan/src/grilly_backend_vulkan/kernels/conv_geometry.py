"""What the convolution shaders are told: sizes, kernel, stride and padding, packed for push constants."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

__all__ = ["Geometry"]


def _three(values: Any, filler: int) -> list[int]:
    """Pad in front to three axes."""
    return [filler] * (3 - len(values)) + list(values)


@dataclass(frozen=True, slots=True)
class Geometry:
    """A convolution seen from the input; `outs` and `ins` are channels of a group.

    Attributes
    ----------
    batch, groups, outs, ins, axes : int
    size, count, kernel : tuple of int
        Of the input, of the output, of the windows.
    stride, low, dilation : tuple of int
    """

    batch: int
    groups: int
    outs: int
    ins: int
    size: tuple[int, ...]
    count: tuple[int, ...]
    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    low: tuple[int, ...]
    dilation: tuple[int, ...]

    @classmethod
    def of(cls, x: Any, weight: Any, out: Any, attrs: dict[str, Any]) -> Geometry:
        """Return the geometry of input, weight and output (views or specs)."""
        groups = attrs["groups"]
        return cls(
            x.shape[0], groups, weight.shape[0] // groups, weight.shape[1], tuple(x.shape[2:]), tuple(out.shape[2:]),
            tuple(weight.shape[2:]), tuple(attrs["stride"]), tuple(low for low, _ in attrs["padding"]),
            tuple(attrs["dilation"]),
        )  # fmt: skip

    @property
    def axes(self) -> int:
        """Spatial axes."""
        return len(self.size)

    @property
    def taps(self) -> int:
        """Elements of the kernel."""
        return math.prod(self.kernel)

    @property
    def places(self) -> int:
        """Elements of an output plane."""
        return math.prod(self.count)

    @property
    def plane(self) -> int:
        """Elements of an input plane."""
        return math.prod(self.size)

    @property
    def work(self) -> int:
        """Multiplications."""
        return self.batch * self.groups * self.outs * self.ins * self.taps * self.places

    def numbers(self) -> list[int]:
        """Return the 12 numbers every shader begins with: size[3], count[3], kernel_dilation[3], stride_low[3]."""
        kernel = zip(_three(self.kernel, 1), _three(self.dilation, 1), strict=True)
        stride = zip(_three(self.stride, 1), _three(self.low, 0), strict=True)
        return [
            *_three(self.size, 1), *_three(self.count, 1), *(k | d << 16 for k, d in kernel),
            *(s | (low & 0xFFFF) << 16 for s, low in stride),
        ]  # fmt: skip
