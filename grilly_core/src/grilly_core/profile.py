"""The profiler: time, calls and bytes of every kernel, as a table and as a Chrome trace that Perfetto opens."""

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
from grilly_core.plan import EAGER, KernelPlan, Sink, Views

__all__ = ["OpRow", "Profile", "profile"]


@dataclass(frozen=True, slots=True)
class _Span:
    """One kernel run."""

    op: str
    start: float
    end: float
    nbytes: int
    thread: int
    shapes: str


@dataclass(frozen=True, slots=True)
class OpRow:
    """One line of the table: an op's calls, its seconds in kernels and the bytes its operands hold."""

    op: str
    calls: int
    seconds: float
    nbytes: int


class Profile:
    """What was recorded; made by `profile`.

    Attributes
    ----------
    wall : float
        Seconds from the start to the end of the ``with`` block.
    """

    def __init__(self) -> None:
        self.spans: list[_Span] = []
        self.wall = 0.0
        self.started = 0.0
        self.fallbacks: list[tuple[str, str]] = []

    def rows(self) -> list[OpRow]:
        """Return one row for each op, the slowest first; the last, ``(host)``, is the time outside kernels."""
        grouped: dict[str, list[_Span]] = {}
        for span in self.spans:
            grouped.setdefault(span.op, []).append(span)
        rows = [
            OpRow(op, len(spans), sum(s.end - s.start for s in spans), sum(s.nbytes for s in spans))
            for op, spans in grouped.items()
        ]
        rows.sort(key=lambda r: -r.seconds)
        rest = self.wall - sum(r.seconds for r in rows)
        return [*rows, OpRow("(host)", 0, max(rest, 0.0), 0)]

    def table(self) -> str:
        """Return the rows as text."""
        lines = [f"{'op':<28}{'calls':>8}{'ms':>12}{'%':>8}{'MB':>10}"]
        for r in self.rows():
            share = 100 * r.seconds / self.wall if self.wall else 0.0
            lines.append(
                f"{r.op:<28}{r.calls:>8}{r.seconds * 1e3:>12.3f}{share:>8.1f}{r.nbytes / 1e6:>10.1f}"
            )
        lines.append(f"{'total':<28}{len(self.spans):>8}{self.wall * 1e3:>12.3f}{100.0:>8.1f}")
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.table()

    def save_trace(self, path: str | os.PathLike[str]) -> Path:
        """Write the spans as a Chrome trace (open it at ui.perfetto.dev or chrome://tracing)."""
        events = [
            {
                "name": s.op, "ph": "X", "cat": "kernel", "pid": os.getpid(), "tid": s.thread,
                "ts": (s.start - self.started) * 1e6, "dur": (s.end - s.start) * 1e6,
                "args": {"bytes": s.nbytes, "shapes": s.shapes},
            }
            for s in self.spans
        ]  # fmt: skip
        target = Path(path)
        with atomic_write(target) as file:
            file.write(json.dumps({"traceEvents": events, "displayTimeUnit": "ms"}).encode())
        return target


class _ProfilingSink:
    """Times every launch of another sink."""

    symbolic = False

    def __init__(self, inner: Sink, result: Profile) -> None:
        self._inner = inner
        self._result = result

    def alloc(self, spec: Spec) -> View:
        return self._inner.alloc(spec)

    def view(self, buffer: Buffer, spec: Spec, offset: int) -> View:
        return self._inner.view(buffer, spec, offset)

    def launch(self, plan: KernelPlan, outs: list[View], ins: Views) -> None:
        start = time.perf_counter()
        self._inner.launch(plan, outs, ins)
        plan.context.synchronize()
        end = time.perf_counter()
        operands = [v for v in (*outs, *ins) if v is not None]
        nbytes = sum(v.nbytes for v in operands)
        shapes = " ".join(map(repr, (v.spec for v in operands)))
        self._result.spans.append(_Span(plan.op.name, start, end, nbytes, threading.get_ident(), shapes))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


@contextmanager
def profile() -> Iterator[Profile]:
    """Record every kernel inside a ``with`` block.

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
    with config.overriding(sink=_ProfilingSink(inner, result)):
        result.started = time.perf_counter()
        try:
            yield result
        finally:
            result.wall = time.perf_counter() - result.started
