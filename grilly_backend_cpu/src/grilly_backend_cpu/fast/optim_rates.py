"""One pass over a float32 parameter for the steps besides SGD's and Adam's, in place as those (see `optim`).

Each loop takes the parameter, its states and the gradient, then numbers; `sign` is -1 to maximise. Comparisons are
written so that NaN stays NaN.
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from grilly_backend_cpu.jit import njit, split

__all__ = ["LOOPS"]

_f = np.float32


@njit(fastmath={"contract"})
def _adamax(start: int, stop: int, args: Any) -> None:
    p, m, u, g = args[0][start:stop], args[1][start:stop], args[2][start:stop], args[3][start:stop]
    sign, decay, rate, rest1, beta2, eps = args[4:]
    for i in range(p.size):
        grad = sign * g[i] + decay * p[i]
        moment = m[i] + rest1 * (grad - m[i])
        kept, new = beta2 * u[i], abs(grad) + eps
        norm = kept if kept > new or kept != kept else new
        m[i] = moment
        u[i] = norm
        p[i] = p[i] - rate * (moment / norm)


@njit(fastmath={"contract"})
def _nadam(start: int, stop: int, args: Any) -> None:
    p, m, v, g = args[0][start:stop], args[1][start:stop], args[2][start:stop], args[3][start:stop]
    sign, decay, keep, of_grad, of_moment, root, rest1, beta2, rest2, eps = args[4:]
    for i in range(p.size):
        grad = sign * g[i] + decay * p[i]
        moment = m[i] + rest1 * (grad - m[i])
        square = beta2 * v[i] + rest2 * (grad * grad)
        m[i] = moment
        v[i] = square
        scale = _f(math.sqrt(square)) * root + eps
        p[i] = keep * p[i] - (of_grad * grad + of_moment * moment) / scale


@njit(fastmath={"contract"})
def _radam(start: int, stop: int, args: Any) -> None:
    p, m, v, g = args[0][start:stop], args[1][start:stop], args[2][start:stop], args[3][start:stop]
    sign, decay, keep, rate, rectified, factor, rest1, beta2, rest2, eps = args[4:]
    for i in range(p.size):
        grad = sign * g[i] + decay * p[i]
        moment = m[i] + rest1 * (grad - m[i])
        square = beta2 * v[i] + rest2 * (grad * grad)
        m[i] = moment
        v[i] = square
        move = rate * moment
        if rectified != 0:
            move = move * (factor / (_f(math.sqrt(square)) + eps))
        p[i] = keep * p[i] - move


@njit(fastmath={"contract"})
def _adagrad(start: int, stop: int, args: Any) -> None:
    p, s, g = args[0][start:stop], args[1][start:stop], args[2][start:stop]
    sign, decay, rate, eps = args[3:]
    for i in range(p.size):
        grad = sign * g[i] + decay * p[i]
        total = s[i] + grad * grad
        s[i] = total
        p[i] = p[i] - rate * (grad / (_f(math.sqrt(total)) + eps))


@njit(fastmath={"contract"})
def _adadelta(start: int, stop: int, args: Any) -> None:
    p, v, a, g = args[0][start:stop], args[1][start:stop], args[2][start:stop], args[3][start:stop]
    sign, decay, lr, rho, rest, eps = args[4:]
    for i in range(p.size):
        grad = sign * g[i] + decay * p[i]
        square = rho * v[i] + rest * (grad * grad)
        delta = _f(math.sqrt(a[i] + eps)) / _f(math.sqrt(square + eps)) * grad
        v[i] = square
        a[i] = rho * a[i] + rest * (delta * delta)
        p[i] = p[i] - lr * delta


@njit(fastmath={"contract"})
def _rmsprop(start: int, stop: int, args: Any) -> None:
    p, v, g = args[0][start:stop], args[1][start:stop], args[2][start:stop]
    sign, decay, lr, alpha, rest, eps, _ = args[3:]
    for i in range(p.size):
        grad = sign * g[i] + decay * p[i]
        square = alpha * v[i] + rest * (grad * grad)
        v[i] = square
        p[i] = p[i] - lr * (grad / (_f(math.sqrt(square)) + eps))


@njit(fastmath={"contract"})
def _rmsprop_centered(start: int, stop: int, args: Any) -> None:
    p, v, mean, g = args[0][start:stop], args[1][start:stop], args[2][start:stop], args[3][start:stop]
    sign, decay, lr, alpha, rest, eps, _ = args[4:]
    for i in range(p.size):
        grad = sign * g[i] + decay * p[i]
        square = alpha * v[i] + rest * (grad * grad)
        middle = mean[i] + rest * (grad - mean[i])
        v[i] = square
        mean[i] = middle
        p[i] = p[i] - lr * (grad / (_f(math.sqrt(square - middle * middle)) + eps))


@njit(fastmath={"contract"})
def _rmsprop_momentum(start: int, stop: int, args: Any) -> None:
    p, v, b, g = args[0][start:stop], args[1][start:stop], args[2][start:stop], args[3][start:stop]
    sign, decay, lr, alpha, rest, eps, momentum = args[4:]
    for i in range(p.size):
        grad = sign * g[i] + decay * p[i]
        square = alpha * v[i] + rest * (grad * grad)
        move = momentum * b[i] + grad / (_f(math.sqrt(square)) + eps)
        v[i] = square
        b[i] = move
        p[i] = p[i] - lr * move


@njit(fastmath={"contract"})
def _rmsprop_both(start: int, stop: int, args: Any) -> None:
    p, v, mean, b = args[0][start:stop], args[1][start:stop], args[2][start:stop], args[3][start:stop]
    g = args[4][start:stop]
    sign, decay, lr, alpha, rest, eps, momentum = args[5:]
    for i in range(p.size):
        grad = sign * g[i] + decay * p[i]
        square = alpha * v[i] + rest * (grad * grad)
        middle = mean[i] + rest * (grad - mean[i])
        move = momentum * b[i] + grad / (_f(math.sqrt(square - middle * middle)) + eps)
        v[i] = square
        mean[i] = middle
        b[i] = move
        p[i] = p[i] - lr * move


@njit(fastmath={"contract"})
def _rprop(start: int, stop: int, args: Any) -> None:
    p, before, size, g = args[0][start:stop], args[1][start:stop], args[2][start:stop], args[3][start:stop]
    sign, shrink, grow, least, largest = args[4:]
    for i in range(p.size):
        grad = sign * g[i]
        was, step = before[i], size[i]
        if (grad > 0 and was > 0) or (grad < 0 and was < 0):
            step = step * grow
        elif (grad > 0 and was < 0) or (grad < 0 and was > 0):
            step = step * shrink
            grad = _f(0)
        if step > largest:
            step = largest
        elif step < least:
            step = least
        before[i] = grad
        size[i] = step
        along = _f(1) if grad > 0 else _f(-1) if grad < 0 else grad
        p[i] = p[i] - along * step


@njit(fastmath={"contract"})
def _asgd(start: int, stop: int, args: Any) -> None:
    p, a, g = args[0][start:stop], args[1][start:stop], args[2][start:stop]
    sign, decay, keep, eta, mu = args[3:]
    for i in range(p.size):
        moved = p[i] * keep - eta * (sign * g[i] + decay * p[i])
        a[i] = moved if mu == 1 else a[i] + (moved - a[i]) * mu
        p[i] = moved


@njit(fastmath={"contract"})
def _fisher(start: int, stop: int, args: Any) -> None:
    p, f, g = args[0][start:stop], args[1][start:stop], args[2][start:stop]
    lr, keep, rest, root, damping = args[3:]
    for i in range(p.size):
        fisher = keep * f[i] + rest * (g[i] * g[i])
        f[i] = fisher
        p[i] = p[i] - lr * (g[i] / (fisher * root + damping))


#: The loop of each rule, over blocks.
LOOPS: Final = {
    "adamax": split(_adamax),
    "nadam": split(_nadam),
    "radam": split(_radam),
    "adagrad": split(_adagrad),
    "adadelta": split(_adadelta),
    "rmsprop": split(_rmsprop),
    "rmsprop_centered": split(_rmsprop_centered),
    "rmsprop_momentum": split(_rmsprop_momentum),
    "rmsprop_both": split(_rmsprop_both),
    "rprop": split(_rprop),
    "asgd": split(_asgd),
    "fisher": split(_fisher),
}
