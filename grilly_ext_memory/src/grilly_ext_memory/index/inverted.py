"""Inverted files: vectors lie in lists by their nearest centroid; a search looks at the lists nearest to the query."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

import grilly_core as grilly
from grilly_ext_memory.index.arguments import Vectors, as_count, as_metric, unit_rows
from grilly_ext_memory.index.base import Allowed, Index
from grilly_ext_memory.index.clustering import Clusters, kmeans
from grilly_ext_memory.index.codecs import Codec, Raw
from grilly_ext_memory.index.flat import scalar_codec
from grilly_ext_memory.index.product import Product
from grilly_ext_memory.index.ranking import Hits, Ids, RangeHits
from grilly_ext_memory.index.segments import Segments
from grilly_ext_memory.ops import distances as ops

__all__ = ["IndexIVF", "IndexIVFFlat", "IndexIVFPQ", "IndexIVFScalarQuantizer"]

#: Rows a list learns its centroid from, at most.
_ROWS_A_LIST: Final = 256


class IndexIVF(Index):
    """What the inverted files share; see `IndexIVFFlat`.

    Attributes
    ----------
    nlist : int
        Lists.
    nprobe : int
        How many lists a search looks at; more than `nlist` means all.
    centroids : ndarray of float32, (nlist, d)
        None before training.
    clusters : Clusters
        Report of the training, None for an index from a file.
    """

    __slots__ = ("_nprobe", "centroids", "clusters", "niter", "nlist")

    def __init__(
        self, d: int, nlist: int, codec: Codec, metric: str, nprobe: int, niter: int, seed: int, device: Any
    ) -> None:  # fmt: skip
        self.nlist = as_count(nlist, type(self).__name__, "nlist")
        self.nprobe = nprobe
        self.niter = as_count(niter, type(self).__name__, "niter")
        self.centroids: Vectors | None = None
        self.clusters: Clusters | None = None
        super().__init__(d, as_metric(metric), codec, lists=self.nlist, seed=seed, device=device)

    @property
    def nprobe(self) -> int:
        """How many lists a search looks at."""
        return self._nprobe

    @nprobe.setter
    def nprobe(self, value: int) -> None:
        self._nprobe = as_count(value, type(self).__name__, "nprobe")

    @property
    def is_trained(self) -> bool:
        """Whether there are centroids and codes."""
        return self.centroids is not None and self.codec.is_trained

    def _learn(self, x: Vectors) -> None:
        rows = self._coarse(x)
        if len(rows) < self.nlist:
            raise ValueError(
                f"train: {self.nlist} lists need at least as many vectors; received {len(rows)}."
            )
        self.clusters = kmeans(
            rows, self.nlist, self.niter, seed=self.seed, max_rows=_ROWS_A_LIST * self.nlist,
            spherical=self._coarse_metric() == "ip", device=self.device,
        )  # fmt: skip
        self.centroids = self.clusters.centroids
        stored = self._stored(x)
        self.codec.train(self._relative(stored, self._lists(x)), self.seed)

    def _coarse(self, x: Vectors) -> Vectors:
        """Return what is compared with centroids."""
        return unit_rows(x) if self.metric == "cosine" else x

    def _coarse_metric(self) -> str:
        return {"l2": "sqeuclidean", "cosine": "ip"}.get(self.metric, self.metric)

    def _nearest(self, x: Vectors, count: int) -> NDArray[np.int32]:
        assert self.centroids is not None
        place = self.device
        with grilly.no_grad():
            found = ops.search(
                grilly.asarray(self._coarse(x), device=place),
                grilly.asarray(self.centroids, device=place),
                k=count,
                metric=self._coarse_metric(),
            )
        lists: NDArray[np.int32] = found[1].numpy()
        return lists

    def _lists(self, rows: Vectors) -> NDArray[np.int32]:
        # A row is never without a list: what overflows every distance goes to the first.
        return np.maximum(self._nearest(rows, 1)[:, 0], 0)

    def _relative(self, rows: Vectors, lists: NDArray[np.int32] | None) -> Vectors:
        if not self.codec.residual:
            return rows
        assert self.centroids is not None and lists is not None
        return rows - self.centroids[lists]

    def _centroids(self) -> Vectors | None:
        return self.centroids

    def search(self, queries: Any, k: int, *, allow: Allowed = None, nprobe: int | None = None) -> Hits:
        """Return the k nearest vectors of each query among the lists that it looks at.

        Parameters
        ----------
        queries : array_like, (Q, d) or (d,)
        k : int
            Where the lists hold fewer vectors, the rest is -1.
        allow : array_like of int or callable, optional
            The ids that may be found, or a function from an array of ids to truth values.
        nprobe : int, optional
            Lists to look at, this time.
        """
        k, count = (
            as_count(k, "search"),
            as_count(self.nprobe if nprobe is None else nprobe, "search", "nprobe"),
        )
        rows = self._vectors(queries, "search")
        self._trained("search")
        return self._search(rows, k, allow, self._nearest(rows, min(count, self.nlist)))

    def range_search(self, queries: Any, radius: float, *, allow: Allowed = None) -> RangeHits:
        """Return all vectors nearer than `radius` in the lists looked at; see `Index.range_search`."""
        return super().range_search(queries, radius, allow=allow)

    def _decoded(self, ids: Ids) -> Vectors:
        rows = super()._decoded(ids)
        if self.codec.residual:
            assert self.centroids is not None
            for run in self._segments:
                at = run.find(ids)
                rows[at >= 0] += self.centroids[run.lists()[at[at >= 0]]]
        return rows

    def list_sizes(self) -> Ids:
        """Return how many vectors each list holds, ``(nlist,)``."""
        total = np.zeros(self.nlist, np.int64)
        for run in self._segments:
            total += np.diff(run.offsets)
        return total

    def _learnt(self) -> dict[str, NDArray[Any]]:
        learnt = super()._learnt()
        return learnt if self.centroids is None else {**learnt, "centroids": self.centroids}

    def _restore(self, arrays: dict[str, NDArray[Any]]) -> None:
        self.centroids = arrays.get("centroids")
        super()._restore(arrays)

    def settings(self) -> dict[str, Any]:
        """Return the arguments that make such an index again, as JSON."""
        own = {"nlist": self.nlist, "nprobe": self.nprobe, "niter": self.niter, "seed": self.seed}
        return {**super().settings(), **own, **self.codec.state()[0]}

    def reset(self) -> None:
        """Remove all vectors; training and the count of ids stay."""
        self._writable("reset")
        self._segments = Segments(self.nlist)


class IndexIVFFlat(IndexIVF):
    """Vectors in float32, in lists by their nearest centroid.

    With all lists looked at, the results are those of `IndexFlat`.

    Parameters
    ----------
    d : int
    nlist : int
        Lists; about ``sqrt(N)`` to ``16 sqrt(N)``.
    metric : str
        See `IndexFlat`.
    nprobe : int
        Lists that a search looks at; may be set later.
    niter : int
        Iterations of the clustering at most.
    seed : int
    device : Device or str, optional

    Examples
    --------
    >>> import numpy as np
    >>> from grilly_ext_memory.index.inverted import IndexIVFFlat
    >>> x = np.random.default_rng(0).random((200, 4), np.float32)
    >>> index = IndexIVFFlat(4, nlist=8, nprobe=8).train(x)
    >>> _ = index.add(x)
    >>> index.search(x[3], k=1).ids.tolist()
    [[3]]
    """

    __slots__ = ()

    def __init__(
        self, d: int, nlist: int, metric: str = "sqeuclidean", *, nprobe: int = 1, niter: int = 10, seed: int = 0,
        device: Any = None,
    ) -> None:  # fmt: skip
        super().__init__(d, nlist, Raw(), metric, nprobe, niter, seed, device)


class IndexIVFScalarQuantizer(IndexIVF):
    """As `IndexIVFFlat` with the codes of `IndexScalarQuantizer`, of what a vector differs from its centroid by.

    Parameters
    ----------
    d, nlist : int
    qtype : {"sq8", "sq4", "f16"}
    metric : str
    by_residual : bool
        Whether vectors are coded relative to their centroid, or as they are.
    nprobe, niter, seed : int
    device : Device or str, optional

    Examples
    --------
    >>> import numpy as np
    >>> from grilly_ext_memory.index.inverted import IndexIVFScalarQuantizer
    >>> x = np.random.default_rng(0).random((200, 4), np.float32)
    >>> index = IndexIVFScalarQuantizer(4, 8, "sq8", nprobe=8).train(x)
    >>> _ = index.add(x)
    >>> index.search(x[3], k=1).ids.tolist()
    [[3]]
    """

    __slots__ = ()

    def __init__(
        self, d: int, nlist: int, qtype: str = "sq8", metric: str = "sqeuclidean", *, by_residual: bool = True,
        nprobe: int = 1, niter: int = 10, seed: int = 0, device: Any = None,
    ) -> None:  # fmt: skip
        codec = scalar_codec(qtype, residual=by_residual)
        super().__init__(d, nlist, codec, metric, nprobe, niter, seed, device)

    def settings(self) -> dict[str, Any]:
        """Return the arguments that make such an index again, as JSON."""
        return {**super().settings(), "qtype": self.codec.kind, "by_residual": self.codec.residual}


class IndexIVFPQ(IndexIVF):
    """As `IndexIVFFlat` with products of codewords, of what a vector differs from its centroid by.

    Parameters
    ----------
    d, nlist : int
    m : int
        Parts, which divide d; the bytes of a vector.
    nbits : int
        ``2 ** nbits`` codewords a part, at most 8.
    metric : str
    by_residual : bool
        Whether vectors are coded relative to their centroid, or as they are.
    nprobe, niter, seed : int
    device : Device or str, optional

    Examples
    --------
    >>> import numpy as np
    >>> from grilly_ext_memory.index.inverted import IndexIVFPQ
    >>> x = np.random.default_rng(0).random((300, 8), np.float32)
    >>> index = IndexIVFPQ(8, 4, m=4, nprobe=4).train(x)
    >>> _ = index.add(x)
    >>> index.search(x[3], k=1).ids.tolist()
    [[3]]
    """

    __slots__ = ()

    def __init__(
        self, d: int, nlist: int, m: int, nbits: int = 8, metric: str = "sqeuclidean", *, by_residual: bool = True,
        nprobe: int = 1, niter: int = 10, seed: int = 0, device: Any = None,
    ) -> None:  # fmt: skip
        codec = Product(d, m, nbits, residual=by_residual)
        super().__init__(d, nlist, codec, metric, nprobe, niter, seed, device)

    def settings(self) -> dict[str, Any]:
        """Return the arguments that make such an index again, as JSON."""
        return {**super().settings(), "by_residual": self.codec.residual}
