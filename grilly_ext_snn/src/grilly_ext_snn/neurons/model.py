"""`Neuron`: what is known of one kind of neuron, and the programs recorded from its step."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, Final

from grilly_ext_snn.neurons.expressions import Expr, differentiate, flag, ordered, symbol

__all__ = ["COMMON", "NEURONS", "RESETS", "Neuron", "Program", "neuron", "neuron_of"]

RESETS: Final = ("hard", "soft", "none")

#: Attributes of every neuron.
COMMON: Final[dict[str, Any]] = {
    "v_threshold": 1.0,
    "v_reset": 0.0,
    "reset": "hard",
    "detach_reset": False,
    "surrogate": "atan",
    "alpha": 2.0,
}
_COMMON_FLAGS: Final = ("soft", "free", "detach")


@dataclass(frozen=True)
class Program:
    """Inputs by name and the expressions computed from them."""

    inputs: tuple[str, ...]
    outputs: tuple[Expr, ...]


@dataclass(frozen=True, eq=False)
class Neuron:
    """One kind of neuron.

    Attributes
    ----------
    name : str
        Of its ops: ``snn.<name>_scan``.
    states : tuple of str
        State variables, the membrane first.
    tensors : tuple of str
        Constants given as tensors, one value for each neuron or less, which can be learnt.
    attrs : dict
        Attributes of the op with their defaults.
    numbers : callable
        Attributes → the constants of the step by name.
    names, flags : tuple of str
        Of the constants, and of the choices: attributes that are True or False, and those of the reset.
    step : callable
        ``step(x, states, p) -> (spike, *new states)`` on expressions.
    positive, decays : tuple of str
        Attributes that must be above 0; between 0 and 1.
    """

    name: str
    states: tuple[str, ...]
    tensors: tuple[str, ...]
    attrs: Mapping[str, Any]
    numbers: Callable[[Mapping[str, Any]], dict[str, float]]
    names: tuple[str, ...]
    flags: tuple[str, ...]
    step: Callable[..., tuple[Expr, ...]]
    positive: tuple[str, ...]
    decays: tuple[str, ...]
    doc: str

    def __reduce__(self) -> tuple[Any, ...]:
        """Copies are the neuron itself, in other processes that of its name."""
        return neuron_of, (self.name,)

    @functools.cached_property
    def forward(self) -> Program:
        """``x, states, tensors -> spike, new states``."""
        known = {n: symbol(n) for n in (*self.tensors, *self.names)} | {f: flag(f) for f in self.flags}
        outputs = self.step(symbol("x"), *[symbol(s) for s in self.states], SimpleNamespace(**known))
        return Program(("x", *self.states, *self.tensors), tuple(outputs))

    @functools.cached_property
    def backward(self) -> Program:
        """``gradients of spike and new states, x, states, tensors -> gradients of x, states, tensors``."""
        seeds = ("g_spike", *[f"g_{s}" for s in self.states])
        inputs = self.forward.inputs
        outputs = differentiate(self.forward.outputs, [symbol(s) for s in seeds], [symbol(i) for i in inputs])
        return Program((*seeds, *inputs), tuple(outputs))

    @functools.cached_property
    def resets_softly(self) -> bool:
        """Whether the step knows resets other than a hard one."""
        return flag("soft") in ordered(self.forward.outputs)

    def constants(self, attrs: Mapping[str, Any]) -> list[float]:
        """Return the values of `names`."""
        found = self.numbers(attrs) | {"threshold": attrs["v_threshold"], "reset": attrs["v_reset"]}
        return [float(found[n]) for n in self.names]

    def choices(self, attrs: Mapping[str, Any]) -> list[bool]:
        """Return the values of `flags`."""
        reset = attrs["reset"]
        common = {"soft": reset == "soft", "free": reset == "none", "detach": attrs["detach_reset"]}
        return [bool(common[f] if f in common else attrs[f]) for f in self.flags]

    def check(self, attrs: Mapping[str, Any]) -> None:
        """Raise unless every attribute has a value that means something."""
        if attrs["reset"] not in RESETS:
            raise ValueError(f"{self.name}: reset is 'hard', 'soft' or 'none'; received {attrs['reset']!r}.")
        if attrs["reset"] != "hard" and not self.resets_softly:
            raise ValueError(f"{self.name}: its reset is always 'hard'; received {attrs['reset']!r}.")
        for name, default in self.attrs.items():
            if isinstance(default, float) and not math.isfinite(attrs[name]):
                raise ValueError(f"{self.name}: {name} must be finite; received {attrs[name]!r}.")
        for name in (*self.positive, "alpha"):
            if not attrs[name] > 0:
                raise ValueError(f"{self.name}: {name} must be above 0; received {attrs[name]!r}.")
        for name in self.decays:
            if not 0 <= attrs[name] <= 1:
                raise ValueError(f"{self.name}: {name} is a decay between 0 and 1; received {attrs[name]!r}.")


NEURONS: Final[dict[str, Neuron]] = {}


def neuron(
    name: str, states: str, names: str, *, tensors: str = "", flags: str = "", positive: str = "", decays: str = "",
    numbers: Callable[[Mapping[str, Any]], dict[str, float]] = lambda attrs: {}, **attrs: Any,
) -> Callable[[Callable[..., tuple[Expr, ...]]], Neuron]:  # fmt: skip
    """Describe a neuron by its step (decorator); `names` are the constants that the step reads."""

    def described(step: Callable[..., tuple[Expr, ...]]) -> Neuron:
        made = NEURONS[name] = Neuron(
            name, tuple(states.split()), tuple(tensors.split()), {**COMMON, **attrs}, numbers, tuple(names.split()),
            (*flags.split(), *_COMMON_FLAGS), step, tuple(positive.split()), tuple(decays.split()), step.__doc__ or "",
        )  # fmt: skip
        return made

    return described


def neuron_of(name: str) -> Neuron:
    """Return a neuron by name."""
    from grilly_ext_snn.neurons import integrators, phenomenological, recursive  # noqa: F401 - they describe them

    return NEURONS[name]
