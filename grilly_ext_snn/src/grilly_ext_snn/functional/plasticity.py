"""Learning without gradients, as functions: time constants in steps, state in and out."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

import grilly_core as grilly
from grilly_core.tensor import Tensor
from grilly_ext_snn.functional._arguments import finite, tensor, timed
from grilly_ext_snn.ops import plasticity as ops

__all__ = ["StdpState", "hebbian_learning", "oja_learning", "sanger_learning", "stdp_learning", "stdp_window"]


class StdpState(NamedTuple):
    """What `stdp_learning` returns.

    Attributes
    ----------
    weights : Tensor, (O, I)
    pre_trace : Tensor, (B, I)
    post_trace : Tensor, (B, O)
    """

    weights: Tensor
    pre_trace: Tensor
    post_trace: Tensor


def _time_first(name: str, spikes: Any, batch_first: bool) -> Tensor:
    made = timed(name, spikes, least=3)
    return made.permute(1, 0, 2) if batch_first else made


def hebbian_learning(
    pre: Any,
    post: Any,
    weights: Any,
    learning_rate: float = 0.01,
    weight_decay: float = 0.0,
    *,
    w_min: float | None = None,
    w_max: float | None = None,
    batch_first: bool = True,
) -> Tensor:
    """Weights after Hebb's rule: ``W + rate mean(post pre^T) - decay W``.

    Parameters
    ----------
    pre : array_like, (B, T, I)
    post : array_like, (B, T, O)
    weights : array_like, (O, I)
    learning_rate, weight_decay : float
    w_min, w_max : float, optional
    batch_first : bool
        False: spikes are ``(T, B, ...)``.

    Examples
    --------
    >>> import numpy as np
    >>> from grilly_ext_snn.functional.plasticity import hebbian_learning
    >>> hebbian_learning(np.ones((1, 5, 1)), np.ones((1, 5, 1)), np.zeros((1, 1)), 0.5).tolist()
    [[0.5]]
    """
    a, b = (_time_first("hebbian_learning", x, batch_first) for x in (pre, post))
    return ops.hebbian(
        a, b, tensor(weights, a), learning_rate=learning_rate, weight_decay=weight_decay, w_min=w_min, w_max=w_max
    )  # fmt: skip


def stdp_learning(
    pre: Any,
    post: Any,
    weights: Any,
    pre_trace: Any = None,
    post_trace: Any = None,
    lr_potentiation: float = 0.01,
    lr_depression: float = 0.01,
    trace_decay: float | tuple[float, float] = 0.9,
    *,
    pairing: str = "all",
    coincident: bool = True,
    w_min: float | None = None,
    w_max: float | None = None,
    batch_first: bool = True,
) -> StdpState:
    """Weights and traces after spike-timing-dependent plasticity by pairs.

    A synapse grows by ``lr_potentiation * decay**dt`` when `post` fires `dt` steps after `pre`, and shrinks by
    ``lr_depression * decay**dt`` in the other order (Bi and Poo 1998; Morrison, Diesmann and Gerstner 2008).

    Parameters
    ----------
    pre : array_like, (B, T, I)
    post : array_like, (B, T, O)
    weights : array_like, (O, I)
    pre_trace : array_like, (B, I), optional
        From the call before; zeros without it.
    post_trace : array_like, (B, O), optional
    lr_potentiation, lr_depression : float
        Averaged over the batch.
    trace_decay : float or (float, float)
        What is left of a trace after a step, ``exp(-dt / tau)``; for `pre` and `post`.
    pairing : {"all", "nearest"}
        Whether every earlier spike makes a pair or only the last one.
    coincident : bool
        Whether spikes of one step are a pair, worth ``lr_potentiation - lr_depression``.
    w_min, w_max : float, optional
        Weights are kept within after each step.
    batch_first : bool
        False: spikes are ``(T, B, ...)``.

    Returns
    -------
    StdpState

    Examples
    --------
    >>> import numpy as np
    >>> from grilly_ext_snn.functional.plasticity import stdp_learning
    >>> pre, post = np.zeros((1, 4, 1)), np.zeros((1, 4, 1))
    >>> pre[0, 0], post[0, 3] = 1, 1
    >>> round(stdp_learning(pre, post, np.zeros((1, 1))).weights.item(), 6)
    0.00729
    """
    if pairing not in ("all", "nearest"):
        raise ValueError(f"stdp_learning: pairing is 'all' or 'nearest'; received {pairing!r}.")
    decays = trace_decay if isinstance(trace_decay, tuple) else (trace_decay, trace_decay)
    if not all(0 <= d < 1 for d in decays):
        raise ValueError(f"stdp_learning: trace_decay must be in [0, 1); received {trace_decay!r}.")
    a, b = (_time_first("stdp_learning", x, batch_first) for x in (pre, post))
    w = tensor(weights, a)
    x, y = (
        grilly.zeros(s.shape[1:], dtype=s.dtype, device=s.device) if given is None else tensor(given, s)
        for given, s in ((pre_trace, a), (post_trace, b))
    )
    return StdpState(
        *ops.stdp(
            a, b, w, x, y, decay_pre=decays[0], decay_post=decays[1], a_plus=lr_potentiation, a_minus=lr_depression,
            nearest=pairing == "nearest", coincident=coincident, w_min=w_min, w_max=w_max,
        )
    )  # fmt: skip


def stdp_window(
    a_plus: float = 0.01,
    a_minus: float = 0.012,
    tau_plus: float = 20.0,
    tau_minus: float = 20.0,
    reach: int = 60,
) -> tuple[np.ndarray, np.ndarray]:
    """Change of a weight by the time from a spike of `pre` to one of `post`, by running the rule.

    Returns
    -------
    times : ndarray of int, (2 reach + 1,)
        Steps; positive when `post` fires later.
    changes : ndarray, (2 reach + 1,)

    Examples
    --------
    >>> from grilly_ext_snn.functional.plasticity import stdp_window
    >>> times, changes = stdp_window(reach=3)
    >>> [round(float(c), 6) for c in changes[[0, -1]]]
    [-0.010328, 0.008607]
    """
    finite("stdp_window", tau_plus=tau_plus, tau_minus=tau_minus)
    times = np.arange(-reach, reach + 1)
    steps = reach + 1
    # one synapse for each time: only the matching pair of neurons is read
    pre, post = np.zeros((steps, 1, len(times)), np.float32), np.zeros((steps, 1, len(times)), np.float32)
    for i, t in enumerate(times):
        pre[max(-t, 0), 0, i] = post[max(t, 0), 0, i] = 1
    decays = (math.exp(-1 / tau_plus), math.exp(-1 / tau_minus))
    zero = np.zeros((len(times), len(times)), np.float32)
    state = stdp_learning(
        pre, post, zero, lr_potentiation=a_plus, lr_depression=a_minus, trace_decay=decays, batch_first=False
    )  # fmt: skip
    return times, np.diagonal(state.weights.numpy()).copy()


def oja_learning(memories: Any, inputs: Any, eta: float = 0.01) -> Tensor:
    """Weights after one step of Oja's rule on a batch.

    Parameters
    ----------
    memories : array_like, (n, d)
    inputs : array_like, (d,) or (B, d)
    eta : float

    Examples
    --------
    >>> from grilly_ext_snn.functional.plasticity import oja_learning
    >>> oja_learning([[1.0, 0.0]], [0.0, 1.0]).tolist()
    [[1.0, 0.0]]
    """
    w = tensor(memories)
    x = tensor(inputs, w)
    return ops.oja_step(w, x.unsqueeze(0) if x.ndim == 1 else x, learning_rate=eta)


def sanger_learning(memories: Any, inputs: Any, eta: float = 0.01) -> Tensor:
    """Weights after one step of Sanger's rule on a batch; see `oja_learning`.

    Parameters
    ----------
    memories : array_like, (M, D)
    inputs : array_like, (B, D) or (D,)
    eta : float
        Rate of learning.

    Examples
    --------
    >>> from grilly_ext_snn.functional.plasticity import sanger_learning
    >>> sanger_learning([[1.0, 0.0]], [1.0, 1.0], eta=0.5).tolist()
    [[1.0, 0.5]]
    """
    w = tensor(memories)
    x = tensor(inputs, w)
    return ops.sanger_step(w, x.unsqueeze(0) if x.ndim == 1 else x, learning_rate=eta)
