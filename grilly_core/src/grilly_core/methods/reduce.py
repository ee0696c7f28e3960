"""Reductions and order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from grilly_core.dtypes import as_dtype
from grilly_core.methods.base import Methods, ValuesIndices, axis_of, run
from grilly_core.methods.convert import ConvertMethods

if TYPE_CHECKING:
    from grilly_core.tensor import Tensor

__all__ = ["ReduceMethods"]

builtins_int = int  # the methods of these names hide the types
builtins_float = float  # the methods of these names hide the types
builtins_bool = bool  # the methods of these names hide the types


class ReduceMethods(ConvertMethods):
    """Reductions and order."""

    __slots__ = ()

    def sum(
        self,
        dim: Any = None,
        keepdim: builtins_bool = False,
        *,
        axis: Any = None,
        keepdims: builtins_bool = False,
        dtype: Any = None,
    ) -> Tensor:
        """Return the sum over `dim` (all axes by default)."""
        x = self if dtype is None else self.to(as_dtype(dtype))
        return run("sum", x, axis=axis_of(dim, axis), keepdims=keepdim or keepdims)

    def mean(
        self,
        dim: Any = None,
        keepdim: builtins_bool = False,
        *,
        axis: Any = None,
        keepdims: builtins_bool = False,
    ) -> Tensor:
        """Return the mean over `dim` (all axes by default)."""
        return run("mean", self, axis=axis_of(dim, axis), keepdims=keepdim or keepdims)

    def prod(
        self,
        dim: Any = None,
        keepdim: builtins_bool = False,
        *,
        axis: Any = None,
        keepdims: builtins_bool = False,
    ) -> Tensor:
        """Return the product over `dim` (all axes by default)."""
        return run("prod", self, axis=axis_of(dim, axis), keepdims=keepdim or keepdims)

    def var(
        self,
        dim: Any = None,
        unbiased: builtins_bool | None = None,
        keepdim: builtins_bool = False,
        *,
        correction: builtins_float = 1,
        axis: Any = None,
        keepdims: builtins_bool = False,
    ) -> Tensor:
        """Return the variance over `dim`; unbiased by default, as in PyTorch (``grilly.var`` is not)."""
        if unbiased is not None:
            correction = 1 if unbiased else 0
        return run("var", self, axis=axis_of(dim, axis), correction=correction, keepdims=keepdim or keepdims)

    def std(
        self,
        dim: Any = None,
        unbiased: builtins_bool | None = None,
        keepdim: builtins_bool = False,
        *,
        correction: builtins_float = 1,
        axis: Any = None,
        keepdims: builtins_bool = False,
    ) -> Tensor:
        """Return the square root of `var`."""
        return run(
            "sqrt", self.var(dim, unbiased, keepdim, correction=correction, axis=axis, keepdims=keepdims)
        )

    def _extreme(self, name: str, dim: Any, keepdim: builtins_bool) -> Any:
        """PyTorch's max and min: a value, or values with the index of the first."""
        if dim is None:
            return run(name, self)
        indices = run(f"arg{name}", self, axis=dim, keepdims=True)
        values = run("take_along_axis", self, indices, axis=dim)
        pair = (values, indices) if keepdim else (values.squeeze(dim), indices.squeeze(dim))
        return ValuesIndices(*pair)

    def max(
        self,
        dim: Any = None,
        keepdim: builtins_bool = False,
        *,
        axis: Any = None,
        keepdims: builtins_bool = False,
    ) -> Any:
        """Return the largest element; with `dim` values and indices; of another tensor the elementwise maximum."""
        if isinstance(dim, Methods):
            return run("maximum", self, dim)
        return self._extreme("max", axis_of(dim, axis), keepdim or keepdims)

    def min(
        self,
        dim: Any = None,
        keepdim: builtins_bool = False,
        *,
        axis: Any = None,
        keepdims: builtins_bool = False,
    ) -> Any:
        """Return the smallest element; with `dim` values and indices; of another tensor the elementwise minimum."""
        if isinstance(dim, Methods):
            return run("minimum", self, dim)
        return self._extreme("min", axis_of(dim, axis), keepdim or keepdims)

    def amax(
        self,
        dim: Any = None,
        keepdim: builtins_bool = False,
        *,
        axis: Any = None,
        keepdims: builtins_bool = False,
    ) -> Tensor:
        """Return the largest elements over `dim`; ties share the gradient."""
        return run("max", self, axis=axis_of(dim, axis), keepdims=keepdim or keepdims)

    def amin(
        self,
        dim: Any = None,
        keepdim: builtins_bool = False,
        *,
        axis: Any = None,
        keepdims: builtins_bool = False,
    ) -> Tensor:
        """Return the smallest elements over `dim`; ties share the gradient."""
        return run("min", self, axis=axis_of(dim, axis), keepdims=keepdim or keepdims)

    def argmax(
        self,
        dim: Any = None,
        keepdim: builtins_bool = False,
        *,
        axis: Any = None,
        keepdims: builtins_bool = False,
    ) -> Tensor:
        """Return the index of the largest element along `dim` (of the flat tensor by default)."""
        from grilly_core.ops.reduce import argmax

        return argmax(self, axis=axis_of(dim, axis), keepdims=keepdim or keepdims)

    def argmin(
        self,
        dim: Any = None,
        keepdim: builtins_bool = False,
        *,
        axis: Any = None,
        keepdims: builtins_bool = False,
    ) -> Tensor:
        """Return the index of the smallest element along `dim` (of the flat tensor by default)."""
        from grilly_core.ops.reduce import argmin

        return argmin(self, axis=axis_of(dim, axis), keepdims=keepdim or keepdims)

    def all(
        self,
        dim: Any = None,
        keepdim: builtins_bool = False,
        *,
        axis: Any = None,
        keepdims: builtins_bool = False,
    ) -> Tensor:
        """Return whether all elements over `dim` are true."""
        return run("all", self, axis=axis_of(dim, axis), keepdims=keepdim or keepdims)

    def any(
        self,
        dim: Any = None,
        keepdim: builtins_bool = False,
        *,
        axis: Any = None,
        keepdims: builtins_bool = False,
    ) -> Tensor:
        """Return whether any element over `dim` is true."""
        return run("any", self, axis=axis_of(dim, axis), keepdims=keepdim or keepdims)

    def norm(
        self, p: Any = 2, dim: Any = None, keepdim: builtins_bool = False, *, axis: Any = None
    ) -> Tensor:
        """Return the p-norm over `dim`; its gradient at 0 is 0."""
        return run(
            "norm",
            self,
            ord=2.0 if p == "fro" else builtins_float(p),
            axis=axis_of(dim, axis),
            keepdims=keepdim,
        )

    def logsumexp(self, dim: Any, keepdim: builtins_bool = False) -> Tensor:
        """Return ``log(sum(exp(x)))`` over `dim` without overflow."""
        return run("logsumexp", self, axis=axis_of(dim, None), keepdims=keepdim)

    def cumsum(self, dim: builtins_int) -> Tensor:
        """Return the running sum along `dim`."""
        return run("cumsum", self, axis=dim)

    def cumprod(self, dim: builtins_int) -> Tensor:
        """Return the running product along `dim`."""
        return run("cumprod", self, axis=dim)

    def sort(
        self, dim: builtins_int = -1, descending: builtins_bool = False, stable: builtins_bool = True
    ) -> ValuesIndices:
        """Return values in order and their indices; always stable, NaN is the greatest."""
        return ValuesIndices(*run("sort", self, axis=dim, descending=descending))

    def argsort(
        self, dim: builtins_int = -1, descending: builtins_bool = False, stable: builtins_bool = True
    ) -> Tensor:
        """Return the indices that sort along `dim`; always stable."""
        return self.sort(dim, descending).indices

    def topk(
        self,
        k: builtins_int,
        dim: builtins_int = -1,
        largest: builtins_bool = True,
        sorted: builtins_bool = True,
    ) -> ValuesIndices:
        """Return the `k` largest (or smallest) values in order and their indices."""
        return ValuesIndices(*run("topk", self, k=k, axis=dim, largest=largest))
