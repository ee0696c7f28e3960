"""Recurrent layers over all time steps: a BLAS product for each step, and one compiled pass for what is between."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from grilly_backend_cpu.fast import recurrent as fast
from grilly_backend_cpu.kernels.support import FAST, WIDENED
from grilly_backend_cpu.quiet import quietly

__all__ = ["register"]

Array = NDArray[Any]
_WIDE_BATCH: Final = 16


def _array(view: Any) -> Any:
    return None if view is None else view.array


def _lengths(view: Any, count: int, rows: int) -> Array:
    if view is None:
        return np.full(rows, count, np.int32)
    return np.ascontiguousarray(view.array, np.int32)


def _order(count: int, reverse: bool) -> range:
    return range(count - 1, -1, -1) if reverse else range(count)


def _turned(weight: Array) -> Array:
    # BLAS takes a transposed matrix as it is, but packs a plain one a third faster, and this one is packed every step.
    return np.ascontiguousarray(weight.T)


class _Running:
    """Which rows run at a step, for what NumPy does to them; without lengths all do."""

    def __init__(self, view: Any, lengths: Array) -> None:
        self.lengths = None if view is None else lengths

    def put(self, t: int, new: Array, into: Array) -> None:
        """Write the rows of `new` that run."""
        np.copyto(into, new, where=True if self.lengths is None else (t < self.lengths)[:, None])

    def clear(self, t: int, rows: Array) -> None:
        """Write 0 to the rows that do not run."""
        if self.lengths is not None:
            rows[t >= self.lengths] = 0


class _Backward:
    """The product that takes a step's gradient to the step before; BLAS is a fifth faster with the batch last."""

    def __init__(self, weight: Array, rows: int) -> None:
        self.weight = weight
        self.turned = _turned(weight) if rows >= _WIDE_BATCH else None
        self.product = np.empty((weight.shape[1], rows), weight.dtype)

    def __call__(self, g: Array) -> Array:
        """Return ``g @ weight``, valid until the next call."""
        if self.turned is None:
            return np.matmul(g, self.weight)
        return np.matmul(self.turned, g.T, self.product).T


@quietly
def rnn_layer(stream: Any, outs: Any, ins: Any, attrs: dict[str, Any]) -> None:
    """``h = activation(x[t] + h @ w.T)``."""
    x, w, h = (v.array for v in ins[:3])
    y, state = outs[0].array, outs[1].array
    (count, rows, width), turned = y.shape, _turned(w)
    lengths, z, rectified = _lengths(ins[3], count, rows), np.empty_like(h), attrs["activation"] == "relu"
    np.copyto(state, h)
    for t in _order(count, attrs["reverse"]):
        np.matmul(state, turned, z)
        fast.rnn_step(rows, width, (z, x[t], y[t], state, lengths, t, rectified))


@quietly
def rnn_layer_vjp(stream: Any, outs: Any, ins: Any, attrs: dict[str, Any]) -> None:
    """Gradients for x and the first state."""
    gy, gh, y, w = (v.array for v in ins[:4])
    gx, state = outs[0].array, outs[1].array
    count, rows, width = y.shape
    lengths, rectified = _lengths(ins[4], count, rows), attrs["activation"] == "relu"
    running, back = _Running(ins[4], lengths), _Backward(w, rows)
    np.copyto(state, gh)
    for t in _order(count, not attrs["reverse"]):
        fast.rnn_step_vjp(rows, width, (gy[t], state, y[t], gx[t], lengths, t, rectified))
        running.put(t, back(gx[t]), state)


@quietly
def lstm_layer(stream: Any, outs: Any, ins: Any, attrs: dict[str, Any]) -> None:
    """All steps of an LSTM layer; gates and cells are kept where they are wanted."""
    x, w, h, c = (v.array for v in ins[:4])
    projection = None if ins[4] is None else _turned(ins[4].array)
    y, state = outs[0].array, outs[1].array
    (count, rows, _), width, turned = y.shape, c.shape[1], _turned(w)
    gates, cells = (outs[3].array, outs[4].array) if len(outs) > 3 else (None, None)
    # Two in turn: a loop that reads and writes one array is not vectorised.
    spare = (np.empty_like(c), np.empty_like(c)) if cells is None else ()
    lengths, z, inner = _lengths(ins[5], count, rows), np.empty(x.shape[1:], x.dtype), np.empty_like(c)
    running = _Running(ins[5], lengths)
    np.copyto(state, h)
    before = c
    for t in _order(count, attrs["reverse"]):
        if gates is not None:
            z = gates[t]
        cell = spare[t % 2] if cells is None else cells[t]
        np.matmul(state, turned, z)
        shown, kept = (y[t], state) if projection is None else (inner, inner)
        fast.lstm_step(rows, width, (z, x[t], before, cell, shown, kept, lengths, t))
        if projection is not None:
            np.matmul(inner, projection, y[t])
            running.put(t, y[t], state)
            running.clear(t, y[t])
        before = cell
    np.copyto(outs[2].array, before)


