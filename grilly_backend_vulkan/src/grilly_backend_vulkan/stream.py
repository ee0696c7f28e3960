"""The stream: launches recorded into an open command buffer, submitted in batches, and waited for.

Everything that is recorded runs as if in order: a hazard tracker puts a barrier before a launch that depends on one
since the last barrier, and every command buffer begins with a barrier. Submission n signals the value n on one
timeline semaphore.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from grilly_backend_vulkan import vkapi
from grilly_backend_vulkan.errors import REOPEN, DeviceLostError
from grilly_backend_vulkan.logical import LogicalDevice
from grilly_core.buffer import Spec, View
from grilly_core.errors import DeviceError
from grilly_core.hazards import Access, HazardTracker

if TYPE_CHECKING:
    from grilly_backend_vulkan.memory import Allocation
    from grilly_backend_vulkan.pipelines import Pipeline
    from grilly_backend_vulkan.ring import Segment
    from grilly_backend_vulkan.runtime import VulkanRuntime

__all__ = ["Stream", "byte_range"]

MAX_PUSH: Final = 128
_COMPUTE: Final = 0x800
_TRANSFER: Final = 0x1000
_HOST: Final = 0x4000
_SHADER_READ, _SHADER_WRITE = 0x20, 0x40
_TRANSFER_READ, _TRANSFER_WRITE, _HOST_READ = 0x800, 0x1000, 0x2000
_ALL_COMMANDS: Final = 0x10000
_STAGE_COMPUTE: Final = 0x20
_LAUNCHES: Final = 16  # per submission: more gain little, and the device should not wait
_BYTES: Final = 256 << 20  # touched per submission, so that none runs for long
_IN_FLIGHT: Final = 32
_SPIN_SECONDS: Final = 50e-6
_WAIT_NANOSECONDS: Final = 100_000_000  # then look whether somebody pressed Ctrl-C

#: One end of a copy: buffer, first byte, and its address if other work may touch it.
End = tuple[Any, int, int | None]

_extents: dict[Spec, tuple[int, int, int]] = {}


def _extent(spec: Spec) -> tuple[int, int, int]:
    """Return the first byte and the byte after the last one relative to the offset, and the bytes of an element."""
    item = spec.dtype.itemsize
    low = high = 0
    if spec.size:
        spans = [(n - 1) * s for n, s in zip(spec.shape, spec.strides, strict=True)]
        low = sum(s for s in spans if s < 0) * item
        high = (sum(s for s in spans if s > 0) + 1) * item
    if len(_extents) > 1 << 15:
        _extents.clear()
    found = _extents[spec] = (low, high, item)
    return found


def byte_range(view: View) -> tuple[int, int]:
    """Return the first byte that `view` shows of its buffer, and the one after the last."""
    low, high, item = _extents.get(view.spec) or _extent(view.spec)
    start = view.offset * item
    return start + low, start + high


class Stream:
    """What kernels record into.

    Attributes
    ----------
    runtime : VulkanRuntime
    value : int
        The submission that is being recorded.
    completed : int
        The last submission known to have run.
    launches : int
        Dispatches recorded so far.
    barriers : int
        Barriers recorded because of hazards.
    """

    def __init__(self, runtime: VulkanRuntime, device: LogicalDevice, layout: Any) -> None:
        self.runtime = runtime
        self.lock = threading.RLock()
        self.value = 1
        self.completed = 0
        self.launches = 0
        self.barriers = 0
        self._failure: tuple[type[DeviceError], str] | None = None
        self._device = device
        self._api = device.api
        self._layout = layout
        self._max_groups = device.facts.max_groups
        self._spin = 0.0 if device.facts.software else _SPIN_SECONDS
        self._tracker = HazardTracker()
        self._command: Any = None
        self._bound: Any = None
        self._recorded: list[str] = []
        self._touched = 0
        self._spare: list[Any] = []
        self._in_flight: deque[tuple[int, Any, list[str]]] = deque()
        self._unlaunched: dict[int, list[Segment]] = {}
        self._submit_call = self._api.lib.vkQueueSubmit2
        self._make_objects()
        self._make_structures()
        # What kernels use of the runtime; they are registered once for all devices, and the stream says which one.
        self.pipeline = runtime.pipeline
        self.address = runtime.address
        self.arguments = runtime.arguments
        self.scratch = runtime.scratch
        self.facts = runtime.facts

    def _make_objects(self) -> None:
        api, device = self._api, self._device
        info = api.struct("VkCommandPoolCreateInfo", 39, flags=2, queueFamilyIndex=device.family)
        self._pool = api.made("vkCreateCommandPool", "VkCommandPool", device.handle, info, api.null)
        kind = api.struct("VkSemaphoreTypeCreateInfo", 1000207002, semaphoreType=1, initialValue=0)
        info = api.struct("VkSemaphoreCreateInfo", 9, pNext=kind)
        self._semaphore = api.made("vkCreateSemaphore", "VkSemaphore", device.handle, info, api.null)

    def _make_structures(self) -> None:
        api = self._api
        work, writes = _COMPUTE | _TRANSFER, _SHADER_WRITE | _TRANSFER_WRITE
        self._barrier = self._dependency(work, writes, work, writes | _SHADER_READ | _TRANSFER_READ)
        self._to_host = self._dependency(work, writes, _HOST, _HOST_READ)
        self._begin_info = api.struct("VkCommandBufferBeginInfo", 42, flags=1)
        self._command_info = api.struct("VkCommandBufferSubmitInfo", 1000314006)
        self._signal_info = api.struct(
            "VkSemaphoreSubmitInfo", 1000314005, semaphore=self._semaphore, stageMask=_ALL_COMMANDS
        )
        self._submit_info = api.struct(
            "VkSubmitInfo2", 1000314004, commandBufferInfoCount=1, pCommandBufferInfos=self._command_info,
            signalSemaphoreInfoCount=1, pSignalSemaphoreInfos=self._signal_info,
        )  # fmt: skip
        self._no_fence = api.ffi.cast("VkFence", 0)
        self._region = api.struct("VkBufferCopy")

    def _dependency(self, after: int, written: int, before: int, accessed: int) -> Any:
        api = self._api
        barrier = api.struct(
            "VkMemoryBarrier2", 1000314000, srcStageMask=after, srcAccessMask=written, dstStageMask=before,
            dstAccessMask=accessed,
        )  # fmt: skip
        made = api.struct("VkDependencyInfo", 1000314003, memoryBarrierCount=1, pMemoryBarriers=barrier)
        self.__dict__.setdefault("_kept", []).append(barrier)
        return made

    # -- state -------------------------------------------------------------------------------------------------

    def fail(self, kind: type[DeviceError], message: str) -> None:
        """Refuse every later use with this error."""
        self._failure = (kind, message)

    @property
    def usable(self) -> bool:
        """Whether the device can still be used: not lost, not closed, not inherited by a fork."""
        return self._failure is None

    def check_usable(self) -> None:
        """Raise if it cannot."""
        if self._failure is not None:
            kind, message = self._failure
            raise kind(message)

    def _check(self, result: int, call: str) -> None:
        """Raise if a call failed, and refuse the device from then on: what was recorded is in doubt."""
        if result == 0:
            return
        name = self._device.facts.name
        if result == vkapi.DEVICE_LOST:
            pending = [name for _, _, names in self._in_flight for name in names] + self._recorded
            self.fail(DeviceLostError, DeviceLostError.describe(name, call, pending))
        else:
            error = vkapi.VulkanError(call, result)
            self.fail(DeviceError, f"{name}: {error} {REOPEN}")
        self.check_usable()

    # -- recording ---------------------------------------------------------------------------------------------

    def launch(
        self,
        pipeline: Pipeline,
        groups: tuple[int, int, int],
        push: bytes,
        reads: Sequence[View],
        writes: Sequence[View],
    ) -> None:
        """Record one dispatch.

        Parameters
        ----------
        pipeline : Pipeline
        groups : tuple of int
            Work groups along x, y and z; nothing is recorded if one is 0.
        push : bytes
            Push constants, at most 128 bytes, a multiple of 4.
        reads, writes : sequence of View
            Everything the shader reads and writes, except arguments; decides on barriers.

        Raises
        ------
        DeviceError
            If a view leaves its buffer, or the groups or constants are beyond the limits.
        """
        lib = self._api.lib
        with self.lock:
            if self._unlaunched:
                self._launched()
            if self._failure is not None:
                self.check_usable()
            x, y, z = groups
            if len(push) > MAX_PUSH or len(push) & 3 or not self._allowed(x, y, z):
                if 0 in groups:
                    return
                raise DeviceError(self._limits_message(pipeline, groups, push))
            command = self._command or self._begin()
            self._order(command, self._accesses(pipeline, reads), self._accesses(pipeline, writes))
            if pipeline is not self._bound:
                lib.vkCmdBindPipeline(command, 1, pipeline.handle)
                self._bound = pipeline
            if push:
                lib.vkCmdPushConstants(command, self._layout, _STAGE_COMPUTE, 0, len(push), push)
            lib.vkCmdDispatch(command, x, y, z)
            self._recorded.append(pipeline.name)
            self.launches += 1
            if len(self._recorded) >= _LAUNCHES or self._touched > _BYTES:
                self.flush()

    def _allowed(self, x: int, y: int, z: int) -> bool:
        limit = self._max_groups
        return 0 < x <= limit[0] and 0 < y <= limit[1] and 0 < z <= limit[2]

    def _limits_message(self, pipeline: Pipeline, groups: tuple[int, int, int], push: bytes) -> str:
        if not self._allowed(*groups):
            return f"{pipeline.name}: {groups} work groups, and the device allows {self._max_groups}."
        return (
            f"{pipeline.name}: push constants of {len(push)} bytes; at most {MAX_PUSH} and a multiple of 4 are "
            "allowed, the rest goes through stream.arguments()."
        )

    def _accesses(self, pipeline: Pipeline, views: Sequence[View]) -> list[Access]:
        """Return the byte ranges behind views, checked, and note that their memory is in use."""
        found = []
        value = self.value
        for view in views:
            low, high, item = _extents.get(view.spec) or _extent(view.spec)
            handle = view.buffer.handle
            start = view.offset * item
            if start + low < 0 or start + high > handle.nbytes:
                if low == high:
                    continue
                raise DeviceError(
                    f"{pipeline.name}: {view!r} needs bytes {start + low} to {start + high} of {handle!r}; the "
                    "launch was not recorded."
                )
            handle.used = value
            start += handle.address
            found.append((0, start + low, start + high))
            self._touched += high - low
        return found

    def _order(self, command: Any, reads: list[Access], writes: list[Access]) -> None:
        if self._tracker.launch(reads, writes):
            self._api.lib.vkCmdPipelineBarrier2(command, self._barrier)
            self.barriers += 1

    def copy(self, dst: Allocation, dst_offset: int, src: Allocation, src_offset: int, nbytes: int) -> None:
        """Record a copy inside the device; the ranges must not overlap."""
        with self.lock:
            self._copy_blocks(
                (src.block.buffer, src.offset + src_offset, src.address + src_offset),
                (dst.block.buffer, dst.offset + dst_offset, dst.address + dst_offset),
                nbytes,
            )
            src.used = dst.used = self.value
            self._end_of_copy(nbytes)

    def copy_from(self, source: Any, start: int, dst: Allocation, dst_offset: int, nbytes: int) -> None:
        """Record a copy from a host-visible buffer, whose bytes are in place before the submission."""
        with self.lock:
            target = (dst.block.buffer, dst.offset + dst_offset, dst.address + dst_offset)
            self._copy_blocks((source, start, None), target, nbytes)
            dst.used = self.value
            self._end_of_copy(nbytes)

    def copy_to(self, src: Allocation, src_offset: int, target: Any, start: int, nbytes: int) -> int:
        """Record a copy to a host-visible buffer; returns the submission to wait for."""
        with self.lock:
            source = (src.block.buffer, src.offset + src_offset, src.address + src_offset)
            self._copy_blocks(source, (target, start, None), nbytes)
            src.used = self.value
            return self.value

    def _copy_blocks(
        self, source: tuple[Any, int, int | None], target: tuple[Any, int, int | None], nbytes: int
    ) -> None:
        self.check_usable()
        command = self._command or self._begin()
        accesses = [[] if end[2] is None else [(0, end[2], end[2] + nbytes)] for end in (source, target)]
        self._order(command, *accesses)
        region = self._region
        region.srcOffset, region.dstOffset, region.size = source[1], target[1], nbytes
        self._api.lib.vkCmdCopyBuffer(command, source[0], target[0], 1, region)
        self._recorded.append("copy")

    def _end_of_copy(self, nbytes: int) -> None:
        self._touched += nbytes
        if len(self._recorded) >= _LAUNCHES or self._touched > _BYTES:
            self.flush()

    def hold(self, segment: Segment) -> None:
        """Keep a ring segment until the next launch of this thread has run."""
        self._unlaunched.setdefault(threading.get_ident(), []).append(segment)

    def _launched(self) -> None:
        """Let the segments that this thread holds go with the submission being recorded."""
        for segment in self._unlaunched.pop(threading.get_ident(), ()):
            segment.value = self.value

    # -- submission --------------------------------------------------------------------------------------------

    def _begin(self) -> Any:
        """Open a command buffer that starts after everything submitted before."""
        lib = self._api.lib
        if len(self._in_flight) >= _IN_FLIGHT:
            self.wait(self._in_flight[0][0])
        self._recycle()
        command = self._spare.pop() if self._spare else self._new_command()
        self._check(lib.vkBeginCommandBuffer(command, self._begin_info), "vkBeginCommandBuffer")
        lib.vkCmdPipelineBarrier2(command, self._barrier)
        self._tracker.barrier()
        self._bound = None
        self._command = command
        return command

    def _new_command(self) -> Any:
        api = self._api
        info = api.struct(
            "VkCommandBufferAllocateInfo", 40, commandPool=self._pool, level=0, commandBufferCount=1
        )
        return api.made("vkAllocateCommandBuffers", "VkCommandBuffer", self._device.handle, info)

    def _recycle(self) -> None:
        if self._in_flight and self._in_flight[0][0] > self.completed:
            self.progress()
        while self._in_flight and self._in_flight[0][0] <= self.completed:
            self._spare.append(self._in_flight.popleft()[1])

    def flush(self) -> int:
        """Submit what has been recorded; returns the number of the last submission."""
        with self.lock:
            self.check_usable()
            if self._command is None:
                return self.value - 1
            lib, command = self._api.lib, self._command
            lib.vkCmdPipelineBarrier2(command, self._to_host)
            self._check(lib.vkEndCommandBuffer(command), "vkEndCommandBuffer")
            self._command_info.commandBuffer = command
            self._signal_info.value = self.value
            result = self._submit_call(self._device.queue, 1, self._submit_info, self._no_fence)
            self._check(result, "vkQueueSubmit2")
            self._in_flight.append((self.value, command, self._recorded))
            self._command, self._recorded, self._touched = None, [], 0
            self.value += 1
            return self.value - 1

    def progress(self) -> int:
        """Ask the device how far it is; returns the last submission that has run."""
        out = self._api.ffi.new("uint64_t *")
        result = self._api.lib.vkGetSemaphoreCounterValue(self._device.handle, self._semaphore, out)
        self._check(result, "vkGetSemaphoreCounterValue")
        if out[0] > self.completed:
            self.completed = int(out[0])
        return self.completed

    def idle(self, value: int) -> bool:
        """Whether submission `value` has run."""
        return value <= self.completed or (value < self.value and value <= self.progress())

    def wait(self, value: int) -> None:
        """Wait until submission `value` has run, submitting it first if it is still open."""
        if value <= self.completed:
            return
        self.check_usable()
        if value >= self.value:
            self.flush()
        stop = time.perf_counter() + self._spin
        while self.progress() < value:
            if time.perf_counter() >= stop:
                self._block(value)
                return

    def _block(self, value: int) -> None:
        api = self._api
        semaphores = api.array("VkSemaphore", [self._semaphore])
        values = api.array("uint64_t", [value])
        info = api.struct(
            "VkSemaphoreWaitInfo", 1000207004, semaphoreCount=1, pSemaphores=semaphores, pValues=values
        )
        while True:
            result = api.lib.vkWaitSemaphores(self._device.handle, info, _WAIT_NANOSECONDS)
            if result != 2:  # a timeout
                self._check(result, "vkWaitSemaphores")
                break
        self.completed = max(self.completed, value)

    def synchronize(self) -> None:
        """Wait until everything recorded so far has run."""
        self.wait(self.flush())

    def destroy(self) -> None:
        """Destroy command buffers and semaphore; nothing may be running."""
        api, device = self._api, self._device
        api.lib.vkDestroyCommandPool(device.handle, self._pool, api.null)
        api.lib.vkDestroySemaphore(device.handle, self._semaphore, api.null)
