"""Nodes that run as one fused scan over time, of one step in mode ``"s"``."""

from __future__ import annotations

import math
from typing import Any

import grilly_core as grilly
from grilly_core.nn import Parameter
from grilly_core.tensor import Tensor
from grilly_ext_snn.neurons import Neuron, neuron_of
from grilly_ext_snn.nn.base_node import BaseNode
from grilly_ext_snn.nn.surrogates import Surrogate
from grilly_ext_snn.ops.scans import SCANS, TRACES

__all__ = [
    "AdExNode", "AdaptiveLIFNode", "AlphaNode", "IFNode", "IzhikevichNode", "LIFNode", "LapicqueNode", "LeakyNode",
    "ParametricLIFNode", "ScanNode", "SynapticNode",
]  # fmt: skip


class ScanNode(BaseNode):
    """A node of a described neuron; subclasses say which, and with which constants.

    Attributes
    ----------
    neuron : Neuron
    constants : dict
        Attributes of its ops.
    """

    _name: str

    def __init__(self, constants: dict[str, Any], **options: Any) -> None:
        super().__init__(**options)
        self.neuron: Neuron = neuron_of(self._name)
        self.constants = constants
        for state in self.neuron.states[1:]:
            self.register_memory(state, 0.0)
        self.neuron.check({**self.neuron.attrs, **self._attributes()})
        self.neuron.numbers({**self.neuron.attrs, **self._attributes()})

    def _attributes(self) -> dict[str, Any]:
        surrogate = self.surrogate_function
        return {
            **self.constants,
            "v_threshold": self.v_threshold,
            "v_reset": 0.0 if self.v_reset is None else self.v_reset,
            "reset": self.reset_rule,
            "detach_reset": self.detach_reset,
            "surrogate": surrogate.name,
            "alpha": surrogate.alpha,
        }

    def _tensors(self, x: Tensor) -> list[Tensor]:
        """Return the constants that are tensors, for one step like `x`."""
        return []

    def single_step_forward(self, x: Tensor) -> Tensor:
        """Return the spikes of one step."""
        return self._scanned(x.unsqueeze(0), False)[0]

    def multi_step_forward(self, x: Tensor) -> Tensor:
        """Return the spikes of a sequence."""
        return self._scanned(x, self.store_v_seq)

    def _scanned(self, x: Tensor, traced: bool) -> Tensor:
        self.prepare(x.detach()[0])
        states = [getattr(self, s) for s in self.neuron.states]
        ops = TRACES if traced else SCANS
        spikes, *after = ops[self._name](x, *states, *self._tensors(x), **self._attributes())
        self.state_seq = dict(zip(self.neuron.states, after, strict=True)) if traced else {}
        for name, value in zip(self.neuron.states, after, strict=True):
            setattr(self, name, value[-1] if traced else value)
        return spikes

    def extra_repr(self) -> str:
        """Return what the printed module shows."""
        return ", ".join([*[f"{k}={v}" for k, v in self.constants.items()], super().extra_repr()])


class IFNode(ScanNode):
    """Integrate and fire: ``H = V + X``; the parameters are those of `BaseNode`.

    Examples
    --------
    >>> import grilly
    >>> from grilly_ext_snn.nn.nodes import IFNode
    >>> IFNode(step_mode="m")(grilly.full((4, 1), 0.5)).tolist()
    [[0.0], [1.0], [0.0], [1.0]]
    """

    _name = "if"

    def __init__(
        self, v_threshold: float = 1.0, v_reset: float | None = 0.0, surrogate_function: Surrogate | None = None,
        detach_reset: bool = False, step_mode: str = "s", use_gpu: bool = False, **options: Any,
    ) -> None:  # fmt: skip
        super().__init__({}, **_common(locals()))


