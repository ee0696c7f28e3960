"""The functions of the Array API standard that ask about types and about the library itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from grilly_core import device as devices
from grilly_core import dtypes
from grilly_core.dtypes import DType, as_dtype, promote, promote_scalar
from grilly_core.errors import DTypeError
from grilly_core.ops import math
from grilly_core.plugins import loader
from grilly_core.tensor import Tensor

__all__ = [
    "ArrayNamespaceInfo",
    "Finfo",
    "Iinfo",
    "astype",
    "can_cast",
    "finfo",
    "iinfo",
    "isdtype",
    "result_type",
]

DTypeLike = DType | str | type
_KINDS: Final[dict[str, frozenset[str]]] = {
    "bool": frozenset("b"),
    "signed integer": frozenset("i"),
    "unsigned integer": frozenset("u"),
    "integral": frozenset("iu"),
    "real floating": frozenset("f"),
    "complex floating": frozenset("c"),
    "numeric": frozenset("iufc"),
}


def _dtype_of(value: Any) -> DType:
    return value.dtype if isinstance(value, Tensor) else as_dtype(value)


def astype(x: Tensor, dtype: DTypeLike, /, *, copy: bool = True, device: Any = None) -> Tensor:
    """Return `x` with another dtype, and on another device if one is given.

    A tensor is a value, so ``copy`` makes no difference that could be seen; both forms are accepted.

    Examples
    --------
    >>> import grilly
    >>> grilly.astype(grilly.asarray([1.7]), grilly.int32).tolist()
    [1]
    """
    if not isinstance(copy, bool):
        raise TypeError(f"astype: copy must be True or False; received {copy!r}.")
    moved: Any = x if device is None else x.to(device)
    result: Tensor = math.cast(moved, dtype=as_dtype(dtype))
    return result


def can_cast(from_: Tensor | DTypeLike, to: DTypeLike, /) -> bool:
    """Whether promotion leads from one dtype to the other, so that no value is lost by kind or range.

    Examples
    --------
    >>> import grilly
    >>> grilly.can_cast(grilly.int8, grilly.int32), grilly.can_cast(grilly.float32, grilly.int32)
    (True, False)
    """
    target = as_dtype(to)
    try:
        return promote(_dtype_of(from_), target) is target
    except DTypeError:  # the pair has no common type
        return False


def result_type(*arrays_and_dtypes: Any) -> DType:
    """Return the dtype in which the arguments meet; Python scalars are weak.

    Examples
    --------
    >>> import grilly
    >>> grilly.result_type(grilly.int8, grilly.uint8), grilly.result_type(grilly.float16, 1.0)
    (grilly.int16, grilly.float16)
    """
    scalars = [value for value in arrays_and_dtypes if isinstance(value, bool | int | float | complex)]
    strong = [value for value in arrays_and_dtypes if not isinstance(value, bool | int | float | complex)]
    if not strong:
        raise TypeError("result_type: expected at least one tensor or dtype.")
    result = _dtype_of(strong[0])
    for value in strong[1:]:
        result = promote(result, _dtype_of(value))
    for scalar in scalars:
        kind: Any = type(scalar)
        result = promote_scalar(result, kind)
    return result


def isdtype(dtype: DTypeLike, kind: DTypeLike | tuple[Any, ...]) -> bool:
    """Whether a dtype is of a kind: a name such as ``"integral"``, a dtype, or a tuple of these.

    Examples
    --------
    >>> import grilly
    >>> grilly.isdtype(grilly.int32, "integral"), grilly.isdtype(grilly.int32, ("bool", grilly.float32))
    (True, False)
    """
    if isinstance(kind, tuple):
        return any(isdtype(dtype, single) for single in kind)
    if isinstance(kind, str):
        if kind not in _KINDS:
            raise ValueError(f"isdtype: expected a kind of {', '.join(_KINDS)}; received {kind!r}.")
        return as_dtype(dtype).kind in _KINDS[kind]
    return as_dtype(dtype) is as_dtype(kind)


@dataclass(frozen=True, slots=True)
class Finfo:
    """Limits of a floating dtype; for a complex one, of its parts."""

    bits: int
    eps: float
    max: float
    min: float
    smallest_normal: float
    dtype: DType


@dataclass(frozen=True, slots=True)
class Iinfo:
    """Limits of an integer dtype."""

    bits: int
    max: int
    min: int
    dtype: DType


def finfo(type: Tensor | DTypeLike, /) -> Finfo:
    """Return the limits of a floating or complex dtype.

    Examples
    --------
    >>> import grilly
    >>> grilly.finfo(grilly.float32).bits
    32
    """
    dtype = _dtype_of(type).real
    if not dtype.is_floating:
        raise DTypeError(f"finfo: expected a floating or complex dtype; received {dtype.name}.")
    exponent_bits = {"bfloat16": 8, "float16": 5, "float32": 8, "float64": 11}[dtype.name]
    mantissa = dtype.itemsize * 8 - 1 - exponent_bits
    top = 2 ** (exponent_bits - 1) - 1
    eps = 2.0**-mantissa
    largest = (2.0 - eps) * 2.0**top
    return Finfo(dtype.itemsize * 8, eps, largest, -largest, 2.0 ** (1 - top), dtype)


def iinfo(type: Tensor | DTypeLike, /) -> Iinfo:
    """Return the limits of an integer dtype.

    Examples
    --------
    >>> import grilly
    >>> grilly.iinfo(grilly.int8).min
    -128
    """
    dtype = _dtype_of(type)
    if not dtype.is_integer:
        raise DTypeError(f"iinfo: expected an integer dtype; received {dtype.name}.")
    bits = dtype.itemsize * 8
    if dtype.kind == "u":
        return Iinfo(bits, 2**bits - 1, 0, dtype)
    return Iinfo(bits, 2 ** (bits - 1) - 1, -(2 ** (bits - 1)), dtype)


class ArrayNamespaceInfo:
    """What the library can do, in the form the Array API standard asks for."""

    def capabilities(self) -> dict[str, Any]:
        """Return which optional parts of the standard there are."""
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": None}

    def default_device(self) -> devices.Device:
        """Return the device on which new tensors are made."""
        return devices.default_device()

    def default_dtypes(self, *, device: Any = None) -> dict[str, DType]:
        """Return the default dtypes, which are the same on every device."""
        self._known(device)
        return {
            "real floating": dtypes.float32,
            "complex floating": dtypes.complex64,
            "integral": dtypes.int32,
            "indexing": dtypes.int32,
        }

    def dtypes(self, *, device: Any = None, kind: str | tuple[str, ...] | None = None) -> dict[str, DType]:
        """Return the dtypes by name, all of them or those of a kind (see `isdtype`)."""
        self._known(device)
        return {dtype.name: dtype for dtype in dtypes.ALL if kind is None or isdtype(dtype, kind)}

    def devices(self) -> list[devices.Device]:
        """Return the devices of the backends that are installed and list any."""
        return [
            devices.Device(f"{name}:{index}")
            for name in loader.backend_names()
            for index in range(len(loader.devices_of(name)))
        ]

    def _known(self, device: Any) -> None:
        if device is not None:
            devices.open_context(device)


def __array_namespace_info__() -> ArrayNamespaceInfo:
    """Return what the library can do (Array API)."""
    return ArrayNamespaceInfo()
