"""`BaseNode`: charge, fire, reset, one step or many at a time."""

from __future__ import annotations

import math
from typing import Any

import grilly_core as grilly
from grilly_core.errors import DeviceError, ShapeError
from grilly_core.tensor import Tensor
from grilly_ext_snn.functional._arguments import tensor
from grilly_ext_snn.nn.memory import MemoryModule
from grilly_ext_snn.nn.surrogates import ATan, Surrogate

__all__ = ["BaseNode"]


class BaseNode(MemoryModule):
    """A spiking neuron: charge ``H``, spike ``S = (H >= v_threshold)``, reset.

    Override `neuronal_charge` for a neuron of your own; it sets ``self.v`` from its old value and the input. The
    nodes of this package run as one fused scan over time instead.

    Parameters
    ----------
    v_threshold : float
        Above `v_reset`, or above 0 with a soft reset.
    v_reset : float or None
        Hard reset to this value; None is a soft reset, ``V = H - v_threshold S``.
    surrogate_function : Surrogate
    detach_reset : bool
        Whether gradients pass through the reset.
    step_mode : {"s", "m"}
        ``"s"``: a call is one step ``(B, ...)``; ``"m"``: a call is a sequence ``(T, B, ...)``.
    use_gpu : bool
        Whether inputs on the CPU are refused.
    reset : {"hard", "soft", "none"}, optional
        Says it by name instead of through `v_reset`.
    store_v_seq : bool
        Whether the states after every step of a call are kept, in mode ``"m"``: the membranes as ``v_seq``, all as
        ``state_seq``.

    Attributes
    ----------
    v : Tensor or None
        The membrane, of the shape of one step; None after `reset`.
    state_seq : dict
        State by name → its values ``(T, B, ...)`` of the last call; empty unless `store_v_seq`.

    Examples
    --------
    >>> import grilly
    >>> from grilly_ext_snn.nn.base_node import BaseNode
    >>> class Doubling(BaseNode):
    ...     def neuronal_charge(self, x):
    ...         self.v = self.v + 2.0 * x
    >>> Doubling(step_mode="m")(grilly.full((3, 1), 0.3)).tolist()
    [[0.0], [1.0], [0.0]]
    """

    v: Tensor | None

    def __init__(
        self, v_threshold: float = 1.0, v_reset: float | None = 0.0, surrogate_function: Surrogate | None = None,
        detach_reset: bool = False, step_mode: str = "s", use_gpu: bool = False, *, reset: str | None = None,
        store_v_seq: bool = False,
    ) -> None:  # fmt: skip
        super().__init__()
        self.reset_rule = _rule(reset, v_reset)
        for name, value in (("v_threshold", v_threshold), ("v_reset", v_reset)):
            if value is not None and not math.isfinite(value):
                raise ValueError(f"{type(self).__name__}: {name} must be finite; received {value!r}.")
        _above_reset(type(self).__name__, v_threshold, v_reset, self.reset_rule)
        surrogate = ATan() if surrogate_function is None else surrogate_function
        if not isinstance(surrogate, Surrogate):
            raise TypeError(
                f"{type(self).__name__}: surrogate_function must be a Surrogate such as ATan(); received "
                f"{surrogate!r}. register_surrogate makes one of a function."
            )
        self.v_threshold, self.v_reset = float(v_threshold), v_reset
        self.surrogate_function, self.detach_reset = surrogate, detach_reset
        self.use_gpu, self.store_v_seq = use_gpu, store_v_seq
        self.state_seq: dict[str, Tensor] = {}
        self.step_mode = step_mode
        self.register_memory("v", v_reset if self.reset_rule == "hard" and v_reset is not None else 0.0)

    @property
    def v_seq(self) -> Tensor | None:
        """The membranes after every step of the last call; None unless `store_v_seq`."""
        return self.state_seq.get("v")

    @property
    def step_mode(self) -> str:
        """Whether a call is one step, ``"s"``, or many, ``"m"``."""
        return self._step_mode

    @step_mode.setter
    def step_mode(self, mode: str) -> None:
        if mode not in ("s", "m"):
            raise ValueError(
                f"{type(self).__name__}: step_mode is 's' (one step) or 'm' (many); received {mode!r}."
            )
        self._step_mode = mode

    def forward(self, x: Any) -> Tensor:
        """Return the spikes, of the shape of `x`."""
        x = tensor(x)
        if self.use_gpu and x.device.kind == "cpu":
            raise DeviceError(
                f"{type(self).__name__}: use_gpu=True, but the input is on the CPU; move it with .to('vulkan')."
            )
        if self._step_mode == "s":
            return self.single_step_forward(x)
        if x.ndim < 2 or x.shape[0] < 1:
            raise ShapeError(
                f"{type(self).__name__}: step_mode 'm' takes time as the first axis, (T, B, ...), of at least one "
                f"step; received {tuple(x.shape)}. For one step use step_mode 's'."
            )
        return self.multi_step_forward(x)

    def neuronal_charge(self, x: Tensor) -> None:
        """Set ``self.v`` to the charged membrane; override."""
        raise NotImplementedError(f"{type(self).__name__} does not define neuronal_charge().")

    def neuronal_fire(self) -> Tensor:
        """Return the spikes of the charged membrane."""
        return self.surrogate_function(self.v - self.v_threshold)

    def neuronal_reset(self, spike: Tensor) -> None:
        """Set ``self.v`` to what the reset leaves."""
        s = spike.detach() if self.detach_reset else spike
        if self.reset_rule == "soft":
            self.v = self.v - s * self.v_threshold
        elif self.reset_rule == "hard":
            self.v = (1.0 - s) * self.v + s * float(self.v_reset or 0.0)

    def single_step_forward(self, x: Tensor) -> Tensor:
        """Return the spikes of one step."""
        self.prepare(x)
        self.neuronal_charge(x)
        spike = self.neuronal_fire()
        self.neuronal_reset(spike)
        return spike

    def multi_step_forward(self, x: Tensor) -> Tensor:
        """Return the spikes of a sequence, step by step."""
        spikes: list[Tensor] = []
        kept: dict[str, list[Any]] = {name: [] for name in self._memories}
        for step in x:
            spikes.append(self.single_step_forward(step))
            for name, values in kept.items():
                values.append(getattr(self, name))
        self.state_seq = {name: grilly.stack(v) for name, v in kept.items()} if self.store_v_seq else {}
        result: Tensor = grilly.stack(spikes)
        return result

    def reset(self) -> None:
        """Forget the state."""
        super().reset()
        self.state_seq = {}

    def extra_repr(self) -> str:
        """Return what the printed module shows."""
        return f"v_threshold={self.v_threshold}, v_reset={self.v_reset}, step_mode={self.step_mode}"


def _rule(reset: str | None, v_reset: float | None) -> str:
    if reset is None:
        return "soft" if v_reset is None else "hard"
    if reset not in ("hard", "soft", "none"):
        raise ValueError(f"reset is 'hard', 'soft' or 'none'; received {reset!r}.")
    if reset == "hard" and v_reset is None:
        raise ValueError("reset='hard' needs a v_reset to reset to; received None.")
    return reset


def _above_reset(who: str, v_threshold: float, v_reset: float | None, rule: str) -> None:
    """Refuse a threshold that the reset leaves behind: the neuron would fire for ever."""
    if rule == "soft" and not v_threshold > 0:
        raise ValueError(
            f"{who}: v_threshold must be above 0, since a reset subtracts it; received {v_threshold!r}."
        )
    if rule == "hard" and v_reset is not None and not v_threshold > v_reset:
        raise ValueError(f"{who}: v_threshold must be above v_reset = {v_reset!r}; received {v_threshold!r}.")
