"""The stream: launches recorded into an open command buffer, submitted in batches, and waited for.

Everything that is recorded runs as if in order. Barriers cut the launches into levels; each allocation knows the
level of its last read and write, and a launch that meets the present level in a dangerous way (a read of what was
written, a write of what was read or written) puts a barrier before itself. That takes two comparisons per operand
where exact byte ranges took a search, at the price of a needless barrier between disjoint parts of one allocation.
What becomes of the command buffers is told in `submissions`.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from grilly_backend_vulkan.extents import extent
from grilly_backend_vulkan.logical import LogicalDevice
from grilly_backend_vulkan.submissions import Submissions
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
_STAGE_COMPUTE: Final = 0x20
_LAUNCHES: Final = 32  # per submission: more gain little, and the device should not wait
#: Bytes touched per submission, so that none runs for long: a discrete device has the bandwidth for more.
_BYTES: Final = 256 << 20
_BYTES_DISCRETE: Final = 4 << 30
_HELD_BYTES: Final = 32 << 20  # of a temporary that is kept between launches

#: One end of a copy: buffer, first byte, and the allocation if other work may touch it.
End = tuple[Any, int, "Allocation | None"]


class Stream(Submissions):
    """What kernels record into.

    Attributes
    ----------
    runtime : VulkanRuntime
    launches : int
        Dispatches recorded so far.
    barriers : int
        Barriers recorded because of hazards.
    preparing : Preparation or None
        Where launches go while a program is prepared; whoever prepares one holds the lock.
    """

    def __init__(self, runtime: VulkanRuntime, device: LogicalDevice, layout: Any) -> None:
        super().__init__(device)
        self.runtime = runtime
        self.launches = 0
        self.barriers = 0
        self.layout = layout
        self._max_groups = device.facts.max_groups
        self._bytes = _BYTES_DISCRETE if device.facts.kind == "discrete" else _BYTES
        self.preparing: Preparation | None = None
        self._unlaunched: dict[int, list[Segment]] = {}
        self._temporaries: dict[int, View] = {}  # by their number in a kernel; large ones are not kept
        self._region = self.api.struct("VkBufferCopy")
        # What kernels use of the runtime; they are registered once for all devices, and the stream says which one.
        self.pipeline = runtime.pipeline
        self.address = runtime.address
        self.arguments = runtime.arguments
        self.scratch = runtime.scratch
        self.facts = runtime.facts

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

    def product(self, out: View, a: View, b: View, precision: str = "highest") -> None:
        """Record ``out = a @ b`` of two matrices of one type, by the fastest kernel; `out` is packed.

        Parameters
        ----------
        out, a, b : View
            Of two axes; `a` and `b` may have any strides.
        precision : str
            Of f32, as in ``grilly.matmul_precision``.
        """
        from grilly_backend_vulkan.kernels import matmul  # kernels record into streams

        matmul.product(self, out, a, b, precision)

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
        held = self._temporaries.get(i)
        if held is None or held.buffer.nbytes < nbytes:
            held = self._temporaries[i] = self.scratch(nbytes)
        return held

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

    def destroy(self) -> None:
        """Destroy command buffers and semaphore; nothing may be running."""
        self._temporaries.clear()
        super().destroy()
