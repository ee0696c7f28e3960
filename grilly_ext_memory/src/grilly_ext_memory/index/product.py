"""Product quantisation: a row is cut into parts, each part replaced by its nearest codeword (Jégou et al. 2011)."""

from __future__ import annotations

from typing import Any, ClassVar, Final

import numpy as np
from numpy.typing import NDArray

import grilly_core as grilly
from grilly_core.tensor import Tensor
from grilly_ext_memory.index.arguments import Vectors, unit_rows
from grilly_ext_memory.index.clustering import kmeans
from grilly_ext_memory.index.codecs import Codes, Task
from grilly_ext_memory.index.ranking import Hits, worst
from grilly_ext_memory.index.segments import Segment
from grilly_ext_memory.ops.codes import code_search
from grilly_ext_memory.ops.distances import search
from grilly_ext_memory.ops.product import code_tables

__all__ = ["Product"]

#: Codewords are learnt, and rows coded, in one place: the nearest of two near codewords must not depend on the device
#: that an index later searches on.
_CODER: Final = "cpu"

#: Numbers in the tables of one block of queries.
_TABLES: Final = 1 << 24


class Product:
    """Codes of `m` bytes a row, each the number of a codeword of its part.

    Parameters
    ----------
    d : int
    m : int
        Parts, which divide d.
    nbits : int
        Codewords of a part: ``2 ** nbits``, at most 8. A code takes a byte whatever this is.
    residual : bool
        Whether rows are stored relative to the centroid of their list.
    """

    kind: ClassVar[str] = "pq"

    def __init__(self, d: int, m: int, nbits: int = 8, *, residual: bool = False) -> None:
        if m < 1 or d % m:
            raise ValueError(f"product quantiser: m must divide the width {d}; received {m}.")
        if not 1 <= nbits <= 8:
            raise ValueError(f"product quantiser: nbits is 1 to 8; received {nbits}.")
        self.d, self.m, self.nbits, self.residual = d, m, nbits, residual
        self.codebooks: NDArray[np.float32] | None = None

    @property
    def is_trained(self) -> bool:
        """Whether there are codewords."""
        return self.codebooks is not None

    def train(self, x: Vectors, seed: int) -> None:
        """Cluster each part of rows ``(N, D)``."""
        count, width = 1 << self.nbits, self.d // self.m
        if len(x) < count:
            raise ValueError(f"product quantiser: training needs at least {count} rows; received {len(x)}.")
        parts = x.reshape(len(x), self.m, width)
        self.codebooks = np.stack([
            kmeans(parts[:, j], count, seed=seed + j, max_rows=256 * count, device=_CODER).centroids
            for j in range(self.m)
        ])  # fmt: skip

    def encode(self, x: Vectors) -> Codes:
        """Return the number of the nearest codeword of each part, ``(N, m)`` bytes."""
        assert self.codebooks is not None
        parts = x.reshape(len(x), self.m, -1)
        codes = np.empty((len(x), self.m), np.uint8)
        with grilly.no_grad():
            for j, book in enumerate(self.codebooks):
                part = grilly.asarray(np.ascontiguousarray(parts[:, j]), device=_CODER)
                words = grilly.asarray(book, device=_CODER)
                codes[:, j] = search(part, words, k=1, metric="sqeuclidean")[1].numpy()[:, 0]
        return codes

    def decode(self, codes: Codes) -> Vectors:
        """Return the codewords' rows ``(N, D)``."""
        assert self.codebooks is not None
        made: Vectors = self.codebooks[np.arange(self.m), codes].reshape(len(codes), self.d)
        return made

    def search(self, run: Segment, task: Task, mask: NDArray[np.bool_] | None) -> Hits:
        """Sum the distances of codewords, which are computed once for each query and list (asymmetric distances)."""
        probes = np.zeros((len(task.queries), 1), np.int32) if task.probes is None else task.probes
        block = max(1, _TABLES // (max(1, probes.shape[1]) * (self.m << self.nbits)))
        found = [
            self._block(run, task, probes[at : at + block], slice(at, at + block), mask)
            for at in range(0, len(probes), block)
        ]
        return Hits(*(np.concatenate(part) for part in zip(*found, strict=True)))

    def _block(self, run: Segment, task: Task, probes: Any, rows: slice, mask: Any) -> Hits:
        tables = self._tables(task.queries[rows], probes, task)
        codes, offsets = run.on(task.device)
        allowed = None if mask is None else grilly.asarray(mask, device=task.device)
        looked = grilly.asarray(probes, device=task.device)
        with grilly.no_grad():
            values, at = code_search(
                tables, codes, offsets, looked, allowed, k=task.k, largest=self._summed(task) == "ip"
            )
        ids = at.numpy().astype(np.int64)
        return Hits(_distances(values.numpy(), ids, task.metric), ids)

    def _summed(self, task: Task) -> str:
        """Return the distance whose parts add up."""
        return {"l2": "sqeuclidean", "cosine": "ip"}.get(task.metric, task.metric)

    def _tables(self, queries: Vectors, probes: NDArray[np.int32], task: Task) -> Tensor:
        """Return what each codeword adds for each query and probed list, ``(Q, P, m, K)``."""
        summed = self._summed(task)
        if task.metric == "cosine":
            queries = unit_rows(queries)
        shape = (*probes.shape, self.m, 1 << self.nbits)
        if task.centroids is None or not self.residual:
            tables = self._parts(queries, summed, task.device)
            return grilly.broadcast_to(tables[:, None], shape)
        centres = task.centroids[np.maximum(probes, 0)]
        if summed != "ip":
            apart = (queries[:, None] - centres).reshape(-1, self.d)
            return grilly.reshape(self._parts(apart, summed, task.device), shape)
        # <q, c + r> = <q, c> + <q, r>: the first joins the first part.
        base = np.einsum("qd,qpd->qp", queries, centres, dtype=np.float64).astype(np.float32)
        first = np.zeros((*probes.shape, self.m, 1), np.float32)
        first[:, :, 0, 0] = base
        return self._parts(queries, summed, task.device)[:, None] + grilly.asarray(first, device=task.device)

    def _parts(self, rows: Vectors, summed: str, device: str) -> Tensor:
        assert self.codebooks is not None
        parts = rows.reshape(len(rows), self.m, -1)
        with grilly.no_grad():
            made: Tensor = code_tables(
                grilly.asarray(parts, device=device),
                grilly.asarray(self.codebooks, device=device),
                metric=summed,
            )
        return made

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return the shape of the codes, and the codewords."""
        settings = {"m": self.m, "nbits": self.nbits}
        return settings, {} if self.codebooks is None else {"codebooks": self.codebooks}

    def restore(self, arrays: dict[str, NDArray[Any]]) -> None:
        """Take the codewords."""
        self.codebooks = arrays.get("codebooks")


def _distances(values: Vectors, ids: NDArray[np.int64], metric: str) -> Vectors:
    found = ids >= 0
    if metric == "l2":
        values = np.where(found, np.sqrt(values, where=found, out=np.zeros_like(values)), values)
    elif metric == "cosine":
        values = np.where(found, 1 - values, worst(largest=False)).astype(np.float32)
    return values
