"""Plans: what is left of an op once its inputs' specs are known.

A plan is emitted into a *sink*. `EAGER` allocates and launches at once; `Tracer` writes down launches on symbolic
buffers, which is how the body of a composite becomes a flat `ProgramPlan`; capture and the profiler bring
sinks of their own. Everything a sink must do is allocate, show a view, and launch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

from grilly_core.buffer import Buffer, Spec, View, contiguous_spec, make_spec
from grilly_core.layout import expand_strides, make_layout

if TYPE_CHECKING:
    from grilly_core.device import Context
    from grilly_core.opspec import Op
    from grilly_core.registry import Kernel

__all__ = [
    "EAGER",
    "ExpandPlan",
    "KernelPlan",
    "Plan",
    "ProgramPlan",
    "Sink",
    "SymbolicBuffer",
    "Tracer",
    "ViewPlan",
]

Views = Sequence[View | None]
Reuse = dict[int, View]


class Sink(Protocol):
    """Receives what a plan emits."""

    symbolic: bool

    def alloc(self, spec: Spec) -> View:
        """Return a new view of `spec`."""

    def view(self, buffer: Buffer, spec: Spec, offset: int) -> View:
        """Return another view of a buffer."""

    def launch(self, plan: KernelPlan, outs: list[View], ins: Views) -> None:
        """Run or record one kernel."""


class EagerSink:
    """Allocates and launches at once."""

    symbolic = False

    def alloc(self, spec: Spec) -> View:
        return spec.context.empty(spec)

    def view(self, buffer: Buffer, spec: Spec, offset: int) -> View:
        return spec.context.view(buffer, spec, offset)

    def launch(self, plan: KernelPlan, outs: list[View], ins: Views) -> None:
        plan.fn(plan.stream, outs, ins, plan.attrs)


EAGER: Final = EagerSink()


class Plan:
    """Base of all plans; `used` is the second chance of the plan cache."""

    __slots__ = ("attrs", "op", "used")

    op: Op[Any, Any]
    attrs: dict[str, Any]
    used: bool
    simple = False  # whether it is one kernel, one output and unprepared inputs

    def emit(self, sink: Sink, views: Views, reuse: Reuse | None = None) -> list[View]:
        """Emit into `sink`; `reuse` maps an output to a view whose memory it may take over."""
        raise NotImplementedError


class KernelPlan(Plan):
    """One kernel, with what must happen to its inputs first.

    Attributes
    ----------
    prepare : tuple of tuple of Plan, or None
        For each input the plans (cast, expand, copy) to put in front, None if no input needs any.
    """

    __slots__ = ("context", "fn", "kernel", "out_spec", "out_specs", "prepare", "simple", "stream")

    def __init__(
        self,
        op: Op[Any, Any],
        kernel: Kernel,
        context: Context,
        prepare: tuple[tuple[Plan, ...], ...],
        out_specs: tuple[Spec, ...],
        attrs: dict[str, Any],
    ) -> None:
        self.op = op
        self.kernel = kernel
        bind = getattr(context.runtime, "bind", None)
        fn = kernel.fn if bind is None else bind(kernel.fn)
        self.fn = fn if any(s.size for s in out_specs) else _nothing
        self.context = context
        self.stream = context.stream
        self.prepare = prepare if any(prepare) else None
        self.out_specs = out_specs
        self.out_spec = out_specs[0] if len(out_specs) == 1 else None
        self.simple = self.prepare is None and len(out_specs) == 1
        self.attrs = attrs
        self.used = False

    def emit(self, sink: Sink, views: Views, reuse: Reuse | None = None) -> list[View]:
        """Emit into a sink; see `Plan.emit`."""
        if self.prepare is not None:
            views = prepared(sink, views, self.prepare)
        if reuse:
            outs = [reuse[i] if i in reuse else sink.alloc(s) for i, s in enumerate(self.out_specs)]
        else:
            outs = [sink.alloc(s) for s in self.out_specs]
        sink.launch(self, outs, views)
        return outs


def _nothing(stream: Any, outs: Any, ins: Any, attrs: dict[str, Any]) -> None:
    """Stands for a kernel whose outputs are all empty: devices never see a launch of size 0."""


def prepared(sink: Sink, views: Views, prepare: tuple[tuple[Plan, ...], ...]) -> list[View | None]:
    """Run the plans in front of each input."""
    result = list(views)
    for i, plans in enumerate(prepare):
        for plan in plans:
            result[i] = plan.emit(sink, [result[i]])[0]
    return result


class ViewPlan(Plan):
    """Another layout of the first input's buffer; no kernel."""

    __slots__ = ("itemsize", "offset", "spec")

    def __init__(
        self, op: Op[Any, Any], spec: Spec, offset: int, attrs: dict[str, Any], itemsize: int = 0
    ) -> None:
        self.op = op
        self.itemsize = itemsize or spec.dtype.itemsize
        self.spec = spec
        self.offset = offset
        self.attrs = attrs
        self.used = False

    def emit(self, sink: Sink, views: Views, reuse: Reuse | None = None) -> list[View]:
        """Emit into a sink; see `Plan.emit`."""
        view = views[0]
        assert view is not None
        start = view.offset
        if self.itemsize != self.spec.dtype.itemsize:  # complex numbers shown as reals, or back
            start = start * self.itemsize // self.spec.dtype.itemsize
        return [sink.view(view.buffer, self.spec, start + self.offset)]


