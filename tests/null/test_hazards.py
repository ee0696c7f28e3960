"""The hazard tracker against a model that keeps every byte."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from grilly_core.hazards import HazardTracker, Intervals, dependency_levels

RANGES = st.tuples(st.integers(0, 30), st.integers(0, 12)).map(lambda p: (p[0], p[0] + p[1]))
ACCESS = st.tuples(st.integers(0, 2), RANGES).map(lambda p: (p[0], *p[1]))
LAUNCHES = st.lists(st.tuples(st.lists(ACCESS, max_size=3), st.lists(ACCESS, max_size=2)), max_size=25)


def _bytes(accesses):
    return {(buffer, i) for buffer, start, stop in accesses for i in range(start, stop)}


class Model:
    """Sets of single bytes; slow and obvious."""

    def __init__(self):
        self.read, self.written = set(), set()

    def launch(self, reads, writes):
        reads, writes = _bytes(reads), _bytes(writes)
        needed = bool(reads & self.written or writes & self.written or writes & self.read)
        if needed:
            self.read, self.written = set(), set()
        self.read |= reads
        self.written |= writes
        return needed


@given(LAUNCHES)
def test_the_tracker_agrees_with_the_model(launches):
    tracker, model = HazardTracker(), Model()
    assert [tracker.launch(*x) for x in launches] == [model.launch(*x) for x in launches]


@given(LAUNCHES)
def test_every_dependent_pair_has_a_barrier_between(launches):
    """Stated of the result: whatever the tracker leaves between two barriers may run in any order."""
    tracker = HazardTracker()
    level: list[tuple[set, set]] = []
    for reads, writes in launches:
        if tracker.launch(reads, writes):
            level = []
        r, w = _bytes(reads), _bytes(writes)
        for other_r, other_w in level:
            assert not (r & other_w or w & other_w or w & other_r)
        level.append((r, w))


@given(st.lists(RANGES, max_size=20), RANGES)
def test_intervals_are_the_set_of_their_elements(added, asked):
    intervals, model = Intervals(), set()
    for start, stop in added:
        intervals.add(start, stop)
        model |= set(range(start, stop))
    kept = list(intervals)
    assert {i for start, stop in kept for i in range(start, stop)} == model
    assert all(a[1] < b[0] for a, b in itertools.pairwise(kept))  # sorted, apart, joined where they touch
    assert intervals.overlaps(*asked) == bool(model & set(range(*asked)))


def test_conflicts_only_asks():
    tracker = HazardTracker()
    tracker.launch([], [(0, 0, 4)])
    assert tracker.conflicts([(0, 3, 5)], []) and tracker.conflicts([(0, 3, 5)], [])
    assert tracker.launch([(0, 0, 1)], [])


def test_reading_twice_needs_no_barrier_and_a_barrier_clears():
    tracker = HazardTracker()
    assert not tracker.launch([(0, 0, 4)], [(1, 0, 4)])
    assert not tracker.launch([(0, 0, 4)], [(2, 0, 4)])
    tracker.barrier()
    assert not tracker.launch([(1, 0, 4)], [(0, 0, 4)])


def test_a_chain_in_place_needs_a_barrier_each_time():
    tracker = HazardTracker()
    steps = [tracker.launch([(0, 0, 64)], [(0, 0, 64)]) for _ in range(4)]
    assert steps == [False, True, True, True]


@given(LAUNCHES)
def test_levels_are_the_longest_chains(launches):
    """Against the definition, on sets of single bytes."""
    accesses = [(_bytes(r), _bytes(w)) for r, w in launches]
    levels = []
    for i, (r, w) in enumerate(accesses):
        waits_for = [
            levels[j] for j, (x, y) in enumerate(accesses[:i]) if r & y or w & y or w & x
        ]  # fmt: skip
        levels.append(max(waits_for, default=-1) + 1)
    assert dependency_levels(launches) == levels
