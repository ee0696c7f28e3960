"""The profiler: time, calls and bytes of every kernel, as a table and as a Chrome trace that Perfetto opens.

Two clocks are shown side by side. Host time is what launching took; where kernels run on the host that includes them.
Device time is what the device's own clock says (`SupportsTimestamps`), and to have one for each op the launches of
two ops never overlap while a profile is taken.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from grilly_core import config
from grilly_core.atomic import atomic_write
from grilly_core.buffer import Buffer, Spec, View
from grilly_core.device import Context, Timer
from grilly_core.plan import EAGER, KernelPlan, Sink, Views

__all__ = ["OpRow", "Profile", "ProfilingSink", "Span", "profile", "span_of"]


@dataclass(slots=True)
class Span:
    """One kernel run, in seconds; `marks` says which of the device's marks surround it, until they are read."""

    op: str
    start: float
    end: float
    nbytes: int
    thread: int
    shapes: str
    context: Context
    marks: tuple[int, int] | None = None
    device_start: float = 0.0
    device_end: float = 0.0


@dataclass(frozen=True, slots=True)
class OpRow:
    """One line of the table.

    Attributes
    ----------
    op : str
    calls : int
    seconds : float
        On the host: launching, and running where kernels run on the host.
    device_seconds : float
        On the device's own clock; 0 where it has none.
    nbytes : int
        What the operands hold.
    """

    op: str
    calls: int
    seconds: float
    device_seconds: float
    nbytes: int


class Profile:
    """What was recorded; made by `profile`.

    Attributes
    ----------
    wall : float
        Seconds from the start to the end of the ``with`` block, with a wait for the devices used.
    """

    def __init__(self) -> None:
        self.spans: list[Span] = []
        self.wall = 0.0
        self.started = 0.0
        self.timers: dict[Context, Timer | None] = {}

    def rows(self) -> list[OpRow]:
        """Return one row for each op, the slowest first.

        The last, ``(other)``, is the rest of the wall time: on the host the time outside of ops, on the device the time
        it waited for work.
        """
        grouped: dict[str, list[Span]] = {}
        for span in self.spans:
            grouped.setdefault(span.op, []).append(span)
        rows = [
            OpRow(
                op, len(spans), sum(s.end - s.start for s in spans), sum(s.device_end - s.device_start for s in spans),
                sum(s.nbytes for s in spans),
            )
            for op, spans in grouped.items()
        ]  # fmt: skip
        rows.sort(key=lambda r: -max(r.seconds, r.device_seconds))
        rest = self.wall - sum(r.seconds for r in rows)
        idle = self.wall - self.device_seconds if self.device_seconds else 0.0
        return [*rows, OpRow("(other)", 0, max(rest, 0.0), max(idle, 0.0), 0)]

    @property
    def device_seconds(self) -> float:
        """Time for which devices with a clock were at work on ops."""
        return sum(s.device_end - s.device_start for s in self.spans)

    def table(self) -> str:
        """Return the rows as text."""
        lines = [f"{'op':<28}{'calls':>8}{'host ms':>12}{'%':>7}{'device ms':>12}{'%':>7}{'MB':>10}"]
        wall = self.wall or 1.0
        for r in self.rows():
            lines.append(
                f"{r.op:<28}{r.calls:>8}{r.seconds * 1e3:>12.3f}{100 * r.seconds / wall:>7.1f}"
                f"{r.device_seconds * 1e3:>12.3f}{100 * r.device_seconds / wall:>7.1f}{r.nbytes / 1e6:>10.1f}"
            )
        lines.append(f"{'wall':<28}{len(self.spans):>8}{self.wall * 1e3:>12.3f}{100.0:>7.1f}")
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.table()

    def save_trace(self, path: str | os.PathLike[str]) -> Path:
        """Write the spans as a Chrome trace (open it at ui.perfetto.dev or chrome://tracing).

        Threads of the host are one process of the trace, devices with a clock another.
        """
        events: list[dict[str, Any]] = [
            {"name": "process_name", "ph": "M", "pid": pid, "tid": 0, "args": {"name": name}}
            for pid, name in ((0, "host"), (1, "devices"))
        ]
        lanes = {context: i for i, context in enumerate(self.timers)}
        for context, lane in lanes.items():
            name = {"name": str(context.device)}
            events.append({"name": "thread_name", "ph": "M", "pid": 1, "tid": lane, "args": name})
        for s in self.spans:
            events.append(self._event(s, 0, s.thread, s.start, s.end))
            if s.device_end > s.device_start:
                events.append(self._event(s, 1, lanes[s.context], s.device_start, s.device_end))
        target = Path(path)
        with atomic_write(target) as file:
            file.write(json.dumps({"traceEvents": events, "displayTimeUnit": "ms"}).encode())
        return target

    def _event(self, span: Span, process: int, lane: int, start: float, end: float) -> dict[str, Any]:
        return {
            "name": span.op, "ph": "X", "cat": "kernel", "pid": process, "tid": lane,
            "ts": (start - self.started) * 1e6, "dur": (end - start) * 1e6,
            "args": {"bytes": span.nbytes, "shapes": span.shapes},
        }  # fmt: skip

    def timer(self, context: Context) -> Timer | None:
        """Return the timer of a device, made on first use; None where it has no clock."""
        if context not in self.timers:
            make = getattr(context.runtime, "timer", None)
            self.timers[context] = None if make is None else make()
        return self.timers[context]

    def finish(self) -> None:
        """Wait for the devices, and put seconds in the place of marks."""
        for context in self.timers:
            context.synchronize()
        self.wall = time.perf_counter() - self.started
        read = {context: timer.read() for context, timer in self.timers.items() if timer is not None}
        for span in self.spans:
            if span.marks is not None:
                span.device_start, span.device_end = (read[span.context][i] for i in span.marks)


