"""The stream: launches recorded into an open command buffer, submitted in batches, and waited for.

Everything that is recorded runs as if in order. Barriers cut the launches into levels; each allocation knows the
level of its last read and write, and a launch that meets the present level in a dangerous way (a read of what was
written, a write of what was read or written) puts a barrier before itself. That takes two comparisons per operand
where exact byte ranges took a search, at the price of a needless barrier between disjoint parts of one allocation.
Every command buffer begins with a barrier. Submission n signals the value n on one timeline semaphore.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from grilly_backend_vulkan import vkapi
from grilly_backend_vulkan.errors import REOPEN, DeviceLostError
from grilly_backend_vulkan.extents import extent
from grilly_backend_vulkan.logical import LogicalDevice
from grilly_core.buffer import View
from grilly_core.errors import DeviceError

if TYPE_CHECKING:
    from grilly_backend_vulkan.memory import Allocation
    from grilly_backend_vulkan.pipelines import Pipeline
    from grilly_backend_vulkan.prepared import Preparation
    from grilly_backend_vulkan.relocatable import Template
    from grilly_backend_vulkan.ring import Segment
    from grilly_backend_vulkan.runtime import VulkanRuntime

__all__ = ["End", "Stream"]

MAX_PUSH: Final = 128
_COMPUTE: Final = 0x800
_TRANSFER: Final = 0x1000
_HOST: Final = 0x4000
_SHADER_READ, _SHADER_WRITE = 0x20, 0x40
_TRANSFER_READ, _TRANSFER_WRITE, _HOST_READ = 0x800, 0x1000, 0x2000
_ALL_COMMANDS: Final = 0x10000
_STAGE_COMPUTE: Final = 0x20
_LAUNCHES: Final = 32  # per submission: more gain little, and the device should not wait
#: Bytes touched per submission, so that none runs for long: a discrete device has the bandwidth for more.
_BYTES: Final = 256 << 20
_BYTES_DISCRETE: Final = 4 << 30
_IN_FLIGHT: Final = 32
_HELD_BYTES: Final = 32 << 20  # of a temporary that is kept between launches
_SPIN_SECONDS: Final = 50e-6
_WAIT_NANOSECONDS: Final = 100_000_000  # then look whether somebody pressed Ctrl-C

#: One end of a copy: buffer, first byte, and the allocation if other work may touch it.
End = tuple[Any, int, "Allocation | None"]


class Stream:
    """What kernels record into.

    Attributes
    ----------
    runtime : VulkanRuntime
    value : int
        The submission that is being recorded.
    completed : int
        The last submission known to have run.
    level : int
        Grows with every barrier.
    launches : int
        Dispatches recorded so far.
    barriers : int
        Barriers recorded because of hazards.
    preparing : Preparation or None
        Where launches go while a program is prepared; whoever prepares one holds the lock.
    """

    def __init__(self, runtime: VulkanRuntime, device: LogicalDevice, layout: Any) -> None:
        self.runtime = runtime
        self.lock = threading.RLock()
        self.value = 1
        self.completed = 0
        self.launches = 0
        self.barriers = 0
        self.failure: tuple[type[DeviceError], str] | None = None
        self.device = device
        self.api = device.api
        self.layout = layout
        self._max_groups = device.facts.max_groups
        self._bytes = _BYTES_DISCRETE if device.facts.kind == "discrete" else _BYTES
        self._spin = 0.0 if device.facts.software else _SPIN_SECONDS
        self.level = 1
        self.preparing: Preparation | None = None
        self.command: Any = None
        self.bound: Any = None
        self.recorded: list[str] = []
        self.touched = 0
        self._spare: list[Any] = []
        self._in_flight: deque[tuple[int, Any, list[str]]] = deque()
        self.retired: deque[tuple[int, Any]] = (
            deque()
        )  # command buffers of dead programs, with their last submission
        self._unlaunched: dict[int, list[Segment]] = {}
        self._temporaries: list[View] = []
        self._submit_call = self.api.lib.vkQueueSubmit2
        self._make_objects()
        self._make_structures()
        # What kernels use of the runtime; they are registered once for all devices, and the stream says which one.
        self.pipeline = runtime.pipeline
        self.address = runtime.address
        self.arguments = runtime.arguments
        self.scratch = runtime.scratch
        self.facts = runtime.facts

    def _make_objects(self) -> None:
        api, device = self.api, self.device
        info = api.struct("VkCommandPoolCreateInfo", 39, flags=2, queueFamilyIndex=device.family)
        self._pool = api.made("vkCreateCommandPool", "VkCommandPool", device.handle, info, api.null)
        kind = api.struct("VkSemaphoreTypeCreateInfo", 1000207002, semaphoreType=1, initialValue=0)
        info = api.struct("VkSemaphoreCreateInfo", 9, pNext=kind)
        self._semaphore = api.made("vkCreateSemaphore", "VkSemaphore", device.handle, info, api.null)

    def _make_structures(self) -> None:
        api = self.api
        work, writes = _COMPUTE | _TRANSFER, _SHADER_WRITE | _TRANSFER_WRITE
        self.barrier = self._dependency(work, writes, work, writes | _SHADER_READ | _TRANSFER_READ)
        self.to_host = self._dependency(work, writes, _HOST, _HOST_READ)
        self._begin_info = api.struct("VkCommandBufferBeginInfo", 42, flags=1)
        self._command_info = api.ffi.new("VkCommandBufferSubmitInfo[2]")
        for i in range(2):
            self._command_info[i].sType = 1000314006
        self._signal_info = api.struct(
            "VkSemaphoreSubmitInfo", 1000314005, semaphore=self._semaphore, stageMask=_ALL_COMMANDS
        )
        self._submit_info = api.struct(
            "VkSubmitInfo2", 1000314004, pCommandBufferInfos=self._command_info, signalSemaphoreInfoCount=1,
            pSignalSemaphoreInfos=self._signal_info,
        )  # fmt: skip
        self._no_fence = api.ffi.cast("VkFence", 0)
        self._region = api.struct("VkBufferCopy")

    def _dependency(self, after: int, written: int, before: int, accessed: int) -> Any:
        api = self.api
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
        self.failure = (kind, message)

    @property
    def usable(self) -> bool:
        """Whether the device can still be used: not lost, not closed, not inherited by a fork."""
        return self.failure is None

    def check_usable(self) -> None:
        """Raise if it cannot."""
        if self.failure is not None:
            kind, message = self.failure
            raise kind(message)

    def check(self, result: int, call: str) -> None:
        """Raise if a call failed, and refuse the device from then on: what was recorded is in doubt."""
        if result == 0:
            return
        name = self.device.facts.name
        if result == vkapi.DEVICE_LOST:
            pending = [name for _, _, names in self._in_flight for name in names] + self.recorded
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
        lib = self.api.lib
        with self.lock:
            if self._unlaunched:
                self._launched()
            if self.failure is not None:
                self.check_usable()
            if 0 in groups:
                return
            self.check_limits(pipeline, groups, push)
            read, written = self.checked(pipeline, reads), self.checked(pipeline, writes)
            if self.preparing is not None:
                self.preparing.add(pipeline, groups, push, read, written)
                return
            command = self.command or self.begin()
            self.order(command, [x[0] for x in read], [x[0] for x in written])
            for handle, low, high in (*read, *written):
                handle.used = self.value
                self.touched += high - low
            if pipeline is not self.bound:
                lib.vkCmdBindPipeline(command, 1, pipeline.handle)
                self.bound = pipeline
            if push:
                lib.vkCmdPushConstants(command, self.layout, _STAGE_COMPUTE, 0, len(push), push)
            lib.vkCmdDispatch(command, *groups)
            self.launched(pipeline.name)

    def launched(self, name: str) -> None:
        """Count a launch, and submit when there are enough."""
        self.recorded.append(name)
        self.launches += 1
        if len(self.recorded) >= _LAUNCHES or self.touched > self._bytes:
            self.flush()

    def check_limits(self, pipeline: Pipeline, groups: tuple[int, int, int], push: bytes) -> None:
        """Raise if the groups or constants are beyond what the device takes."""
        if not all(0 < n <= limit for n, limit in zip(groups, self._max_groups, strict=True)):
            raise DeviceError(
                f"{pipeline.name}: {groups} work groups, and the device allows {self._max_groups}."
            )
        if len(push) > MAX_PUSH or len(push) & 3:
            raise DeviceError(
                f"{pipeline.name}: push constants of {len(push)} bytes; at most {MAX_PUSH} and a multiple of 4 are "
                "allowed, the rest goes through stream.arguments()."
            )

    def replay(self, template: Template, views: Sequence[View]) -> None:
        """Record the launches of a template on `views`, outputs first.

        This is the hot path of eager work: everything that does not depend on addresses was checked and packed when
        the template was made.
        """
        handles, bases = [], []
        for view, (low, high, item) in zip(views, template.ranges, strict=True):
            handle = view.buffer.handle
            start = view.offset * item
            if start + low < 0 or start + high > handle.nbytes:
                raise DeviceError(
                    f"{template.steps[0].pipeline.name}: {view!r} leaves {handle!r}; nothing was recorded."
                )
            handles.append(handle)
            bases.append(handle.address + start)
        with self.lock:
            if self.failure is not None:
                self.check_usable()
            scratches = [self.scratch(n) for n in template.scratches]
            for view in scratches:
                handles.append(view.buffer.handle)
                bases.append(view.buffer.handle.address)
            for data, fills in template.arguments:
                for packer, place, sources in fills:
                    packer.pack_into(data, place, *[bases[i] + d for i, d in sources])
                bases.append(self.arguments(data))
            if self.preparing is None:
                self._record(template, handles, bases)
            else:
                self.preparing.add_steps(template, handles, bases)

    def replay_single(self, template: Template, views: Sequence[View]) -> None:
        """Do what `replay` does for the commonest template, see `Template.single`; the shortest path there is."""
        handles = [view.buffer.handle for view in views]
        for handle, stop in zip(handles, template.stops, strict=True):
            if stop > handle.nbytes:
                self.replay(template, views)  # which says what is wrong
        with self.lock:
            if self.preparing is not None or self.failure is not None:
                self.replay(template, views)
                return
            lib, step = self.api.lib, template.single
            command = self.command or self.begin()
            value, level = self.value, self.level
            for handle in handles:
                handle.used = value
                if handle.written == level:
                    self.put_barrier(command)
                    level = self.level
            for i in step.writes:
                handle = handles[i]
                if handle.read == level:
                    self.put_barrier(command)
                    level = self.level
                handle.written = level
            for i in step.reads:
                handles[i].read = level
            packer, place, _ = step.fills[0]
            packer.pack_into(step.memory, place, *[handle.address for handle in handles])
            pipeline = step.pipeline
            if pipeline is not self.bound:
                lib.vkCmdBindPipeline(command, 1, pipeline.handle)
                self.bound = pipeline
            lib.vkCmdPushConstants(command, self.layout, _STAGE_COMPUTE, 0, step.size, step.push)
            x, y, z = step.groups
            lib.vkCmdDispatch(command, x, y, z)
            self.recorded.append(pipeline.name)
            self.launches += 1
            self.touched += template.touched
            if len(self.recorded) >= _LAUNCHES or self.touched > self._bytes:
                self.flush()

    def replay_plain(self, template: Template, views: Sequence[View]) -> None:
        """Do what `replay` does for a plain template; its temporaries are those the stream holds."""
        handles = [view.buffer.handle for view in views]
        for handle, stop in zip(handles, template.stops, strict=True):
            if stop > handle.nbytes:
                self.replay(template, views)  # which says what is wrong
        with self.lock:
            if self.preparing is not None or self.failure is not None:
                self.replay(template, views)
                return
            temporaries = [self._held(i, n) for i, n in enumerate(template.scratches)]
            handles += [view.buffer.handle for view in temporaries]
            self._record(template, handles, [handle.address for handle in handles])

    def _held(self, i: int, nbytes: int) -> View:
        """Return temporary `i` of a kernel, from memory that is kept for the next one unless it is large."""
        if nbytes > _HELD_BYTES:
            return self.scratch(nbytes)
        held = self._temporaries
        if len(held) <= i:
            held.append(self.scratch(nbytes))
        elif held[i].buffer.nbytes < nbytes:
            held[i] = self.scratch(nbytes)
        return held[i]

    def _record(self, template: Template, handles: list[Allocation], bases: list[int]) -> None:
        lib, layout = self.api.lib, self.layout
        command = self.command or self.begin()
        value = self.value
        for handle in handles:
            handle.used = value
        level = self.level
        for step in template.steps:
            conflict = False
            for i in step.reads:
                if handles[i].written == level:
                    conflict = True
            for i in step.writes:
                if handles[i].written == level or handles[i].read == level:
                    conflict = True
            if conflict:
                self.put_barrier(command)
                level = self.level
            for i in step.reads:
                handles[i].read = level
            for i in step.writes:
                handles[i].written = level
            for packer, place, sources in step.fills:
                packer.pack_into(step.memory, place, *[bases[i] + d for i, d in sources])
            pipeline = step.pipeline
            if pipeline is not self.bound:
                lib.vkCmdBindPipeline(command, 1, pipeline.handle)
                self.bound = pipeline
            lib.vkCmdPushConstants(command, layout, _STAGE_COMPUTE, 0, step.size, step.push)
            lib.vkCmdDispatch(command, *step.groups)
            self.recorded.append(pipeline.name)
        if self._unlaunched:
            self._launched()
        self.launches += len(template.steps)
        self.touched += template.touched
        if len(self.recorded) >= _LAUNCHES or self.touched > self._bytes:
            self.flush()

    def checked(self, pipeline: Pipeline, views: Sequence[View]) -> list[tuple[Allocation, int, int]]:
        """Return the allocations behind views, and which of their bytes are shown; nothing for empty views."""
        found = []
        for view in views:
            low, high, item = extent(view.spec)
            handle = view.buffer.handle
            start = view.offset * item
            if start + low < 0 or start + high > handle.nbytes:
                if low == high:
                    continue
                raise DeviceError(
                    f"{pipeline.name}: {view!r} needs bytes {start + low} to {start + high} of {handle!r}; the "
                    "launch was not recorded."
                )
            found.append((handle, start + low, start + high))
        return found

    def order(self, command: Any, reads: Sequence[Allocation], writes: Sequence[Allocation]) -> None:
        """Put a barrier if these reads and writes must wait for something of this level, and note them."""
        level = self.level
        if any(h.written == level for h in reads) or any(level in (h.written, h.read) for h in writes):
            self.put_barrier(command)
            level = self.level
        for handle in reads:
            handle.read = level
        for handle in writes:
            handle.written = level

    def put_barrier(self, command: Any) -> None:
        """Begin a new level."""
        self.api.lib.vkCmdPipelineBarrier2(command, self.barrier)
        self.barriers += 1
        self.level += 1

    def copy(self, dst: Allocation, dst_offset: int, src: Allocation, src_offset: int, nbytes: int) -> None:
        """Record a copy inside the device; the ranges must not overlap."""
        with self.lock:
            self._copy_blocks(
                (src.block.buffer, src.offset + src_offset, src),
                (dst.block.buffer, dst.offset + dst_offset, dst),
                nbytes,
            )
            src.used = dst.used = self.value
            self._end_of_copy(nbytes)

    def copy_from(self, source: Any, start: int, dst: Allocation, dst_offset: int, nbytes: int) -> None:
        """Record a copy from a host-visible buffer, whose bytes are in place before the submission."""
        with self.lock:
            target = (dst.block.buffer, dst.offset + dst_offset, dst)
            self._copy_blocks((source, start, None), target, nbytes)
            dst.used = self.value
            self._end_of_copy(nbytes)

    def copy_to(self, src: Allocation, src_offset: int, target: Any, start: int, nbytes: int) -> int:
        """Record a copy to a host-visible buffer; returns the submission to wait for."""
        with self.lock:
            source = (src.block.buffer, src.offset + src_offset, src)
            self._copy_blocks(source, (target, start, None), nbytes)
            src.used = self.value
            return self.value

    def _copy_blocks(self, source: End, target: End, nbytes: int) -> None:
        self.check_usable()
        if self.preparing is not None:
            raise DeviceError(
                f"{self.device.facts.name}: a prepared program holds launches only, and no copies."
            )
        command = self.command or self.begin()
        reads, writes = ([] if end[2] is None else [end[2]] for end in (source, target))
        self.order(command, reads, writes)
        region = self._region
        region.srcOffset, region.dstOffset, region.size = source[1], target[1], nbytes
        self.api.lib.vkCmdCopyBuffer(command, source[0], target[0], 1, region)
        self.recorded.append("copy")

    def _end_of_copy(self, nbytes: int) -> None:
        self.touched += nbytes
        if len(self.recorded) >= _LAUNCHES or self.touched > self._bytes:
            self.flush()

    def hold(self, segment: Segment) -> None:
        """Keep a ring segment until the next launch of this thread has run."""
        self._unlaunched.setdefault(threading.get_ident(), []).append(segment)

    def _launched(self) -> None:
        """Let the segments that this thread holds go with the submission being recorded."""
        for segment in self._unlaunched.pop(threading.get_ident(), ()):
            segment.value = self.value

    # -- submission --------------------------------------------------------------------------------------------

    def begin(self) -> Any:
        """Open a command buffer that starts after everything submitted before."""
        lib = self.api.lib
        self._leave_room()
        command = self.spare_command()
        self.check(lib.vkBeginCommandBuffer(command, self._begin_info), "vkBeginCommandBuffer")
        lib.vkCmdPipelineBarrier2(command, self.barrier)
        self.level += 1
        self.bound = None
        self.command = command
        return command

    def _leave_room(self) -> None:
        """Wait if too much is under way, since that holds memory and makes Ctrl-C slow."""
        if len(self._in_flight) >= _IN_FLIGHT:
            self.wait(self._in_flight[0][0])
        if self._in_flight and self._in_flight[0][0] > self.completed:
            self.progress()
        while self._in_flight and self._in_flight[0][0] <= self.completed:
            command = self._in_flight.popleft()[1]
            if command is not None:
                self._spare.append(command)

    def spare_command(self) -> Any:
        """Return a command buffer that nothing uses any more."""
        while self.retired and self.retired[0][0] <= self.completed:
            self._spare.append(self.retired.popleft()[1])
        if self._spare:
            return self._spare.pop()
        api = self.api
        info = api.struct(
            "VkCommandBufferAllocateInfo", 40, commandPool=self._pool, level=0, commandBufferCount=1
        )
        return api.made("vkAllocateCommandBuffers", "VkCommandBuffer", self.device.handle, info)

    def flush(self) -> int:
        """Submit what has been recorded; returns the number of the last submission."""
        with self.lock:
            self.check_usable()
            return self.value - 1 if self.command is None else self._submit(None, [])

    def run(self, command: Any, names: list[str], handles: Sequence[Allocation]) -> int:
        """Submit a prepared command buffer after everything recorded so far; returns its submission's number."""
        with self.lock:
            self.check_usable()
            if self.command is None:
                self._leave_room()
            value = self.value
            for handle in handles:
                handle.used = value
            return self._submit(command, names)

    def _submit(self, prepared: Any, names: list[str]) -> int:
        """Submit the open command buffer, if there is one, and a prepared one, if there is one."""
        lib, command, count = self.api.lib, self.command, 0
        if command is not None:
            if prepared is None:
                lib.vkCmdPipelineBarrier2(command, self.to_host)
            self.check(lib.vkEndCommandBuffer(command), "vkEndCommandBuffer")
            self._command_info[0].commandBuffer = command
            count = 1
        if prepared is not None:
            self._command_info[count].commandBuffer = prepared
            count += 1
        self._submit_info.commandBufferInfoCount = count
        self._signal_info.value = self.value
        result = self._submit_call(self.device.queue, 1, self._submit_info, self._no_fence)
        self.check(result, "vkQueueSubmit2")
        self._in_flight.append((self.value, command, self.recorded + names))
        self.command, self.recorded, self.touched = None, [], 0
        self.value += 1
        return self.value - 1

    def progress(self) -> int:
        """Ask the device how far it is; returns the last submission that has run."""
        out = self.api.ffi.new("uint64_t *")
        result = self.api.lib.vkGetSemaphoreCounterValue(self.device.handle, self._semaphore, out)
        self.check(result, "vkGetSemaphoreCounterValue")
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
        api = self.api
        semaphores = api.array("VkSemaphore", [self._semaphore])
        values = api.array("uint64_t", [value])
        info = api.struct(
            "VkSemaphoreWaitInfo", 1000207004, semaphoreCount=1, pSemaphores=semaphores, pValues=values
        )
        while True:
            result = api.lib.vkWaitSemaphores(self.device.handle, info, _WAIT_NANOSECONDS)
            if result != 2:  # a timeout
                self.check(result, "vkWaitSemaphores")
                break
        self.completed = max(self.completed, value)

    def synchronize(self) -> None:
        """Wait until everything recorded so far has run."""
        self.wait(self.flush())

    def destroy(self) -> None:
        """Destroy command buffers and semaphore; nothing may be running."""
        self._temporaries.clear()
        api, device = self.api, self.device
        api.lib.vkDestroyCommandPool(device.handle, self._pool, api.null)
        api.lib.vkDestroySemaphore(device.handle, self._semaphore, api.null)
