"""k-means: Lloyd's iterations from k-means++ (Arthur and Vassilvitskii 2007), with repair of empty clusters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

import grilly_core as grilly
from grilly_core.device import default_device
from grilly_ext_memory.index.arguments import Vectors, as_count, as_vectors, unit_rows
from grilly_ext_memory.ops import distances as ops

__all__ = ["Clusters", "kmeans"]

#: First centroids are drawn among at most so many rows for each.
_SEEN: Final = 8


@dataclass(frozen=True)
class Clusters:
    """What `kmeans` found.

    Attributes
    ----------
    centroids : ndarray of float32, (k, D)
    assignments : ndarray of int32, (N,)
        The nearest centroid of each row, of equals the lower one.
    counts : ndarray of int64, (k,)
    inertia : float
        Sum of the squared distances to the nearest centroids.
    history : list of float
        The inertia at each iteration.
    repaired : int
        How often an empty cluster was given the row farthest from its centroid.
    converged : bool
        Whether the last iteration changed no assignment.
    """

    centroids: Vectors
    assignments: NDArray[np.int32]
    counts: NDArray[np.int64]
    inertia: float
    history: list[float]
    repaired: int
    converged: bool

    def __str__(self) -> str:
        sizes = self.counts
        return (
            f"k-means: {len(sizes)} clusters of {int(sizes.min())} to {int(sizes.max())} rows, "
            f"inertia {self.inertia:.6g} after {len(self.history)} iterations "
            f"({'' if self.converged else 'not '}converged), {self.repaired} repaired"
        )


def kmeans(
    x: Any,
    k: int,
    niter: int = 25,
    *,
    seed: int = 0,
    init: str | Any = "kmeans++",
    nredo: int = 1,
    spherical: bool = False,
    max_rows: int | None = None,
    device: Any = None,
) -> Clusters:
    """Cluster rows by Euclidean distance.

    An empty cluster takes the row farthest from its centroid, if that is not zero: with fewer different rows than
    clusters, some stay empty and keep their centroid. The same seed gives the same bits on one device.

    Parameters
    ----------
    x : array_like, (N, D)
    k : int
        Clusters, at most N.
    niter : int
        Iterations at most; fewer if nothing changes.
    seed : int
    init : {"kmeans++", "random"} or array_like (k, D)
        k-means++ draws among at most 8 k rows; ``"random"`` takes different rows.
    nredo : int
        Runs from different starts, of which the best is returned.
    spherical : bool
        Scale centroids to length 1 after each iteration, as inner products want.
    max_rows : int, optional
        Learn from a random sample of so many rows; assignments and inertia are those of all rows.
    device : Device or str, optional
        Where rows are assigned to centroids.

    Returns
    -------
    Clusters

    Raises
    ------
    ValueError
        If k exceeds N, or something is not finite.

    Examples
    --------
    >>> from grilly_ext_memory.index.clustering import kmeans
    >>> kmeans([[0.0], [0.2], [9.0], [9.4]], 2).assignments.tolist() in ([0, 0, 1, 1], [1, 1, 0, 0])
    True
    """
    rows = _rows(x)
    k, niter, nredo = (
        as_count(k, "kmeans"),
        as_count(niter, "kmeans", "niter"),
        as_count(nredo, "kmeans", "nredo"),
    )
    if k > len(rows):
        raise ValueError(
            f"kmeans: expected at least as many rows as clusters; received n = {len(rows)} and k = {k}."
        )
    place = str(default_device() if device is None else device)
    rng = np.random.default_rng(seed)
    seen = rows
    if max_rows is not None and max_rows < len(rows):
        seen = rows[np.sort(rng.choice(len(rows), max(max_rows, k), replace=False))]
    best: Clusters | None = None
    for _ in range(nredo):
        found = _lloyd(seen, _start(seen, k, init, rng), niter, spherical, place)
        best = found if best is None or found.inertia < best.inertia else best
    assert best is not None
    if seen is rows:
        return best
    assigned, squared = _assign(grilly.asarray(rows, device=place), best.centroids, place)
    return Clusters(
        best.centroids, assigned, np.bincount(assigned, minlength=k), float(squared.sum(dtype=np.float64)),
        best.history, best.repaired, best.converged,
    )  # fmt: skip


def _rows(x: Any) -> Vectors:
    array = np.asarray(x)
    if array.ndim != 2:
        raise ValueError(f"kmeans: expected rows (N, D); received shape {array.shape}.")
    return as_vectors(array, array.shape[1], "kmeans", finite=True)


def _start(rows: Vectors, k: int, init: Any, rng: np.random.Generator) -> Vectors:
    if not isinstance(init, str):
        given = as_vectors(init, rows.shape[1], "kmeans: init", finite=True)
        if len(given) != k:
            raise ValueError(f"kmeans: init has {len(given)} rows; expected k = {k}.")
        return given.copy()
    if init == "random":
        return rows[rng.choice(len(rows), k, replace=False)]
    if init != "kmeans++":
        raise ValueError(f"kmeans: init is 'kmeans++', 'random' or rows; received {init!r}.")
    if len(rows) > _SEEN * k:
        rows = rows[rng.choice(len(rows), _SEEN * k, replace=False)]
    return _spread(rows, k, rng)


def _spread(rows: Vectors, k: int, rng: np.random.Generator) -> Vectors:
    """Return k rows, each drawn with a chance in proportion to its squared distance from those before (k-means++)."""
    chosen = [int(rng.integers(len(rows)))]
    # Differences from one row keep squares small, so the expanded form below loses little.
    shifted = rows.astype(np.float64) - rows[chosen[0]]
    squares = np.einsum("ij,ij->i", shifted, shifted)
    nearest = squares.copy()
    while len(chosen) < k:
        total = nearest.sum()
        if total > 0:
            drawn = np.searchsorted(np.cumsum(nearest), rng.random() * total, side="right")
            at = int(min(drawn, len(rows) - 1))
        else:
            at = int(rng.integers(len(rows)))
        chosen.append(at)
        away = squares + squares[at] - 2.0 * (shifted @ shifted[at])
        nearest = np.minimum(nearest, np.maximum(away, 0.0))
        nearest[(rows == rows[at]).all(axis=1)] = 0.0
    return rows[chosen]


def _lloyd(rows: Vectors, centroids: Vectors, niter: int, spherical: bool, device: str) -> Clusters:
    placed = grilly.asarray(rows, device=device)
    if spherical:
        centroids = unit_rows(centroids)
    history, repaired, converged = [], 0, False
    assigned, squared = _assign(placed, centroids, device)
    for _ in range(niter):
        history.append(float(squared.sum(dtype=np.float64)))
        moved, mended = _means(rows, assigned, squared, centroids)
        repaired += mended
        centroids = unit_rows(moved) if spherical else moved
        before = assigned
        assigned, squared = _assign(placed, centroids, device)
        if np.array_equal(before, assigned):
            converged = True
            break
    inertia = float(squared.sum(dtype=np.float64))
    counts = np.bincount(assigned, minlength=len(centroids))
    return Clusters(centroids, assigned, counts, inertia, [*history, inertia], repaired, converged)


def _assign(rows: Any, centroids: Vectors, device: str) -> tuple[NDArray[np.int32], Vectors]:
    with grilly.no_grad():
        values, at = ops.search(rows, grilly.asarray(centroids, device=device), k=1, metric="sqeuclidean")
    return at.numpy()[:, 0], values.numpy()[:, 0]


def _means(
    rows: Vectors, assigned: NDArray[np.int32], squared: Vectors, centroids: Vectors
) -> tuple[Vectors, int]:
    """Return the mean of each cluster, and how many empty ones took a far row."""
    k = len(centroids)
    counts = np.bincount(assigned, minlength=k)
    empty = np.flatnonzero(counts == 0)
    mended = 0
    if len(empty):
        assigned = assigned.copy()
        for cluster, row in zip(empty, np.argsort(-squared, kind="stable"), strict=False):
            if squared[row] <= 0:
                break
            if counts[assigned[row]] > 1:
                counts[assigned[row]] -= 1
                counts[cluster], assigned[row] = 1, cluster
                mended += 1
    order = np.argsort(assigned, kind="stable")
    filled = np.flatnonzero(counts)
    starts = np.concatenate([[0], np.cumsum(counts[filled])[:-1]])
    moved = centroids.copy()
    sums = np.add.reduceat(rows[order], starts, axis=0, dtype=np.float64)
    moved[filled] = sums / counts[filled, None]
    return moved, mended
