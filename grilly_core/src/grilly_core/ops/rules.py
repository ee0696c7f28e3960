"""What the rules of the primitives share: promotion, broadcasting and reduction of shapes, and parts of gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from grilly_core import dtypes
from grilly_core.buffer import Spec
from grilly_core.dtypes import DType, promote
from grilly_core.errors import DTypeError, ShapeError
from grilly_core.layout import broadcast_shapes, normalize_axes
from grilly_core.opspec import Handle, Inferred

__all__ = [
    "binary",
    "compare",
    "conjugated",
    "floating",
    "if_needed",
    "indexable",
    "reduced",
    "require",
    "same",
    "unary_float",
]


def require(name: str, spec: Spec, kinds: str, argument: str = "x") -> None:
    """Raise unless the dtype's kind is one of `kinds`."""
    if spec.dtype.kind not in kinds:
        words = {"b": "bool", "u": "unsigned", "i": "integer", "f": "floating", "c": "complex"}
        expected = " or ".join(words[k] for k in kinds)
        raise DTypeError(
            f"{name}: {argument} must be {expected}; received {spec.dtype.name} of shape {spec.shape}. Cast "
            "it with .to(...)."
        )


def indexable(name: str, size: int) -> None:
    """Raise if positions along an axis of `size` do not fit int32, the index type of every device."""
    if size > 2**31 - 1:
        raise ShapeError(
            f"{name}: {size} positions do not fit int32; work on parts, or pass dtype=int64 where there is one."
        )


def same(name: str, x: Spec, kinds: str = "buifc") -> Inferred:
    """Same shape and dtype."""
    require(name, x, kinds)
    return Inferred(((x.shape, x.dtype),))


def floating(dtype: DType) -> DType:
    """Integers and bools become the default float; the rest stays."""
    return dtype if dtype.kind in "fc" else dtypes.default_float


def unary_float(name: str, x: Spec, kinds: str = "buifc") -> Inferred:
    """Same shape, in a floating type."""
    require(name, x, kinds)
    dtype = floating(x.dtype)
    return Inferred(((x.shape, dtype),), (dtype,))


def binary(name: str, x: Spec, y: Spec, kinds: str = "buifc", to_float: bool = False) -> Inferred:
    """Broadcast shape and promoted dtype."""
    if x.shape == y.shape and x.dtype is y.dtype and not to_float and x.dtype.kind in kinds:
        return Inferred(((x.shape, x.dtype),))
    require(name, x, kinds, "x")
    require(name, y, kinds, "y")
    dtype = promote(x.dtype, y.dtype)
    if to_float:
        dtype = floating(dtype)
    shape = broadcast_shapes(x.shape, y.shape)
    return Inferred(((shape, dtype),), (dtype, dtype), shape)


def compare(name: str, x: Spec, y: Spec, kinds: str = "buifc") -> Inferred:
    """Broadcast shape, bool result."""
    require(name, x, kinds, "x")
    require(name, y, kinds, "y")
    dtype = promote(x.dtype, y.dtype)
    shape = broadcast_shapes(x.shape, y.shape)
    return Inferred(((shape, dtypes.bool_),), (dtype, dtype), shape)


def reduced(
    name: str, x: Spec, axis: Any, keepdims: bool, dtype: DType | None = None
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the reduced shape and the normalised axes."""
    axes = normalize_axes(axis, x.ndim)
    if keepdims:
        return tuple(1 if i in axes else n for i, n in enumerate(x.shape)), axes
    return tuple(n for i, n in enumerate(x.shape) if i not in axes), axes


_conj = Handle("conj")


def conjugated(x: Any) -> Any:
    """Return a factor as it stands in a gradient: conjugated if it is complex (PyTorch's convention)."""
    return _conj(x) if x.dtype.is_complex else x


def if_needed(need: bool, make: Callable[[], Any]) -> Any:
    """Return the gradient that `make` computes, or None if nobody asked for it."""
    return make() if need else None
