"""``grilly bench``: rates of common work on a device, and the device's own tuning."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from typing import Any, Final

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

import grilly_core as grilly
from grilly_core.device import Context, SupportsTuning, open_context
from grilly_core.errors import DeviceError

__all__ = ["run", "work"]

_SECONDS: Final = 0.3  # of one measurement
_REPEATS: Final = 3

#: What is measured: name, call, amount of work, its unit.
Work = tuple[str, Callable[[], Any], float, str]


def run(device: str, *, tune: bool, scale: int, console: Console | None = None) -> None:
    """Print the table for a device, with the CPU beside it if the device is another."""
    out = console or Console()
    context = open_context(device)
    if tune:
        _tune(context, out)
    devices = [device] if device.split(":")[0] == "cpu" else [device, "cpu"]
    table = Table(box=None, pad_edge=False)
    table.add_column("work")
    for column in (*devices, *(["ratio"] if len(devices) > 1 else [])):
        table.add_column(column, justify="right")
    with _progress(out) as progress:
        task = progress.add_task("", total=None)
        rows = zip(*(work(name, scale) for name in devices), strict=True)
        for row in rows:
            progress.update(task, description=row[0][0])
            rates = [
                amount / _seconds(call, name) for (_, call, amount, _), name in zip(row, devices, strict=True)
            ]
            shown = [f"{rate:,.1f} {item[3]}" for rate, item in zip(rates, row, strict=True)]
            table.add_row(row[0][0], *shown, *([f"{rates[0] / rates[1]:.2f}"] if len(rates) > 1 else []))
    out.print(table)


def work(device: str, scale: int) -> Iterator[Work]:
    """Yield what is measured on a device, with its operands made."""
    n = max(2048 // scale, 16)
    x = grilly.rand(n, n, device=device)
    yield f"matmul {n}×{n}×{n}, float32", lambda: x @ x, 2e-9 * n**3, "GFLOP/s"
    rows = max((1 << 24) // scale // 1024, 1)
    y = grilly.rand(rows, 1024, device=device)
    passes = 4e-9 * rows * 1024
    functional = grilly.functional
    yield f"x + x, {rows}×1024", lambda: y + y, 2 * passes, "GB/s"
    yield f"GELU, {rows}×1024", lambda: functional.gelu(y), 2 * passes, "GB/s"
    yield f"softmax, {rows}×1024", lambda: functional.softmax(y, -1), 2 * passes, "GB/s"
    yield f"sum of rows, {rows}×1024", lambda: y.sum(1), passes, "GB/s"
    size = max(56 // scale, 4)
    image, weight = grilly.rand(16, 64, size, size, device=device), grilly.rand(64, 64, 3, 3, device=device)
    flops = 2e-9 * 16 * 64 * size**2 * 64 * 9
    yield (
        f"convolution 3×3, 16×64×{size}×{size}",
        lambda: functional.conv2d(image, weight, padding=1),
        flops,
        "GFLOP/s",
    )


def _seconds(call: Callable[[], Any], device: str) -> float:
    """Return the seconds of one call, waited for at the end of many."""
    context = open_context(device)

    def timed(count: int) -> float:
        start = time.perf_counter()
        for _ in range(count):
            call()
        context.synchronize()
        return time.perf_counter() - start

    timed(1)
    count = max(1, int(_SECONDS / _REPEATS / max(timed(1), 1e-6)))
    return min(timed(count) for _ in range(_REPEATS)) / count


def _tune(context: Context, out: Console) -> None:
    runtime: Any = context.runtime
    if not isinstance(runtime, SupportsTuning):
        raise DeviceError(f"bench: {context.device} has nothing to tune; leave --tune out.")
    with _progress(out) as progress:
        task = progress.add_task("tuning", total=None)
        path, found = runtime.tune(context, lambda what: progress.update(task, description=f"tuning {what}"))
    out.print(f"Tuned; later runs read [bold]{path}[/bold]:")
    out.print_json(json.dumps(found))


def _progress(out: Console) -> Progress:
    """A line that says what is being measured; nothing where the output is no terminal."""
    columns = SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn()
    return Progress(*columns, console=out, transient=True, disable=not out.is_terminal)
