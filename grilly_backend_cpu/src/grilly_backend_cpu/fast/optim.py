"""One pass over a float32 parameter, its gradient and its moments, in place.

In place even where the outputs are fresh (they are filled first). Measured on 200,000 parameters, one thread: in place
100 µs; a kernel that reads three arrays and writes three others 210 to 240 µs; the same kernel, its outputs being its
inputs (as they are when donated), 350 µs.
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from grilly_backend_cpu.jit import njit, split

__all__ = ["adam", "filled", "sgd"]

_BLOCK: Final = 65536
_f = np.float32


@njit(fastmath={"contract"})
def _adam(start: int, stop: int, args: Any) -> None:
    p, m, v, g = args[0][start:stop], args[1][start:stop], args[2][start:stop], args[3][start:stop]
    rate, root, keep, decay, rest1, beta2, rest2, eps, sign = args[4:]
    for i in range(p.size):
        grad = sign * g[i] + decay * p[i]
        moment = m[i] + rest1 * (grad - m[i])
        square = beta2 * v[i] + rest2 * (grad * grad)
        m[i] = moment
        v[i] = square
        p[i] = keep * p[i] - rate * (moment / (_f(math.sqrt(square)) * root + eps))


@njit(fastmath={"contract"})
def _amsgrad(start: int, stop: int, args: Any) -> None:
    p, m, v, top = args[0][start:stop], args[1][start:stop], args[2][start:stop], args[3][start:stop]
    g = args[4][start:stop]
    rate, root, keep, decay, rest1, beta2, rest2, eps, sign = args[5:]
    for i in range(p.size):
        grad = sign * g[i] + decay * p[i]
        moment = m[i] + rest1 * (grad - m[i])
        square = beta2 * v[i] + rest2 * (grad * grad)
        largest = top[i] if top[i] > square else square
        m[i] = moment
        v[i] = square
        top[i] = largest
        p[i] = keep * p[i] - rate * (moment / (_f(math.sqrt(largest)) * root + eps))


@njit(fastmath={"contract"})
def _sgd(start: int, stop: int, args: Any) -> None:
    p, g = args[0][start:stop], args[1][start:stop]
    lr, decay, sign = args[2:]
    for i in range(p.size):
        p[i] = p[i] - lr * (sign * g[i] + decay * p[i])


@njit(fastmath={"contract"})
def _momentum(start: int, stop: int, args: Any) -> None:
    p, m, g = args[0][start:stop], args[1][start:stop], args[2][start:stop]
    lr, decay, sign, keep, add, look_ahead, along = args[3:]
    for i in range(p.size):
        grad = sign * g[i] + decay * p[i]
        moment = keep * m[i] + add * grad
        m[i] = moment
        p[i] = p[i] - lr * (along * grad + look_ahead * moment)


_run_adam = split(_adam)
_run_amsgrad = split(_amsgrad)
_run_sgd = split(_sgd)
_run_momentum = split(_momentum)


def filled(tensors: Any) -> list[Any]:
    """Return the outputs, flat, with the old values; `tensors` are p, g, states, an output for each but g."""
    states = len(tensors) // 2
    outs = tensors[states + 1 :]
    for old, new in zip((tensors[0], *tensors[2 : states + 1]), outs, strict=True):
        if old is not new and not np.may_share_memory(old, new):
            np.copyto(new, old)
    return [out.reshape(-1) for out in outs]


def adam(tensors: Any, s: Any) -> None:
    """Step of Adam; `tensors` are p, g, m, v (and the largest v), then the outputs."""
    flat = filled(tensors)
    run = _run_adam if len(flat) == 3 else _run_amsgrad
    numbers = (s.rate, s.root, s.keep, s.weight_decay, 1 - s.beta1, s.beta2, 1 - s.beta2, s.eps, s.sign)
    run(flat[0].size, _BLOCK, (*flat, tensors[1].reshape(-1), *map(_f, numbers)))


def sgd(tensors: Any, s: Any) -> None:
    """Step of SGD; `tensors` are p, g (and the momentum), then the outputs."""
    flat, g = filled(tensors), tensors[1].reshape(-1)
    if len(flat) == 1:
        _run_sgd(g.size, _BLOCK, (*flat, g, *map(_f, (s.lr, s.weight_decay, s.sign))))
        return
    if s.first:  # the momentum starts as the gradient: what it held, even NaN, counts for nothing
        flat[1].fill(0)
    keep, add = (0.0, 1.0) if s.first else (s.momentum, s.undamped)
    look_ahead, along = (s.momentum, 1.0) if s.nesterov else (1.0, 0.0)
    numbers = (s.lr, s.weight_decay, s.sign, keep, add, look_ahead, along)
    _run_momentum(g.size, _BLOCK, (*flat, g, *map(_f, numbers)))
