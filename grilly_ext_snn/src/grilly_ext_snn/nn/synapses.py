"""Synapses: leaky filters, short-term plasticity, delays; and the maps round spiking layers."""

from __future__ import annotations

import math
from typing import Any

import grilly_core as grilly
from grilly_core.errors import ShapeError
from grilly_core.nn import Linear, Module, Parameter, RMSNorm
from grilly_core.tensor import Tensor
from grilly_ext_snn.functional._arguments import finite, tensor, timed
from grilly_ext_snn.nn.memory import MemoryModule
from grilly_ext_snn.ops.filters import short_term_plasticity, synapse_filter

__all__ = [
    "DualTimescaleSynapse",
    "SNNMatMul",
    "SNNRMSNorm",
    "SNNReadout",
    "SNNSoftmax",
    "STPSynapse",
    "Synapse",
    "SynapseFilter",
]  # fmt: skip


class _Timed(MemoryModule):
    """Takes one step ``(B, ...)`` in mode ``"s"``, a sequence ``(T, B, ...)`` in mode ``"m"``."""

    def __init__(self, step_mode: str) -> None:
        super().__init__()
        if step_mode not in ("s", "m"):
            raise ValueError(f"{type(self).__name__}: step_mode is 's' or 'm'; received {step_mode!r}.")
        self.step_mode = step_mode

    def forward(self, x: Any) -> Tensor:
        """Return what reaches the other side, of the shape of `x` but for the last axis of a map."""
        if self.step_mode == "m":
            return self._sequence(timed(type(self).__name__, x))
        return self._sequence(tensor(x).unsqueeze(0))[0]

    def _sequence(self, x: Tensor) -> Tensor:
        raise NotImplementedError


def _decay(w: Tensor, x: Tensor) -> Tensor:
    """``exp(-1 / tau)`` of ``w = log(tau)``."""
    result: Tensor = grilly.exp(-grilly.exp(-w)).to(x.dtype)
    return result


class _Constant:
    """A time constant in steps, kept as its logarithm, which may be learnt."""

    @staticmethod
    def add(module: Module, name: str, tau: float, learnable: bool) -> None:
        finite(type(module).__name__, **{name: tau})
        value = grilly.tensor(math.log(tau))
        if learnable:
            setattr(module, f"log_{name}", Parameter(value))
        else:
            module.register_buffer(f"log_{name}", value)


class SynapseFilter(_Timed):
    """A leaky sum of spikes: ``y[t] = exp(-1 / tau) y[t - 1] + x[t]``.

    Parameters
    ----------
    tau : float
        In steps.
    learnable : bool
        Whether tau is learnt (through its logarithm, ``log_tau``), with gradients through time.
    step_mode : {"s", "m"}

    Examples
    --------
    >>> import grilly
    >>> from grilly_ext_snn.nn.synapses import SynapseFilter
    >>> y = SynapseFilter(tau=2.0, step_mode="m")(grilly.tensor([[1.0], [0.0], [0.0]]))
    >>> [round(value, 3) for value in y[:, 0].tolist()]
    [1.0, 0.607, 0.368]
    """

    def __init__(self, tau: float = 2.0, learnable: bool = False, step_mode: str = "s") -> None:
        super().__init__(step_mode)
        _Constant.add(self, "tau", tau, learnable)
        self.learnable = learnable
        self.register_memory("y", 0.0)

    @property
    def tau(self) -> float:
        """The time constant, in steps."""
        return math.exp(self.log_tau.detach().item())

    def _sequence(self, x: Tensor) -> Tensor:
        self.prepare(x.detach()[0])
        ys, self.y = synapse_filter(x, self.y, _decay(self.log_tau, x))
        return ys

    def extra_repr(self) -> str:
        """Time constant and mode."""
        return f"tau={self.tau:g}, learnable={self.learnable}, step_mode={self.step_mode}"


