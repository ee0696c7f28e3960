"""Devices, their open contexts, and the contract a backend fulfils.

A backend is two small objects: one that lists devices and one, the runtime, with six methods. `Context` is
core's side of an open device: it allocates views and moves bytes, and is what specs and plans point to.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, Protocol, runtime_checkable

import numpy as np

from grilly_core import config
from grilly_core.buffer import Buffer, DeviceBuffer, Spec, View, contiguous_spec
from grilly_core.dtypes import DType
from grilly_core.errors import DeviceError, GrillyError
from grilly_core.plugins import loader

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

__all__ = [
    "Backend",
    "Context",
    "Device",
    "Runtime",
    "SupportsBinding",
    "SupportsHostMap",
    "SupportsPrograms",
    "SupportsTimestamps",
    "SupportsTuning",
    "Timer",
    "close_all",
    "default_context",
    "default_device",
    "open_context",
    "set_default_device",
]


_LARGE: Final = 1 << 19  # bytes from which on a runtime's own `empty` makes arrays


class Runtime(Protocol):
    """An open device: six methods are enough, everything else is optional.

    ``stream`` (any object) is handed to kernels as it is; ``register_kernels(kernels)`` declares the kernels.
    """

    def alloc(self, nbytes: int) -> Any:
        """Return a handle to new memory of `nbytes` bytes."""

    def free(self, handle: Any) -> None:
        """Give memory back."""

    def copy_in(self, handle: Any, offset: int, data: memoryview) -> None:
        """Write host bytes at `offset`."""

    def copy_out(self, handle: Any, offset: int, out: memoryview) -> None:
        """Fill the writable `out` from `offset`, after everything launched so far."""

    def copy(self, dst: Any, dst_offset: int, src: Any, src_offset: int, nbytes: int) -> None:
        """Copy bytes inside the device."""

    def synchronize(self) -> None:
        """Wait until everything launched so far has run."""


@runtime_checkable
class SupportsHostMap(Protocol):
    """A runtime whose memory is the host's: handles are ndarrays and kernels get `View.array`.

    If it has a method ``empty(shape, dtype)``, that makes the large arrays in place of ``np.empty``.
    """

    host_mapped: bool


@runtime_checkable
class SupportsBinding(Protocol):
    """A runtime that may run a kernel differently once it knows that only operands will change."""

    def bind(self, fn: Callable[..., None]) -> Callable[..., None]:
        """Return what one plan calls in place of kernel `fn`, always with the same layouts and attributes."""


class Timer(Protocol):
    """Writes marks between launches."""

    def mark(self) -> int:
        """Write a mark and return its number, counted from 0."""

    def read(self) -> list[float]:
        """Wait, and return the time of each mark in seconds on the clock of `time.perf_counter`."""


@runtime_checkable
class SupportsTimestamps(Protocol):
    """A runtime that can tell when the device did what; see `grilly_core.profile`."""

    def timer(self) -> Timer | None:
        """Return a new timer, None if this device has no clock."""


@runtime_checkable
class SupportsPrograms(Protocol):
    """A runtime that can be told a list of launches once and run it many times; see `grilly_core.capture`."""

    def prepare(self, record: Callable[[], None]) -> Any:
        """Return an object whose ``run()`` does what the kernels called by `record` did, on the same memory."""


@runtime_checkable
class SupportsTuning(Protocol):
    """A runtime that can measure its own kernels, and choose between them by what it found."""

    def tune(self, context: Context, progress: Callable[[str], None]) -> tuple[Path, dict[str, Any]]:
        """Measure, telling `progress` what is measured, and return the file that keeps it, and what it says."""


class Backend(Protocol):
    """What the entry point of a backend plugin is."""

    name: str

    def devices(self) -> Sequence[Any]:
        """List the devices without opening one."""

    def open(self, index: int) -> Runtime:
        """Open device `index`."""


class Device:
    """A device by name, such as ``Device("vulkan:0")``; a context manager that makes it the default.

    Parameters
    ----------
    name : str or Device
        Backend name, with an optional index (default 0).

    Examples
    --------
    >>> from grilly_core import Device
    >>> Device("cpu")
    Device('cpu:0')
    """

    __slots__ = ("backend", "index")

    def __init__(self, name: str | Device) -> None:
        text = str(name)
        backend, _, index = text.partition(":")
        if not backend.isidentifier() or (index and not index.isdigit()):
            raise DeviceError(f"device: expected a name such as 'cpu' or 'vulkan:0'; received {text!r}.")
        self.backend = backend
        self.index = int(index or 0)

    def __str__(self) -> str:
        return f"{self.backend}:{self.index}"

    def __repr__(self) -> str:
        return f"Device('{self}')"

    def __eq__(self, other: object) -> bool:
        if isinstance(other, str):
            return str(self) == other or str(self) == f"{other}:0"
        return isinstance(other, Device) and (self.backend, self.index) == (other.backend, other.index)

    def __hash__(self) -> int:
        return hash((self.backend, self.index))

    def __enter__(self) -> Device:
        open_context(self)
        _default.set((*_default.get(), self))
        return self

    def __exit__(self, *exc: object) -> None:
        _default.set(_default.get()[:-1])


class Context:
    """Core's side of an open device.

    Attributes
    ----------
    device : Device
    runtime : Runtime
    host_mapped : bool
        Whether views carry a NumPy array of the device's own memory.
    released : collections.deque
        Handles of dead buffers, freed at the next allocation; the runtime's own if it has one, which then outlives
        this context.
    """

    def __init__(self, device: Device, runtime: Runtime) -> None:
        self.device = device
        self.runtime = runtime
        self.stream = getattr(runtime, "stream", None)
        self.host_mapped = bool(getattr(runtime, "host_mapped", False))
        own: deque[Any] | None = getattr(runtime, "released", None)
        self.released: deque[Any] = deque() if own is None else own
        self.closed = False
        self.warned: set[str] = set()  # ops whose fallback was warned of
        self._empty_large: Callable[..., NDArray[Any]] = getattr(runtime, "empty", np.empty)
        self.empty: Callable[[Spec], View] = (
            self._empty_mapped
            if self.host_mapped
            else self._empty_remote
            if own is None
            else self._empty_collected
        )
        self.view: Callable[[Buffer, Spec, int], View] = (
            self._view_mapped if self.host_mapped else self._view_remote
        )
        self.constant = lru_cache(maxsize=4096)(self._constant)

    def _empty_mapped(self, spec: Spec) -> View:
        make = np.empty if spec.nbytes < _LARGE else self._empty_large
        array = make(spec.shape, spec.dtype.numpy)
        return View(Buffer(self, array, spec.nbytes), spec, 0, array)

    def _empty_remote(self, spec: Spec) -> View:
        self.collect()
        handle = self.runtime.alloc(spec.nbytes)
        return View(DeviceBuffer(self, handle, spec.nbytes), spec, 0, None)

    def _empty_collected(self, spec: Spec) -> View:
        """As `_empty_remote`, where the runtime itself frees what has died."""
        nbytes = spec.nbytes
        return View(DeviceBuffer(self, self.runtime.alloc(nbytes), nbytes), spec, 0, None)

    def collect(self) -> None:
        """Free the handles whose buffers have died."""
        while self.released:
            try:
                handle = self.released.popleft()
            except IndexError:  # another thread was faster
                return
            self.runtime.free(handle)

    def _view_mapped(self, buffer: Buffer, spec: Spec, offset: int) -> View:
        item = spec.dtype.itemsize
        handle = buffer.handle
        if handle.dtype.kind == "V" or spec.dtype.code == "bf16":
            handle = handle.reshape(-1).view(np.uint8)  # flat: an array without axes cannot be shown as bytes
        array: NDArray[Any] = np.ndarray(
            spec.shape, spec.dtype.numpy, handle, offset * item if spec.size else 0,
            tuple(s * item for s in spec.strides),
        )  # fmt: skip
        return View(buffer, spec, offset, array)

    def _view_remote(self, buffer: Buffer, spec: Spec, offset: int) -> View:
        return View(buffer, spec, offset, None)

    def _constant(self, value: Any, dtype: DType) -> View:
        with np.errstate(over="ignore"):  # a number beyond a half type's range is infinite there
            array = np.asarray(value, dtype.numpy)
        view = self.upload(array, dtype)
        view.buffer.constant = True
        return view

    def _noted(self, view: View) -> View:
        """Tell a recording that the step brought data from the host."""
        note = getattr(config.current().sink, "note_upload", None)
        if note is not None:
            note(view)
        return view

    def upload(self, array: NDArray[Any], dtype: DType, *, copy: bool = True) -> View:
        """Return a view on the device holding `array` (converted to `dtype`).

        With ``copy=False`` a host-mapped device may share the array's memory.
        """
        spec = contiguous_spec(array.shape, dtype, self)
        if self.host_mapped:
            packed = self._packed(array, spec, copy)
            view = View(Buffer(self, packed, spec.nbytes), spec, 0, packed)
            view.buffer.shared = not copy
            return self._noted(view)
        packed = np.ascontiguousarray(array, dtype.numpy)
        view = self._empty_remote(spec)
        if spec.size:
            self.runtime.copy_in(view.buffer.handle, 0, packed.reshape(-1).view(np.uint8).data)
        return self._noted(view)

    def _packed(self, array: NDArray[Any], spec: Spec, copy: bool) -> NDArray[Any]:
        """Return `array` in C order and its dtype, in memory of its own if `copy`."""
        if not copy or spec.nbytes < _LARGE:
            return np.array(array, spec.dtype.numpy, order="C", copy=True if copy else None)
        packed = self._empty_large(spec.shape, spec.dtype.numpy)
        np.copyto(packed, array, casting="unsafe")
        return packed

    def download(self, view: View) -> NDArray[Any]:
        """Return the elements of `view` as a new, C-ordered array (or the shared memory if host-mapped)."""
        if view.array is not None:
            return view.array  # type: ignore[no-any-return]
        spec, item = view.spec, view.spec.dtype.itemsize
        if spec.size == 0:
            return np.empty(spec.shape, spec.dtype.numpy)
        spans = [(n - 1) * s for n, s in zip(spec.shape, spec.strides, strict=True)]
        low = view.offset + sum(s for s in spans if s < 0)
        high = view.offset + sum(s for s in spans if s > 0) + 1
        raw = np.empty((high - low) * item, np.uint8)
        self.runtime.copy_out(view.buffer.handle, low * item, raw.data)
        shown: NDArray[Any] = np.ndarray(
            spec.shape,
            spec.dtype.numpy,
            raw,
            (view.offset - low) * item,
            tuple(s * item for s in spec.strides),
        )
        return np.ascontiguousarray(shown).reshape(spec.shape)

    def synchronize(self) -> None:
        """Wait for everything launched on this device."""
        self.runtime.synchronize()


_default: ContextVar[tuple[Device, ...]] = ContextVar("grilly_default_devices", default=())
_global_default: list[Device | None] = [None]
_contexts: dict[Device, Context] = {}
_lock: Final = threading.RLock()
_on_open: list[Callable[[Context], None]] = []


def on_open(callback: Callable[[Context], None]) -> None:
    """Register what higher layers do when a device opens (the registry collects its kernels); open ones included."""
    with _lock:
        _on_open.append(callback)
        for context in _contexts.values():
            callback(context)


def open_context(device: Device | str | None = None) -> Context:
    """Return the open context of `device` (default device if None), opening it on first use.

    Raises
    ------
    DeviceError
        If the backend is unknown or lists no such device; the message names what there is.
    """
    if device is None:
        return default_context()
    if not isinstance(device, Device):
        device = Device(device)
    found = _contexts.get(device)
    if found is not None:
        return found
    with _lock:
        found = _contexts.get(device)
        if found is None:
            found = _open(device)
            _contexts[device] = found
    return found


def _open(device: Device) -> Context:
    backend: Backend = loader.load_backend(device.backend)
    known = list(backend.devices())
    if device.index >= len(known):
        raise DeviceError(
            f"device: {device} does not exist; the backend {device.backend!r} lists {len(known)} device(s)"
            + (f", {device.backend}:0 to {device.backend}:{len(known) - 1}." if known else ".")
        )
    context = Context(device, backend.open(device.index))
    for callback in _on_open:
        callback(context)
    return context


def close_all() -> None:
    """Forget every open context, so that the next use opens the devices again (mainly for tests)."""
    with _lock:
        for context in _contexts.values():
            context.closed = True
        _contexts.clear()


def default_device() -> Device:
    """Return the device on which new tensors are made.

    In this order: ``with device:``, `set_default_device`, ``GRILLY_DEVICE``, a Vulkan GPU whose plugin opens, the CPU.
    """
    stack = _default.get()
    chosen = stack[-1] if stack else _global_default[0]
    if chosen is not None:
        return chosen
    named = os.environ.get("GRILLY_DEVICE")
    return Device(named) if named else _probed_default()


def default_context() -> Context:
    """Return the open context of the default device."""
    return open_context(default_device())


def set_default_device(device: Device | str | None) -> None:
    """Make `device` the default of this process; None returns to the automatic choice."""
    if device is None:
        _global_default[0] = None
        return
    chosen = Device(device)
    open_context(chosen)
    _global_default[0] = chosen


_probed: list[Device] = []


def _probed_default() -> Device:
    """Choose once per process: a hardware GPU through Vulkan if there is one, else the CPU."""
    if not _probed:
        with _lock:
            if not _probed:
                _probed.append(_first_gpu() or Device("cpu"))
    return _probed[0]


def _first_gpu() -> Device | None:
    if "vulkan" not in loader.backend_names():
        return None
    try:
        devices = loader.load_backend("vulkan").devices()
    except GrillyError:  # its status is kept by the loader and shown by `grilly doctor`
        return None
    for index, info in enumerate(devices):
        if getattr(info, "kind", "") in ("discrete", "integrated"):
            return Device(f"vulkan:{index}")
    return None
