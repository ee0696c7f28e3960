"""Neurons in physical units: leaky and generalised integrate and fire with a refractory period, and a layer of them."""

from __future__ import annotations

from typing import Any

from grilly_core.errors import ShapeError
from grilly_core.nn import Linear, Module
from grilly_core.nn.linear import positive
from grilly_core.tensor import Tensor
from grilly_ext_snn.functional._arguments import tensor
from grilly_ext_snn.nn.nodes import ScanNode
from grilly_ext_snn.nn.surrogates import Surrogate

__all__ = ["GIFNeuron", "LIFNeuron", "SNNLayer"]

#: Milliseconds in the unit of `dt`.
_UNITS = {"s": 1000.0, "ms": 1.0}


class _Physical(ScanNode):
    """`n_neurons` in the last axis; `dt` in `time_unit`, all other times in milliseconds."""

    def __init__(
        self, n_neurons: int, dt: float, time_unit: str, constants: dict[str, Any], **options: Any
    ) -> None:
        positive(n_neurons=n_neurons)
        if time_unit not in _UNITS:
            raise ValueError(
                f"{type(self).__name__}: time_unit is 's' or 'ms', the unit of dt; received {time_unit!r}."
            )
        step = float(dt) * _UNITS[time_unit]
        if not 0 < step <= constants["tau"]:
            raise ValueError(
                f"{type(self).__name__}: dt is {step:g} ms and must be positive and at most tau_mem = "
                f"{constants['tau']:g} ms."
            )
        if not constants["t_refrac"] >= 0:
            raise ValueError(
                f"{type(self).__name__}: t_refrac_period is in ms and not negative; received {constants['t_refrac']!r}."
            )
        super().__init__({**constants, "dt": step}, **options)
        self.n_neurons = n_neurons

    def forward(self, x: Any) -> Tensor:
        """Return the spikes of currents ``(n,)`` or ``(B, n)``; in mode ``"m"`` ``(T, n)`` or ``(T, B, n)``."""
        made = tensor(x)
        if made.ndim < 1 or made.shape[-1] != self.n_neurons:
            raise ShapeError(
                f"{type(self).__name__}: expected {self.n_neurons} neurons in the last axis; received shape "
                f"{tuple(made.shape)}."
            )
        return super().forward(made)

    @property
    def membrane(self) -> Tensor | None:
        """The membrane; None before the first input."""
        return self.v

    @property
    def refractory(self) -> Tensor | None:
        """Milliseconds for which each neuron still waits; None before the first input."""
        held: Tensor | None = self.wait
        return held


class LIFNeuron(_Physical):
    """Leaky integrate and fire with a refractory period.

    While a neuron waits, its membrane stays at `v_reset`; else ``V += dt (-(V - v_rest) + r_mem I) / tau_mem``. At
    ``V >= v_thresh`` it fires, and waits for `t_refrac_period`.

    Parameters
    ----------
    n_neurons : int
    dt : float
        In `time_unit`.
    tau_mem : float
        Milliseconds.
    v_thresh, v_rest, v_reset, r_mem : float
    t_refrac_period : float
        Milliseconds.
    time_unit : {"s", "ms"}
        Of `dt` alone: by default 0.001 is a step of 1 ms.
    surrogate_function, detach_reset, step_mode
        See `BaseNode`.

    Examples
    --------
    >>> import grilly
    >>> from grilly_ext_snn.nn.physical import LIFNeuron
    >>> neuron = LIFNeuron(1, tau_mem=2.0, t_refrac_period=2.0, step_mode="m")
    >>> neuron(grilly.full((8, 1), 3.0))[:, 0].tolist()
    [1.0, 0.0, 0.0, 1.0, 0.0, 0.0, 1.0, 0.0]
    """

    _name = "lif_refractory"

    def __init__(
        self, n_neurons: int, dt: float = 0.001, tau_mem: float = 20.0, v_thresh: float = 1.0, v_rest: float = 0.0,
        v_reset: float = 0.0, r_mem: float = 1.0, t_refrac_period: float = 2.0, time_unit: str = "s", *,
        surrogate_function: Surrogate | None = None, detach_reset: bool = False, step_mode: str = "s",
    ) -> None:  # fmt: skip
        constants = {
            "tau": float(tau_mem), "v_rest": float(v_rest), "r_mem": float(r_mem), "t_refrac": float(t_refrac_period)
        }  # fmt: skip
        super().__init__(
            n_neurons, dt, time_unit, constants, v_threshold=v_thresh, v_reset=v_reset,
            surrogate_function=surrogate_function, detach_reset=detach_reset, step_mode=step_mode,
        )  # fmt: skip