class LIFNode(ScanNode):
    """Leaky integrate and fire: ``H = V - (V - V_reset) / tau + X``.

    Parameters
    ----------
    tau : float
        At least 1, in steps.
    decay_input : bool
        Whether the input is divided by tau too.
    v_threshold, v_reset, surrogate_function, detach_reset, step_mode, use_gpu, **options
        See `BaseNode`.

    Examples
    --------
    >>> import grilly
    >>> from grilly_ext_snn.nn.nodes import LIFNode
    >>> LIFNode(step_mode="m")(grilly.full((4, 1), 0.8)).tolist()
    [[0.0], [1.0], [0.0], [1.0]]
    """

    _name = "lif"

    def __init__(
        self, tau: float = 2.0, decay_input: bool = False, v_threshold: float = 1.0, v_reset: float | None = 0.0,
        surrogate_function: Surrogate | None = None, detach_reset: bool = False, step_mode: str = "s",
        use_gpu: bool = False, **options: Any,
    ) -> None:  # fmt: skip
        _at_least_one("LIFNode", "tau", tau)
        super().__init__({"tau": float(tau), "decay_input": decay_input}, **_common(locals()))


class ParametricLIFNode(ScanNode):
    """A leaky neuron whose time constant is learnt: ``1 / tau = sigmoid(w)`` (Fang et al. 2021).

    Parameters
    ----------
    init_tau : float
        Above 1.
    decay_input, v_threshold, v_reset, surrogate_function, detach_reset, step_mode, use_gpu, **options
        See `LIFNode`.

    Examples
    --------
    >>> import grilly
    >>> from grilly_ext_snn.nn.nodes import ParametricLIFNode
    >>> node = ParametricLIFNode(init_tau=4.0, step_mode="m")
    >>> round(node.tau, 4), [name for name, _ in node.named_parameters()]
    (4.0, ['w'])
    """

    _name = "plif"
    w: Parameter

    def __init__(
        self, init_tau: float = 2.0, decay_input: bool = False, v_threshold: float = 1.0,
        v_reset: float | None = 0.0, surrogate_function: Surrogate | None = None, detach_reset: bool = False,
        step_mode: str = "s", use_gpu: bool = False, **options: Any,
    ) -> None:  # fmt: skip
        if not 1 < init_tau < math.inf:
            raise ValueError(f"ParametricLIFNode: init_tau must be above 1; received {init_tau!r}.")
        super().__init__({"decay_input": decay_input}, **_common(locals()))
        self.w = Parameter(grilly.tensor(-math.log(init_tau - 1.0)))

    @property
    def tau(self) -> float:
        """The time constant, in steps."""
        return float(1.0 + math.exp(-self.w.detach().item()))

    def _tensors(self, x: Tensor) -> list[Tensor]:
        return [grilly.broadcast_to(grilly.functional.sigmoid(self.w).to(x.dtype), x.shape[1:])]


class LeakyNode(ScanNode):
    """A leaky neuron by its decay, ``U' = beta U + X - R v_threshold``, whose reset acts a step later.

    Parameters
    ----------
    beta : float
        Between 0 and 1.
    v_threshold, surrogate_function, step_mode, use_gpu, **options
        See `BaseNode`; a spike needs ``U > v_threshold``.
    reset_mechanism : {"subtract", "zero", "none"}

    Examples
    --------
    >>> import grilly
    >>> from grilly_ext_snn.nn.nodes import LeakyNode
    >>> LeakyNode(beta=0.5, step_mode="m")(grilly.full((6, 1), 1.25))[:, 0].tolist()
    [1.0, 0.0, 1.0, 1.0, 0.0, 1.0]
    """

    _name = "leaky"

    def __init__(
        self, beta: float = 0.9, v_threshold: float = 1.0, surrogate_function: Surrogate | None = None,
        reset_mechanism: str = "subtract", step_mode: str = "s", use_gpu: bool = False, **options: Any,
    ) -> None:  # fmt: skip
        super().__init__({"beta": float(beta)}, **_delayed("LeakyNode", locals()))


class LapicqueNode(ScanNode):
    """A circuit of a resistor and a capacitor: ``U' = (1 - dt/RC) U + (dt/C) X``, whose reset acts a step later.

    Parameters
    ----------
    r, c, dt : float
        Resistance, capacitance and the time of a step, in one system of units; dt at most r c.
    v_threshold, surrogate_function, reset_mechanism, step_mode, use_gpu, **options
        See `LeakyNode`.

    Examples
    --------
    >>> import grilly
    >>> from grilly_ext_snn.nn.nodes import LapicqueNode
    >>> LapicqueNode(r=2.0, c=1.0, dt=1.0, step_mode="m")(grilly.full((3, 1), 0.75))[:, 0].tolist()
    [0.0, 1.0, 0.0]
    """

    _name = "lapicque"

    def __init__(
        self, r: float = 5.1, c: float = 5e-3, dt: float = 1e-3, v_threshold: float = 1.0,
        surrogate_function: Surrogate | None = None, reset_mechanism: str = "subtract", step_mode: str = "s",
        use_gpu: bool = False, **options: Any,
    ) -> None:  # fmt: skip
        constants = {"r": float(r), "c": float(c), "dt": float(dt)}
        super().__init__(constants, **_delayed("LapicqueNode", locals()))


