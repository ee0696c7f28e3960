"""FAISS's operations as functions of tensors: distances, the nearest, lists, k-means, codes.

Each takes tensors of any device, or arrays, which go to the device of the other argument. `retrieval.IndexFlat` and
its like keep vectors and are the better choice for many searches of the same ones.
"""

from __future__ import annotations

import operator
from typing import Any, Final, NamedTuple

import numpy as np

import grilly_core as grilly
from grilly_core.apply import as_tensor
from grilly_core.errors import DTypeError, ShapeError
from grilly_core.tensor import Tensor
from grilly_ext_memory.index.arguments import as_count
from grilly_ext_memory.index.clustering import kmeans
from grilly_ext_memory.ops import codes as bit_ops
from grilly_ext_memory.ops import distances as ops
from grilly_ext_memory.ops import selection
from grilly_ext_memory.ops.metrics import METRICS

__all__ = [
    "Clustering", "Quantized", "TopK", "faiss_distance", "faiss_ivf_filter", "faiss_kmeans", "faiss_kmeans_update",
    "faiss_quantize", "faiss_topk", "hamming_topk",
]  # fmt: skip

_DISTANCES: Final = (*METRICS, "dot")


class TopK(NamedTuple):
    """The nearest of each query.

    Attributes
    ----------
    values : Tensor, (Q, k)
        Nearest first.
    indices : Tensor of int64, (Q, k)
        Of equal values the lower one comes first; -1 in the place of NaN.
    """

    values: Tensor
    indices: Tensor


class Clustering(NamedTuple):
    """What `faiss_kmeans` found.

    Attributes
    ----------
    centroids : Tensor of float32, (k, D)
    assignments : Tensor of int64, (N,)
    inertia : float
        Sum of the squared distances to the nearest centroids.
    """

    centroids: Tensor
    assignments: Tensor
    inertia: float


class Quantized(NamedTuple):
    """Rows and the codes that they were made of.

    Attributes
    ----------
    quantized : Tensor, (N, D)
    codes : Tensor of uint8, or of int32 where codewords are more than 256
    """

    quantized: Tensor
    codes: Tensor


def _rows(who: str, value: Any, like: Tensor | None = None, name: str = "vectors") -> Tensor:
    """Return floating rows ``(N, D)``; a single row may be ``(D,)``."""
    x = as_tensor(value, like) if like is not None else as_tensor(value)
    x = x.float() if x.dtype.is_integer else x
    x = x.unsqueeze(0) if x.ndim == 1 else x
    if x.ndim != 2:
        raise ShapeError(f"{who}: expected {name} (N, D); received shape {tuple(x.shape)}.")
    return x


def _pair(who: str, first: Any, second: Any, names: tuple[str, str]) -> tuple[Tensor, Tensor]:
    like = next((x for x in (first, second) if isinstance(x, Tensor)), None)
    a, b = (_rows(who, x, like, name) for x, name in zip((first, second), names, strict=True))
    if a.shape[1] != b.shape[1]:
        raise ShapeError(
            f"{who}: {names[0]} have the width {a.shape[1]}, {names[1]} have {b.shape[1]}; they must be equal."
        )
    return a, b


def faiss_distance(query: Any, vectors: Any, distance_type: str = "l2") -> Tensor:
    """Distances between all queries and all vectors; smaller is nearer, but for ``"ip"``.

    Computed from differences in blocks, so near vectors with large coordinates do not cancel. Has gradients.

    Parameters
    ----------
    query : array_like, (Q, D) or (D,)
        A single query counts as one row.
    vectors : array_like, (N, D)
    distance_type : {"l2", "sqeuclidean", "l1", "cosine", "dot", "ip"}
        ``"sqeuclidean"`` is what FAISS calls L2; ``"cosine"`` is ``1 - cos``, 1 for a vector of zeros; ``"dot"`` is
        ``-q·x`` and ``"ip"`` is ``q·x``.

    Returns
    -------
    Tensor, (Q, N)

    Examples
    --------
    >>> from grilly_ext_memory.functional.search import faiss_distance
    >>> faiss_distance([0.0, 0.0], [[3.0, 4.0], [0.0, 2.0]]).tolist()
    [[5.0, 2.0]]
    >>> faiss_distance([1.0, 2.0], [[3.0, 4.0]], "dot").tolist()
    [[-11.0]]
    """
    if distance_type not in _DISTANCES:
        raise ValueError(
            f"faiss_distance: distance_type is one of {', '.join(_DISTANCES)}; received {distance_type!r}."
        )
    q, x = _pair("faiss_distance", query, vectors, ("queries", "vectors"))
    if distance_type == "dot":
        return -ops.distances(q, x, metric="ip")
    made: Tensor = ops.distances(q, x, metric=distance_type)
    return made


