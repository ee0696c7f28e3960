"""Hits of a search, and their order: nearest first, of equals the lower id first."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from grilly_ext_memory.index.arguments import Vectors

__all__ = ["Hits", "RangeHits", "nothing", "ranked", "worst"]

Ids = NDArray[np.int64]
_MAX: Final = float(np.finfo(np.float32).max)


class Hits(NamedTuple):
    """The nearest rows of each query.

    Attributes
    ----------
    distances : ndarray of float32, (Q, k)
        Nearest first. Where there are fewer than k rows: the largest float32, or its negative for ``"ip"``.
    ids : ndarray of int64, (Q, k)
        Of equal distances the lower id comes first; -1 where there are fewer than k rows.
    """

    distances: Vectors
    ids: Ids


class RangeHits(NamedTuple):
    """All rows within a radius of each query; those of query i lie at ``limits[i]:limits[i + 1]``, nearest first.

    Attributes
    ----------
    limits : ndarray of int64, (Q + 1,)
    distances : ndarray of float32
    ids : ndarray of int64
    """

    limits: Ids
    distances: Vectors
    ids: Ids


def worst(largest: bool) -> float:
    """Return the distance of what is not there."""
    return -_MAX if largest else _MAX


def nothing(queries: int, k: int, largest: bool) -> Hits:
    """Return hits that found nothing."""
    return Hits(np.full((queries, k), worst(largest), np.float32), np.full((queries, k), -1, np.int64))


def ranked(distances: Vectors, ids: Ids, k: int, largest: bool) -> Hits:
    """Return the best k of candidates ``(Q, C)``, ordered; an id of -1 is no candidate."""
    missing = ids < 0
    key = np.where(missing, np.float32(np.inf), -distances if largest else distances)
    order = np.lexsort((ids, key, missing), axis=-1)[:, :k]
    best = Hits(np.take_along_axis(distances, order, 1), np.take_along_axis(ids, order, 1))
    gone = best.ids < 0
    best.distances[gone] = worst(largest)
    if best.ids.shape[1] == k:
        return best
    made = nothing(len(ids), k, largest)
    made.distances[:, : best.ids.shape[1]], made.ids[:, : best.ids.shape[1]] = best
    return made
