"""Recurrent layers over all time steps: one compiled pass, or with a projection a pass and BLAS products for each."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from grilly_backend_cpu.fast import recurrent as fast
from grilly_backend_cpu.fast import recurrent_layers as layers
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


def rnn_layer(stream: Any, outs: Any, ins: Any, attrs: dict[str, Any]) -> None:
    """``h = activation(x[t] + h @ w.T)``."""
    x, w, h = (v.array for v in ins[:3])
    y, state = outs[0].array, outs[1].array
    np.copyto(state, h)
    lengths = _lengths(ins[3], *y.shape[:2])
    layers.rnn(w, x, y, state, lengths, attrs["reverse"], attrs["activation"] == "relu")


def rnn_layer_vjp(stream: Any, outs: Any, ins: Any, attrs: dict[str, Any]) -> None:
    """Gradients for x and the first state."""
    gy, gh, y, w = (v.array for v in ins[:4])
    gx, state = outs[0].array, outs[1].array
    np.copyto(state, gh)
    lengths = _lengths(ins[4], *y.shape[:2])
    layers.rnn_vjp(w, gy, y, gx, state, lengths, attrs["reverse"], attrs["activation"] == "relu")


def lstm_layer(stream: Any, outs: Any, ins: Any, attrs: dict[str, Any]) -> None:
    """All steps of an LSTM layer; gates and cells are kept where they are wanted."""
    x, w, h, c = (v.array for v in ins[:4])
    y, state, cell = (v.array for v in outs[:3])
    kept = (outs[3].array, outs[4].array) if len(outs) > 3 else (None, None)
    np.copyto(state, h)
    lengths = _lengths(ins[5], *y.shape[:2])
    if ins[4] is None:
        layers.lstm(w, x, c, y, state, cell, *kept, lengths, attrs["reverse"])
    else:
        where = _Running(ins[5], lengths), lengths, attrs["reverse"]
        _lstm_projected(w, _turned(ins[4].array), x, c, (y, state, cell), *kept, *where)


@quietly
def _lstm_projected(
    w: Array, projection: Array, x: Array, c: Array, results: Any, gates: Any, cells: Any, running: _Running,
    lengths: Array, reverse: bool,
) -> None:  # fmt: skip
    y, state, cell = results
    (count, rows, _), width, turned = y.shape, c.shape[1], _turned(w)
    # Two in turn: a loop that reads and writes one array is not vectorised.
    spare = (np.empty_like(c), np.empty_like(c)) if cells is None else ()
    z, inner, before = np.empty(x.shape[1:], x.dtype), np.empty_like(c), c
    for t in _order(count, reverse):
        z = z if gates is None else gates[t]
        after = spare[t % 2] if cells is None else cells[t]
        np.matmul(state, turned, z)
        fast.lstm_step(rows, width, (z, x[t], before, after, inner, inner, lengths, t))
        np.matmul(inner, projection, y[t])
        running.put(t, y[t], state)
        running.clear(t, y[t])
        before = after
    np.copyto(cell, before)


def lstm_layer_vjp(stream: Any, outs: Any, ins: Any, attrs: dict[str, Any]) -> None:
    """Gradients for x, h and c, and with a projection for the mapped outputs."""
    gy, gh, gc, gates, cells, w, c = (v.array for v in ins[:7])
    gx, state, cell = (v.array for v in outs[:3])
    np.copyto(state, gh)
    np.copyto(cell, gc)
    lengths = _lengths(ins[8], *gy.shape[:2])
    if ins[7] is None:
        layers.lstm_vjp(w, gy, gates, cells, c, gx, state, cell, lengths, attrs["reverse"])
    else:
        where = _Running(ins[8], lengths), lengths, attrs["reverse"]
        _lstm_projected_vjp(w, ins[7].array, gy, gates, cells, c, (gx, state, cell, outs[3].array), *where)


@quietly
def _lstm_projected_vjp(
    w: Array, projection: Array, gy: Array, gates: Array, cells: Array, c: Array, results: Any, running: _Running,
    lengths: Array, reverse: bool,
) -> None:  # fmt: skip
    gx, state, cell, g_mapped = results
    (count, rows, _), width = gy.shape, c.shape[1]
    back, inner, none = _Backward(w, rows), np.empty_like(c), np.zeros_like(c)
    order = _order(count, not reverse)
    for t in order:
        before = c if t == order[-1] else cells[t + 1 if reverse else t - 1]
        mapped = np.add(gy[t], state, g_mapped[t])
        running.clear(t, mapped)
        parts = (np.matmul(mapped, projection, inner), none)
        fast.lstm_step_vjp(rows, width, (*parts, cell, gates[t], before, cells[t], gx[t], lengths, t))
        running.put(t, back(gx[t]), state)


def gru_layer(stream: Any, outs: Any, ins: Any, attrs: dict[str, Any]) -> None:
    """All steps of a GRU layer; gates are kept where they are wanted."""
    x, w, h = (v.array for v in ins[:3])
    y, state = outs[0].array, outs[1].array
    bias = np.zeros(3 * y.shape[2], x.dtype) if ins[3] is None else ins[3].array
    kept = outs[2].array if len(outs) > 2 else None
    np.copyto(state, h)
    layers.gru(w, bias, x, y, state, kept, _lengths(ins[4], *y.shape[:2]), attrs["reverse"])


def gru_layer_vjp(stream: Any, outs: Any, ins: Any, attrs: dict[str, Any]) -> None:
    """Gradients for both projections and the first state."""
    gy, gh, y, gates, w, h = (v.array for v in ins[:6])
    gx, gs, state = (v.array for v in outs)
    np.copyto(state, gh)
    layers.gru_vjp(w, gy, y, gates, h, gx, gs, state, _lengths(ins[6], *y.shape[:2]), attrs["reverse"])


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
