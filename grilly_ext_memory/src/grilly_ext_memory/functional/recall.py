"""Reading and writing a memory, and putting what was read back into a network."""

from __future__ import annotations

import math
from typing import Any

import grilly_core as grilly
from grilly_core.apply import as_tensor
from grilly_core.tensor import Tensor
from grilly_ext_memory.ops import recall as ops

__all__ = [
    "memory_context_aggregate", "memory_inject_concat", "memory_inject_gate", "memory_inject_residual",
    "memory_query_pooling", "memory_read", "memory_write",
]  # fmt: skip


def _tensor(value: Any, like: Tensor | None = None) -> Tensor:
    return value if isinstance(value, Tensor) else as_tensor(value, like)


def _optional(value: Any, like: Tensor) -> Tensor | None:
    return None if value is None else _tensor(value, like)


def memory_read(
    queries: Any,
    memory_keys: Any,
    memory_values: Any,
    temperature: float | None = None,
    *,
    mask: Any = None,
    top_k: int | None = None,
    iterations: int = 1,
    return_weights: bool = False,
) -> Any:
    """Values by similarity of keys: ``softmax(q k^T / T) V``, the update of modern Hopfield networks.

    Parameters
    ----------
    queries : array_like, (K,) or (B, K)
    memory_keys : array_like, (M, K)
    memory_values : array_like, (M, V)
    temperature : float, optional
        ``sqrt(K)`` without it; ``1 / beta`` of Ramsauer et al. (2020).
    mask : array_like of bool, (M,) or (B, M), optional
        True where a slot may be read; a query that may read none gets 0.
    top_k : int, optional
        Only the best slots count; of slots as good, the first ones.
    iterations : int
        Before reading, move the query this often less one to what it retrieves among the keys.
    return_weights : bool

    Returns
    -------
    values : Tensor, (V,) or (B, V)
    weights : Tensor, (M,) or (B, M)
        With `return_weights`.

    Examples
    --------
    >>> from grilly_ext_memory.functional.recall import memory_read
    >>> memory_read([9.0, 0.0], [[9.0, 0.0], [0.0, 9.0]], [[1.0], [2.0]]).tolist()
    [1.0]
    """
    keys = _tensor(memory_keys)
    q = _tensor(queries, keys)
    single = q.ndim == 1
    if temperature is not None and not 0 < temperature < math.inf:
        raise ValueError(f"memory_read: temperature must be positive and finite; received {temperature!r}.")
    scale = math.sqrt(max(keys.shape[-1], 1)) if temperature is None else float(temperature)
    values, weights = ops.read(
        q.unsqueeze(0) if single else q, keys, _tensor(memory_values, keys), _optional(mask, keys), temperature=scale,
        iterations=iterations, top_k=top_k,
    )  # fmt: skip
    if single:
        values, weights = values.squeeze(0), weights.squeeze(0)
    return (values, weights) if return_weights else values


def memory_write(
    new_key: Any,
    new_value: Any,
    memory_keys: Any,
    memory_values: Any,
    write_index: Any,
    write_mode: int | str = 0,
    blend_factor: float = 0.5,
) -> tuple[Tensor, Tensor]:
    """Memory with rows written; what was given is unchanged.

    Parameters
    ----------
    new_key : array_like, (K,) or (N, K)
    new_value : array_like, (V,) or (N, V)
    memory_keys : array_like, (M, K)
    memory_values : array_like, (M, V)
    write_index : int or array_like of int, (N,)
        Of rows for one slot the last one counts.
    write_mode : {0, "overwrite", 1, "blend"}
        1: ``(1 - blend_factor) old + blend_factor new``.
    blend_factor : float

    Raises
    ------
    IndexError
        If a slot does not exist.

    Examples
    --------
    >>> from grilly_ext_memory.functional.recall import memory_write
    >>> memory_write([1.0], [2.0], [[0.0], [0.0]], [[0.0], [0.0]], 1)[1].tolist()
    [[0.0], [2.0]]
    """
    if write_mode not in (0, 1, "overwrite", "blend"):
        raise ValueError(
            f"memory_write: write_mode is 0 ('overwrite') or 1 ('blend'); received {write_mode!r}."
        )
    keys = _tensor(memory_keys)
    values, k, v = _tensor(memory_values, keys), _tensor(new_key, keys), _tensor(new_value, keys)
    index = grilly.asarray(write_index, dtype="int32", device=keys.device).reshape(-1)
    count, slots = index.shape[0], keys.shape[0]
    if count and not bool(((index >= 0) & (index < slots)).all().item()):
        raise IndexError(f"memory_write: slots are 0 to {slots - 1}; received {index.tolist()[:5]}.")
    rows = [x.reshape(1, -1) if x.ndim == 1 else x for x in (k, v)]
    blend = float(blend_factor) if write_mode in (1, "blend") else None
    made: tuple[Tensor, Tensor] = ops.write(keys, values, *rows, index, blend=blend)
    return made


