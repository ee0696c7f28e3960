"""Graphs of neighbours against the exact index; where the optional library is not installed, the error says how to."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest

from grilly_core.errors import MissingPluginError
from grilly_ext_memory.index.files import load_index, save_index
from grilly_ext_memory.index.flat import IndexFlat
from grilly_ext_memory.index.graph import IndexHNSW

there = importlib.util.find_spec("hnswlib") is not None
needs = pytest.mark.skipif(not there, reason="hnswlib is not installed")
X = np.random.default_rng(0).normal(size=(2000, 16)).astype(np.float32)


@pytest.mark.skipif(there, reason="hnswlib is installed")
def test_without_the_library_the_error_says_what_to_install():
    with pytest.raises(MissingPluginError, match=r"\[hnsw\]"):
        IndexHNSW(4)


@needs
@pytest.mark.parametrize("metric", ["sqeuclidean", "l2", "ip", "cosine"])
def test_a_graph_finds_nearly_everything_and_its_distances_are_exact(metric, tmp_path):
    graph, flat = IndexHNSW(16, metric=metric, ef_search=200), IndexFlat(16, metric)
    for index in (graph, flat):
        index.add(X)
        index.remove_ids(range(100))
    found, want = graph.search(X[:50], 10), flat.search(X[:50], 10)
    shared = [len(set(a) & set(b)) for a, b in zip(found.ids, want.ids, strict=True)]
    assert np.mean(shared) > 9.5
    same = found.ids == want.ids
    np.testing.assert_allclose(found.distances[same], want.distances[same], rtol=1e-6, atol=1e-6)
    save_index(graph, tmp_path / "graph")
    again = load_index(tmp_path / "graph").search(X[:50], 10)
    np.testing.assert_array_equal(again.ids, found.ids)
    assert set(graph.search(X[:1], 5, allow=range(200, 204)).ids[0]) == {200, 201, 202, 203, -1}
    assert graph.search(np.full((1, 16), np.nan), 2).ids.tolist() == [[-1, -1]]
