"""Scaled dot-product attention, with a fused gradient that is an op of its own.

Tensors are ``(batch, heads, positions, width)``. With fewer heads of keys than of queries, each head of keys serves a
group of neighbouring heads of queries.
"""

from __future__ import annotations

import math
from typing import Any

from grilly_core.dtypes import DType, float32, float64, int32, uint32
from grilly_core.errors import DTypeError, ShapeError
from grilly_core.ops._typing import Attrs, Needs, Samples, Tensors
from grilly_core.ops.primitives import (
    bitwise_and,
    cast,
    eq,
    exp,
    full,
    iota,
    log,
    lt,
    matmul,
    max,
    random_bits,
    sum,
    where,
)
from grilly_core.ops.views import permute_dims, reshape, subview, sum_to
from grilly_core.opspec import op
from grilly_core.tensor import Tensor

__all__ = ["attention", "attention_mask_vjp", "attention_vjp"]

_INF = math.inf
_CAUSAL = (None, "upper_left", "lower_right")


@op("nn.attention", hidden=1, autocast="lower")
def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None = None,
    lengths: Tensor | None = None,
    state: Tensor | None = None,
    *,
    scale: float | None = None,
    causal: str | None = None,
    dropout: float = 0.0,
    relative: int = 0,
) -> tuple[Tensor, Tensor]:
    """Return ``dropout(softmax(scale * q @ k^T + mask)) @ v``.

    `q` is ``(B, H, L, E)``, `k` ``(B, G, S, E)`` and `v` ``(B, G, S, F)``, where G divides H. A query that sees no key
    gives zeros. Half types are computed in float32.

    The mask is boolean (True keeps) or floating (added), of four axes that broadcast to ``(B, H, L, S)``. Keys from
    ``lengths[b]`` on do not exist, whatever lies there. Query i sees keys up to i with ``causal="upper_left"``; with
    ``"lower_right"`` the last query sees all keys, as the queries of a cache do. `scale` is ``1 / sqrt(E)`` by default.
    Probability ``(b, h, i, j)`` is dropped if word j of the row is below ``floor(dropout * 2**32)``; rows take a
    multiple of four words from the generator `state`, one after the other.

    The hidden output is the logarithm of the sum of the exponentials, ``(B, H, L)``, and ``inf`` for a query that sees
    no key: then ``exp(score - it)`` is 0 in every case.
    """
    _check(q, k, v, mask, lengths, state, causal, dropout)
    kind = q.dtype
    q, k, v = _wide(q), _wide(_existing(k, lengths)), _wide(_existing(v, lengths))
    rows = tuple(q.shape[:3])
    if k.shape[2] == 0:
        zeros = full(value=0.0, shape=(*rows, v.shape[3]), dtype=kind)
        return zeros, full(value=_INF, shape=rows, dtype=q.dtype)
    scores = _scores(q, k, mask, lengths, scale, causal)
    top = max(scores, axis=-1, keepdims=True)
    top = where(eq(top, -_INF), 0.0, top)
    powers = exp(scores - top)
    total = sum(powers, axis=-1, keepdims=True)
    blind = eq(total, 0.0)
    total = where(blind, 1.0, total)
    weights = _dropped(powers / total, state, dropout, relative)
    log_sum = where(blind, _INF, top + log(total))
    out = _by_heads(matmul(_by_groups(weights, k), v), q)
    return cast(out, dtype=kind), reshape(log_sum, shape=rows)


@attention.vjp
def _(grads: Tensors, outs: Tensors, ins: Tensors, attrs: Attrs, needs: Needs) -> Tensors:
    q, k, v, mask, lengths, state = ins
    given = (grads[0], q, k, v, outs[0], outs[1], mask, lengths, state)
    found: tuple[Any, ...] = (None, None, None)
    if any(needs[:3]):
        found = attention_vjp(*given, **attrs)
    gmask = attention_mask_vjp(*given, **attrs) if mask is not None and needs[3] else None
    return (*found, gmask, None, None)


