"""`Parameter`, a tensor that a module learns; `Buffer`, one that it keeps; and both before their shape is known."""

from __future__ import annotations

from typing import Any

from grilly_core.apply import as_tensor
from grilly_core.device import Device
from grilly_core.dtypes import DType
from grilly_core.errors import DTypeError
from grilly_core.ops.creation import zeros
from grilly_core.tape import Leaf
from grilly_core.tensor import Tensor

__all__ = ["Buffer", "Parameter", "UninitializedBuffer", "UninitializedParameter", "is_lazy"]


class Parameter(Tensor):
    """A tensor that is registered when it becomes an attribute of a `Module`, and requires grad.

    Parameters
    ----------
    data : array_like
        The first value. A parameter is a cell of its own: writing to it does not change `data`.
    requires_grad : bool
        False freezes it.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.nn.Parameter(grilly.ones(2)).requires_grad
    True
    """

    __slots__ = ()

    def __init__(self, data: Any, requires_grad: bool = True) -> None:
        value = as_tensor(data)
        if requires_grad and not value.dtype.is_differentiable:
            raise DTypeError(
                f"Parameter: {value.dtype.name} cannot require grad; pass a floating tensor or requires_grad=False."
            )
        super().__init__(value._value, Leaf() if requires_grad else None)

    def __deepcopy__(self, memo: dict[int, Any]) -> Parameter:
        # Values never change in place, so the copy may show the same memory.
        copied = memo[id(self)] = Parameter(self.detach(), self.requires_grad)
        return copied

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuilt, (self.detach().cpu().numpy(copy=True), self.dtype, self.requires_grad)

    def __repr__(self) -> str:
        return f"Parameter({super().__repr__()})"


def _rebuilt(array: Any, dtype: DType, requires_grad: bool) -> Parameter:
    return Parameter(as_tensor(array, dtype=dtype), requires_grad)


class Buffer(Tensor):
    """A tensor that is registered as state when it becomes an attribute of a `Module`, and is not learnt.

    Parameters
    ----------
    data : array_like
        The first value; the buffer is a cell of its own.
    persistent : bool
        Whether it is part of `state_dict`.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> m = grilly.nn.Module()
    >>> m.count = grilly.nn.Buffer(grilly.tensor(0))
    >>> list(m.state_dict())
    ['count']
    """

    __slots__ = ("persistent",)

    def __init__(self, data: Any, *, persistent: bool = True) -> None:
        super().__init__(as_tensor(data)._value)
        self.persistent = persistent

    def __deepcopy__(self, memo: dict[int, Any]) -> Buffer:
        copied = memo[id(self)] = Buffer(self.detach(), persistent=self.persistent)
        return copied

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuilt_buffer, (self.detach().cpu().numpy(copy=True), self.dtype, self.persistent)


def _rebuilt_buffer(array: Any, dtype: DType, persistent: bool) -> Buffer:
    return Buffer(as_tensor(array, dtype=dtype), persistent=persistent)


class UninitializedParameter(Parameter):
    """A parameter whose shape the first input decides; until then it has no elements.

    Parameters
    ----------
    requires_grad : bool
    device : Device or str, optional
    dtype : DType, optional

    Examples
    --------
    >>> import grilly_core as grilly
    >>> p = grilly.nn.UninitializedParameter()
    >>> p.materialize((2, 3))
    >>> p.shape, type(p).__name__
    ((2, 3), 'Parameter')
    """

    __slots__ = ()

    def __init__(
        self, requires_grad: bool = True, device: Device | str | None = None, dtype: Any = None
    ) -> None:
        super().__init__(zeros((0,), device=device, dtype=dtype), requires_grad)

    def materialize(
        self, shape: tuple[int, ...], device: Device | str | None = None, dtype: Any = None
    ) -> None:
        """Become a `Parameter` of zeros, on the same device and of the same dtype unless others are given."""
        _materialize(self, Parameter, shape, device, dtype)

    def __deepcopy__(self, memo: dict[int, Any]) -> UninitializedParameter:
        copied = memo[id(self)] = UninitializedParameter(self.requires_grad, self.device, self.dtype)
        return copied

    def __reduce__(self) -> tuple[Any, ...]:
        return UninitializedParameter, (self.requires_grad, None, self.dtype)

    def __repr__(self) -> str:
        return "<UninitializedParameter>"


class UninitializedBuffer(Buffer):
    """A buffer whose shape the first input decides; until then it has no elements.

    Parameters
    ----------
    device : Device or str, optional
    dtype : DType, optional
    persistent : bool

    Examples
    --------
    >>> import grilly_core as grilly
    >>> b = grilly.nn.UninitializedBuffer()
    >>> b.materialize((2,))
    >>> b.tolist()
    [0.0, 0.0]
    """

    __slots__ = ()

    def __init__(
        self, device: Device | str | None = None, dtype: Any = None, *, persistent: bool = True
    ) -> None:
        super().__init__(zeros((0,), device=device, dtype=dtype), persistent=persistent)

    def materialize(
        self, shape: tuple[int, ...], device: Device | str | None = None, dtype: Any = None
    ) -> None:
        """Become a `Buffer` of zeros, on the same device and of the same dtype unless others are given."""
        _materialize(self, Buffer, shape, device, dtype)

    def __deepcopy__(self, memo: dict[int, Any]) -> UninitializedBuffer:
        copied = memo[id(self)] = UninitializedBuffer(self.device, self.dtype, persistent=self.persistent)
        return copied

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuilt_later, (self.dtype, self.persistent)

    def __repr__(self) -> str:
        return "<UninitializedBuffer>"


def _rebuilt_later(dtype: DType, persistent: bool) -> UninitializedBuffer:
    return UninitializedBuffer(None, dtype, persistent=persistent)


def _materialize(
    cell: Tensor, kind: type[Tensor], shape: tuple[int, ...], device: Device | str | None, dtype: Any
) -> None:
    made = zeros(tuple(shape), device=device or cell.device, dtype=dtype or cell.dtype)
    cell._value = made._value
    cell.__class__ = kind  # so that optimisers and modules that hold it keep the same object


def is_lazy(cell: Any) -> bool:
    """Whether a parameter or buffer waits for its shape.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> is_lazy(grilly.nn.LazyLinear(3).weight)
    True
    """
    return isinstance(cell, UninitializedParameter | UninitializedBuffer)