class GIFNeuron(_Physical):
    """Generalised integrate and fire: `LIFNeuron` with a current that every spike raises and that works against it.

    ``V += dt (-(V - v_rest) + r_mem I) / tau_mem - dt b_adapt A``, ``A += -dt A / tau_adapt + adaptation_strength S``.

    Parameters
    ----------
    n_neurons, dt, tau_mem, v_thresh, v_rest, v_reset, r_mem, t_refrac_period, time_unit
        See `LIFNeuron`.
    tau_adapt : float
        Milliseconds.
    adaptation_strength : float
        What a spike adds to the current.
    b_adapt : float
        How the current acts on the membrane, for each millisecond.

    Examples
    --------
    >>> import grilly
    >>> from grilly_ext_snn.nn.physical import GIFNeuron
    >>> GIFNeuron(4)(grilly.ones((2, 4))).shape
    (2, 4)
    """

    _name = "gif"

    def __init__(
        self, n_neurons: int, dt: float = 0.001, tau_mem: float = 20.0, tau_adapt: float = 100.0,
        v_thresh: float = 1.0, adaptation_strength: float = 0.1, v_rest: float = 0.0, v_reset: float = 0.0,
        r_mem: float = 1.0, b_adapt: float = 0.02, t_refrac_period: float = 2.0, time_unit: str = "s", *,
        surrogate_function: Surrogate | None = None, detach_reset: bool = False, step_mode: str = "s",
    ) -> None:  # fmt: skip
        constants = {
            "tau": float(tau_mem), "tau_adapt": float(tau_adapt), "v_rest": float(v_rest), "r_mem": float(r_mem),
            "delta_adapt": float(adaptation_strength), "b_adapt": float(b_adapt), "t_refrac": float(t_refrac_period),
        }  # fmt: skip
        super().__init__(
            n_neurons, dt, time_unit, constants, v_threshold=v_thresh, v_reset=v_reset,
            surrogate_function=surrogate_function, detach_reset=detach_reset, step_mode=step_mode,
        )  # fmt: skip


class SNNLayer(Module):
    """A linear map, then `LIFNeuron`.

    Parameters
    ----------
    in_features, out_features : int
    n_neurons : int, optional
        Must be `out_features`, if given.
    **options
        Of `LIFNeuron`.

    Examples
    --------
    >>> import grilly
    >>> from grilly_ext_snn.nn.physical import SNNLayer
    >>> SNNLayer(3, 5)(grilly.ones((2, 3))).shape
    (2, 5)
    """

    def __init__(
        self, in_features: int, out_features: int, n_neurons: int | None = None, **options: Any
    ) -> None:
        super().__init__()
        if n_neurons not in (None, out_features):
            raise ShapeError(
                f"SNNLayer: n_neurons must be out_features = {out_features}; received {n_neurons}."
            )
        self.linear = Linear(in_features, out_features)
        self.neuron = LIFNeuron(out_features, **options)

    def forward(self, x: Any) -> Tensor:
        """Return spikes ``(..., out_features)`` of inputs ``(..., in_features)``."""
        return self.neuron(self.linear(x))