def faiss_topk(distances: Any, k: int, largest: bool = False) -> TopK:
    """The k smallest distances of each row, in rising order, and where they are.

    Parameters
    ----------
    distances : array_like, (Q, N) or (N,)
    k : int
        At most N are returned.
    largest : bool
        For ``"ip"``: the largest ones, in falling order.

    Examples
    --------
    >>> from grilly_ext_memory.functional.search import faiss_topk
    >>> values, indices = faiss_topk([[3.0, 1.0, 2.0, 1.0]], k=3)
    >>> values.tolist(), indices.tolist()
    ([[1.0, 1.0, 2.0]], [[1, 3, 2]])
    """
    x = _rows("faiss_topk", distances, name="distances")
    count = min(as_count(k, "faiss_topk"), x.shape[1])
    if not count:
        return TopK(x, grilly.zeros(x.shape, dtype="int64", device=x.device))
    values, at = selection.topk(x, None, k=count, largest=largest)
    return TopK(values, at.to("int64"))


def hamming_topk(queries: Any, database: Any, k: int) -> TopK:
    """The k rows that differ from each query in the fewest bits, and in how many.

    Parameters
    ----------
    queries : array_like of uint32, (Q, W)
        Packed bits.
    database : array_like of uint32, (N, W)
    k : int
        At most N are returned.

    Examples
    --------
    >>> import numpy as np
    >>> from grilly_ext_memory.functional.search import hamming_topk
    >>> values, indices = hamming_topk(np.array([[7]], np.uint32), np.array([[0], [5]], np.uint32), k=2)
    >>> values.tolist(), indices.tolist()
    ([[1, 3]], [[1, 0]])
    """
    like = next((x for x in (queries, database) if isinstance(x, Tensor)), None)
    q, x = (as_tensor(t, like) if like is not None else as_tensor(t) for t in (queries, database))
    q = q.unsqueeze(0) if q.ndim == 1 else q
    count = min(as_count(k, "hamming_topk"), x.shape[0] if x.ndim else 0)
    values, at = bit_ops.hamming_topk(q, x, None, k=max(count, 1))
    return TopK(values[:, :count], at[:, :count].to("int64"))


def faiss_ivf_filter(
    vectors: Any, centroids: Any, nlist: int | None = None, *, query: Any = None, nprobe: int = 1
) -> Any:
    """The list of each vector, or the vectors in the lists nearest to each query, as an inverted file has them.

    Parameters
    ----------
    vectors : array_like, (N, D)
    centroids : array_like, (nlist, D)
    nlist : int, optional
        Must be the number of centroids, if it is given.
    query : array_like, (Q, D) or (D,), optional
    nprobe : int
        Lists that a query looks at; all, if there are fewer.

    Returns
    -------
    Tensor of int64, (N,) or list of Tensor of int64
        The nearest centroid of each vector, of equals the lower one. With `query`: for each query the vectors in its
        lists, in rising order.

    Examples
    --------
    >>> from grilly_ext_memory.functional.search import faiss_ivf_filter
    >>> x, centroids = [[0.0], [1.0], [9.0], [8.0]], [[0.0], [9.0]]
    >>> faiss_ivf_filter(x, centroids).tolist()
    [0, 0, 1, 1]
    >>> [ids.tolist() for ids in faiss_ivf_filter(x, centroids, query=[[7.0]])]
    [[2, 3]]
    """
    who = "faiss_ivf_filter"
    x, c = _pair(who, vectors, centroids, ("vectors", "centroids"))
    _check_lists(who, nlist, c.shape[0])
    lists = _nearest(x, c, 1)[:, 0]
    if query is None:
        return lists.to("int64")
    q, _ = _pair(who, query, c, ("queries", "centroids"))
    probes = _nearest(q, c, min(as_count(nprobe, who, "nprobe"), c.shape[0])).numpy()
    of = lists.numpy()
    found = (np.flatnonzero(np.isin(of, row)).astype(np.int64) for row in probes)
    return [grilly.asarray(ids, device=x.device) for ids in found]


