"""Capture: a step recorded twice, compared, and replayed as a flat list of launches on fixed memory.

The first call runs eagerly. Calls 2 and 3 run too, and write down every launch; any difference between them (an
op, an attribute, a constant) is an error that names the op. From call 4 on nothing of the step's Python runs.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from grilly_core import config, dtypes
from grilly_core.apply import as_tensor, plan_of
from grilly_core.buffer import Buffer, Spec, View, contiguous_spec
from grilly_core.device import Context, default_context
from grilly_core.errors import CaptureError
from grilly_core.opspec import Handle
from grilly_core.plan import EAGER, KernelPlan, Ref, Views
from grilly_core.random import Generator
from grilly_core.tape import Leaf
from grilly_core.tensor import Tensor

__all__ = ["Capture", "Program", "Recorder", "capture"]

_MAX_PROGRAMS: Final = 8
_copy = Handle("strided_copy")


# -- what a step may read and write --------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Cell:
    """A place that holds a value between steps: a tensor, or the gradient of one."""

    name: str
    tensor: Tensor
    is_grad: bool = False

    def get(self) -> Tensor | None:
        """The tensor whose value it is, None for a gradient that is not there."""
        return self.tensor.grad if self.is_grad else self.tensor

    def put(self, view: View | None) -> None:
        """Set the value."""
        if not self.is_grad:
            assert view is not None
            self.tensor._value = view
        elif isinstance(self.tensor._node, Leaf):
            self.tensor._node.grad = None if view is None else Tensor(view)


def _cells(state: Any, prefix: str = "state") -> list[Cell]:
    """Find the tensors in modules, optimisers, tensors and containers of them."""
    if isinstance(state, Tensor):
        cells = [Cell(prefix, state)]
        return [*cells, Cell(f"{prefix}.grad", state, True)] if isinstance(state._node, Leaf) else cells
    if isinstance(state, dict):
        return [c for k, v in state.items() for c in _cells(v, f"{prefix}[{k!r}]")]
    if isinstance(state, list | tuple):
        return [c for i, v in enumerate(state) for c in _cells(v, f"{prefix}[{i}]")]
    if isinstance(state, Generator) or state is None:
        return []
    if hasattr(state, "captured_state"):
        return [c for name, t in state.captured_state() for c in _cells(t, name)]
    if hasattr(state, "named_parameters") and hasattr(state, "named_buffers"):
        pairs = [*state.named_parameters(), *state.named_buffers()]
        return [c for name, t in pairs for c in _cells(t, name)]
    raise CaptureError(
        f"capture: {prefix} is a {type(state).__name__}; expected modules, optimisers, tensors, or lists "
        "and dicts of them."
    )


def _unique(cells: list[Cell]) -> list[Cell]:
    seen: set[tuple[int, bool]] = set()
    return [c for c in cells if (key := (id(c.tensor), c.is_grad)) not in seen and not seen.add(key)]  # type: ignore[func-returns-value]


# -- recording -----------------------------------------------------------------------------------------------


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


# -- replay --------------------------------------------------------------------------------------------------


@dataclass
class _Record:
    """All that one recorded call left."""

    recorder: Recorder
    inputs: list[int]
    cells: list[Cell]
    starts: list[int]
    ends: list[Ref | None]
    outputs: Any
    random: list[tuple[Generator, int, int]] = field(default_factory=list)


class Program:
    """A recorded step bound to memory.

    Parameters
    ----------
    record : _Record
    """

    def __init__(self, record: _Record) -> None:
        recorder = record.recorder
        self.context = recorder.context
        self.cells = record.cells
        self.entries = [*recorder.entries]
        self.roles = recorder.roles
        self.specs = recorder.specs
        self.record = record
        self._buffers: dict[int, Buffer] = {}
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
        kept = {r.slot for r in self.record.ends if r is not None} | {
            r.slot for r in _refs(self.record.outputs)
        }
        free: dict[int, list[Buffer]] = {}
        for i, entry in enumerate(self.entries):
            for ref in entry.outs:
                if self.roles[ref.slot] == "temporary" and ref.slot not in self._buffers:
                    pool = free.get(self.specs[ref.slot].nbytes)
                    self._buffers[ref.slot] = pool.pop() if pool else self._fresh(ref.slot)
            for ref in {r for r in (*entry.ins, *entry.outs) if r is not None}:
                slot = ref.slot
                if last.get(slot) == i and self.roles[slot] == "temporary" and slot not in kept:
                    last[slot] = -1
                    free.setdefault(self.specs[slot].nbytes, []).append(self._buffers[slot])

    def _append_state_copies(self) -> None:
        """States that ended on other memory are copied to their own slot; via temporaries where slots trade places."""
        moves: list[tuple[Ref, Ref]] = []
        for i, (start, end) in enumerate(zip(self.record.starts, self.record.ends, strict=True)):
            if end is not None and end.slot != start:
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
        self._inputs = [self._whole(s) for s in self.record.inputs]
        self._random = [(g, self._whole(s), n) for g, s, n in self.record.random]
        self._states = [
            self._state_view(c, s, e)
            for c, s, e in zip(self.cells, self.record.starts, self.record.ends, strict=True)
        ]
        for cell, view in zip(self.cells, self._states, strict=True):
            if view is not None and not cell.is_grad:
                cell.put(view)
        self._sole = [self._owners(v) for v in self._states]

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

    @staticmethod
    def _owners(view: View | None) -> tuple[int, int]:
        return (0, 0) if view is None else (sys.getrefcount(view), sys.getrefcount(view.buffer))

    def replay(self, inputs: Sequence[Tensor]) -> Any:
        """Run the step on new inputs and return its results."""
        self._take_state()
        for view, tensor in zip(self._inputs, inputs, strict=True):
            source = tensor._value
            spec = contiguous_spec(source.shape, source.dtype, self.context)
            self._copied(source, self.context.view(view.buffer, spec, 0))
        for generator, view, blocks in self._random:
            fresh = self.context.upload(generator.state_words(), dtypes.uint32)
            self._copied(fresh, view)
            generator.skip(blocks)
        for fn, stream, outs, ins, attrs in self.launches:
            fn(stream, outs, ins, attrs)
        for cell, held, end in zip(self.cells, self._states, self.record.ends, strict=True):
            if cell.is_grad:
                cell.put(held if end is not None else None)
        return self._results(self.record.outputs)

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

    def _results(self, outputs: Any) -> Any:
        if isinstance(outputs, Ref):
            source = self._shown(outputs)
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


def _refs(outputs: Any) -> list[Ref]:
    if isinstance(outputs, Ref):
        return [outputs]
    if isinstance(outputs, dict):
        outputs = list(outputs.values())
    if isinstance(outputs, list | tuple):
        return [r for o in outputs for r in _refs(o)]
    return []


# -- the function users call ---------------------------------------------------------------------------------


@dataclass
class _Stage:
    """How far a signature has come."""

    calls: int = 0
    record: _Record | None = None
    program: Program | None = None


class Capture:
    """A captured step; made by `capture`.

    Attributes
    ----------
    programs : dict
        One entry for each input signature.
    """

    def __init__(self, function: Callable[..., Any], state: Any) -> None:
        self._function = function
        self._state = state
        self.programs: dict[Any, _Stage] = {}

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the step: eagerly, recording, or by replay."""
        if config.current().sink is not None:
            raise CaptureError("capture: a captured step cannot be called inside another capture or profile.")
        args = tuple(as_tensor(a) if isinstance(a, np.ndarray) else a for a in args)
        kwargs = {k: as_tensor(v) if isinstance(v, np.ndarray) else v for k, v in kwargs.items()}
        flat = [*args, *kwargs.values()]
        tensors = [a for a in flat if isinstance(a, Tensor)]
        stage = self._stage(tuple(self._signature(a) for a in flat) + tuple(kwargs))
        stage.calls += 1
        if stage.program is not None:
            for part in self._hosts(self._state):
                part.before_replay()
            result = stage.program.replay(tensors)
            for part in self._hosts(self._state):
                part.after_replay()
            return result
        if stage.calls == 1:
            return self._function(*args, **kwargs)
        return self._recorded(stage, tensors, args, kwargs)

    def _signature(self, value: Any) -> Any:
        if isinstance(value, Tensor):
            return value.shape, value.dtype, value.device, value.requires_grad
        try:
            hash(value)
        except TypeError as error:
            raise CaptureError(
                f"capture: arguments must be tensors, arrays or hashable constants; received {type(value).__name__}."
            ) from error
        return value

    def _stage(self, key: Any) -> _Stage:
        if key not in self.programs and len(self.programs) >= _MAX_PROGRAMS:
            raise CaptureError(
                f"capture: more than {_MAX_PROGRAMS} input signatures; keep shapes fixed, for example with "
                "drop_last=True."
            )
        return self.programs.setdefault(key, _Stage())

    def _hosts(self, state: Any) -> list[Any]:
        """The parts of the state that keep a host mirror (optimisers)."""
        if hasattr(state, "before_replay"):
            return [state]
        if isinstance(state, dict):
            state = list(state.values())
        return [h for s in state for h in self._hosts(s)] if isinstance(state, list | tuple) else []

    def _recorded(self, stage: _Stage, tensors: list[Tensor], args: Any, kwargs: Any) -> Any:
        for part in self._hosts(self._state):
            part.before_replay()
        cells = _unique(_cells(self._state))
        context = next((c.tensor._value.spec.context for c in cells), None) or (
            tensors[0]._value.spec.context if tensors else default_context()
        )
        recorder = Recorder(context)
        starts = []
        for cell in cells:
            tensor = cell.get()
            if tensor is not None:
                tensor = self._owned(cell, tensor)
            starts.append(-1 if tensor is None else recorder.slot(tensor._value, "state"))
        own = {id(t): Tensor(_packed(t), t._node, t._index) for t in tensors}
        inputs = [recorder.slot(own[id(t)]._value, "input") for t in tensors]
        args = tuple(own.get(id(a), a) for a in args)
        kwargs = {k: own.get(id(v), v) for k, v in kwargs.items()}
        with config.overriding(sink=recorder):
            result = self._function(*args, **kwargs)
        self._finish(stage, recorder, cells, starts, inputs, result)
        return _detached(result)

    def _owned(self, cell: Cell, tensor: Tensor) -> Tensor:
        """A state that nobody else sees, since recording updates it in place."""
        value = _packed(tensor)
        cell.put(value)
        fresh = cell.get()
        assert fresh is not None
        return fresh

    def _finish(
        self,
        stage: _Stage,
        recorder: Recorder,
        cells: list[Cell],
        starts: list[int],
        inputs: list[int],
        result: Any,
    ) -> None:
        after = _unique(_cells(self._state))
        if [(id(c.tensor), c.is_grad) for c in after] != [(id(c.tensor), c.is_grad) for c in cells]:
            raise CaptureError(
                "capture: the step made or removed parameters or optimiser state; run it once before capturing."
            )
        ends = [None if (t := c.get()) is None else recorder.ref(t._value) for c in cells]
        outputs = _mapped(result, lambda t: recorder.ref(t._value))
        random = [
            (g, recorder._slots[id(state._value.buffer)], blocks)
            for g, state, blocks in recorder.random.values()
        ]
        for generator, _, blocks in random:
            generator.skip(blocks)
        record = _Record(recorder, inputs, cells, starts, ends, outputs, random)
        if stage.record is not None:
            _compare(stage.record, record)
            stage.program = Program(record)
        stage.record = record


