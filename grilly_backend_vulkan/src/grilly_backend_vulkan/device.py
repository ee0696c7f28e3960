"""Which devices there are, in which order, and which one a user means. Nothing here opens a device."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Any, Final

from grilly_backend_vulkan import instance, vkapi
from grilly_core.errors import DeviceError

__all__ = ["VulkanDevice", "arrange", "listed"]

_KINDS: Final = {1: "integrated", 2: "discrete", 3: "virtual", 4: "software"}
_RANK: Final = {"discrete": 0, "integrated": 1, "virtual": 2, "other": 3, "software": 4}
_DEVICE_LOCAL: Final = 1


@dataclass(frozen=True, slots=True)
class VulkanDevice:
    """What is known of a device without opening it.

    Attributes
    ----------
    name : str
        As the driver says it.
    kind : {"discrete", "integrated", "virtual", "other", "software"}
        Software devices run on the CPU; they serve tests and are never chosen by themselves.
    memory : int
        Bytes of the largest device-local heap.
    api_version : str
    note : str
        Why the device is special, if it is.
    handle
        The ``VkPhysicalDevice``.
    """

    name: str
    kind: str
    memory: int
    api_version: str
    note: str = ""
    handle: Any = field(default=None, repr=False, compare=False)


def listed() -> list[VulkanDevice]:
    """Return the devices, best first: ``vulkan:0`` is the first of them.

    ``GRILLY_VULKAN_DEVICE`` (an index in the usual order, or part of a name) puts the devices it names in front.

    Raises
    ------
    DeviceError
        If there is no loader or no driver, or the variable names no device.
    """
    made = instance.get()
    api = made.api
    handles = api.listed("vkEnumeratePhysicalDevices", "VkPhysicalDevice", made.handle)
    if not len(handles):
        raise DeviceError(instance.no_driver("it lists no device"))
    return arrange([_described(api, h) for h in handles], os.environ.get("GRILLY_VULKAN_DEVICE", ""))


def _described(api: vkapi.Api, handle: Any) -> VulkanDevice:
    found = api.struct("VkPhysicalDeviceProperties")
    api.lib.vkGetPhysicalDeviceProperties(handle, found)
    memory = api.struct("VkPhysicalDeviceMemoryProperties")
    api.lib.vkGetPhysicalDeviceMemoryProperties(handle, memory)
    heaps = [memory.memoryHeaps[i] for i in range(memory.memoryHeapCount)]
    kind = _KINDS.get(int(found.deviceType), "other")
    return VulkanDevice(
        name=api.text(found.deviceName),
        kind=kind,
        memory=max((int(h.size) for h in heaps if h.flags & _DEVICE_LOCAL), default=0),
        api_version=vkapi.version_text(found.apiVersion),
        note="software device: runs on the CPU, for tests" if kind == "software" else "",
        handle=handle,
    )


def arrange(devices: list[VulkanDevice], wanted: str = "") -> list[VulkanDevice]:
    """Return `devices` in order of preference, those that `wanted` names first.

    Parameters
    ----------
    devices : list of VulkanDevice
    wanted : str
        An index into the order of preference, or part of a name in any case; empty for no wish.

    Examples
    --------
    >>> cpu = VulkanDevice("llvmpipe", "software", 2**31, "1.3.0")
    >>> gpu = VulkanDevice("Big GPU", "discrete", 2**37, "1.4.0")
    >>> [d.name for d in arrange([cpu, gpu])], [d.name for d in arrange([cpu, gpu], "pipe")]
    (['Big GPU', 'llvmpipe'], ['llvmpipe', 'Big GPU'])
    """
    ordered = sorted(devices, key=lambda d: (_RANK[d.kind], -d.memory))
    wanted = wanted.strip()
    if not wanted:
        return ordered
    if wanted.isdigit():
        chosen = ordered[int(wanted) : int(wanted) + 1]
    else:
        chosen = [d for d in ordered if wanted.lower() in d.name.lower()]
    if not chosen:
        choices = "; ".join(f"{i}: {d.name} ({d.kind})" for i, d in enumerate(ordered))
        raise DeviceError(f"GRILLY_VULKAN_DEVICE={wanted!r} names no device; there are {choices}.")
    return [
        *chosen,
        *(d for d in ordered if all(d is not c for c in chosen)),
    ]  # twins are equal, not the same
