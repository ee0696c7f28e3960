"""Rules that change weights by what the two sides of a synapse did.

Weights are ``(O, I)``, spikes ``(T, B, I)`` and ``(T, B, O)``. Traces decay first and then take the spikes of their
step, so spikes of one step are a pair, worth ``A+ - A-``; with `coincident` False they are none. A pair one step apart
counts with one decay. Changes are averaged over the batch, summed over time, and weights are kept within bounds after
each step.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from grilly_core.errors import ShapeError
from grilly_core.ops.creation import tril
from grilly_core.ops.primitives import matmul, maximum, minimum, sum, where
from grilly_core.ops.structure import unstack
from grilly_core.ops.views import permute_dims, reshape
from grilly_core.opspec import op
from grilly_core.tensor import Tensor

__all__ = [
    "hebbian", "homeostasis", "oja_step", "reward_stdp", "sanger_step", "stdp", "triplet_stdp",
]  # fmt: skip

Samples = Any


def _t(x: Tensor) -> Tensor:
    result: Tensor = permute_dims(x, axes=(1, 0))
    return result


def _bounded(w: Tensor, low: float | None, high: float | None) -> Tensor:
    w = w if low is None else maximum(w, low)
    return w if high is None else minimum(w, high)


def _check(
    name: str, pre: Tensor, post: Tensor, weights: Tensor, *traces: tuple[str, Tensor, Tensor]
) -> None:
    fits = (
        pre.ndim == post.ndim == 3
        and tuple(pre.shape[:2]) == tuple(post.shape[:2])
        and tuple(weights.shape) == (post.shape[2], pre.shape[2])
    )
    if not fits:
        raise ShapeError(
            f"{name}: expected spikes (T, B, I) and (T, B, O) and weights (O, I); received {tuple(pre.shape)}, "
            f"{tuple(post.shape)} and {tuple(weights.shape)}."
        )
    for label, trace, side in traces:
        if tuple(trace.shape) != tuple(side.shape[1:]):
            raise ShapeError(
                f"{name}: {label} must be {tuple(side.shape[1:])}, one step; received {tuple(trace.shape)}."
            )


class _Trace(NamedTuple):
    """A trace after a step: what it was before the step's spikes, and with them."""

    before: Tensor
    after: Tensor


def _traced(trace: Tensor, spikes: Tensor, decay: float, nearest: bool) -> _Trace:
    faded = trace * decay
    return _Trace(faded, where(spikes != 0.0, spikes, faded) if nearest else faded + spikes)


