"""Distances and nearest rows: exact arithmetic, float64 NumPy and finite differences are the oracles."""

from __future__ import annotations

import numpy as np
import pytest

import grilly_core as grilly
from grilly_core.errors import ShapeError
from grilly_core.gradcheck import gradcheck
from grilly_ext_memory.ops.distances import METRICS, distances, list_search, reference, search

MAX = float(np.finfo(np.float32).max)


def rows(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def found(queries, data, k, metric, mask=None):
    given = [None if x is None else grilly.asarray(x) for x in (queries, data, mask)]
    return [x.numpy() for x in search(*given, k=k, metric=metric)]


def best(queries, data, k, metric):
    """The k nearest by float64, ties by position."""
    table = reference(queries.astype(np.float64), data.astype(np.float64), metric)
    keys = -table if METRICS[metric] else table
    order = np.argsort(keys, axis=1, kind="stable")[:, :k]
    return np.take_along_axis(table, order, 1), order


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize(("q", "n", "d", "k"), [(1, 3000, 33, 10), (64, 5000, 20, 7), (300, 900, 5, 40)])
def test_the_nearest_rows_are_those_of_float64(metric, q, n, d, k):
    queries, data = rows(q, d, seed=1), rows(n, d, seed=2)
    values, positions = found(queries, data, k, metric)
    wanted, order = best(queries, data, k, metric)
    np.testing.assert_allclose(values, wanted, rtol=2e-6, atol=2e-6)
    assert (positions == order).mean() > 0.999  # what differs are scores that are equal in float32


@pytest.mark.parametrize("metric", METRICS)
def test_results_do_not_depend_on_how_many_queries_come_at_once(metric):
    queries, data = rows(70, 24, seed=3), rows(4000, 24, seed=4)
    data[1000:2000] = data[:1000]  # ties everywhere
    together = found(queries, data, 9, metric)
    alone = [np.concatenate(x) for x in zip(*[found(q[None], data, 9, metric) for q in queries], strict=True)]
    for a, b in zip(together, alone, strict=True):
        assert np.array_equal(a, b)


@pytest.mark.parametrize("times", [1, 64])
def test_large_coordinates_do_not_cancel(times):
    q = np.array([4000005, 2000003, 3000002], np.float32)
    data = (q + np.array([[-600, 700, 150], [-4, 6, 1]])).astype(np.float32)
    values, positions = found(np.tile(q, (times, 1)), data, 2, "sqeuclidean")
    assert (positions == [1, 0]).all()
    assert (values == [53, 872500]).all()


@pytest.mark.parametrize("times", [1, 64])
def test_nan_is_never_found(times):
    data = np.array([[0, 0], [np.nan, 0], [1, 1]], np.float32)
    values, positions = found(np.zeros((times, 2), np.float32), data, 3, "sqeuclidean")
    assert (positions == [0, 2, -1]).all()
    assert (values == np.float32([0, 2, MAX])).all()
    assert (found(np.full((times, 2), np.nan, np.float32), data, 2, "sqeuclidean")[1] == -1).all()


def test_more_wanted_than_there_is():
    data = np.array([[0, 0], [1, 0], [0, 2]], np.float32)
    values, positions = found(np.zeros((1, 2), np.float32), data, 5, "sqeuclidean")
    assert values.tolist() == [[0, 1, 4, MAX, MAX]]
    assert positions.tolist() == [[0, 1, 2, -1, -1]]
    values, positions = found(np.ones((1, 2), np.float32), data, 5, "ip")
    assert values.tolist() == [[2, 1, 0, -MAX, -MAX]]
    assert positions.tolist() == [[2, 1, 0, -1, -1]]


@pytest.mark.parametrize("size", [1e-25, 1e19, 1e30])
@pytest.mark.parametrize("metric", ["l2", "cosine"])
def test_lengths_beyond_the_range_of_squares(metric, size):
    queries, data = rows(3, 8, seed=5) * np.float32(size), rows(9, 8, seed=6) * np.float32(size)
    wanted = reference(queries.astype(np.float64), data.astype(np.float64), metric)
    np.testing.assert_allclose(
        distances(grilly.asarray(queries), grilly.asarray(data), metric=metric), wanted, 1e-5
    )


def test_a_row_of_zeros_is_at_cosine_distance_one():
    data = grilly.asarray([[0.0, 0.0], [1.0, 0.0]])
    assert distances(grilly.asarray([[0.0, 0.0], [1.0, 0.0]]), data, metric="cosine").tolist() == [
        [1, 1],
        [1, 0],
    ]


@pytest.mark.parametrize("metric", METRICS)
def test_gradients(metric):
    q, x = (grilly.asarray(rows(*shape, seed=7).astype(np.float64)) for shape in ((3, 4), (5, 4)))
    assert gradcheck(lambda a, b: distances(a, b, metric=metric), (q, x))


def test_equal_rows_have_no_gradient_of_their_distance():
    x = grilly.tensor([[1.0, 2.0]], requires_grad=True)
    distances(x, grilly.asarray([[1.0, 2.0]]), metric="l2").sum().backward()
    assert x.grad.tolist() == [[0.0, 0.0]]


def test_all_lists_are_a_search():
    queries, data = grilly.asarray(rows(30, 12, seed=8)), grilly.asarray(rows(500, 12, seed=9))
    offsets = grilly.asarray(np.array([0, 100, 100, 370, 500], np.int32))
    probes = grilly.asarray(np.tile(np.array([3, 0, 2, 1], np.int32), (30, 1)))
    lists = list_search(queries, data, offsets, probes, k=8, metric="l2")
    for a, b in zip(lists, search(queries, data, k=8, metric="l2"), strict=True):
        assert np.array_equal(a.numpy(), b.numpy())


def test_widths_are_named():
    with pytest.raises(ShapeError, match="width 3, data has the width 2"):
        distances(grilly.asarray(rows(1, 3)), grilly.asarray(rows(4, 2)), metric="ip")
