"""Print a neuron as functions that Numba compiles.

Each works on the neurons from `start` to `stop` through all steps, so that no thread waits for another and the states
of a block stay in its cache. The inner loop runs over slices from 0, which is what gets vectorised. Where results
are `streamed`, a row is worked out in a buffer and then written past the caches. Gradients are not: their loop gains
nothing from it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from grilly_ext_snn.kernels.printing import constants, lines
from grilly_ext_snn.neurons.expressions import Expr, exp, maximum, minimum, replaced, symbol
from grilly_ext_snn.neurons.model import Neuron
from grilly_ext_snn.surrogates import FAR

__all__ = ["module"]

_WORDS: Final = {
    "add": "{0} + {1}", "sub": "{0} - {1}", "mul": "{0} * {1}", "div": "{0} / {1}", "neg": "-{0}",
    "exp": "math.exp({0})", "min": "min({0}, {1})", "max": "max({0}, {1})",
    "above": "one if {0} > {1} else zero", "spike": "one if {0} >= zero else zero",
    "spike_strict": "one if {0} > zero else zero", "mix": "{1} if {0} > zero else {2}",
    "select": "{1} if {0} > zero else {2}", "choose": "{1} if {0} else {2}",
}  # fmt: skip


def _rational(distance: Expr) -> Expr:
    """All built-in surrogates but one, by their coefficients; see `grilly_ext_snn.surrogates.BUILT_IN`."""
    d = minimum(maximum(distance, -distance), FAR)
    c0, c1, c2, c3 = (symbol(f"c{i}") for i in range(4))
    return c0 * maximum(1.0 - c3 * d, 0.0) / (1.0 + d * (c1 + c2 * d))


def _sigmoid(distance: Expr) -> Expr:
    small = exp(-(symbol("c0") * maximum(distance, -distance)))
    return symbol("c0") * small / ((1.0 + small) * (1.0 + small))


_HEAD: Final = '''"""{doc}

Made from the description of the neuron by ``python -m grilly_ext_snn.kernels.emit``; not to be edited.
"""

# fmt: off
# ruff: noqa

import math

import numpy as np

stream_out = stream_end = None  # replaced by what the runtime compiles: see `scans_cpu`
'''


def module(neuron: Neuron) -> str:
    """Return the text of the module of one neuron."""
    parts = [_HEAD.format(doc=f"The scans of `{neuron.name}`.")]
    parts.append(_forward(neuron))
    parts.append(_backward(neuron, "backward", _rational))
    parts.append(_backward(neuron, "backward_sigmoid", _sigmoid))
    return "\n\n".join(part.strip("\n") + "\n" for part in parts)


def _symbol(numbers: Sequence[float]) -> Callable[[Expr], str]:
    def symbol(e: Expr) -> str:
        if e.op != "const":
            return str(e.value)
        if e.value in (0.0, 1.0):
            return "one" if e.value else "zero"
        return f"n{numbers.index(e.value)}"  # type: ignore[arg-type]

    return symbol


def _constants(neuron: Neuron, numbers: Sequence[float], more: Sequence[str] = ()) -> list[str]:
    """Return the lines that give the constants names: they are in the type of the data, as Python's are doubles."""
    names = ["zero", "one", *neuron.names, *more, *[f"n{i}" for i in range(len(numbers))]]
    given = ["k[0]", "k[1]", *[f"k[{2 + i}]" for i in range(len(neuron.names) + len(more))]]
    given += [f"x_in.dtype.type({number!r})" for number in numbers]
    return [f"{name} = {value}" for name, value in zip(names, given, strict=True)]


def _indented(depth: int, texts: Sequence[str]) -> list[str]:
    return ["    " * depth + text for text in texts]


