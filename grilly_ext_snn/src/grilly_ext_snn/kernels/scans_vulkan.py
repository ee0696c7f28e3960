"""Scans over time for Vulkan: one launch, a thread for each neuron."""

from __future__ import annotations

import struct
from typing import Any, Final

from grilly_ext_snn.neurons.model import Neuron, neuron_of
from grilly_ext_snn.ops.scans import NAMES
from grilly_ext_snn.surrogates import BUILT_IN, coefficients

__all__ = ["register"]

_PUSH: Final = struct.Struct("<Q2I")
_THREADS: Final = 64
_MAX_GROUPS: Final = 65535
#: Steps of one launch: a software driver leaves loops after 65535 turns.
_MAX_STEPS: Final = 1 << 14
_SIGMOID, _KEPT = 15, 16  # specialisation constants of scan.glsl


class _Scans:
    """The kernels of one neuron."""

    def __init__(self, neuron: Neuron) -> None:
        self.neuron = neuron

    def scan(self, stream: Any, outs: Any, ins: Any, attrs: dict[str, Any]) -> None:
        """Spikes and last states; the states of all steps too where a tape records."""
        count = len(self.neuron.states)
        self._forward(stream, ins, outs, list(outs[1 : 1 + count]), list(outs[1 + count :]), attrs)

    def trace(self, stream: Any, outs: Any, ins: Any, attrs: dict[str, Any]) -> None:
        """Spikes and the states of all steps."""
        self._forward(stream, ins, outs, [None] * len(self.neuron.states), list(outs[1:]), attrs)

    def _forward(
        self, stream: Any, ins: Any, outs: Any, last: list[Any], kept: list[Any], attrs: dict[str, Any]
    ) -> None:
        places = [*ins, outs[0], *last, *(kept or [None] * len(last))]
        self._launch(stream, "scan", places, ins, outs, bool(kept), attrs)

    def vjp(self, stream: Any, outs: Any, ins: Any, attrs: dict[str, Any]) -> None:
        """Gradients of the inputs, states and constants."""
        self._launch(stream, "scan_vjp", [*ins, *outs], ins, outs, ins[-1] is not None, attrs)

    def _launch(
        self,
        stream: Any,
        kind: str,
        places: list[Any],
        ins: Any,
        outs: Any,
        kept: bool,
        attrs: dict[str, Any],
    ) -> None:
        neuron, surrogate = self.neuron, attrs["surrogate"]
        steps = ins[0].spec.shape[0]
        count = ins[0].spec.size // steps
        numbers = [
            *neuron.constants(attrs),
            *coefficients(surrogate if surrogate in BUILT_IN else "atan", attrs["alpha"]),
        ]
        addresses = [0 if v is None else stream.address(v) for v in places]
        table = struct.pack(f"<{len(addresses)}Q{len(numbers)}f", *addresses, *numbers)
        choices = [*neuron.choices(attrs)]
        choices += [False] * (_SIGMOID - len(choices)) + [surrogate == "sigmoid", kept]
        groups = (min(-(-count // _THREADS), _MAX_GROUPS), 1, 1)
        push = _PUSH.pack(stream.arguments(table), count, steps)
        pipeline = stream.pipeline(f"snn.{neuron.name}_{kind}", tuple(choices))
        stream.launch(pipeline, groups, push, [v for v in ins if v is not None], list(outs))


def _served(c: Any) -> bool:
    x = c.ins[0]
    return (
        all(s is None or s.dtype.code == "f32" for s in c.ins)
        and 0 < x.size < 1 << 31
        and x.shape[0] <= _MAX_STEPS
    )


def _served_back(c: Any) -> bool:
    given = [s is not None for s in c.ins]
    return _served(c) and c.attrs["surrogate"] in BUILT_IN and (all(given) or not given[-1])


def register(kernels: Any, runtime: Any) -> None:
    """Declare the kernels."""
    how: dict[str, Any] = {
        "dtypes": {"f32"}, "compute": {"f16": "f32", "bf16": "f32"}, "layout": "contiguous",
    }  # fmt: skip
    for name in NAMES:
        scans = _Scans(neuron_of(name))
        kernels.add(f"snn.{name}_scan", scans.scan, when=_served, **how)
        kernels.add(f"snn.{name}_trace", scans.trace, when=_served, **how)
        kernels.add(f"snn.{name}_scan_vjp", scans.vjp, when=_served_back, **how)
