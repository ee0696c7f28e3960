"""One direction of one recurrent layer over all time steps.

The caller projects the inputs of all steps in one product; what is left is the loop: a product with the state, then
a cell. Time is the first axis. `lengths` says how many steps each sequence has: beyond them the output is 0 and the
state stays, so sequences of different lengths share a batch, and `reverse` starts each at its own last step.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from grilly_core.dtypes import int32
from grilly_core.errors import ShapeError
from grilly_core.ops._typing import Attrs, Needs, Samples, Tensors
from grilly_core.ops.nn_activations import relu, relu_vjp, tanh_vjp
from grilly_core.ops.nn_cells import gru_cell_vjp, gru_step, lstm_cell_vjp, lstm_step
from grilly_core.ops.primitives import eq, iota, lt, matmul, sum, tanh, where
from grilly_core.ops.structure import split, stack, unstack
from grilly_core.ops.views import permute_dims, reshape, subview
from grilly_core.opspec import op
from grilly_core.tensor import Tensor

__all__ = ["gru_layer", "gru_layer_vjp", "lstm_layer", "lstm_layer_vjp", "rnn_layer", "rnn_layer_vjp"]


def _turned(weight: Tensor) -> Tensor:
    result: Tensor = permute_dims(weight, axes=(1, 0))
    return result


def _steps(count: int, reverse: bool) -> Iterator[int]:
    return iter(range(count - 1, -1, -1) if reverse else range(count))


def _before(t: int, count: int, reverse: bool) -> int | None:
    """Return the step whose state step `t` starts from, None for the first one."""
    before = t + 1 if reverse else t - 1
    return before if 0 <= before < count else None


def _unset(count: int, lists: int) -> tuple[list[Any], ...]:
    """Return lists that the steps fill."""
    return tuple([None] * count for _ in range(lists))


class _Mask:
    """Which sequences are running at a step."""

    def __init__(self, lengths: Tensor | None) -> None:
        self.lengths = None if lengths is None else reshape(lengths, shape=(lengths.shape[0], 1))

    def kept(self, t: int, new: Tensor, old: Tensor | float) -> Tensor:
        """Return `new` where a sequence runs at step `t`, else `old`."""
        if self.lengths is None:
            return new
        return where(lt(t, self.lengths), new, old)


def _check(name: str, gates: int, x: Tensor, w: Tensor, h: Tensor, lengths: Tensor | None) -> None:
    if x.ndim != 3 or x.shape[0] < 1 or w.ndim != 2 or h.ndim != 2:
        raise ShapeError(
            f"{name}: expected projections (T, N, {gates} H) of at least one step, a weight ({gates} H, P) and a "
            f"state (N, P); received shapes {tuple(x.shape)}, {tuple(w.shape)} and {tuple(h.shape)}."
        )
    rows, width = w.shape
    if x.shape[2] != rows or rows % gates or tuple(h.shape) != (x.shape[1], width):
        raise ShapeError(
            f"{name}: projections {tuple(x.shape)}, weight {tuple(w.shape)} and state {tuple(h.shape)} do not fit: "
            f"they are (T, N, {gates} H), ({gates} H, P) and (N, P)."
        )
    if lengths is not None and tuple(lengths.shape) != (x.shape[1],):
        raise ShapeError(f"{name}: lengths must be ({x.shape[1]},); received {tuple(lengths.shape)}.")


def _rows(x: Tensor) -> Tensor:
    """Join time and batch."""
    result: Tensor = reshape(x, shape=(x.shape[0] * x.shape[1], x.shape[2]))
    return result


def _weight_gradient(g: Tensor, y: Tensor, h: Tensor, lengths: Tensor | None, reverse: bool) -> Tensor:
    """Sum the outer products of each step's gradient with the state that it started from."""
    count = g.shape[0]
    first = _first(g, lengths, reverse)
    total = matmul(_turned(first), h)
    if count == 1:
        return total
    later = subview(g, starts=(0 if reverse else 1, 0, 0), sizes=(count - 1, *g.shape[1:]), steps=(1, 1, 1))
    earlier = subview(y, starts=(1 if reverse else 0, 0, 0), sizes=(count - 1, *y.shape[1:]), steps=(1, 1, 1))
    return total + matmul(_turned(_rows(later)), _rows(earlier))


