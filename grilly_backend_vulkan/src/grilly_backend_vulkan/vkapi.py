"""The Vulkan API: the one file that touches the ``vulkan`` binding, so that it can be replaced.

Functions and structures are the raw ones of cffi; the wrappers of the binding convert every argument, which costs
more than the calls themselves. Nothing is loaded before `load` is called.
"""

from __future__ import annotations

import functools
from typing import Any, Final

from grilly_core.errors import DeviceError

__all__ = ["DEVICE_LOST", "OUT_OF_MEMORY", "Api", "VulkanError", "load", "version_text"]

API_1_3: Final = (1 << 22) | (3 << 12)
WHOLE_SIZE: Final = 2**64 - 1

DEVICE_LOST: Final = -4
OUT_OF_MEMORY: Final = (-1, -2)
_RESULTS: Final = {
    1: "not ready", 2: "timeout", 5: "incomplete", -1: "out of host memory", -2: "out of device memory",
    -3: "initialisation failed", -4: "device lost", -5: "memory map failed", -6: "layer not present",
    -7: "extension not present", -8: "feature not present", -9: "incompatible driver", -10: "too many objects",
    -11: "format not supported", -13: "unknown error", -1000069000: "out of pool memory",
}  # fmt: skip

_NO_BINDING: Final = (
    "vulkan: the Python package 'vulkan' (with cffi) cannot be imported ({error}); install it with "
    "`pip install 'vulkan>=1.3.275,<1.4'`."
)
_NO_LOADER: Final = (
    "vulkan: the Vulkan loader (libvulkan.so.1, vulkan-1.dll or libvulkan.dylib) is not on this machine ({error}); "
    "install it: package libvulkan1 on Debian and Ubuntu, vulkan-loader on Fedora, the graphics driver on Windows, "
    "the Vulkan SDK on macOS."
)
_OLD_LOADER: Final = (
    "vulkan: the Vulkan loader is older than 1.3 (it lacks {name}); update it: package libvulkan1 on Debian and "
    "Ubuntu, vulkan-loader on Fedora."
)


class VulkanError(DeviceError):
    """A call into the driver failed.

    Attributes
    ----------
    result : int
        The ``VkResult``.
    """

    def __init__(self, call: str, result: int) -> None:
        super().__init__(f"vulkan: {call} failed: {_RESULTS.get(result, 'result')} ({result}).")
        self.result = result


class Api:
    """The functions of the loader and the structures they take.

    Attributes
    ----------
    lib, ffi
        cffi's library and types.
    null
        The null pointer.
    """

    def __init__(self, lib: Any, ffi: Any) -> None:
        self.lib = lib
        self.ffi = ffi
        self.null = ffi.NULL

    def struct(self, kind: str, s_type: int | None = None, **fields: Any) -> Any:
        """Return a new structure.

        Chained structures may be given as they are; pointers do not keep what they point to alive, so the
        caller does.
        """
        made = self.ffi.new(f"{kind} *")
        if s_type is not None:
            made.sType = s_type
        for name, value in fields.items():
            setattr(made, name, self.ffi.cast("void *", value) if name == "pNext" else value)
        return made

    def array(self, kind: str, values: Any) -> Any:
        """Return a new array of `kind` from a list of values, or of a length."""
        return self.ffi.new(f"{kind}[]", values)

    def check(self, result: int, call: str) -> None:
        """Raise `VulkanError` unless `result` is success."""
        if result:
            raise VulkanError(call, int(result))

    def made(self, call: str, kind: str, *arguments: Any) -> Any:
        """Call a function whose last argument returns a handle of `kind`, and return the handle."""
        out = self.ffi.new(f"{kind} *")
        self.check(getattr(self.lib, call)(*arguments, out), call)
        return out[0]

    def listed(self, call: str, kind: str, *arguments: Any, s_type: int | None = None) -> Any:
        """Call a function that fills an array after having said how long it is."""
        count = self.ffi.new("uint32_t *")
        function = getattr(self.lib, call)
        function(*arguments, count, self.null)
        values = self.ffi.new(f"{kind}[]", count[0])
        if s_type is not None:
            for value in values:
                value.sType = s_type
        function(*arguments, count, values)
        return values

    def text(self, chars: Any) -> str:
        """Return a C string as text."""
        return self.ffi.string(chars).decode("utf-8", "replace")  # type: ignore[no-any-return]

    def names(self, words: list[str]) -> tuple[Any, list[Any]]:
        """Return a ``char *[]`` of `words`, and the strings it points to, which must be kept alive."""
        held = [self.ffi.new("char[]", word.encode()) for word in words]
        return (self.ffi.new("char *[]", held) if held else self.null), held

    def instance_function(self, instance: Any, name: str) -> Any:
        """Return a function of an instance extension."""
        pointer = self.lib.vkGetInstanceProcAddr(instance, name.encode())
        return self.ffi.cast(f"PFN_{name}", pointer)


@functools.lru_cache(maxsize=1)
def load() -> Api:
    """Load the binding and the Vulkan loader, once; a failure is tried again at the next call.

    Raises
    ------
    DeviceError
        If one of them is missing or too old; the message says what to install.
    """
    try:
        from vulkan._vulkan import ffi, lib  # type: ignore[import-untyped]
    except ImportError as error:
        raise DeviceError(_NO_BINDING.format(error=error)) from error
    except OSError as error:
        raise DeviceError(_NO_LOADER.format(error=str(error).partition(".")[0])) from error
    for name in ("vkCmdPipelineBarrier2", "vkQueueSubmit2", "vkWaitSemaphores"):
        try:
            getattr(lib, name)
        except AttributeError as error:
            raise DeviceError(_OLD_LOADER.format(name=name)) from error
    return Api(lib, ffi)


def version_text(packed: int) -> str:
    """Return a packed Vulkan version as text.

    Examples
    --------
    >>> version_text((1 << 22) | (3 << 12) | 230)
    '1.3.230'
    """
    return f"{packed >> 22 & 0x7F}.{packed >> 12 & 0x3FF}.{packed & 0xFFF}"