@quietly
def lstm_layer_vjp(stream: Any, outs: Any, ins: Any, attrs: dict[str, Any]) -> None:
    """Gradients for x, h and c, and with a projection for the mapped outputs."""
    gy, gh, gc, gates, cells, w, c = (v.array for v in ins[:7])
    projection = _array(ins[7])
    gx, state, cell = (v.array for v in outs[:3])
    (count, rows, _), width, reverse = gy.shape, c.shape[1], attrs["reverse"]
    lengths = _lengths(ins[8], count, rows)
    running, back = _Running(ins[8], lengths), _Backward(w, rows)
    inner, none = np.empty_like(c), np.zeros_like(c)
    np.copyto(state, gh)
    np.copyto(cell, gc)
    order = _order(count, not reverse)
    for t in order:
        before = c if t == order[-1] else cells[t + 1 if reverse else t - 1]
        parts = (gy[t], state)
        if projection is not None:
            mapped = np.add(*parts, outs[3].array[t])
            running.clear(t, mapped)
            parts = (np.matmul(mapped, projection, inner), none)
        fast.lstm_step_vjp(rows, width, (*parts, cell, gates[t], before, cells[t], gx[t], lengths, t))
        running.put(t, back(gx[t]), state)


@quietly
def gru_layer(stream: Any, outs: Any, ins: Any, attrs: dict[str, Any]) -> None:
    """All steps of a GRU layer; gates are kept where they are wanted."""
    x, w, h = (v.array for v in ins[:3])
    y, state = outs[0].array, outs[1].array
    (count, rows, width), turned = y.shape, _turned(w)
    bias = np.zeros(3 * width, x.dtype) if ins[3] is None else ins[3].array
    lengths, z = _lengths(ins[4], count, rows), np.empty(x.shape[1:], x.dtype)
    kept = outs[2].array if len(outs) > 2 else None
    gates = np.empty((rows, 4 * width), x.dtype) if kept is None else kept[0]
    np.copyto(state, h)
    for t in _order(count, attrs["reverse"]):
        np.matmul(state, turned, z)
        gates = gates if kept is None else kept[t]
        fast.gru_step(rows, width, (z, bias, x[t], gates, y[t], state, lengths, t))


@quietly
def gru_layer_vjp(stream: Any, outs: Any, ins: Any, attrs: dict[str, Any]) -> None:
    """Gradients for both projections and the first state."""
    gy, gh, y, gates, w, h = (v.array for v in ins[:6])
    gx, gs, state = (v.array for v in outs)
    (count, rows, width), reverse = y.shape, attrs["reverse"]
    lengths, back = _lengths(ins[6], count, rows), _Backward(w, rows)
    np.copyto(state, gh)
    order = _order(count, not reverse)
    for t in order:
        before = h if t == order[-1] else y[t + 1 if reverse else t - 1]
        if reverse and ins[6] is not None and t != order[-1]:
            before = np.where((t + 1 < lengths)[:, None], before, h)  # a shorter sequence starts here
        fast.gru_step_vjp(rows, width, (gy[t], state, gates[t], before, gx[t], gs[t], lengths, t))
        np.add(state, back(gs[t]), state)


def _served(c: Any) -> bool:
    return c.outs[0].size > 0 and all(
        s.dtype.code == "f32" for s in c.ins if s is not None and s.dtype.is_floating
    )


def register(kernels: Any, runtime: Any) -> None:
    """Declare the kernels of this module; without Numba the bodies serve."""
    if not runtime.has_numba:
        return
    functions = (rnn_layer, rnn_layer_vjp, lstm_layer, lstm_layer_vjp, gru_layer, gru_layer_vjp)
    for function in functions:
        kernels.add(
            f"nn.{function.__name__}", function, dtypes={"f32"}, compute=WIDENED, layout="contiguous", when=_served,
            priority=FAST,
        )  # fmt: skip