def _first(g: Tensor, lengths: Tensor | None, reverse: bool) -> Tensor:
    """Return the gradient at the step that each sequence starts with."""
    if reverse and lengths is not None:
        steps = reshape(iota(size=g.shape[0], start=0, step=1, dtype=int32), shape=(g.shape[0], 1, 1))
        starts = eq(steps, reshape(lengths, shape=(1, lengths.shape[0], 1)) - 1)
        return sum(where(starts, g, 0.0), axis=0)
    at = g.shape[0] - 1 if reverse else 0
    return reshape(subview(g, starts=(at, 0, 0), sizes=(1, *g.shape[1:]), steps=(1, 1, 1)), shape=g.shape[1:])


def _stacked(parts: Sequence[Any]) -> Tensor:
    result: Tensor = stack(list(parts), axis=0)
    return result


@op("nn.rnn_layer", autocast="lower")
def rnn_layer(
    x: Tensor, w: Tensor, h: Tensor, lengths: Tensor | None = None, *, activation: str = "tanh", reverse: bool = False
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Return all states ``(T, N, H)`` of a plain recurrent layer, and the last one.

    `x` ``(T, N, H)`` are the projected inputs with all biases, `w` ``(H, H)`` the state's weight, `h` the first
    state; ``h = activation(x[t] + h @ w.T)``.
    """
    _check("rnn_layer", 1, x, w, h, lengths)
    function = _activation(activation)[0]
    mask, turned, xs = _Mask(lengths), _turned(w), unstack(x)
    ys: list[Any] = [None] * len(xs)
    for t in _steps(len(xs), reverse):
        new = function(xs[t] + matmul(h, turned))
        ys[t], h = mask.kept(t, new, 0.0), mask.kept(t, new, h)
    return _stacked(ys), h


def _activation(name: str) -> tuple[Any, Any]:
    if name not in ("tanh", "relu"):
        raise ValueError(f"rnn_layer: activation is 'tanh' or 'relu'; received {name!r}.")
    return (tanh, tanh_vjp) if name == "tanh" else (relu, relu_vjp)


@rnn_layer.vjp
def _(grads: Tensors, outs: Tensors, ins: Tensors, attrs: Attrs, needs: Needs) -> Tensors:
    _, w, h, lengths = ins
    gx, gh = rnn_layer_vjp(grads[0], grads[1], outs[0], w, lengths, **attrs)
    gw = _weight_gradient(gx, outs[0], h, lengths, attrs["reverse"]) if needs[1] else None
    return gx, gw, gh, None


@op("nn.rnn_layer_vjp", internal=True, autocast="lower")
def rnn_layer_vjp(
    gy: Tensor, gh: Tensor, y: Tensor, w: Tensor, lengths: Tensor | None = None, *, activation: str = "tanh",
    reverse: bool = False,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Gradients of `rnn_layer` for x and the first state."""
    gradient = _activation(activation)[1]
    mask, gys, ys = _Mask(lengths), unstack(gy), unstack(y)
    gxs: list[Any] = [None] * len(ys)
    for t in _steps(len(ys), not reverse):
        g = gradient(gys[t] + gh, ys[t])
        gxs[t] = mask.kept(t, g, 0.0)
        gh = mask.kept(t, matmul(g, w), gh)
    return _stacked(gxs), gh


@op("nn.lstm_layer", hidden=2, autocast="lower")
def lstm_layer(
    x: Tensor, w: Tensor, h: Tensor, c: Tensor, projection: Tensor | None = None, lengths: Tensor | None = None, *,
    reverse: bool = False,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    """Return all outputs ``(T, N, P)`` of an LSTM layer, and the last state h and c.

    `x` ``(T, N, 4 H)`` are the projected inputs with all biases (input, forget, candidate, output), `w` ``(4 H, P)``
    the state's weight, `h` ``(N, P)`` and `c` ``(N, H)`` the first state. With `projection` ``(P, H)`` the output of
    each step is mapped by it, else P is H. The hidden outputs are all gates and all cells.
    """
    _check("lstm_layer", 4, x, w, h, lengths)
    mask, turned, xs = _Mask(lengths), _turned(w), unstack(x)
    ys, gates, cells = _unset(len(xs), 3)
    for t in _steps(len(xs), reverse):
        new, cell, gates[t] = lstm_step(xs[t], matmul(h, turned), c)
        if projection is not None:
            new = matmul(new, _turned(projection))
        ys[t], h, c = mask.kept(t, new, 0.0), mask.kept(t, new, h), mask.kept(t, cell, c)
        cells[t] = c
    return _stacked(ys), h, c, _stacked(gates), _stacked(cells)


@lstm_layer.vjp
def _(grads: Tensors, outs: Tensors, ins: Tensors, attrs: Attrs, needs: Needs) -> Tensors:
    _, w, h, c, projection, lengths = ins
    y, _, _, gates, cells = outs
    gy, gh, gc = grads[0], grads[1], grads[2]
    gx, gh, gc, *gp = lstm_layer_vjp(gy, gh, gc, gates, cells, w, c, projection, lengths, **attrs)
    gw = _weight_gradient(gx, y, h, lengths, attrs["reverse"]) if needs[1] else None
    gprojection = None
    if needs[4]:
        width = cells.shape[2]
        o = split(gates, sizes=(3 * width, width), axis=2)[1]
        gprojection = matmul(_turned(_rows(gp[0])), _rows(o * tanh(cells)))
    return gx, gw, gh, gc, gprojection, None


@op("nn.lstm_layer_vjp", internal=True, autocast="lower")
def lstm_layer_vjp(
    gy: Tensor, gh: Tensor, gc: Tensor, gates: Tensor, cells: Tensor, w: Tensor, c: Tensor,
    projection: Tensor | None = None, lengths: Tensor | None = None, *, reverse: bool = False,
) -> tuple[Tensor, ...]:  # fmt: skip
    """Gradients of `lstm_layer` for x, h and c; with a projection also that of each step's mapped output."""
    mask, gys, all_gates, all_cells = _Mask(lengths), unstack(gy), unstack(gates), unstack(cells)
    count = len(gys)
    gxs, mapped = _unset(count, 2)
    for t in _steps(count, not reverse):
        before = _before(t, count, reverse)
        g = gys[t] + gh
        if projection is not None:
            mapped[t] = mask.kept(t, g, 0.0)
            g = matmul(g, projection)
        step, cell = lstm_cell_vjp(
            g, gc, all_gates[t], c if before is None else all_cells[before], all_cells[t]
        )
        gxs[t] = mask.kept(t, step, 0.0)
        gh, gc = mask.kept(t, matmul(step, w), gh), mask.kept(t, cell, gc)
    result = (_stacked(gxs), gh, gc)
    return result if projection is None else (*result, _stacked(mapped))


@op("nn.gru_layer", hidden=1, autocast="lower")
def gru_layer(
    x: Tensor, w: Tensor, h: Tensor, bias: Tensor | None = None, lengths: Tensor | None = None, *,
    reverse: bool = False,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """Return all states ``(T, N, H)`` of a GRU layer, and the last one.

    `x` ``(T, N, 3 H)`` are the projected inputs with their bias (reset, update, candidate), `w` ``(3 H, H)`` and
    `bias` those of the state, `h` the first state. The hidden output is what `gru_step` returns at each step.
    """
    _check("gru_layer", 3, x, w, h, lengths)
    mask, turned, xs = _Mask(lengths), _turned(w), unstack(x)
    ys, gates = _unset(len(xs), 2)
    for t in _steps(len(xs), reverse):
        projected = matmul(h, turned)
        new, gates[t] = gru_step(xs[t], projected if bias is None else projected + bias, h)
        ys[t], h = mask.kept(t, new, 0.0), mask.kept(t, new, h)
    return _stacked(ys), h, _stacked(gates)


@gru_layer.vjp
def _(grads: Tensors, outs: Tensors, ins: Tensors, attrs: Attrs, needs: Needs) -> Tensors:
    _, w, h, _, lengths = ins
    y, gates = outs[0], outs[2]
    gx, ghs, gh = gru_layer_vjp(grads[0], grads[1], y, gates, w, h, lengths, **attrs)
    gw = _weight_gradient(ghs, y, h, lengths, attrs["reverse"]) if needs[1] else None
    return gx, gw, gh, sum(ghs, axis=(0, 1)) if needs[3] else None, None


@op("nn.gru_layer_vjp", internal=True, autocast="lower")
def gru_layer_vjp(
    gy: Tensor, gh: Tensor, y: Tensor, gates: Tensor, w: Tensor, h: Tensor, lengths: Tensor | None = None, *,
    reverse: bool = False,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """Gradients of `gru_layer` for the projections of input and state at each step, and for the first state."""
    mask, gys, ys, all_gates = _Mask(lengths), unstack(gy), unstack(y), unstack(gates)
    count = len(gys)
    gxs, ghs = _unset(count, 2)
    for t in _steps(count, not reverse):
        before = _before(t, count, reverse)
        state = h if before is None else ys[before]
        if reverse and before is not None:
            state = mask.kept(before, state, h)  # a shorter sequence starts here, from the first state
        x_part, h_part, old = gru_cell_vjp(gys[t] + gh, all_gates[t], state)
        gxs[t], ghs[t] = mask.kept(t, x_part, 0.0), mask.kept(t, h_part, 0.0)
        gh = mask.kept(t, old + matmul(h_part, w), gh)
    return _stacked(gxs), _stacked(ghs), gh


def _lengths(s: Samples) -> Any:
    return s.i32(3, low=1, high=5)


@rnn_layer.samples
def _(s: Samples) -> None:
    s.case(s.f32(4, 3, 5), s.f32(5, 5), s.f32(3, 5))
    s.case(s.f32(4, 3, 5), s.f32(5, 5), s.f32(3, 5), _lengths(s), reverse=True)
    s.case(s.f32(1, 3, 5), s.f32(5, 5), s.f32(3, 5), activation="relu")
    s.error(ShapeError, "rnn_layer", s.f32(4, 3, 5), s.f32(5, 4), s.f32(3, 5))
    s.error(ValueError, "activation", s.f32(4, 3, 5), s.f32(5, 5), s.f32(3, 5), activation="gelu")


@rnn_layer_vjp.samples
def _(s: Samples) -> None:
    s.case(s.f32(4, 3, 5), s.f32(3, 5), s.f32(4, 3, 5), s.f32(5, 5))
    s.case(s.f32(4, 3, 5), s.f32(3, 5), s.f32(4, 3, 5), s.f32(5, 5), _lengths(s), reverse=True)


@lstm_layer.samples
def _(s: Samples) -> None:
    s.case(s.f32(4, 3, 8), s.f32(8, 2), s.f32(3, 2), s.f32(3, 2))
    s.case(s.f32(4, 0, 8), s.f32(8, 2), s.f32(0, 2), s.f32(0, 2))
    s.case(s.f32(4, 3, 8), s.f32(8, 2), s.f32(3, 2), s.f32(3, 2), None, _lengths(s))
    s.case(s.f32(4, 3, 12), s.f32(12, 2), s.f32(3, 2), s.f32(3, 3), s.f32(2, 3), _lengths(s), reverse=True)
    s.error(ShapeError, "lstm_layer", s.f32(4, 3, 9), s.f32(9, 2), s.f32(3, 2), s.f32(3, 2))
    s.error(
        ShapeError,
        "lengths",
        s.f32(4, 3, 8),
        s.f32(8, 2),
        s.f32(3, 2),
        s.f32(3, 2),
        None,
        s.i32(2, low=1, high=4),
    )


@lstm_layer_vjp.samples
def _(s: Samples) -> None:
    steps, state, gates = (4, 3, 2), (3, 2), (4, 3, 8)
    s.case(
        s.f32(*steps), s.f32(*state), s.f32(*state), s.f32(*gates), s.f32(*steps), s.f32(8, 2), s.f32(*state)
    )
    s.case(
        s.f32(*steps), s.f32(*state), s.f32(3, 3), s.f32(4, 3, 12), s.f32(4, 3, 3), s.f32(12, 2), s.f32(3, 3),
        s.f32(2, 3), _lengths(s), reverse=True,
    )  # fmt: skip


@gru_layer.samples
def _(s: Samples) -> None:
    s.case(s.f32(4, 3, 6), s.f32(6, 2), s.f32(3, 2), s.f32(6))
    s.case(s.f32(4, 3, 6), s.f32(6, 2), s.f32(3, 2), None, _lengths(s))
    s.case(s.f32(4, 3, 6), s.f32(6, 2), s.f32(3, 2), s.f32(6), _lengths(s), reverse=True)
    s.error(ShapeError, "gru_layer", s.f32(4, 3, 6), s.f32(6, 2), s.f32(2, 2))


@gru_layer_vjp.samples
def _(s: Samples) -> None:
    steps, state = (4, 3, 2), (3, 2)
    s.case(s.f32(*steps), s.f32(*state), s.f32(*steps), s.f32(4, 3, 8), s.f32(6, 2), s.f32(*state))
    s.case(
        s.f32(*steps), s.f32(*state), s.f32(*steps), s.f32(4, 3, 8), s.f32(6, 2), s.f32(*state), _lengths(s),
        reverse=True,
    )  # fmt: skip
