"""The Vulkan backend of grilly: compute shaders on GPUs of any vendor.

Importing it is cheap: the binding, the loader and the driver are loaded when devices are listed or opened.
"""

from __future__ import annotations

import atexit
import os
import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from grilly_backend_vulkan.device import VulkanDevice
    from grilly_backend_vulkan.runtime import VulkanRuntime

__all__ = ["VulkanBackend", "backend", "register_shader"]


class VulkanBackend:
    """The object behind the entry point ``vulkan``.

    Examples
    --------
    >>> from grilly_backend_vulkan import backend
    >>> backend.name
    'vulkan'
    """

    name = "vulkan"
    grilly_abi = 1

    def __init__(self) -> None:
        self._open: list[tuple[Any, VulkanRuntime]] = []
        self._lock = threading.RLock()
        self._forked = False
        self._watched = False

    def devices(self) -> list[VulkanDevice]:
        """Return the devices, best first, without opening one.

        Raises
        ------
        DeviceError
            If there is no Vulkan loader or driver; the message says what to install.
        """
        from grilly_backend_vulkan import device

        self._check_fork()
        self._watch()
        return device.listed()

    def open(self, index: int = 0) -> VulkanRuntime:
        """Return the runtime of a device: the same one at every call, a new one after the device was lost.

        Raises
        ------
        DeviceError
            If there is no such device, it lacks what the backend needs, or this process was forked from one that
            used Vulkan.
        """
        from grilly_core.errors import DeviceError

        known = self.devices()
        if not 0 <= index < len(known):
            choices = "; ".join(f"vulkan:{i} is {d.name} ({d.kind})" for i, d in enumerate(known))
            raise DeviceError(f"vulkan:{index} does not exist; {choices}.")
        chosen = known[index]
        with self._lock:
            for handle, runtime in list(self._open):
                if handle == chosen.handle:
                    if runtime.usable:
                        return runtime
                    runtime.close()
                    self._open.remove((handle, runtime))
            from grilly_backend_vulkan.runtime import VulkanRuntime

            made = VulkanRuntime(chosen)
            self._open.append((chosen.handle, made))
            return made

    def close(self) -> None:
        """Close every device and the instance; what is left of their tensors cannot be used."""
        from grilly_backend_vulkan import instance

        with self._lock:
            while self._open:
                self._open.pop()[1].close()
            instance.release()

    # -- forks and the end of the process ----------------------------------------------------------------------

    def _watch(self) -> None:
        with self._lock:
            if self._watched:
                return
            self._watched = True
            atexit.register(self._at_exit)
            if hasattr(os, "register_at_fork"):
                os.register_at_fork(after_in_child=self._after_fork)

    def _at_exit(self) -> None:
        if not self._forked:
            self.close()

    def _after_fork(self) -> None:
        """In a forked child the driver's threads are gone: refuse what would hang or crash."""
        from grilly_backend_vulkan import instance

        if not instance.loaded():
            return
        from grilly_core.errors import DeviceError

        self._forked = True
        self._lock = threading.RLock()
        for _, runtime in self._open:
            runtime.stream.lock = threading.RLock()
            runtime.stream.fail(DeviceError, _FORKED)

    def _check_fork(self) -> None:
        if self._forked:
            from grilly_core.errors import DeviceError

            raise DeviceError(_FORKED)


_FORKED = (
    "vulkan: this process was forked from one that used Vulkan, and a driver does not survive a fork. Use the CPU "
    "here, or start the process with multiprocessing.get_context('spawn')."
)


def register_shader(name: str, *, spirv: bytes | None = None, glsl: str | None = None) -> str:
    """Make a compute shader available to kernels; see `grilly_backend_vulkan.shaders.register_shader`."""
    from grilly_backend_vulkan import shaders

    return shaders.register_shader(name, spirv=spirv, glsl=glsl)


backend = VulkanBackend()
