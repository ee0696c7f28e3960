"""Scans over time on the CPU: what the printed functions of `scans` are called with."""

from __future__ import annotations

import importlib
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from grilly_ext_snn.neurons.model import Neuron, neuron_of
from grilly_ext_snn.ops.scans import NAMES
from grilly_ext_snn.surrogates import BUILT_IN, coefficients

__all__ = ["register"]

#: Steps of neurons worth a thread's while, and the most neurons of a block: its states stay in the second cache.
_WORK: Final = 1 << 15
_LARGEST: Final = 1 << 14
_SHARES: Final = 16


def _block(neurons: int, steps: int) -> int:
    """Return how many neurons a thread takes at once: long pieces of rows, as new memory is given in large pages."""
    return max(-(-_WORK // steps), min(-(-neurons // _SHARES), _LARGEST))


def _rows(view: Any, steps: int) -> NDArray[Any]:
    return np.ascontiguousarray(view.array).reshape(steps, -1)


def _flat(view: Any) -> NDArray[Any]:
    return np.ascontiguousarray(view.array).reshape(-1)


def _numbers(neuron: Neuron, attrs: dict[str, Any], dtype: Any, *more: float) -> NDArray[Any]:
    return np.array([0.0, 1.0, *neuron.constants(attrs), *more], dtype)


def _by_step(view: Any, steps: int) -> tuple[NDArray[Any], int]:
    """Return rows, and by how many rows a step goes on: none where all steps have the same, as a sum's gradient."""
    array: NDArray[Any] = view.array
    if not array.strides[0]:
        return np.ascontiguousarray(array[0]).reshape(1, -1), 0
    return _rows(view, steps), 1


def _compiled(runtime: Any, function: Any) -> Any:
    compiled = runtime.njit(function)
    compiled.replaced |= {"stream_out": runtime.stream_out, "stream_end": runtime.stream_end}
    return runtime.split(compiled)


class _Scans:
    """The kernels of one neuron."""

    def __init__(self, neuron: Neuron, runtime: Any) -> None:
        module = importlib.import_module(f"grilly_ext_snn.kernels.scans.{neuron.name}_scan")
        self.neuron = neuron
        self.least_streamed = runtime.least_streamed
        self.push, self.pull, self.pull_sigmoid = (
            _compiled(runtime, function)
            for function in (module.forward, module.backward, module.backward_sigmoid)
        )

    def _streamed(self, out: NDArray[Any]) -> bool:
        return out.nbytes >= self.least_streamed

    def scan(self, stream: Any, outs: Any, ins: Any, attrs: dict[str, Any]) -> None:
        """Spikes and last states; the states of all steps too where a tape records."""
        count = len(self.neuron.states)
        self._forward(
            ins, outs[0], [v.array.reshape(-1) for v in outs[1 : 1 + count]], outs[1 + count :], attrs
        )

    def trace(self, stream: Any, outs: Any, ins: Any, attrs: dict[str, Any]) -> None:
        """Spikes and the states of all steps."""
        last = [np.empty(v.array.size, v.array.dtype) for v in ins[1 : 1 + len(self.neuron.states)]]
        self._forward(ins, outs[0], last, outs[1:], attrs)

    def _forward(self, ins: Any, spikes: Any, last: list[Any], kept: Any, attrs: dict[str, Any]) -> None:
        steps = ins[0].array.shape[0]
        x = _rows(ins[0], steps)
        saved = [_rows(v, steps) for v in kept] or [np.empty((0, 0), x.dtype) for _ in last]
        k = _numbers(self.neuron, attrs, x.dtype)
        given = [v.array.reshape(-1) for v in ins[1:]]
        arguments = (
            k,
            *self.neuron.choices(attrs),
            bool(kept),
            self._streamed(x),
            x,
            *given,
            _rows(spikes, steps),
            *last,
            *saved,
        )
        self.push(x.shape[1], _block(x.shape[1], steps), arguments)

    def vjp(self, stream: Any, outs: Any, ins: Any, attrs: dict[str, Any]) -> None:
        """Gradients of the inputs, states and constants."""
        count, name = len(self.neuron.states), attrs["surrogate"]
        steps = ins[0].array.shape[0]
        seeds, first = ins[1 : 1 + count], ins[2 + count : 2 + 2 * count]
        kept, rest = ins[2 + 2 * count : 2 + 3 * count], ins[2 + 3 * count :]
        tensors, more = rest[: len(self.neuron.tensors)], rest[len(self.neuron.tensors) :]
        x = _rows(ins[1 + count], steps)
        traced, (g, stride) = more[0] is not None, _by_step(ins[0], steps)
        k = _numbers(self.neuron, attrs, x.dtype, *coefficients(name, attrs["alpha"]))
        arguments = (
            k, *self.neuron.choices(attrs), traced, stride, g,
            *[_flat(v) for v in seeds], x, *[_flat(v) for v in first], *[_rows(v, steps) for v in kept],
            *[_flat(v) for v in tensors],
            *[_rows(v, steps) if traced else np.empty((0, 0), x.dtype) for v in more],
            _rows(outs[0], steps), *[v.array.reshape(-1) for v in outs[1:]],
        )  # fmt: skip
        run = self.pull_sigmoid if name == "sigmoid" else self.pull
        run(x.shape[1], _block(x.shape[1], steps), arguments)


def _served(c: Any) -> bool:
    return c.outs[0].size > 0 and len({s.dtype.code for s in c.ins if s is not None}) == 1


def _served_back(c: Any) -> bool:
    given = [s is not None for s in c.ins]
    return _served(c) and c.attrs["surrogate"] in BUILT_IN and (all(given) or not given[-1])


def register(kernels: Any, runtime: Any) -> None:
    """Declare the kernels; without Numba the bodies serve."""
    if not runtime.has_numba:
        return
    how: dict[str, Any] = {
        "dtypes": {"f32", "f64"}, "compute": {"f16": "f32", "bf16": "f32"}, "layout": "contiguous",
    }  # fmt: skip
    for name in NAMES:
        scans = _Scans(neuron_of(name), runtime)
        kernels.add(f"snn.{name}_scan", scans.scan, when=_served, **how)
        kernels.add(f"snn.{name}_trace", scans.trace, when=_served, **how)
        kernels.add(f"snn.{name}_scan_vjp", scans.vjp, when=_served_back, **how | {"layout": "strided"})
