"""The Array API's manipulation functions: thin, with its signatures, over the view and structure ops."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from grilly_core.apply import as_tensor
from grilly_core.layout import broadcast_shapes, normalize_axes, normalize_axis
from grilly_core.ops import structure, views
from grilly_core.tensor import Tensor

__all__ = [
    "broadcast_arrays", "broadcast_shapes", "broadcast_to", "concat", "concatenate", "expand_dims", "flip",
    "matrix_transpose",
    "moveaxis", "pad", "permute_dims", "repeat", "reshape", "roll", "split", "squeeze", "stack", "swapaxes",
    "tile", "unstack",
]  # fmt: skip


def reshape(x: Any, /, shape: Sequence[int] | int, *, copy: bool | None = None) -> Tensor:
    """Return the same elements, in C order, in another shape; one size may be -1.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.reshape(grilly.arange(6), (2, -1)).tolist()
    [[0, 1, 2], [3, 4, 5]]
    """
    result: Tensor = views.reshape(
        as_tensor(x), shape=tuple(shape) if isinstance(shape, Sequence) else (shape,)
    )
    return result.clone() if copy else result


def permute_dims(x: Any, /, axes: Sequence[int]) -> Tensor:
    """Return the axes in another order."""
    return views.permute_dims(as_tensor(x), axes=tuple(axes))


def matrix_transpose(x: Any, /) -> Tensor:
    """Return the last two axes exchanged."""
    x = as_tensor(x)
    return structure.swapped(x, x.ndim - 2, x.ndim - 1)  # type: ignore[no-any-return]


def swapaxes(x: Any, /, axis1: int, axis2: int) -> Tensor:
    """Return two axes exchanged."""
    x = as_tensor(x)
    return structure.swapped(x, normalize_axis(axis1, x.ndim), normalize_axis(axis2, x.ndim))  # type: ignore[no-any-return]


def moveaxis(x: Any, source: int | Sequence[int], destination: int | Sequence[int], /) -> Tensor:
    """Return axes moved to other positions, the rest in order."""
    x = as_tensor(x)
    src = [
        normalize_axis(a, x.ndim, "source") for a in (source if isinstance(source, Sequence) else [source])
    ]
    dst = [
        normalize_axis(a, x.ndim, "destination")
        for a in (destination if isinstance(destination, Sequence) else [destination])
    ]
    order = [i for i in range(x.ndim) if i not in src]
    for d, s in sorted(zip(dst, src, strict=True)):
        order.insert(d, s)
    return permute_dims(x, order)


def expand_dims(x: Any, /, *, axis: int = 0) -> Tensor:
    """Return an axis of size 1 inserted."""
    return views.expand_dims(as_tensor(x), axis=axis)


def squeeze(x: Any, /, axis: int | Sequence[int]) -> Tensor:
    """Return axes of size 1 removed."""
    x = as_tensor(x)
    return views.squeeze(x, axis=normalize_axes(axis, x.ndim))


def broadcast_to(x: Any, /, shape: Sequence[int]) -> Tensor:
    """Return the tensor repeated along axes of size 1, without a copy."""
    return views.broadcast_to(as_tensor(x), shape=tuple(shape))


def broadcast_arrays(*arrays: Any) -> list[Tensor]:
    """Return tensors brought to their common shape."""
    tensors = [as_tensor(a) for a in arrays]
    shape = broadcast_shapes(*[t.shape for t in tensors])
    return [broadcast_to(t, shape) for t in tensors]


def flip(x: Any, /, *, axis: int | Sequence[int] | None = None) -> Tensor:
    """Return the order along `axis` (all by default) reversed."""
    return views.flip(as_tensor(x), axis=tuple(axis) if isinstance(axis, Sequence) else axis)


def roll(x: Any, /, shift: int | Sequence[int], *, axis: int | Sequence[int] | None = None) -> Tensor:
    """Return the elements shifted along axes, those pushed out coming in at the other end."""
    x = as_tensor(x)
    if isinstance(shift, Sequence) != isinstance(axis, Sequence) and isinstance(shift, Sequence):
        raise ValueError(f"roll: {len(shift)} shifts need as many axes; received axis={axis!r}.")
    if isinstance(axis, Sequence):
        axis = tuple(normalize_axis(a, x.ndim) for a in axis)
        shift = tuple(shift) if isinstance(shift, Sequence) else (shift,) * len(axis)
        for k, a in zip(shift, axis, strict=True):
            x = structure.roll(x, shift=k, axis=a)
        result: Tensor = x
        return result
    return structure.roll(x, shift=shift, axis=axis)


def concat(arrays: Sequence[Any], /, *, axis: int | None = 0) -> Tensor:
    """Return tensors joined along an existing axis; ``axis=None`` flattens them first."""
    parts = _tensors(arrays)
    if parts and parts[0].shape == (0,):  # joins anything, so it says nothing about the axes
        parts.sort(key=lambda t: t.shape == (0,))
    return structure.concat(parts, axis=axis)


concatenate = concat


def stack(arrays: Sequence[Any], /, *, axis: int = 0) -> Tensor:
    """Return tensors of one shape joined along a new axis."""
    return structure.stack(_tensors(arrays), axis=axis)


def _tensors(arrays: Sequence[Any]) -> list[Tensor]:
    like = next((a for a in arrays if isinstance(a, Tensor)), None)
    return [as_tensor(a, like) for a in arrays]


def unstack(x: Any, /, *, axis: int = 0) -> tuple[Tensor, ...]:
    """Return the slices along `axis`, without that axis."""
    return structure.unstack(as_tensor(x), axis=axis)


def split(x: Any, sections: int | Sequence[int], /, *, axis: int = 0) -> tuple[Tensor, ...]:
    """Return slices along `axis`: `sections` equal ones, or slices of the given sizes."""
    x = as_tensor(x)
    axis = normalize_axis(axis, x.ndim)
    if isinstance(sections, int):
        if sections < 1 or x.shape[axis] % sections:
            raise ValueError(
                f"split: axis {axis} of size {x.shape[axis]} does not divide into {sections} equal parts."
            )
        sections = [x.shape[axis] // sections] * sections
    return structure.split(x, sizes=tuple(sections), axis=axis)


def tile(x: Any, repetitions: Sequence[int], /) -> Tensor:
    """Return the tensor repeated as a whole along each axis."""
    return structure.tile(
        as_tensor(x), repeats=tuple(repetitions) if isinstance(repetitions, Sequence) else (repetitions,)
    )


def repeat(x: Any, repeats: Any, /, *, axis: int | None = None) -> Tensor:
    """Return each element repeated along `axis`; `repeats` is a number, or one for each element."""
    x = as_tensor(x)
    if isinstance(repeats, int):
        return structure.repeat(x, repeats=repeats, axis=axis)
    from grilly_core.ops.index import take

    if axis is None:
        x, axis = reshape(x, (-1,)), 0
    counts = [int(n) for n in (repeats.tolist() if isinstance(repeats, Tensor) else repeats)]
    if len(counts) != x.shape[axis]:
        raise ValueError(f"repeat: expected {x.shape[axis]} counts for axis {axis}; received {len(counts)}.")
    return take(x, [i for i, n in enumerate(counts) for _ in range(n)], axis=axis)


def pad(x: Any, widths: Sequence[Sequence[int]], /, *, value: float = 0.0) -> Tensor:
    """Return `value` put round a tensor: (before, after) for each axis; negative widths crop."""
    return structure.pad(as_tensor(x), widths=tuple((int(a), int(b)) for a, b in widths), value=value)
