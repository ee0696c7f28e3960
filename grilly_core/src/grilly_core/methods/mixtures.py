"""Mixtures of several tensors, products joined with sums, diagonals and splits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from grilly_core.methods.base import Methods

if TYPE_CHECKING:
    from grilly_core.tensor import Tensor

__all__ = ["MixtureMethods"]

builtins_bool = bool  # methods may hide the types
builtins_float = float  # methods may hide the types
builtins_int = int  # methods may hide the types


class MixtureMethods(Methods):
    """Mixtures of several tensors, products joined with sums, diagonals and splits."""

    __slots__ = ()

    def addcmul(self, tensor1: Any, tensor2: Any, *, value: Any = 1) -> Tensor:
        """Return ``self + value * tensor1 * tensor2``, elementwise."""
        from grilly_core.ops.arithmetic import addcmul

        return addcmul(self, tensor1, tensor2, value=value)

    def addcdiv(self, tensor1: Any, tensor2: Any, *, value: Any = 1) -> Tensor:
        """Return ``self + value * tensor1 / tensor2``, elementwise."""
        from grilly_core.ops.arithmetic import addcdiv

        return addcdiv(self, tensor1, tensor2, value=value)

    def lerp(self, end: Any, weight: Any) -> Tensor:
        """Return elementwise ``self + weight * (end - self)``, exact at both ends."""
        from grilly_core.ops.arithmetic import lerp

        return lerp(self, end, weight)

    def float_power(self, exponent: Any) -> Tensor:
        """Return ``self ** exponent`` in double precision."""
        from grilly_core.ops.arithmetic import float_power

        return float_power(self, exponent)

    def logit(self, eps: builtins_float | None = None) -> Tensor:
        """Return ``log(x / (1 - x))``, elementwise, the elements first limited to ``[eps, 1 - eps]`` if given."""
        from grilly_core.ops.arithmetic import logit

        return logit(self, eps=eps)

    def nan_to_num(
        self,
        nan: builtins_float = 0.0,
        posinf: builtins_float | None = None,
        neginf: builtins_float | None = None,
    ) -> Tensor:
        """Return numbers in place of NaN and infinities: by default 0, and the largest and smallest of the type."""
        from grilly_core.ops.arithmetic import nan_to_num

        return nan_to_num(self, nan=nan, posinf=posinf, neginf=neginf)

    def isclose(
        self,
        other: Any,
        rtol: builtins_float = 1e-5,
        atol: builtins_float = 1e-8,
        equal_nan: builtins_bool = False,
    ) -> Tensor:
        """Return elementwise ``abs(self - other) <= atol + rtol * abs(other)``; equal infinities are close."""
        from grilly_core.ops.arithmetic import isclose

        return isclose(self, other, rtol=rtol, atol=atol, equal_nan=equal_nan)

    def addmm(self, mat1: Any, mat2: Any, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
        """Return ``beta * self + alpha * (a @ b)`` of matrices."""
        from grilly_core.ops.products import addmm

        return addmm(self, mat1, mat2, beta=beta, alpha=alpha)

    def addmv(self, mat: Any, vec: Any, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
        """Return ``beta * self + alpha * (a @ b)`` of a matrix and a vector; see `addmm`."""
        from grilly_core.ops.products import addmv

        return addmv(self, mat, vec, beta=beta, alpha=alpha)

    def addr(self, vec1: Any, vec2: Any, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
        """Return ``beta * self + alpha * outer(a, b)``; see `addmm`."""
        from grilly_core.ops.products import addr

        return addr(self, vec1, vec2, beta=beta, alpha=alpha)

    def addbmm(self, batch1: Any, batch2: Any, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
        """Return ``beta * self + alpha * (a @ b)``, summed over the batch; see `addmm`."""
        from grilly_core.ops.products import addbmm

        return addbmm(self, batch1, batch2, beta=beta, alpha=alpha)

    def baddbmm(self, batch1: Any, batch2: Any, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
        """Return ``beta * self + alpha * (a @ b)`` of batches of matrices; see `addmm`."""
        from grilly_core.ops.products import baddbmm

        return baddbmm(self, batch1, batch2, beta=beta, alpha=alpha)

    def inner(self, other: Any) -> Tensor:
        """Return the sum of products over the last axes of both."""
        from grilly_core.ops.products import inner

        return inner(self, other)

    def kron(self, other: Any) -> Tensor:
        """Return the Kronecker product: blocks of `other`, each times one element of this tensor."""
        from grilly_core.ops.products import kron

        return kron(self, other)

    def dist(self, other: Any, p: builtins_float = 2.0) -> Tensor:
        """Return the norm of order `p` of ``self - other``."""
        from grilly_core.ops.products import dist

        return dist(self, other, p)

    def ravel(self) -> Tensor:
        """Return the elements in C order, 1-D."""
        from grilly_core.ops.arrange import ravel

        return ravel(self)

    def argwhere(self) -> Tensor:
        """Return the positions of the elements that are not zero, a row for each."""
        from grilly_core.ops.arrange import argwhere

        return argwhere(self)

    def diag(self, diagonal: builtins_int = 0) -> Tensor:
        """Return a matrix with a vector on its `k`-th diagonal, or the `k`-th diagonal of a matrix."""
        from grilly_core.ops.arrange import diag

        return diag(self, k=diagonal)

    def diag_embed(
        self, offset: builtins_int = 0, dim1: builtins_int = -2, dim2: builtins_int = -1
    ) -> Tensor:
        """Return matrices whose `offset`-th diagonal, over the axes `dim1` and `dim2`, is the last axis."""
        from grilly_core.ops.arrange import diag_embed

        return diag_embed(self, offset=offset, axis1=dim1, axis2=dim2)

    def rot90(self, k: builtins_int = 1, dims: Any = (0, 1)) -> Tensor:
        """Return this tensor turned by `k` quarters in the plane of two axes, from the first towards the second."""
        from grilly_core.ops.arrange import rot90

        return rot90(self, k, axes=dims)

    def tensor_split(self, indices_or_sections: Any, dim: builtins_int = 0) -> tuple[Tensor, ...]:
        """Return so many slices of nearly equal size along `dim`, or slices that end at the given indices."""
        from grilly_core.ops.arrange import tensor_split

        return tensor_split(self, indices_or_sections, axis=dim)

    def hsplit(self, indices_or_sections: Any) -> tuple[Tensor, ...]:
        """Return slices along the second axis (of a vector the only one); see `tensor_split`."""
        from grilly_core.ops.arrange import hsplit

        return hsplit(self, indices_or_sections)

    def vsplit(self, indices_or_sections: Any) -> tuple[Tensor, ...]:
        """Return slices along the first axis of at least two; see `tensor_split`."""
        from grilly_core.ops.arrange import vsplit

        return vsplit(self, indices_or_sections)

    def dsplit(self, indices_or_sections: Any) -> tuple[Tensor, ...]:
        """Return slices along the third axis; see `tensor_split`."""
        from grilly_core.ops.arrange import dsplit

        return dsplit(self, indices_or_sections)

    def masked_scatter(self, mask: Any, source: Any) -> Tensor:
        """Return this tensor with the elements of `source`, in order, where `mask` holds."""
        from grilly_core.ops.placing import masked_scatter

        return masked_scatter(self, mask, source)

    def put(self, index: Any, source: Any, accumulate: builtins_bool = False) -> Tensor:
        """Return this tensor with `source` written (or added) at positions of the flat tensor."""
        from grilly_core.ops.placing import put

        return put(self, index, source, accumulate=accumulate)

    def index_put(self, indices: Any, values: Any, accumulate: builtins_bool = False) -> Tensor:
        """Return this tensor with ``self[indices]`` set to `values`, or increased by them."""
        from grilly_core.ops.placing import index_put

        return index_put(self, indices, values, accumulate=accumulate)
