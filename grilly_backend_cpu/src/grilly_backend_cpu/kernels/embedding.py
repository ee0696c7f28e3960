"""``nn.embedding``: rows of a table, and the gradient that adds them up."""

from __future__ import annotations

from typing import Any

import numpy as np

from grilly_backend_cpu.fast import scatter as fast
from grilly_backend_cpu.kernels.index import checked
from grilly_backend_cpu.kernels.support import FAST, FLOATS, WIDE, WIDENED

__all__ = ["register"]


def embedding(stream: Any, outs: Any, ins: Any, attrs: dict[str, Any]) -> None:
    """Rows by id."""
    ids, weight = ins[0].array, ins[1].array
    np.take(weight, checked(ids, len(weight)), 0, outs[0].array, "clip")


def _rows(ins: Any, attrs: dict[str, Any]) -> tuple[Any, Any]:
    """Return ids and gradients as (n,) and (n, width), without those of the padding row."""
    g, ids = ins[0].array, ins[1].array
    index = checked(ids.reshape(-1), attrs["num_embeddings"])
    rows = g.reshape(index.size, g.shape[-1])
    padding = attrs["padding_idx"]
    if padding is None:
        return index, rows
    kept = index != padding % attrs["num_embeddings"]
    return index[kept], rows[kept]


def embedding_vjp(stream: Any, outs: Any, ins: Any, attrs: dict[str, Any]) -> None:
    """Add the rows of duplicates in order; the padding row stays 0."""
    out = outs[0].array
    out[...] = 0
    index, rows = _rows(ins, attrs)
    np.add.at(out, index, rows)


def embedding_vjp_fast(stream: Any, outs: Any, ins: Any, attrs: dict[str, Any]) -> None:
    """`embedding_vjp`, parallel over the width."""
    out = outs[0].array
    out[...] = 0
    index, rows = _rows(ins, attrs)
    if rows.size:
        fast.add(out[None], index, np.ascontiguousarray(rows)[None])


def register(kernels: Any, runtime: Any) -> None:
    """Declare the kernels of this module."""
    kernels.add("nn.embedding", embedding, dtypes=FLOATS)
    kernels.add("nn.embedding_vjp", embedding_vjp, dtypes=WIDE, compute=WIDENED)
    if runtime.has_numba:
        kernels.add("nn.embedding_vjp", embedding_vjp_fast, dtypes=WIDE, layout="contiguous", priority=FAST)
