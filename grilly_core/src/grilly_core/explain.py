"""Telling a person how an op would run on a device: kernel, body, fallback or error, with the reasons."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from grilly_core import config, dtypes, registry, resolve
from grilly_core.buffer import Spec, contiguous_spec
from grilly_core.device import Context, open_context
from grilly_core.dtypes import DType, as_dtype
from grilly_core.errors import NoKernelError
from grilly_core.opspec import Op
from grilly_core.plan import KernelPlan, Plan, ProgramPlan
from grilly_core.resolve import FallbackPlan
from grilly_core.samples import Case, cases_of

__all__ = ["Explanation", "explain"]


@dataclass
class Explanation:
    """The decision tree of one op on one device."""

    title: str
    steps: list[str]
    children: list[Explanation] = field(default_factory=list)

    def lines(self, indent: int = 0) -> list[str]:
        """Return the tree as indented lines of text."""
        pad = "  " * indent
        result = [f"{pad}{self.title}"] + [f"{pad}  {s}" for s in self.steps]
        for child in self.children:
            result += child.lines(indent + 1)
        return result


def explain(op: str, device: str, dtypes: Sequence[str] | None = None) -> Explanation:
    """Return how `op` runs on `device`.

    Parameters
    ----------
    op : str
        Registry name.
    device : str
    dtypes : sequence of str, optional
        Type of the floating inputs; the first counts, float32 by default.

    Examples
    --------
    >>> from grilly_core.explain import explain
    >>> explain("nn.softmax", "cpu").title
    'nn.softmax on cpu:0 for float32'
    """
    spec, context = registry.get(op), open_context(device)
    dtype = as_dtype((dtypes or ["f32"])[0])
    cases = cases_of(spec).cases
    title = f"{op} on {context.device} for {dtype.name}"
    if not cases:
        return Explanation(title, ["it declares no samples, so there is no typical input to decide for"])
    return _explained(title, spec, cases[0], dtype, context)


def _explained(title: str, op: Op[Any, Any], case: Case, dtype: DType, context: Context) -> Explanation:
    specs, values = _typical(case, dtype, context)
    steps = [f"typical input: {case}"]
    if op.kind == "view":
        return Explanation(title, [*steps, "a view: no kernel is needed"])
    steps += _kernel_lines(op, context)
    try:
        plan = resolve.build(op, specs, values, config.current(), False, context)
    except NoKernelError as error:
        return Explanation(title, [*steps, f"→ error: {error}"])
    return Explanation(title, [*steps, _decision(plan)], _children(plan, context))


def _kernel_lines(op: Op[Any, Any], context: Context) -> list[str]:
    kernels = registry.kernels_for(context.device.backend).get(op.name, [])
    if not kernels:
        return ["1. kernel: none on this backend"]
    return [
        f"1. kernel of {k.source}: {' '.join(sorted(k.dtypes))}; {k.layout}; priority {k.priority}"
        + ("; under a condition" if k.when is not None else "")
        for k in kernels
    ]


def _decision(plan: Plan) -> str:
    if isinstance(plan, FallbackPlan):
        return f"→ falls back to the CPU: {plan.reason}"
    if isinstance(plan, KernelPlan):
        casts = sum(map(len, plan.prepare or ()))
        return f"→ its kernel ({plan.kernel.source})" + (
            f", after {casts} cast(s) or copies of inputs" if casts else ""
        )
    assert isinstance(plan, ProgramPlan)
    return f"→ 2. its body: {len(plan.launches)} launches"


def _children(plan: Plan, context: Context) -> list[Explanation]:
    if not isinstance(plan, ProgramPlan):
        return []
    counts = Counter((x.plan.op.name, x.plan.kernel.source) for x in plan.launches)
    return [Explanation(f"{name} ×{n}", [f"kernel of {source}"]) for (name, source), n in counts.items()]


def _typical(case: Case, dtype: DType, context: Context) -> tuple[list[Spec | None], tuple[Any, ...]]:
    """Specs and attribute values of a sample, with its floats in `dtype`."""
    flat = [a for x in case.inputs for a in (x if isinstance(x, list) else [x])]
    schema = case.op.schema
    _, values = case.op.bind(case.inputs, dict(case.attrs))
    if schema.lists:
        lengths = tuple(
            len(x) if isinstance(x, list) else -1
            for x, n in zip(case.inputs, schema.tensors, strict=True)
            if n in schema.lists
        )
        absent = {
            n for x, n in zip(case.inputs, schema.tensors, strict=True) if x is None and n in schema.lists
        }
        pairs = [(n, x) for n, x in zip(schema.tensors, case.inputs, strict=True) if n not in absent]
        flat = [a for _, x in pairs for a in (x if isinstance(x, list) else [x])]
        values = (*values, lengths)
    values = tuple(dtype if isinstance(v, DType) and v is dtypes.float32 else v for v in values)
    return [None if a is None else _spec(a, dtype, context) for a in flat], values


def _spec(array: Any, dtype: DType, context: Context) -> Spec:
    own = dtypes.from_numpy(array.dtype)
    return contiguous_spec(array.shape, dtype if own.is_floating else own, context)
