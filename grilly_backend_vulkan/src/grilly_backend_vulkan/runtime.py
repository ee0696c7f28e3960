"""`VulkanRuntime`: an open device, as core and kernels see it."""

from __future__ import annotations

import importlib
import importlib.util
import threading
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from grilly_backend_vulkan import fusion, instance, shaders
from grilly_backend_vulkan.device import VulkanDevice
from grilly_backend_vulkan.facts import DeviceQuery, Facts
from grilly_backend_vulkan.logical import Block, LogicalDevice
from grilly_backend_vulkan.memory import Allocation, Memory
from grilly_backend_vulkan.pipelines import Constant, Pipeline, Pipelines
from grilly_backend_vulkan.prepared import Prepared
from grilly_backend_vulkan.relocatable import Bound, Kernel
from grilly_backend_vulkan.ring import Ring
from grilly_backend_vulkan.stream import Stream
from grilly_backend_vulkan.timestamps import Timer
from grilly_core.buffer import DeviceBuffer, View, contiguous_spec
from grilly_core.device import Context
from grilly_core.dtypes import as_dtype
from grilly_core.errors import DeviceError

__all__ = ["KernelRegistry", "VulkanRuntime"]

_STAGING: Final = 16 << 20
_CHUNK: Final = _STAGING // 4
_ARGUMENTS: Final = 1 << 20


class KernelRegistry(Protocol):
    """Where kernels are declared; see `grilly_core.registry.KernelScope`."""

    def add(self, name: str, fn: Any, *, dtypes: Any, layout: str = ..., when: Any = ..., priority: int = ...,
            compute: Any = ...) -> None:  # fmt: skip
        """Declare one kernel."""


