"""Replay: a recorded step bound to fixed memory."""

from __future__ import annotations

import sys
import time
import weakref
from collections.abc import Sequence
from typing import Any, Final

from grilly_core import config, dtypes
from grilly_core.apply import plan_of
from grilly_core.buffer import Buffer, LentBuffer, Spec, View, contiguous_spec
from grilly_core.capture.cells import Cell
from grilly_core.capture.epilogues import with_epilogues
from grilly_core.capture.fusion import fused, live
from grilly_core.capture.recorder import Entry, Record
from grilly_core.device import Timer
from grilly_core.errors import CaptureError
from grilly_core.opspec import Handle
from grilly_core.plan import EAGER, KernelPlan, Ref
from grilly_core.profile import ProfilingSink, span_of
from grilly_core.tensor import Tensor

_copy: Final = Handle("strided_copy")

__all__ = ["Program"]


#: Smaller temporaries of a prepared program have memory of their own: sharing would order independent launches.
_SHARED_BYTES: Final = 1 << 20


class Program:
    """A recorded step bound to memory.

    On a device that takes programs (`SupportsPrograms`) a replay is one submission, elsewhere a loop over kernels.

    Parameters
    ----------
    record : Record
    fuse : bool
        Whether runs of elementwise launches become one where the device offers that.

    Attributes
    ----------
    prepared : object or None
        The device's form of the launches.
    """

    def __init__(self, record: Record, fuse: bool = True) -> None:
        recorder = record.recorder
        self.context = recorder.context
        self.cells = record.cells
        self.entries = live(recorder.entries, recorder.roles, _lasting(record))
        if fuse:
            self.entries = with_epilogues(self.entries, recorder.roles, _lasting(record), self.context)
        if fuse and hasattr(self.context.runtime, "fuse"):
            self.entries = fused(self.entries, recorder.roles, _lasting(record), self.context)
        self.roles = recorder.roles
        self.specs = recorder.specs
        self.record = record
        self._prepare: Any = getattr(self.context.runtime, "prepare", None)
        self._buffers: dict[int, Buffer] = {}
        self._plain: list[tuple[Tensor, View]] = []
        self._grads: list[tuple[Any, Tensor | None, View]] = []
        self._lendings: list[weakref.ref[LentBuffer]] = []
        self._views: dict[Ref, View] = {}
        self._bind_memory()
        self._append_state_copies()
        self._build()

    # memory

    def _bind_memory(self) -> None:
        for slot, constant in self.record.recorder.constants.items():
            self._buffers[slot] = constant.buffer
        for cell, slot in zip(self.cells, self.record.starts, strict=True):
            tensor = cell.get()
            if slot >= 0 and tensor is not None:
                self._adopt(cell, slot, tensor)
        for slot, role in enumerate(self.roles):
            if role in ("input", "random") or (role == "state" and slot not in self._buffers):
                self._buffers[slot] = self._fresh(slot)
        self._plan_temporaries()

    def _fresh(self, slot: int) -> Buffer:
        return self.context.empty(self.specs[slot]).buffer

    def _adopt(self, cell: Cell, slot: int, tensor: Tensor) -> None:
        """Give a state its own memory, holding the present value."""
        buffer = self._fresh(slot)
        spec = contiguous_spec(tensor.shape, tensor.dtype, self.context)
        view = self.context.view(buffer, spec, 0)
        self._copied(tensor._value, view)
        self._buffers[slot] = buffer
        cell.put(view)

    def _copied(self, source: View, target: View) -> None:
        plan = plan_of(_copy.op, (source.spec,), (), config.current(), False)
        plan.emit(EAGER, [source], {0: target})

    def _plan_temporaries(self) -> None:
        """Let temporaries share memory once their last reader has run."""
        last: dict[int, int] = {}
        for i, entry in enumerate(self.entries):
            for ref in (*entry.ins, *entry.outs):
                if ref is not None:
                    last[ref.slot] = i
        for slot, role in enumerate(self.roles):  # what no launch makes, since it has no elements
            if role == "temporary" and not self.specs[slot].size:
                self._buffers[slot] = self._fresh(slot)
        kept = _lasting(self.record)
        least = 0 if self._prepare is None else _SHARED_BYTES
        free: dict[int, list[Buffer]] = {}
        for i, entry in enumerate(self.entries):
            for ref in entry.outs:
                if self.roles[ref.slot] == "temporary" and ref.slot not in self._buffers:
                    nbytes = self.specs[ref.slot].nbytes
                    pool = free.get(nbytes) if nbytes >= least else None
                    self._buffers[ref.slot] = pool.pop() if pool else self._fresh(ref.slot)
            for ref in {r for r in (*entry.ins, *entry.outs) if r is not None}:
                slot = ref.slot
                if last.get(slot) == i and self.roles[slot] == "temporary" and slot not in kept:
                    last[slot] = -1
                    free.setdefault(self.specs[slot].nbytes, []).append(self._buffers[slot])

    def _append_state_copies(self) -> None:
        """States that ended on other memory are copied to their own slot; via temporaries where slots trade places."""
        moves: list[tuple[Ref, Ref]] = []
        read = {r.slot for e in self.entries for r in e.ins if r is not None}
        read |= {r.slot for r in refs_of(self.record.outputs)}
        read |= {r.slot for r in self.record.ends if r is not None}
        for i, (start, end) in enumerate(zip(self.record.starts, self.record.ends, strict=True)):
            if end is not None and end.slot != start:
                if start not in read and self.roles[end.slot] == "temporary" and self._fills(end):
                    # what was there before the step does not matter: the new value may stay where it is made
                    self.roles[end.slot], self.record.starts[i] = "state", end.slot
                    continue
                if start < 0:  # a gradient that was not there before the step
                    self.record.starts[i] = start = self._new_state(end)
                target = Ref(start, contiguous_spec(end.spec.shape, end.spec.dtype, self.context), 0, False)
                if self.roles[end.slot] in ("state", "input"):
                    spare = Ref(self._new_state(end), target.spec, 0, False)
                    self._append_copy(end, spare)
                    moves.append((spare, target))
                else:
                    moves.append((end, target))
        for source, target in moves:
            self._append_copy(source, target)

    def _fills(self, ref: Ref) -> bool:
        """Whether a reference shows exactly what its slot holds."""
        spec = self.specs[ref.slot]
        return (
            ref.offset == 0
            and ref.spec.contiguous
            and (ref.spec.size, ref.spec.dtype) == (spec.size, spec.dtype)
        )

    def _new_state(self, like: Ref) -> int:
        spec = contiguous_spec((like.spec.size,), like.spec.dtype, self.context)
        self.specs.append(spec)
        self.roles.append("state")
        self._buffers[len(self.specs) - 1] = self.context.empty(spec).buffer
        return len(self.specs) - 1

    def _append_copy(self, source: Ref, target: Ref) -> None:
        plan = plan_of(_copy.op, (source.spec,), (), config.current(), False)
        assert isinstance(plan, KernelPlan)
        self.entries.append(Entry(plan, (source,), (target,)))

    # launches

    def _shown(self, ref: Ref) -> View:
        view = self._views.get(ref)
        if view is None:
            view = self._views[ref] = self.context.view(self._buffers[ref.slot], ref.spec, ref.offset)
        return view

    def _build(self) -> None:
        self._views.clear()
        self.launches = [
            (
                e.plan.fn,
                e.plan.stream,
                tuple(self._shown(r) for r in e.outs),
                tuple(None if r is None else self._shown(r) for r in e.ins),
                e.plan.attrs,
            )
            for e in self.entries
        ]
        self._timed: Any = None
        self.prepared = None if self._prepare is None else self._prepare(self._launch)
        self._inputs = [self._whole(s) for s in self.record.inputs]
        self._random = [(g, self._whole(s), n) for g, s, n in self.record.random]
        self._states = [
            self._state_view(c, s, e)
            for c, s, e in zip(self.cells, self.record.starts, self.record.ends, strict=True)
        ]
        for cell, view in zip(self.cells, self._states, strict=True):
            if view is not None and not cell.is_grad:
                cell.put(view)
        self._sole = [_owners(v) for v in self._states]
        self._owners: list[int] | None = None
        self._fills_input: list[Any] = [None] * len(self._inputs)
        self._last_inputs: list[View | None] = [None] * len(self._inputs)

    def _whole(self, slot: int) -> View:
        return self.context.view(self._buffers[slot], self.specs[slot], 0)

    def _state_view(self, cell: Cell, slot: int, end: Ref | None) -> View | None:
        if slot < 0:
            return None
        tensor = cell.get()
        shape = (
            end.spec.shape
            if end is not None
            else tensor.shape
            if tensor is not None
            else self.specs[slot].shape
        )
        return self._shown(Ref(slot, contiguous_spec(shape, self.specs[slot].dtype, self.context), 0, False))

    def replay(self, inputs: Sequence[Tensor], profiling: ProfilingSink | None = None) -> Any:
        """Run the step on new inputs and return its results."""
        if self._lendings:
            self._reclaim_outputs()
        undisturbed = self._owners is not None and self._survey() == self._owners
        if not undisturbed:
            self._plain, self._grads = [], []  # references that would count as other owners
            self._take_state()
        self._take_inputs(inputs)
        for generator, view, blocks in self._random:
            fresh = self.context.upload(generator.state_words(), dtypes.uint32)
            self._copied(fresh, view)
            generator.skip(blocks)
        if profiling is not None:
            self._profiled(profiling)
        elif self.prepared is None:
            self._launch()
        else:
            self.prepared.run()
        if not undisturbed:
            self._put_gradients()
            self._owners = self._survey()  # here, where no local variable holds a state
        return self._results(self.record.outputs)

    def _take_inputs(self, inputs: Sequence[Tensor]) -> None:
        """Copy the inputs to their slots, but for values that are there since the last replay.

        A value that is held here has two owners, so nothing writes to it in place; only what another program lent may
        change.
        """
        for i, tensor in enumerate(inputs):
            source = tensor._value
            if source is self._last_inputs[i]:
                continue
            copy = self._fills_input[i]
            if copy is None or copy.source is not source.spec:
                copy = self._fills_input[i] = self._copy_into(self._inputs[i], source)
            copy(source)
            lasting = self.prepared is not None and not isinstance(source.buffer, LentBuffer)
            self._last_inputs[i] = source if lasting else None

    def _copy_into(self, target: View, source: View) -> _CopyInto:
        spec = contiguous_spec(source.shape, source.dtype, self.context)
        plan = plan_of(_copy.op, (source.spec,), (), config.current(), False)
        return _CopyInto(plan, source.spec, self.context.view(target.buffer, spec, 0))

    def _put_gradients(self) -> None:
        """Show gradients, and note where states are, so that the next replay sees at a glance that nothing changed."""
        for cell, held, end in zip(self.cells, self._states, self.record.ends, strict=True):
            if cell.is_grad:
                cell.put(held if end is not None else None)
        pairs = [(c, v) for c, v in zip(self.cells, self._states, strict=True) if v is not None]
        self._plain = [(c.tensor, v) for c, v in pairs if not c.is_grad]
        self._grads = [(c.tensor._node, c.tensor.grad, v) for c, v in pairs if c.is_grad]

    def _survey(self) -> list[int] | None:
        """Return how many hold each state; None if one is no longer where this program left it."""
        count, found = sys.getrefcount, []
        for tensor, view in self._plain:
            if tensor._value is not view or view.buffer.shared:
                return None
            found.append(count(view))
            found.append(count(view.buffer))
        for leaf, grad, view in self._grads:
            if leaf.grad is not grad or (
                grad is not None and (grad._value is not view or view.buffer.shared)
            ):
                return None
            found.append(count(grad) if grad is not None else 0)
            found.append(count(view))
            found.append(count(view.buffer))
        return found

    def _launch(self) -> None:
        for fn, stream, outs, ins, attrs in self.launches:
            fn(stream, outs, ins, attrs)

    def _profiled(self, sink: ProfilingSink) -> None:
        """Run the launches so that each can be told from the others."""
        timer = sink.result.timer(self.context)
        if self.prepared is None or timer is None:
            for entry, (_, _, outs, ins, _) in zip(self.entries, self.launches, strict=True):
                sink.launch(entry.plan, list(outs), ins)
            return
        if self._timed is None:
            own: Timer = self.context.runtime.timer()  # type: ignore[attr-defined]
            self._timed = own, self._prepare(lambda: self._launch_between_marks(own))
        own, prepared = self._timed
        start = time.perf_counter()
        prepared.run()
        end = time.perf_counter()
        times = own.read()[-2 * len(self.entries) :]
        for i, (entry, (_, _, outs, ins, _)) in enumerate(zip(self.entries, self.launches, strict=True)):
            span = span_of(
                entry.plan, outs, ins, start, end if i == 0 else start
            )  # the host submits them all at once
            span.device_start, span.device_end = times[2 * i : 2 * i + 2]
            sink.result.spans.append(span)

    def _launch_between_marks(self, timer: Timer) -> None:
        for fn, stream, outs, ins, attrs in self.launches:
            timer.mark()
            fn(stream, outs, ins, attrs)
            timer.mark()

    def _take_state(self) -> None:
        """Bring values that were set from outside into their slots, and leave shared ones to their other owners."""
        rebuild = False
        for i, (cell, view) in enumerate(zip(self.cells, self._states, strict=True)):
            if view is None:
                continue
            tensor = cell.get()
            if (
                cell.is_grad
                and self.record.ends[i] is not None
                and tensor is not None
                and tensor._value is view
            ):
                cell.put(None)
                tensor = None if sys.getrefcount(tensor) <= 2 else tensor
            current = view if tensor is None or tensor._value is view else tensor._value
            shared = view.buffer.shared or self._is_held(view, i, cell)
            if current is not view and current.shape != view.shape:
                raise CaptureError(
                    f"capture: {cell.name} changed its shape from {view.shape} to {current.shape}; capture the step "
                    "again."
                )
            if shared:
                self._buffers[self.record.starts[i]] = self._fresh(self.record.starts[i])
                rebuild = True
                fresh = self.context.view(self._buffers[self.record.starts[i]], view.spec, 0)
                self._copied(current, fresh)
            elif current is not view:
                self._copied(current, view)
                if not cell.is_grad:
                    cell.put(view)
        if rebuild:
            self._build()

    def _is_held(self, view: View, i: int, cell: Cell) -> bool:
        """Whether anybody but the cell and this program sees the memory."""
        now = (sys.getrefcount(view), sys.getrefcount(view.buffer))
        return now[0] > self._sole[i][0] + 3 or now[1] > self._sole[i][1]

    def _lent(self, view: View) -> View:
        """A result where the program left it; it moves away if it is still in use at the next replay."""
        lent = LentBuffer(view.buffer)
        self._lendings.append(weakref.ref(lent))
        return View(lent, view.spec, view.offset, None)

    def _reclaim_outputs(self) -> None:
        """Copy the earlier results that somebody still holds, since the replay writes where they are."""
        for reference in self._lendings:
            lent = reference()
            if lent is not None:
                spec = contiguous_spec((lent.nbytes,), dtypes.uint8, self.context)
                fresh = self.context.empty(spec)
                self._copied(View(lent, spec, 0, None), fresh)
                lent.move_to(fresh.buffer)
        self._lendings.clear()

    def _results(self, outputs: Any) -> Any:
        if isinstance(outputs, Ref):
            source = self._shown(outputs)
            if self.prepared is not None and self.roles[outputs.slot] == "temporary":
                return Tensor(self._lent(source))
            fresh = self.context.empty(contiguous_spec(source.shape, source.dtype, self.context))
            self._copied(source, fresh)
            return Tensor(fresh)
        if isinstance(outputs, dict):
            return {k: self._results(v) for k, v in outputs.items()}
        if isinstance(outputs, tuple) and hasattr(outputs, "_fields"):
            return type(outputs)(*(self._results(v) for v in outputs))
        if isinstance(outputs, list | tuple):
            return type(outputs)(self._results(v) for v in outputs)
        return outputs


def _lasting(record: Record) -> set[int]:
    """Slots whose values are needed after the last launch."""
    return {r.slot for r in (*record.ends, *refs_of(record.outputs)) if r is not None}


class _CopyInto:
    """Copies values of one layout into one place, by the shortest path.

    Attributes
    ----------
    source : Spec
    """

    __slots__ = ("_outs", "_plan", "source")

    def __init__(self, plan: Any, source: Spec, target: View) -> None:
        self._plan = plan
        self.source = source
        self._outs = [target]

    def __call__(self, value: View) -> None:
        """Copy `value`."""
        plan = self._plan
        plan.fn(plan.stream, self._outs, [value], plan.attrs)


def _owners(view: View | None) -> tuple[int, int]:
    return (0, 0) if view is None else (sys.getrefcount(view), sys.getrefcount(view.buffer))


def refs_of(outputs: Any) -> list[Ref]:
    if isinstance(outputs, Ref):
        return [outputs]
    if isinstance(outputs, dict):
        outputs = list(outputs.values())
    if isinstance(outputs, list | tuple):
        return [r for o in outputs for r in refs_of(o)]
    return []