def _forward(neuron: Neuron) -> str:
    states, outputs = neuron.states, neuron.forward.outputs
    numbers = constants(outputs)
    body, results = lines(outputs, _WORDS, _symbol(numbers), "{name} = {value}")
    arguments = [
        "k", *neuron.flags, "kept", "streamed", "x_in", *[f"{s}_first" for s in states],
        *[f"{t}_in" for t in neuron.tensors], "spikes", *[f"{s}_last" for s in states], *[f"{s}_kept" for s in states],
    ]  # fmt: skip
    text = ["def forward(start, stop, args):", *_indented(1, [f"{', '.join(arguments)} = args"])]
    text += _indented(1, _constants(neuron, numbers))
    text += _indented(1, [f"{s}_last[start:stop] = {s}_first[start:stop]" for s in states])
    text += _indented(1, ["work = np.empty(stop - start if streamed else 0, x_in.dtype)"])
    text += _indented(1, ["for t in range(x_in.shape[0]):"])
    text += _indented(2, ["x_row = x_in[t, start:stop]"])
    text += _indented(2, ["spike_row = work if streamed else spikes[t, start:stop]"])
    text += _indented(2, [f"{s}_row = {s}_last[start:stop]" for s in states])
    text += _indented(2, [f"{t}_row = {t}_in[start:stop]" for t in neuron.tensors])
    text += _indented(2, ["for j in range(stop - start):"])
    text += _indented(3, ["x = x_row[j]", *[f"{s} = {s}_row[j]" for s in states]])
    text += _indented(3, [f"{t} = {t}_row[j]" for t in neuron.tensors])
    text += _indented(3, [*body, f"spike_row[j] = {results[0]}"])
    text += _indented(3, [f"{s}_row[j] = {r}" for s, r in zip(states, results[1:], strict=True)])
    text += _indented(2, ["if kept and not streamed:"])
    text += _indented(3, [f"{s}_kept[t, start:stop] = {s}_row" for s in states])
    text += _indented(2, ["if kept and streamed:"])
    text += _indented(3, [f"stream_out({s}_row, {s}_kept[t, start:stop])" for s in states])
    text += _indented(2, ["if streamed:", "    stream_out(spike_row, spikes[t, start:stop])"])
    text += _indented(1, ["if streamed:", "    stream_end()"])
    return "\n".join(text)


def _backward(neuron: Neuron, name: str, slope: Callable[[Expr], Expr]) -> str:
    states, outputs = neuron.states, replaced(neuron.backward.outputs, "surrogate", slope)
    numbers, count = constants(outputs), len(neuron.states)
    body, results = lines(outputs, _WORDS, _symbol(numbers), "{name} = {value}")
    arguments = [
        "k", *neuron.flags, "traced", "stride", "g_spikes", *[f"g_{s}_last" for s in states], "x_in",
        *[f"{s}_first" for s in states], *[f"{s}_kept" for s in states], *[f"{t}_in" for t in neuron.tensors],
        *[f"g_{s}_kept" for s in states], "g_x", *[f"g_{s}_first" for s in states],
        *[f"g_{t}_out" for t in neuron.tensors],
    ]  # fmt: skip
    text = [f"def {name}(start, stop, args):", *_indented(1, [f"{', '.join(arguments)} = args"])]
    text += _indented(1, _constants(neuron, numbers, ("c0", "c1", "c2", "c3")))
    text += _indented(1, [f"g_{s}_first[start:stop] = g_{s}_last[start:stop]" for s in states])
    text += _indented(1, [f"g_{t}_out[start:stop] = zero" for t in neuron.tensors])
    text += _indented(1, ["nothing = np.zeros(stop - start, x_in.dtype)"])
    text += _indented(1, ["for t in range(x_in.shape[0] - 1, -1, -1):"])
    text += _indented(
        2,
        ["g_row, x_row, g_x_row = g_spikes[t * stride, start:stop], x_in[t, start:stop], g_x[t, start:stop]"],
    )
    for s in states:
        text += _indented(2, [f"{s}_old = {s}_kept[t - 1, start:stop] if t > 0 else {s}_first[start:stop]"])
        text += _indented(2, [f"g_{s}_row = g_{s}_first[start:stop]"])
        text += _indented(2, [f"g_{s}_more = g_{s}_kept[t, start:stop] if traced else nothing"])
    for t in neuron.tensors:
        text += _indented(2, [f"{t}_row, g_{t}_row = {t}_in[start:stop], g_{t}_out[start:stop]"])
    text += _indented(2, ["for j in range(stop - start):"])
    text += _indented(3, ["g_spike, x = g_row[j], x_row[j]", *[f"{s} = {s}_old[j]" for s in states]])
    text += _indented(3, [f"g_{s} = g_{s}_row[j] + g_{s}_more[j]" for s in states])
    text += _indented(3, [f"{t} = {t}_row[j]" for t in neuron.tensors])
    text += _indented(3, [*body, f"g_x_row[j] = {results[0]}"])
    text += _indented(3, [f"g_{s}_row[j] = {r}" for s, r in zip(states, results[1:], strict=False)])
    text += _indented(
        3, [f"g_{t}_row[j] += {r}" for t, r in zip(neuron.tensors, results[1 + count :], strict=True)]
    )
    return "\n".join(text)
