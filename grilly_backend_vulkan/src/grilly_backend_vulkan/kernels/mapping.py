"""Launches of elementwise kernels on operands of any layout.

Axes are merged where every operand allows it. Up to four fit in the push constants; more are read from memory.
Offsets inside a launch are 32-bit: what spans more is cut into several launches.
"""

from __future__ import annotations

import functools
import math
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from grilly_backend_vulkan.kernels.support import groups_for

__all__ = ["GROUP", "SPAN", "Piece", "merged", "pieces", "run"]

GROUP: Final = 256
_PUSHED: Final = 4
SPAN: Final = 1 << 31
FOURS: Final = 5  # in the place of the rank: four elements a thread
_LEAST_FOURS: Final = 1 << 13
_ADDRESSES: Final = struct.Struct("<4Q")
_AXES: Final = struct.Struct("<16i3II")
_AXIS: Final = struct.Struct("<4iI12x")

Axes = tuple[tuple[int, ...], tuple[tuple[int, ...], ...]]


@dataclass(frozen=True, slots=True)
class Piece:
    """One launch: constants as the shader reads them, and where each operand starts.

    Attributes
    ----------
    rank : int
        Axes in `pushed`; 0 if they are in `memory`.
    n : int
        Elements.
    offsets : tuple of int
        In elements, from the first of each operand.
    pushed, memory : bytes
    """

    rank: int
    n: int
    offsets: tuple[int, ...]
    pushed: bytes
    memory: bytes


def merged(shape: tuple[int, ...], strides: Sequence[tuple[int, ...]]) -> Axes:
    """Return shape and strides of the operands with neighbouring axes joined where all of them allow it.

    Examples
    --------
    >>> merged((2, 3, 4), [(12, 4, 1), (12, 4, 1)])
    ((24,), ((1,), (1,)))
    >>> merged((2, 3), [(3, 1), (1, 2)])
    ((2, 3), ((3, 1), (1, 2)))
    """
    sizes: list[int] = []
    steps: list[list[int]] = [[] for _ in strides]
    for axis, n in enumerate(shape):
        if n == 1:
            continue
        if sizes and all(have[-1] == given[axis] * n for have, given in zip(steps, strides, strict=True)):
            sizes[-1] *= n
            for have, given in zip(steps, strides, strict=True):
                have[-1] = given[axis]
            continue
        sizes.append(n)
        for have, given in zip(steps, strides, strict=True):
            have.append(given[axis])
    return tuple(sizes), tuple(map(tuple, steps))


@functools.lru_cache(maxsize=4096)
def pieces(shape: tuple[int, ...], strides: tuple[tuple[int, ...], ...]) -> tuple[Piece, ...]:
    """Return the launches for operands of one shape."""
    sizes, steps = merged(shape, strides)
    return tuple(_piece(*part) for part in _parts(sizes, steps, (0,) * len(strides)))


def _parts(sizes: Any, steps: Any, offsets: tuple[int, ...]) -> Any:
    """Halve the axis with the widest span until every offset fits 31 bits."""
    spans = [max((n - 1) * abs(s[d]) for s in steps) for d, n in enumerate(sizes)]
    if math.prod(sizes) < SPAN and sum(spans) < SPAN:
        yield sizes, steps, offsets
        return
    widest = spans.index(max(spans))
    half = sizes[widest] // 2
    yield from _parts((*sizes[:widest], half, *sizes[widest + 1 :]), steps, offsets)
    later = tuple(o + half * s[widest] for o, s in zip(offsets, steps, strict=True))
    yield from _parts((*sizes[:widest], sizes[widest] - half, *sizes[widest + 1 :]), steps, later)


def _piece(sizes: Any, steps: Any, offsets: tuple[int, ...]) -> Piece:
    n = math.prod(sizes)
    inner_first = [
        (size, [s[d] for s in steps] + [0] * (4 - len(steps))) for d, size in reversed(list(enumerate(sizes)))
    ] or [(1, [0] * 4)]
    rank = len(inner_first)
    if rank > _PUSHED:
        memory = b"".join(_AXIS.pack(*(_fitting(size, s)), size) for size, s in inner_first)
        return Piece(0, n, offsets, _AXES.pack(*[0] * 18, rank, n), memory)
    flat = [v for size, s in inner_first for v in _fitting(size, s)] + [0] * (4 * (_PUSHED - rank))
    shape = [size for size, _ in inner_first[:-1]] + [1] * (_PUSHED - rank)
    return Piece(rank, n, offsets, _AXES.pack(*flat, *shape, n), b"")


def _fitting(size: int, steps: list[int]) -> list[int]:
    """Strides of an axis of size 1 do not count, and might not fit 32 bits."""
    return steps if size > 1 else [0] * len(steps)


def run(
    stream: Any,
    name: str,
    constants: tuple[Any, ...],
    views: Sequence[Any],
    *,
    shape: tuple[int, ...] | None = None,
    strides: tuple[tuple[int, ...], ...] | None = None,
    scalars: bytes = b"",
    items: tuple[int, ...] = (),
    fours: bool = False,
) -> None:
    """Launch an elementwise shader.

    Parameters
    ----------
    stream
    name : str
        Of the shader.
    constants : tuple
        Specialisation constants after the rank.
    views : sequence of View
        Output, then inputs; at most four.
    shape, strides
        How the operands are walked, if not by their own layouts.
    scalars : bytes
        At most 16 bytes for the shader's ``k``.
    items : tuple of int
        Bytes of an element of each operand, if not those of their types.
    fours : bool
        Whether the shader takes four elements a thread where layouts allow it.
    """
    if strides is None:
        strides = tuple(v.strides for v in views)
    bases = [stream.address(v) for v in views]
    items = items or tuple(v.dtype.itemsize for v in views)
    padding = [0] * (4 - len(views))
    for piece in pieces(views[0].shape if shape is None else shape, strides):
        starts = [b + o * i for b, o, i in zip(bases, piece.offsets, items, strict=True)]
        pushed = piece.pushed
        if piece.memory:
            at = struct.pack("<Q", stream.arguments(piece.memory))
            pushed = pushed[:64] + at + pushed[72:]
        push = _ADDRESSES.pack(*starts, *padding) + pushed + scalars.ljust(16, b"\0")
        rank, threads = piece.rank, piece.n
        if fours and _in_fours(piece, starts, items):
            rank, threads = FOURS, -(-piece.n // 4)
        pipeline = stream.pipeline(name, (rank, *constants))
        stream.launch(pipeline, groups_for(threads, GROUP), push, views[1:], views[:1])


def _in_fours(piece: Piece, starts: Sequence[int], items: tuple[int, ...]) -> bool:
    """Whether every operand is packed and aligned, or one number for all; small work is spread over more threads."""
    if piece.rank != 1 or piece.n < _LEAST_FOURS or max(items) > 4:
        return False
    steps = struct.unpack_from("<4i", piece.pushed)[: len(items)]
    return steps[0] == 1 and all(
        step == 0 or (step == 1 and start % (4 * item) == 0)
        for step, start, item in zip(steps, starts, items, strict=True)
    )
