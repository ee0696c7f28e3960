"""Complex tensors as pairs of reals: the storage is interleaved, so the views cost nothing."""

from __future__ import annotations

from typing import Any

import numpy as np

from grilly_core import dtypes
from grilly_core.errors import ShapeError
from grilly_core.layout import Layout
from grilly_core.ops.structure import stack
from grilly_core.opspec import op, view_op
from grilly_core.tensor import Tensor

__all__ = ["complex_of", "view_as_complex", "view_as_real"]


@view_op("view_as_real")
def view_as_real(layout: Layout) -> Any:
    """Complex numbers shown as a last axis of (real, imaginary)."""
    return (*layout.shape, 2), (*(2 * s for s in layout.strides), 1), 0, lambda d: d.real


@view_as_real.vjp
def _(grads: Any, outs: Any, ins: Any, attrs: Any, needs: Any) -> Any:
    return (view_as_complex(grads[0]),)


@view_as_real.reference
def _(x: Any) -> Any:
    return np.stack([x.real, x.imag], -1)


@view_as_real.samples
def _(s: Any) -> None:
    s.case(s.c64(3, 4))


@view_op("pairs_as_complex", internal=True)
def pairs_as_complex(layout: Layout) -> Any:
    """Packed pairs shown as complex numbers."""
    strides = tuple(s // 2 for s in layout.strides[:-1])
    return (
        layout.shape[:-1],
        strides,
        0,
        lambda d: dtypes.complex128 if d is dtypes.float64 else dtypes.complex64,
    )


@pairs_as_complex.vjp
def _(grads: Any, outs: Any, ins: Any, attrs: Any, needs: Any) -> Any:
    return (view_as_real(grads[0]),)


@op("view_as_complex", saves="shapes")
def view_as_complex(x: Any) -> Tensor:
    """Pairs in the last axis, of size 2, shown as complex numbers."""
    from grilly_core.ops.primitives import strided_copy

    if x.ndim == 0 or x.shape[-1] != 2:
        raise ShapeError(f"view_as_complex: the last axis must have size 2; received shape {x.shape}.")
    return pairs_as_complex(strided_copy(x))  # a view may start at an odd element, fresh memory does not


@view_as_complex.vjp
def _(grads: Any, outs: Any, ins: Any, attrs: Any, needs: Any) -> Any:
    return (view_as_real(grads[0]),)


@view_as_complex.reference
def _(x: Any) -> Any:
    return x[..., 0] + 1j * x[..., 1]


@view_as_complex.samples
def _(s: Any) -> None:
    s.case(s.f32(3, 4, 2))
    s.error(ValueError, "size 2", s.f32(3))


def complex_of(real: Any, imag: Any) -> Any:
    """Complex tensor of a real and an imaginary part."""
    return view_as_complex(stack([real, imag], axis=-1))
