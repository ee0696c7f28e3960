"""All steps of a recurrent layer in one compiled pass, in float32.

Rows of a batch do not meet, so a unit of work takes a few of them through all steps and no thread waits for another
between two. The recurrent weight is packed once into strips that tiles of sums read
(`grilly_backend_cpu.fast.microkernel`); BLAS would pack it again at every step.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from grilly_backend_cpu.fast.gemm import pack_strips
from grilly_backend_cpu.fast.microkernel import tile_of, tile_shape
from grilly_backend_cpu.fast.recurrent import (
    gru_cells,
    gru_cells_vjp,
    lstm_cells,
    lstm_cells_vjp,
    rnn_cells,
    rnn_cells_vjp,
)
from grilly_backend_cpu.jit import Jit, split
from grilly_backend_cpu.memory import scratch

__all__ = ["gru", "gru_vjp", "lstm", "lstm_vjp", "rnn", "rnn_vjp"]

Array = NDArray[Any]
_STRIPS_SLOT: Final = 7

_tile: Any = None  # replaced by the intrinsic, and the numbers by its shape
_high: Any = None
_wide: Any = None
_product: Any = None  # replaced by `_strip_products` of that tile


def _strip_products(a: Any, strips: Any, out: Any) -> None:
    """``out = a @ b`` for the rows of a tile, `b` being packed."""
    depth = strips.shape[1]
    for s in range(strips.shape[0]):
        _tile(
            a, 0, a.shape[1], 1, strips, s * depth * _wide, _wide, out, s * _wide, out.shape[1], depth, True
        )


def _lstm(start: int, stop: int, args: Any) -> None:
    strips, x, c, y, state, cell, gates, cells, kept, lengths, reverse = args
    count, rows, width = y.shape
    z = np.empty((_high, strips.shape[0] * _wide), np.float32)
    held = np.zeros((_high, width), np.float32)
    pair = np.empty(
        (2, _high, width), np.float32
    )  # in turn: a loop that reads and writes one is not vectorised
    for unit in range(start, stop):
        top = unit * _high
        end = min(top + _high, rows)
        n = end - top
        held[:n] = state[top:end]
        pair[0, :n] = c[top:end]
        for step in range(count):
            t = count - 1 - step if reverse else step
            before, after = pair[step % 2], pair[1 - step % 2]
            _product(held, strips, z)
            lstm_cells(0, n, (z, x[t, top:end], before, after, y[t, top:end], held, lengths[top:end], t))
            if kept:
                gates[t, top:end] = z[:n, : 4 * width]
                cells[t, top:end] = after[:n]
        state[top:end] = held[:n]
        cell[top:end] = pair[count % 2, :n]


def _lstm_vjp(start: int, stop: int, args: Any) -> None:
    strips, gy, gates, cells, c, gx, state, cell, lengths, reverse = args
    count, rows, width = gy.shape
    back = np.empty((_high, strips.shape[0] * _wide), np.float32)
    grads = np.zeros((_high, 4 * width), np.float32)
    for unit in range(start, stop):
        top = unit * _high
        end = min(top + _high, rows)
        n = end - top
        for step in range(count):
            t = step if reverse else count - 1 - step
            before = c[top:end]
            if step < count - 1:
                before = cells[t + 1 if reverse else t - 1, top:end]
            parts = (
                gy[t, top:end],
                state[top:end],
                cell[top:end],
                gates[t, top:end],
                before,
                cells[t, top:end],
            )
            lstm_cells_vjp(0, n, (*parts, grads, lengths[top:end], t))
            gx[t, top:end] = grads[:n]
            _product(grads, strips, back)
            for r in range(n):
                if t < lengths[top + r]:
                    state[top + r] = back[r, :width]


def _gru(start: int, stop: int, args: Any) -> None:
    strips, bias, x, y, state, gates, kept, lengths, reverse = args
    count, rows, width = y.shape
    z = np.empty((_high, strips.shape[0] * _wide), np.float32)
    held, spare = np.zeros((_high, width), np.float32), np.empty((_high, 4 * width), np.float32)
    for unit in range(start, stop):
        top = unit * _high
        end = min(top + _high, rows)
        n = end - top
        held[:n] = state[top:end]
        for step in range(count):
            t = count - 1 - step if reverse else step
            _product(held, strips, z)
            shown = gates[t, top:end] if kept else spare[:n]
            gru_cells(0, n, (z, bias, x[t, top:end], shown, y[t, top:end], held, lengths[top:end], t))
        state[top:end] = held[:n]


def _gru_vjp(start: int, stop: int, args: Any) -> None:
    strips, gy, y, gates, h, gx, gs, state, lengths, reverse = args
    count, rows, width = gy.shape
    back = np.empty((_high, strips.shape[0] * _wide), np.float32)
    grads, old = np.zeros((_high, 3 * width), np.float32), np.empty((_high, width), np.float32)
    for unit in range(start, stop):
        top = unit * _high
        end = min(top + _high, rows)
        n = end - top
        for step in range(count):
            t = step if reverse else count - 1 - step
            for r in range(n):
                begins = step == count - 1 or (
                    reverse and t + 1 >= lengths[top + r]
                )  # a shorter sequence, from its end
                if begins:
                    old[r] = h[top + r]
                else:
                    old[r] = y[t + 1 if reverse else t - 1, top + r]
            parts = gy[t, top:end], state[top:end], gates[t, top:end], old, gx[t, top:end]
            gru_cells_vjp(0, n, (*parts, grads, lengths[top:end], t))
            gs[t, top:end] = grads[:n]
            _product(grads, strips, back)
            for r in range(n):
                line = state[top + r]
                for j in range(width):
                    line[j] += back[r, j]


def _rnn(start: int, stop: int, args: Any) -> None:
    strips, x, y, state, lengths, reverse, rectified = args
    count, rows, width = y.shape
    z = np.empty((_high, strips.shape[0] * _wide), np.float32)
    held = np.zeros((_high, width), np.float32)
    for unit in range(start, stop):
        top = unit * _high
        end = min(top + _high, rows)
        n = end - top
        held[:n] = state[top:end]
        for step in range(count):
            t = count - 1 - step if reverse else step
            _product(held, strips, z)
            rnn_cells(0, n, (z, x[t, top:end], y[t, top:end], held, lengths[top:end], t, rectified))
        state[top:end] = held[:n]


def _rnn_vjp(start: int, stop: int, args: Any) -> None:
    strips, gy, y, gx, state, lengths, reverse, rectified = args
    count, rows, width = gy.shape
    back = np.empty((_high, strips.shape[0] * _wide), np.float32)
    grads = np.zeros((_high, width), np.float32)
    for unit in range(start, stop):
        top = unit * _high
        end = min(top + _high, rows)
        n = end - top
        for step in range(count):
            t = step if reverse else count - 1 - step
            parts = gy[t, top:end], state[top:end], y[t, top:end], grads
            rnn_cells_vjp(0, n, (*parts, lengths[top:end], t, rectified))
            gx[t, top:end] = grads[:n]
            _product(grads, strips, back)
            for r in range(n):
                if t < lengths[top + r]:
                    state[top + r] = back[r, :width]


@functools.cache
def _compiled(function: Callable[..., None]) -> Any:
    high, wide = _shape()
    names = {"_tile": tile_of(high, wide), "_high": high, "_wide": wide}
    product = Jit(_strip_products, {}, f"strip_products[{high}x{wide}]")
    product.replaced |= names
    made = Jit(function, {}, f"{function.__name__}[{high}x{wide}]")
    made.replaced |= names | {"_product": product}
    return split(made)


def _shape() -> tuple[int, int]:
    """Return the tile: as wide as that of large products but of few rows, as batches are small."""
    high, wide = tile_shape()
    return min(high, 8), wide


def _packed(weight: Array, turned: bool) -> Array:
    """Return the strips of a weight, or of its transpose."""
    depth, columns = weight.shape[::-1] if turned else weight.shape
    wide = _shape()[1]
    strips = scratch((-(-columns // wide), depth, wide), np.float32, _STRIPS_SLOT)
    pack_strips(weight, turned, strips)
    return strips


def _units(rows: int) -> int:
    return -(-rows // _shape()[0])


def lstm(weight: Array, x: Array, c: Array, y: Array, state: Array, cell: Array, gates: Array | None,
         cells: Array | None, lengths: Array, reverse: bool) -> None:  # fmt: skip
    """Run all steps; `state` holds the first one and gets the last, `gates` and `cells` are kept where wanted."""
    nothing = np.empty((0, 0, 0), np.float32)
    kept = (nothing, nothing, False) if gates is None else (gates, cells, True)
    strips = _packed(weight, True)
    _compiled(_lstm)(_units(len(c)), 1, (strips, x, c, y, state, cell, *kept, lengths, reverse))


def lstm_vjp(weight: Array, gy: Array, gates: Array, cells: Array, c: Array, gx: Array, state: Array, cell: Array,
             lengths: Array, reverse: bool) -> None:  # fmt: skip
    """Run all steps backward; `state` and `cell` hold the gradients of the last ones and get those of the first."""
    strips = _packed(weight, False)
    _compiled(_lstm_vjp)(_units(len(c)), 1, (strips, gy, gates, cells, c, gx, state, cell, lengths, reverse))


def gru(weight: Array, bias: Array, x: Array, y: Array, state: Array, gates: Array | None, lengths: Array,
        reverse: bool) -> None:  # fmt: skip
    """Run all steps; `state` holds the first one and gets the last, `gates` are kept where wanted."""
    kept = (np.empty((0, 0, 0), np.float32), False) if gates is None else (gates, True)
    args = (_packed(weight, True), bias, x, y, state, *kept, lengths, reverse)
    _compiled(_gru)(_units(len(state)), 1, args)


def gru_vjp(weight: Array, gy: Array, y: Array, gates: Array, h: Array, gx: Array, gs: Array, state: Array,
            lengths: Array, reverse: bool) -> None:  # fmt: skip
    """Run all steps backward; `state` holds the gradient of the last one and gets that of the first."""
    args = (_packed(weight, False), gy, y, gates, h, gx, gs, state, lengths, reverse)
    _compiled(_gru_vjp)(_units(len(state)), 1, args)


def rnn(
    weight: Array, x: Array, y: Array, state: Array, lengths: Array, reverse: bool, rectified: bool
) -> None:
    """Run all steps; `state` holds the first one and gets the last."""
    args = (_packed(weight, True), x, y, state, lengths, reverse, rectified)
    _compiled(_rnn)(_units(len(state)), 1, args)


def rnn_vjp(weight: Array, gy: Array, y: Array, gx: Array, state: Array, lengths: Array, reverse: bool,
            rectified: bool) -> None:  # fmt: skip
    """Run all steps backward; `state` holds the gradient of the last one and gets that of the first."""
    args = (_packed(weight, False), gy, y, gx, state, lengths, reverse, rectified)
    _compiled(_rnn_vjp)(_units(len(state)), 1, args)
