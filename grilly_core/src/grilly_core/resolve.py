"""From an op and the specs of its inputs to a plan: kernel, body, CPU fallback, or a clear error, in this order.

The decision is made once per key and cached by the dispatcher. `explain` tells it to a person.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from grilly_core import config, device, events, registry
from grilly_core.buffer import Spec, View, contiguous_spec, make_spec
from grilly_core.config import State
from grilly_core.device import Context, open_context
from grilly_core.dtypes import DType, as_dtype
from grilly_core.errors import (
    DeviceError,
    FallbackError,
    FallbackWarning,
    GrillyError,
    NoKernelError,
    RegistrationError,
)
from grilly_core.layout import make_layout
from grilly_core.opspec import Inferred, Op
from grilly_core.plan import (
    EAGER,
    ExpandPlan,
    KernelPlan,
    Plan,
    Reuse,
    Sink,
    Tracer,
    ViewPlan,
    Views,
    fresh_specs,
)
from grilly_core.registry import Kernel

__all__ = ["Condition", "FallbackPlan", "build", "infer", "on_device"]

Specs = Sequence[Spec | None]
_imported: list[bool] = []


def _opened(context: Context) -> None:
    # A device may be open before the ops are imported; an extension's kernels import ops, so they wait.
    (registry.collect_kernels if _imported else registry.expect_kernels)(context)


device.on_open(_opened)
_imported.append(True)


class Condition(NamedTuple):
    """What a kernel's ``when`` may look at.

    Attributes
    ----------
    ins, outs : tuple of Spec or None
        Inputs after casts and expansion, and outputs.
    attrs : dict
    policy : Policy
    runtime : Runtime
    """

    ins: tuple[Spec | None, ...]
    outs: tuple[Spec, ...]
    attrs: dict[str, Any]
    policy: config.Policy
    runtime: Any


class _Unresolved(Exception):
    """A leaf of a body cannot run on the device."""


def _context_of(op: Op[Any, Any], specs: Specs, context: Context | None) -> Context:
    for spec in specs:
        if spec is None:
            continue
        if context is None:
            context = spec.context
        elif spec.context is not context:
            raise DeviceError(
                f"{op.name}: the inputs are on two devices, {context.device} and {spec.context.device}; "
                f"move one of them, for example with .to('{context.device}')."
            )
    return context or device.default_context()


def build(
    op: Op[Any, Any],
    specs: Specs,
    values: tuple[Any, ...],
    state: State,
    record: bool,
    context: Context | None,
) -> Plan:
    """Return the plan of `op` for inputs of `specs`.

    Parameters
    ----------
    op : Op
    specs : sequence of Spec or None
        In schema order, lists flattened.
    values : tuple
        Attributes in schema order.
    state : State
    record : bool
        Whether the hidden outputs are wanted.
    context : Context, optional
        Device of an op without tensor inputs.
    """
    context = _context_of(op, specs, context)
    attrs = op.attributes(values, specs)
    if op.kind == "view":
        return _view_plan(op, specs, attrs)
    return _Resolver(op, specs, attrs, values, state, record, context).plan()


def _view_plan(op: Op[Any, Any], specs: Specs, attrs: dict[str, Any]) -> ViewPlan:
    spec = specs[0]
    assert spec is not None
    shape, strides, offset, *convert = op.rule(spec.layout, **attrs)
    dtype = convert[0](spec.dtype) if convert else spec.dtype
    return ViewPlan(
        op, make_spec(make_layout(shape, strides), dtype, spec.context), offset, attrs, spec.dtype.itemsize
    )


@dataclass
class _Resolver:
    """The steps of one resolution; `lacks` collects why each was not taken."""

    op: Op[Any, Any]
    specs: Specs
    attrs: dict[str, Any]
    values: tuple[Any, ...]
    state: State
    record: bool
    context: Context
    lacks: list[str] = field(default_factory=list)

    def plan(self) -> Plan:
        inferred = infer(self.op, self.specs, self.attrs, self.state, self.context)
        kernel_plan = self.from_kernel(inferred)
        if kernel_plan is not None:
            return kernel_plan
        body = self.from_body()
        return body if body is not None else self.from_cpu(inferred)

    def from_kernel(self, inferred: Inferred) -> Plan | None:
        attrs = self.attrs if inferred.attrs is None else inferred.attrs
        outs = inferred.outs if self.record or not self.op.hidden else inferred.outs[: -self.op.hidden]
        ins = _cast_specs(self.specs, inferred)
        out_specs = fresh_specs(outs, self.context)
        condition = Condition(ins, out_specs, attrs, self.state.policy, self.context.runtime)
        kernel = self.choose(condition)
        if kernel is None:
            return None
        if kernel.compute and any(
            s is not None and s.dtype.code in kernel.compute for s in (*ins, *out_specs)
        ):
            return self.computed_wider(kernel)
        try:
            prepare = tuple(
                self.preparation(spec, cast, kernel) for spec, cast in zip(self.specs, ins, strict=True)
            )
        except _Unresolved as error:
            self.lacks.append(str(error))
            return None
        return KernelPlan(self.op, kernel, self.context, prepare, out_specs, attrs)

    def choose(self, condition: Condition) -> Kernel | None:
        """Return the matching kernel of the highest priority."""
        offered = registry.kernels_for(self.context.device.backend).get(self.op.name, [])
        wanted = _deciding_codes((*condition.ins, *condition.outs))
        matching = []
        for kernel in offered:
            if not wanted <= kernel.dtypes:
                self.lacks.append(
                    f"kernel of {kernel.source}: has {_listed(kernel.dtypes)}, not {_listed(wanted - kernel.dtypes)}"
                )
            elif kernel.when is not None and not kernel.when(condition):
                self.lacks.append(f"kernel of {kernel.source}: its condition does not hold for these inputs")
            else:
                matching.append(kernel)
        if not offered:
            self.lacks.append(f"no kernel on {self.context.device.backend}")
        if not matching:
            return None
        best = max(k.priority for k in matching)
        winners = [k for k in matching if k.priority == best]
        if len(winners) > 1:
            raise RegistrationError(
                f"op {self.op.name!r} on {self.context.device}: kernels of {' and '.join(k.source for k in winners)} "
                f"have the same priority {best}; give one a higher priority or disable a plugin with GRILLY_DISABLE."
            )
        return winners[0]

    def preparation(self, given: Spec | None, wanted: Spec | None, kernel: Kernel) -> tuple[Plan, ...]:
        """Return the plans that turn an input into what the kernel takes."""
        if given is None or wanted is None:
            return ()
        plans: list[Plan] = []
        spec = given
        if spec.dtype is not wanted.dtype:
            plans.append(self.inner("cast", spec, (wanted.dtype,)))
            spec = contiguous_spec(spec.shape, wanted.dtype, self.context)
        if spec.shape != wanted.shape and kernel.layout != "broadcast":
            expand = ExpandPlan(spec, wanted.shape)
            plans.append(expand)
            spec = expand.spec
        if kernel.layout == "contiguous" and not spec.contiguous:
            plans.append(self.inner("strided_copy", spec, ()))
        return tuple(plans)

    def inner(self, name: str, spec: Spec, values: tuple[Any, ...]) -> Plan:
        plan = build(registry.get(name), (spec,), values, self.state, False, self.context)
        return on_device(plan)

    def computed_wider(self, kernel: Kernel) -> Plan | None:
        """Cast to the type the kernel computes in, run the op there, cast back."""
        compute = {as_dtype(a): as_dtype(b) for a, b in (kernel.compute or {}).items()}
        tracer = Tracer(self.context, self.specs)
        views: list[View | None] = []
        for view in tracer.inputs:
            if view is not None and view.dtype in compute:
                view = self.inner("cast", view.spec, (compute[view.dtype],)).emit(tracer, [view])[0]
            views.append(view)
        inferred = infer(self.op, self.specs, self.attrs, self.state, self.context)
        values = tuple(compute.get(v, v) if isinstance(v, DType) else v for v in self.values)
        specs = [None if v is None else v.spec for v in views]
        wide = build(self.op, specs, values, self.state, self.record, self.context)
        outs = []
        for view, (_, dtype) in zip(wide.emit(tracer, views), inferred.outs, strict=False):
            narrow = (
                self.inner("cast", view.spec, (dtype,)).emit(tracer, [view])[0]
                if view.dtype is not dtype
                else view
            )
            outs.append(narrow)
        return tracer.finish(self.op, outs, self.attrs if inferred.attrs is None else inferred.attrs)

    def from_body(self) -> Plan | None:
        if self.op.kind != "composite":
            self.lacks.append(f"no body: it is a {self.op.kind}" + (" op" if self.op.kind == "host" else ""))
            return None
        try:
            tracer, outs = trace_body(self.op, self.specs, self.attrs, self.state, self.context)
        except _Unresolved as error:
            self.lacks.append(f"body: {error}")
            return None
        if self.op.hidden and not self.record:
            outs = outs[: -self.op.hidden]
        return tracer.finish(self.op, outs, self.attrs)

    def from_cpu(self, inferred: Inferred) -> Plan:
        reason = "; ".join(self.lacks)
        if self.context.device.backend == "cpu":
            raise NoKernelError(self.message(reason))
        try:
            cpu = open_context("cpu")
        except GrillyError as error:
            raise NoKernelError(self.message(f"{reason}; no CPU to fall back to ({error})")) from error
        attrs = self.attrs if inferred.attrs is None else inferred.attrs
        return FallbackPlan(self.op, self.values, attrs, self.context, cpu, self.record, reason)

    def message(self, reason: str) -> str:
        given = ", ".join("None" if s is None else f"{s.dtype.code}{list(s.shape)}" for s in self.specs)
        return (
            f"op {self.op.name!r} cannot run on {self.context.device} for ({given}): {reason}. "
            f"`grilly explain {self.op.name} --device {self.context.device}` shows the decision."
        )


def _cast_specs(specs: Specs, inferred: Inferred) -> tuple[Spec | None, ...]:
    """Specs of the inputs after promotion and expansion (layouts before a copy to C order)."""
    if inferred.ins is None and inferred.expand is None:
        return tuple(specs)
    result: list[Spec | None] = []
    for i, spec in enumerate(specs):
        if spec is not None and inferred.ins is not None and inferred.ins[i] not in (None, spec.dtype):
            spec = contiguous_spec(spec.shape, inferred.ins[i], spec.context)  # type: ignore[arg-type]
        if spec is not None and inferred.expand is not None and spec.shape != inferred.expand:
            spec = ExpandPlan(spec, inferred.expand).spec
        result.append(spec)
    return tuple(result)


def _deciding_codes(specs: Sequence[Spec | None]) -> frozenset[str]:
    """Types that decide: the floating and complex ones, or all of them if there are none."""
    dtypes = {s.dtype for s in specs if s is not None}
    floating = {d for d in dtypes if d.kind in "fc"}
    return frozenset(d.code for d in (floating or dtypes))


def _listed(codes: frozenset[str]) -> str:
    return ", ".join(sorted(codes)) or "nothing"


class _MetaTracer(Tracer):
    """A tracer for shapes alone: ops are inferred, no kernel is looked for."""

    meta = True


def infer(op: Op[Any, Any], specs: Specs, attrs: dict[str, Any], state: State, context: Context) -> Inferred:
    """Return the outputs of an op for inputs of `specs`, without looking for a kernel."""
    if op.kind in ("primitive", "host"):
        return op.rule(*specs, **attrs)  # type: ignore[no-any-return]
    _, outs = trace_body(op, specs, attrs, state, context, meta=True)
    return Inferred(tuple((v.shape, v.dtype) for v in outs))


def trace_body(
    op: Op[Any, Any], specs: Specs, attrs: dict[str, Any], state: State, context: Context, meta: bool = False
) -> tuple[Tracer, list[View]]:
    """Run the body of a composite on symbolic tensors."""
    tracer = (_MetaTracer if meta else Tracer)(context, specs)
    with config.overriding(sink=tracer, grad=False):
        outs = _run_body[0](op, tracer.inputs, attrs)
    return tracer, outs


def on_device(plan: Plan) -> Plan:
    """Return a plan that runs on its own device; one that falls back ends the tracing of a body."""
    if isinstance(plan, FallbackPlan):
        raise _Unresolved(f"{plan.op.name} does not run on {plan.context.device} ({plan.reason})")
    return plan


# The body works on tensors, which are a layer above; `tensor` puts its runner here.
_run_body: list[Any] = []


def emit_symbolic(
    op: Op[Any, Any], views: Views, values: tuple[Any, ...], state: State, record: bool, plan_of: Any
) -> tuple[Plan | None, list[View], dict[str, Any]]:
    """Emit an op into the tracer of `state`; returns plan (None on shapes alone), outputs and attributes."""
    tracer: Tracer = state.sink
    specs = [None if v is None else v.spec for v in views]
    if not isinstance(tracer, _MetaTracer) or op.kind == "view":
        plan: Plan = plan_of(op, specs, values, state, record, tracer.context)
        return plan, on_device(plan).emit(tracer, views), plan.attrs
    context = _context_of(op, specs, tracer.context)
    attrs = op.attributes(values, specs)
    inferred = infer(op, specs, attrs, state, context)
    outs = inferred.outs if record or not op.hidden else inferred.outs[: -op.hidden]
    return None, [tracer.alloc(s) for s in fresh_specs(outs, context)], inferred.attrs or attrs


class FallbackPlan(Plan):
    """The whole op on the CPU: one counted copy out, run, copy back."""

    __slots__ = ("context", "cpu", "reason", "record", "values")

    def __init__(
        self,
        op: Op[Any, Any],
        values: tuple[Any, ...],
        attrs: dict[str, Any],
        context: Context,
        cpu: Context,
        record: bool,
        reason: str,
    ) -> None:
        self.op = op
        self.values = values
        self.attrs = attrs
        self.context = context
        self.cpu = cpu
        self.record = record
        self.reason = reason
        self.used = False

    def emit(self, sink: Sink, views: Views, reuse: Reuse | None = None) -> list[View]:
        """Emit into a sink; see `Plan.emit`."""
        nbytes = sum(v.nbytes for v in views if v is not None)
        self.permit(nbytes)
        if sink is not EAGER:
            refuse = getattr(sink, "refuse_fallback", None)
            if refuse is not None:
                refuse(self.op.name, self.reason)
        moved = [None if v is None else self.moved(v, self.cpu, "out") for v in views]
        specs = [None if v is None else v.spec for v in moved]
        state = config.current()
        plan = build(self.op, specs, self.values, state, self.record, self.cpu)
        outs = plan.emit(EAGER, moved)
        return [self.moved(v, self.context, "in") for v in outs]

    def permit(self, nbytes: int) -> None:
        """Apply the fallback policy, and tell the event stream."""
        policy = config.fallback_policy()
        name, where = self.op.name, str(self.context.device)
        if policy == "error" and not self.op.host:
            raise FallbackError(
                f"op {name!r} would run on the CPU: {self.reason}. The fallback policy is 'error'; allow it with "
                f"grilly.fallback('allow') or GRILLY_FALLBACK=warn, or see `grilly explain {name} --device {where}`."
            )
        events.emit(events.Fallback(name, where, self.reason, nbytes))
        if policy == "warn" and not self.op.host and name not in self.context.warned:
            self.context.warned.add(name)  # not in the plan, which is made anew when kernels arrive
            warnings.warn(
                FallbackWarning(
                    f"op {name!r} runs on the CPU instead of {where}: {self.reason} ({nbytes} bytes out)."
                ),
                stacklevel=_callers(),
            )

    def moved(self, view: View, context: Context, direction: str) -> View:
        """Copy one value across, counted."""
        array = view.buffer.context.download(view)
        events.emit(events.Transfer(direction, view.nbytes, str(self.context.device), "fallback"))
        return context.upload(array, view.dtype)


def _callers() -> int:
    """Return how many frames above `warnings.warn` the first is that belongs to no package of grilly."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("grilly"):
        level, frame = level + 1, frame.f_back
    return level
