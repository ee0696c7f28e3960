"""Event cameras: reading recordings, and turning events into frames that a network takes step by step.

An event says that a pixel became brighter or darker at a time. Readers check what they read; nothing is executed.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from grilly_core.atomic import atomic_write
from grilly_core.errors import ShapeError

__all__ = ["Events", "events_from", "moving_bar", "read_aedat", "read_nmnist", "to_frames", "write_nmnist"]

_OVERFLOW_ROW: Final = 240  # an event of N-MNIST in this row says that the clock has gone round
_OVERFLOW: Final = 1 << 13
_NMNIST_CLOCK: Final = 1 << 23

#: Where DVS128 addresses keep x, y and polarity: shift and mask.
_DVS128: Final = ((1, 0x7F), (8, 0x7F), (0, 1))


@dataclass(frozen=True)
class Events:
    """A recording, sorted by time.

    Attributes
    ----------
    t : ndarray of int64, (N,)
        Microseconds.
    x, y : ndarray of int32, (N,)
        Column and row.
    p : ndarray of uint8, (N,)
        1: brighter, 0: darker.
    size : (int, int)
        Height and width of the sensor.
    """

    t: NDArray[np.int64]
    x: NDArray[np.int32]
    y: NDArray[np.int32]
    p: NDArray[np.uint8]
    size: tuple[int, int]

    def __len__(self) -> int:
        return len(self.t)

    @property
    def duration(self) -> int:
        """Microseconds from the first event to the last one."""
        return int(self.t[-1] - self.t[0]) if len(self) else 0


def events_from(events: Any, size: tuple[int, int] | None = None) -> Events:
    """Make a recording of NumPy arrays.

    Parameters
    ----------
    events : ndarray
        Structured with fields ``t``, ``x``, ``y``, ``p`` in any order, or ``(N, 4)`` in the order t, x, y, p.
    size : (int, int), optional
        Height and width; the smallest that holds all events without it.

    Raises
    ------
    ShapeError
        If it has another layout.
    ValueError
        If an event lies outside the sensor, or a polarity is neither 0, 1 nor -1.

    Examples
    --------
    >>> import numpy as np
    >>> from grilly_ext_snn.events import events_from
    >>> events_from(np.array([[10, 0, 1, 1], [5, 2, 0, 0]])).t.tolist()
    [5, 10]
    """
    a = np.asarray(events)
    if a.dtype.names is not None:
        missing = {"t", "x", "y", "p"} - set(a.dtype.names)
        if missing or a.ndim != 1:
            raise ShapeError(
                f"events: expected a structured array (N,) with fields t, x, y and p; received shape {a.shape} with "
                f"fields {', '.join(a.dtype.names)}."
            )
        columns = [a[name] for name in "txyp"]
    elif a.ndim == 2 and a.shape[1] == 4:
        columns = list(a.T)
    else:
        raise ShapeError(f"events: expected fields t, x, y, p or shape (N, 4); received shape {a.shape}.")
    return _made(*columns, size)


def _made(t: Any, x: Any, y: Any, p: Any, size: tuple[int, int] | None) -> Events:
    t, x, y, p = np.asarray(t, np.int64), np.asarray(x, np.int32), np.asarray(y, np.int32), np.asarray(p)
    if size is None:
        size = (int(y.max()) + 1, int(x.max()) + 1) if len(t) else (1, 1)
    outside = (x < 0) | (y < 0) | (x >= size[1]) | (y >= size[0])
    if outside.any():
        i = int(outside.argmax())
        raise ValueError(
            f"events: event {i} at x={x[i]}, y={y[i]} is outside of {size[0]} rows and {size[1]} columns."
        )
    if not np.isin(p, (-1, 0, 1)).all():
        raise ValueError(f"events: polarities are 0 (or -1) and 1; received {np.unique(p)[:5]}.")
    order = np.argsort(t, kind="stable")
    return Events(t[order], x[order], y[order], (p[order] > 0).astype(np.uint8), size)


def read_nmnist(path: str | os.PathLike[str], size: tuple[int, int] = (34, 34)) -> Events:
    """Read a recording in the format of N-MNIST and N-Caltech101: 40 bits an event (Orchard et al. 2015).

    Parameters
    ----------
    path : path
    size : (int, int)
        Height and width of the sensor.

    Raises
    ------
    ValueError
        If the file is cut, or an event lies outside the sensor.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from grilly_ext_snn.events import read_nmnist
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     size = Path(folder, "0.bin").write_bytes(bytes([7, 3, 0x80, 0, 9]))
    ...     events = read_nmnist(f"{folder}/0.bin")
    >>> events.x.tolist(), events.y.tolist(), events.p.tolist(), events.t.tolist()
    ([7], [3], [1], [9])
    """
    data = np.frombuffer(Path(path).read_bytes(), np.uint8)
    if len(data) % 5:
        raise ValueError(
            f"{path}: {len(data)} bytes are no whole number of events of 5 bytes; the file is cut."
        )
    e = data.reshape(-1, 5).astype(np.int64)
    t = ((e[:, 2] & 0x7F) << 16) | (e[:, 3] << 8) | e[:, 4]
    turned = e[:, 1] == _OVERFLOW_ROW
    t = t + _OVERFLOW * np.cumsum(turned)
    kept = ~turned
    return _made(t[kept], e[kept, 0], e[kept, 1], e[kept, 2] >> 7, size)


def write_nmnist(path: str | os.PathLike[str], events: Events) -> None:
    """Write a recording in the format that `read_nmnist` reads, atomically.

    Raises
    ------
    ValueError
        If a time or place does not fit the format: 23 bits of time, 8 of x and y, rows below 240.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from grilly_ext_snn.events import Events, read_nmnist, write_nmnist
    >>> events = Events(np.array([5, 9]), np.array([1, 2]), np.array([3, 4]), np.array([1, 0], np.uint8), (34, 34))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_nmnist(f"{folder}/0.bin", events)
    ...     read_nmnist(f"{folder}/0.bin").t.tolist()
    [5, 9]
    """
    fits = len(events) == 0 or (
        events.t.min() >= 0
        and events.t.max() < _NMNIST_CLOCK
        and events.x.max() < 256
        and events.y.max() < 240
    )
    if not fits:
        raise ValueError(
            f"{path}: the format holds times below {_NMNIST_CLOCK} µs, columns below 256 and rows below 240; received "
            f"up to {events.t.max()} µs, column {events.x.max()}, row {events.y.max()}."
        )
    rows = np.empty((len(events), 5), np.uint8)
    rows[:, 0], rows[:, 1] = events.x, events.y
    rows[:, 2] = (events.p << 7) | (events.t >> 16)
    rows[:, 3], rows[:, 4] = (events.t >> 8) & 0xFF, events.t & 0xFF
    with atomic_write(Path(path)) as file:
        file.write(rows.tobytes())


def read_aedat(path: str | os.PathLike[str], size: tuple[int, int] = (128, 128)) -> Events:
    """Read an AEDAT 2.0 recording of a DVS128: a text header, then address and time as big-endian 32-bit numbers.

    Raises
    ------
    ValueError
        If it is another version of the format, or cut.
    """
    data = Path(path).read_bytes()
    if not data.startswith(b"#!AER-DAT2"):
        raise ValueError(f"{path}: expected the header '#!AER-DAT2.0'; it begins with {data[:12]!r}.")
    start = 0
    while data[start : start + 1] == b"#":
        start = data.find(b"\n", start) + 1 or len(data)
    if (len(data) - start) % 8:
        raise ValueError(
            f"{path}: {len(data) - start} bytes are no whole number of events of 8 bytes; the file is cut."
        )
    words = np.frombuffer(data, ">u4", offset=start).reshape(-1, 2).astype(np.int64)
    x, y, p = ((words[:, 0] >> shift) & mask for shift, mask in _DVS128)
    return _made(words[:, 1], x, y, p, size)


def to_frames(
    events: Events,
    num_steps: int | None = None,
    window: int | None = None,
    *,
    by: str = "time",
    binary: bool = False,
) -> NDArray[np.float32]:
    """Count events by step, polarity and pixel.

    Parameters
    ----------
    events : Events
    num_steps : int, optional
        How many frames the recording is cut into.
    window : int, optional
        Instead: microseconds of a frame, or events of one with ``by="count"``; the last may be shorter.
    by : {"time", "count"}
        Whether frames last equally long or hold as many events.
    binary : bool
        Whether a pixel counts at most once in a frame.

    Returns
    -------
    ndarray of float32, (T, 2, height, width)
        Channel 0: darker, 1: brighter.

    Examples
    --------
    >>> from grilly_ext_snn.events import moving_bar, to_frames
    >>> to_frames(moving_bar((8, 12), 5000), 4).shape
    (4, 2, 8, 12)
    """
    if (num_steps is None) == (window is None):
        raise ValueError(f"to_frames: give either num_steps or window; received {num_steps} and {window}.")
    if by not in ("time", "count"):
        raise ValueError(f"to_frames: by is 'time' or 'count'; received {by!r}.")
    wanted = num_steps if window is None else window
    if isinstance(wanted, bool) or not isinstance(wanted, int) or wanted < 1:
        raise ValueError(f"to_frames: expected a positive integer; received {wanted!r}.")
    where = events.t - events.t[0] if by == "time" and len(events) else np.arange(len(events))
    span = int(where[-1]) + 1 if len(events) else 1
    if window is None:
        count, step = wanted, where * wanted // span
    else:
        count, step = -(-span // wanted), where // wanted
    h, w = events.size
    place = ((step * 2 + events.p) * h + events.y) * w + events.x
    frames = np.bincount(place, minlength=count * 2 * h * w).astype(np.float32).reshape(count, 2, h, w)
    return np.minimum(frames, 1.0) if binary else frames


def moving_bar(
    size: tuple[int, int] = (34, 34), duration: int = 100_000, *, rightward: bool = True, noise: float = 0.0,
    seed: int = 0,
) -> Events:  # fmt: skip
    """Make the recording of a bright vertical bar that crosses the sensor once.

    Its leading edge gives events of polarity 1, its trailing edge, two columns behind, of polarity 0.

    Parameters
    ----------
    size : (int, int)
        Height and width.
    duration : int
        Microseconds.
    rightward : bool
    noise : float
        Events added at random, as a share of the others.
    seed : int

    Examples
    --------
    >>> from grilly_ext_snn.events import moving_bar
    >>> len(moving_bar((4, 10), 1000))
    72
    """
    h, w = size
    columns = np.arange(w)
    leading, trailing = columns, columns[: max(w - 2, 0)]
    x = np.concatenate([np.repeat(leading, h), np.repeat(trailing, h)])
    y = np.tile(np.arange(h), len(leading) + len(trailing))
    step = np.concatenate([np.repeat(leading, h), np.repeat(trailing + 2, h)])
    p = np.repeat([1, 0], [len(leading) * h, len(trailing) * h])
    t = step * duration // w
    rng = np.random.default_rng(seed)
    extra = int(noise * len(t))
    t = np.concatenate([t, rng.integers(0, duration, extra)])
    x = np.concatenate([x if rightward else w - 1 - x, rng.integers(0, w, extra)])
    y = np.concatenate([y, rng.integers(0, h, extra)])
    return _made(t, x, y, np.concatenate([p, rng.integers(0, 2, extra)]), size)
