"""The CPU backend of grilly: NumPy kernels for everything, Numba kernels where NumPy is slow.

Importing it is cheap; NumPy and the kernels are loaded by `CpuBackend.open`.
"""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from grilly_backend_cpu.runtime import CpuRuntime

__all__ = ["CpuBackend", "CpuDevice", "backend"]


@dataclass(frozen=True, slots=True)
class CpuDevice:
    """What is known of the CPU without opening it.

    Attributes
    ----------
    name : str
    memory : int
        Physical memory in bytes; 0 where the system does not say.
    kind : str
    """

    name: str
    memory: int
    kind: str = "cpu"


class CpuBackend:
    """The object behind the entry point ``cpu``.

    Examples
    --------
    >>> from grilly_backend_cpu import backend
    >>> backend.devices()[0].kind
    'cpu'
    """

    name = "cpu"
    grilly_abi = 1

    def __init__(self) -> None:
        self._runtime: CpuRuntime | None = None
        self._lock = threading.Lock()

    def devices(self) -> list[CpuDevice]:
        """Return the one device there is."""
        return [CpuDevice(_processor_name(), _physical_memory())]

    def open(self, index: int = 0) -> CpuRuntime:
        """Return the runtime, the same one at every call.

        Raises
        ------
        IndexError
            If `index` is not 0.
        """
        if index != 0:
            raise IndexError(f"cpu:{index} does not exist: the CPU is one device, cpu:0.")
        with self._lock:
            if self._runtime is None:
                from grilly_backend_cpu.runtime import CpuRuntime

                self._runtime = CpuRuntime()
            return self._runtime


def _processor_name() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as lines:
            for line in lines:
                if line.startswith("model name"):
                    return line.partition(":")[2].strip()
    except OSError:
        pass
    import platform

    return platform.processor() or platform.machine() or "CPU"


def _physical_memory() -> int:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return 0


backend = CpuBackend()