def _check_lists(who: str, nlist: int | None, centroids: int) -> None:
    if not centroids or (nlist is not None and operator.index(nlist) != centroids):
        raise ValueError(f"{who}: nlist is {nlist} and there are {centroids} centroids; expected as many.")


def _nearest(x: Tensor, centroids: Tensor, count: int) -> Tensor:
    with grilly.no_grad():
        found: Tensor = ops.search(x, centroids, k=count, metric="sqeuclidean")[1]
    return grilly.where(found < 0, 0, found) if count == 1 else found


def faiss_kmeans(
    vectors: Any, k: int, niter: int = 25, seed: int = 0, init: Any = "kmeans++", *, nredo: int = 1
) -> Clustering:
    """Cluster vectors by Euclidean distance; an empty cluster takes the vector farthest from its centroid.

    Parameters
    ----------
    vectors : array_like, (N, D)
    k : int
        At most N.
    niter : int
        Iterations at most.
    seed : int
        The same seed gives the same bits on one device.
    init : {"kmeans++", "random"} or array_like (k, D)
    nredo : int
        Runs, of which the best is returned.

    Examples
    --------
    >>> from grilly_ext_memory.functional.search import faiss_kmeans
    >>> found = faiss_kmeans([[0.0], [1.0], [10.0], [11.0]], 2)
    >>> sorted(found.centroids.tolist()), round(found.inertia, 3)
    ([[0.5], [10.5]], 1.0)
    """
    x = _rows("faiss_kmeans", vectors)
    start = init.detach().numpy() if isinstance(init, Tensor) else init
    found = kmeans(x.detach().numpy(), k, niter, seed=seed, init=start, nredo=nredo, device=x.device)
    return Clustering(
        grilly.asarray(found.centroids, device=x.device),
        grilly.asarray(found.assignments.astype(np.int64), device=x.device),
        found.inertia,
    )


def faiss_kmeans_update(vectors: Any, centroids: Any, assignments: Any, nlist: int | None = None) -> Tensor:
    """The mean of each cluster's vectors; a cluster without any keeps its centroid. Has gradients.

    Parameters
    ----------
    vectors : array_like, (N, D)
    centroids : array_like, (nlist, D)
    assignments : array_like of int, (N,)
    nlist : int, optional
        Must be the number of centroids, if it is given.

    Returns
    -------
    Tensor, (nlist, D)

    Examples
    --------
    >>> from grilly_ext_memory.functional.search import faiss_kmeans_update
    >>> faiss_kmeans_update([[1.0], [3.0]], [[0.0], [7.0]], [0, 0]).tolist()
    [[2.0], [7.0]]
    """
    who = "faiss_kmeans_update"
    x, c = _pair(who, vectors, centroids, ("vectors", "centroids"))
    _check_lists(who, nlist, c.shape[0])
    to = as_tensor(assignments)
    if tuple(to.shape) != (x.shape[0],) or not to.dtype.is_integer:
        raise ShapeError(
            f"{who}: expected assignments as whole numbers ({x.shape[0]},); received {to.dtype.name} "
            f"{tuple(to.shape)}."
        )
    at = to.numpy()
    if at.size and not 0 <= at.min() <= at.max() < c.shape[0]:
        raise IndexError(
            f"{who}: assignments must lie in [0, {c.shape[0]}); received {at.min()} to {at.max()}."
        )
    counts = np.bincount(at, minlength=c.shape[0])[:, None]
    members = grilly.asarray(np.maximum(counts, 1).astype(np.float32), device=x.device).to(x.dtype)
    sums = grilly.zeros(c.shape, dtype=x.dtype, device=x.device).index_add(0, to.to(x.device), x)
    filled = grilly.asarray(counts > 0, device=x.device)
    return grilly.where(filled, sums / members, c.to(x.dtype))


