"""Matrix product, indexing, order and random bits."""

from __future__ import annotations

from typing import Any

import numpy as np

from grilly_core import dtypes
from grilly_core.buffer import Spec
from grilly_core.dtypes import promote
from grilly_core.errors import DTypeError, ShapeError
from grilly_core.ops import rules
from grilly_core.ops.primitives.binary import maximum
from grilly_core.ops.primitives.compare import eq
from grilly_core.ops.primitives.data import cast, full, iota
from grilly_core.ops.rules import conjugated, if_needed
from grilly_core.opspec import Handle, Inferred, primitive

__all__ = [
    "gather",
    "matmul",
    "random_bits",
    "scatter",
    "sort",
]

_zeros_like = Handle("zeros_like")
_permute = Handle("permute_dims")
_reshape = Handle("reshape")


@primitive("matmul", autocast="lower", saves="ins")
def matmul(x: Spec, y: Spec) -> Inferred:
    """Product of matrices ``(..., M, K) @ (..., K, N)`` with equal leading axes."""
    if x.ndim < 2 or y.ndim < 2 or x.shape[:-2] != y.shape[:-2] or x.shape[-1] != y.shape[-2]:
        raise ShapeError(
            f"matmul: expected (..., M, K) and (..., K, N) with equal leading axes; received {x.shape} and {y.shape}."
        )
    dtype = promote(x.dtype, y.dtype)
    if dtype.kind == "b":
        raise DTypeError("matmul: bool matrices have no product; cast them with .to(...).")
    return Inferred((((*x.shape[:-1], y.shape[-1]), dtype),), (dtype, dtype))


def _swapped(x: Any) -> Any:
    return _permute(x, axes=(*range(x.ndim - 2), x.ndim - 1, x.ndim - 2))


@matmul.vjp
def _(grads: Any, outs: Any, ins: Any, attrs: Any, needs: Any) -> Any:
    (g,), (x, y) = grads, ins
    return if_needed(needs[0], lambda: matmul(g, _swapped(conjugated(y)))), if_needed(
        needs[1], lambda: matmul(_swapped(conjugated(x)), g)
    )


@matmul.reference
def _(x: Any, y: Any) -> Any:
    return np.matmul(x, y)


@matmul.samples
def _(s: Any) -> None:
    s.case(s.f32(3, 4), s.f32(4, 5))
    s.case(s.f32(2, 3, 4), s.f32(2, 4, 5))
    s.case(s.f32(33, 65), s.f32(65, 17))
    s.case(s.f32(2, 0), s.f32(0, 3))
    s.case(s.f32(1, 7), s.f32(7, 1))
    s.error(ValueError, "(..., M, K)", s.f32(3, 4), s.f32(3, 4))


@primitive("gather", saves="ins")
def gather(x: Spec, index: Spec, *, axis: int) -> Inferred:
    """Elements of `x` at the positions `index` (1-D) along `axis`."""
    rules.require("gather", index, "ui", "index")
    if index.ndim != 1 or x.ndim == 0:
        raise ShapeError(
            f"gather: expected a 1-D index and x with at least one axis; received {index.shape} and {x.shape}."
        )
    return Inferred((((*x.shape[:axis], *index.shape, *x.shape[axis + 1 :]), x.dtype),))


@gather.vjp
def _(grads: Any, outs: Any, ins: Any, attrs: Any, needs: Any) -> Any:
    return scatter(_zeros_like(ins[0]), ins[1], grads[0], axis=attrs["axis"], mode="add"), None


@gather.reference
def _(x: Any, index: Any, *, axis: Any) -> Any:
    return np.take(x, index, axis=axis)


@gather.samples
def _(s: Any) -> None:
    s.case(s.f32(5, 3), s.i32(7, low=0, high=5), axis=0)
    s.case(s.f32(2, 5, 3), s.i32(4, low=0, high=5), axis=1)
    s.case(s.i32(6), s.i32(0), axis=0)
    s.error(TypeError, "index", s.f32(3), s.f32(2), axis=0)


@primitive("scatter")
def scatter(x: Spec, index: Spec, updates: Spec, *, axis: int, mode: str = "set") -> Inferred:
    """`x` with `updates` put at the positions `index` (1-D) along `axis`.

    ``mode`` is ``"set"`` (the last of duplicates wins), ``"add"``, ``"min"`` or ``"max"``.
    """
    rules.require("scatter", index, "ui", "index")
    if mode not in ("set", "add", "min", "max"):
        raise ValueError(f"scatter: mode must be 'set', 'add', 'min' or 'max'; received {mode!r}.")
    wanted = (*x.shape[:axis], *index.shape, *x.shape[axis + 1 :])
    if index.ndim != 1 or updates.shape != wanted:
        raise ShapeError(
            f"scatter: expected updates of shape {wanted} for x {x.shape} and index {index.shape}; received "
            f"{updates.shape}."
        )
    return Inferred(((x.shape, x.dtype),), (x.dtype, None, x.dtype))


@scatter.vjp
def _(grads: Any, outs: Any, ins: Any, attrs: Any, needs: Any) -> Any:
    (g,), (x, index, updates), axis, mode = grads, ins, attrs["axis"], attrs["mode"]
    if mode == "add":
        return g, None, if_needed(needs[2], lambda: gather(g, index, axis=axis))
    if mode == "set":
        return (
            if_needed(needs[0], lambda: scatter(g, index, _zeros_like(updates), axis=axis)),
            None,
            if_needed(needs[2], lambda: _last_written(g, index, updates, axis)),
        )
    out = outs[0]  # min and max: to whichever operands equal the result, shared equally
    kept = cast(eq(x, out), dtype=g.dtype)
    chosen = cast(eq(updates, gather(out, index, axis=axis)), dtype=g.dtype)
    count = scatter(kept, index, chosen, axis=axis, mode="add")
    share = g / maximum(count, 1)
    return (
        if_needed(needs[0], lambda: share * kept),
        None,
        if_needed(needs[2], lambda: gather(share, index, axis=axis) * chosen),
    )


