"""Facts, copies and conversions."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, cast

from grilly_core import dtypes
from grilly_core.dtypes import as_dtype
from grilly_core.layout import normalize_axis
from grilly_core.methods.base import Methods, run, sizes_of

if TYPE_CHECKING:
    from grilly_core.tensor import Tensor

__all__ = ["ConvertMethods"]


class ConvertMethods(Methods):
    """Facts, copies and conversions."""

    __slots__ = ()

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

    def clone(self) -> Tensor:
        """Return a copy with its own storage, through which gradients flow."""
        return run("strided_copy", self)

    def contiguous(self) -> Tensor:
        """Return the tensor in C order: itself if it is already."""
        return cast("Tensor", self) if self.is_contiguous() else self.clone()

    def to(self, *args: Any, device: Any = None, dtype: Any = None, copy: bool = False) -> Tensor:
        """Return the tensor on another device or in another dtype, in any order; gradients flow through.

        Returns itself if nothing changes and ``copy`` is False.
        """
        from grilly_core import transfer

        return transfer.to(cast("Tensor", self), args, device, dtype, copy)

    def to_device(self, device: Any, /, *, stream: None = None) -> Tensor:
        """Return the tensor on another device (the Array API's name for `to`); there are no streams to choose."""
        if stream is not None:
            raise ValueError(f"to_device: stream must be None; received {stream!r}.")
        return self.to(device)

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

    # -- new tensors like this one -------------------------------------------------------------------------

    def new_full(self, size: Any, fill_value: Any, *, dtype: Any = None, device: Any = None) -> Tensor:
        """Return a tensor of `fill_value` with this dtype and device unless others are given."""
        from grilly_core.ops.creation import full

        return full(size, fill_value, dtype=dtype or self.dtype, device=device or self.device)

    def new_zeros(self, *size: Any, dtype: Any = None, device: Any = None) -> Tensor:
        """Return zeros with this dtype and device unless others are given."""
        return self.new_full(sizes_of(size), 0, dtype=dtype, device=device)

    def new_ones(self, *size: Any, dtype: Any = None, device: Any = None) -> Tensor:
        """Return ones with this dtype and device unless others are given."""
        return self.new_full(sizes_of(size), 1, dtype=dtype, device=device)

    def new_empty(self, *size: Any, dtype: Any = None, device: Any = None) -> Tensor:
        """Return zeros: memory without a value does not exist here."""
        return self.new_zeros(*size, dtype=dtype, device=device)
