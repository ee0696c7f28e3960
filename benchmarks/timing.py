"""Timing two contestants in turn, so that a machine's mood hits both, and printing the ratio."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

__all__ = ["Row", "best", "compare", "table"]

_WARM = 0.3  # seconds, for the clocks of a device
_PAUSE = 0.05  # seconds


@dataclass(frozen=True)
class Row:
    """One comparison: seconds of ours and of the peer, and the mark in peer time / our time."""

    what: str
    ours: float
    peer: float
    mark: float

    @property
    def ratio(self) -> float:
        """Peer's time over ours: above 1 we are faster."""
        return self.peer / self.ours

    @property
    def verdict(self) -> str:
        """Whether the mark is reached."""
        return "ok" if self.ratio >= self.mark else "below"


def _calls(function: Callable[[], object], budget: float) -> int:
    start = time.perf_counter()
    function()
    return max(1, int(budget / max(time.perf_counter() - start, 1e-7)))


def compare(
    what: str,
    ours: Callable[[], object],
    peer: Callable[[], object],
    mark: float,
    *,
    rounds: int = 9,
    budget: float = 0.05,
) -> Row:
    """Time both in alternating rounds and keep the median round of each.

    A pause before each round lets the threads of the other fall asleep: those of OpenBLAS wait busily for some 25 ms
    after a product, and would slow down whoever comes next.
    """
    for function in (ours, peer):
        for _ in range(3):
            function()
    times: tuple[list[float], list[float]] = ([], [])
    counts = [_calls(ours, budget), _calls(peer, budget)]
    for _ in range(rounds):
        for i, function in enumerate((ours, peer)):
            time.sleep(_PAUSE)
            start = time.perf_counter()
            for _ in range(counts[i]):
                function()
            times[i].append((time.perf_counter() - start) / counts[i])
    return Row(what, statistics.median(times[0]), statistics.median(times[1]), mark)


def best(call: Callable[[], object], wait: Callable[[], object], repeats: int = 3) -> float:
    """Return the microseconds of a call on a device: the best of three means after warming up."""
    start = time.perf_counter()
    while time.perf_counter() - start < _WARM:
        call()
        wait()
    means = []
    for _ in range(3):
        start = time.perf_counter()
        for _ in range(repeats):
            call()
        wait()
        means.append((time.perf_counter() - start) / repeats * 1e6)
    return min(means)


def table(rows: list[Row], peer: str) -> str:
    """Return the rows as text."""
    lines = [f"{'work':<44}{'grilly':>12}{peer:>12}{'ratio':>8}{'mark':>7}"]
    for r in rows:
        lines.append(
            f"{r.what:<44}{_time(r.ours):>12}{_time(r.peer):>12}{r.ratio:>8.2f}{r.mark:>7.2f}  {r.verdict}"
        )
    return "\n".join(lines)


def _time(seconds: float) -> str:
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= scale:
            return f"{seconds / scale:.2f} {unit}"
    return f"{seconds * 1e9:.0f} ns"
