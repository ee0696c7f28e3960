"""Padding, spreading and windows: the geometry that convolution and pooling bodies share.

Tensors are ``(N, C, *S)``; everything here acts on the axes from 2 on.
"""

from __future__ import annotations

from grilly_core.ops.structure import assemble, pad
from grilly_core.ops.views import sliding_window
from grilly_core.tensor import Tensor

__all__ = ["Pads", "Shape", "padded", "spread", "windows"]

Shape = tuple[int, ...]
Pads = tuple[tuple[int, int], ...]


def padded(x: Tensor, pads: Pads, value: float = 0.0) -> Tensor:
    """Extend each axis by (low, high) elements of `value`; negative numbers cut elements off."""
    if not any(low or high for low, high in pads):
        return x
    result: Tensor = pad(x, widths=((0, 0), (0, 0), *pads), value=value)
    return result


def spread(x: Tensor, steps: Shape) -> Tensor:
    """Put ``step - 1`` zeros between neighbours along each axis."""
    if all(step == 1 for step in steps) or 0 in x.shape:
        return x
    sizes = tuple((n - 1) * step + 1 for n, step in zip(x.shape[2:], steps, strict=True))
    place = ((0,) * x.ndim, (1, 1, *steps))
    result: Tensor = assemble([x], shape=(*x.shape[:2], *sizes), places=(place,), fill=0)
    return result


def windows(x: Tensor, kernel: Shape, sizes: Shape, stride: Shape, dilation: Shape) -> Tensor:
    """Show x as ``(N, C, *sizes, *kernel)``, dropping what lies beyond the last window."""
    ends = ((n - 1) * s + d * (k - 1) + 1 for n, k, s, d in zip(sizes, kernel, stride, dilation, strict=True))
    excess = tuple((0, end - n) for n, end in zip(x.shape[2:], ends, strict=True))
    axes = tuple(range(2, 2 + len(kernel)))
    result: Tensor = sliding_window(
        padded(x, excess), axes=axes, sizes=kernel, strides=stride, dilations=dilation
    )
    return result
