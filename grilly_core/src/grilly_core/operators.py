"""The operators of tensors, each on the shortest path to its op."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, cast

from grilly_core.opspec import Handle

if TYPE_CHECKING:
    from grilly_core.tensor import Tensor

__all__ = ["OperatorMethods", "install"]

_abs: Final = Handle("abs")
_add: Final = Handle("add")
_bitwise_and: Final = Handle("bitwise_and")
_bitwise_not: Final = Handle("bitwise_not")
_bitwise_or: Final = Handle("bitwise_or")
_bitwise_xor: Final = Handle("bitwise_xor")
_div: Final = Handle("div")
_eq: Final = Handle("eq")
_floordiv: Final = Handle("floordiv")
_ge: Final = Handle("ge")
_gt: Final = Handle("gt")
_le: Final = Handle("le")
_lt: Final = Handle("lt")
_matmul_any: Final = Handle("matmul_any")
_mul: Final = Handle("mul")
_ne: Final = Handle("ne")
_neg: Final = Handle("neg")
_pow: Final = Handle("pow")
_remainder: Final = Handle("remainder")
_shift_left: Final = Handle("shift_left")
_shift_right: Final = Handle("shift_right")
_sub: Final = Handle("sub")


# How operators run; `apply`, a layer's half step above, puts its functions here. Until an op was asked for nobody may
# have imported it, and there may be tensors already.
def _unary(handle: Handle, a: Any) -> Tensor:
    importlib.import_module("grilly_core.apply")
    return _unary(handle, a)


def _binary(handle: Handle, a: Any, b: Any) -> Tensor:
    importlib.import_module("grilly_core.apply")
    return _binary(handle, a, b)


def install(unary: Callable[[Handle, Any], Tensor], binary: Callable[[Handle, Any, Any], Tensor]) -> None:
    """Tell tensors how to run their operators."""
    global _unary, _binary
    _unary, _binary = unary, binary  # type: ignore[assignment]


class OperatorMethods:
    """``+ - * / // % ** @``, bits, comparisons, and their augmented forms."""

    __slots__ = ()
    __hash__ = object.__hash__

    if TYPE_CHECKING:

        def _assign(self, new: Tensor, what: str = "") -> Tensor: ...

    def __add__(self, other: Any) -> Tensor:
        return _binary(_add, self, other)

    def __radd__(self, other: Any) -> Tensor:
        return _binary(_add, other, self)

    def __sub__(self, other: Any) -> Tensor:
        return _binary(_sub, self, other)

    def __rsub__(self, other: Any) -> Tensor:
        return _binary(_sub, other, self)

    def __mul__(self, other: Any) -> Tensor:
        return _binary(_mul, self, other)

    def __rmul__(self, other: Any) -> Tensor:
        return _binary(_mul, other, self)

    def __truediv__(self, other: Any) -> Tensor:
        return _binary(_div, self, other)

    def __rtruediv__(self, other: Any) -> Tensor:
        return _binary(_div, other, self)

    def __floordiv__(self, other: Any) -> Tensor:
        return _binary(_floordiv, self, other)

    def __rfloordiv__(self, other: Any) -> Tensor:
        return _binary(_floordiv, other, self)

    def __mod__(self, other: Any) -> Tensor:
        return _binary(_remainder, self, other)

    def __rmod__(self, other: Any) -> Tensor:
        return _binary(_remainder, other, self)

    def __pow__(self, other: Any) -> Tensor:
        return _binary(_pow, self, other)

    def __rpow__(self, other: Any) -> Tensor:
        return _binary(_pow, other, self)

    def __and__(self, other: Any) -> Tensor:
        return _binary(_bitwise_and, self, other)

    def __rand__(self, other: Any) -> Tensor:
        return _binary(_bitwise_and, other, self)

    def __or__(self, other: Any) -> Tensor:
        return _binary(_bitwise_or, self, other)

    def __ror__(self, other: Any) -> Tensor:
        return _binary(_bitwise_or, other, self)

    def __xor__(self, other: Any) -> Tensor:
        return _binary(_bitwise_xor, self, other)

    def __rxor__(self, other: Any) -> Tensor:
        return _binary(_bitwise_xor, other, self)

    def __lshift__(self, other: Any) -> Tensor:
        return _binary(_shift_left, self, other)

    def __rlshift__(self, other: Any) -> Tensor:
        return _binary(_shift_left, other, self)

    def __rshift__(self, other: Any) -> Tensor:
        return _binary(_shift_right, self, other)

    def __rrshift__(self, other: Any) -> Tensor:
        return _binary(_shift_right, other, self)

    def __matmul__(self, other: Any) -> Tensor:
        return _binary(_matmul_any, self, other)

    def __rmatmul__(self, other: Any) -> Tensor:
        return _binary(_matmul_any, other, self)

    def __lt__(self, other: Any) -> Tensor:
        return _binary(_lt, self, other)

    def __le__(self, other: Any) -> Tensor:
        return _binary(_le, self, other)

    def __gt__(self, other: Any) -> Tensor:
        return _binary(_gt, self, other)

    def __ge__(self, other: Any) -> Tensor:
        return _binary(_ge, self, other)

    def __eq__(self, other: Any) -> Tensor:  # type: ignore[override]
        return _binary(_eq, self, other)

    def __ne__(self, other: Any) -> Tensor:  # type: ignore[override]
        return _binary(_ne, self, other)

    def __iadd__(self, other: Any) -> Tensor:
        return self._assign(_binary(_add, self, other), "an augmented assignment")

    def __isub__(self, other: Any) -> Tensor:
        return self._assign(_binary(_sub, self, other), "an augmented assignment")

    def __imul__(self, other: Any) -> Tensor:
        return self._assign(_binary(_mul, self, other), "an augmented assignment")

    def __itruediv__(self, other: Any) -> Tensor:
        return self._assign(_binary(_div, self, other), "an augmented assignment")

    def __ifloordiv__(self, other: Any) -> Tensor:
        return self._assign(_binary(_floordiv, self, other), "an augmented assignment")

    def __imod__(self, other: Any) -> Tensor:
        return self._assign(_binary(_remainder, self, other), "an augmented assignment")

    def __ipow__(self, other: Any) -> Tensor:
        return self._assign(_binary(_pow, self, other), "an augmented assignment")

    def __iand__(self, other: Any) -> Tensor:
        return self._assign(_binary(_bitwise_and, self, other), "an augmented assignment")

    def __ior__(self, other: Any) -> Tensor:
        return self._assign(_binary(_bitwise_or, self, other), "an augmented assignment")

    def __ixor__(self, other: Any) -> Tensor:
        return self._assign(_binary(_bitwise_xor, self, other), "an augmented assignment")

    def __ilshift__(self, other: Any) -> Tensor:
        return self._assign(_binary(_shift_left, self, other), "an augmented assignment")

    def __irshift__(self, other: Any) -> Tensor:
        return self._assign(_binary(_shift_right, self, other), "an augmented assignment")

    def __imatmul__(self, other: Any) -> Tensor:
        return self._assign(_binary(_matmul_any, self, other), "an augmented assignment")

    def __neg__(self) -> Tensor:
        return _unary(_neg, self)

    def __pos__(self) -> Tensor:
        return cast("Tensor", self)

    def __abs__(self) -> Tensor:
        return _unary(_abs, self)

    def __invert__(self) -> Tensor:
        return _unary(_bitwise_not, self)
