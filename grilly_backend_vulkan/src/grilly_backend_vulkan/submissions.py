"""Command buffers on their way: opened, submitted in order, and waited for by one timeline semaphore.

Submission n signals the value n. Every command buffer begins with a barrier, so one starts after all before it.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from grilly_backend_vulkan import vkapi
from grilly_backend_vulkan.errors import REOPEN, DeviceLostError
from grilly_core.errors import DeviceError

if TYPE_CHECKING:
    from grilly_backend_vulkan.logical import LogicalDevice
    from grilly_backend_vulkan.memory import Allocation

__all__ = ["Submissions"]

_COMPUTE: Final = 0x800
_TRANSFER: Final = 0x1000
_HOST: Final = 0x4000
_SHADER_READ, _SHADER_WRITE = 0x20, 0x40
_TRANSFER_READ, _TRANSFER_WRITE, _HOST_READ = 0x800, 0x1000, 0x2000
_ALL_COMMANDS: Final = 0x10000
_IN_FLIGHT: Final = 32
_SPIN_SECONDS: Final = 50e-6
_WAIT_NANOSECONDS: Final = 100_000_000  # then look whether somebody pressed Ctrl-C


class Submissions:
    """What is recorded into and waited for; `Stream` adds what is recorded.

    Attributes
    ----------
    value : int
        The submission that is being recorded.
    completed : int
        The last submission known to have run.
    level : int
        Grows with every barrier.
    command : cdata or None
        The open command buffer.
    bound : Pipeline or None
        The pipeline bound in it.
    recorded : list of str
        Names of what it holds.
    touched : int
        Bytes that this reads and writes, about.
    retired : deque
        Command buffers of dead programs, with their last submission.
    """

    def __init__(self, device: LogicalDevice) -> None:
        self.device = device
        self.api = device.api
        self.lock = threading.RLock()
        self.value = 1
        self.completed = 0
        self.level = 1
        self.failure: tuple[type[DeviceError], str] | None = None
        self.command: Any = None
        self.bound: Any = None
        self.recorded: list[str] = []
        self.touched = 0
        self.retired: deque[tuple[int, Any]] = deque()
        self._spare: list[Any] = []
        self._in_flight: deque[tuple[int, Any, list[str]]] = deque()
        self._spin = 0.0 if device.facts.software else _SPIN_SECONDS
        self._submit_call = self.api.lib.vkQueueSubmit2
        self._make_objects()
        self._make_structures()

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

    # -- submission -------------------------------------------------------------------------------------------------

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
        api, device = self.api, self.device
        api.lib.vkDestroyCommandPool(device.handle, self._pool, api.null)
        api.lib.vkDestroySemaphore(device.handle, self._semaphore, api.null)