def faiss_quantize(vectors: Any, codebook: Any = None, nbits: int = 8) -> Quantized:
    """Replace vectors by codewords: of one book, of a book for each part, or of equal steps in each column.

    Parameters
    ----------
    vectors : array_like, (N, D)
    codebook : array_like, (K, D) or (M, K, D / M), optional
        With three axes, a product quantiser. Without it, a scalar quantiser: ``2 ** nbits`` equal steps from the
        least to the largest number of each column.
    nbits : int
        Of a code, 1 to 16 (8 without a book). A book has at most ``2 ** nbits`` codewords.

    Returns
    -------
    Quantized
        ``(quantized, codes)``; codes are ``(N,)``, ``(N, M)`` or ``(N, D)``. Gradients flow to the book.

    Examples
    --------
    >>> from grilly_ext_memory.functional.search import faiss_quantize
    >>> quantized, codes = faiss_quantize([[0.9], [2.2]], [[1.0], [2.0]], nbits=1)
    >>> quantized.tolist(), codes.tolist()
    ([[1.0], [2.0]], [0, 1])
    >>> faiss_quantize([[0.0], [1.1], [3.0]], nbits=2).codes.tolist()
    [[0], [1], [3]]
    """
    x = _rows("faiss_quantize", vectors)
    bits = operator.index(nbits)
    if not 1 <= bits <= (8 if codebook is None else 16):
        raise ValueError(f"faiss_quantize: nbits is 1 to {8 if codebook is None else 16}; received {nbits}.")
    if codebook is None:
        return _stepped(x, (1 << bits) - 1)
    book = as_tensor(codebook, x)
    if book.ndim == 2:
        made = _products(x, book.unsqueeze(0), bits)
        return Quantized(made.quantized, made.codes[:, 0])
    return _products(x, book, bits)


def _stepped(x: Tensor, steps: int) -> Quantized:
    if not x.shape[0]:
        return Quantized(x, grilly.zeros(x.shape, dtype="uint8", device=x.device))
    low = x.amin(0, keepdim=True)
    span = x.amax(0, keepdim=True) - low
    step = grilly.where(span > 0, span, 1.0) / steps
    codes = ((x - low) / step).round().clamp(0, steps)
    return Quantized(codes * step + low, codes.detach().to("uint8"))


def _products(x: Tensor, book: Tensor, bits: int) -> Quantized:
    if not book.dtype.is_floating:
        raise DTypeError(f"faiss_quantize: the codebook must be floating; received {book.dtype.name}.")
    m, words, width = book.shape if book.ndim == 3 else (0, 0, 0)
    if not words or m * width != x.shape[1]:
        raise ShapeError(
            f"faiss_quantize: vectors of width {x.shape[1]} need a codebook (K, {x.shape[1]}) or (M, K, "
            f"{x.shape[1]} / M); received {tuple(book.shape)}."
        )
    if words > 1 << bits:
        raise ValueError(f"faiss_quantize: {words} codewords do not fit into nbits = {bits} bits.")
    codes = [_nearest(x[:, j * width : (j + 1) * width], book[j], 1) for j in range(m)]
    parts = [book[j].index_select(0, at[:, 0]) for j, at in enumerate(codes)]
    dtype = "uint8" if words <= 256 else "int32"
    return Quantized(grilly.concat(parts, axis=1), grilly.concat(codes, axis=1).to(dtype))
