"""Other shapes of the same elements."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

from grilly_core.errors import ShapeError
from grilly_core.layout import broadcast_shapes, normalize_axis
from grilly_core.methods.base import Methods, axis_of, run, sizes_of

if TYPE_CHECKING:
    from grilly_core.tensor import Tensor

__all__ = ["ShapeMethods"]

builtins_int = int  # the methods of these names hide the types


class ShapeMethods(Methods):
    """Other shapes of the same elements."""

    __slots__ = ()

    def reshape(self, *shape: Any) -> Tensor:
        """Return the same elements in another shape; one size may be -1."""
        return run("reshape", self, shape=sizes_of(shape))

    view = reshape

    def view_as(self, other: Tensor) -> Tensor:
        """Return the same elements in the shape of `other`."""
        return self.reshape(other.shape)

    def flatten(self, start_dim: builtins_int = 0, end_dim: builtins_int = -1) -> Tensor:
        """Return the axes from `start_dim` to `end_dim` joined."""
        if self.ndim == 0:
            return self.reshape(1)
        a, b = (
            normalize_axis(start_dim, self.ndim, "start_dim"),
            normalize_axis(end_dim, self.ndim, "end_dim"),
        )
        if a > b:
            raise ShapeError(f"flatten: start_dim {start_dim} lies after end_dim {end_dim}.")
        return self.reshape(*self.shape[:a], math.prod(self.shape[a : b + 1]), *self.shape[b + 1 :])

    def unflatten(self, dim: builtins_int, sizes: Sequence[builtins_int]) -> Tensor:
        """Return one axis split into several."""
        a = normalize_axis(dim, self.ndim, "dim")
        return self.reshape(*self.shape[:a], *sizes, *self.shape[a + 1 :])

    def permute(self, *dims: Any) -> Tensor:
        """Return the axes in another order."""
        return run("permute_dims", self, axes=sizes_of(dims))

    def transpose(self, dim0: builtins_int, dim1: builtins_int) -> Tensor:
        """Return two axes exchanged."""
        order = list(range(self.ndim))
        a, b = normalize_axis(dim0, self.ndim, "dim0"), normalize_axis(dim1, self.ndim, "dim1")
        order[a], order[b] = b, a
        return run("permute_dims", self, axes=tuple(order))

    swapaxes = transpose

    def t(self) -> Tensor:
        """Return the transpose of a matrix."""
        if self.ndim > 2:
            raise ShapeError(
                f"t(): expected at most 2 dimensions, received {self.ndim}; use transpose or mT."
            )
        return cast("Tensor", self) if self.ndim < 2 else self.transpose(0, 1)

    def movedim(self, source: Any, destination: Any) -> Tensor:
        """Return axes moved to other positions, the rest in order."""
        from grilly_core.ops.manipulate import moveaxis

        return moveaxis(self, source, destination)

    @property
    def T(self) -> Tensor:
        """The axes in reverse order."""
        return run("permute_dims", self, axes=tuple(range(self.ndim))[::-1])

    @property
    def mT(self) -> Tensor:
        """The last two axes exchanged."""
        return self.transpose(-2, -1)

    def squeeze(self, dim: Any = None, axis: Any = None) -> Tensor:
        """Return axes of size 1 removed; an axis of another size stays (PyTorch's rule)."""
        chosen = axis_of(dim, axis)
        given = range(self.ndim) if chosen is None else (chosen if isinstance(chosen, tuple) else (chosen,))
        axes = tuple(a for a in (normalize_axis(g, self.ndim, "dim") for g in given) if self.shape[a] == 1)
        return run("squeeze", self, axis=axes) if axes else cast("Tensor", self)

    def unsqueeze(self, dim: builtins_int) -> Tensor:
        """Return an axis of size 1 inserted."""
        return run("expand_dims", self, axis=normalize_axis(dim, self.ndim + 1, "dim"))

    def expand(self, *sizes: Any) -> Tensor:
        """Return axes of size 1 repeated without a copy; -1 keeps a size."""
        shape = sizes_of(sizes)
        extra = len(shape) - self.ndim
        return run(
            "broadcast_to",
            self,
            shape=tuple(self.shape[i - extra] if n == -1 and i >= extra else n for i, n in enumerate(shape)),
        )

    def expand_as(self, other: Tensor) -> Tensor:
        """Return the tensor expanded to the shape of `other`."""
        return run("broadcast_to", self, shape=other.shape)

    broadcast_to = expand

    def repeat(self, *repeats: Any) -> Tensor:
        """Return the tensor tiled along each axis."""
        return run("tile", self, repeats=sizes_of(repeats))

    def repeat_interleave(self, repeats: builtins_int, dim: builtins_int | None = None) -> Tensor:
        """Return each element repeated along `dim`."""
        return run("repeat", self, repeats=repeats, axis=dim)

    def flip(self, *dims: Any) -> Tensor:
        """Return the order along `dims` reversed."""
        return run("flip", self, axis=sizes_of(dims))

    def roll(self, shifts: Any, dims: Any = None) -> Tensor:
        """Return the elements shifted along axes."""
        from grilly_core.ops.manipulate import roll

        return roll(self, shifts, axis=dims)

    def split(self, split_size: Any, dim: builtins_int = 0) -> tuple[Tensor, ...]:
        """Return slices of `split_size` elements (the last may be smaller), or of the given sizes."""
        n = self.shape[normalize_axis(dim, self.ndim, "dim")]
        sizes = (
            tuple(split_size)
            if isinstance(split_size, Sequence)
            else tuple(min(split_size, n - i) for i in range(0, n, split_size))
        )
        return cast("tuple[Tensor, ...]", run("split", self, sizes=sizes, axis=dim))

    def chunk(self, chunks: builtins_int, dim: builtins_int = 0) -> tuple[Tensor, ...]:
        """Return at most `chunks` slices of equal size (the last may be smaller)."""
        n = self.shape[normalize_axis(dim, self.ndim, "dim")]
        return self.split(max(-(-n // chunks), 1), dim)

    def unbind(self, dim: builtins_int = 0) -> tuple[Tensor, ...]:
        """Return the slices along `dim`, without that axis."""
        from grilly_core.ops.structure import unstack

        return unstack(self, axis=dim)

    def narrow(self, dim: builtins_int, start: builtins_int, length: builtins_int) -> Tensor:
        """Return `length` elements from `start` along `dim`."""
        key: list[Any] = [slice(None)] * self.ndim
        key[normalize_axis(dim, self.ndim, "dim")] = slice(start, start + length)
        return self[tuple(key)]

    def diagonal(self, offset: builtins_int = 0, dim1: builtins_int = 0, dim2: builtins_int = 1) -> Tensor:
        """Return the `offset`-th diagonal over two axes, as the last axis."""
        a, b = normalize_axis(dim1, self.ndim, "dim1"), normalize_axis(dim2, self.ndim, "dim2")
        if a == b:
            raise ShapeError(f"diagonal: dim1 and dim2 must differ; received {dim1} and {dim2}.")
        rest = [i for i in range(self.ndim) if i not in (a, b)]
        return run("diagonal", self.permute(*rest, a, b), offset=offset)

    def select(self, dim: builtins_int, index: builtins_int) -> Tensor:
        """Return the slice at `index` along `dim`, without that axis."""
        return self[(slice(None),) * normalize_axis(dim, self.ndim, "dim") + (index,)]

    def unfold(self, dimension: builtins_int, size: builtins_int, step: builtins_int) -> Tensor:
        """Return windows of `size` elements every `step` along an axis; the elements are a new last axis."""
        if self.ndim == 0:
            return self.reshape(1)[:size]
        a = normalize_axis(dimension, self.ndim, "dimension")
        return run("sliding_window", self, axes=(a,), sizes=(size,), strides=(step,), dilations=(1,))

    def tile(self, *dims: Any) -> Tensor:
        """Return the tensor repeated as a whole along each axis, missing ones counting as 1."""
        return run("tile", self, repeats=sizes_of(dims))

    def sum_to_size(self, *size: Any) -> Tensor:
        """Return the sum over what `expand` from `size` to this shape would repeat."""
        shape = sizes_of(size)
        broadcast_shapes(self.shape, shape)
        return run("sum_to", self, shape=shape)

    @property
    def H(self) -> Tensor:
        """The conjugate transpose of a matrix."""
        if self.ndim not in (0, 2):
            raise ShapeError(f"H: expected a matrix, received {self.ndim} dimensions; use mH.")
        return run("conj", self.t())

    @property
    def mH(self) -> Tensor:
        """The last two axes exchanged, conjugated."""
        return run("conj", self.transpose(-2, -1))