@op("snn.stdp", nondiff=True)
def stdp(
    pre: Tensor, post: Tensor, weights: Tensor, pre_trace: Tensor, post_trace: Tensor, *, decay_pre: float = 0.95,
    decay_post: float = 0.95, a_plus: float = 0.01, a_minus: float = 0.01, nearest: bool = False,
    coincident: bool = True, w_min: float | None = None, w_max: float | None = None,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """Pair rule over all steps; returns weights and both traces (Morrison, Diesmann and Gerstner 2008).

    ``dW = A+ post x^T - A- y pre^T`` with the traces x of `pre` and y of `post`: every earlier spike counts, or with
    `nearest` only the last one.
    """
    _check("stdp", pre, post, weights, ("pre_trace", pre_trace, pre), ("post_trace", post_trace, post))
    w, x, y = weights, pre_trace, post_trace
    plus, minus = a_plus / pre.shape[1], a_minus / pre.shape[1]
    for s_pre, s_post in zip(unstack(pre), unstack(post), strict=True):
        xs, ys = _traced(x, s_pre, decay_pre, nearest), _traced(y, s_post, decay_post, nearest)
        seen = (xs.after, ys.after) if coincident else (xs.before, ys.before)
        w = _bounded(
            w + plus * matmul(_t(s_post), seen[0]) - minus * matmul(_t(seen[1]), s_pre), w_min, w_max
        )
        x, y = xs.after, ys.after
    return w, x, y


@stdp.samples
def _(s: Samples) -> None:
    pre, post = _spikes(s, 4, 2, 3), _spikes(s, 4, 2, 5)
    w, x, y = s.f32(5, 3), s.f32(2, 3, low=0.0), s.f32(2, 5, low=0.0)
    s.case(pre, post, w, x, y, grad="none")
    s.case(pre, post, w, x, y, nearest=True, coincident=False, w_min=-1.0, w_max=1.0, grad="none")
    s.error(ShapeError, "weights", pre, post, s.f32(3, 5), x, y)
    s.error(ShapeError, "pre_trace", pre, post, w, y, y)


def _spikes(s: Samples, *shape: int) -> Any:
    return (s.f32(*shape) > 0.5).astype("float32")


@op("snn.triplet_stdp", nondiff=True)
def triplet_stdp(
    pre: Tensor, post: Tensor, weights: Tensor, r1: Tensor, r2: Tensor, o1: Tensor, o2: Tensor, *,
    decays: tuple[float, float, float, float] = (0.942, 0.991, 0.971, 0.992), a2_plus: float = 5e-10,
    a2_minus: float = 7e-3, a3_plus: float = 6.2e-3, a3_minus: float = 2.3e-4, w_min: float | None = None,
    w_max: float | None = None,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    """Triplet rule of Pfister and Gerstner (2006), all pairs; returns weights and the traces r1, r2, o1, o2.

    A spike of `pre` subtracts ``o1 (A2- + A3- r2)``, one of `post` adds ``r1 (A2+ + A3+ o2)``; the slow traces r2 and
    o2 are those from before the spike. `decays` are those of r1, r2, o1 and o2. Defaults: visual cortex, steps of 1 ms.
    """
    _check(
        "triplet_stdp", pre, post, weights, ("r1", r1, pre), ("r2", r2, pre), ("o1", o1, post), ("o2", o2, post)
    )  # fmt: skip
    w, share = weights, 1.0 / pre.shape[1]
    for s_pre, s_post in zip(unstack(pre), unstack(post), strict=True):
        r1, o1 = r1 * decays[0] + s_pre, o1 * decays[2] + s_post
        r2_before, o2_before = r2 * decays[1], o2 * decays[3]
        grown = matmul(_t(s_post * (a2_plus + a3_plus * o2_before)), r1)
        shrunk = matmul(_t(o1), s_pre * (a2_minus + a3_minus * r2_before))
        w = _bounded(w + share * (grown - shrunk), w_min, w_max)
        r2, o2 = r2_before + s_pre, o2_before + s_post
    return w, r1, r2, o1, o2


@triplet_stdp.samples
def _(s: Samples) -> None:
    pre, post = _spikes(s, 3, 2, 3), _spikes(s, 3, 2, 4)
    traces = [s.f32(2, n, low=0.0) for n in (3, 3, 4, 4)]
    rates: dict[str, float] = {"a2_plus": 0.1, "a2_minus": 0.2, "a3_plus": 0.3, "a3_minus": 0.1}
    s.case(pre, post, s.f32(4, 3), *traces, **rates, grad="none")
    s.case(pre, post, s.f32(4, 3), *traces, **rates, w_min=0.0, w_max=1.0, grad="none")
    s.error(ShapeError, "o2", pre, post, s.f32(4, 3), *traces[:3], traces[0])


@op("snn.reward_stdp", nondiff=True)
def reward_stdp(
    pre: Tensor, post: Tensor, reward: Tensor, weights: Tensor, pre_trace: Tensor, post_trace: Tensor,
    eligibility: Tensor, *, decay_pre: float = 0.95, decay_post: float = 0.95, decay_eligibility: float = 0.99,
    a_plus: float = 0.01, a_minus: float = 0.01, learning_rate: float = 1.0, w_min: float | None = None,
    w_max: float | None = None,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    """Pairs make synapses eligible, a reward ``(T, B)`` changes them (Izhikevich 2007).

    ``e <- d e + A+ post x^T - A- y pre^T`` for each of the batch ``(B, O, I)``, and ``W += rate mean_b(reward e)``.
    Returns weights, both traces and the eligibility.
    """
    _check("reward_stdp", pre, post, weights, ("pre_trace", pre_trace, pre), ("post_trace", post_trace, post))
    (count, b, i), o = pre.shape, post.shape[2]
    if tuple(reward.shape) != (count, b) or tuple(eligibility.shape) != (b, o, i):
        raise ShapeError(
            f"reward_stdp: expected a reward {(count, b)} and an eligibility {(b, o, i)}; received "
            f"{tuple(reward.shape)} and {tuple(eligibility.shape)}."
        )
    w, x, y, e = weights, pre_trace, post_trace, eligibility
    for s_pre, s_post, r in zip(unstack(pre), unstack(post), unstack(reward), strict=True):
        x, y = x * decay_pre + s_pre, y * decay_post + s_post
        grown = reshape(s_post, shape=(b, o, 1)) * reshape(x, shape=(b, 1, i))
        shrunk = reshape(y, shape=(b, o, 1)) * reshape(s_pre, shape=(b, 1, i))
        e = e * decay_eligibility + a_plus * grown - a_minus * shrunk
        change = sum(reshape(r, shape=(b, 1, 1)) * e, axis=0)
        w = _bounded(w + (learning_rate / b) * change, w_min, w_max)
    return w, x, y, e


@reward_stdp.samples
def _(s: Samples) -> None:
    pre, post = _spikes(s, 3, 2, 3), _spikes(s, 3, 2, 4)
    state = s.f32(4, 3), s.f32(2, 3, low=0.0), s.f32(2, 4, low=0.0), s.f32(2, 4, 3)
    s.case(pre, post, s.f32(3, 2), *state, grad="none")
    s.case(pre, post, s.f32(3, 2), *state, learning_rate=0.5, w_min=-1.0, w_max=1.0, grad="none")
    s.error(ShapeError, "reward", pre, post, s.f32(2), *state)


@op("snn.hebbian", nondiff=True)
def hebbian(
    pre: Tensor, post: Tensor, weights: Tensor, *, learning_rate: float = 0.01, weight_decay: float = 0.0,
    w_min: float | None = None, w_max: float | None = None,
) -> Tensor:  # fmt: skip
    """``W + rate mean_{t,b}(post pre^T) - decay W`` (Hebb 1949)."""
    _check("hebbian", pre, post, weights)
    rows = pre.shape[0] * pre.shape[1]
    a, b = reshape(pre, shape=(rows, pre.shape[2])), reshape(post, shape=(rows, post.shape[2]))
    w = weights * (1.0 - weight_decay) if weight_decay else weights
    return _bounded(w + (learning_rate / max(rows, 1)) * matmul(_t(b), a), w_min, w_max)


@hebbian.samples
def _(s: Samples) -> None:
    pre, post = s.f32(3, 2, 4), s.f32(3, 2, 5)
    s.case(pre, post, s.f32(5, 4), grad="none")
    s.case(pre, post, s.f32(5, 4), weight_decay=0.1, w_min=0.0, w_max=1.0, grad="none")
    s.error(ShapeError, "weights", pre, post, s.f32(4, 5))


def _rows(name: str, weights: Tensor, x: Tensor) -> None:
    if weights.ndim != 2 or x.ndim != 2 or weights.shape[1] != x.shape[1] or x.shape[0] < 1:
        raise ShapeError(
            f"{name}: expected weights (O, D) and at least one input (B, D); received {tuple(weights.shape)} and "
            f"{tuple(x.shape)}."
        )


@op("snn.oja_step", nondiff=True)
def oja_step(weights: Tensor, x: Tensor, *, learning_rate: float = 0.01) -> Tensor:
    """One step of Oja's rule (1982) on a batch: each row goes to the first principal direction, of length 1.

    ``dw = rate mean_b(y (x - y w))``, ``y = w . x``.
    """
    _rows("oja_step", weights, x)
    y = matmul(x, _t(weights))
    rate = learning_rate / x.shape[0]
    power = reshape(sum(y * y, axis=0), shape=(weights.shape[0], 1))
    return weights + rate * (matmul(_t(y), x) - power * weights)


@oja_step.samples
def _(s: Samples) -> None:
    s.case(s.f32(3, 4), s.f32(6, 4), grad="none")
    s.case(s.f32(1, 4), s.f32(1, 4), learning_rate=0.1, grad="none")
    s.error(ShapeError, "weights", s.f32(3, 4), s.f32(6, 5))


@op("snn.sanger_step", nondiff=True)
def sanger_step(weights: Tensor, x: Tensor, *, learning_rate: float = 0.01) -> Tensor:
    """One step of Sanger's rule (1989) on a batch: row j goes to the j-th principal direction.

    ``dW = rate (Y^T X - lower(Y^T Y) W) / B``.
    """
    _rows("sanger_step", weights, x)
    y = matmul(x, _t(weights))
    rate = learning_rate / x.shape[0]
    return weights + rate * (matmul(_t(y), x) - matmul(tril(matmul(_t(y), y)), weights))


@sanger_step.samples
def _(s: Samples) -> None:
    s.case(s.f32(3, 4), s.f32(6, 4), grad="none")
    s.error(ShapeError, "weights", s.f32(3, 4), s.f32(6, 5))


@op("snn.homeostasis", nondiff=True)
def homeostasis(
    weights: Tensor, rates: Tensor, *, target: float = 0.1, learning_rate: float = 0.01, w_min: float | None = None,
    w_max: float | None = None,
) -> Tensor:  # fmt: skip
    """Scale the weights of each neuron towards a firing rate (Turrigiano 1998): ``w (1 + rate (target - r))``."""
    if weights.ndim != 2 or tuple(rates.shape) != (weights.shape[0],):
        raise ShapeError(
            f"homeostasis: expected weights (O, I) and rates (O,); received {tuple(weights.shape)} and "
            f"{tuple(rates.shape)}."
        )
    factor = 1.0 + learning_rate * (target - rates)
    return _bounded(weights * reshape(factor, shape=(weights.shape[0], 1)), w_min, w_max)


@homeostasis.samples
def _(s: Samples) -> None:
    s.case(s.f32(3, 4), s.f32(3, low=0.0, high=1.0), grad="none")
    s.case(s.f32(3, 4), s.f32(3, low=0.0, high=1.0), w_min=0.0, w_max=1.0, grad="none")
    s.error(ShapeError, "rates", s.f32(3, 4), s.f32(4))
