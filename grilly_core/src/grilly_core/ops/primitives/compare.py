"""Comparison and choice, elementwise."""

from __future__ import annotations

from typing import Any

import numpy as np

from grilly_core import dtypes
from grilly_core.buffer import Spec
from grilly_core.layout import broadcast_shapes
from grilly_core.ops import rules
from grilly_core.ops.rules import if_needed
from grilly_core.opspec import Inferred, Op, primitive
from grilly_core.tensor import Tensor

__all__ = [
    "eq",
    "lt",
    "where",
]


def _compare(name: str, reference: Any, kinds: str, doc: str) -> Op[..., Tensor]:
    def infer(x: Spec, y: Spec) -> Inferred:
        return rules.compare(name, x, y, kinds)

    infer.__doc__ = doc
    infer.__qualname__ = f"_compare.{name}"
    made = primitive(name, elementwise=True, nondiff=True)(infer)
    made.reference(reference)

    def samples(s: Any) -> None:
        s.case(s.i32(3, 4, low=0, high=3), s.i32(4, low=0, high=3))
        s.case(s.f32(3, 4), s.f32(3, 1))
        s.case(
            s.array(np.array([1.0, np.nan, np.inf, -0.0], "f4")),
            s.array(np.array([1.0, np.nan, np.inf, 0.0], "f4")),
        )

    made.samples(samples)
    return made


eq = _compare("eq", np.equal, "buifc", "Elementwise ``x == y``; NaN equals nothing.")
lt: Op[..., Tensor] = _compare("lt", np.less, "buif", "Elementwise ``x < y``.")


@primitive("where", elementwise=True, saves="ins")
def where(condition: Spec, x: Spec, y: Spec) -> Inferred:
    """Elementwise `x` where `condition` holds, else `y`."""
    rules.require("where", condition, "b", "condition")
    inner = rules.binary("where", x, y)
    shape = broadcast_shapes(condition.shape, x.shape, y.shape)
    dtype = inner.outs[0][1]
    return Inferred(((shape, dtype),), (dtypes.bool_, dtype, dtype), shape)


@where.vjp
def _(grads: Any, outs: Any, ins: Any, attrs: Any, needs: Any) -> Any:
    (g,) = grads
    return (
        None,
        if_needed(needs[1], lambda: where(ins[0], g, 0)),
        if_needed(needs[2], lambda: where(ins[0], 0, g)),
    )


@where.reference
def _(condition: Any, x: Any, y: Any) -> Any:
    return np.where(condition, x, y)


@where.samples
def _(s: Any) -> None:
    s.case(s.bool(3, 4), s.f32(3, 4), s.f32(4))
    s.case(s.bool(3, 1), s.i32(4), s.i32(3, 4))
    s.error(TypeError, "condition", s.f32(3), s.f32(3), s.f32(3))