@op("nn.attention_vjp", internal=True)
def attention_vjp(
    g: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    out: Tensor,
    log_sum: Tensor,
    mask: Tensor | None = None,
    lengths: Tensor | None = None,
    state: Tensor | None = None,
    *,
    scale: float | None = None,
    causal: str | None = None,
    dropout: float = 0.0,
    relative: int = 0,
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of `attention` for q, k and v, from its output and hidden output."""
    kind = q.dtype
    g, q, k, v, out = (_wide(t) for t in (g, q, _existing(k, lengths), _existing(v, lengths), out))
    if k.shape[2] == 0:
        return tuple(full(value=0.0, shape=tuple(t.shape), dtype=kind) for t in (q, k, v))  # type: ignore[return-value]
    weights, gscores = _gradients(
        g, q, k, v, out, log_sum, mask, lengths, state, scale, causal, dropout, relative
    )
    by_group, factor = _by_groups(gscores, k), _factor(q, scale)
    gq = _by_heads(matmul(by_group, k), q) * factor
    gk = matmul(_turned(by_group), _by_groups(q, k)) * factor
    gv = matmul(_turned(_by_groups(weights, k)), _by_groups(g, k))
    return cast(gq, dtype=kind), cast(gk, dtype=kind), cast(gv, dtype=kind)


@op("nn.attention_mask_vjp", internal=True)
def attention_mask_vjp(
    g: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    out: Tensor,
    log_sum: Tensor,
    mask: Tensor,
    lengths: Tensor | None = None,
    state: Tensor | None = None,
    *,
    scale: float | None = None,
    causal: str | None = None,
    dropout: float = 0.0,
    relative: int = 0,
) -> Tensor:
    """Gradient of `attention` for a floating mask, which has the size of the scores anyway."""
    g, q, k, v, out = (_wide(t) for t in (g, q, _existing(k, lengths), _existing(v, lengths), out))
    if k.shape[2] == 0:
        return full(value=0.0, shape=tuple(mask.shape), dtype=mask.dtype)
    _, gscores = _gradients(g, q, k, v, out, log_sum, mask, lengths, state, scale, causal, dropout, relative)
    return cast(sum_to(gscores, shape=tuple(mask.shape)), dtype=mask.dtype)


def _gradients(
    g: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    out: Tensor,
    log_sum: Tensor,
    mask: Tensor | None,
    lengths: Tensor | None,
    state: Tensor | None,
    scale: float | None,
    causal: str | None,
    dropout: float,
    relative: int,
) -> tuple[Tensor, Tensor]:
    """Return the weights after dropout, and the gradient of the scores."""
    scores = _scores(q, k, mask, lengths, scale, causal)
    weights = exp(scores - reshape(log_sum, shape=(*log_sum.shape, 1)))
    gweights = _by_heads(matmul(_by_groups(g, k), _turned(v)), q)
    gweights = _dropped(gweights, state, dropout, relative)
    along = sum(g * out, axis=-1, keepdims=True)
    return _dropped(weights, state, dropout, relative), weights * (gweights - along)


def _scores(
    q: Tensor,
    k: Tensor,
    mask: Tensor | None,
    lengths: Tensor | None,
    scale: float | None,
    causal: str | None,
) -> Tensor:
    """Return the scaled products plus mask, ``-inf`` where a query does not see a key."""
    scores = _by_heads(matmul(_by_groups(q, k), _turned(k)), q) * _factor(q, scale)
    seen = _seen(q.shape[2], k.shape[2], lengths, causal)
    if mask is not None and mask.dtype.is_floating:
        scores = scores + cast(mask, dtype=q.dtype)
    elif mask is not None:
        seen = mask if seen is None else bitwise_and(seen, mask)
    return scores if seen is None else where(seen, scores, -_INF)


def _seen(queries: int, keys: int, lengths: Tensor | None, causal: str | None) -> Tensor | None:
    """Return which keys are seen by position, or None for all."""
    key = reshape(iota(size=keys, dtype=int32), shape=(1, 1, 1, keys))
    end = None if lengths is None else _per_batch(lengths)
    exists = None if end is None else lt(key, end)
    if causal is None:
        return exists
    query = reshape(iota(size=queries, dtype=int32), shape=(1, 1, queries, 1))
    if causal == "lower_right":
        query = query + ((keys if end is None else end) - queries)
    before: Tensor = key <= query
    return before if exists is None else bitwise_and(before, exists)


def _existing(x: Tensor, lengths: Tensor | None) -> Tensor:
    """Return keys or values with zeros beyond the lengths: what lies there may be NaN."""
    if lengths is None:
        return x
    key = reshape(iota(size=x.shape[2], dtype=int32), shape=(1, 1, x.shape[2], 1))
    return where(lt(key, _per_batch(lengths)), x, 0.0)


def _per_batch(lengths: Tensor) -> Tensor:
    return reshape(cast(lengths, dtype=int32), shape=(lengths.shape[0], 1, 1, 1))


def _dropped(x: Tensor, state: Tensor | None, p: float, relative: int) -> Tensor:
    if p == 0 or state is None:
        return x
    if p == 1:
        return where(False, x, 0.0)
    rows, keys = math.prod(x.shape[:3]), x.shape[3]
    padded = -(-keys // 4) * 4
    words = reshape(random_bits(state, size=rows * padded, relative=relative), shape=(*x.shape[:3], padded))
    words = subview(words, starts=(0, 0, 0, 0), sizes=tuple(x.shape), steps=(1, 1, 1, 1))
    limit = full(value=math.floor(p * 2.0**32), shape=(), dtype=uint32)
    return where(lt(words, limit), 0.0, x * (1.0 / (1.0 - p)))


def _by_groups(x: Tensor, k: Tensor) -> Tensor:
    """Put the queries that share a head of keys one after the other: (B, H, L, X) as (B, G, H / G * L, X)."""
    groups = k.shape[1]
    if groups == x.shape[1]:
        return x
    return reshape(x, shape=(x.shape[0], groups, x.shape[1] // groups * x.shape[2], x.shape[3]))


def _by_heads(x: Tensor, q: Tensor) -> Tensor:
    return x if x.shape[1] == q.shape[1] else reshape(x, shape=(*q.shape[:3], x.shape[3]))


def _turned(x: Tensor) -> Tensor:
    return permute_dims(x, axes=(0, 1, 3, 2))


def _wide(x: Tensor) -> Tensor:
    kind: DType = float64 if x.dtype is float64 else float32
    return x if x.dtype is kind else cast(x, dtype=kind)


def _factor(q: Tensor, scale: float | None) -> float:
    return 1.0 / math.sqrt(q.shape[3]) if scale is None and q.shape[3] else 1.0 if scale is None else scale


def _check(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None,
    lengths: Tensor | None,
    state: Tensor | None,
    causal: str | None,
    dropout: float,
) -> None:
    _check_operands(q, k, v)
    if mask is not None:
        _check_mask(mask, (*q.shape[:3], k.shape[2]))
    if lengths is not None:
        if not lengths.dtype.is_integer:
            raise DTypeError(f"attention: lengths must be integers; received {lengths.dtype.name}.")
        if tuple(lengths.shape) != (q.shape[0],):
            raise ShapeError(
                f"attention: lengths must have shape ({q.shape[0]},), one for each element of the batch; received "
                f"{tuple(lengths.shape)}."
            )
    if causal not in _CAUSAL:
        raise ValueError(
            f"attention: causal must be 'upper_left', 'lower_right' or None; received {causal!r}."
        )
    if not 0 <= dropout <= 1:
        raise ValueError(f"attention: dropout must lie in [0, 1]; received {dropout}.")
    if dropout and state is None:
        raise TypeError("attention: dropout needs the state of a generator.")


def _check_operands(q: Tensor, k: Tensor, v: Tensor) -> None:
    shapes = f"received q {tuple(q.shape)}, k {tuple(k.shape)} and v {tuple(v.shape)}."
    if not q.ndim == k.ndim == v.ndim == 4:
        raise ShapeError(f"attention: q, k and v must be (batch, heads, positions, width); {shapes}")
    if not q.dtype.is_floating or len({q.dtype, k.dtype, v.dtype}) > 1:
        raise DTypeError(
            f"attention: q, k and v must be of one floating type; received {q.dtype.name}, {k.dtype.name} and "
            f"{v.dtype.name}."
        )
    if not q.shape[0] == k.shape[0] == v.shape[0]:
        raise ShapeError(f"attention: q, k and v must have the same batch; {shapes}")
    if q.shape[3] != k.shape[3]:
        raise ShapeError(f"attention: q and k must have the same width; {shapes}")
    if k.shape[2] != v.shape[2]:
        raise ShapeError(f"attention: k and v must have the same number of positions; {shapes}")
    if k.shape[1] != v.shape[1] or k.shape[1] == 0 or q.shape[1] % k.shape[1]:
        raise ShapeError(
            f"attention: k and v must have the same heads, whose number divides that of q; {shapes}"
        )


def _check_mask(mask: Tensor, scores: tuple[int, ...]) -> None:
    if not (mask.dtype.is_floating or mask.dtype.kind == "b"):
        raise DTypeError(
            f"attention: the mask must be boolean (True keeps) or floating (added); received {mask.dtype.name}."
        )
    if mask.ndim != 4 or any(m not in (1, n) for m, n in zip(mask.shape, scores, strict=True)):
        raise ShapeError(
            f"attention: the mask must have four axes that broadcast to the scores {scores}; received "
            f"{tuple(mask.shape)}."
        )


@attention.samples
def _(s: Samples) -> None:
    def qkv(b: int, h: int, g: int, m: int, n: int, e: int, f: int) -> list[Any]:
        return [s.f32(b, h, m, e), s.f32(b, g, n, e), s.f32(b, g, n, f)]

    s.case(*qkv(1, 2, 2, 3, 5, 4, 4))
    s.case(*qkv(2, 1, 1, 4, 3, 3, 5), causal="upper_left", scale=0.7)
    s.case(*qkv(1, 4, 2, 2, 5, 4, 4), causal="lower_right")
    s.case(*qkv(2, 2, 1, 3, 4, 4, 4), s.f32(2, 1, 3, 4))
    s.case(*qkv(1, 2, 2, 3, 6, 2, 2), s.array([[[[True] * 5 + [False]], [[False, True] * 3]]]))
    s.case(*qkv(2, 1, 1, 3, 5, 4, 4), s.array([[[[True], [False], [True]]]]), s.array([3, 5]))
    s.case(*qkv(2, 2, 1, 2, 5, 4, 4), None, s.array([0, 4]), causal="lower_right")
    s.case(*qkv(1, 2, 2, 3, 5, 4, 4), None, None, s.state(), dropout=0.4, relative=3)
    s.case(*qkv(1, 1, 1, 2, 3, 4, 4), None, None, s.state(), dropout=1.0)
    s.case(*qkv(2, 4, 1, 1, 70, 8, 8), None, s.array([40, 70]))
    s.case(*qkv(1, 1, 1, 70, 90, 40, 24), causal="upper_left")
    s.case(*qkv(1, 1, 1, 2, 0, 4, 4))
    s.error(ShapeError, "batch, heads", s.f32(3, 4), s.f32(5, 4), s.f32(5, 4))
    s.error(ShapeError, "heads", *qkv(1, 3, 2, 3, 5, 4, 4))
    s.error(ShapeError, "same width", s.f32(1, 1, 3, 4), s.f32(1, 1, 5, 3), s.f32(1, 1, 5, 4))
    s.error(ShapeError, "same batch", s.f32(2, 1, 3, 4), s.f32(1, 1, 5, 4), s.f32(1, 1, 5, 4))
    s.error(ShapeError, "positions", s.f32(1, 1, 3, 4), s.f32(1, 1, 5, 4), s.f32(1, 1, 4, 4))
    s.error(ShapeError, "broadcast", *qkv(1, 1, 1, 3, 5, 4, 4), s.f32(1, 1, 2, 5))
    s.error(TypeError, "boolean", *qkv(1, 1, 1, 3, 5, 4, 4), s.i32(1, 1, 3, 5))
    s.error(ValueError, "causal", *qkv(1, 1, 1, 3, 5, 4, 4), causal="left")
    s.error(ValueError, "dropout", *qkv(1, 1, 1, 3, 5, 4, 4), None, None, s.state(), dropout=1.5)
    s.error(ShapeError, "lengths", *qkv(2, 1, 1, 3, 5, 4, 4), None, s.array([3]))


def _gradient_cases(s: Samples, masked: bool) -> None:
    def case(
        b: int, h: int, n: int, *rest: Any, size: tuple[int, int, int] = (3, 5, 4), **attrs: Any
    ) -> None:
        m, keys, e = size
        g, q, out = (s.f32(b, h, m, e) for _ in range(3))
        k, v = (s.f32(b, n, keys, e) for _ in range(2))
        s.case(g, q, k, v, out, s.f32(b, h, m, low=1.0, high=4.0), *rest, **attrs)

    bias = s.f32(1, 2, 3, 5)
    case(1, 2, 1, bias, causal="upper_left")
    case(1, 2, 2, bias, None, s.state(), dropout=0.4, relative=3)
    case(2, 2, 1, s.f32(2, 1, 1, 5), s.array([2, 5]), causal="lower_right", scale=0.5)
    if not masked:
        case(2, 2, 2)
        case(1, 2, 1, s.bool(1, 1, 3, 5))
        case(1, 2, 1, None, None, s.state(), size=(70, 90, 40), causal="upper_left", dropout=0.25)


@attention_vjp.samples
def _(s: Samples) -> None:
    _gradient_cases(s, masked=False)


@attention_mask_vjp.samples
def _(s: Samples) -> None:
    _gradient_cases(s, masked=True)
