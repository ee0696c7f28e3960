"""Kernels for Vulkan."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from grilly_ext_memory.kernels import best_vulkan, codes_vulkan, search_vulkan

__all__ = ["register"]


def register(kernels: Any, runtime: Any) -> None:
    """Declare the kernels of this package for Vulkan."""
    runtime.shaders("memory", Path(__file__).with_name("spirv"))
    best_vulkan.register(kernels, runtime)
    search_vulkan.register(kernels, runtime)
    codes_vulkan.register(kernels, runtime)
