"""Picking and placing elements."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from grilly_core.methods.base import Methods, run

if TYPE_CHECKING:
    from grilly_core.tensor import Tensor

__all__ = ["PlaceMethods"]

builtins_bool = bool  # methods of these names may hide the types
builtins_int = int  # the methods of these names hide the types


class PlaceMethods(Methods):
    """Picking and placing elements."""

    __slots__ = ()

    def gather(self, dim: builtins_int, index: Any) -> Tensor:
        """Return the elements picked along `dim`, one index for each element of the result."""
        return run("take_along_axis", self, index, axis=dim)

    def index_select(self, dim: builtins_int, index: Any) -> Tensor:
        """Return the slices at `index` along `dim`."""
        from grilly_core.ops.index import take

        return take(self, index, axis=dim)

    def scatter(self, dim: builtins_int, index: Any, src: Any) -> Tensor:
        """Return the tensor with `src` written along `dim`, one index for each update."""
        return run("scatter_along_axis", self, index, _like_index(self, src, index), axis=dim, mode="set")

    def scatter_add(self, dim: builtins_int, index: Any, src: Any) -> Tensor:
        """Return the tensor with `src` added along `dim`; duplicates add up."""
        return run("scatter_along_axis", self, index, _like_index(self, src, index), axis=dim, mode="add")

    def index_add(self, dim: builtins_int, index: Any, source: Any) -> Tensor:
        """Return the tensor with slices of `source` added at `index` along `dim`."""
        return run("index_add", self, index, source, axis=dim)

    def index_copy(self, dim: builtins_int, index: Any, source: Any) -> Tensor:
        """Return the tensor with slices of `source` written at `index` along `dim`."""
        from grilly_core.ops.placing import index_copy

        return index_copy(self, index, source, axis=dim)

    def index_fill(self, dim: builtins_int, index: Any, value: Any) -> Tensor:
        """Return the tensor with `value` in the slices at `index` along `dim`."""
        from grilly_core.ops.placing import index_fill

        return index_fill(self, index, value, axis=dim)

    def index_reduce(
        self, dim: builtins_int, index: Any, source: Any, reduce: str, *, include_self: builtins_bool = True
    ) -> Tensor:
        """Return the tensor with slices of `source` reduced into those at `index` along `dim`."""
        from grilly_core.ops.placing import index_reduce

        return index_reduce(self, index, source, reduce, axis=dim, include_self=include_self)

    def scatter_reduce(
        self, dim: builtins_int, index: Any, src: Any, reduce: str, *, include_self: builtins_bool = True
    ) -> Tensor:
        """Return the tensor with `src` reduced into places along `dim`, one index for each element of `src`."""
        from grilly_core.ops.placing import scatter_reduce

        return scatter_reduce(self, index, src, reduce, axis=dim, include_self=include_self)

    def masked_fill(self, mask: Any, value: Any) -> Tensor:
        """Return the tensor with `value` wherever `mask` holds."""
        return run("masked_fill", self, mask, value)

    def masked_select(self, mask: Any) -> Tensor:
        """Return the elements where `mask` holds, 1-D."""
        return cast("Tensor", self)[mask]

    def where(self, condition: Any, other: Any) -> Tensor:
        """Return this tensor where `condition` holds, else `other`."""
        return run("where", condition, self, other)

    def nonzero(self) -> Tensor:
        """Return the positions of the elements that are not zero, a row for each."""
        from grilly_core.ops.index import nonzero
        from grilly_core.ops.manipulate import stack

        return stack(nonzero(self), axis=1)

    def tril(self, diagonal: builtins_int = 0) -> Tensor:
        """Return the lower triangle of matrices."""
        return run("tril", self, k=diagonal)

    def triu(self, diagonal: builtins_int = 0) -> Tensor:
        """Return the upper triangle of matrices."""
        return run("triu", self, k=diagonal)

    @property
    def real(self) -> Tensor:
        """The real part."""
        return run("real", self)

    @property
    def imag(self) -> Tensor:
        """The imaginary part."""
        return run("imag", self)


def _like_index(x: Any, src: Any, index: Any) -> Any:
    """A scalar source is written at every index."""
    if isinstance(src, int | float):
        from grilly_core.ops.creation import full

        return full(index.shape, src, dtype=x.dtype, device=x.device)
    return src