class DualTimescaleSynapse(_Timed):
    """Two filters side by side: ``w_fast y_fast + w_slow y_slow``.

    Parameters
    ----------
    tau_fast, tau_slow : float
        In steps.
    w_fast, w_slow : float
    learnable : bool
        Whether time constants and weights are learnt.
    step_mode : {"s", "m"}

    Examples
    --------
    >>> import grilly
    >>> from grilly_ext_snn.nn.synapses import DualTimescaleSynapse
    >>> DualTimescaleSynapse()(grilly.ones((2, 3))).shape
    (2, 3)
    """

    def __init__(
        self, tau_fast: float = 2.0, tau_slow: float = 20.0, w_fast: float = 0.7, w_slow: float = 0.3,
        learnable: bool = False, step_mode: str = "s",
    ) -> None:  # fmt: skip
        super().__init__(step_mode)
        for name, tau in (("tau_fast", tau_fast), ("tau_slow", tau_slow)):
            _Constant.add(self, name, tau, learnable)
        for name, weight in (("w_fast", w_fast), ("w_slow", w_slow)):
            value = grilly.tensor(float(weight))
            if learnable:
                setattr(self, name, Parameter(value))
            else:
                self.register_buffer(name, value)
        self.register_memory("fast", 0.0)
        self.register_memory("slow", 0.0)

    def _sequence(self, x: Tensor) -> Tensor:
        self.prepare(x.detach()[0])
        fast, self.fast = synapse_filter(x, self.fast, _decay(self.log_tau_fast, x))
        slow, self.slow = synapse_filter(x, self.slow, _decay(self.log_tau_slow, x))
        result: Tensor = self.w_fast.to(x.dtype) * fast + self.w_slow.to(x.dtype) * slow
        return result


class STPSynapse(_Timed):
    """Short-term facilitation and depression (Tsodyks and Markram 1997).

    ``u' = u + (U - u) / tau_f + U (1 - u) x``; the release is ``x u' r``, and ``r' = r + (1 - r) / tau_d - x u' r``.

    Parameters
    ----------
    U : float
        Share of the resources that a spike releases at rest, in [0, 1].
    tau_f, tau_d : float
        Time constants of facilitation and recovery, in steps, at least 1.
    step_mode : {"s", "m"}

    Examples
    --------
    >>> import grilly
    >>> from grilly_ext_snn.nn.synapses import STPSynapse
    >>> y = STPSynapse(U=0.5, step_mode="m")(grilly.ones((3, 1)))[:, 0]
    >>> bool(y[2] < y[1])
    True
    """

    def __init__(
        self, U: float = 0.2, tau_f: float = 20.0, tau_d: float = 200.0, step_mode: str = "s"
    ) -> None:
        super().__init__(step_mode)
        if not 0 <= U <= 1:
            raise ValueError(f"STPSynapse: U must be in [0, 1]; received {U!r}.")
        for name, tau in (("tau_f", tau_f), ("tau_d", tau_d)):
            if not 1 <= tau < math.inf:
                raise ValueError(f"STPSynapse: {name} is in steps and must be at least 1; received {tau!r}.")
        self.U, self.tau_f, self.tau_d = float(U), float(tau_f), float(tau_d)
        self.register_memory("u", float(U))
        self.register_memory("r", 1.0)

    def _sequence(self, x: Tensor) -> Tensor:
        self.prepare(x.detach()[0])
        ys, self.u, self.r = short_term_plasticity(
            x, self.u, self.r, baseline=self.U, rate_f=1.0 / self.tau_f, rate_d=1.0 / self.tau_d
        )
        return ys


