"""``grilly ops``: what runs where, read from the registry."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.table import Table

from grilly_core import device as devices
from grilly_core import registry
from grilly_core.errors import GrillyError
from grilly_core.plugins import loader

__all__ = ["run", "support"]


def run(pattern: str, *, internal: bool, console: Console | None = None) -> None:
    """Print the table op × backend."""
    registry.load_core()
    loader.load_every_op()  # before a device opens, because that is when its kernels are collected
    backends = [name for name in loader.backend_names() if _opens(name)]
    table = Table(box=None, pad_edge=False)
    for column in ("op", "kind", *backends):
        table.add_column(column, overflow="fold")
    for name, spec in registry.specs().items():
        if pattern in name and (internal or not spec.internal):
            table.add_row(name, spec.kind, *(support(spec, backend) for backend in backends))
    out = console or Console()
    out.print(table)
    out.print(_LEGEND)


_LEGEND = (
    "\nTypes: a kernel of the backend takes these. view: no kernel is needed. body: made of other ops, see "
    "`grilly explain`. none: a primitive without a kernel, which falls back to the CPU."
)


def support(spec: Any, backend: str) -> str:
    """Return how a backend serves an op: the types of its kernels, ``view``, ``body`` or ``none``."""
    kernels = registry.kernels_for(backend).get(spec.name, [])
    if kernels:
        return " ".join(sorted({code for kernel in kernels for code in kernel.dtypes}))
    if spec.kind == "view":
        return "view"
    return "none" if spec.primitive else "body"


def _opens(backend: str) -> bool:
    try:
        devices.open_context(f"{backend}:0")
    except GrillyError:
        return False
    return True
