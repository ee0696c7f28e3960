"""``grilly doctor``: the state of an installation on one screen."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Iterable
from importlib import import_module
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

import grilly_core
from grilly_core import config, device, registry
from grilly_core.errors import GrillyError
from grilly_core.plugins import loader
from grilly_core.plugins.status import PluginState, PluginStatus

__all__ = ["run"]

_COLOURS = {
    PluginState.LOADED: "green",
    PluginState.INSTALLED: "green",
    PluginState.DISABLED: "dim",
    PluginState.NO_DEVICE: "yellow",
}
_UNUSABLE = (PluginState.BROKEN, PluginState.WRONG_ABI, PluginState.AMBIGUOUS)


def run(*, verbose: bool, strict: bool, console: Console | None = None) -> int:
    """Print the report and return the exit code."""
    out = console or Console()
    statuses = loader.load_all()
    out.print(_versions())
    out.print(_plugins(statuses))
    for line in _complaints(statuses):
        out.print(f"[yellow]note[/] {line}")
    if verbose:
        for status in statuses:
            if status.traceback:
                out.print(f"\n[red]{status.name}[/] of {status.distributions}")
                out.print(status.traceback, markup=False, highlight=False)
    out.print(_devices())
    out.print(_settings())
    for line in _opened():
        out.print(line)
    return 1 if strict and any(status.state in _UNUSABLE for status in statuses) else 0


def _versions() -> str:
    numpy = import_module("numpy")
    return (
        f"grilly {grilly_core.__version__} · Python {platform.python_version()} · NumPy {numpy.__version__} · "
        f"{platform.system()} {platform.machine()}"
    )


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold", box=None, pad_edge=False)
    for column in columns:
        table.add_column(column, overflow="fold")
    return table


def _plugins(statuses: Iterable[PluginStatus]) -> Table:
    table = _table("\nPlugins", "name", "group", "package", "state", "detail")
    for status in statuses:
        colour = _COLOURS.get(status.state, "red")
        state = f"[{colour}]{status.state}[/]"
        table.add_row(status.name, status.group, status.distributions, state, status.detail)
    return table


def _complaints(statuses: Iterable[PluginStatus]) -> list[str]:
    index = loader.index()
    words = [
        f"{word!r} in GRILLY_PLUGINS or GRILLY_DISABLE matches nothing" for word in index.unmatched_words()
    ]
    hint = (
        ["`grilly doctor --verbose` shows tracebacks"] if any(status.traceback for status in statuses) else []
    )
    return [*index.notes, *words, *hint]


def _devices() -> Table:
    table = _table("\nDevices", "device", "what", "kind", "memory", "")
    default = str(device.default_device())
    for backend in loader.backend_names():
        try:
            infos = loader.devices_of(backend)
        except GrillyError as error:
            table.add_row(backend, f"[red]{type(error).__name__}[/], see above")
            continue
        for index, info in enumerate(infos):
            name = f"{backend}:{index}"
            what = str(getattr(info, "name", info))
            table.add_row(
                name,
                what,
                str(getattr(info, "kind", "")),
                _memory(info),
                "default" if name == default else "",
            )
    return table


def _memory(info: Any) -> str:
    total = getattr(info, "memory", 0)
    return f"{total / 2**30:.1f} GiB" if total else ""


def _settings() -> Table:
    table = _table("\nSettings", "what", "value")
    for name, value in sorted(os.environ.items()):
        if name.startswith("GRILLY_"):
            table.add_row(name, value)
    table.add_row("cache folder", str(config.cache_dir() or "none can be written"))
    table.add_row("fallback policy", config.fallback_policy())
    for label, value in loader.doctor_facts().items():
        table.add_row(label, str(value))
    return table


def _opened() -> list[str]:
    """Per backend that opens: what its runtime tells, and the primitives that fall back for want of a kernel."""
    lines = [""]
    primitives = {name for name, spec in registry.specs().items() if spec.primitive}
    for backend in loader.backend_names():
        try:
            context = device.open_context(f"{backend}:0")
        except Exception as error:  # a device that does not open is what this command is there to tell
            lines.append(
                f"[bold]{backend}[/] does not open: [red]{type(error).__name__}: {escape(str(error))}[/]"
            )
            continue
        describe: Callable[[], dict[str, Any]] = getattr(context.runtime, "describe", dict)
        told = ", ".join(f"{label} {_readable(label, value)}" for label, value in describe().items())
        lines.append(f"[bold]{backend}[/] {told}")
        lacking = sorted(primitives - set(registry.kernels_for(backend)))
        what = "have no kernel" if backend == "cpu" else "fall back to the CPU"
        listed = f": {', '.join(lacking)}" if lacking else ""
        lines.append(f"{backend}: {len(lacking)} of {len(primitives)} primitives {what}{listed}")
    return lines


def _readable(label: str, value: Any) -> str:
    return f"{value / 2**30:.1f} GiB" if label in ("total", "available") else str(value)
