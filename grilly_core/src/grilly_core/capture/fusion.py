"""Runs of elementwise launches in a recorded step become one launch where the device offers that.

A launch that reads what the one before it wrote costs a pass over memory and a barrier. Neighbours in the list of
launches that work element by element on operands of one size need neither: what lies between them stays in registers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol, runtime_checkable

from grilly_core.buffer import Spec
from grilly_core.capture.recorder import Entry
from grilly_core.device import Context
from grilly_core.plan import KernelPlan, Ref

__all__ = ["Chain", "FusedPlan", "SupportsFusion", "fused", "live"]

_ALIGNMENT: Final = 16  # bytes, of where an operand begins in its memory


@dataclass(frozen=True, slots=True)
class Chain:
    """A straight line of elementwise operations on operands of one size.

    Attributes
    ----------
    inputs : tuple of (str, bool)
        Dtype code of each, and whether it is one element for all.
    steps : tuple of (str, tuple of int)
        The device's name of an operation and its operands: inputs are counted first, then results of earlier steps.
    outputs : tuple of (int, str)
        Which results are stored, and their dtype codes.
    """

    inputs: tuple[tuple[str, bool], ...]
    steps: tuple[tuple[str, tuple[int, ...]], ...]
    outputs: tuple[tuple[int, str], ...]


@runtime_checkable
class SupportsFusion(Protocol):
    """A runtime that makes a kernel of a chain.

    Attributes
    ----------
    max_fused : (int, int)
        How many inputs and outputs a chain may have.
    """

    max_fused: tuple[int, int]

    def fusable(self, op: str, attrs: dict[str, Any], ins: tuple[str, ...], out: str) -> str | None:
        """Return the device's name of an op on these dtypes, None if it cannot be part of a chain."""

    def fuse(self, chain: Chain) -> Any:
        """Return the kernel of a chain."""


class FusedPlan:
    """Stands for the plans of the launches that it replaces."""

    def __init__(self, context: Context, kernel: Any, entries: Sequence[Entry]) -> None:
        bind = getattr(context.runtime, "bind", None)
        self.fn = kernel if bind is None else bind(kernel)
        self.context = context
        self.stream = context.stream
        self.attrs: dict[str, Any] = {}
        self.op = _FusedOp(" ".join(e.plan.op.name for e in entries))


@dataclass(frozen=True, slots=True)
class _FusedOp:
    """What the profiler shows."""

    parts: str

    @property
    def name(self) -> str:
        return f"fused({self.parts})"


def fused(entries: list[Entry], roles: Sequence[str], kept: set[int], context: Context) -> list[Entry]:
    """Return the launches with runs of elementwise ones fused.

    Parameters
    ----------
    entries : list of Entry
    roles : sequence of str
        Of the slots: what is no temporary is always stored.
    kept : set of int
        Slots whose values are needed after the last launch.
    context : Context
        Its runtime must be a `SupportsFusion`.
    """
    return _Fusion(entries, roles, kept, context).run()


def live(entries: list[Entry], roles: Sequence[str], kept: set[int]) -> list[Entry]:
    """Return the launches without those whose results nobody reads, such as the last ones of a recomputation.

    Parameters
    ----------
    entries : list of Entry
    roles : sequence of str
        Of the slots: what is no temporary counts as read.
    kept : set of int
        Slots whose values are needed after the last launch.
    """
    read = set(kept)
    result = []
    for entry in reversed(entries):
        if any(ref.slot in read or roles[ref.slot] != "temporary" for ref in entry.outs):
            read.update(ref.slot for ref in entry.ins if ref is not None)
            result.append(entry)
    return result[::-1]


