"""Kernels by family. Each module has ``register(kernels, runtime)``, with the support declared beside each kernel."""

from __future__ import annotations

import importlib
from typing import Any, Final

__all__ = ["FAMILIES", "register_all"]

FAMILIES: Final = (
    "elementwise", "data", "reduce", "fft", "matmul", "attention", "attention_matrix", "attention_decode",
    "index", "sort", "random", "activations", "norm", "loss", "conv", "pool", "optim",
)  # fmt: skip


def register_all(kernels: Any, runtime: Any) -> None:
    """Declare every kernel of this package."""
    for family in FAMILIES:
        module: Any = importlib.import_module(f"{__name__}.{family}")
        module.register(kernels, runtime)
