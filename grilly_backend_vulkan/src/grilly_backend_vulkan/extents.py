"""Which bytes of a buffer a view shows."""

from __future__ import annotations

from grilly_core.buffer import Spec, View

__all__ = ["byte_range", "extent"]

_extents: dict[Spec, tuple[int, int, int]] = {}


def extent(spec: Spec) -> tuple[int, int, int]:
    """Return the first byte and the byte after the last one relative to the offset, and the bytes of an element."""
    found = _extents.get(spec)
    if found is not None:
        return found
    item = spec.dtype.itemsize
    low = high = 0
    if spec.size:
        spans = [(n - 1) * s for n, s in zip(spec.shape, spec.strides, strict=True)]
        low = sum(s for s in spans if s < 0) * item
        high = (sum(s for s in spans if s > 0) + 1) * item
    if len(_extents) > 1 << 15:
        _extents.clear()
    found = _extents[spec] = (low, high, item)
    return found


def byte_range(view: View) -> tuple[int, int]:
    """Return the first byte that `view` shows of its buffer, and the one after the last."""
    low, high, item = extent(view.spec)
    start = view.offset * item
    return start + low, start + high
