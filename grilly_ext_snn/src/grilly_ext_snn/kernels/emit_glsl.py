"""Print a neuron as a shader: its constants and the two functions that ``scan.glsl`` calls at every step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from grilly_ext_snn.kernels.printing import lines
from grilly_ext_snn.neurons.expressions import Expr
from grilly_ext_snn.neurons.model import Neuron

__all__ = ["shader"]

_WORDS: Final = {
    "add": "{0} + {1}", "sub": "{0} - {1}", "mul": "{0} * {1}", "div": "divide({0}, {1})", "neg": "-{0}",
    "exp": "own_exp({0})", "min": "min({0}, {1})", "max": "max({0}, {1})",
    "above": "{0} > {1} ? 1.0 : 0.0", "spike": "{0} >= 0.0 ? 1.0 : 0.0",
    "spike_strict": "{0} > 0.0 ? 1.0 : 0.0", "mix": "{0} > 0.0 ? {1} : {2}",
    "select": "{0} > 0.0 ? {1} : {2}", "choose": "{0} ? {1} : {2}", "surrogate": "surrogate({0})",
}  # fmt: skip
#: Of all products and sums, so that the driver neither joins nor reorders them: a step is the same bits everywhere.
_ASSIGN: Final = "precise float {name} = {value};"


def _symbol(e: Expr) -> str:
    if e.op == "const":
        return repr(e.value)
    return f"{'is' if e.op == 'flag' else 'v'}_{e.value}"


def shader(neuron: Neuron) -> str:
    """Return the text of the shader of one neuron, for both directions."""
    text = ["#version 460"]
    text += [
        "// Made from the description of the neuron by python -m grilly_ext_snn.kernels.emit; not to be edited."
    ]
    text += ['#include "maths.glsl"']
    sizes = {"STATES": len(neuron.states), "TENSORS": len(neuron.tensors), "CONSTANTS": len(neuron.names)}
    text += [f"#define {name} {size}" for name, size in sizes.items()]
    text += [
        f"layout(constant_id = {i}) const bool is_{name} = false;" for i, name in enumerate(neuron.flags)
    ]
    text += [
        "layout(constant_id = 15) const bool SIGMOID = false;",
        "layout(constant_id = 16) const bool KEPT = false;",
    ]
    text += ["float constants[CONSTANTS], slope[4];", '#include "surrogate.glsl"', ""]
    text += ["#ifdef BACKWARD", *_function(neuron, True), "#else", *_function(neuron, False), "#endif"]
    return "\n".join([*text, '#include "scan.glsl"', ""])


def _function(neuron: Neuron, backward: bool) -> list[str]:
    program = neuron.backward if backward else neuron.forward
    body, results = lines(program.outputs, _WORDS, _symbol, _ASSIGN)
    states, tensors = neuron.states, neuron.tensors
    known = [f"v_{name} = constants[{i}]" for i, name in enumerate(neuron.names)]
    known += [f"v_{s} = state[{i}]" for i, s in enumerate(states)]
    known += [f"v_{t} = given[{i}]" for i, t in enumerate(tensors)]
    if backward:
        head = "float pull(float v_g_spike, float v_x, float state[STATES], float given[TENSORS + 1],"
        head += " inout float g_state[STATES], inout float g_given[TENSORS + 1]) {"
        known += [f"v_g_{s} = g_state[{i}]" for i, s in enumerate(states)]
    else:
        head = "float push_on(float v_x, inout float state[STATES], float given[TENSORS + 1]) {"
    target = "g_state" if backward else "state"
    ends = [f"{target}[{i}] = {r};" for i, r in enumerate(results[1 : 1 + len(states)])]
    ends += [f"g_given[{i}] += {r};" for i, r in enumerate(results[1 + len(states) :])] if backward else []
    inner: Sequence[str] = [*[f"float {k};" for k in known], *body, *ends, f"return {results[0]};"]
    return [head, *[f"    {line}" for line in inner], "}"]