class VulkanRuntime:
    """An open Vulkan device.

    Kernels are registered once for all devices, so they find the device through the stream they are called with:
    ``stream.runtime``, and for short ``stream.pipeline``, ``stream.address``, ``stream.arguments``,
    ``stream.scratch`` and ``stream.facts``.

    Attributes
    ----------
    host_mapped : bool
        False: kernels get views without arrays.
    facts : Facts
        What the device can do.
    stream : Stream
        Records launches.
    memory : Memory
    pipelines : Pipelines
    released : collections.deque
        Handles of buffers that died; freed at the next allocation.
    shader, shaders
        `register_shader` and `register_folder`, for extensions.
    """

    host_mapped = False
    shader = staticmethod(shaders.register_shader)
    shaders = staticmethod(shaders.register_folder)
    max_fused = (fusion.MAX_INPUTS, fusion.MAX_OUTPUTS)
    fusable = staticmethod(fusion.function_for)
    fuse = staticmethod(fusion.fused_kernel)

    def __init__(self, device: VulkanDevice) -> None:
        query = DeviceQuery(instance.get().api, device)
        self.facts: Facts = query.facts
        self.device = LogicalDevice(query)
        self.pipelines = Pipelines(self.device)
        self.released: deque[Allocation] = deque()
        self.stream = Stream(self, self.device, self.pipelines.layout)
        self.memory = Memory(self.device, self.stream.synchronize)
        self._staging: Ring | None = None
        self._arguments: Ring | None = None
        self._readback: Block | None = None
        self._reading = threading.Lock()
        self.byte = as_dtype("u8")

    @property
    def usable(self) -> bool:
        """Whether the device can be used: not lost, not closed, not inherited by a fork."""
        return self.stream.usable

    @property
    def validation_messages(self) -> list[str]:
        """What the validation layers said in this process (with ``GRILLY_VULKAN_VALIDATION=1``)."""
        return instance.validation_messages

    # -- the six methods ---------------------------------------------------------------------------------------

    def alloc(self, nbytes: int) -> Allocation:
        """Return new memory of `nbytes` bytes, with undefined content."""
        stream, released = self.stream, self.released
        if stream.failure is not None:
            stream.check_usable()
        with stream.lock:
            if released:
                handle = released.popleft()
                if (
                    handle.size == (nbytes + 255) & -256 and nbytes
                ):  # what died last: the commonest case, in a loop
                    handle.nbytes = nbytes
                    return handle
                self.memory.free(handle)
                self._collect()
            return self.memory.alloc(nbytes)

    def free(self, handle: Allocation) -> None:
        """Take memory back; what has been launched may still use it."""
        if self.stream.usable:
            with self.stream.lock:
                self.memory.free(handle)

    def _collect(self) -> None:
        released, free = self.released, self.memory.free
        while released:
            try:
                handle = released.popleft()
            except IndexError:  # core takes from it, too
                return
            free(handle)

    def copy_in(self, handle: Allocation, offset: int, data: Any) -> None:
        """Write host bytes at `offset`, after everything launched so far; `data` may change afterwards."""
        source = np.frombuffer(data, np.uint8)
        _inside(handle, offset, source.size, "copy_in")
        self.stream.check_usable()
        mapped = handle.block.array
        if mapped is not None and self.stream.idle(handle.used):
            start = handle.offset + offset
            mapped[start : start + source.size] = source
        else:
            self._stage(handle, offset, source)

    def _stage(self, handle: Allocation, offset: int, source: NDArray[np.uint8]) -> None:
        with self.stream.lock:
            if self._staging is None:
                self._staging = Ring(self.device, self.device.upload, _STAGING, self.stream)
            ring = self._staging
            for i in range(0, source.size, _CHUNK):
                part = source[i : i + _CHUNK]
                segment = ring.put(part, None)
                segment.value = self.stream.value
                self.stream.copy_from(ring.block.buffer, segment.start, handle, offset + i, part.size)

    def copy_out(self, handle: Allocation, offset: int, out: Any) -> None:
        """Fill the writable `out` from `offset`, after everything launched so far."""
        target = np.frombuffer(out, np.uint8)
        _inside(handle, offset, target.size, "copy_out")
        self.stream.check_usable()
        mapped = handle.block.array
        if mapped is not None and self.device.main.cached:
            self.stream.wait(handle.used)
            start = handle.offset + offset
            target[...] = mapped[start : start + target.size]
        elif target.size:
            self._read_back(handle, offset, target)

    def _read_back(self, handle: Allocation, offset: int, target: NDArray[np.uint8]) -> None:
        with self._reading:
            if self._readback is None:
                self._readback = Block(self.device, self.device.readback, _STAGING)
            block = self._readback
            assert block.array is not None
            for i in range(0, target.size, _STAGING):
                size = min(_STAGING, target.size - i)
                self.stream.wait(self.stream.copy_to(handle, offset + i, block.buffer, 0, size))
                target[i : i + size] = block.array[:size]

    def copy(self, dst: Allocation, dst_offset: int, src: Allocation, src_offset: int, nbytes: int) -> None:
        """Copy bytes inside the device; the ranges may overlap."""
        _inside(dst, dst_offset, nbytes, "copy")
        _inside(src, src_offset, nbytes, "copy")
        if nbytes == 0 or (dst is src and dst_offset == src_offset):
            return
        if dst is src and abs(dst_offset - src_offset) < nbytes:
            between = self.scratch(nbytes)
            middle = between.buffer.handle
            self.stream.copy(middle, 0, src, src_offset, nbytes)
            self.stream.copy(dst, dst_offset, middle, 0, nbytes)
        else:
            self.stream.copy(dst, dst_offset, src, src_offset, nbytes)

    def synchronize(self) -> None:
        """Wait until everything launched so far has run."""
        self.stream.synchronize()

    # -- for kernels -------------------------------------------------------------------------------------------

    def pipeline(self, name: str, spec: tuple[Constant, ...] = (), subgroup: int = 0) -> Pipeline:
        """Return the pipeline of shader `name`, built on first use.

        Parameters
        ----------
        name : str
        spec : tuple of int, bool or float
            Specialisation constants 0, 1, 2, …, 4 bytes each.
        subgroup : int
            Subgroup size to ask for; 0 leaves it to the driver.
        """
        self.stream.check_usable()
        return self.pipelines.get(name, spec, subgroup)

    def address(self, view: View) -> int:
        """Return the device address of the first element of `view`."""
        spec = view.spec
        return view.buffer.handle.address + view.offset * spec.dtype.itemsize  # type: ignore[no-any-return]

    def arguments(self, data: bytes) -> int:
        """Return the address of a copy of `data`, valid for the next launch of this thread."""
        self.stream.check_usable()
        with self.stream.lock:
            if self.stream.preparing is not None:
                view = self._temporary(len(data))
                self.stream.preparing.store(view, bytes(data))
                return self.address(view)
            if self._arguments is None:
                near = self.device.main if self.device.main.mapped else self.device.upload
                self._arguments = Ring(self.device, near, _ARGUMENTS, self.stream)
            segment = self._arguments.put(np.frombuffer(data, np.uint8), None)
            self.stream.hold(segment)
            return self._arguments.block.address + segment.start

    def scratch(self, nbytes: int) -> View:
        """Return temporary memory as a view of bytes; letting go of it frees it after the launches recorded so far."""
        view = self._temporary(nbytes)
        return view if self.stream.preparing is None else self.stream.preparing.keep(view)

    def _temporary(self, nbytes: int) -> View:
        owner: Any = self  # as for core's contexts: what gets the handle back, and has a device's name
        buffer = DeviceBuffer(owner, self.alloc(nbytes), nbytes)
        return View(buffer, contiguous_spec((nbytes,), self.byte, owner), 0, None)

    def bind(self, fn: Kernel) -> Bound:
        """Return what a plan calls in place of a kernel: its launches are remembered, see `relocatable`."""
        return Bound(fn)

    def prepare(self, record: Callable[[], None]) -> Prepared:
        """Return the launches that `record` makes as a program that is submitted at once; see `prepared`."""
        return Prepared(self.stream, record)

    def timer(self) -> Timer | None:
        """Return something that writes marks between launches, None if the device has no clock."""
        return Timer(self.stream) if self.facts.timestamp_period > 0 else None

    def tune(self, context: Context, progress: Callable[[str], None]) -> tuple[Path, dict[str, Any]]:
        """Measure what kernels take here and keep it for the choice between them; see `tuning`."""
        from grilly_backend_vulkan import tuning  # which reads the kernels

        return tuning.tune(context, progress)

    def register_kernels(self, kernels: KernelRegistry) -> None:
        """Declare the kernels of this package."""
        if importlib.util.find_spec("grilly_backend_vulkan.kernels") is not None:
            importlib.import_module("grilly_backend_vulkan.kernels").register_all(kernels, self)

    def describe(self) -> dict[str, Any]:
        """Return what ``grilly doctor`` shows."""
        facts = self.facts
        return {
            "device": facts.name, "kind": facts.kind, "driver": facts.driver, "vulkan": facts.api_version,
            "features": facts.summary(), **self.memory.statistics(),
        }  # fmt: skip

    # -- the end -----------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Wait for the device and give everything back; the runtime cannot be used afterwards."""
        with self.stream.lock:
            if self.stream.usable:
                self.stream.synchronize()
                self.stream.fail(DeviceError, f"{self.facts.name} has been closed; open it again.")
            elif self.device.handle is None:
                return
            self._destroy()

    def _destroy(self) -> None:
        self.device.api.lib.vkDeviceWaitIdle(
            self.device.handle
        )  # a lost device says so, which changes nothing
        for owner in (self._staging, self._arguments):
            if owner is not None:
                owner.block.destroy()
        if self._readback is not None:
            self._readback.destroy()
        self.memory.destroy()
        self.stream.destroy()
        self.pipelines.destroy()
        self.device.destroy()
        self.device.handle = None


def _inside(handle: Allocation, offset: int, nbytes: int, what: str) -> None:
    if offset < 0 or nbytes < 0 or offset + nbytes > handle.nbytes:
        raise ValueError(f"{what}: bytes {offset} to {offset + nbytes} are outside of {handle!r}.")
