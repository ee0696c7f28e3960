"""A line search for the strong Wolfe conditions (Nocedal and Wright, Numerical Optimization, algorithms 3.5 and 3.6).

Trial steps are chosen as in PyTorch's L-BFGS (minFunc's rules), so that both take the same path.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from grilly_core.tensor import Tensor

__all__ = ["Point", "strong_wolfe"]

#: A function value must fall by this share of what the slope promises.
_SUFFICIENT = 1e-4
#: The slope must fall to this share.
_CURVATURE = 0.9


@dataclass(slots=True)
class Point:
    """A step along the line: its length, the value, the gradient there, and the slope along the line."""

    t: float
    value: float
    grad: Tensor
    slope: float


def cubic_minimum(a: Point, b: Point, bounds: tuple[float, float] | None = None) -> float:
    """Return the minimum of the cubic through two points with their slopes, within bounds (equation 3.59)."""
    low, high = bounds or (min(a.t, b.t), max(a.t, b.t))
    d1 = a.slope + b.slope - 3.0 * _divided(a.value - b.value, a.t - b.t)
    square = d1 * d1 - a.slope * b.slope
    if not square >= 0.0:
        return (low + high) / 2.0
    d2 = math.sqrt(square)
    if a.t <= b.t:
        best = b.t - (b.t - a.t) * _divided(b.slope + d2 - d1, b.slope - a.slope + 2.0 * d2)
    else:
        best = a.t - (a.t - b.t) * _divided(a.slope + d2 - d1, a.slope - b.slope + 2.0 * d2)
    return min(max(best, low), high)


def _divided(a: float, b: float) -> float:
    """Divide as tensors do: by 0 it gives an infinity or NaN."""
    if b != 0.0:
        return a / b
    return math.nan if a == 0.0 or math.isnan(a) else math.copysign(math.inf, a)


def strong_wolfe(
    evaluate: Callable[[float], Point], start: Point, t: float, length: float, tolerance: float, budget: int
) -> tuple[Point, int]:
    """Search from `start`, whose `t` is 0, with first trial `t`.

    Parameters
    ----------
    evaluate : callable
        Gives the point at a step.
    start : Point
    t : float
    length : float
        The largest element of the direction; brackets that move no parameter by `tolerance` end the search.
    tolerance : float
    budget : int
        How many evaluations may follow the first.

    Returns
    -------
    Point
        The best one found.
    int
        How many evaluations it took.
    """
    search = _Search(evaluate, start, budget)
    bracket, done = search.bracket(t)
    if not done:
        search.zoom(bracket, length, tolerance)
    assert search.found is not None
    return search.found, search.evaluations


class _Search:
    """The two phases: first a bracket is sought, then it is narrowed."""

    def __init__(self, evaluate: Callable[[float], Point], start: Point, budget: int) -> None:
        self._evaluate = evaluate
        self._start = start
        self._budget = budget
        self._turns = 0
        self.evaluations = 0
        self.found: Point | None = None

    def _at(self, t: float) -> Point:
        self.evaluations += 1
        return self._evaluate(t)

    def _too_high(self, p: Point) -> bool:
        return p.value > self._start.value + _SUFFICIENT * p.t * self._start.slope

    def _flat(self, p: Point) -> bool:
        return abs(p.slope) <= -_CURVATURE * self._start.slope

    def bracket(self, t: float) -> tuple[list[Point], bool]:
        """Return one point that will do and True, or two that have such a point between them."""
        before, new = self._start, self._at(t)
        while self._turns < self._budget:
            if self._too_high(new) or (self._turns > 1 and new.value >= before.value):
                return [before, new], False
            if self._flat(new):
                self.found = new
                return [new], True
            if new.slope >= 0.0:
                return [before, new], False
            bounds = (new.t + 0.01 * (new.t - before.t), new.t * 10.0)
            t = cubic_minimum(before, new, bounds)
            before, new = new, self._at(t)
            self._turns += 1
        return [self._start, new], False

    def zoom(self, bracket: list[Point], length: float, tolerance: float) -> None:
        """Narrow a bracket, in place, until it holds a point that will do, or the budget is spent."""
        low = 0 if bracket[0].value <= bracket[-1].value else 1
        slow = False
        while self._turns < self._budget and not abs(bracket[1].t - bracket[0].t) * length < tolerance:
            t, slow = self._trial(bracket, slow)
            new = self._at(t)
            self._turns += 1
            high = 1 - low
            if self._too_high(new) or new.value >= bracket[low].value:
                bracket[high] = new
                low = 0 if bracket[0].value <= bracket[1].value else 1
                continue
            done = self._flat(new)
            if not done and new.slope * (bracket[high].t - bracket[low].t) >= 0.0:
                bracket[high] = bracket[low]
            bracket[low] = new
            if done:
                break
        self.found = bracket[low]

    @staticmethod
    def _trial(bracket: list[Point], slow: bool) -> tuple[float, bool]:
        """Return the next step, away from the ends if the last one made little progress too."""
        t = cubic_minimum(bracket[0], bracket[1])
        least, most = sorted(p.t for p in bracket)
        margin = 0.1 * (most - least)
        if not min(most - t, t - least) < margin:
            return t, False
        if not (slow or t >= most or t <= least):
            return t, True
        return (most - margin if abs(t - most) < abs(t - least) else least + margin), False
