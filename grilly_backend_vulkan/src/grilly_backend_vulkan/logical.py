"""The open device: `LogicalDevice` owns the ``VkDevice``, its queue and its choice of memory types."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from grilly_backend_vulkan import vkapi
from grilly_backend_vulkan.facts import DeviceQuery
from grilly_core.errors import DeviceError

__all__ = ["Block", "LogicalDevice", "MemoryKind"]

_DEVICE_LOCAL: Final = 1
_VISIBLE: Final = 2 | 4  # host-visible and coherent
_CACHED: Final = 8
_COMPUTE_QUEUE: Final = 2
_USAGE: Final = 0x1 | 0x2 | 0x20 | 0x20000  # copied from and to, storage, device address
_WITH_ADDRESS: Final = 2


@dataclass(frozen=True, slots=True)
class MemoryKind:
    """A memory type and what the host may do with it.

    Attributes
    ----------
    index, heap : int
    mapped : bool
        Whether the host writes to it directly.
    cached : bool
        Whether the host may also read it at full speed.
    """

    index: int
    heap: int
    mapped: bool
    cached: bool


class LogicalDevice:
    """An open device.

    Attributes
    ----------
    api : Api
    handle, queue
        ``VkDevice`` and ``VkQueue``.
    family : int
        Queue family.
    facts : Facts
    main, upload, readback : MemoryKind
        Memory for tensors, for staging to the device, and for staging from it.
    """

    def __init__(self, query: DeviceQuery) -> None:
        self.api = query.api
        self.facts = query.facts
        self._query = query
        self.family = self._queue_family()
        self.handle = self._create()
        queue = self.api.ffi.new("VkQueue *")
        self.api.lib.vkGetDeviceQueue(self.handle, self.family, 0, queue)
        self.queue = queue[0]
        self.main, self.upload, self.readback = self._choose_memory()

    def __str__(self) -> str:
        return self.facts.name

    def _queue_family(self) -> int:
        api = self.api
        families = api.listed(
            "vkGetPhysicalDeviceQueueFamilyProperties", "VkQueueFamilyProperties", self._query.physical
        )
        for index, family in enumerate(families):
            if family.queueFlags & _COMPUTE_QUEUE:
                return index
        raise DeviceError(f"{self.facts.name} cannot be used by grilly: it has no queue for compute.")

    def _create(self) -> Any:
        api = self.api
        priorities = api.array("float", [1.0])
        queue = api.struct(
            "VkDeviceQueueCreateInfo",
            2,
            queueFamilyIndex=self.family,
            queueCount=1,
            pQueuePriorities=priorities,
        )
        names, held = api.names(self._query.extensions)
        info = api.struct(
            "VkDeviceCreateInfo", 3, pNext=self._query.features, queueCreateInfoCount=1, pQueueCreateInfos=queue,
            enabledExtensionCount=len(held), ppEnabledExtensionNames=names,
        )  # fmt: skip
        return api.made("vkCreateDevice", "VkDevice", self._query.physical, info, api.null)

    # -- memory ------------------------------------------------------------------------------------------------

    def _choose_memory(self) -> tuple[MemoryKind, MemoryKind, MemoryKind]:
        """Choose types; main memory is host-visible only if (nearly) all of the device's memory is."""
        hidden = self._query.hidden
        main = self._find(_DEVICE_LOCAL) or self._find(0)
        mapped = self._find(_DEVICE_LOCAL | _VISIBLE | _CACHED) or self._find(_DEVICE_LOCAL | _VISIBLE)
        upload = self._find(_VISIBLE, avoid=_DEVICE_LOCAL | _CACHED) or self._find(_VISIBLE)
        readback = self._find(_VISIBLE | _CACHED) or upload
        assert (
            main is not None and upload is not None and readback is not None
        )  # guaranteed by the specification
        if mapped and "host_visible" not in hidden and 10 * self._heap(mapped) >= 9 * self.facts.memory:
            cached = mapped.cached and "host_cached" not in hidden
            main = MemoryKind(mapped.index, mapped.heap, True, cached)
        else:
            main = MemoryKind(main.index, main.heap, False, False)
        return main, upload, readback

    def _find(self, need: int, avoid: int = 0) -> MemoryKind | None:
        found = self._query.memory
        for i in range(found.memoryTypeCount):
            kind = found.memoryTypes[i]
            flags = kind.propertyFlags
            if (
                flags & need == need and not flags & avoid and flags < 0x10
            ):  # not lazy, protected or vendor types
                return MemoryKind(i, kind.heapIndex, bool(flags & 2), bool(flags & _CACHED))
        return None

    def _heap(self, kind: MemoryKind) -> int:
        return int(self._query.memory.memoryHeaps[kind.heap].size)

    def capacity(self, kind: MemoryKind) -> int:
        """Return the bytes of the heap behind a memory kind."""
        return self._heap(kind)

    def available(self, kind: MemoryKind) -> int | None:
        """Return what the driver would still give this process, or None where it does not say."""
        if not self.facts.memory_budget:
            return None
        api = self.api
        budget = api.struct("VkPhysicalDeviceMemoryBudgetPropertiesEXT", 1000237000)
        top = api.struct("VkPhysicalDeviceMemoryProperties2", 1000059006, pNext=budget)
        api.lib.vkGetPhysicalDeviceMemoryProperties2(self._query.physical, top)
        return max(0, int(budget.heapBudget[kind.heap]) - int(budget.heapUsage[kind.heap]))

    def wait_idle(self) -> None:
        """Wait until the device has nothing to do."""
        self.api.check(self.api.lib.vkDeviceWaitIdle(self.handle), "vkDeviceWaitIdle")

    def destroy(self) -> None:
        """Destroy the device; everything made from it must be gone."""
        self.api.lib.vkDestroyDevice(self.handle, self.api.null)


