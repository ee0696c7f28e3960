"""A dense layer and its activation become one launch in a recorded step, where the device has a kernel for it.

Between the two lies nothing but a pass over memory and a barrier. The rule is a table: what `nn.linear_act` can do to a
product whose result is read by one activation alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from grilly_core import config
from grilly_core.apply import plan_of
from grilly_core.capture.recorder import Entry
from grilly_core.device import Context
from grilly_core.opspec import Handle
from grilly_core.plan import KernelPlan

__all__ = ["with_epilogues"]

_joined: Final = Handle("nn.linear_act")
_PRODUCT: Final = "nn.linear"


def _activation(op: str, attrs: dict[str, Any]) -> str | None:
    """Return the name by which `nn.linear_act` knows an op, None if it does not."""
    if op == "nn.gelu":
        return {"none": "gelu", "tanh": "gelu_tanh"}.get(attrs["approximate"])
    return {"nn.relu": "relu", "nn.silu": "silu", "nn.sigmoid": "sigmoid", "tanh": "tanh"}.get(op)


def with_epilogues(
    entries: Sequence[Entry], roles: Sequence[str], kept: set[int], context: Context
) -> list[Entry]:
    """Return the launches with activations drawn into the products before them.

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
        if entry.plan.op.name != _PRODUCT:
            continue
        slot = entry.outs[0].slot
        where = readers.get(slot, [])
        if len(where) == 1 and roles[slot] == "temporary" and slot not in kept:
            joined = _join(entry, entries[where[0]], context)
            if joined is not None and not _written_between(entries[i + 1 : where[0]], joined):
                result[i], result[where[0]] = None, joined
    return [entry for entry in result if entry is not None]


def _join(product: Entry, reader: Entry, context: Context) -> Entry | None:
    """Return one launch for a product and its reader, None if they cannot be joined."""
    name = _activation(reader.plan.op.name, reader.plan.attrs)
    made, taken = product.outs[0], reader.ins[0]
    if name is None or taken is None or (made.spec, made.offset) != (taken.spec, taken.offset):
        return None
    if reader.outs[0].spec != made.spec:
        return None
    ins = (*product.ins, *[None] * (3 - len(product.ins)), None)
    specs = [None if ref is None else ref.spec for ref in ins]
    plan = plan_of(_joined.op, specs, (name,), config.current(), False)
    if not isinstance(plan, KernelPlan) or plan.context is not context or plan.prepare is not None:
        return None
    return Entry(plan, ins, reader.outs)


def _written_between(entries: Sequence[Entry], joined: Entry) -> bool:
    """Whether what a joined launch reads is written before it runs, now that it runs later."""
    read = {ref.slot for ref in joined.ins if ref is not None}
    return any(ref.slot in read for entry in entries for ref in entry.outs)
