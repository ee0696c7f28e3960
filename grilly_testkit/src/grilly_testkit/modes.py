"""The modes: what is checked of every op on a device. Each takes an op and yields what it found wrong."""

from __future__ import annotations

import gc
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from grilly_core import config, dtypes, registry, resolve
from grilly_core.apply import plan_of
from grilly_core.buffer import Buffer, Spec, View, contiguous_spec, make_spec
from grilly_core.capture import Capture
from grilly_core.device import open_context
from grilly_core.errors import AutogradError, GrillyError, NoKernelError
from grilly_core.gradcheck import gradcheck
from grilly_core.layout import make_layout
from grilly_core.opspec import Op
from grilly_core.plan import EAGER
from grilly_core.samples import Case, cases_of
from grilly_core.tensor import Tensor
from grilly_testkit import running
from grilly_testkit.reference import reference_device

__all__ = ["MODES", "Finding", "Mode", "modes_for"]

TOLERANCE: Final = 2e-5
GRAD_TOLERANCE: Final = 2e-4
GUARD: Final = 64


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong."""

    op: str
    mode: str
    case: str
    message: str


@dataclass(frozen=True)
class Mode:
    """A named check and the lowest level that demands it."""

    name: str
    level: int
    check: Callable[[Op[Any, Any], str, int], Iterator[tuple[str, str]]]


def _cases(op: Op[Any, Any]) -> list[Case]:
    return cases_of(op).cases


# -- support -------------------------------------------------------------------------------------------------


def support(op: Op[Any, Any], device: str, level: int) -> Iterator[tuple[str, str]]:
    """What is declared is there: level 1 needs every primitive, level 2 every op without fallback."""
    if op.kind == "view" or op.host or (level == 1 and not op.primitive) or level == 0:
        return
    context = open_context(device)
    for case in _cases(op):
        tensors = [running.placed(x, device) for x in case.inputs]
        flat = [t for x in tensors for t in (x if isinstance(x, list) else [x])]
        _, values = op.bind(tuple(tensors), dict(case.attrs))
        if op.schema.lists:
            lengths = tuple(
                len(x) if isinstance(x, list) else -1
                for x, n in zip(tensors, op.schema.tensors, strict=True)
                if n in op.schema.lists
            )
            flat = [
                t
                for x, n in zip(tensors, op.schema.tensors, strict=True)
                if not (x is None and n in op.schema.lists)
                for t in (x if isinstance(x, list) else [x])
            ]
            values = (*values, lengths)
        try:
            plan = plan_of(
                op,
                [None if t is None else t._value.spec for t in flat],
                values,
                config.current(),
                False,
                context,
            )
        except NoKernelError as error:
            yield str(case), str(error)
            continue
        if isinstance(plan, resolve.FallbackPlan):
            yield str(case), f"falls back to the CPU: {plan.reason}"


# -- values --------------------------------------------------------------------------------------------------


def _expected(case: Case) -> list[Any]:
    """The oracle: the op's own NumPy reference in float64, else its body on the reference device in float64."""
    rule = case.op.reference_rule
    if rule is None:
        with reference_device() as reference:
            return running.arrays_of(running.run(case, reference, wide=True))
    flat = [a for x in case.inputs for a in (x if isinstance(x, list) else [x])]
    wide = [
        None
        if a is None
        else a.astype(np.complex128 if a.dtype.kind == "c" else np.float64)
        if a.dtype.kind in "fc"
        else a
        for a in flat
    ]
    if case.op.name == "bitcast":
        wide = flat
    attrs = (
        case.op.attributes(tuple(case.op.bind(tuple(case.inputs), dict(case.attrs))[1]), _fake_specs(flat))
        if not case.op.schema.lists
        else _list_attrs(case)
    )
    result = rule(*wide, **{k: attrs[k] for k in case.op.schema.attrs})
    return [np.asarray(r) for r in (result if isinstance(result, tuple | list) else (result,))]


def _fake_specs(flat: list[Any]) -> list[Any]:
    context = open_context("cpu")
    return [
        None if a is None else contiguous_spec(a.shape, dtypes.from_numpy(a.dtype), context) for a in flat
    ]


def _list_attrs(case: Case) -> dict[str, Any]:
    defaults = dict(case.op.schema.attrs)
    return {**defaults, **case.attrs}


