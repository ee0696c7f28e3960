"""From a call to a kernel: inputs become tensors, the plan is looked up, outputs are wrapped and recorded.

`binary` is the shortest such path, and the one that loops of small operations spend their time in.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np

from grilly_core import config, dtypes, opspec, registry, resolve
from grilly_core.buffer import Spec, View, is_sole_owner
from grilly_core.device import Context, default_context
from grilly_core.dtypes import DType
from grilly_core.errors import DTypeError
from grilly_core.operators import install
from grilly_core.opspec import Handle, Op
from grilly_core.plan import EAGER, Plan, hollow
from grilly_core.tape import Edge, Node
from grilly_core.tensor import Tensor

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = [
    "apply", "array_dtype", "as_tensor", "flattened", "plan_of", "python_scalar", "scalar_tensor",
    "unflattened", "wrap",
]  # fmt: skip

_CACHE_LIMIT: Final = 8192
_plans: dict[tuple[Any, ...], Plan] = {}
registry.on_change(_plans.clear)
_state = config.current
_cast: Final = Handle("cast")
_SCALARS: Final = (bool, int, float, complex, np.number, np.bool_)


def _evict() -> None:
    """Drop the plans that were not used since the last time (a clock approximation of least recently used)."""
    for key, plan in list(_plans.items()):
        if plan.used:
            plan.used = False
        else:
            _plans.pop(key, None)
    if len(_plans) >= _CACHE_LIMIT:
        for key in list(_plans)[: _CACHE_LIMIT // 2]:
            _plans.pop(key, None)


def plan_of(
    op: Op[Any, Any], specs: Sequence[Spec | None], values: tuple[Any, ...], state: config.State, record: bool,
    context: Context | None = None,
) -> Plan:  # fmt: skip
    """Return the cached plan of an op, building it on first use."""
    key = (op, *specs, values, state.policy, record, context)
    plan = _plans.get(key)
    if plan is None:
        if len(_plans) >= _CACHE_LIMIT:
            _evict()
        generation = registry.generation[0]
        plan = resolve.build(op, specs, values, state, record, context)
        if generation == registry.generation[0]:
            _plans[key] = plan
    plan.used = True
    return plan


# -- from Python values to tensors ---------------------------------------------------------------------------


def scalar_tensor(value: Any, dtype: DType, context: Context) -> Tensor:
    """Return a 0-d tensor of a weak scalar in `dtype` (cached by value)."""
    if value == 0 and isinstance(value, float) and math.copysign(1.0, value) < 0:  # equal to 0.0 as a key
        return Tensor(context._constant(value, dtype))
    try:
        return Tensor(context.constant(value, dtype))
    except OverflowError as error:
        raise DTypeError(
            f"the number {value} does not fit {dtype.name}; cast the tensor to a wider type first."
        ) from error


def python_scalar(value: Any) -> Any:
    """Return a scalar or 0-d array as a Python number, or None if it is neither."""
    if isinstance(value, _SCALARS):
        return value.item() if isinstance(value, np.generic) else value
    if isinstance(value, np.ndarray) and value.ndim == 0 and value.dtype.kind in "biufc":
        return value.item()
    return None


def array_dtype(array: NDArray[Any], floating: DType = dtypes.default_float) -> DType:
    """Return the dtype in which an array enters: floating ones as `floating`, the others as they are."""
    dtype = dtypes.from_numpy(array.dtype)
    if dtype.is_floating:
        return floating
    if dtype.is_complex:
        return dtypes.complex128 if floating is dtypes.float64 else dtypes.complex64
    return dtype


def as_tensor(value: Any, like: Tensor | None = None, dtype: DType | None = None) -> Tensor:
    """Return `value` as a tensor on the device of `like` (else the default device).

    Scalars take the dtype of `like` (weakly), floating arrays that of `like` if it is floating, else float32.
    """
    if isinstance(value, Tensor):
        return value
    state = _state()
    if like is not None:
        context = like._value.spec.context
    else:
        context = state.sink.context if getattr(state.sink, "symbolic", False) else default_context()
    scalar = python_scalar(value)
    if scalar is not None:
        base = dtypes.bool_ if like is None else like.dtype
        return scalar_tensor(scalar, dtype or dtypes.promote_scalar(base, type(scalar)), context)
    array = np.asarray(value)
    if array.dtype.kind not in "biufcV":
        raise DTypeError(
            f"expected a tensor, an array or a number; received {type(value).__name__}: {value!r:.80}."
        )
    if dtype is None:
        floating = like.dtype if like is not None and like.dtype.is_floating else dtypes.default_float
        dtype = array_dtype(array, floating)
        if isinstance(value, list | tuple) and dtype is dtypes.int64:
            dtype = dtypes.default_int
    return Tensor(context.upload(array, dtype))


def _reference(op: Op[Any, Any], tensors: Sequence[Any]) -> Tensor | None:
    """The tensor whose device and dtype the scalars and arrays among the inputs follow."""
    given = [t for t in tensors if isinstance(t, Tensor)]
    if not given:
        return None
    if op.name == "where" and len(given) > 1 and isinstance(tensors[0], Tensor):
        given = given[1:]
    if op.elementwise:
        return max(given, key=lambda t: ("biufc".index(t.dtype.kind), t.dtype.itemsize))
    return next((t for t in given if t.dtype.is_differentiable), given[0])


def _converted(op: Op[Any, Any], tensors: list[Any]) -> list[Any]:
    like = _reference(op, tensors)
    if like is None and op.elementwise:  # arrays first, then the scalars that meet them
        arrays = [t if t is None or python_scalar(t) is not None else as_tensor(t) for t in tensors]
        like = _reference(op, arrays)
        tensors = arrays
    if op.name == "where" and isinstance(tensors[0], bool | np.bool_):
        tensors = [as_tensor(tensors[0], like, dtypes.bool_), *tensors[1:]]
    return [t if t is None or isinstance(t, Tensor) else as_tensor(t, like) for t in tensors]


# -- running an op -------------------------------------------------------------------------------------------


def flattened(
    op: Op[Any, Any], tensors: list[Any], values: tuple[Any, ...]
) -> tuple[list[Any], tuple[Any, ...]]:
    """Lay lists of tensors out flat; their lengths (-1: absent) become the last attribute value."""
    flat: list[Any] = []
    lengths = []
    for name, t in zip(op.schema.tensors, tensors, strict=True):
        if name not in op.schema.lists:
            flat.append(t)
        elif t is None:
            lengths.append(-1)
        else:
            if isinstance(t, Tensor) or not isinstance(t, Sequence):
                raise TypeError(f"{op.name}: {name} is a list of tensors; received {type(t).__name__}.")
            lengths.append(len(t))
            flat.extend(t)
    return flat, (*values, tuple(lengths))


def apply(
    op: Op[Any, Any], tensors: list[Any], values: tuple[Any, ...], context: Context | None = None
) -> Any:
    """Run an op on tensors in schema order and wrap what comes out; `context` places ops without inputs."""
    if op.schema.lists:
        tensors, values = flattened(op, tensors, values)
    views: list[Any] = []
    specs: list[Any] = []
    watched = False
    try:
        for t in tensors:
            if t is None:
                views.append(None)
                specs.append(None)
            else:
                view = t._value
                views.append(view)
                specs.append(view.spec)
                if t._node is not None:
                    watched = True
    except AttributeError:  # an array or a number among them
        return _apply_flat(op, _converted(op, tensors), values, context)
    return _run(op, tensors, views, specs, values, context, watched)


def _apply_flat(
    op: Op[Any, Any], tensors: list[Any], values: tuple[Any, ...], context: Context | None
) -> Any:
    views = [None if t is None else t._value for t in tensors]
    specs = [None if v is None else v.spec for v in views]
    watched = any(t is not None and t._node is not None for t in tensors)
    return _run(op, tensors, views, specs, values, context, watched)


def _run(
    op: Op[Any, Any], tensors: list[Any], views: list[Any], specs: list[Any], values: tuple[Any, ...],
    context: Context | None, watched: bool,
) -> Any:  # fmt: skip
    state = _state()
    sink = state.sink
    if state.policy.autocast and op.autocast in ("lower", "f32") and not (sink is not None and sink.symbolic):
        tensors = [t if t is None else _in_class(op.autocast, t, state.policy.autocast) for t in tensors]
        views = [None if t is None else t._value for t in tensors]
        specs = [None if v is None else v.spec for v in views]
    record = watched and state.grad and not op.nondiff
    if sink is not None and sink.symbolic:
        _, outs, attrs = resolve.emit_symbolic(op, views, values, state, record and op.hidden > 0, plan_of)
    else:
        if context is None and not any(specs):
            context = default_context()
        plan = plan_of(op, specs, values, state, record and op.hidden > 0, context)
        reuse = None
        if op.donates and not record:
            del views[:]  # so that only the tensors themselves own their values while that is asked
            owned = _owned(op, tensors, values, sink)
            views = [None if t is None else t._value for t in tensors]
            reuse = {i: views[j] for i, j in owned}
        outs = plan.emit(EAGER if sink is None else sink, views, reuse)
        attrs = plan.attrs
    node = _recorded(op, attrs, values, tensors, views, outs) if record else None
    return wrap(op, outs, node)


def _in_class(kind: str, tensor: Tensor, half: str) -> Tensor:
    """Return a tensor in the type that an op of class `kind` takes under `autocast`; the cast is recorded."""
    code = tensor.dtype.code
    wanted = half if kind == "lower" else "f32"
    if code == wanted or code not in ("f32", "f16", "bf16"):
        return tensor
    return cast(Tensor, apply(_cast.op, [tensor], (dtypes.as_dtype(wanted),)))


def _owned(op: Op[Any, Any], tensors: list[Any], values: tuple[Any, ...], sink: Any) -> list[tuple[int, int]]:
    """Outputs that may take over the memory of the input they donate from: (output, input) pairs."""
    if sink is not None and sink.symbolic:
        return []
    may_reuse = is_sole_owner if sink is None else getattr(sink, "may_reuse", is_sole_owner)
    first: dict[str, tuple[int, int]] = {}
    position, lengths = 0, iter(values[-1] if op.schema.lists else ())
    for name in op.schema.tensors:
        size = max(next(lengths), 0) if name in op.schema.lists else 1
        first[name] = (position, size)
        position += size
    pairs, out = [], 0
    for source in op.donates.values():
        start, size = first[source]
        for k in range(start, start + size):
            if tensors[k] is not None:
                if tensors[k]._value.spec.contiguous and may_reuse(tensors[k]):
                    pairs.append((out, k))
                out += 1
    return pairs


def _recorded(
    op: Op[Any, Any], attrs: dict[str, Any], values: tuple[Any, ...], tensors: Sequence[Tensor | None],
    views: Sequence[View | None], outs: list[View],
) -> Node | None:  # fmt: skip
    edges: list[Edge | None] = [
        None if t is None or t._node is None else (t._node, t._index) for t in tensors
    ]
    if op.nondiff_inputs:
        edges = [None if n in op.nondiff_inputs else e for n, e in zip(op.schema.tensors, edges, strict=True)]
    saved_ins, saved_outs = tuple(views), tuple(outs)
    saves = "ins" if op.kind == "composite" and op.vjp_rule is None else op.saves
    if saves in ("outs", "shapes"):
        saved_ins = tuple([None if v is None else hollow(v) for v in saved_ins])
    if saves in ("ins", "shapes"):
        saved_outs = tuple([hollow(v) for v in saved_outs])
    return Node(op, attrs, values, saved_ins, saved_outs, tuple(edges))


def wrap(op: Op[Any, Any], outs: list[View], node: Node | None) -> Any:
    """Wrap the public outputs: one tensor, or a tuple of several."""
    if node is None and len(outs) == 1 and not op.many:
        return Tensor(outs[0], None, 0, f"a view ({op.name})" if op.aliasing else "")
    count = len(outs) if node is None or not op.hidden else len(outs) - op.hidden
    view_of = f"a view ({op.name})" if op.aliasing else ""
    if node is None:
        made = [Tensor(v, view_of=view_of) for v in outs[:count]]
    else:
        made = [
            Tensor(
                v, None if i in op.nondiff_outputs or not v.spec.dtype.is_differentiable else node, i, view_of
            )
            for i, v in enumerate(outs[:count])
        ]
    return made[0] if count == 1 and not op.many else tuple(made)


def _call(op: Op[Any, Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    if len(args) == op.arity:  # all tensors by position: the attributes alone decide, and repeat
        try:
            key = tuple(kwargs.items())
            values = op.bound.get(key)
            if values is None:
                values = op.bind(args, kwargs)[1]
                if all(type(v) is not float or v != 0.0 for _, v in key) and len(op.bound) < 256:
                    op.bound[key] = values
            return apply(op, list(args), values)
        except TypeError as error:
            if "unhashable" not in str(error):
                raise
    tensors, values = op.bind(args, kwargs)
    return apply(op, tensors, values)


def unary(handle: Handle, a: Tensor) -> Tensor:
    """Run an elementwise op of one tensor on the shortest path."""
    return cast(Tensor, apply(handle._op or handle.op, [a], ()))


def binary(handle: Handle, a: Any, b: Any) -> Tensor:
    """Run an elementwise op of two operands on the shortest path.

    One tuple, one lookup, one allocation, one kernel call, one tensor; anything unusual takes `apply`.
    """
    op = handle._op or handle.op
    if type(b) is float or type(b) is int:
        return _mixed(handle, op, a, b)
    try:
        va, vb = a._value, b._value
    except AttributeError:
        return _mixed(handle, op, a, b)
    state = _state()
    plan: Any = _plans.get((op, va.spec, vb.spec, state.policy))
    if plan is None:
        return _first_binary(op, a, b, state)
    if state.sink is not None or not plan.simple:
        return cast(Tensor, apply(op, [a, b], ()))
    plan.used = True
    spec = plan.out_spec
    out = spec.context.empty(spec)
    plan.fn(plan.stream, (out,), (va, vb), plan.attrs)
    if (a._node is not None or b._node is not None) and state.grad and not op.nondiff:
        return Tensor(out, _recorded(op, plan.attrs, (), (a, b), (va, vb), [out]))
    return Tensor(out)


def _first_binary(op: Op[Any, Any], a: Tensor, b: Tensor, state: config.State) -> Tensor:
    """Build the plan and file it under the short key too."""
    result: Tensor = apply(op, [a, b], ())
    if state.sink is None and not (state.policy.autocast and op.autocast):
        specs = (a._value.spec, b._value.spec)
        _plans[(op, *specs, state.policy)] = plan_of(op, specs, (), state, False)
    return result


def _mixed(handle: Handle, op: Op[Any, Any], a: Any, b: Any) -> Tensor:
    """One operand is not a tensor."""
    if isinstance(a, Tensor) and type(b) in (float, int, bool):
        spec = a._value.spec
        return binary(handle, a, scalar_tensor(b, dtypes.promote_scalar(spec.dtype, type(b)), spec.context))
    for x in (a, b):
        if not isinstance(x, (Tensor, np.ndarray, *_SCALARS)):
            return NotImplemented  # type: ignore[no-any-return]
    a, b = _converted(op, [a, b])
    return binary(handle, a, b)


def _run_body(op: Op[Any, Any], views: Sequence[View | None], attrs: dict[str, Any]) -> list[View]:
    """Run the body of a composite on symbolic tensors; returns the views of its results."""
    tensors: list[Any] = [None if v is None else Tensor(v) for v in views]
    attrs = dict(attrs)
    if op.schema.lists:
        tensors = unflattened(op, tensors, attrs.pop("lengths"))
    result = op.rule(*tensors, **{k: v for k, v in attrs.items() if k in op.schema.attrs})
    outs = result if isinstance(result, tuple | list) else (result,)
    return [as_tensor(t)._value for t in outs]


def unflattened(op: Op[Any, Any], flat: list[Any], lengths: tuple[int, ...]) -> list[Any]:
    """Put flat tensors back into the lists they came from."""
    remaining, sizes = iter(flat), iter(lengths)
    result: list[Any] = []
    for name in op.schema.tensors:
        if name not in op.schema.lists:
            result.append(next(remaining))
            continue
        size = next(sizes)
        result.append(None if size < 0 else [next(remaining) for _ in range(size)])
    return result


opspec.install_dispatcher(_call)
install(unary, binary)
resolve._run_body[:] = [_run_body]
