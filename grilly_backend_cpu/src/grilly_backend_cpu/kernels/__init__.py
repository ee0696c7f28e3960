"""Kernels by family. Each module has ``register(kernels, runtime)``, with the support declared beside each kernel.

A kernel with ``priority=FAST`` is compiled by Numba, and is declared only where Numba is installed.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from grilly_backend_cpu.runtime import CpuRuntime, KernelRegistry

__all__ = ["FAMILIES", "register_all"]

FAMILIES: Final = (
    "data", "elementwise", "reduce", "scan", "fft", "linalg", "matmul", "index", "sort", "random",
    "activations", "softmax", "norm", "conv", "pool", "recurrent", "attention", "loss", "embedding",
    "optim",
)  # fmt: skip


def register_all(kernels: KernelRegistry, runtime: CpuRuntime) -> None:
    """Declare every kernel of this package."""
    for family in FAMILIES:
        module: Any = importlib.import_module(f"{__name__}.{family}")
        module.register(kernels, runtime)
