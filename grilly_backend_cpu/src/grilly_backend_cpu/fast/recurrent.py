"""What a step of a recurrent layer does between its matrix products, in float32: one pass over ``(N, H)``.

A row whose sequence has ended (its length is at most `t`) keeps its state, gives the output 0 and gets no gradient.
"""

from __future__ import annotations

from typing import Any, Final

from grilly_backend_cpu.fast.maths import sigmoid32, tanh32
from grilly_backend_cpu.jit import njit, split

__all__ = [
    "gru_cells", "gru_cells_vjp", "lstm_cells", "lstm_cells_vjp", "lstm_step", "lstm_step_vjp", "rnn_cells",
    "rnn_cells_vjp",
]  # fmt: skip

#: Cells of a block, about 100 µs: threads of BLAS still spin when a step's product is done, so that sharing less than
#: that takes longer than doing it alone (measured on two cores: 43 µs shared, 25 µs alone, for 8192 cells).
_CELLS: Final = 1 << 15
_CONTRACT: Final = {"fastmath": {"contract"}}


@njit(**_CONTRACT)
def rnn_cells(start: int, stop: int, args: Any) -> None:
    """One step of a simple layer."""
    z, x, y, state, lengths, t, rectified = args
    for n in range(start, stop):
        product, row, out, new = z[n], x[n], y[n], state[n]
        if t >= lengths[n]:
            out[:] = 0
        elif rectified:
            for j in range(out.size):
                total = product[j] + row[j]
                out[j] = total if total > 0 or total != total else 0
                new[j] = out[j]
        else:
            for j in range(out.size):
                out[j] = tanh32(product[j] + row[j])
                new[j] = out[j]


@njit(**_CONTRACT)
def rnn_cells_vjp(start: int, stop: int, args: Any) -> None:
    """Gradients of one."""
    gy, gh, y, gx, lengths, t, rectified = args
    for n in range(start, stop):
        g, later, out, grad = gy[n], gh[n], y[n], gx[n]
        if t >= lengths[n]:
            grad[:] = 0
        elif rectified:
            for j in range(out.size):
                grad[j] = g[j] + later[j] if out[j] > 0 else 0
        else:
            for j in range(out.size):
                grad[j] = (g[j] + later[j]) * (1 - out[j] * out[j])


@njit(**_CONTRACT)
def lstm_cells(start: int, stop: int, args: Any) -> None:
    """One step of an LSTM; `z` becomes the gates."""
    z, x, before, cell, y, state, lengths, t = args
    h = cell.shape[1]
    for n in range(start, stop):
        old, new, out, kept = before[n], cell[n], y[n], state[n]
        if t >= lengths[n]:
            new[:] = old
            out[:] = 0
            continue
        zi, zf, zg, zo = z[n, :h], z[n, h : 2 * h], z[n, 2 * h : 3 * h], z[n, 3 * h :]
        xi, xf, xg, xo = x[n, :h], x[n, h : 2 * h], x[n, 2 * h : 3 * h], x[n, 3 * h :]
        for j in range(h):
            i, f = sigmoid32(zi[j] + xi[j]), sigmoid32(zf[j] + xf[j])
            g, o = tanh32(zg[j] + xg[j]), sigmoid32(zo[j] + xo[j])
            c = f * old[j] + i * g
            zi[j], zf[j], zg[j], zo[j] = i, f, g, o
            new[j] = c
            value = o * tanh32(c)
            out[j] = value
            kept[j] = value


@njit(**_CONTRACT)
def lstm_cells_vjp(start: int, stop: int, args: Any) -> None:
    """Gradients of one; that of the cell is brought a step back."""
    gy, gh, gc, gates, before, cell, gx, lengths, t = args
    h = cell.shape[1]
    for n in range(start, stop):
        if t >= lengths[n]:
            gx[n] = 0
            continue
        g, later, g_cell, old, new = gy[n], gh[n], gc[n], before[n], cell[n]
        gi, gf, gg, go = gates[n, :h], gates[n, h : 2 * h], gates[n, 2 * h : 3 * h], gates[n, 3 * h :]
        xi, xf, xg, xo = gx[n, :h], gx[n, h : 2 * h], gx[n, 2 * h : 3 * h], gx[n, 3 * h :]
        for j in range(h):
            i, f, u, o, tanh = gi[j], gf[j], gg[j], go[j], tanh32(new[j])
            outer = g[j] + later[j]
            inner = g_cell[j] + outer * o * (1 - tanh * tanh)
            xi[j] = inner * u * i * (1 - i)
            xf[j] = inner * old[j] * f * (1 - f)
            xg[j] = inner * i * (1 - u * u)
            xo[j] = outer * tanh * o * (1 - o)
            g_cell[j] = inner * f


@njit(**_CONTRACT)
def gru_cells(start: int, stop: int, args: Any) -> None:
    """One step of a GRU."""
    z, bias, x, gates, y, state, lengths, t = args
    h = state.shape[1]
    br, bz, bn = bias[:h], bias[h : 2 * h], bias[2 * h :]
    for n in range(start, stop):
        out, kept = y[n], state[n]
        if t >= lengths[n]:
            out[:] = 0
            continue
        zr, zz, zn = z[n, :h], z[n, h : 2 * h], z[n, 2 * h :]
        xr, xz, xn = x[n, :h], x[n, h : 2 * h], x[n, 2 * h :]
        gr, gz, gn, gh = gates[n, :h], gates[n, h : 2 * h], gates[n, 2 * h : 3 * h], gates[n, 3 * h :]
        for j in range(h):
            reset, update = sigmoid32(xr[j] + (zr[j] + br[j])), sigmoid32(xz[j] + (zz[j] + bz[j]))
            own = zn[j] + bn[j]
            candidate = tanh32(xn[j] + reset * own)
            gr[j], gz[j], gn[j], gh[j] = reset, update, candidate, own
            value = candidate + update * (kept[j] - candidate)
            out[j] = value
            kept[j] = value


@njit(**_CONTRACT)
def gru_cells_vjp(start: int, stop: int, args: Any) -> None:
    """Gradients of one, but for what the recurrent product brings."""
    gy, gh, gates, before, gx, gs, lengths, t = args
    h = before.shape[1]
    for n in range(start, stop):
        if t >= lengths[n]:
            gx[n] = 0
            gs[n] = 0
            continue
        g_out, later, old = gy[n], gh[n], before[n]
        gr, gz, gn, own = gates[n, :h], gates[n, h : 2 * h], gates[n, 2 * h : 3 * h], gates[n, 3 * h :]
        xr, xz, xn = gx[n, :h], gx[n, h : 2 * h], gx[n, 2 * h :]
        sr, sz, sn = gs[n, :h], gs[n, h : 2 * h], gs[n, 2 * h :]
        for j in range(h):
            reset, update, candidate = gr[j], gz[j], gn[j]
            g = g_out[j] + later[j]
            inner = g * (1 - update) * (1 - candidate * candidate)
            to_update = g * (old[j] - candidate) * update * (1 - update)
            to_reset = inner * own[j] * reset * (1 - reset)
            xr[j], xz[j], xn[j] = to_reset, to_update, inner
            sr[j], sz[j], sn[j] = to_reset, to_update, inner * reset
            later[j] = g * update


def _runner(body: Any) -> Any:
    run = split(body)

    def step(rows: int, width: int, args: tuple[Any, ...]) -> None:
        run(rows, max(1, _CELLS // width), args)

    return step


lstm_step = _runner(lstm_cells)
lstm_step_vjp = _runner(lstm_cells_vjp)
