"""`Parameter`: a tensor that a module learns."""

from __future__ import annotations

from typing import Any

from grilly_core.apply import as_tensor
from grilly_core.dtypes import DType
from grilly_core.errors import DTypeError
from grilly_core.tape import Leaf
from grilly_core.tensor import Tensor

__all__ = ["Parameter"]


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