class SynapticNode(ScanNode):
    """A leaky neuron behind a leaky current: ``I' = alpha I + X``, ``U' = beta U + I' - R v_threshold``.

    Parameters
    ----------
    alpha, beta : float
        Decays of current and membrane, between 0 and 1.
    v_threshold, surrogate_function, reset_mechanism, step_mode, use_gpu, **options
        See `LeakyNode`.

    Examples
    --------
    >>> import grilly
    >>> from grilly_ext_snn.nn.nodes import SynapticNode
    >>> SynapticNode(alpha=0.5, beta=0.5, step_mode="m")(grilly.full((5, 1), 0.6))[:, 0].tolist()
    [0.0, 1.0, 0.0, 1.0, 0.0]
    """

    _name = "synaptic"

    def __init__(
        self, alpha: float = 0.9, beta: float = 0.8, v_threshold: float = 1.0,
        surrogate_function: Surrogate | None = None, reset_mechanism: str = "subtract", step_mode: str = "s",
        use_gpu: bool = False, **options: Any,
    ) -> None:  # fmt: skip
        constants = {"current_decay": float(alpha), "beta": float(beta)}
        super().__init__(constants, **_delayed("SynapticNode", locals()))


class AlphaNode(ScanNode):
    """A neuron whose membrane follows an input spike as a difference of two exponentials.

    Parameters
    ----------
    alpha, beta : float
        Decays of the two parts, ``0 < beta < alpha < 1``.
    v_threshold, surrogate_function, reset_mechanism, step_mode, use_gpu, **options
        See `LeakyNode`.

    Examples
    --------
    >>> import grilly
    >>> from grilly_ext_snn.nn.nodes import AlphaNode
    >>> AlphaNode(alpha=0.75, beta=0.5, step_mode="m")(grilly.full((5, 1), 1.0))[:, 0].tolist()
    [0.0, 0.0, 0.0, 1.0, 0.0]
    """

    _name = "alpha"

    def __init__(
        self, alpha: float = 0.9, beta: float = 0.8, v_threshold: float = 1.0,
        surrogate_function: Surrogate | None = None, reset_mechanism: str = "zero", step_mode: str = "s",
        use_gpu: bool = False, **options: Any,
    ) -> None:  # fmt: skip
        constants = {"current_decay": float(alpha), "beta": float(beta)}
        super().__init__(constants, **_delayed("AlphaNode", locals()))


class AdaptiveLIFNode(ScanNode):
    """`LIFNode` with a threshold that every spike raises: ``v_threshold + beta A``.

    Parameters
    ----------
    tau, tau_adapt : float
        Time constants of the membrane and of A, in steps, at least 1.
    beta : float
        What a spike adds to the threshold.
    decay_input, v_threshold, v_reset, surrogate_function, detach_reset, step_mode, use_gpu, **options
        See `LIFNode`.

    Examples
    --------
    >>> import grilly
    >>> from grilly_ext_snn.nn.nodes import AdaptiveLIFNode
    >>> AdaptiveLIFNode(beta=1.0, step_mode="m")(grilly.full((4, 1), 1.5))[:, 0].tolist()
    [1.0, 0.0, 1.0, 0.0]
    """

    _name = "alif"

    def __init__(
        self, tau: float = 2.0, tau_adapt: float = 100.0, beta: float = 0.1, decay_input: bool = False,
        v_threshold: float = 1.0, v_reset: float | None = 0.0, surrogate_function: Surrogate | None = None,
        detach_reset: bool = False, step_mode: str = "s", use_gpu: bool = False, **options: Any,
    ) -> None:  # fmt: skip
        _at_least_one("AdaptiveLIFNode", "tau", tau)
        _at_least_one("AdaptiveLIFNode", "tau_adapt", tau_adapt)
        constants = {"tau": float(tau), "tau_adapt": float(tau_adapt), "beta": float(beta)}
        super().__init__({**constants, "decay_input": decay_input}, **_common(locals()))


