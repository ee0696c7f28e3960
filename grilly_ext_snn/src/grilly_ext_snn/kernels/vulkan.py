"""Kernels for Vulkan."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from grilly_ext_snn.kernels import scans_vulkan

__all__ = ["register"]


def register(kernels: Any, runtime: Any) -> None:
    """Declare the kernels of this package for Vulkan."""
    runtime.shaders("snn", Path(__file__).with_name("spirv"))
    scans_vulkan.register(kernels, runtime)