def forward(op: Op[Any, Any], device: str, level: int) -> Iterator[tuple[str, str]]:
    """Values agree with NumPy in float64."""
    for case in _cases(op):
        actual = running.arrays_of(running.run(case, device))
        expected = _expected(case)
        if len(actual) != len(expected):
            expected = expected[: len(actual)]
        for i, (a, b) in enumerate(zip(actual, expected, strict=True)):
            if case.compare == "bits":
                wrong = "" if np.array_equal(_bits(a), _bits(b)) else "bits differ"
            else:
                wrong = running.close(a, b, case.tol or TOLERANCE)
            if wrong:
                yield str(case), f"output {i}: {wrong}"


def _bits(a: Any) -> Any:
    return np.ascontiguousarray(a).reshape(-1).view(np.uint8)


def _relaid(tensor: Tensor | None, how: str) -> Any:
    """The same values in another layout: transposed storage, an offset, negative strides, or repeated with stride 0."""
    if tensor is None:
        return None
    context, array = tensor._value.spec.context, np.array(tensor.numpy())
    if array.ndim == 0 or array.size == 0:
        how = "offset"
    if how == "transposed":
        stored = Tensor(context.upload(np.ascontiguousarray(array.T), tensor.dtype))
        return stored.permute(*range(array.ndim)[::-1])
    if how == "reversed":
        return Tensor(context.upload(np.ascontiguousarray(np.flip(array)), tensor.dtype)).flip(
            *range(array.ndim)
        )
    if how == "sliced":
        wide = np.zeros(tuple(2 * n + 1 for n in array.shape), array.dtype)
        wide[tuple(slice(1, None, 2) for _ in array.shape)] = array
        return Tensor(context.upload(wide, tensor.dtype))[tuple(slice(1, None, 2) for _ in array.shape)]
    flat = np.concatenate([np.zeros(3, array.dtype), array.ravel()])
    return Tensor(context.upload(flat, tensor.dtype))[3:].reshape(array.shape)


def layout(op: Op[Any, Any], device: str, level: int) -> Iterator[tuple[str, str]]:
    """Strides, offsets and negative steps change nothing."""
    for case in _cases(op):
        plain = running.arrays_of(running.run(case, device))
        for how in ("transposed", "sliced", "reversed", "offset"):
            inputs = tuple(
                [_relaid(running.placed(a, device), how) for a in x]
                if isinstance(x, list)
                else _relaid(running.placed(x, device), how)
                for x in case.inputs
            )
            other = running.arrays_of(running.run(case, device, inputs=inputs))
            for i, (a, b) in enumerate(zip(other, plain, strict=True)):
                wrong = running.close(a, b, case.tol or TOLERANCE)
                if wrong:
                    yield str(case), f"{how} inputs, output {i}: {wrong}"
        yield from _expanded(case, device)


def _expanded(case: Case, device: str) -> Iterator[tuple[str, str]]:
    """A first input that repeats one slice with stride 0 gives what its packed copy gives."""
    first = case.inputs[0] if case.inputs else None
    if first is None or isinstance(first, list) or first.ndim == 0 or first.shape[0] < 2:
        return
    rest = [running.placed(x, device) for x in case.inputs[1:]]
    row = running.placed(np.ascontiguousarray(first[:1]), device)
    spread = row.expand(*first.shape)
    lazy = running.arrays_of(running.run(case, device, inputs=(spread, *rest)))
    packed = running.arrays_of(running.run(case, device, inputs=(spread.clone(), *rest)))
    for i, (a, b) in enumerate(zip(lazy, packed, strict=True)):
        wrong = running.close(a, b, case.tol or TOLERANCE)
        if wrong:
            yield str(case), f"expanded input, output {i}: {wrong}"


# -- memory --------------------------------------------------------------------------------------------------


@contextmanager
def _guarded(device: str, made: list[tuple[View, Spec]]) -> Iterator[None]:
    """Allocate every output in the middle of a larger buffer filled with a known byte."""
    context = open_context(device)
    plain = context.empty

    def empty(spec: Spec) -> View:
        size = spec.size + 2 * GUARD
        outer = plain(contiguous_spec((size,), spec.dtype, context))
        filler = np.full(size * spec.dtype.itemsize, 0xA5, np.uint8).view(spec.dtype.numpy)
        if outer.array is not None:
            outer.array[...] = filler
        else:
            context.runtime.copy_in(outer.buffer.handle, 0, memoryview(filler.view(np.uint8)))
        inner = context.view(
            outer.buffer, make_spec(make_layout(spec.shape, spec.strides), spec.dtype, context), GUARD
        )
        made.append((outer, spec))
        return inner

    context.empty = empty
    try:
        yield
    finally:
        context.empty = plain


