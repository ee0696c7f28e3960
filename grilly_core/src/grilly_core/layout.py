"""Shape and stride arithmetic: every view is computed here, on plain integers.

A `Layout` is interned: two equal layouts are normally one object, so a plan key can hash it by identity.
The offset is not part of it, so that ``x[0]`` and ``x[1]`` share one plan. The intern table is
bounded; after it is emptied an equal layout may be a new object, which costs a plan and never correctness.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from grilly_core.errors import ShapeError

__all__ = [
    "Layout",
    "broadcast_shapes",
    "contiguous",
    "contiguous_strides",
    "expand_strides",
    "make_layout",
    "normalize_axes",
    "normalize_axis",
    "reshape_strides",
    "resolve_shape",
    "sliding_window",
]

Shape = tuple[int, ...]
_LIMIT: Final = 1 << 15
_interned: dict[tuple[Shape, Shape], Layout] = {}


class Layout:
    """Shape and strides (in elements) of a view; `contiguous` means C order without gaps."""

    __slots__ = ("contiguous", "ndim", "shape", "size", "strides")

    def __init__(self, shape: Shape, strides: Shape) -> None:
        self.shape = shape
        self.strides = strides
        self.ndim = len(shape)
        self.size = math.prod(shape)
        self.contiguous = self.size == 0 or all(
            n == 1 or s == c for n, s, c in zip(shape, strides, contiguous_strides(shape), strict=True)
        )

    def __repr__(self) -> str:
        return f"Layout(shape={self.shape}, strides={self.strides})"


def make_layout(shape: Shape, strides: Shape) -> Layout:
    """Return the interned layout of `shape` and `strides`."""
    key = (shape, strides)
    found = _interned.get(key)
    if found is None:
        if len(_interned) >= _LIMIT:
            _interned.clear()
        found = _interned[key] = Layout(shape, strides)
    return found


def contiguous_strides(shape: Shape) -> Shape:
    """Strides of a C-ordered array of `shape`."""
    strides = []
    step = 1
    for n in reversed(shape):
        strides.append(step)
        step *= max(n, 1)
    return tuple(reversed(strides))


def contiguous(shape: Shape) -> Layout:
    """Return the C-ordered layout of `shape`."""
    return make_layout(shape, contiguous_strides(shape))


def normalize_axis(axis: int, ndim: int, name: str = "axis") -> int:
    """Return `axis` counted from the front.

    Raises
    ------
    IndexError
        If it lies outside ``[-ndim, ndim)``.
    """
    if isinstance(axis, bool) or not hasattr(axis, "__index__"):
        raise TypeError(f"{name}: expected an integer; received {axis!r}.")
    index = axis.__index__()
    if not -ndim <= index < ndim:
        hint = "the tensor has no axes" if ndim == 0 else f"use one from {-ndim} to {ndim - 1}"
        raise IndexError(f"{name}: {index} is out of range for a tensor with {ndim} dimensions; {hint}.")
    return index + ndim if index < 0 else index


def normalize_axes(axis: int | Sequence[int] | None, ndim: int, name: str = "axis") -> Shape:
    """Return sorted, unique, non-negative axes; None means all of them."""
    if axis is None:
        return tuple(range(ndim))
    given = tuple(axis) if isinstance(axis, Sequence) else (axis,)
    axes = tuple(normalize_axis(a, ndim, name) for a in given)
    if len(set(axes)) != len(axes):
        raise ValueError(f"{name}: {given} names an axis twice; give each one once.")
    return tuple(sorted(axes))


def broadcast_shapes(*shapes: Shape) -> Shape:
    """Return the common shape of several by NumPy's broadcasting rules.

    Raises
    ------
    ShapeError
        If two sizes of one axis differ and neither is 1.

    Examples
    --------
    >>> broadcast_shapes((3, 1), (4,))
    (3, 4)
    """
    first = shapes[0]
    if all(s == first for s in shapes):
        return first
    ndim = max(map(len, shapes))
    result = [1] * ndim
    for shape in shapes:
        for i, n in enumerate(shape, ndim - len(shape)):
            if n == 1 or n == result[i]:
                continue
            if result[i] != 1:
                raise ShapeError(
                    f"shapes {', '.join(map(str, shapes))} do not broadcast: axis {i - ndim} has sizes "
                    f"{result[i]} and {n}; they must be equal, or one of them 1."
                )
            result[i] = n
    return tuple(result)


def expand_strides(shape: Shape, strides: Shape, target: Shape) -> Shape:
    """Strides that show `shape` as `target`, repeating without a copy (stride 0)."""
    extra = len(target) - len(shape)
    if extra < 0 or any(n not in (1, t) for n, t in zip(shape, target[extra:], strict=True)):
        raise ShapeError(
            f"cannot expand shape {shape} to {target}: only new leading axes and axes of size 1 can be expanded."
        )
    tail = tuple(s if n == t else 0 for n, s, t in zip(shape, strides, target[extra:], strict=True))
    return (0,) * extra + tail


def resolve_shape(shape: Sequence[int], size: int) -> Shape:
    """Replace one -1 in `shape` so that it holds `size` elements."""
    wanted = tuple(int(n) for n in shape)
    if wanted.count(-1) > 1 or any(n < -1 for n in wanted):
        raise ShapeError(f"shape: {wanted} may hold one -1 and no other negative size.")
    if -1 in wanted:
        known = math.prod(n for n in wanted if n != -1)
        if known == 0 or size % known:
            raise ShapeError(
                f"cannot reshape {size} elements to {wanted}: the -1 would not be a whole number."
            )
        wanted = tuple(size // known if n == -1 else n for n in wanted)
    if math.prod(wanted) != size:
        raise ShapeError(f"cannot reshape {size} elements to {wanted}, which holds {math.prod(wanted)}.")
    return wanted


def reshape_strides(layout: Layout, shape: Shape) -> Shape | None:
    """Strides that show `layout` as `shape` without a copy, or None if a copy is needed."""
    if layout.contiguous:
        return contiguous_strides(shape)
    groups = _joined_axes(layout)
    strides: list[int] = []
    remaining = list(reversed(groups))
    block, step = remaining.pop() if remaining else (1, 1)
    # walk the target from the front, splitting each joined block of the source
    size_left = block
    for n in shape:
        if n == 1:
            strides.append(step)
            continue
        while size_left == 1 and remaining:
            size_left, step = remaining.pop()
        if size_left % n:
            return None
        size_left //= n
        strides.append(step * size_left)
    return tuple(strides)


def _joined_axes(layout: Layout) -> list[tuple[int, int]]:
    """Merge neighbouring axes that are packed: a list of (size, innermost stride)."""
    groups: list[tuple[int, int]] = []
    for n, s in zip(layout.shape, layout.strides, strict=True):
        if n == 1:
            continue
        if groups and groups[-1][1] == n * s:
            groups[-1] = (groups[-1][0] * n, s)
        else:
            groups.append((n, s))
    return groups


def sliding_window(
    layout: Layout, axes: Shape, sizes: Shape, strides: Shape, dilations: Shape
) -> tuple[Shape, Shape]:
    """Shape and strides of the windows along `axes`; the window axes are appended at the end."""
    shape, steps = list(layout.shape), list(layout.strides)
    tail_shape, tail_steps = [], []
    for axis, size, stride, dilation in zip(axes, sizes, strides, dilations, strict=True):
        span = dilation * (size - 1) + 1
        count = (shape[axis] - span) // stride + 1 if shape[axis] >= span else 0
        if count <= 0:
            raise ShapeError(
                f"window of {span} along axis {axis} does not fit the size {shape[axis]}; pad the input or use a "
                "smaller window."
            )
        tail_shape.append(size)
        tail_steps.append(steps[axis] * dilation)
        shape[axis] = count
        steps[axis] *= stride
    return tuple(shape + tail_shape), tuple(steps + tail_steps)