def _last_written(g: Any, index: Any, updates: Any, axis: int) -> Any:
    """Gradient of the updates of a set: only the last of duplicates was seen."""
    size = index.shape[0]
    order = iota(size=size, dtype=dtypes.int32)
    winners = scatter(
        full(value=-1, shape=(g.shape[axis],), dtype=dtypes.int32), index, order, axis=0, mode="max"
    )
    won = cast(eq(gather(winners, index, axis=0), order), dtype=g.dtype)
    shape = tuple(size if i == axis else 1 for i in range(updates.ndim))
    return gather(g, index, axis=axis) * _reshape(won, shape=shape)


@scatter.reference
def _(x: Any, index: Any, updates: Any, *, axis: Any, mode: Any) -> Any:
    out = np.moveaxis(np.array(x), axis, 0)
    parts = np.moveaxis(np.asarray(updates), axis, 0)
    if mode == "set":
        for i, part in zip(index, parts, strict=True):
            out[i] = part
    else:
        {"add": np.add, "min": np.minimum, "max": np.maximum}[mode].at(out, index, parts)
    return np.moveaxis(out, 0, axis)


@scatter.samples
def _(s: Any) -> None:
    for mode in ("set", "add", "min", "max"):
        s.case(s.f32(5, 3), s.array(np.array([0, 4, 0, 2], "i4")), s.f32(4, 3), axis=0, mode=mode)
    s.case(s.f32(2, 5), s.i32(3, low=0, high=5), s.f32(2, 3), axis=1, mode="add")
    s.case(s.i32(4), s.i32(0), s.i32(0), axis=0, mode="set")
    s.error(ValueError, "updates", s.f32(5, 3), s.i32(2), s.f32(3, 3), axis=0, mode="add")


@primitive("sort", nondiff_outputs={1}, saves="outs")
def sort(x: Spec, *, axis: int = -1, descending: bool = False) -> Inferred:
    """Sorted values along `axis` and the indices they came from; stable, NaN is the greatest."""
    rules.require("sort", x, "buif")
    rules.indexable("sort", x.shape[axis])
    return Inferred(((x.shape, x.dtype), (x.shape, dtypes.int32)))


@sort.vjp
def _(grads: Any, outs: Any, ins: Any, attrs: Any, needs: Any) -> Any:
    return (Handle("put_along_axis")(_zeros_like(ins[0]), outs[1], grads[0], axis=attrs["axis"]),)


@sort.reference
def _(x: Any, *, axis: Any, descending: Any) -> Any:
    flipped = np.flip(x, axis) if descending else x
    order = np.argsort(flipped, axis=axis, kind="stable")
    if descending:
        order = np.flip(x.shape[axis] - 1 - order, axis)
    return np.take_along_axis(x, order, axis), order.astype(np.int32)


@sort.samples
def _(s: Any) -> None:
    s.case(s.f32(3, 7), axis=1)
    s.case(s.i32(9, 2, low=0, high=4), axis=0, descending=True)
    s.case(s.array(np.array([1.0, np.nan, -np.inf, 3.0, 1.0], "f4")), axis=0, grad="none")
    s.case(s.array(np.array([1.0, np.nan, 3.0], "f4")), axis=0, descending=True, grad="none")
    s.case(s.f32(0, 3), axis=0)


@primitive("random_bits", nondiff=True)
def random_bits(state: Spec, *, size: int, relative: int = 0) -> Inferred:
    """`size` random 32-bit words: Philox4x32-10 (Salmon et al. 2011) of the generator `state`.

    ``state`` is uint32[4]: key low, key high, block offset low, block offset high. Word ``4 b + j`` is
    word j of the block
    with counter ``offset + relative + b``.
    """
    if state.dtype is not dtypes.uint32 or state.shape != (4,):
        raise DTypeError(
            f"random_bits: state must be uint32 of shape (4,); received {state.dtype.name} of shape {state.shape}."
        )
    return Inferred((((size,), dtypes.uint32),))


@random_bits.reference
def _(state: Any, *, size: Any, relative: Any) -> Any:
    key = int(state[0]) | int(state[1]) << 32
    offset = int(state[2]) | int(state[3]) << 32
    blocks = -(-size // 4)
    counter = (offset + relative + np.arange(blocks, dtype=np.uint64)) if blocks else np.zeros(0, np.uint64)
    words = [counter & 0xFFFFFFFF, counter >> np.uint64(32), np.zeros_like(counter), np.zeros_like(counter)]
    k0, k1 = key & 0xFFFFFFFF, key >> 32
    mask, half = np.uint64(0xFFFFFFFF), np.uint64(32)
    for _ in range(10):
        p0, p1 = words[0] * np.uint64(0xD2511F53), words[2] * np.uint64(0xCD9E8D57)
        words = [
            (p1 >> half) ^ words[1] ^ np.uint64(k0),
            p1 & mask,
            (p0 >> half) ^ words[3] ^ np.uint64(k1),
            p0 & mask,
        ]
        k0, k1 = (k0 + 0x9E3779B9) & 0xFFFFFFFF, (k1 + 0xBB67AE85) & 0xFFFFFFFF
    return np.stack(words, 1).reshape(-1)[:size].astype(np.uint32)


@random_bits.samples
def _(s: Any) -> None:
    s.case(s.state(), size=37)
    s.case(s.state(), size=4, relative=5)
    s.case(s.state(), size=0)
    s.case(s.array(np.array([1, 2, 0xFFFFFFFF, 0], "u4")), size=9)
