"""Inputs on which the scans must work, made from a neuron's description."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from grilly_core.errors import DTypeError, ShapeError
from grilly_ext_snn.neurons.model import Neuron

__all__ = ["gradient_samples", "samples"]

#: Range of the inputs, and of each state, where they are not those of a threshold of 1.
_DRIVE: Final[dict[str, tuple[float, float]]] = {
    "izhikevich": (0.0, 60.0),
    "adex": (0.0, 2000.0),
    "lapicque": (0.0, 4.0),
    "gif": (0.0, 60.0),
}
_STATES: Final[dict[str, dict[str, tuple[float, float]]]] = {
    "izhikevich": {"v": (-70.0, 28.0), "u": (-14.0, 0.0)},
    "adex": {"v": (-70.0, 10.0), "w": (0.0, 100.0)},
    "lif_refractory": {"wait": (-4.0, 2.0)},
    "gif": {"wait": (-4.0, 2.0)},
}
_DRIVE_OF_LEAK: Final = (0.0, 40.0)


def _inputs(s: Any, neuron: Neuron, count: int, *shape: int) -> tuple[Any, list[Any], list[Any]]:
    default = _DRIVE_OF_LEAK if neuron.name == "lif_refractory" else (-0.5, 2.0)
    low, high = _DRIVE.get(neuron.name, default)
    ranges = _STATES.get(neuron.name, {})
    states = []
    for name in neuron.states:
        bottom, top = ranges.get(name, (-0.5, 0.9))
        states.append(s.f32(*shape, low=bottom, high=top))
    tensors = [s.f32(*shape, low=0.2, high=0.9) for _ in neuron.tensors]
    return s.f32(count, *shape, low=low, high=high), states, tensors


def _variants(neuron: Neuron) -> Iterator[dict[str, Any]]:
    yield {}
    yield {"surrogate": "sigmoid", "alpha": 4.0, "detach_reset": True}
    if neuron.resets_softly:
        yield {"reset": "soft", "surrogate": "fast_sigmoid"}
        yield {"reset": "none", "surrogate": "triangular", "alpha": 0.5}
    if "decay_input" in neuron.attrs:
        yield {"decay_input": True, "v_reset": -0.25, "surrogate": "straight_through"}


def samples(s: Any, neuron: Neuron) -> None:
    """Cases of a scan or trace."""
    loose = {"tol": 2e-4} if neuron.name in ("izhikevich", "adex") else {}
    for attrs in _variants(neuron):
        x, states, tensors = _inputs(s, neuron, 6, 3, 4)
        s.case(x, *states, *tensors, grad="surrogate", **loose, **attrs)
    x, states, tensors = _inputs(s, neuron, 1, 5)
    s.case(x, *states, *tensors, grad="surrogate", **loose)
    x, states, tensors = _inputs(s, neuron, 2, 0, 4)
    s.case(x, *states, *tensors, grad="surrogate")
    x, states, tensors = _inputs(s, neuron, 3, 2)
    s.error(ShapeError, "time is the first axis", x[0], *states, *tensors)
    s.error(ShapeError, "at least one step", x[:0], *states, *tensors)
    s.error(DTypeError, "must be floating", x.astype("int32"), *states, *tensors)
    s.error(ValueError, "reset is", x, *states, *tensors, reset="gentle")
    s.error(ValueError, "surrogate", x, *states, *tensors, surrogate="unknown")
    s.error(ValueError, "alpha must be above 0", x, *states, *tensors, alpha=-1.0)
    for name in neuron.positive:
        s.error(ValueError, name, x, *states, *tensors, **{name: -1.0})


def gradient_samples(s: Any, neuron: Neuron) -> None:
    """Cases of the gradient: all its inputs are free, so the states over time need not be those of a scan."""
    loose = {"tol": 5e-4} if neuron.name in ("izhikevich", "adex") else {}
    count = 4
    for number, attrs in enumerate(_variants(neuron)):
        x, states, tensors = _inputs(s, neuron, count, 3, 2)
        kept = [_inputs(s, neuron, count, 3, 2)[1] for _ in range(count)]
        over = [s.array([kept[t][i] for t in range(count)]) for i in range(len(states))]
        seeds = [s.f32(count, 3, 2), *[s.f32(3, 2) for _ in states]]
        more = [s.f32(count, 3, 2) for _ in states] if number == 0 else []
        s.case(*seeds, x, *states, *over, *tensors, *more, grad="none", **loose, **attrs)
