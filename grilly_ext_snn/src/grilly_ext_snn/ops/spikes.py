"""The spike as an op of its own, for neurons that are written by hand."""

from __future__ import annotations

from typing import Any

from grilly_core.ops._typing import Attrs, Needs, Samples, Tensors
from grilly_core.ops.creation import ones_like
from grilly_core.ops.math import ge
from grilly_core.ops.primitives import where
from grilly_core.opspec import op
from grilly_core.tensor import Tensor
from grilly_ext_snn.surrogates import derivative

__all__ = ["spike"]


@op("snn.spike", saves="ins", autocast="f32")
def spike(distance: Tensor, *, surrogate: str = "atan", alpha: float = 2.0) -> Tensor:
    """Return 1 where ``distance >= 0``, else 0; its gradient is that of the surrogate."""
    derivative(surrogate)
    if not alpha > 0:
        raise ValueError(f"spike: alpha must be above 0; received {alpha!r}.")
    return _fired(distance)


def _fired(distance: Any) -> Tensor:
    # Two numbers alone would be float32, whatever the distance is.
    result: Tensor = where(ge(distance, 0.0), ones_like(distance), 0.0)
    return result


@spike.vjp
def _(grads: Tensors, outs: Tensors, ins: Tensors, attrs: Attrs, needs: Needs) -> Tensors:
    return (grads[0] * derivative(attrs["surrogate"])(ins[0], attrs["alpha"]),)


@spike.samples
def _(s: Samples) -> None:
    for name in ("atan", "sigmoid", "fast_sigmoid", "triangular", "straight_through"):
        s.case(s.f32(3, 4), grad="surrogate", surrogate=name, alpha=1.5)
    s.case(s.array([0.0, -0.0, 1e30, -1e30]).astype("float32"), grad="surrogate")
    s.error(ValueError, "alpha", s.f32(2), alpha=0.0)
    s.error(ValueError, "surrogate", s.f32(2), surrogate="unknown")