class ExpandPlan(ViewPlan):
    """Repeats axes without a copy, in front of an elementwise kernel."""

    __slots__ = ()

    def __init__(self, spec: Spec, shape: tuple[int, ...]) -> None:
        layout = make_layout(shape, expand_strides(spec.shape, spec.strides, shape))
        super().__init__(None, make_spec(layout, spec.dtype, spec.context), 0, {})  # type: ignore[arg-type]


class SymbolicBuffer(Buffer):
    """Stands for memory while a body is traced."""

    __slots__ = ("slot",)

    def __init__(self, context: Context, slot: int, nbytes: int) -> None:
        super().__init__(context, None, nbytes)
        self.slot = slot


def hollow(view: View) -> View:
    """Return what is left of a value whose elements nobody needs: its shape, dtype and device."""
    return View(SymbolicBuffer(view.spec.context, -1, 0), view.spec, 0, None)


@dataclass(frozen=True, slots=True)
class Ref:
    """A view of a slot; `whole` if it is exactly what the slot holds."""

    slot: int
    spec: Spec
    offset: int
    whole: bool


@dataclass(frozen=True, slots=True)
class Launch:
    """One recorded kernel: its plan, operands, the slots it allocates and those dead after it."""

    plan: KernelPlan
    ins: tuple[Ref | None, ...]
    outs: tuple[Ref, ...]
    allocates: tuple[int, ...] = ()
    releases: tuple[int, ...] = ()


class Tracer:
    """Writes launches down on symbolic buffers.

    Parameters
    ----------
    context : Context
    inputs : sequence of Spec or None
        Specs of the inputs; slot i is input i.
    """

    symbolic = True

    def __init__(self, context: Context, inputs: Sequence[Spec | None]) -> None:
        self.context = context
        self.n_inputs = len(inputs)
        self.slots: list[Spec | None] = list(inputs)
        self.constants: dict[int, View] = {}
        self.launches: list[Launch] = []
        self._constant_slots: dict[int, int] = {}
        self.inputs = [None if s is None else self._symbol(i, s) for i, s in enumerate(inputs)]

    def _symbol(self, slot: int, spec: Spec) -> View:
        return View(SymbolicBuffer(self.context, slot, spec.nbytes), spec, 0, None)

    def alloc(self, spec: Spec) -> View:
        """Allocate, or note the allocation."""
        self.slots.append(spec)
        return self._symbol(len(self.slots) - 1, spec)

    def view(self, buffer: Buffer, spec: Spec, offset: int) -> View:
        """Show a buffer."""
        return View(
            buffer,
            spec,
            offset,
            None if isinstance(buffer, SymbolicBuffer) else spec.context.view(buffer, spec, offset).array,
        )

    def launch(self, plan: KernelPlan, outs: list[View], ins: Views) -> None:
        """Write the launch down."""
        in_refs = tuple(None if v is None else self.ref(v) for v in ins)
        self.launches.append(Launch(plan, in_refs, tuple(map(self.ref, outs))))

    def ref(self, view: View) -> Ref:
        """Return the slot reference of a view; a view of real memory becomes a constant."""
        if isinstance(view.buffer, SymbolicBuffer):
            slot = view.buffer.slot
            whole = view.spec is self.slots[slot] and view.offset == 0
            return Ref(slot, view.spec, view.offset, whole)
        slot = self._constant_slots.get(id(view), -1)
        if slot < 0:
            slot = len(self.slots)
            self.slots.append(view.spec)
            self.constants[slot] = view
            self._constant_slots[id(view)] = slot
        return Ref(slot, view.spec, 0, True)

    def finish(self, op: Op[Any, Any], outs: Sequence[View], attrs: dict[str, Any]) -> Plan:
        """Return the recorded program without the launches that nothing needs."""
        refs = tuple(self.ref(v) for v in outs)
        if len(refs) == 1 and not self.launches and refs[0].slot == 0 and self.n_inputs == 1:
            return ViewPlan(op, refs[0].spec, refs[0].offset, attrs, self.slots[0].dtype.itemsize)  # type: ignore[union-attr]
        launches = _schedule(self.launches, refs, self.n_inputs, self.constants)
        return ProgramPlan(op, self.slots, self.n_inputs, self.constants, launches, refs, attrs)


