"""The methods of `Tensor`, named and defaulted as in PyTorch; `axis` and `keepdims` are accepted beside `dim` and `keepdim`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from grilly_core import dtypes
from grilly_core.dtypes import DType, as_dtype
from grilly_core.errors import ShapeError
from grilly_core.layout import normalize_axis
from grilly_core.opspec import Handle

if TYPE_CHECKING:
    from grilly_core.buffer import View
    from grilly_core.tensor import Tensor

__all__ = ["TensorMethods", "ValuesIndices"]

_H: Final[dict[str, Handle]] = {}


def _run(name: str, *tensors: Any, **attrs: Any) -> Tensor:
    """Run the op of that name."""
    handle = _H.get(name)
    if handle is None:
        handle = _H[name] = Handle(name)
    result: Tensor = handle(*tensors, **attrs)
    return result


def _axis(dim: Any, axis: Any) -> Any:
    """The one of the two names that was given."""
    if dim is not None and axis is not None:
        raise TypeError("give either dim or axis, not both.")
    chosen = dim if axis is None else axis
    return tuple(chosen) if isinstance(chosen, list) else chosen


def _sizes(shape: tuple[Any, ...]) -> tuple[int, ...]:
    if len(shape) == 1 and isinstance(shape[0], Sequence):
        shape = tuple(shape[0])
    return tuple(int(n) for n in shape)


class ValuesIndices(NamedTuple):
    """Values and where they were found."""

    values: Tensor
    indices: Tensor


class TensorMethods:
    """Everything a tensor can be asked that is an op."""

    __slots__ = ()

    if TYPE_CHECKING:
        _value: View

        @property
        def shape(self) -> tuple[int, ...]: ...
        @property
        def dtype(self) -> DType: ...
        @property
        def ndim(self) -> int: ...
        @property
        def device(self) -> Any: ...

        def _assign(self, new: Tensor, what: str = "") -> Tensor: ...
        def __getitem__(self, key: Any) -> Tensor: ...
        def detach(self) -> Tensor: ...

    # -- facts ---------------------------------------------------------------------------------------------

    def size(self, dim: int | None = None) -> Any:
        """Return the shape, or the size of one axis."""
        return self.shape if dim is None else self.shape[normalize_axis(dim, self.ndim, "dim")]

    def dim(self) -> int:
        """Return the number of axes."""
        return self.ndim

    def numel(self) -> int:
        """Return the number of elements."""
        return math.prod(self.shape)

    def element_size(self) -> int:
        """Return the bytes of one element."""
        return self.dtype.itemsize

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return self.numel() * self.dtype.itemsize

    def is_floating_point(self) -> bool:
        """Whether the dtype is floating."""
        return self.dtype.is_floating

    def is_contiguous(self) -> bool:
        """Whether the storage is in C order without gaps."""
        return bool(self._value.spec.contiguous)

    def stride(self) -> tuple[int, ...]:
        """Return the steps of the axes in elements."""
        return self._value.spec.strides

    # -- copies and conversions ----------------------------------------------------------------------------

    def clone(self) -> Tensor:
        """Return a copy with its own storage, through which gradients flow."""
        return _run("strided_copy", self)

    def contiguous(self) -> Tensor:
        """Return the tensor in C order: itself if it is already."""
        return cast("Tensor", self) if self.is_contiguous() else self.clone()

    def to(self, *args: Any, device: Any = None, dtype: Any = None, copy: bool = False) -> Tensor:
        """Return the tensor on another device or in another dtype, in any order; gradients flow through.

        Returns itself if nothing changes and ``copy`` is False.
        """
        from grilly_core import transfer

        return transfer.to(cast("Tensor", self), args, device, dtype, copy)

    def astype(self, dtype: Any, /) -> Tensor:
        """Return the tensor in another dtype."""
        return self.to(as_dtype(dtype))

    def type_as(self, other: Tensor) -> Tensor:
        """Return the tensor in the dtype of another."""
        return self.to(other.dtype)

    def float(self) -> Tensor:
        """Return the tensor as float32."""
        return self.to(dtypes.float32)

    def double(self) -> Tensor:
        """Return the tensor as float64."""
        return self.to(dtypes.float64)

    def half(self) -> Tensor:
        """Return the tensor as float16."""
        return self.to(dtypes.float16)

    def bfloat16(self) -> Tensor:
        """Return the tensor as bfloat16."""
        return self.to(dtypes.bfloat16)

    def int(self) -> Tensor:
        """Return the tensor as int32."""
        return self.to(dtypes.int32)

    def long(self) -> Tensor:
        """Return the tensor as int64."""
        return self.to(dtypes.int64)

    def bool(self) -> Tensor:
        """Return the tensor as bool."""
        return self.to(dtypes.bool_)

    def cpu(self) -> Tensor:
        """Return the tensor on the CPU."""
        return self.to("cpu")

    # -- shape ---------------------------------------------------------------------------------------------

    def reshape(self, *shape: Any) -> Tensor:
        """Return the same elements in another shape; one size may be -1."""
        return _run("reshape", self, shape=_sizes(shape))

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
        return _run("permute_dims", self, axes=_sizes(dims))

    def transpose(self, dim0: builtins_int, dim1: builtins_int) -> Tensor:
        """Return two axes exchanged."""
        order = list(range(self.ndim))
        a, b = normalize_axis(dim0, self.ndim, "dim0"), normalize_axis(dim1, self.ndim, "dim1")
        order[a], order[b] = b, a
        return _run("permute_dims", self, axes=tuple(order))

    swapaxes = transpose

    def t(self) -> Tensor:
        """Return the transpose of a matrix."""
        if self.ndim > 2:
            raise ShapeError(
                f"t(): expected at most 2 dimensions, received {self.ndim}; use transpose or mT."
            )
        return cast("Tensor", self) if self.ndim < 2 else self.transpose(0, 1)

    @property
    def T(self) -> Tensor:
        """The axes in reverse order."""
        return _run("permute_dims", self, axes=tuple(range(self.ndim))[::-1])

    @property
    def mT(self) -> Tensor:
        """The last two axes exchanged."""
        return self.transpose(-2, -1)

    def squeeze(self, dim: Any = None, axis: Any = None) -> Tensor:
        """Return axes of size 1 removed; an axis of another size stays (PyTorch's rule)."""
        chosen = _axis(dim, axis)
        given = range(self.ndim) if chosen is None else (chosen if isinstance(chosen, tuple) else (chosen,))
        axes = tuple(a for a in (normalize_axis(g, self.ndim, "dim") for g in given) if self.shape[a] == 1)
        return _run("squeeze", self, axis=axes) if axes else cast("Tensor", self)

    def unsqueeze(self, dim: builtins_int) -> Tensor:
        """Return an axis of size 1 inserted."""
        return _run("expand_dims", self, axis=normalize_axis(dim, self.ndim + 1, "dim"))

    def expand(self, *sizes: Any) -> Tensor:
        """Return axes of size 1 repeated without a copy; -1 keeps a size."""
        shape = _sizes(sizes)
        extra = len(shape) - self.ndim
        return _run(
            "broadcast_to",
            self,
            shape=tuple(self.shape[i - extra] if n == -1 and i >= extra else n for i, n in enumerate(shape)),
        )

    def expand_as(self, other: Tensor) -> Tensor:
        """Return the tensor expanded to the shape of `other`."""
        return _run("broadcast_to", self, shape=other.shape)

    broadcast_to = expand

    def repeat(self, *repeats: Any) -> Tensor:
        """Return the tensor tiled along each axis."""
        return _run("tile", self, repeats=_sizes(repeats))

    def repeat_interleave(self, repeats: builtins_int, dim: builtins_int | None = None) -> Tensor:
        """Return each element repeated along `dim`."""
        return _run("repeat", self, repeats=repeats, axis=dim)

    def flip(self, *dims: Any) -> Tensor:
        """Return the order along `dims` reversed."""
        return _run("flip", self, axis=_sizes(dims))

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
        return cast("tuple[Tensor, ...]", _run("split", self, sizes=sizes, axis=dim))

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

    def diagonal(self, offset: builtins_int = 0) -> Tensor:
        """Return the diagonal of the last two axes."""
        return _run("diagonal", self, offset=offset)

    # -- reductions ----------------------------------------------------------------------------------------

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
        return _run("sum", x, axis=_axis(dim, axis), keepdims=keepdim or keepdims)

    def mean(
        self,
        dim: Any = None,
        keepdim: builtins_bool = False,
        *,
        axis: Any = None,
        keepdims: builtins_bool = False,
    ) -> Tensor:
        """Return the mean over `dim` (all axes by default)."""
        return _run("mean", self, axis=_axis(dim, axis), keepdims=keepdim or keepdims)

    def prod(
        self,
        dim: Any = None,
        keepdim: builtins_bool = False,
        *,
        axis: Any = None,
        keepdims: builtins_bool = False,
    ) -> Tensor:
        """Return the product over `dim` (all axes by default)."""
        return _run("prod", self, axis=_axis(dim, axis), keepdims=keepdim or keepdims)

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
        return _run("var", self, axis=_axis(dim, axis), correction=correction, keepdims=keepdim or keepdims)

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
        return _run(
            "sqrt", self.var(dim, unbiased, keepdim, correction=correction, axis=axis, keepdims=keepdims)
        )

    def _extreme(self, name: str, dim: Any, keepdim: builtins_bool) -> Any:
        """PyTorch's max and min: a value, or values with the index of the first."""
        if dim is None:
            return _run(name, self)
        indices = _run(f"arg{name}", self, axis=dim, keepdims=True)
        values = _run("take_along_axis", self, indices, axis=dim)
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
        """Return the largest element; with `dim` a pair of values and indices, of another tensor the elementwise maximum."""
        if isinstance(dim, TensorMethods):
            return _run("maximum", self, dim)
        return self._extreme("max", _axis(dim, axis), keepdim or keepdims)

    def min(
        self,
        dim: Any = None,
        keepdim: builtins_bool = False,
        *,
        axis: Any = None,
        keepdims: builtins_bool = False,
    ) -> Any:
        """Return the smallest element; with `dim` a pair of values and indices, of another tensor the elementwise minimum."""
        if isinstance(dim, TensorMethods):
            return _run("minimum", self, dim)
        return self._extreme("min", _axis(dim, axis), keepdim or keepdims)

    def amax(
        self,
        dim: Any = None,
        keepdim: builtins_bool = False,
        *,
        axis: Any = None,
        keepdims: builtins_bool = False,
    ) -> Tensor:
        """Return the largest elements over `dim`; ties share the gradient."""
        return _run("max", self, axis=_axis(dim, axis), keepdims=keepdim or keepdims)

    def amin(
        self,
        dim: Any = None,
        keepdim: builtins_bool = False,
        *,
        axis: Any = None,
        keepdims: builtins_bool = False,
    ) -> Tensor:
        """Return the smallest elements over `dim`; ties share the gradient."""
        return _run("min", self, axis=_axis(dim, axis), keepdims=keepdim or keepdims)

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

        return argmax(self, axis=_axis(dim, axis), keepdims=keepdim or keepdims)

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

        return argmin(self, axis=_axis(dim, axis), keepdims=keepdim or keepdims)

    def all(
        self,
        dim: Any = None,
        keepdim: builtins_bool = False,
        *,
        axis: Any = None,
        keepdims: builtins_bool = False,
    ) -> Tensor:
        """Return whether all elements over `dim` are true."""
        return _run("all", self, axis=_axis(dim, axis), keepdims=keepdim or keepdims)

    def any(
        self,
        dim: Any = None,
        keepdim: builtins_bool = False,
        *,
        axis: Any = None,
        keepdims: builtins_bool = False,
    ) -> Tensor:
        """Return whether any element over `dim` is true."""
        return _run("any", self, axis=_axis(dim, axis), keepdims=keepdim or keepdims)

    def norm(
        self, p: Any = 2, dim: Any = None, keepdim: builtins_bool = False, *, axis: Any = None
    ) -> Tensor:
        """Return the p-norm over `dim`; its gradient at 0 is 0."""
        return _run(
            "norm",
            self,
            ord=2.0 if p == "fro" else builtins_float(p),
            axis=_axis(dim, axis),
            keepdims=keepdim,
        )

    def logsumexp(self, dim: Any, keepdim: builtins_bool = False) -> Tensor:
        """Return ``log(sum(exp(x)))`` over `dim` without overflow."""
        return _run("logsumexp", self, axis=_axis(dim, None), keepdims=keepdim)

    def cumsum(self, dim: builtins_int) -> Tensor:
        """Return the running sum along `dim`."""
        return _run("cumsum", self, axis=dim)

    def cumprod(self, dim: builtins_int) -> Tensor:
        """Return the running product along `dim`."""
        return _run("cumprod", self, axis=dim)

    # -- order ---------------------------------------------------------------------------------------------

    def sort(
        self, dim: builtins_int = -1, descending: builtins_bool = False, stable: builtins_bool = True
    ) -> ValuesIndices:
        """Return values in order and their indices; always stable, NaN is the greatest."""
        return ValuesIndices(*_run("sort", self, axis=dim, descending=descending))

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
        return ValuesIndices(*_run("topk", self, k=k, axis=dim, largest=largest))

    # -- picking and placing -------------------------------------------------------------------------------

    def gather(self, dim: builtins_int, index: Any) -> Tensor:
        """Return the elements picked along `dim`, one index for each element of the result."""
        return _run("take_along_axis", self, index, axis=dim)

    def index_select(self, dim: builtins_int, index: Any) -> Tensor:
        """Return the slices at `index` along `dim`."""
        from grilly_core.ops.index import take

        return take(self, index, axis=dim)

    def scatter(self, dim: builtins_int, index: Any, src: Any) -> Tensor:
        """Return the tensor with `src` written along `dim`, one index for each update."""
        return _run("scatter_along_axis", self, index, _like_index(self, src, index), axis=dim, mode="set")

    def scatter_add(self, dim: builtins_int, index: Any, src: Any) -> Tensor:
        """Return the tensor with `src` added along `dim`; duplicates add up."""
        return _run("scatter_along_axis", self, index, _like_index(self, src, index), axis=dim, mode="add")

    def index_add(self, dim: builtins_int, index: Any, source: Any) -> Tensor:
        """Return the tensor with slices of `source` added at `index` along `dim`."""
        return _run("index_add", self, index, source, axis=dim)

    def masked_fill(self, mask: Any, value: Any) -> Tensor:
        """Return the tensor with `value` wherever `mask` holds."""
        return _run("masked_fill", self, mask, value)

    def masked_select(self, mask: Any) -> Tensor:
        """Return the elements where `mask` holds, 1-D."""
        return cast("Tensor", self)[mask]

    def where(self, condition: Any, other: Any) -> Tensor:
        """Return this tensor where `condition` holds, else `other`."""
        return _run("where", condition, self, other)

    def nonzero(self) -> Tensor:
        """Return the positions of the elements that are not zero, a row for each."""
        from grilly_core.ops.index import nonzero
        from grilly_core.ops.manipulate import stack

        return stack(nonzero(self), axis=1)

    def tril(self, diagonal: builtins_int = 0) -> Tensor:
        """Return the lower triangle of matrices."""
        return _run("tril", self, k=diagonal)

    def triu(self, diagonal: builtins_int = 0) -> Tensor:
        """Return the upper triangle of matrices."""
        return _run("triu", self, k=diagonal)

    @property
    def real(self) -> Tensor:
        """The real part."""
        return _run("real", self)

    @property
    def imag(self) -> Tensor:
        """The imaginary part."""
        return _run("imag", self)

    # -- arithmetic ----------------------------------------------------------------------------------------

    def add(self, other: Any, *, alpha: Any = 1) -> Tensor:
        """Return ``self + alpha * other``."""
        return _run("add", self, other if alpha == 1 else _run("mul", other, alpha))

    def sub(self, other: Any, *, alpha: Any = 1) -> Tensor:
        """Return ``self - alpha * other``."""
        return _run("sub", self, other if alpha == 1 else _run("mul", other, alpha))

    def matmul(self, other: Any) -> Tensor:
        """Return the matrix product."""
        return _run("matmul_any", self, other)

    mm = matmul
    bmm = matmul
    dot = matmul
    mv = matmul

    def clamp(self, min: Any = None, max: Any = None) -> Tensor:
        """Return the elements limited to ``[min, max]``."""
        return _run("clip", self, min, max)

    clip = clamp

    def softmax(self, dim: builtins_int = -1) -> Tensor:
        """Return ``exp(x) / sum(exp(x))`` along `dim`."""
        return _run("nn.softmax", self, axis=dim)

    def log_softmax(self, dim: builtins_int = -1) -> Tensor:
        """Return the logarithm of `softmax` along `dim`."""
        return _run("nn.log_softmax", self, axis=dim)

    def allclose(
        self,
        other: Any,
        rtol: builtins_float = 1e-5,
        atol: builtins_float = 1e-8,
        equal_nan: builtins_bool = False,
    ) -> builtins_bool:
        """Whether all elements agree within ``atol + rtol * abs(other)``."""
        import numpy as np

        from grilly_core.apply import as_tensor

        mine, its = self.detach().numpy(), as_tensor(other, cast("Tensor", self)).detach().numpy()
        return builtins_bool(np.allclose(mine, its, rtol, atol, equal_nan))

    def equal(self, other: Tensor) -> builtins_bool:
        """Whether shape and all elements are equal."""
        return self.shape == other.shape and builtins_bool(_run("all", _run("eq", self, other)))

    # -- writes: each replaces this object's value ---------------------------------------------------------

    def copy_(self, other: Any) -> Tensor:
        """Take over the value of `other`, broadcast to this shape and cast to this dtype."""
        from grilly_core.apply import as_tensor

        value = as_tensor(other, cast("Tensor", self)).to(self.device, self.dtype)
        return self._assign(
            value.clone() if value.shape == self.shape else value.expand(*self.shape).clone(), "copy_"
        )

    def fill_(self, value: Any) -> Tensor:
        """Set every element to `value`."""
        from grilly_core.ops.creation import full_like

        return self._assign(full_like(self.detach(), value), "fill_")

    def zero_(self) -> Tensor:
        """Set every element to 0."""
        return self._assign(_run("zeros_like", self.detach()), "zero_")

    def clamp_(self, min: Any = None, max: Any = None) -> Tensor:
        """Limit the elements to ``[min, max]``."""
        return self._assign(self.clamp(min, max), "clamp_")

    def add_(self, other: Any, *, alpha: Any = 1) -> Tensor:
        """Add ``alpha * other``."""
        return self._assign(self.add(other, alpha=alpha), "add_")

    def sub_(self, other: Any, *, alpha: Any = 1) -> Tensor:
        """Subtract ``alpha * other``."""
        return self._assign(self.sub(other, alpha=alpha), "sub_")

    def masked_fill_(self, mask: Any, value: Any) -> Tensor:
        """Set the elements where `mask` holds to `value`."""
        return self._assign(self.masked_fill(mask, value), "masked_fill_")

    def index_add_(self, dim: builtins_int, index: Any, source: Any) -> Tensor:
        """Add slices of `source` at `index` along `dim`."""
        return self._assign(self.index_add(dim, index, source), "index_add_")

    def scatter_(self, dim: builtins_int, index: Any, src: Any) -> Tensor:
        """Write `src` along `dim`, one index for each update."""
        return self._assign(self.scatter(dim, index, src), "scatter_")

    def scatter_add_(self, dim: builtins_int, index: Any, src: Any) -> Tensor:
        """Add `src` along `dim`, one index for each update."""
        return self._assign(self.scatter_add(dim, index, src), "scatter_add_")

    def uniform_(self, low: builtins_float = 0.0, high: builtins_float = 1.0, *, rng: Any = None) -> Tensor:
        """Fill with uniform numbers in ``[low, high)``."""
        from grilly_core.ops.random import uniform

        return self._assign(
            uniform(low, high, self.shape, dtype=self.dtype, device=self.device, rng=rng), "uniform_"
        )

    def normal_(self, mean: builtins_float = 0.0, std: builtins_float = 1.0, *, rng: Any = None) -> Tensor:
        """Fill with normally distributed numbers."""
        from grilly_core.ops.random import normal

        return self._assign(
            normal(mean, std, self.shape, dtype=self.dtype, device=self.device, rng=rng), "normal_"
        )


builtins_int = int
builtins_float = float
builtins_bool = bool


def _like_index(x: Any, src: Any, index: Any) -> Any:
    """A scalar source is written at every index."""
    if isinstance(src, int | float):
        from grilly_core.ops.creation import full

        return full(index.shape, src, dtype=x.dtype, device=x.device)
    return src


_UNARY: Final = {
    name: name
    for name in [
        "abs",
        "acos",
        "acosh",
        "asin",
        "asinh",
        "atan",
        "atanh",
        "ceil",
        "conj",
        "cos",
        "cosh",
        "erf",
        "erfc",
        "exp",
        "exp2",
        "expm1",
        "floor",
        "isfinite",
        "isinf",
        "isnan",
        "log",
        "log10",
        "log1p",
        "log2",
        "logical_not",
        "bitwise_not",
        "neg",
        "reciprocal",
        "round",
        "rsqrt",
        "sign",
        "signbit",
        "sin",
        "sinh",
        "sqrt",
        "square",
        "tan",
        "tanh",
        "trunc",
    ]
} | {"relu": "nn.relu", "sigmoid": "nn.sigmoid", "negative": "neg", "absolute": "abs"}
_BINARY: Final = {
    name: name
    for name in [
        "mul",
        "div",
        "pow",
        "remainder",
        "maximum",
        "minimum",
        "atan2",
        "copysign",
        "hypot",
        "logaddexp",
        "eq",
        "ne",
        "lt",
        "le",
        "gt",
        "ge",
        "logical_and",
        "logical_or",
        "logical_xor",
        "bitwise_and",
        "bitwise_or",
        "bitwise_xor",
    ]
} | {
    "multiply": "mul",
    "divide": "div",
    "true_divide": "div",
    "floor_divide": "floordiv",
    "greater": "gt",
    "less": "lt",
}
_IN_PLACE: Final = (
    "mul",
    "div",
    "pow",
    "exp",
    "sqrt",
    "neg",
    "abs",
    "round",
    "floor",
    "sigmoid",
    "tanh",
    "relu",
    "reciprocal",
)


def _unary_method(name: str, op_name: str) -> Any:
    handle = Handle(op_name)

    def method(self: Any) -> Any:
        return handle(self)

    method.__name__ = method.__qualname__ = name
    method.__doc__ = f"Return the op `{op_name}` of every element."
    return method


def _binary_method(name: str, op_name: str) -> Any:
    handle = Handle(op_name)

    def method(self: Any, other: Any) -> Any:
        return handle(self, other)

    method.__name__ = method.__qualname__ = name
    method.__doc__ = f"Return the op `{op_name}` of this tensor and `other`, elementwise."
    return method


def _in_place_method(name: str) -> Any:
    def method(self: Any, *args: Any) -> Any:
        return self._assign(getattr(self, name)(*args), f"{name}_")

    method.__name__ = method.__qualname__ = f"{name}_"
    method.__doc__ = f"Replace the value by that of `{name}`."
    return method


for _name, _op in _UNARY.items():
    setattr(TensorMethods, _name, _unary_method(_name, _op))
for _name, _op in _BINARY.items():
    setattr(TensorMethods, _name, _binary_method(_name, _op))
for _name in _IN_PLACE:
    setattr(TensorMethods, f"{_name}_", _in_place_method(_name))
