"""Kernels for the CPU."""

from __future__ import annotations

from typing import Any

from grilly_ext_memory.kernels import codes_cpu, search_cpu

__all__ = ["register"]


def register(kernels: Any, runtime: Any) -> None:
    """Declare the kernels of this package for the CPU; without Numba the bodies of ops serve."""
    if runtime.has_numba:
        search_cpu.register(kernels, runtime)
        codes_cpu.register(kernels, runtime)
