"""`CpuRuntime`: the six methods of a device, and what kernels for the CPU may use besides."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from grilly_backend_cpu import jit, jit_setup
from grilly_backend_cpu.blocks import blocks
from grilly_backend_cpu.fast import streaming
from grilly_backend_cpu.memory import scratch
from grilly_backend_cpu.quiet import quietly

__all__ = ["CpuRuntime", "KernelRegistry"]


class KernelRegistry(Protocol):
    """Where kernels are declared; see `grilly_core.registry.KernelScope`."""

    def add(self, name: str, fn: Any, *, dtypes: Any, layout: str = ..., when: Any = ..., priority: int = ...,
            compute: Any = ...) -> None:  # fmt: skip
        """Declare one kernel."""


class CpuRuntime:
    """The CPU as a device whose memory is the host's.

    Attributes
    ----------
    host_mapped : bool
        True: handles are ``uint8`` arrays, and kernels see `View.array`.
    stream : None
        There is no queue; a kernel has run when it returns.
    njit, prange, split
        Numba, imported on first use; see `grilly_backend_cpu.jit`. With `has_numba` False they must not be called.
    stream_out, stream_end, least_streamed
        Compiled functions for writing large results past the caches, and the bytes from which on that pays; see
        `grilly_backend_cpu.fast.streaming`.
    quietly
        Wraps a NumPy kernel so that it gives no floating-point warnings.
    scratch
        Temporary memory of the calling thread.
    empty
        A new array, large ones in memory that is kept for reuse; see `grilly_backend_cpu.blocks`.

    Examples
    --------
    >>> from grilly_backend_cpu import backend
    >>> runtime = backend.open(0)
    >>> handle = runtime.alloc(4)
    >>> runtime.copy_in(handle, 0, memoryview(b"abcd"))
    >>> out = bytearray(2)
    >>> runtime.copy_out(handle, 1, memoryview(out))
    >>> bytes(out)
    b'bc'
    """

    host_mapped = True
    stream = None
    njit = staticmethod(jit.njit)
    prange = staticmethod(jit.prange)
    split = staticmethod(jit.split)
    stream_out = streaming.stream_out
    stream_end = streaming.stream_end
    least_streamed = streaming.LEAST_STREAMED
    quietly = staticmethod(quietly)
    scratch = staticmethod(scratch)
    empty = staticmethod(blocks.empty)

    @staticmethod
    def product(a: NDArray[Any], b: NDArray[Any], out: NDArray[Any]) -> None:
        """Write ``a @ b`` for two matrices of one type; `out` overlaps neither."""
        from grilly_backend_cpu.kernels import products  # which the package's other kernels come with

        products.product(a, b, out)

    @staticmethod
    def byte_tile() -> Any:
        """Return the tile of products of bytes for compiled kernels; see `grilly_backend_cpu.fast.byte_tile`."""
        from grilly_backend_cpu.fast import byte_tile

        return byte_tile.host_tile()

    @property
    def has_numba(self) -> bool:
        """Whether Numba is installed."""
        return jit.available()

    def alloc(self, nbytes: int) -> NDArray[np.uint8]:
        """Return new memory of `nbytes` bytes."""
        return blocks.empty((nbytes,), np.dtype(np.uint8))

    def free(self, handle: NDArray[np.uint8]) -> None:
        """Give memory back: NumPy does so when the last reference goes."""

    def trim(self) -> int:
        """Give the memory kept for reuse to the system, and return how many bytes that was."""
        return blocks.trim()

    def copy_in(self, handle: NDArray[np.uint8], offset: int, data: Any) -> None:
        """Write the bytes of `data` at `offset`."""
        source = np.frombuffer(data, np.uint8)
        _window(handle, offset, source.size, "copy_in")[...] = source

    def copy_out(self, handle: NDArray[np.uint8], offset: int, out: Any) -> None:
        """Fill the writable buffer `out` from `offset`."""
        target = np.frombuffer(out, np.uint8)
        target[...] = _window(handle, offset, target.size, "copy_out")

    def copy(
        self, dst: NDArray[np.uint8], dst_offset: int, src: NDArray[np.uint8], src_offset: int, nbytes: int
    ) -> None:
        """Copy `nbytes` bytes; the ranges may overlap."""
        _window(dst, dst_offset, nbytes, "copy")[...] = _window(src, src_offset, nbytes, "copy")

    def synchronize(self) -> None:
        """Return at once: every kernel has run when it returns."""

    def memory(self) -> dict[str, int]:
        """Return what is kept for reuse, and physical memory and what of it is available where the system says."""
        return {**_physical(), **blocks.statistics()}

    def describe(self) -> dict[str, Any]:
        """Return what ``grilly doctor`` shows: Numba's layer, threads and cache, and memory."""
        numba = (
            jit_setup.describe()
            if self.has_numba
            else {"layer": "NumPy only", "threads": jit_setup.threads()}
        )
        kept = f"{blocks.kept >> 20} of at most {blocks.limit >> 20} MiB"
        return {**numba, **_physical(), "kept for reuse": kept}

    def register_kernels(self, kernels: KernelRegistry) -> None:
        """Declare the kernels of this package."""
        from grilly_backend_cpu.kernels import register_all

        register_all(kernels, self)


def _physical() -> dict[str, int]:
    """Return physical memory and what of it is available, in bytes (empty where the system does not say)."""
    try:
        with open("/proc/meminfo", encoding="ascii") as lines:
            found = dict(line.split(":", 1) for line in lines)
        kib = {"total": found["MemTotal"], "available": found["MemAvailable"]}
        return {name: int(text.split()[0]) * 1024 for name, text in kib.items()}
    except (OSError, KeyError, ValueError):
        return {}


def _window(memory: NDArray[np.uint8], offset: int, nbytes: int, what: str) -> NDArray[np.uint8]:
    raw = memory.reshape(-1).view(np.uint8)
    if offset < 0 or nbytes < 0 or offset + nbytes > raw.size:
        raise ValueError(
            f"{what}: bytes {offset} to {offset + nbytes} are outside a buffer of {raw.size} bytes."
        )
    return raw[offset : offset + nbytes]