class Synapse(_Timed):
    """A linear map behind a delay: ``y[t] = W x[t - delay] + b``; before the first step there were zeros.

    Parameters
    ----------
    in_features, out_features : int
    delay : int
        In steps.
    bias : bool
    step_mode : {"s", "m"}

    Examples
    --------
    >>> import grilly
    >>> from grilly_ext_snn.nn.synapses import Synapse
    >>> synapse = Synapse(1, 1, delay=2, bias=False, step_mode="m")
    >>> _ = grilly.nn.init.constant_(synapse.linear.weight, 3.0)
    >>> synapse(grilly.tensor([[1.0], [2.0], [0.0], [0.0]]))[:, 0].tolist()
    [0.0, 0.0, 3.0, 6.0]
    """

    def __init__(
        self, in_features: int, out_features: int, delay: int = 1, bias: bool = True, step_mode: str = "s"
    ) -> None:
        super().__init__(step_mode)
        if isinstance(delay, bool) or not isinstance(delay, int) or delay < 0:
            raise ValueError(f"Synapse: delay is a number of steps, at least 0; received {delay!r}.")
        self.linear, self.delay = Linear(in_features, out_features, bias), delay
        if delay:
            self.register_memory("line", 0.0)

    def _sequence(self, x: Tensor) -> Tensor:
        if not self.delay:
            return self.linear(x)
        first = x.detach()[0]
        self.prepare(line=grilly.broadcast_to(first, (self.delay, *first.shape)))
        waiting = grilly.concat([self.line, x], axis=0)
        self.line = waiting[len(x) :]
        return self.linear(waiting[: len(x)])


class SNNMatMul(Linear):
    """What spikes ``(..., in)`` bring to neurons behind weights, ``(..., out)``: a linear map without bias.

    Examples
    --------
    >>> import grilly
    >>> from grilly_ext_snn.nn.synapses import SNNMatMul
    >>> SNNMatMul(4, 3)(grilly.ones((5, 2, 4))).shape
    (5, 2, 3)
    """

    def __init__(self, in_features: int, out_features: int) -> None:
        super().__init__(in_features, out_features, bias=False)


class SNNSoftmax(Module):
    """``softmax(x / temperature)`` of currents, rates or counts along an axis.

    Examples
    --------
    >>> from grilly_ext_snn.nn.synapses import SNNSoftmax
    >>> SNNSoftmax()([1.0, 1.0]).tolist()
    [0.5, 0.5]
    """

    def __init__(self, dim: int = -1, temperature: float = 1.0) -> None:
        super().__init__()
        finite("SNNSoftmax", temperature=temperature)
        self.dim, self.temperature = dim, temperature

    def forward(self, x: Any) -> Tensor:
        """Return shares that add up to 1."""
        result: Tensor = grilly.functional.softmax(tensor(x) * (1.0 / self.temperature), self.dim)
        return result


class SNNRMSNorm(RMSNorm):
    """Root-mean-square normalisation of each step by itself, over the last axes, which have `shape`.

    Examples
    --------
    >>> import grilly
    >>> from grilly_ext_snn.nn.synapses import SNNRMSNorm
    >>> round(SNNRMSNorm(4)(grilly.full((5, 2, 4), 3.0)).max().item(), 3)
    1.0
    """

    def __init__(self, shape: int | tuple[int, ...], eps: float = 1e-5) -> None:
        super().__init__(shape, eps)


class SNNReadout(Module):
    """A linear map of firing rates: spikes ``(B, T, in)`` averaged over time, then mapped to ``(B, out)``.

    Examples
    --------
    >>> import grilly
    >>> from grilly_ext_snn.nn.synapses import SNNReadout
    >>> SNNReadout(4, 3)(grilly.ones((2, 5, 4))).shape
    (2, 3)
    """

    def __init__(self, in_features: int, out_features: int) -> None:
        super().__init__()
        self.linear = Linear(in_features, out_features)

    def forward(self, x: Any) -> Tensor:
        """Read the rates out."""
        made = tensor(x)
        if made.ndim != 3 or made.shape[1] < 1:
            raise ShapeError(
                f"SNNReadout: expected spikes (B, T, {self.linear.in_features}); received {tuple(made.shape)}."
            )
        return self.linear(made.mean(1))
