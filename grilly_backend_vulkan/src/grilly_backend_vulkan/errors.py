"""Errors of this backend."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from grilly_core.errors import DeviceError

__all__ = ["REOPEN", "DeviceLostError"]

REOPEN: Final = (
    "All tensors on it are gone. Continue on the CPU, or call grilly_core.device.close_all() and make the tensors anew "
    "to open the device again; if it happens again, use smaller batches or update the driver."
)


class DeviceLostError(DeviceError):
    """The driver has given the device up: a watchdog, a fault in a shader, or hardware trouble.

    Everything on the device is gone, and every later operation on it raises this error again.
    """

    @staticmethod
    def describe(device: str, call: str, pending: Sequence[str]) -> str:
        """Return the message, with the kernels that had not finished."""
        names = list(dict.fromkeys(pending))
        shown = ", ".join(names[-4:]) or "none"
        more = f" and {len(names) - 4} others" if len(names) > 4 else ""
        return f"{device} was lost ({call}); unfinished kernels, newest last: {shown}{more}. {REOPEN}"
