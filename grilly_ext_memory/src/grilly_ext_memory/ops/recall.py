"""Reading a memory of keys and values by similarity, writing it, and putting what was read back into a network."""

from __future__ import annotations

import math
from typing import Any

from grilly_core.dtypes import int32
from grilly_core.errors import ShapeError
from grilly_core.inspection import finfo
from grilly_core.ops.index import put_along_axis, topk
from grilly_core.ops.nn import linear
from grilly_core.ops.nn_activations import sigmoid
from grilly_core.ops.nn_norm import softmax
from grilly_core.ops.primitives import cast, eq, full, gather, iota, matmul, maximum, scatter, sum, where
from grilly_core.ops.structure import concat
from grilly_core.ops.views import broadcast_to, permute_dims, reshape
from grilly_core.opspec import op
from grilly_core.tensor import Tensor

__all__ = ["aggregate", "inject_concat", "inject_gate", "inject_residual", "query_pooling", "read", "write"]

Samples = Any


def _t(x: Tensor) -> Tensor:
    result: Tensor = permute_dims(x, axes=(1, 0))
    return result


def _weights(scores: Tensor, mask: Tensor | None, top_k: int | None) -> Tensor:
    """Return the softmax of scores ``(B, M)`` over what is allowed; a row that allows nothing is 0."""
    allowed, least = mask, finfo(scores.dtype).min
    if allowed is not None:
        scores = where(allowed, scores, least)
    if top_k is not None and top_k < scores.shape[1]:
        chosen = topk(scores, k=top_k)[1]
        nothing = full(shape=tuple(scores.shape), value=0, dtype=int32)
        one = full(shape=tuple(chosen.shape), value=1, dtype=int32)
        best = put_along_axis(nothing, chosen, one, axis=1) > 0
        scores = where(best, scores, least)
        allowed = best if allowed is None else allowed & best
    weights = softmax(scores, axis=-1)
    return weights if allowed is None else where(allowed, weights, 0.0)


