"""A product and what follows it element by element become one launch in a recorded step, where the device has it.

Between the two lies nothing but a pass over memory and a barrier. Two pairs are known: a dense layer with its
activation, and a gradient through a dense layer with that through the ReLU before it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from grilly_core import config
from grilly_core.apply import plan_of
from grilly_core.capture.recorder import Entry
from grilly_core.device import Context
from grilly_core.opspec import Handle
from grilly_core.plan import KernelPlan, Ref

__all__ = ["with_epilogues"]

_dense: Final = Handle("nn.linear_act")
_gated: Final = Handle("nn.matmul_relu_vjp")
_ACTIVATIONS: Final = {"nn.relu": "relu", "nn.silu": "silu", "nn.sigmoid": "sigmoid", "tanh": "tanh"}

#: The op that does both, its operands and its attributes.
Pair = tuple[Handle, tuple[Ref | None, ...], tuple[Any, ...]]


def with_epilogues(
    entries: Sequence[Entry], roles: Sequence[str], kept: set[int], context: Context
) -> list[Entry]:
    """Return the launches with what follows a product drawn into it.

    Parameters
    ----------
    entries : sequence of Entry
    roles : sequence of str
        Of the slots.
    kept : set of int
        Slots whose values are needed after the last launch.
    context : Context
    """
    readers: dict[int, list[int]] = {}
    for i, entry in enumerate(entries):
        for ref in entry.ins:
            if ref is not None:
                readers.setdefault(ref.slot, []).append(i)
    result: list[Entry | None] = [*entries]
    for i, entry in enumerate(entries):
        if entry.plan.op.name not in ("nn.linear", "matmul"):
            continue
        slot = entry.outs[0].slot
        where = readers.get(slot, [])
        if len(where) == 1 and roles[slot] == "temporary" and slot not in kept:
            joined = _join(entry, entries[where[0]], context)
            if joined is not None and not _written_between(entries[i + 1 : where[0]], joined):
                result[i], result[where[0]] = None, joined
    return [entry for entry in result if entry is not None]


def _join(product: Entry, reader: Entry, context: Context) -> Entry | None:
    """Return one launch for a product and its only reader, None if they cannot be joined."""
    made, taken = product.outs[0], reader.ins[0] if reader.ins else None
    if taken is None or (made.spec, made.offset) != (taken.spec, taken.offset):
        return None
    pair = _pair(product, reader)
    if pair is None or reader.outs[0].spec != made.spec:
        return None
    handle, ins, attrs = pair
    specs = [None if ref is None else ref.spec for ref in ins]
    plan = plan_of(handle.op, specs, attrs, config.current(), False)
    if not isinstance(plan, KernelPlan) or plan.context is not context or plan.prepare is not None:
        return None
    return Entry(plan, ins, reader.outs)


def _pair(product: Entry, reader: Entry) -> Pair | None:
    """Return what does the work of both."""
    name, attrs = reader.plan.op.name, reader.plan.attrs
    if product.plan.op.name == "matmul":
        return (_gated, (*product.ins, reader.ins[1]), ()) if name == "nn.relu_vjp" else None
    if name == "nn.gelu":
        activation = {"none": "gelu", "tanh": "gelu_tanh"}.get(attrs["approximate"])
    else:
        activation = _ACTIVATIONS.get(name)
    if activation is None:
        return None
    return _dense, (*product.ins, *[None] * (3 - len(product.ins)), None), (activation,)


def _written_between(entries: Sequence[Entry], joined: Entry) -> bool:
    """Whether what a joined launch reads is written before it runs, now that it runs later."""
    read = {ref.slot for ref in joined.ins if ref is not None}
    return any(ref.slot in read for entry in entries for ref in entry.outs)