def guard(op: Op[Any, Any], device: str, level: int) -> Iterator[tuple[str, str]]:
    """Kernels write their outputs and nothing else: not around them, not into their inputs."""
    for case in _cases(op):
        inputs = tuple(running.placed(x, device) for x in case.inputs)
        flat = [t for x in inputs for t in (x if isinstance(x, list) else [x]) if t is not None]
        before = [np.array(t.numpy()) for t in flat]
        made: list[tuple[View, Spec]] = []
        with _guarded(device, made):
            running.run(case, device, inputs=inputs)
        for outer, spec in made:
            raw = np.array(outer.spec.context.download(outer)).view(np.uint8)
            edge = GUARD * spec.dtype.itemsize
            if (raw[:edge] != 0xA5).any() or (raw[raw.size - edge :] != 0xA5).any():
                yield str(case), f"wrote outside an output of {spec!r}"
        if not op.donates:
            for i, (t, old) in enumerate(zip(flat, before, strict=True)):
                if not np.array_equal(_bits(np.array(t.numpy())), _bits(old)):
                    yield str(case), f"changed its input {i}"


def leak(op: Op[Any, Any], device: str, level: int) -> Iterator[tuple[str, str]]:
    """Running an op again and again keeps no buffer alive."""
    cases = _cases(op)[:1]
    for case in cases:
        inputs = tuple(running.placed(x, device) for x in case.inputs)
        for _ in range(3):
            running.run(case, device, inputs=inputs)
        before = _alive()
        for _ in range(5):
            running.run(case, device, inputs=inputs)
        grown = _alive() - before
        if grown > 0:
            yield str(case), f"{grown} buffers are still alive after 5 runs"


def _alive() -> int:
    # type(o): isinstance would ask every object of the process for its __class__, and some answer with a warning
    return sum(issubclass(type(o), Buffer) and not o.constant for o in gc.get_objects())


def determinism(op: Op[Any, Any], device: str, level: int) -> Iterator[tuple[str, str]]:
    """The same inputs give the same bits."""
    for case in _cases(op):
        first, second = (running.arrays_of(running.run(case, device)) for _ in range(2))
        if any(not np.array_equal(_bits(a), _bits(b)) for a, b in zip(first, second, strict=True)):
            yield str(case), "two runs gave different bits"


# -- gradients -----------------------------------------------------------------------------------------------


def grad(op: Op[Any, Any], device: str, level: int) -> Iterator[tuple[str, str]]:
    """The CPU's float64 gradient passes finite differences, and the device's agrees with it."""
    for case in _cases(op):
        places = running.differentiable(case)
        if not places or any(
            a is not None and a.dtype.kind == "c"
            for x in case.inputs
            for a in (x if isinstance(x, list) else [x])
        ):
            continue
        if case.grad == "exact":
            wrong = _differences(case, places)
            if wrong:
                yield str(case), wrong
                continue
        wide = running.gradients(case, "cpu", wide=True)
        actual = running.gradients(case, device, wide=False)
        for i, (a, b) in enumerate(zip(actual, wide, strict=True)):
            if (a is None) != (b is None):
                yield str(case), f"gradient {i} is there on one device only"
            elif a is not None and b is not None:
                wrong = running.close(a, b, case.tol or GRAD_TOLERANCE)
                if wrong:
                    yield str(case), f"gradient {i}: {wrong}"


def _differences(case: Case, places: list[int]) -> str:
    inputs = [running.placed(x, "cpu", wide=True) for x in case.inputs]
    lists = [len(x) if isinstance(x, list) else None for x in inputs]
    flat = [t for x in inputs for t in (x if isinstance(x, list) else [x])]
    if sum(flat[i].numel() for i in places) > 400:
        return ""  # differences of every element would take long; the smaller cases cover the rule
    given = [flat[i].requires_grad_() for i in places]

    def function(*tensors: Tensor) -> Any:
        full = list(flat)
        for i, t in zip(places, tensors, strict=True):
            full[i] = t
        stream = iter(full)
        args = [next(stream) if n is None else [next(stream) for _ in range(n)] for n in lists]
        outs = running.outputs(
            case.op(
                *args,
                **{
                    k: running.widened(v) if isinstance(v, dtypes.DType) else v for k, v in case.attrs.items()
                },
            )
        )
        return tuple(o for o in outs if o.dtype.is_floating)

    try:
        gradcheck(function, given, atol=1e-5, rtol=1e-3)
    except AutogradError as error:
        return str(error)
    return ""


