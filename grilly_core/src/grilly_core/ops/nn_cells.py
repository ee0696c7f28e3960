"""One step of recurrent layers, from the projections of input and state to the new state.

The matrix products stay outside: what is here is elementwise over ``(N, H)``, so a device can do it in one launch.
A cell keeps its gates for its gradient; the steps of a layer, which keeps those of all steps itself, return them.
"""

from __future__ import annotations

from grilly_core.errors import ShapeError
from grilly_core.ops._typing import Attrs, Needs, Samples, Tensors
from grilly_core.ops.nn_activations import sigmoid, sigmoid_vjp, tanh_vjp
from grilly_core.ops.primitives import tanh
from grilly_core.ops.structure import concat, split
from grilly_core.opspec import op
from grilly_core.tensor import Tensor

__all__ = ["gru_cell", "gru_cell_vjp", "gru_step", "lstm_cell", "lstm_cell_vjp", "lstm_step"]


def _parts(x: Tensor, count: int) -> tuple[Tensor, ...]:
    """Cut the last axis into equal parts."""
    result: tuple[Tensor, ...] = split(x, sizes=(x.shape[-1] // count,) * count, axis=x.ndim - 1)
    return result


def _check(name: str, x: Tensor, h: Tensor, state: Tensor, gates: int) -> None:
    wanted = (state.shape[0], gates * state.shape[1]) if state.ndim == 2 else None
    if tuple(x.shape) != wanted or tuple(h.shape) != wanted:
        raise ShapeError(
            f"{name}: with a state of shape (N, H) both projections are (N, {gates} H); received "
            f"{tuple(state.shape)}, {tuple(x.shape)} and {tuple(h.shape)}."
        )


@op("nn.lstm_step", internal=True)
def lstm_step(x: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Like `lstm_cell`, with the gates as a third output."""
    _check("lstm_cell", x, h, c, 4)
    i, f, g, o = _parts(x + h, 4)
    i, f, g, o = sigmoid(i), sigmoid(f), tanh(g), sigmoid(o)
    new = f * c + i * g
    return o * tanh(new), new, concat([i, f, g, o], axis=1)


@op("nn.lstm_cell", hidden=1)
def lstm_cell(x: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return the new state h and c of an LSTM.

    `x` and `h` are the projections ``(N, 4 H)`` of input and state, in the order input, forget, candidate, output.
    The hidden output are the gates.

    Examples
    --------
    >>> import grilly
    >>> from grilly_core.ops.nn import lstm_cell
    >>> lstm_cell(grilly.zeros((1, 8)), grilly.zeros((1, 8)), grilly.ones((1, 2)))[1].tolist()
    [[0.5, 0.5]]
    """
    return lstm_step(x, h, c)


@lstm_cell.vjp
def _(grads: Tensors, outs: Tensors, ins: Tensors, attrs: Attrs, needs: Needs) -> Tensors:
    g, gc = lstm_cell_vjp(grads[0], grads[1], outs[2], ins[2], outs[1])
    return g, g, gc


@op("nn.lstm_cell_vjp", internal=True)
def lstm_cell_vjp(gh: Tensor, gc: Tensor, gates: Tensor, c: Tensor, new: Tensor) -> tuple[Tensor, Tensor]:
    """Gradients of `lstm_cell` for either projection and for c."""
    i, f, g, o = _parts(gates, 4)
    t = tanh(new)
    inner = gc + tanh_vjp(gh * o, t)
    parts = [
        sigmoid_vjp(inner * g, i), sigmoid_vjp(inner * c, f), tanh_vjp(inner * i, g), sigmoid_vjp(gh * t, o)
    ]  # fmt: skip
    return concat(parts, axis=1), inner * f


@op("nn.gru_step", internal=True)
def gru_step(x: Tensor, h: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
    """Like `gru_cell`, with the gates and the state's part of the candidate as a second output."""
    _check("gru_cell", x, h, state, 3)
    xr, xz, xn = _parts(x, 3)
    hr, hz, hn = _parts(h, 3)
    r, z = sigmoid(xr + hr), sigmoid(xz + hz)
    n = tanh(xn + r * hn)
    return n + z * (state - n), concat([r, z, n, hn], axis=1)


@op("nn.gru_cell", hidden=1)
def gru_cell(x: Tensor, h: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
    """Return the new state of a GRU.

    `x` and `h` are the projections ``(N, 3 H)`` of input and state, in the order reset, update, candidate.
    The hidden output are the gates, and the state's part of the candidate.

    Examples
    --------
    >>> import grilly
    >>> from grilly_core.ops.nn import gru_cell
    >>> gru_cell(grilly.zeros((1, 6)), grilly.zeros((1, 6)), grilly.ones((1, 2))).tolist()
    [[0.5, 0.5]]
    """
    return gru_step(x, h, state)


@gru_cell.vjp
def _(grads: Tensors, outs: Tensors, ins: Tensors, attrs: Attrs, needs: Needs) -> Tensors:
    return gru_cell_vjp(grads[0], outs[1], ins[2])


@op("nn.gru_cell_vjp", internal=True)
def gru_cell_vjp(g: Tensor, gates: Tensor, state: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of `gru_cell` for both projections and the state."""
    r, z, n, hn = _parts(gates, 4)
    gn = tanh_vjp(g * (1.0 - z), n)
    gz = sigmoid_vjp(g * (state - n), z)
    gr = sigmoid_vjp(gn * hn, r)
    return concat([gr, gz, gn], axis=1), concat([gr, gz, gn * r], axis=1), g * z


def _lstm_samples(s: Samples) -> None:
    s.case(s.f32(3, 20), s.f32(3, 20), s.f32(3, 5))
    s.case(s.f32(0, 20), s.f32(0, 20), s.f32(0, 5))
    s.error(ShapeError, "lstm_cell", s.f32(3, 20), s.f32(3, 16), s.f32(3, 5))


@lstm_cell_vjp.samples
def _(s: Samples) -> None:
    s.case(s.f32(3, 5), s.f32(3, 5), s.f32(3, 20), s.f32(3, 5), s.f32(3, 5))


def _gru_samples(s: Samples) -> None:
    s.case(s.f32(3, 15), s.f32(3, 15), s.f32(3, 5))
    s.case(s.f32(0, 15), s.f32(0, 15), s.f32(0, 5))
    s.error(ShapeError, "gru_cell", s.f32(3, 15), s.f32(3, 15), s.f32(3, 4))


@gru_cell_vjp.samples
def _(s: Samples) -> None:
    s.case(s.f32(3, 5), s.f32(3, 20), s.f32(3, 5))


lstm_cell.samples(_lstm_samples)
lstm_step.samples(_lstm_samples)
gru_cell.samples(_gru_samples)
gru_step.samples(_gru_samples)