def memory_context_aggregate(memory_contexts: Any, scores: Any = None, mask: Any = None) -> Tensor:
    """One context of many: their mean, or their mean weighted by the softmax of scores.

    Parameters
    ----------
    memory_contexts : array_like, (B, M, D)
    scores : array_like, (B, M), optional
    mask : array_like of bool, (B, M), optional
        True where a context counts; a row without any gives 0.

    Returns
    -------
    Tensor, (B, D)

    Examples
    --------
    >>> from grilly_ext_memory.functional.recall import memory_context_aggregate
    >>> memory_context_aggregate([[[1.0], [3.0]]]).tolist()
    [[2.0]]
    """
    x = _tensor(memory_contexts)
    return ops.aggregate(x, _optional(scores, x), _optional(mask, x))


def memory_query_pooling(x: Any, weight: Any, bias: Any = None, mask: Any = None) -> Tensor:
    """A query of a sequence: the mean over its steps, then linear.

    Parameters
    ----------
    x : array_like, (B, S, I)
    weight : array_like, (O, I)
    bias : array_like, (O,), optional
    mask : array_like of bool, (B, S), optional

    Examples
    --------
    >>> from grilly_ext_memory.functional.recall import memory_query_pooling
    >>> memory_query_pooling([[[1.0], [3.0]]], [[10.0]]).tolist()
    [[20.0]]
    """
    made = _tensor(x)
    return ops.query_pooling(made, _tensor(weight, made), _optional(bias, made), _optional(mask, made))


def memory_inject_concat(x: Any, memory_context: Any, proj_weight: Any, proj_bias: Any = None) -> Tensor:
    """``[x; memory] W^T + b``.

    Parameters
    ----------
    x : array_like, (B, D) or (B, S, D)
    memory_context : array_like, (B, D)
        The same for every step.
    proj_weight : array_like, (D, 2 D)
    proj_bias : array_like, (D,), optional

    Examples
    --------
    >>> from grilly_ext_memory.functional.recall import memory_inject_concat
    >>> memory_inject_concat([[1.0]], [[2.0]], [[1.0, 10.0]]).tolist()
    [[21.0]]
    """
    made = _tensor(x)
    return ops.inject_concat(
        made, _tensor(memory_context, made), _tensor(proj_weight, made), _optional(proj_bias, made)
    )


def memory_inject_gate(
    x: Any,
    memory_context: Any,
    W_gate: Any,
    b_gate: Any,
    W_mem_proj: Any,
    *,
    mode: str = "blend",
    gate_input: str = "mem",
) -> Tensor:
    """Let a gate decide how much memory comes in: ``p = memory W_p^T``, ``g = sigmoid([x; memory] W_g^T + b_g)``.

    Parameters
    ----------
    x : array_like, (B, D) or (B, S, D)
    memory_context : array_like, (B, D)
    W_gate : array_like, (D, 2 D)
    b_gate : array_like, (D,)
    W_mem_proj : array_like, (D, D)
    mode : {"blend", "additive"}
        ``(1 - g) x + g p`` or ``x + g p``.
    gate_input : {"mem", "proj"}
        Whether the gate sees the memory or its projection.

    Examples
    --------
    >>> from grilly_ext_memory.functional.recall import memory_inject_gate
    >>> memory_inject_gate([[1.0]], [[3.0]], [[0.0, 0.0]], [0.0], [[1.0]]).tolist()
    [[2.0]]
    """
    made = _tensor(x)
    rest = [_tensor(value, made) for value in (memory_context, W_gate, b_gate, W_mem_proj)]
    return ops.inject_gate(made, *rest, mode=mode, gate_input=gate_input)


def memory_inject_residual(
    x: Any,
    memory_context: Any,
    mem_proj_weight: Any,
    mem_proj_bias: Any = None,
    *,
    strength: float = 1.0,
    where: str = "all",
) -> Tensor:
    """``x + strength (memory W^T + b)``.

    Parameters
    ----------
    x : array_like, (B, D) or (B, S, D)
    memory_context : array_like, (B, D)
    mem_proj_weight : array_like, (D, D)
    mem_proj_bias : array_like, (D,), optional
    strength : float
    where : {"all", "first", "last"}
        Which steps of a sequence get it.

    Examples
    --------
    >>> from grilly_ext_memory.functional.recall import memory_inject_residual
    >>> memory_inject_residual([[1.0]], [[2.0]], [[1.0]], strength=0.5).tolist()
    [[2.0]]
    """
    made = _tensor(x)
    if not math.isfinite(strength):
        raise ValueError(f"memory_inject_residual: strength must be finite; received {strength!r}.")
    return ops.inject_residual(
        made, _tensor(memory_context, made), _tensor(mem_proj_weight, made), _optional(mem_proj_bias, made),
        strength=float(strength), where_to=where,
    )  # fmt: skip
