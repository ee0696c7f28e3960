"""Data types and the promotion rules of the Array API standard.

A `DType` is an interned record; NumPy is only touched when `DType.numpy` is asked for, so that importing
this module costs nothing. Python scalars are *weak*: they never widen a tensor's dtype, they only move it to
the next kind (``bool`` → integer → floating → complex) when the tensor's kind is too small.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Final

from grilly_core.errors import DTypeError

if TYPE_CHECKING:
    import numpy as np

__all__ = ["ALL", "DType", "as_dtype", "default_float", "from_numpy", "promote", "promote_scalar"]

_SCALAR_ORDER: Final = {bool: 0, int: 1, float: 2}
_KIND_ORDER: Final = {"b": 0, "u": 1, "i": 1, "f": 2, "c": 3}


class DType:
    """One element type.

    Attributes
    ----------
    name : str
        Array API name, such as ``"float32"``.
    code : str
        Short code used by kernels, such as ``"f32"``.
    itemsize : int
        Bytes of one element.
    kind : str
        ``"b"`` bool, ``"u"`` unsigned, ``"i"`` signed, ``"f"`` floating, ``"c"`` complex.
    """

    __slots__ = ("_numpy", "code", "itemsize", "kind", "name")

    def __init__(self, name: str, code: str, itemsize: int, kind: str) -> None:
        self.name = name
        self.code = code
        self.itemsize = itemsize
        self.kind = kind
        self._numpy: np.dtype[Any] | None = None

    @property
    def numpy(self) -> np.dtype[Any]:
        """The NumPy dtype of the same bits (``ml_dtypes`` serves bfloat16)."""
        if self._numpy is None:
            self._numpy = _numpy_dtype(self.name)
        return self._numpy

    @property
    def is_floating(self) -> bool:
        """Whether the type holds real floating-point numbers."""
        return self.kind == "f"

    @property
    def is_complex(self) -> bool:
        """Whether the type holds complex numbers."""
        return self.kind == "c"

    @property
    def is_integer(self) -> bool:
        """Whether the type holds signed or unsigned integers (bool is not one)."""
        return self.kind in "ui"

    @property
    def is_differentiable(self) -> bool:
        """Whether a tensor of this type can require a gradient."""
        return self.kind in "fc"

    @property
    def real(self) -> DType:
        """The real type of the same precision (``complex64`` → ``float32``)."""
        return {"complex64": float32, "complex128": float64}.get(self.name, self)

    def __repr__(self) -> str:
        return f"grilly.{self.name}"

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return as_dtype, (self.name,)


def _numpy_dtype(name: str) -> np.dtype[Any]:
    import numpy as np

    if name == "bfloat16":
        try:
            import ml_dtypes
        except ImportError as error:
            raise DTypeError(
                "bfloat16 on the host needs the package ml_dtypes; install grilly-core[bfloat16]."
            ) from error
        extended: np.dtype[Any] = np.dtype(ml_dtypes.bfloat16)
        return extended
    found: np.dtype[Any] = np.dtype(name)
    return found


bool_: Final = DType("bool", "b1", 1, "b")
uint8: Final = DType("uint8", "u8", 1, "u")
uint16: Final = DType("uint16", "u16", 2, "u")
uint32: Final = DType("uint32", "u32", 4, "u")
uint64: Final = DType("uint64", "u64", 8, "u")
int8: Final = DType("int8", "i8", 1, "i")
int16: Final = DType("int16", "i16", 2, "i")
int32: Final = DType("int32", "i32", 4, "i")
int64: Final = DType("int64", "i64", 8, "i")
float16: Final = DType("float16", "f16", 2, "f")
bfloat16: Final = DType("bfloat16", "bf16", 2, "f")
float32: Final = DType("float32", "f32", 4, "f")
float64: Final = DType("float64", "f64", 8, "f")
complex64: Final = DType("complex64", "c64", 8, "c")
complex128: Final = DType("complex128", "c128", 16, "c")

ALL: Final[tuple[DType, ...]] = (
    bool_, uint8, uint16, uint32, uint64, int8, int16, int32, int64,
    float16, bfloat16, float32, float64, complex64, complex128,
)  # fmt: skip
_BY_NAME: Final = {d.name: d for d in ALL} | {d.code: d for d in ALL}
_ALIASES: Final = {"float": float32, "int": int32, "half": float16, "double": float64, "long": int64}

default_float: Final = float32
default_int: Final = int32


def as_dtype(dtype: Any) -> DType:
    """Return the `DType` that a user means by `dtype`.

    Parameters
    ----------
    dtype : DType, str, type or numpy.dtype
        A grilly dtype, its name or code, ``bool``/``int``/``float``/``complex``, or anything NumPy accepts.

    Returns
    -------
    DType

    Raises
    ------
    DTypeError
        If grilly has no such type.

    Examples
    --------
    >>> from grilly_core.dtypes import as_dtype
    >>> as_dtype("f32"), as_dtype(int)
    (grilly.float32, grilly.int32)
    """
    if isinstance(dtype, DType):
        return dtype
    if isinstance(dtype, str):
        found = _BY_NAME.get(dtype) or _ALIASES.get(dtype)
        if found is not None:
            return found
    if isinstance(dtype, type):
        builtin = {bool: bool_, int: int32, float: float32, complex: complex64}.get(dtype)
        if builtin is not None:
            return builtin
    import numpy as np

    try:
        return from_numpy(np.dtype(dtype))
    except TypeError as error:
        names = ", ".join(d.name for d in ALL)
        raise DTypeError(f"dtype: expected one of {names}; received {dtype!r}.") from error


def from_numpy(dtype: np.dtype[Any]) -> DType:
    """Return the `DType` with the bits of a NumPy dtype.

    Raises
    ------
    DTypeError
        For object, string, datetime, structured and byte-swapped types.
    """
    found = _BY_NAME.get(dtype.name)
    if found is None or not dtype.isnative:
        raise DTypeError(
            f"dtype: NumPy's {dtype!r} has no counterpart; convert the array first, "
            "for example with .astype('float32')."
        )
    return found


def _promote_integers(a: DType, b: DType) -> DType:
    if a.kind == b.kind:
        return a if a.itemsize >= b.itemsize else b
    signed, unsigned = (a, b) if a.kind == "i" else (b, a)
    if signed.itemsize > unsigned.itemsize:
        return signed
    wider = {1: int16, 2: int32, 4: int64}.get(unsigned.itemsize)
    if wider is None:
        raise DTypeError(
            f"dtype promotion: {a.name} with {b.name} has no common integer type; cast one of them with .to(...)."
        )
    return wider


def _promote_floats(a: DType, b: DType) -> DType:
    if a.itemsize == b.itemsize:  # float16 with bfloat16: neither holds the other
        return float32
    return a if a.itemsize > b.itemsize else b


@functools.cache
def promote(a: DType, b: DType) -> DType:
    """Return the common dtype of two tensors.

    Same kind: the wider type. Integer with floating: the floating type (as PyTorch; the Array API leaves it
    undefined). ``float64`` with ``complex64``: ``complex128``.

    Examples
    --------
    >>> from grilly_core import dtypes
    >>> dtypes.promote(dtypes.int8, dtypes.uint8)
    grilly.int16
    """
    if a is b:
        return a
    if _KIND_ORDER[a.kind] > _KIND_ORDER[b.kind]:
        a, b = b, a
    if a.kind == "b":
        return b
    if _KIND_ORDER[a.kind] == _KIND_ORDER[b.kind]:
        if a.kind in "ui":
            return _promote_integers(a, b)
        return _promote_floats(a, b)
    if a.kind == "f" and b.kind == "c":
        return complex128 if a is float64 else b
    return b


def promote_scalar(tensor: DType, scalar_type: type) -> DType:
    """Return the dtype in which a tensor meets a Python scalar, which is weak.

    Examples
    --------
    >>> from grilly_core import dtypes
    >>> dtypes.promote_scalar(dtypes.float16, float), dtypes.promote_scalar(dtypes.int32, float)
    (grilly.float16, grilly.float32)
    """
    order = _SCALAR_ORDER.get(scalar_type, 3)
    if order <= _KIND_ORDER[tensor.kind]:
        return tensor
    if order == 3:
        return complex128 if tensor is float64 else complex64
    return {1: default_int, 2: default_float}[order]
