"""The scans over time of every neuron: ``snn.<name>_scan``, ``snn.<name>_trace`` and their gradient.

All are made from the neuron's description. Time is the first axis of `x`, the states have the shape of one step.
A step alone is a scan with T = 1, so a loop of steps gives the bits of the scan.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any, Final

from grilly_core.errors import DTypeError, ShapeError
from grilly_core.ops.creation import zeros_like
from grilly_core.ops.structure import stack, unstack
from grilly_core.opspec import Op, op
from grilly_core.tensor import Tensor
from grilly_ext_snn.neurons.model import Neuron, neuron_of
from grilly_ext_snn.neurons.running import run
from grilly_ext_snn.ops.scan_samples import gradient_samples, samples
from grilly_ext_snn.surrogates import derivative

__all__ = ["NAMES", "SCANS", "TRACES", "VJPS"]

NAMES: Final = (
    "if", "lif", "plif", "lif_refractory", "alif", "gif", "leaky", "lapicque", "synaptic", "alpha", "izhikevich",
    "adex",
)  # fmt: skip

SCANS: Final[dict[str, Op[..., tuple[Tensor, ...]]]] = {}
TRACES: Final[dict[str, Op[..., tuple[Tensor, ...]]]] = {}
VJPS: Final[dict[str, Op[..., tuple[Tensor, ...]]]] = {}

_DOC: Final = """{what} of a scan over time: {step}

    `x` ``(T, ...)`` are the inputs, {states} the states before the first step{tensors}. Returns the spikes
    ``(T, ...)`` and {rest}.
    """


def _signature(
    function: Callable[..., Any], tensors: Sequence[str], optional: Sequence[str], neuron: Neuron
) -> None:
    """Give a function of ``*tensors, **attrs`` the parameters that its op has."""
    kind = inspect.Parameter
    parameters = [kind(n, kind.POSITIONAL_OR_KEYWORD, annotation=Tensor) for n in tensors]
    parameters += [kind(n, kind.POSITIONAL_OR_KEYWORD, default=None, annotation=Tensor) for n in optional]
    parameters += [kind(n, kind.KEYWORD_ONLY, default=d, annotation=type(d)) for n, d in neuron.attrs.items()]
    function.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]


def _check(what: str, neuron: Neuron, tensors: Sequence[Tensor], attrs: dict[str, Any]) -> None:
    neuron.check(attrs)
    derivative(attrs["surrogate"])
    x, *others = tensors
    if x.ndim < 1 or x.shape[0] < 1:
        raise ShapeError(
            f"{what}: x needs time as its first axis, at least one step: (T, ...); received {tuple(x.shape)}."
        )
    if not x.dtype.is_floating:
        raise DTypeError(f"{what}: x must be floating; received {x.dtype.name}. Cast spikes with .float().")
    for name, t in zip((*neuron.states, *neuron.tensors), others, strict=True):
        if tuple(t.shape) != tuple(x.shape[1:]):
            raise ShapeError(
                f"{what}: {name} must have the shape {tuple(x.shape[1:])} of one step of x {tuple(x.shape)} (time is "
                f"the first axis); received {tuple(t.shape)}."
            )
        if t.dtype is not x.dtype:
            raise DTypeError(f"{what}: {name} is {t.dtype.name}, x is {x.dtype.name}; cast one of them.")


def _constants(neuron: Neuron, attrs: dict[str, Any]) -> dict[str, Any]:
    numbers = dict(zip(neuron.names, neuron.constants(attrs), strict=True))
    return {**numbers, **dict(zip(neuron.flags, neuron.choices(attrs), strict=True))}


def _forward(
    what: str, neuron: Neuron, tensors: Sequence[Any], attrs: dict[str, Any]
) -> tuple[list[Any], ...]:
    """Return the spikes and each state as lists over time."""
    _check(what, neuron, tensors, attrs)
    count = len(neuron.states)
    x, state, given = tensors[0], list(tensors[1 : 1 + count]), tensors[1 + count :]
    known = {**_constants(neuron, attrs), **dict(zip(neuron.tensors, given, strict=True))}
    lists: tuple[list[Any], ...] = tuple([] for _ in range(1 + count))
    for step in unstack(x):
        values = {**known, "x": step, **dict(zip(neuron.states, state, strict=True))}
        results = run(neuron.forward, neuron.forward.outputs, values)
        state = results[1:]
        for store, result in zip(lists, results, strict=True):
            store.append(result)
    return lists


def _backward(neuron: Neuron, tensors: Sequence[Any], attrs: dict[str, Any]) -> tuple[Tensor, ...]:
    """Go through the steps from the last to the first, each recomputed from the states it started with."""
    count, learnt = len(neuron.states), len(neuron.tensors)
    g_spikes, *g_state = tensors[: 1 + count]
    x, *first = tensors[1 + count : 2 + 2 * count]
    kept = [unstack(s) for s in tensors[2 + 2 * count : 2 + 3 * count]]
    given = tensors[2 + 3 * count : 2 + 3 * count + learnt]
    g_kept = [None if g is None else unstack(g) for g in tensors[2 + 3 * count + learnt :]]
    known = {**_constants(neuron, attrs), **dict(zip(neuron.tensors, given, strict=True))}
    surrogate, alpha = derivative(attrs["surrogate"]), attrs["alpha"]
    rules = {"surrogate": lambda distance: surrogate(distance, alpha)}
    steps, gs, gxs, totals = unstack(x), unstack(g_spikes), [], [0.0] * learnt
    for t in reversed(range(len(steps))):
        before = first if t == 0 else [s[t - 1] for s in kept]
        g_state = [g if k is None else g + k[t] for g, k in zip(g_state, g_kept, strict=True)]
        values = {"g_spike": gs[t], **{f"g_{n}": g for n, g in zip(neuron.states, g_state, strict=True)}}
        values |= {**known, "x": steps[t], **dict(zip(neuron.states, before, strict=True))}
        gx, *rest = run(neuron.backward, neuron.backward.outputs, values, rules)
        gxs.append(gx)
        g_state = rest[:count]
        totals = [total + g for total, g in zip(totals, rest[count:], strict=True)]
    filled = [_tensor(g, x[0]) for g in (*g_state, *totals)]
    return (stack([_tensor(g, x[0]) for g in reversed(gxs)], axis=0), *filled)


def _tensor(g: Any, like: Tensor) -> Tensor:
    return g if isinstance(g, Tensor) else zeros_like(like)


def _gradients(neuron: Neuron, spikes: Any, finals: Any, kept: Any, ins: Any, values: Any, attrs: Any) -> Any:
    """Call the gradient op; `values` are the states over time, `kept` their gradients or None."""
    count = len(neuron.states)
    return VJPS[neuron.name](
        spikes, *finals, ins[0], *ins[1 : 1 + count], *values, *ins[1 + count :], *kept, **attrs
    )


def _declare_scan(neuron: Neuron) -> None:
    count = len(neuron.states)

    def body(*tensors: Any, **attrs: Any) -> tuple[Tensor, ...]:
        spikes, *states = _forward(f"{neuron.name}_scan", neuron, tensors, attrs)
        return (stack(spikes, axis=0), *[s[-1] for s in states], *[stack(s, axis=0) for s in states])

    def vjp(grads: Any, outs: Any, ins: Any, attrs: Any, needs: Any) -> Any:
        kept = outs[1 + count :]
        return _gradients(neuron, grads[0], grads[1 : 1 + count], [None] * count, ins, kept, attrs)

    made = _declared(neuron, "scan", body, "the states after the last step", hidden=count)
    made.vjp(vjp)
    SCANS[neuron.name] = made


def _declare_trace(neuron: Neuron) -> None:
    count = len(neuron.states)

    def body(*tensors: Any, **attrs: Any) -> tuple[Tensor, ...]:
        lists = _forward(f"{neuron.name}_trace", neuron, tensors, attrs)
        return tuple(stack(values, axis=0) for values in lists)

    def vjp(grads: Any, outs: Any, ins: Any, attrs: Any, needs: Any) -> Any:
        nothing = [zeros_like(s) for s in ins[1 : 1 + count]]
        return _gradients(neuron, grads[0], nothing, grads[1:], ins, outs[1:], attrs)

    made = _declared(neuron, "trace", body, "the states after every step ``(T, ...)``")
    made.vjp(vjp)
    TRACES[neuron.name] = made


def _declared(neuron: Neuron, kind: str, body: Callable[..., Any], rest: str, **options: Any) -> Op[..., Any]:
    tensors = f", {', '.join(neuron.tensors)} constants of that shape" if neuron.tensors else ""
    what = "Spikes and last states" if kind == "scan" else "Spikes and all states"
    names = ", ".join(f"`{s}`" for s in neuron.states)
    body.__doc__ = _DOC.format(what=what, step=neuron.doc, states=names, tensors=tensors, rest=rest)
    _signature(body, neuron.forward.inputs, (), neuron)
    made = op(f"snn.{neuron.name}_{kind}", autocast="f32", **options)(body)
    made.samples(lambda s: samples(s, neuron))
    return made


def _declare_vjp(neuron: Neuron) -> None:
    def body(*tensors: Any, **attrs: Any) -> tuple[Tensor, ...]:
        return _backward(neuron, tensors, attrs)

    body.__doc__ = f"Gradients of `{neuron.name}_scan` and `{neuron.name}_trace` for x, states and constants."
    kept = [f"{s}_kept" for s in neuron.states]
    tensors = (*neuron.backward.inputs[: 2 + 2 * len(neuron.states)], *kept, *neuron.tensors)
    _signature(body, tensors, [f"g_{k}" for k in kept], neuron)
    made = op(f"snn.{neuron.name}_scan_vjp", internal=True, autocast="f32")(body)
    made.samples(lambda s: gradient_samples(s, neuron))
    VJPS[neuron.name] = made


for _name in NAMES:
    _neuron = neuron_of(_name)
    _declare_vjp(_neuron)
    _declare_scan(_neuron)
    _declare_trace(_neuron)
