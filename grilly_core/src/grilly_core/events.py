"""The event stream: fallbacks, transfers and device openings, counted always and told to whoever listens."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

__all__ = ["Event", "Fallback", "Transfer", "emit", "reset_stats", "stats", "subscribe"]


@dataclass(frozen=True, slots=True)
class Event:
    """Something worth telling."""


@dataclass(frozen=True, slots=True)
class Transfer(Event):
    """A copy between the host and a device.

    Attributes
    ----------
    direction : {"in", "out"}
    nbytes : int
    device : str
    reason : str
        ``"user"`` or ``"fallback"``.
    """

    direction: str
    nbytes: int
    device: str
    reason: str


@dataclass(frozen=True, slots=True)
class Fallback(Event):
    """An op ran on the CPU instead of its device."""

    op: str
    device: str
    reason: str
    nbytes: int


_lock: Final = threading.Lock()
_counts: Counter[tuple[str, ...]] = Counter()
_listeners: list[Callable[[Event], None]] = []


def emit(event: Event) -> None:
    """Count `event` and pass it to the listeners."""
    with _lock:
        if isinstance(event, Transfer):
            _counts["transfers", event.device, event.direction, event.reason] += 1
            _counts["bytes", event.device, event.direction, event.reason] += event.nbytes
        elif isinstance(event, Fallback):
            _counts["fallbacks", event.device, event.op] += 1
        listeners = tuple(_listeners)
    for listener in listeners:
        listener(event)


@contextmanager
def subscribe(listener: Callable[[Event], None]) -> Iterator[None]:
    """Call `listener` with every event inside a ``with`` block."""
    with _lock:
        _listeners.append(listener)
    try:
        yield
    finally:
        with _lock:
            _listeners.remove(listener)


def stats() -> dict[tuple[str, ...], int]:
    """Return the counts since the start or the last `reset_stats`.

    Keys are ``("fallbacks", device, op)``, ``("transfers", device, direction, reason)`` and
    ``("bytes", device, direction, reason)``.
    """
    with _lock:
        return dict(_counts)


def reset_stats() -> None:
    """Set all counts back to zero."""
    with _lock:
        _counts.clear()