class _Fusion:
    def __init__(self, entries: list[Entry], roles: Sequence[str], kept: set[int], context: Context) -> None:
        self.entries = entries
        self.roles = roles
        self.kept = kept
        self.context = context
        self.runtime: Any = context.runtime
        self.readers: dict[int, list[int]] = {}
        for i, entry in enumerate(entries):
            for ref in entry.ins:
                if ref is not None:
                    self.readers.setdefault(ref.slot, []).append(i)

    def run(self) -> list[Entry]:
        result: list[Entry] = []
        start = 0
        while start < len(self.entries):
            stop = self.end_of_run(start)
            result += self.emitted(start, stop)
            start = stop
        return result

    def name_of(self, entry: Entry) -> str | None:
        """Return the device's name of a launch that may be part of a chain."""
        if len(entry.outs) != 1 or not isinstance(entry.plan, KernelPlan):
            return None
        (out,) = entry.outs
        if not out.spec.contiguous or not out.spec.size or not _aligned(out):
            return None
        codes = []
        for ref in entry.ins:
            if ref is None or not (ref.spec.size == 1 or (_same(ref.spec, out.spec) and _aligned(ref))):
                return None
            codes.append(ref.spec.dtype.code)
        found: str | None = self.runtime.fusable(
            entry.plan.op.name, entry.plan.attrs, tuple(codes), out.spec.dtype.code
        )
        return found

    def end_of_run(self, start: int) -> int:
        """Return where the longest chain from `start` ends; at least the next launch."""
        if self.name_of(self.entries[start]) is None:
            return start + 1
        size = self.entries[start].outs[0].spec.size
        shown: dict[int, Ref] = {}
        inputs: set[int] = set()
        written: set[int] = set()
        stop = start
        while stop < len(self.entries):
            entry = self.entries[stop]
            if entry.outs[0].spec.size != size or self.name_of(entry) is None:
                break
            refs = [r for r in (*entry.ins, *entry.outs) if r is not None]
            if any(_shown_otherwise(shown.get(r.slot), r) for r in refs):
                break
            new = {r.slot for r in entry.ins if r is not None and r.slot not in written}
            if len(inputs | new) > self.runtime.max_fused[0]:
                break
            # one number for all, read by threads at different times, must not be written by any
            if any(r is not None and r.spec.size == 1 != size and r.slot in written for r in entry.ins):
                break
            shown.update({r.slot: r for r in refs})
            inputs |= new
            written.add(entry.outs[0].slot)
            stop += 1
        return max(stop, start + 1)

    def emitted(self, start: int, stop: int) -> list[Entry]:
        """Return one launch for a run, or several if it stores too much."""
        entries = self.entries[start:stop]
        if len(entries) < 2:
            return entries
        operands: dict[int, int] = {}
        inputs: list[Ref] = []
        for entry in entries:  # inputs are counted first
            for ref in entry.ins:
                if ref is not None and ref.slot not in operands:
                    operands[ref.slot] = len(inputs)
                    inputs.append(ref)
            operands.setdefault(entry.outs[0].slot, -1)
        external = [r for r in inputs if self.comes_from_outside(r.slot, entries)]
        operands = {r.slot: i for i, r in enumerate(external)}
        steps: list[tuple[str, tuple[int, ...]]] = []
        stored: dict[int, tuple[int, Ref]] = {}
        for entry in entries:
            name = self.name_of(entry)
            assert name is not None
            steps.append((name, tuple(operands[r.slot] for r in entry.ins if r is not None)))
            out = entry.outs[0]
            operands[out.slot] = len(external) + len(steps) - 1
            if self.needed(out.slot, start, stop):
                stored[out.slot] = (operands[out.slot], out)
        most_inputs, most_outputs = self.runtime.max_fused
        # half of a chain reads what the other half stores
        if len(stored) > most_outputs or len(external) > most_inputs:
            middle = (start + stop) // 2
            return [*self.emitted(start, middle), *self.emitted(middle, stop)]
        chain = Chain(
            tuple((r.spec.dtype.code, r.spec.size == 1) for r in external),
            tuple(steps),
            tuple((i, r.spec.dtype.code) for i, r in stored.values()),
        )
        plan: Any = FusedPlan(self.context, self.runtime.fuse(chain), entries)
        return [Entry(plan, tuple(external), tuple(r for _, r in stored.values()))]

    @staticmethod
    def comes_from_outside(slot: int, entries: list[Entry]) -> bool:
        """Whether a slot is read before it is written."""
        for entry in entries:
            if any(r is not None and r.slot == slot for r in entry.ins):
                return True
            if entry.outs[0].slot == slot:
                return False
        return False

    def needed(self, slot: int, start: int, stop: int) -> bool:
        """Whether anything outside of a run reads what it writes."""
        if slot in self.kept or self.roles[slot] != "temporary":
            return True
        return any(not start <= i < stop for i in self.readers.get(slot, ()))


def _same(spec: Spec, out: Spec) -> bool:
    return spec.contiguous and spec.shape == out.shape


def _aligned(ref: Ref) -> bool:
    return ref.offset * ref.spec.dtype.itemsize % _ALIGNMENT == 0


def _shown_otherwise(known: Ref | None, ref: Ref) -> bool:
    """Whether a slot is used at another place or in another layout than before."""
    if known is None:
        return False
    return (known.offset, known.spec.size, known.spec.dtype) != (ref.offset, ref.spec.size, ref.spec.dtype)