# -- fused kernels and replay --------------------------------------------------------------------------------


def fused(op: Op[Any, Any], device: str, level: int) -> Iterator[tuple[str, str]]:
    """A fused kernel agrees with the body on the same device."""
    if op.kind != "composite" or op.name not in registry.kernels_for(open_context(device).device.backend):
        return
    for case in _cases(op):
        actual = running.arrays_of(running.run(case, device))
        expected = running.arrays_of(_through_body(case, device))
        for i, (a, b) in enumerate(zip(actual, expected, strict=False)):
            wrong = running.close(a, b, case.tol or TOLERANCE)
            if wrong:
                yield str(case), f"output {i}: {wrong}"


def _through_body(case: Case, device: str) -> tuple[Tensor, ...]:
    op, context = case.op, open_context(device)
    tensors = [running.placed(x, device) for x in case.inputs]
    bound, values = op.bind(tuple(tensors), dict(case.attrs))
    if op.schema.lists:
        from grilly_core.apply import flattened

        bound, values = flattened(op, bound, values)
    views = [None if t is None else t._value for t in bound]
    specs = [None if v is None else v.spec for v in views]
    attrs = op.attributes(values, specs)
    tracer, outs = resolve.trace_body(op, specs, attrs, config.current(), context)
    return tuple(Tensor(v) for v in tracer.finish(op, outs, attrs).emit(EAGER, views))


def replay(op: Op[Any, Any], device: str, level: int) -> Iterator[tuple[str, str]]:
    """A replay with fresh inputs equals the eager run, bit for bit."""
    if op.host or op.dynamic:
        return
    for case in _cases(op):
        if any(isinstance(x, list) for x in case.inputs) or all(x is None for x in case.inputs):
            continue
        step = Capture(lambda *tensors, case=case: running.run(case, device, inputs=tensors), ())
        inputs = tuple(running.placed(x, device) for x in case.inputs)
        for _ in range(3):
            step(*inputs)
        fresh = tuple(running.placed(_shuffled(x), device) for x in case.inputs)
        eager = running.arrays_of(running.run(case, device, inputs=fresh))
        again = running.arrays_of(running.outputs(step(*fresh)))
        if any(not np.array_equal(_bits(a), _bits(b)) for a, b in zip(again, eager, strict=True)):
            yield str(case), "the replay differs from the eager run"


def _shuffled(x: Any) -> Any:
    """Other values of the same kind: the same ones in reverse order."""
    return None if x is None else np.ascontiguousarray(np.flip(x)) if x.ndim else x


# -- errors --------------------------------------------------------------------------------------------------


def errors(op: Op[Any, Any], device: str, level: int) -> Iterator[tuple[str, str]]:
    """Bad input is refused with the declared error, and its message helps."""
    for case in cases_of(op).errors:
        try:
            running.run(case, device)
        except case.error as error:
            if case.message.lower() not in str(error).lower():
                yield str(case), f"the message lacks {case.message!r}: {error}"
        except Exception as error:
            yield str(case), f"raised {type(error).__name__} instead: {error}"
        else:
            yield str(case), "was accepted"


MODES: Final = (
    Mode("support", 0, support),
    Mode("forward", 0, forward),
    Mode("errors", 0, errors),
    Mode("layout", 0, layout),
    Mode("guard", 0, guard),
    Mode("determinism", 0, determinism),
    Mode("leak", 0, leak),
    Mode("grad", 1, grad),
    Mode("fused", 2, fused),
    Mode("replay", 3, replay),
)


def modes_for(level: int) -> list[Mode]:
    """Return the modes that a level demands."""
    return [m for m in MODES if m.level <= level]


def findings(op: Op[Any, Any], mode: Mode, device: str, level: int) -> list[Finding]:
    """Run one mode on one op under the level's fallback policy; an exception is a finding too."""
    policy = "allow" if level < 2 else "error"
    try:
        with config.fallback(policy), warnings.catch_warnings():  # type: ignore[arg-type]
            warnings.simplefilter("error")
            return [
                Finding(op.name, mode.name, case, message) for case, message in mode.check(op, device, level)
            ]
    except (
        GrillyError,
        ArithmeticError,
        ValueError,
        TypeError,
        IndexError,
        RuntimeError,
        Warning,
        AssertionError,
        AttributeError,
        KeyError,
    ) as error:
        return [Finding(op.name, mode.name, "", f"raised {type(error).__name__}: {error}")]
