"""Storage and what kernels see of it: `Buffer`, the interned `Spec`, and the read-only `View`.

A tensor's value is a `View`. Nothing ever changes a view; a write makes a new one, or reuses the buffer when
`is_sole_owner` proves that nobody else could notice.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final

from grilly_core.dtypes import DType
from grilly_core.layout import Layout, contiguous

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from grilly_core.device import Context

__all__ = [
    "Buffer",
    "DeviceBuffer",
    "LentBuffer",
    "Spec",
    "View",
    "contiguous_spec",
    "is_sole_owner",
    "make_spec",
]

_LIMIT: Final = 1 << 15


class Buffer:
    """Memory on a device.

    Attributes
    ----------
    context : Context
        The open device that owns the memory.
    handle : object
        What the backend's `alloc` returned; an ndarray on host-mapped devices.
    nbytes : int
        Size in bytes.
    shared : bool
        True once the host may hold an alias (`Tensor.numpy`, DLPack); such a buffer is never reused in place.
    constant : bool
        True for the cached scalars, which a capture may freeze.
    """

    __slots__ = ("constant", "context", "handle", "nbytes", "shared")

    def __init__(self, context: Context, handle: Any, nbytes: int) -> None:
        self.context = context
        self.handle = handle
        self.nbytes = nbytes
        self.shared = False
        self.constant = False


class DeviceBuffer(Buffer):
    """A buffer whose handle must be given back; the finalizer only appends, so that it can never lock."""

    __slots__ = ()

    def __del__(self) -> None:
        self.context.released.append(self.handle)


class LentBuffer(Buffer):
    """Memory that belongs to another buffer, which it keeps alive, and that may move while it is lent.

    Attributes
    ----------
    lender : Buffer
    """

    __slots__ = ("__weakref__", "lender")

    def __init__(self, lender: Buffer) -> None:
        super().__init__(lender.context, lender.handle, lender.nbytes)
        self.lender = lender

    def move_to(self, lender: Buffer) -> None:
        """Show the memory of another buffer of the same size, which must hold the same bytes."""
        self.lender = lender
        self.handle = lender.handle


class Spec:
    """What a plan needs to know of an input: layout, dtype and device. Interned, so compared by identity."""

    __slots__ = ("context", "contiguous", "dtype", "layout", "nbytes", "ndim", "shape", "size", "strides")

    def __init__(self, layout: Layout, dtype: DType, context: Context) -> None:
        self.layout = layout
        self.dtype = dtype
        self.context = context
        self.shape = layout.shape
        self.strides = layout.strides
        self.ndim = layout.ndim
        self.size = layout.size
        self.contiguous = layout.contiguous
        self.nbytes = layout.size * dtype.itemsize

    def __repr__(self) -> str:
        return f"{self.dtype.code}{list(self.shape)}@{self.context.device}"


_specs: dict[tuple[Layout, DType, Context], Spec] = {}


def make_spec(layout: Layout, dtype: DType, context: Context) -> Spec:
    """Return the interned spec."""
    key = (layout, dtype, context)
    found = _specs.get(key)
    if found is None:
        if len(_specs) >= _LIMIT:
            _specs.clear()
        found = _specs[key] = Spec(layout, dtype, context)
    return found


def contiguous_spec(shape: tuple[int, ...], dtype: DType, context: Context) -> Spec:
    """Return the interned C-ordered spec of `shape`."""
    return make_spec(contiguous(shape), dtype, context)


class View:
    """A read-only window on a buffer: what kernels receive and what tensors hold.

    Attributes
    ----------
    buffer : Buffer
    spec : Spec
    offset : int
        First element, counted in elements of `dtype` from the start of the buffer.
    array : ndarray or None
        The same elements as a NumPy array, on host-mapped devices.
    """

    __slots__ = ("array", "buffer", "offset", "spec")

    def __init__(self, buffer: Buffer, spec: Spec, offset: int, array: NDArray[Any] | None) -> None:
        self.buffer = buffer
        self.spec = spec
        self.offset = offset
        self.array: Any = array

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes of the axes."""
        return self.spec.shape

    @property
    def strides(self) -> tuple[int, ...]:
        """Steps of the axes, in elements."""
        return self.spec.strides

    @property
    def dtype(self) -> DType:
        """Element type."""
        return self.spec.dtype

    @property
    def nbytes(self) -> int:
        """Bytes of the elements shown."""
        return self.spec.nbytes

    def __repr__(self) -> str:
        return f"View({self.spec!r}, offset={self.offset})"


class _Cell:
    """Stands for a tensor when the reference counts of a sole owner are measured."""

    __slots__ = ("_value",)

    def __init__(self, value: View) -> None:
        self._value = value


def _counts(cell: Any) -> tuple[int, int]:
    return sys.getrefcount(cell._value), sys.getrefcount(cell._value.buffer)


# Interpreters differ in how many references a call holds, so the counts of a sole owner are measured, not assumed.
_SOLE: Final = _counts(_Cell(View(Buffer(None, None, 0), None, 0, None)))  # type: ignore[arg-type]


def is_sole_owner(cell: Any) -> bool:
    """Whether the tensor `cell` alone can see its buffer, so that writing in place is unobservable."""
    return _counts(cell) == _SOLE and not cell._value.buffer.shared and not cell._value.buffer.constant