class Block:
    """One allocation of the driver, with one buffer over all of it.

    Attributes
    ----------
    size : int
    buffer
        The ``VkBuffer``.
    address : int
        Device address of the first byte.
    array : ndarray of uint8 or None
        The same memory as the host sees it, where it does.

    Raises
    ------
    VulkanError
        If the driver has no memory left, among other reasons.
    """

    __slots__ = ("_device", "_memory", "address", "array", "buffer", "size")

    def __init__(self, device: LogicalDevice, kind: MemoryKind, size: int) -> None:
        api = device.api
        self._device = device
        self.size = size
        self.array: NDArray[np.uint8] | None = None
        self._memory: Any = None
        info = api.struct("VkBufferCreateInfo", 12, size=size, usage=_USAGE)
        self.buffer: Any = api.made("vkCreateBuffer", "VkBuffer", device.handle, info, api.null)
        try:
            self._bind(kind)
        except BaseException:
            self.destroy()
            raise

    def _bind(self, kind: MemoryKind) -> None:
        device, api = self._device, self._device.api
        needs = api.struct("VkMemoryRequirements")
        api.lib.vkGetBufferMemoryRequirements(device.handle, self.buffer, needs)
        if not needs.memoryTypeBits >> kind.index & 1:
            raise DeviceError(f"{device.facts.name}: memory type {kind.index} does not take storage buffers.")
        flags = api.struct("VkMemoryAllocateFlagsInfo", 1000060000, flags=_WITH_ADDRESS)
        info = api.struct(
            "VkMemoryAllocateInfo", 5, pNext=flags, allocationSize=needs.size, memoryTypeIndex=kind.index
        )
        self._memory = api.made("vkAllocateMemory", "VkDeviceMemory", device.handle, info, api.null)
        api.check(
            api.lib.vkBindBufferMemory(device.handle, self.buffer, self._memory, 0), "vkBindBufferMemory"
        )
        asked = api.struct("VkBufferDeviceAddressInfo", 1000244001, buffer=self.buffer)
        self.address = int(api.lib.vkGetBufferDeviceAddress(device.handle, asked))
        if kind.mapped:
            pointer = api.ffi.new("void **")
            call = api.lib.vkMapMemory(device.handle, self._memory, 0, vkapi.WHOLE_SIZE, 0, pointer)
            api.check(call, "vkMapMemory")
            self.array = np.frombuffer(api.ffi.buffer(pointer[0], self.size), np.uint8)

    def destroy(self) -> None:
        """Give the memory back to the driver."""
        device, api = self._device, self._device.api
        self.array = None
        api.lib.vkDestroyBuffer(device.handle, self.buffer, api.null)
        if self._memory is not None:
            api.lib.vkFreeMemory(device.handle, self._memory, api.null)  # unmaps it, too
            self._memory = None
