"""Kernels for the CPU."""

from __future__ import annotations

from typing import Any

from grilly_ext_snn.kernels import scans_cpu

__all__ = ["register"]


def register(kernels: Any, runtime: Any) -> None:
    """Declare the kernels of this package for the CPU."""
    scans_cpu.register(kernels, runtime)
