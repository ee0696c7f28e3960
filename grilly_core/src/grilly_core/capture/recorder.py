"""Recording: a sink that runs every launch and writes it down, and the comparison of two recordings."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from grilly_core import dtypes
from grilly_core.buffer import Buffer, Spec, View, contiguous_spec
from grilly_core.capture.cells import Cell
from grilly_core.device import Context
from grilly_core.errors import CaptureError
from grilly_core.plan import EAGER, KernelPlan, Ref, Views
from grilly_core.random import Generator
from grilly_core.tensor import Tensor

__all__ = ["Entry", "Record", "Recorder", "compare"]


@dataclass(slots=True)
class Entry:
    """One recorded launch."""

    plan: KernelPlan
    ins: tuple[Ref | None, ...]
    outs: tuple[Ref, ...]

    def differs(self, other: Entry) -> str:
        """Say what differs from another recording of the step, or return an empty string."""
        if self.plan.op.name != other.plan.op.name:
            return f"op {self.plan.op.name!r} in one call, {other.plan.op.name!r} in the next"
        for key, value in self.plan.attrs.items():
            if other.plan.attrs.get(key) != value:
                return f"attribute {key!r} of op {self.plan.op.name!r}: {value!r}, then {other.plan.attrs.get(key)!r}"
        if (self.ins, self.outs) != (other.ins, other.outs):
            return f"operands of op {self.plan.op.name!r} (a constant, such as a number computed in Python, changed)"
        return ""


class Recorder:
    """A sink that runs every launch and writes it down; holds no memory alive but constants."""

    symbolic = False

    def __init__(self, context: Context) -> None:
        self.context = context
        self.entries: list[Entry] = []
        self.specs: list[Spec] = []
        self.roles: list[str] = []
        self.constants: dict[int, View] = {}
        self.random: dict[int, tuple[Generator, Tensor, int]] = {}
        self._slots: dict[int, int] = {}
        self._kept: list[Buffer] = []

    def slot(self, view: View, role: str) -> int:
        """Give a buffer its slot."""
        spec = contiguous_spec((view.buffer.nbytes // view.dtype.itemsize,), view.dtype, view.spec.context)
        self.specs.append(spec)
        self.roles.append(role)
        self._slots[id(view.buffer)] = len(self.specs) - 1
        return len(self.specs) - 1

    def alloc(self, spec: Spec) -> View:
        """Allocate a temporary."""
        view = spec.context.empty(spec)
        self.slot(view, "temporary")
        return view

    def view(self, buffer: Buffer, spec: Spec, offset: int) -> View:
        """Show a buffer."""
        return spec.context.view(buffer, spec, offset)

    def launch(self, plan: KernelPlan, outs: list[View], ins: Views) -> None:
        """Run one kernel and write it down."""
        entry = Entry(
            plan,
            tuple(None if v is None else self.ref(v, plan) for v in ins),
            tuple(self.ref(v, plan) for v in outs),
        )
        self.entries.append(entry)
        EAGER.launch(plan, outs, ins)

    def ref(self, view: View, plan: KernelPlan | None = None) -> Ref:
        """Return the slot reference of a view."""
        slot = self._slots.get(id(view.buffer), -1)
        if slot < 0:
            if not view.buffer.constant:
                where = f" of op {plan.op.name!r}" if plan is not None else ""
                raise CaptureError(
                    f"capture: an operand{where}, {view.spec!r}, is neither an argument of the step nor in state=...; "
                    "pass the tensor as an argument, or name what holds it in state."
                )
            slot = self.slot(view, "constant")
            self.constants[slot] = view
            self._kept.append(view.buffer)
        return Ref(slot, view.spec, view.offset, False)

    def note_upload(self, view: View) -> None:
        """Take data that the step brings from the host as a constant."""
        self.constants[self.slot(view, "constant")] = view
        self._kept.append(view.buffer)

    def reserve_random(self, generator: Generator, blocks: int) -> tuple[Tensor, int]:
        """Hand out numbers relative to the generator's offset at the start of the step."""
        if id(generator) not in self.random:
            state = Tensor(self.context.upload(generator.state_words(), dtypes.uint32))
            slot = self._slots[id(state._value.buffer)]
            self.roles[slot] = "random"
            del self.constants[slot]
            self.random[id(generator)] = (generator, state, 0)
        known, state, taken = self.random[id(generator)]
        self.random[id(generator)] = (known, state, taken + blocks)
        return state, taken

    def may_reuse(self, tensor: Tensor) -> bool:
        """State is updated in place; what else an op donates is copied."""
        slot = self._slots.get(id(tensor._value.buffer), -1)
        return slot >= 0 and self.roles[slot] == "state"

    def refuse_read(self) -> None:
        """Refuse a host read."""
        raise CaptureError(
            "capture: the step reads a value on the host (item(), numpy(), print, if tensor: ...); return "
            "the tensor and "
            "read it after the step."
        )

    def refuse_fallback(self, op: str, reason: str) -> None:
        """Refuse a fallback."""
        raise CaptureError(
            f"capture: op {op!r} would run on the CPU ({reason}), which a captured step cannot do."
        )


@dataclass
class Record:
    """All that one recorded call left."""

    recorder: Recorder
    inputs: list[int]
    cells: list[Cell]
    starts: list[int]
    ends: list[Ref | None]
    outputs: Any
    random: list[tuple[Generator, int, int]] = field(default_factory=list)


def compare(first: Record, second: Record) -> None:
    """Raise unless two recordings of the step are the same."""
    a, b = first.recorder.entries, second.recorder.entries
    for x, y in zip(a, b, strict=False):
        found = x.differs(y)
        if found:
            raise CaptureError(
                f"capture: two calls of the step differ: {found}. Pass what changes as a tensor argument or state."
            )
    if len(a) != len(b):
        extra = (a if len(a) > len(b) else b)[min(len(a), len(b))]
        raise CaptureError(
            f"capture: two calls of the step differ: op {extra.plan.op.name!r} ran in only one of them."
        )
    for slot, view in second.recorder.constants.items():
        known = first.recorder.constants.get(slot)
        if known is None or not np.array_equal(
            known.spec.context.download(known),
            view.spec.context.download(view),
            equal_nan=view.dtype.kind in "fc",
        ):
            raise CaptureError(
                f"capture: a constant{_reader(b, slot)} ({view.spec!r}) differs between two calls; "
                "pass it as a tensor argument."
            )
    if first.ends != second.ends or first.starts != second.starts:
        names = [c.name for c, x, y in zip(second.cells, first.ends, second.ends, strict=True) if x != y]
        raise CaptureError(
            f"capture: the state {', '.join(names[:3]) or '(gradients)'} is not used the same way in two calls; "
            "clear gradients at the start of the step."
        )
    if repr(first.outputs) != repr(second.outputs):
        raise CaptureError(
            f"capture: the step returned {first.outputs!r}, then {second.outputs!r}; return tensors."
        )


def _reader(entries: list[Entry], slot: int) -> str:
    """Name the first op that reads a slot."""
    for entry in entries:
        if any(r is not None and r.slot == slot for r in entry.ins):
            return f" of op {entry.plan.op.name!r}"
    return " of the step"