class IzhikevichNode(ScanNode):
    """Izhikevich's neuron (2003), in mV and ms.

    Parameters
    ----------
    a, b, c, d : float
        Rate and sensitivity of the recovery, membrane after a spike, and what a spike adds to the recovery.
    dt : float
        Of an Euler step.
    v_threshold : float
        The peak of a spike.
    surrogate_function, detach_reset, step_mode, use_gpu, **options
        See `BaseNode`; distances to the threshold are in mV, so smaller alphas than usual serve.

    Examples
    --------
    >>> import grilly
    >>> from grilly_ext_snn.nn.nodes import IzhikevichNode
    >>> int(IzhikevichNode(dt=0.5, step_mode="m")(grilly.full((400, 1), 10.0)).sum().item()) > 2
    True
    """

    _name = "izhikevich"

    def __init__(
        self, a: float = 0.02, b: float = 0.2, c: float = -65.0, d: float = 8.0, dt: float = 1.0,
        v_threshold: float = 30.0, surrogate_function: Surrogate | None = None, detach_reset: bool = False,
        step_mode: str = "s", use_gpu: bool = False, **options: Any,
    ) -> None:  # fmt: skip
        v_reset = float(c)
        constants = {"a": float(a), "b": float(b), "d": float(d), "dt": float(dt)}
        super().__init__(constants, **_common(locals()))
        self._memories["u"] = b * c


class AdExNode(ScanNode):
    """Adaptive exponential neuron (Brette and Gerstner 2005), in mV, ms, pA, nS and pF.

    Parameters
    ----------
    dt : float
        Of an Euler step.
    capacitance, leak, v_rest, v_knee, delta_t : float
        Of the membrane; `v_knee` is where the exponential takes over, `delta_t` its slope.
    tau_w, a, b : float
        Of the adaptation: time constant, coupling to the membrane, what a spike adds.
    v_threshold, v_reset, surrogate_function, detach_reset, step_mode, use_gpu, **options
        See `BaseNode`; `v_threshold` is the peak of a spike.

    Examples
    --------
    >>> import grilly
    >>> from grilly_ext_snn.nn.nodes import AdExNode
    >>> AdExNode(step_mode="m")(grilly.full((1000, 1), 1000.0)).sum().item()  # 1 nA for 100 ms
    5.0
    """

    _name = "adex"

    def __init__(
        self, dt: float = 0.1, capacitance: float = 281.0, leak: float = 30.0, v_rest: float = -70.6,
        v_knee: float = -50.4, delta_t: float = 2.0, tau_w: float = 144.0, a: float = 4.0, b: float = 80.5,
        v_threshold: float = 20.0, v_reset: float = -70.6, surrogate_function: Surrogate | None = None,
        detach_reset: bool = False, step_mode: str = "s", use_gpu: bool = False, **options: Any,
    ) -> None:  # fmt: skip
        given = locals()
        names = ("dt", "capacitance", "leak", "v_rest", "v_knee", "delta_t", "tau_w", "a", "b")
        super().__init__({n: float(given[n]) for n in names}, **_common(given))
        self._memories["v"] = v_rest


_COMMON = ("v_threshold", "v_reset", "surrogate_function", "detach_reset", "step_mode", "use_gpu")
_MECHANISMS = {"subtract": "soft", "zero": "hard", "none": "none"}


def _common(given: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of a constructor that are those of `BaseNode`."""
    return {**{n: given[n] for n in _COMMON if n in given}, **given["options"]}


def _delayed(who: str, given: dict[str, Any]) -> dict[str, Any]:
    mechanism = given["reset_mechanism"]
    if mechanism not in _MECHANISMS:
        raise ValueError(f"{who}: reset_mechanism is 'subtract', 'zero' or 'none'; received {mechanism!r}.")
    return {**_common(given), "reset": _MECHANISMS[mechanism]}


def _at_least_one(who: str, name: str, value: float) -> None:
    if not 1 <= value < math.inf:
        raise ValueError(f"{who}: {name} is in steps and must be at least 1; received {value!r}.")
