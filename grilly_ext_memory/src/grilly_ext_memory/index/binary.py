"""Vectors of bits, searched by how many bits differ."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

import grilly_core as grilly
from grilly_core.errors import ShapeError
from grilly_core.tensor import Tensor
from grilly_ext_memory.index.base import Allowed, Index
from grilly_ext_memory.index.codecs import Codes, Raw, Task
from grilly_ext_memory.index.ranking import Hits, RangeHits
from grilly_ext_memory.index.segments import Segment
from grilly_ext_memory.ops.codes import hamming_topk

__all__ = ["IndexBinaryFlat", "whole"]

Words = NDArray[np.uint32]


class _Bits(Raw):
    """Rows of words of 32 bits."""

    kind: ClassVar[str] = "bits"

    def search(self, run: Segment, task: Task, mask: NDArray[np.bool_] | None) -> Hits:
        """Count differing bits."""
        rows, _ = run.on(task.device)
        allowed = None if mask is None else grilly.asarray(mask, device=task.device)
        queries = grilly.asarray(task.queries, device=task.device)
        with grilly.no_grad():
            distances, at = hamming_topk(queries, rows, allowed, k=task.k)
        # Counts are far below 2^24, so float32 holds them.
        return Hits(distances.numpy().astype(np.float32), at.numpy().astype(np.int64))

    def decode(self, codes: Codes) -> Any:
        """Return the words."""
        return codes


class IndexBinaryFlat(Index):
    """Vectors of `d` bits, compared with all; the distance is how many bits differ (Hamming).

    Parameters
    ----------
    d : int
        Bits, a multiple of 8.
    device : Device or str, optional

    Notes
    -----
    Vectors are given packed: ``(N, d / 8)`` bytes as FAISS has them (``np.packbits(rows, axis=1)``), or ``(N, d / 32)``
    words of uint32. Distances are int32, the largest int32 where nothing is left. `reconstruct` returns bytes.

    Examples
    --------
    >>> import numpy as np
    >>> from grilly_ext_memory.index.binary import IndexBinaryFlat
    >>> index = IndexBinaryFlat(8)
    >>> _ = index.add(np.array([[0b1111], [0b0001]], np.uint8))
    >>> index.search(np.array([[0b0011]], np.uint8), k=2)
    Hits(distances=array([[1, 2]], dtype=int32), ids=array([[1, 0]]))
    """

    __slots__ = ()

    def __init__(self, d: int, *, device: Any = None) -> None:
        if d < 8 or d % 8:
            raise ValueError(f"IndexBinaryFlat: d counts bits and is a multiple of 8; received {d}.")
        super().__init__(d, "hamming", _Bits(), device=device)

    def settings(self) -> dict[str, Any]:
        """Return the arguments that make such an index again, as JSON."""
        return {"d": self.d}

    def _vectors(self, x: Any, who: str, *, finite: bool = False) -> Words:
        array = x.numpy() if isinstance(x, Tensor) else np.asarray(x)
        if array.dtype == np.uint32 and self.d % 32 == 0:
            array = np.ascontiguousarray(array).view(np.uint8)
        if array.dtype != np.uint8:
            raise TypeError(
                f"{who}: expected packed bits as uint8, or uint32 if d divides by 32; received {array.dtype}."
            )
        array = array[None] if array.ndim == 1 else array
        if array.ndim != 2 or array.shape[1] * 8 != self.d:
            raise ShapeError(
                f"{who}: the index holds vectors of {self.d} bits, {self.d // 8} bytes; received shape {array.shape}, "
                f"of {array.shape[-1] * 8} bits."
            )
        padded = np.zeros((len(array), -(-self.d // 32) * 4), np.uint8)
        padded[:, : array.shape[1]] = array
        return padded.view(np.uint32)

    @property
    def _row(self) -> np.dtype[Any]:
        return np.dtype((np.uint8, (self.d // 8,)))

    def _given_form(self, rows: Any) -> NDArray[np.uint8]:
        return np.ascontiguousarray(rows.view(np.uint8)[:, : self.d // 8])

    def search(self, queries: Any, k: int, *, allow: Allowed = None) -> Hits:
        """Return the k nearest vectors of each query; see `Index.search`."""
        found = super().search(queries, k, allow=allow)
        return found._replace(distances=whole(found.distances, found.ids))  # type: ignore[arg-type]

    def range_search(self, queries: Any, radius: float, *, allow: Allowed = None) -> RangeHits:
        """Return all vectors that differ in fewer than `radius` bits; see `Index.range_search`."""
        found = super().range_search(queries, radius, allow=allow)
        return found._replace(distances=found.distances.astype(np.int32))  # type: ignore[arg-type]

    def _decoded(self, ids: Any) -> Any:
        return super()._decoded(ids).view(np.uint8)[:, : self.d // 8]

    def reconstruct(self, ids: Any) -> Any:
        """Return the bytes of vectors; see `Index.reconstruct`."""
        return super().reconstruct(ids)


def whole(distances: Any, ids: Any) -> NDArray[np.int32]:
    """Return counts of bits as int32, the largest int32 where there is no id."""
    missing = ids < 0
    made = np.where(missing, 0, distances).astype(np.int32)
    made[missing] = np.iinfo(np.int32).max
    return made
