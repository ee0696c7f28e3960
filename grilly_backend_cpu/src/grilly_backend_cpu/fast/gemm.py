"""Matrix products in float32 by tiles held in registers: as fast as BLAS, and its threads are those of all kernels.

Threads of OpenBLAS wait busily for some 25 ms after a product, on the very cores that compiled kernels need next:
attention took 43 ms with it and 32 ms where they slept at once. A unit of work is a block of the result; it packs its
blocks of both factors, the left one into rows as high as a tile, the right one into strips as wide. Units depend on
shapes alone, so results do not depend on the number of threads.
"""

from __future__ import annotations

import functools
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from grilly_backend_cpu.fast.microkernel import LANES, square_turner, tile_of, tile_shape
from grilly_backend_cpu.jit import Jit, njit, split

__all__ = ["multiply", "pack_strips", "serves", "turn"]

Array = NDArray[Any]
_DEPTH: Final = 256  # of a block: a strip of the right factor then stays in the first cache
_ROWS: Final = 16  # tiles of a block, at most: the left factor's block stays in the second cache
_STRIPS: Final = 16  # of a block, at most
_UNITS: Final = 4  # asked for where the shapes allow it, so that several threads end at about the same time
_LEAST: Final = 1 << 20  # multiplications above which BLAS uses its threads
_NARROW: Final = 8  # rows or columns below which tiles would be mostly empty


_turn_square: Final = square_turner()


