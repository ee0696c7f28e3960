"""One pass over a float32 parameter, its gradient and its moments."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from grilly_backend_cpu.jit import njit, split

__all__ = ["adam", "sgd"]

#: Seven streams of memory: a block is about 15 µs.
_BLOCK: Final = 32768
_f = np.float32


@njit(fastmath={"contract"})
def _adam(start: int, stop: int, args: Any) -> None:
    p, g, m, v = args[0][start:stop], args[1][start:stop], args[2][start:stop], args[3][start:stop]
    p_out, m_out, v_out = args[4][start:stop], args[5][start:stop], args[6][start:stop]
    rate, root, keep, decay, rest1, beta2, rest2, eps, sign = args[7:]
    for i in range(p.size):
        grad = sign * g[i] + decay * p[i]
        moment = m[i] + rest1 * (grad - m[i])
        square = beta2 * v[i] + rest2 * (grad * grad)
        m_out[i] = moment
        v_out[i] = square
        p_out[i] = keep * p[i] - rate * (moment / (_f(math.sqrt(square)) * root + eps))


@njit(fastmath={"contract"})
def _amsgrad(start: int, stop: int, args: Any) -> None:
    p, g, m, v, top = (
        args[0][start:stop], args[1][start:stop], args[2][start:stop], args[3][start:stop], args[4][start:stop],
    )  # fmt: skip
    p_out, m_out, v_out, top_out = (
        args[5][start:stop], args[6][start:stop], args[7][start:stop], args[8][start:stop],
    )  # fmt: skip
    rate, root, keep, decay, rest1, beta2, rest2, eps, sign = args[9:]
    for i in range(p.size):
        grad = sign * g[i] + decay * p[i]
        moment = m[i] + rest1 * (grad - m[i])
        square = beta2 * v[i] + rest2 * (grad * grad)
        largest = top[i] if top[i] > square else square
        m_out[i] = moment
        v_out[i] = square
        top_out[i] = largest
        p_out[i] = keep * p[i] - rate * (moment / (_f(math.sqrt(largest)) * root + eps))


@njit(fastmath={"contract"})
def _sgd(start: int, stop: int, args: Any) -> None:
    p, g, out = args[0][start:stop], args[1][start:stop], args[2][start:stop]
    lr, decay, sign = args[3:]
    for i in range(p.size):
        out[i] = p[i] - lr * (sign * g[i] + decay * p[i])


@njit(fastmath={"contract"})
def _momentum(start: int, stop: int, args: Any) -> None:
    p, g, m = args[0][start:stop], args[1][start:stop], args[2][start:stop]
    out, m_out = args[3][start:stop], args[4][start:stop]
    lr, decay, sign, keep, add, look_ahead, along = args[5:]
    for i in range(p.size):
        grad = sign * g[i] + decay * p[i]
        moment = keep * m[i] + add * grad
        m_out[i] = moment
        out[i] = p[i] - lr * (along * grad + look_ahead * moment)


_run_adam = split(_adam)
_run_amsgrad = split(_amsgrad)
_run_sgd = split(_sgd)
_run_momentum = split(_momentum)


def adam(tensors: Any, s: Any) -> None:
    """Step of Adam; `tensors` are p, g, m, v (and the largest v), then the outputs."""
    scalars = tuple(
        map(_f, (s.rate, s.root, s.keep, s.weight_decay, 1 - s.beta1, s.beta2, 1 - s.beta2, s.eps, s.sign))
    )
    run = _run_adam if len(tensors) == 7 else _run_amsgrad
    run(tensors[0].size, _BLOCK, (*[t.reshape(-1) for t in tensors], *scalars))


def sgd(tensors: Any, s: Any) -> None:
    """Step of SGD; `tensors` are p, g (and the momentum), then the outputs."""
    flat = [t.reshape(-1) for t in tensors]
    if len(tensors) == 3:
        _run_sgd(flat[0].size, _BLOCK, (*flat, *map(_f, (s.lr, s.weight_decay, s.sign))))
        return
    if s.first:  # the momentum starts as the gradient: what it held, even NaN, counts for nothing
        flat[2] = np.zeros_like(flat[2])
    keep, add = (0.0, 1.0) if s.first else (s.momentum, s.undamped)
    look_ahead, along = (s.momentum, 1.0) if s.nesterov else (1.0, 0.0)
    scalars = tuple(map(_f, (s.lr, s.weight_decay, s.sign, keep, add, look_ahead, along)))
    _run_momentum(flat[0].size, _BLOCK, (*flat, *scalars))
