"""Prepared programs: a list of launches recorded once into a command buffer of its own, and submitted many times."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from grilly_core.buffer import View
from grilly_core.hazards import Access, dependency_levels

if TYPE_CHECKING:
    from grilly_backend_vulkan.memory import Allocation
    from grilly_backend_vulkan.pipelines import Pipeline
    from grilly_backend_vulkan.relocatable import Template
    from grilly_backend_vulkan.stream import Stream
    from grilly_backend_vulkan.timestamps import Timer

__all__ = ["Preparation", "Prepared"]

_STAGE_COMPUTE: Final = 0x20
_SIMULTANEOUS: Final = 4  # submitted again while it runs

Shown = list[tuple["Allocation", int, int]]


class Preparation:
    """Collects launches in place of the stream.

    Attributes
    ----------
    launches : list
        Of (pipeline, groups, push constants).
    accesses : list
        Of (reads, writes) as byte ranges.
    held : list of View
        Temporaries and arguments, which live as long as the program.
    marks : list of (Timer, int)
        Made so far; a program that has some runs its launches in order.
    """

    def __init__(self) -> None:
        self.launches: list[tuple[Pipeline, tuple[int, int, int], bytes]] = []
        self.accesses: list[tuple[list[Access], list[Access]]] = []
        self.handles: dict[int, Allocation] = {}
        self.held: list[View] = []
        self.marks: list[tuple[Timer, int]] = []
        self._places: list[int] = []
        self._data: list[tuple[View, bytes]] = []

    def keep(self, view: View) -> View:
        """Keep a temporary; memory of a program must not be handed out again."""
        self.held.append(view)
        return view

    def store(self, view: View, data: bytes) -> None:
        """Have arguments written once the launches have been collected."""
        self._data.append((self.keep(view), data))

    def levels(self) -> list[int]:
        """Return the level of each launch."""
        if self.marks:  # one after another, with room for the marks between
            return [i + place for i, place in enumerate(self._places)]
        return dependency_levels(self.accesses)

    def marks_before(self, launch: int) -> list[tuple[Timer, int]]:
        """Return the marks between a launch and the one before it; `launch` may be one past the last."""
        places = [0, *self._places, len(self.marks)]
        return self.marks[places[launch] : places[launch + 1]]

    def write_data(self) -> None:
        """Write the arguments."""
        for view, data in self._data:
            view.buffer.context.copy_in(view.buffer.handle, 0, data)

    def add(
        self, pipeline: Pipeline, groups: tuple[int, int, int], push: bytes, reads: Shown, writes: Shown
    ) -> None:
        """Note one launch, whose operands have been checked."""
        self.launches.append((pipeline, groups, bytes(push)))
        self._places.append(len(self.marks))
        self.accesses.append((self._ranges(reads), self._ranges(writes)))

    def add_steps(self, template: Template, handles: list[Allocation], bases: list[int]) -> None:
        """Note the launches of a template on operands at `bases`."""
        count = len(template.ranges)
        shown: Shown = [
            (handle, base - handle.address + low, base - handle.address + high)
            for handle, base, (low, high, _) in zip(handles, bases, template.ranges, strict=False)
        ]
        shown += [(handle, 0, handle.nbytes) for handle in handles[count:]]
        for step in template.steps:
            for packer, place, sources in step.fills:
                packer.pack_into(step.memory, place, *[bases[i] + d for i, d in sources])
            reads, writes = [shown[i] for i in step.reads], [shown[i] for i in step.writes]
            self.add(step.pipeline, step.groups, bytes(step.memory), reads, writes)

    def _ranges(self, shown: Shown) -> list[Access]:
        for handle, _, _ in shown:
            self.handles[handle.address] = handle
        return [(handle.address, low, high) for handle, low, high in shown]


class Prepared:
    """A program that the device has been told once.

    Its launches are sorted into dependency levels with one barrier between two levels, since a barrier costs the device
    as much as a small kernel. The memory it works on is fixed, and kept by whoever made it.

    Attributes
    ----------
    launches, levels : int
    """

    def __init__(self, stream: Stream, record: Callable[[], None]) -> None:
        self._stream = stream
        found = Preparation()
        with stream.lock:
            stream.check_usable()
            stream.preparing = found
            try:
                record()
            finally:
                stream.preparing = None
            found.write_data()
            self._held = found.held
            self._handles = list(found.handles.values())
            self._last = stream.value - 1
            self._command = stream.spare_command()
            levels = found.levels()
            self.launches, self.levels = len(levels), max(levels, default=-1) + 1
            order = sorted(range(len(levels)), key=levels.__getitem__)
            self._names = [found.launches[i][0].name for i in order]
            self._write(found, order, levels)

    def _write(self, found: Preparation, order: list[int], levels: list[int]) -> None:
        stream, command = self._stream, self._command
        api, lib, ffi = stream.api, stream.api.lib, stream.api.ffi
        begin = api.struct("VkCommandBufferBeginInfo", 42, flags=_SIMULTANEOUS)
        stream.check(lib.vkBeginCommandBuffer(command, begin), "vkBeginCommandBuffer")
        level, bound = -1, None
        for i in order:
            pipeline, groups, push = found.launches[i]
            for timer, number in found.marks_before(i):
                timer.write(command, number)
            if levels[i] != level:
                lib.vkCmdPipelineBarrier2(command, stream.barrier)
                level = levels[i]
            if pipeline is not bound:
                lib.vkCmdBindPipeline(command, 1, pipeline.handle)
                bound = pipeline
            if push:
                lib.vkCmdPushConstants(
                    command, stream.layout, _STAGE_COMPUTE, 0, len(push), ffi.from_buffer(push)
                )
            lib.vkCmdDispatch(command, *groups)
        for timer, number in found.marks_before(len(order)):
            timer.write(command, number)
        if (
            stream.device.main.cached
        ):  # elsewhere the host reads through a copy, which has a barrier of its own
            lib.vkCmdPipelineBarrier2(command, stream.to_host)
        stream.check(lib.vkEndCommandBuffer(command), "vkEndCommandBuffer")

    def run(self) -> None:
        """Submit the program after everything launched so far."""
        self._last = self._stream.run(self._command, self._names, self._handles)

    def __del__(self) -> None:
        if hasattr(self, "_command"):
            self._stream.retired.append((self._last, self._command))