@njit
def _pack_strips(
    b: Any, turned: bool, column: int, columns: int, first: int, depth: int, packed: Any
) -> None:
    """``packed[s, p, j] = b[first + p, column + s * width + j]`` for `columns` columns, zero beyond."""
    width = packed.shape[2]
    for s in range((columns + width - 1) // width):
        count, at, strip = min(width, columns - s * width), column + s * width, packed[s]
        if turned:
            turn(b[at : at + count, first : first + depth], strip[:depth])
        else:
            for p in range(depth):
                line, source = strip[p], b[first + p, at : at + count]
                for j in range(count):
                    line[j] = source[j]
                for j in range(count, width):
                    line[j] = 0


@njit
def _pack_rows(
    a: Any, turned: bool, row: int, rows: int, high: int, first: int, depth: int, packed: Any
) -> None:
    """``packed[i, p, r] = a[row + i * high + r, first + p]`` for `rows` rows; what lies beyond does not matter."""
    for i in range((rows + high - 1) // high):
        block, at = packed[i], row + i * high
        if turned:
            count = min(LANES, a.shape[1] - at)
            for p in range(depth):
                source, line = a[first + p, at : at + count], block[p]
                for r in range(count):
                    line[r] = source[r]
        else:
            turn(a[at : min(at + LANES, a.shape[0]), first : first + depth], block[:depth])


@njit
def turn(source: Any, target: Any) -> None:
    """``target[p, r] = source[r, p]``, zero beyond the rows of `source`."""
    rows, depth = source.shape
    full = rows // LANES * LANES
    whole = depth // LANES * LANES
    for r in range(0, full, LANES):
        for p in range(0, whole, LANES):
            _turn_square(source, r, p, target, p, r)
        for p in range(whole, depth):
            for i in range(r, r + LANES):
                target[p, i] = source[i, p]
    if full < target.shape[1]:
        for p in range(depth):
            for r in range(full, rows):
                target[p, r] = source[r, p]
            for r in range(rows, target.shape[1]):
                target[p, r] = 0


@njit
def _copy(source: Any, target: Any) -> None:
    """Copy between a tile and the part of it that lies inside the result; the smaller says how much."""
    for r in range(min(source.shape[0], target.shape[0])):
        line, part = target[r], source[r]
        for j in range(min(line.size, part.size)):
            line[j] = part[j]


_tile: Any = None  # replaced by the intrinsic, and the numbers by its shape
_high: Any = None
_wide: Any = None


def _multiply(start: int, stop: int, args: Any) -> None:
    a, a_turned, b, b_turned, c, block_rows, block_columns, blocks = args
    depth, step = (a.shape[0] if a_turned else a.shape[1]), c.strides[0] // 4
    most = min(depth, _DEPTH)
    packed = np.empty(((block_rows + _high - 1) // _high, most, LANES), np.float32)
    strips = np.empty(((block_columns + _wide - 1) // _wide, most, _wide), np.float32)
    edge = np.zeros((_high, _wide), np.float32)
    for unit in range(start, stop):
        row, column = unit // blocks * block_rows, unit % blocks * block_columns
        rows, columns = min(block_rows, c.shape[0] - row), min(block_columns, c.shape[1] - column)
        for first in range(0, depth, _DEPTH):
            count, fresh = min(_DEPTH, depth - first), first == 0
            _pack_rows(a, a_turned, row, rows, _high, first, count, packed)
            _pack_strips(b, b_turned, column, columns, first, count, strips)
            for s in range((columns + _wide - 1) // _wide):
                left, wide = column + s * _wide, min(_wide, columns - s * _wide)
                for i in range((rows + _high - 1) // _high):
                    top, high = row + i * _high, min(_high, rows - i * _high)
                    x, y = i * most * LANES, s * most * _wide
                    if high == _high and wide == _wide:
                        _tile(packed, x, 1, LANES, strips, y, _wide, c, top * step + left, step, count, fresh)
                    else:
                        inside = c[top : top + high, left : left + wide]
                        _copy(inside, edge)
                        _tile(packed, x, 1, LANES, strips, y, _wide, edge, 0, _wide, count, fresh)
                        _copy(edge, inside)


@functools.cache
def _run_multiply() -> Any:
    high, wide = tile_shape()
    made = Jit(_multiply, {}, f"multiply[{high}x{wide}]")
    made.replaced |= {"_tile": tile_of(high, wide), "_high": high, "_wide": wide}
    return split(made)


def serves(a: Array, b: Array, out: Array) -> bool:
    """Whether `multiply` takes these matrices, and whether it pays."""
    rows, columns = out.shape
    return (
        rows >= _NARROW
        and columns >= _NARROW
        and rows * columns * a.shape[1] > _LEAST
        and a.dtype == b.dtype == out.dtype == np.float32
        and out.strides[1] == out.itemsize
        and out.strides[0] >= 0
        and out.flags.aligned
    )


def _oriented(x: Array) -> tuple[Array, bool]:
    """Return a matrix whose rows are contiguous, and whether it is the transpose of `x`."""
    if x.strides[1] == x.itemsize:
        return x, False
    if x.strides[0] == x.itemsize:
        return x.T, True
    return np.ascontiguousarray(x), False


@njit
def _pack_all(start: int, stop: int, args: Any) -> None:
    b, turned, strips = args
    depth, wide = strips.shape[1], strips.shape[2]
    columns = b.shape[0] if turned else b.shape[1]
    for s in range(start, stop):
        few = min(wide, columns - s * wide)
        _pack_strips(b, turned, s * wide, few, 0, depth, strips[s : s + 1])


_run_pack_all = split(_pack_all)


def pack_strips(b: Array, turned: bool, strips: Array) -> None:
    """Fill strips ``(count, depth, width)`` with the columns of `b`, or of its transpose, zero beyond."""
    _run_pack_all(len(strips), max(1, (1 << 16) // (strips.shape[1] * strips.shape[2])), (b, turned, strips))


def multiply(a: Array, b: Array, out: Array) -> None:
    """Write ``a @ b`` for matrices that `serves` accepts; `out` overlaps neither."""
    (rows, columns), (high, wide) = out.shape, tile_shape()
    block_rows, block_columns = _blocks(rows, columns, high, wide)
    across = -(-columns // block_columns)
    units = -(-rows // block_rows) * across
    args = (*_oriented(a), *_oriented(b), out, block_rows, block_columns, across)
    _run_multiply()(units, 1, args)


def _blocks(rows: int, columns: int, high: int, wide: int) -> tuple[int, int]:
    """Return rows and columns of a unit of work: at most what the caches hold, and less for the sake of threads."""
    tall, strips = -(-rows // high), -(-columns // wide)
    up, across = -(-tall // _ROWS), -(-strips // _STRIPS)
    while up * across < _UNITS and (up < tall or across < strips):
        if rows // up > columns // across and up < tall:
            up += 1
        elif across < strips:
            across += 1
        else:
            up += 1
    return -(-tall // up) * high, -(-strips // across) * wide