@op("memory.read")
def read(
    queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None = None, *, temperature: float = 1.0,
    iterations: int = 1, top_k: int | None = None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Values ``(B, V)`` by ``softmax(q k^T / temperature)``, and those weights ``(B, M)``.

    `queries` ``(B, K)``, `keys` ``(M, K)``, `values` ``(M, V)``, `mask` ``(M,)`` or ``(B, M)``, True where a slot may
    be read. With more `iterations` the query first moves to what it retrieves among the keys (the update of modern
    Hopfield networks with beta = 1 / temperature, Ramsauer et al. 2020). With `top_k` only the best slots count.
    """
    _check_read(queries, keys, values, mask)
    if not 0 < temperature < math.inf:
        raise ValueError(f"memory.read: temperature must be positive and finite; received {temperature!r}.")
    if iterations < 1 or (top_k is not None and top_k < 1):
        raise ValueError(
            f"memory.read: iterations and top_k are at least 1; received {iterations} and {top_k}."
        )
    b, m = queries.shape[0], keys.shape[0]
    rows = mask if mask is None or mask.ndim == 2 else reshape(mask, shape=(1, m))
    allowed = None if rows is None else broadcast_to(rows, shape=(b, m))
    turned, scale = _t(keys), 1.0 / temperature
    weights = _weights(matmul(queries, turned) * scale, allowed, top_k)
    for _ in range(iterations - 1):
        weights = _weights(matmul(matmul(weights, keys), turned) * scale, allowed, top_k)
    return matmul(weights, values), weights


def _check_read(queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None) -> None:
    if (
        queries.ndim != 2
        or keys.ndim != 2
        or values.ndim != 2
        or queries.shape[1] != keys.shape[1]
        or keys.shape[0] != values.shape[0]
        or keys.shape[0] < 1
    ):
        raise ShapeError(
            f"memory.read: expected queries (B, K), keys (M, K) and values (M, V) with at least one slot; received "
            f"{tuple(queries.shape)}, {tuple(keys.shape)} and {tuple(values.shape)}."
        )
    m = keys.shape[0]
    if mask is not None and tuple(mask.shape) not in ((m,), (queries.shape[0], m)):
        raise ShapeError(
            f"memory.read: the mask must be {(m,)} or {(queries.shape[0], m)}; received {tuple(mask.shape)}."
        )


@read.samples
def _(s: Samples) -> None:
    q, k, v = s.f32(3, 4), s.f32(5, 4), s.f32(5, 2)
    s.case(q, k, v, None, temperature=2.0)
    s.case(q, k, v, s.array([True, False, True, True, False]), temperature=4.0, iterations=3, tol=2e-5)
    s.case(q, k, v, s.bool(3, 5), top_k=2)
    s.case(q, k, v, s.array([[False] * 5] * 3))
    s.case(s.f32(0, 4), k, v, None)
    s.error(ShapeError, "queries", s.f32(3, 5), k, v)
    s.error(ShapeError, "mask", q, k, v, s.bool(4))
    s.error(ValueError, "iterations", q, k, v, iterations=0)
    s.error(ValueError, "temperature", q, k, v, temperature=0.0)


@op("memory.write")
def write(
    keys: Tensor,
    values: Tensor,
    new_keys: Tensor,
    new_values: Tensor,
    index: Tensor,
    *,
    blend: float | None = None,
) -> tuple[Tensor, Tensor]:
    """Put rows into a memory at the slots `index` ``(N,)``: over the old ones, or ``(1 - blend) old + blend new``.

    Of rows for one slot the last one counts.
    """
    n = index.shape[0] if index.ndim == 1 else -1
    if tuple(new_keys.shape) != (n, keys.shape[1]) or tuple(new_values.shape) != (n, values.shape[1]):
        raise ShapeError(
            f"memory.write: expected new keys (N, {keys.shape[1]}), new values (N, {values.shape[1]}) and slots (N,); "
            f"received {tuple(new_keys.shape)}, {tuple(new_values.shape)} and {tuple(index.shape)}."
        )
    made = []
    for old, new in ((keys, new_keys), (values, new_values)):
        rows = new if blend is None else (1.0 - blend) * gather(old, index, axis=0) + blend * new
        made.append(scatter(old, index, rows, axis=0, mode="set"))
    return made[0], made[1]


@write.samples
def _(s: Samples) -> None:
    k, v, index = s.f32(6, 3), s.f32(6, 2), s.array([4, 0, 4]).astype("int32")
    s.case(k, v, s.f32(3, 3), s.f32(3, 2), index)
    s.case(k, v, s.f32(3, 3), s.f32(3, 2), index, blend=0.25)
    s.error(ShapeError, "slots", k, v, s.f32(2, 3), s.f32(3, 2), index)


@op("memory.aggregate")
def aggregate(contexts: Tensor, scores: Tensor | None = None, mask: Tensor | None = None) -> Tensor:
    """One context ``(B, D)`` of many ``(B, M, D)``: their mean, or weighted by the softmax of `scores` ``(B, M)``.

    Only where `mask` ``(B, M)`` is True; a row without any gives 0.
    """
    shape = tuple(contexts.shape[:2])
    if contexts.ndim != 3 or any(x is not None and tuple(x.shape) != shape for x in (scores, mask)):
        raise ShapeError(
            f"memory.aggregate: expected contexts (B, M, D), scores and mask (B, M); received "
            f"{tuple(contexts.shape)}, {[tuple(x.shape) for x in (scores, mask) if x is not None]}."
        )
    b, m = shape
    if scores is not None:
        weights = _weights(scores, mask, None)
    elif mask is None:
        return sum(contexts, axis=1) / float(m)
    else:
        kept = cast(mask, dtype=contexts.dtype)
        weights = kept / maximum(sum(kept, axis=1, keepdims=True), 1.0)
    return sum(reshape(weights, shape=(b, m, 1)) * contexts, axis=1)


@aggregate.samples
def _(s: Samples) -> None:
    x = s.f32(2, 3, 4)
    s.case(x, None, None)
    s.case(x, s.f32(2, 3), None)
    s.case(x, s.f32(2, 3), s.array([[True, False, True], [False] * 3]))
    s.case(x, None, s.array([[True, False, True], [False] * 3]))
    s.error(ShapeError, "contexts", x, s.f32(2, 4))


@op("memory.query_pooling")
def query_pooling(
    x: Tensor, weight: Tensor, bias: Tensor | None = None, mask: Tensor | None = None
) -> Tensor:
    """A query ``(B, O)`` of a sequence ``(B, S, I)``: the mean over the steps where `mask` is True, then linear."""
    if x.ndim != 3 or weight.ndim != 2 or weight.shape[1] != x.shape[2]:
        raise ShapeError(
            f"memory.query_pooling: expected x (B, S, I) and a weight (O, I); received {tuple(x.shape)} and "
            f"{tuple(weight.shape)}."
        )
    return linear(aggregate(x, None, mask), weight, bias)


@query_pooling.samples
def _(s: Samples) -> None:
    x = s.f32(2, 3, 4)
    s.case(x, s.f32(5, 4), None, None)
    s.case(x, s.f32(5, 4), s.f32(5), s.array([[True, False, True], [True] * 3]))
    s.error(ShapeError, "weight", x, s.f32(4, 5))


def _spread(name: str, x: Tensor, memory: Tensor) -> Tensor:
    """Return the context ``(B, D)`` with the shape of x, ``(B, D)`` or ``(B, S, D)``."""
    if x.ndim not in (2, 3) or tuple(memory.shape) != (x.shape[0], x.shape[-1]):
        raise ShapeError(
            f"{name}: expected x (B, D) or (B, S, D) and a context (B, D); received {tuple(x.shape)} and "
            f"{tuple(memory.shape)}."
        )
    if x.ndim == 2:
        return memory
    b, s, d = x.shape
    return broadcast_to(reshape(memory, shape=(b, 1, d)), shape=(b, s, d))


@op("memory.inject_concat")
def inject_concat(x: Tensor, memory: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """``[x; memory] W^T + b`` with W ``(D, 2 D)``."""
    both = concat([x, _spread("memory.inject_concat", x, memory)], axis=-1)
    return linear(both, weight, bias)


@inject_concat.samples
def _(s: Samples) -> None:
    s.case(s.f32(2, 3, 4), s.f32(2, 4), s.f32(4, 8), s.f32(4))
    s.case(s.f32(2, 4), s.f32(2, 4), s.f32(4, 8), None)
    s.error(ShapeError, "context", s.f32(2, 3, 4), s.f32(3, 4), s.f32(4, 8))


@op("memory.inject_gate")
def inject_gate(
    x: Tensor, memory: Tensor, gate_weight: Tensor, gate_bias: Tensor, projection: Tensor, *, mode: str = "blend",
    gate_input: str = "mem",
) -> Tensor:  # fmt: skip
    """A gate decides how much of the projected memory ``p = memory W_p^T`` comes in.

    ``g = sigmoid([x; memory] W_g^T + b_g)``, or of ``[x; p]`` with `gate_input` "proj". ``"blend"``:
    ``(1 - g) x + g p``; ``"additive"``: ``x + g p``.
    """
    if mode not in ("blend", "additive") or gate_input not in ("mem", "proj"):
        raise ValueError(
            f"memory.inject_gate: mode is 'blend' or 'additive' and gate_input 'mem' or 'proj'; received {mode!r} and "
            f"{gate_input!r}."
        )
    spread = _spread("memory.inject_gate", x, memory)
    p = linear(spread, projection, None)
    gate = sigmoid(linear(concat([x, spread if gate_input == "mem" else p], axis=-1), gate_weight, gate_bias))
    return (1.0 - gate) * x + gate * p if mode == "blend" else x + gate * p


@inject_gate.samples
def _(s: Samples) -> None:
    x, mem, rest = s.f32(2, 3, 4), s.f32(2, 4), (s.f32(4, 8), s.f32(4), s.f32(4, 4))
    s.case(x, mem, *rest)
    s.case(x, mem, *rest, mode="additive", gate_input="proj")
    s.error(ValueError, "mode", x, mem, *rest, mode="replace")
    s.error(ShapeError, "context", x, s.f32(2, 3), *rest)


@op("memory.inject_residual")
def inject_residual(
    x: Tensor, memory: Tensor, projection: Tensor, bias: Tensor | None = None, *, strength: float = 1.0,
    where_to: str = "all",
) -> Tensor:  # fmt: skip
    """``x + strength (memory W^T + b)`` at all steps, or at the first or last one only."""
    if where_to not in ("all", "first", "last"):
        raise ValueError(f"memory.inject_residual: where is 'all', 'first' or 'last'; received {where_to!r}.")
    added = linear(_spread("memory.inject_residual", x, memory), projection, bias) * strength
    if where_to == "all" or x.ndim == 2:
        return x + added
    s = x.shape[1]
    at = 0 if where_to == "first" else s - 1
    return x + where(_step(s, at), added, 0.0)


def _step(count: int, at: int) -> Tensor:
    result: Tensor = reshape(eq(iota(size=count, start=0, step=1, dtype=int32), at), shape=(1, count, 1))
    return result


@inject_residual.samples
def _(s: Samples) -> None:
    x, mem = s.f32(2, 3, 4), s.f32(2, 4)
    s.case(x, mem, s.f32(4, 4), s.f32(4), strength=0.5)
    s.case(x, mem, s.f32(4, 4), None, where_to="last")
    s.case(x, mem, s.f32(4, 4), None, where_to="first")
    s.case(s.f32(2, 4), mem, s.f32(4, 4), None, where_to="first")
    s.error(ValueError, "where", x, mem, s.f32(4, 4), where_to="middle")