def span_of(plan: KernelPlan, outs: Views, ins: Views, start: float, end: float) -> Span:
    """Return the span of a launch."""
    operands = [v for v in (*outs, *ins) if v is not None]
    shapes = " ".join(map(repr, (v.spec for v in operands)))
    nbytes = sum(v.nbytes for v in operands)
    return Span(plan.op.name, start, end, nbytes, threading.get_ident(), shapes, plan.context)


class ProfilingSink:
    """Times every launch of another sink."""

    symbolic = False

    def __init__(self, inner: Sink, result: Profile) -> None:
        self.inner = inner
        self.result = result

    def alloc(self, spec: Spec) -> View:
        """Allocate as the other sink does."""
        return self.inner.alloc(spec)

    def view(self, buffer: Buffer, spec: Spec, offset: int) -> View:
        """Show a buffer as the other sink does."""
        return self.inner.view(buffer, spec, offset)

    def launch(self, plan: KernelPlan, outs: list[View], ins: Views) -> None:
        """Launch as the other sink does, between two marks."""
        timer = self.result.timer(plan.context)
        first = -1 if timer is None else timer.mark()
        start = time.perf_counter()
        self.inner.launch(plan, outs, ins)
        if timer is None:
            plan.context.synchronize()
        end = time.perf_counter()
        span = span_of(plan, outs, ins, start, end)
        if timer is not None:
            span.marks = (first, timer.mark())
        self.result.spans.append(span)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


@contextmanager
def profile() -> Iterator[Profile]:
    """Record every kernel inside a ``with`` block; captured steps too, as the launches of their replays.

    Yields
    ------
    Profile
        Print it for the table; `Profile.save_trace` writes the trace.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> with grilly.profile() as p:
    ...     total = (grilly.ones(100) * 2).sum()
    >>> sorted(r.op for r in p.rows() if r.calls)
    ['full', 'mul', 'sum']
    """
    result = Profile()
    inner = config.current().sink or EAGER
    with config.overriding(sink=ProfilingSink(inner, result)):
        result.started = time.perf_counter()
        try:
            yield result
        finally:
            result.finish()
