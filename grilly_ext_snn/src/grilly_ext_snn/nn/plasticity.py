"""Layers that learn by local rules: Hebb, Oja, Sanger, spike timing. Their weights are buffers, not parameters."""

from __future__ import annotations

import math
from typing import Any

import grilly_core as grilly
from grilly_core.nn.linear import positive
from grilly_core.random import Generator
from grilly_core.tensor import Tensor
from grilly_ext_snn.functional import plasticity
from grilly_ext_snn.functional._arguments import finite, tensor
from grilly_ext_snn.nn.memory import MemoryModule
from grilly_ext_snn.ops import plasticity as ops

__all__ = ["HebbianLayer", "OjaRule", "STDPLayer", "SangerRule"]


class _Local(MemoryModule):
    """A linear map whose weight ``(out_features, in_features)`` is a buffer."""

    weight: Tensor

    def __init__(
        self, in_features: int, out_features: int, low: float, high: float, rng: Generator | None
    ) -> None:
        super().__init__()
        positive(in_features=in_features, out_features=out_features)
        self.in_features, self.out_features = in_features, out_features
        drawn = grilly.rand((out_features, in_features), rng=rng)
        self.register_buffer("weight", low + (high - low) * drawn)

    def forward(self, x: Any) -> Tensor:
        """Map ``(..., in_features)`` to ``(..., out_features)``."""
        return grilly.functional.linear(tensor(x, self.weight), self.weight)

    def extra_repr(self) -> str:
        """Sizes."""
        return f"in_features={self.in_features}, out_features={self.out_features}"


class HebbianLayer(_Local):
    """A linear map that learns by Hebb's rule.

    Parameters
    ----------
    in_features, out_features : int
    rng : Generator, optional
        Draws the first weights, uniform in ``±1 / sqrt(in_features)``.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> from grilly_ext_snn.nn.plasticity import HebbianLayer
    >>> layer = HebbianLayer(3, 2)
    >>> x = grilly.ones((1, 5, 3))
    >>> layer.update_weights(x, layer(x)).shape
    (2, 3)
    """

    def __init__(self, in_features: int, out_features: int, *, rng: Generator | None = None) -> None:
        bound = 1.0 / math.sqrt(max(in_features, 1))
        super().__init__(in_features, out_features, -bound, bound, rng)

    def update_weights(
        self, pre: Any, post: Any, learning_rate: float = 0.01, weight_decay: float = 0.0
    ) -> Tensor:
        """Learn from activities ``(B, T, in)`` and ``(B, T, out)``; returns the new weights."""
        self.weight = plasticity.hebbian_learning(pre, post, self.weight, learning_rate, weight_decay)
        return self.weight


class STDPLayer(_Local):
    """A linear map that learns by spike timing; traces go on from call to call until `reset`.

    Parameters
    ----------
    in_features, out_features : int
    w_min, w_max : float
        Bounds of the weights; the first are drawn uniformly between them.
    pairing : {"all", "nearest"}
    rng : Generator, optional

    Examples
    --------
    >>> import grilly_core as grilly
    >>> from grilly_ext_snn.nn.plasticity import STDPLayer
    >>> layer = STDPLayer(4, 3)
    >>> layer.update_weights(grilly.ones((2, 5, 4)), grilly.ones((2, 5, 3))).shape
    (3, 4)
    """

    def __init__(
        self, in_features: int, out_features: int, *, w_min: float = 0.0, w_max: float = 1.0, pairing: str = "all",
        rng: Generator | None = None,
    ) -> None:  # fmt: skip
        if not w_min < w_max:
            raise ValueError(f"STDPLayer: expected w_min < w_max; received {w_min} and {w_max}.")
        super().__init__(in_features, out_features, w_min, w_max, rng)
        self.w_min, self.w_max, self.pairing = w_min, w_max, pairing
        self.register_memory("pre_trace", 0.0)
        self.register_memory("post_trace", 0.0)

    def update_weights(
        self, pre_spikes: Any, post_spikes: Any, tau_plus: float = 20.0, tau_minus: float = 20.0, a_plus: float = 0.01,
        a_minus: float = 0.01,
    ) -> Tensor:  # fmt: skip
        """Learn from spikes ``(B, T, in)`` and ``(B, T, out)``; time constants in steps. Returns the new weights."""
        finite("STDPLayer.update_weights", tau_plus=tau_plus, tau_minus=tau_minus)
        self.prepare(pre_trace=tensor(pre_spikes)[:, 0], post_trace=tensor(post_spikes)[:, 0])
        state = plasticity.stdp_learning(
            pre_spikes, post_spikes, self.weight, self.pre_trace, self.post_trace, a_plus, a_minus,
            (math.exp(-1 / tau_plus), math.exp(-1 / tau_minus)), pairing=self.pairing, w_min=self.w_min,
            w_max=self.w_max,
        )  # fmt: skip
        self.weight, self.pre_trace, self.post_trace = state
        return self.weight


class OjaRule(_Local):
    """Rows that learn the first principal direction of what they see, each of length 1.

    Parameters
    ----------
    in_features, out_features : int
    learning_rate : float
    rng : Generator, optional

    Examples
    --------
    >>> import grilly_core as grilly
    >>> from grilly_ext_snn.nn.plasticity import OjaRule
    >>> OjaRule(4, 1).learn(grilly.ones((8, 4))).shape
    (1, 4)
    """

    def __init__(
        self, in_features: int, out_features: int = 1, learning_rate: float = 0.01, *, rng: Generator | None = None
    ) -> None:  # fmt: skip
        bound = 1.0 / math.sqrt(max(in_features, 1))
        super().__init__(in_features, out_features, -bound, bound, rng)
        finite(type(self).__name__, learning_rate=learning_rate)
        self.learning_rate = learning_rate

    def learn(self, x: Any) -> Tensor:
        """Take one step on inputs ``(B, in_features)``, whose mean should be 0; returns the new weights."""
        self.weight = ops.oja_step(self.weight, tensor(x, self.weight), learning_rate=self.learning_rate)
        return self.weight


class SangerRule(OjaRule):
    """Rows that learn the principal directions in order; see `OjaRule`.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> from grilly_ext_snn.nn.plasticity import SangerRule
    >>> SangerRule(4, 2).learn(grilly.ones((8, 4))).shape
    (2, 4)
    """

    def learn(self, x: Any) -> Tensor:
        """Take one step on inputs ``(B, in_features)``, whose mean should be 0; returns the new weights."""
        self.weight = ops.sanger_step(self.weight, tensor(x, self.weight), learning_rate=self.learning_rate)
        return self.weight