def _packed(tensor: Tensor) -> View:
    """A private copy of a value in C order."""
    view = tensor._value
    fresh = view.spec.context.empty(contiguous_spec(view.shape, view.dtype, view.spec.context))
    plan = plan_of(_copy.op, (view.spec,), (), config.current(), False)
    plan.emit(EAGER, [view], {0: fresh})
    return fresh


def _mapped(value: Any, function: Callable[[Tensor], Any]) -> Any:
    if isinstance(value, Tensor):
        return function(value)
    if isinstance(value, dict):
        return {k: _mapped(v, function) for k, v in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(_mapped(v, function) for v in value))
    if isinstance(value, list | tuple):
        return type(value)(_mapped(v, function) for v in value)
    return value


def _detached(value: Any) -> Any:
    return _mapped(value, lambda t: Tensor(_packed(t)))


def _compare(first: _Record, second: _Record) -> None:
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
                f"capture: a constant of the step ({view.spec!r}) differs between two calls; pass it as a tensor "
                "argument."
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


def capture(function: Callable[..., Any], state: Any = ()) -> Capture:
    """Turn a step into one that is recorded and replayed.

    Parameters
    ----------
    function : callable
        The step. Its arguments are tensors (or arrays), whose values may change from call to call, and
        hashable constants.
    state : Module, Optimizer, Tensor, or a list or dict of them
        Everything the step reads or writes that outlives it.

    Returns
    -------
    Capture
        Call it like the step.

    Raises
    ------
    CaptureError
        When called: if two calls differ, if the step reads values on the host, falls back to the CPU, or
        uses tensors that
        are neither arguments nor state.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> total = grilly.zeros(2)
    >>> def add(x):
    ...     total.add_(x)
    ...     return total.sum()
    >>> step = grilly.capture(add, state=total)
    >>> [step(grilly.ones(2)).item() for _ in range(5)]
    [2.0, 4.0, 6.0, 8.0, 10.0]
    """
    return Capture(function, state)
