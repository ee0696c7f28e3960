"""The best k of a stream: a heap of pairs (score, position) with the worst at its root. Compiled by Numba.

Scores are such that smaller is nearer. Pairs are compared as pairs, so of equal scores the lower position stays, in
whatever order they come. An empty place is (infinity, the largest position).
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

__all__ = ["NOWHERE", "empty_heaps", "push", "sort_heap"]

NOWHERE: Final = (1 << 31) - 1

_sink: Any = None  # replaced by `sink`, compiled


def empty_heaps(*shape: int) -> tuple[NDArray[np.float32], NDArray[np.int32]]:
    """Return heaps with nothing in them."""
    return np.full(shape, np.inf, np.float32), np.full(shape, NOWHERE, np.int32)


def sink(scores: Any, places: Any, size: int) -> None:
    """Let the pair at the root sink to its place."""
    score, place, at = scores[0], places[0], 0
    while True:
        child = 2 * at + 1
        if child >= size:
            break
        other = child + 1
        if other < size and (
            scores[other] > scores[child]
            or (scores[other] == scores[child] and places[other] > places[child])
        ):
            child = other
        if score > scores[child] or (score == scores[child] and place > places[child]):
            break
        scores[at], places[at] = scores[child], places[child]
        at = child
    scores[at], places[at] = score, place


def push(scores: Any, places: Any, score: Any, place: int) -> None:
    """Put a pair in the place of the worst, if it is better."""
    if score < scores[0] or (score == scores[0] and place < places[0]):
        scores[0], places[0] = score, place
        _sink(scores, places, scores.size)


def sort_heap(scores: Any, places: Any) -> None:
    """Bring a heap into rising order."""
    for end in range(scores.size - 1, 0, -1):
        score, place = scores[0], places[0]
        scores[0], places[0] = scores[end], places[end]
        scores[end], places[end] = score, place
        _sink(scores, places, end)


class Heaps:
    """`push` and `sort_heap`, compiled."""

    def __init__(self, runtime: Any) -> None:
        sinking = runtime.njit(sink)
        self.push, self.sort = runtime.njit(push), runtime.njit(sort_heap)
        self.push.replaced["_sink"] = sinking
        self.sort.replaced["_sink"] = sinking