def _schedule(
    launches: list[Launch], outs: tuple[Ref, ...], n_inputs: int, constants: dict[int, View]
) -> list[Launch]:
    """Drop dead launches and note where each slot is first written and last used."""
    needed = {r.slot for r in outs}
    alive: list[Launch] = []
    for launch in reversed(launches):
        if any(r.slot in needed for r in launch.outs):
            needed.update(r.slot for r in launch.ins if r is not None)
            alive.append(launch)
    alive.reverse()
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    for i, launch in enumerate(alive):
        for r in (*launch.outs, *launch.ins):
            if r is not None and r.slot >= n_inputs and r.slot not in constants:
                first.setdefault(r.slot, i)
                last[r.slot] = i
    for r in outs:
        last.pop(r.slot, None)
    opens: dict[int, list[int]] = {}
    closes: dict[int, list[int]] = {}
    for slot, i in first.items():
        opens.setdefault(i, []).append(slot)
    for slot, i in last.items():
        closes.setdefault(i, []).append(slot)
    return [
        Launch(x.plan, x.ins, x.outs, tuple(opens.get(i, ())), tuple(closes.get(i, ())))
        for i, x in enumerate(alive)
    ]


class ProgramPlan(Plan):
    """The body of a composite, recorded once: a flat list of launches on slots."""

    __slots__ = ("constants", "launches", "n_inputs", "outs", "slots")

    def __init__(
        self,
        op: Op[Any, Any],
        slots: list[Spec | None],
        n_inputs: int,
        constants: dict[int, View],
        launches: list[Launch],
        outs: tuple[Ref, ...],
        attrs: dict[str, Any],
    ) -> None:
        self.op = op
        self.slots = slots
        self.n_inputs = n_inputs
        self.constants = constants
        self.launches = launches
        self.outs = outs
        self.attrs = attrs
        self.used = False

    def emit(self, sink: Sink, views: Views, reuse: Reuse | None = None) -> list[View]:
        """Emit into a sink; see `Plan.emit`."""
        held: list[Any] = [None] * len(self.slots)
        held[: self.n_inputs] = views
        for slot, constant in self.constants.items():
            held[slot] = constant
        alloc, show, launch = sink.alloc, sink.view, sink.launch
        for step in self.launches:
            for slot in step.allocates:
                held[slot] = alloc(self.slots[slot])  # type: ignore[arg-type]
            ins = [_shown(show, held, r) if r is not None else None for r in step.ins]
            outs = [_shown(show, held, r) for r in step.outs]
            launch(step.plan, outs, ins)
            for slot in step.releases:
                held[slot] = None
        for r in self.outs:
            if held[r.slot] is None:  # written by no launch: an output without elements
                held[r.slot] = alloc(self.slots[r.slot])  # type: ignore[arg-type]
        return [_shown(show, held, r) for r in self.outs]


def _shown(show: Any, held: list[Any], ref: Ref) -> View:
    base: View = held[ref.slot]
    if ref.whole:
        return base
    start, have, want = base.offset, base.spec.dtype.itemsize, ref.spec.dtype.itemsize
    if have != want:
        start = start * have // want
    return show(base.buffer, ref.spec, start + ref.offset)  # type: ignore[no-any-return]


def fresh_specs(outs: Sequence[tuple[tuple[int, ...], Any]], context: Context) -> tuple[Spec, ...]:
    """C-ordered specs for inferred outputs."""
    return tuple(contiguous_spec(shape, dtype, context) for shape, dtype in outs)
