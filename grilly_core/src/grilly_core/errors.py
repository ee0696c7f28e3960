"""The error tree: every error grilly raises on purpose derives from `GrillyError`.

Each class also derives from the built-in that Python users would catch, so ``except ValueError`` keeps
working for a wrong shape. A message says what was wrong, where, and what to do next.
"""

from __future__ import annotations

__all__ = [
    "AmbiguousPluginError",
    "AutogradError",
    "CaptureError",
    "DTypeError",
    "DataWorkerError",
    "DeviceError",
    "FallbackError",
    "FallbackWarning",
    "FileFormatError",
    "GrillyError",
    "MissingPluginError",
    "NoKernelError",
    "OutOfMemoryError",
    "PluginError",
    "PluginWarning",
    "RegistrationError",
    "ShapeError",
    "StateDictError",
    "WriteError",
]


class GrillyError(Exception):
    """Base of every error that grilly raises on purpose."""


class ShapeError(GrillyError, ValueError):
    """An argument has a shape that the operation cannot use."""


class DTypeError(GrillyError, TypeError):
    """An argument has a dtype that the operation cannot use."""


class DeviceError(GrillyError, RuntimeError):
    """A device is unknown, unavailable, closed, or two devices were mixed."""


class NoKernelError(GrillyError, NotImplementedError):
    """No kernel, body or fallback can run an op; the message lists what each step lacked."""


class FallbackError(GrillyError, RuntimeError):
    """An op would run on the CPU although the fallback policy is ``error``."""


class FallbackWarning(UserWarning):
    """An op ran on the CPU because its device has no kernel for it."""


class CaptureError(GrillyError, RuntimeError):
    """A step cannot be captured, or differs from the step that was recorded."""


class AutogradError(GrillyError, RuntimeError):
    """A gradient was asked for that does not exist."""


class WriteError(GrillyError, RuntimeError):
    """A write that would be lost or would break the tape: through a view, or to a leaf that requires grad."""


class OutOfMemoryError(GrillyError, MemoryError):
    """A device has no memory left for an allocation; the message says who holds what."""


class FileFormatError(GrillyError, ValueError):
    """A file is truncated, foreign, of another version, or would need code to be run to load it."""


class StateDictError(GrillyError, RuntimeError):
    """A state dict does not fit a module or an optimiser; nothing was loaded."""


class RegistrationError(GrillyError, ValueError):
    """An op, kernel or plugin declaration is incomplete or contradicts another one."""


class DataWorkerError(GrillyError, RuntimeError):
    """A data-loading worker raised; the original error is chained."""


class PluginError(GrillyError, RuntimeError):
    """A plugin is broken, has another ABI, or is not what its entry point claims."""


class AmbiguousPluginError(PluginError):
    """Two distributions claim one name with different targets."""


class MissingPluginError(GrillyError, ImportError):
    """A known name lives in a package that is not installed; the message says which one."""


class PluginWarning(UserWarning):
    """A plugin declares less than it should, such as no ABI."""
