"""Cases of retrieval (faults of neighbouring systems) and bad input; the right answers are exact arithmetic."""

from __future__ import annotations

import numpy as np
import pytest

from grilly_core.errors import ShapeError, WriteError
from grilly_ext_memory.functional.search import faiss_quantize
from grilly_ext_memory.index import product
from grilly_ext_memory.index.binary import IndexBinaryFlat
from grilly_ext_memory.index.clustering import kmeans
from grilly_ext_memory.index.factory import index_factory
from grilly_ext_memory.index.flat import IndexFlat, IndexScalarQuantizer
from grilly_ext_memory.index.inverted import IndexIVFFlat

MAX = float(np.finfo(np.float32).max)


def filled(x, metric="sqeuclidean"):
    index = IndexFlat(np.shape(x)[1], metric)
    index.add(x)
    return index


def test_ret_01_more_wanted_than_there_is():
    x = [[0, 0], [1, 0], [0, 2]]
    near = filled(x).search([[0, 0]], 5)
    assert near.distances.tolist() == [[0, 1, 4, MAX, MAX]]
    assert near.ids.tolist() == [[0, 1, 2, -1, -1]]
    alike = filled(x, "ip").search([[1, 1]], 5)
    assert alike.distances.tolist() == [[2, 1, 0, -MAX, -MAX]]
    assert alike.ids.tolist() == [[2, 1, 0, -1, -1]]
    with pytest.raises(ValueError, match="k must be at least 1; received 0"):
        filled(x).search([[0, 0]], 0)


def test_ret_01_of_bits_too():
    index = IndexBinaryFlat(8)
    index.add(np.array([[1], [0]], np.uint8))
    found = index.search(np.array([[3]], np.uint8), 3)
    assert found.distances.tolist() == [[1, 2, 2**31 - 1]] and found.distances.dtype == np.int32
    assert found.ids.tolist() == [[0, 1, -1]]
    assert index.range_search(np.array([[3]], np.uint8), 2).ids.tolist() == [0]
    assert index.reconstruct([]).shape == (0, 1)


@pytest.mark.parametrize("times", [1, 64])
def test_ret_03_large_coordinates_do_not_cancel(times):
    q = np.array([4000005, 2000003, 3000002], np.float32)
    x = (q + np.array([[-600, 700, 150], [-4, 6, 1]])).astype(np.float32)
    found = filled(x).search(np.tile(q, (times, 1)), 2)
    assert (found.ids == [1, 0]).all()
    assert (found.distances == [53, 872500]).all()


def test_ret_05_nan_is_never_near():
    with pytest.raises(ValueError, match="row 1 holds numbers that are not finite"):
        filled([[0, 0], [np.nan, 0], [1, 1]])
    index = filled([[0, 0], [1, 1]])
    assert index.search([[np.nan, 0]], 2).ids.tolist() == [[-1, -1]]
    assert index.ntotal == 2


def test_ret_07_ids_are_stable_and_never_given_twice():
    index = IndexFlat(1)
    index.add(np.arange(10.0)[:, None])
    assert index.remove_ids([0, 1, 2]) == 3
    assert index.add(np.zeros((3, 1))).tolist() == [10, 11, 12]
    assert index.ids.tolist() == [*range(3, 13)]
    other = IndexFlat(1)
    other.add(np.arange(5.0)[:, None])
    other.remove_ids([1])
    assert other.search([[3.0]], 1).ids.tolist() == [[3]]


def test_ret_09_probes_and_misspelt_options():
    index = IndexIVFFlat(1, 2)
    index.train(np.array([[0.0], [10.0]] * 4))
    index.add([[0], [1], [4.9], [5.1], [9], [10]])
    assert index.search([[4.9]], 4, nprobe=1).ids.tolist() == [[2, 1, 0, -1]]
    for probes in (2, 99):
        found = index.search([[4.9]], 4, nprobe=probes)
        assert found.ids.tolist() == [[2, 3, 1, 4]]
        np.testing.assert_allclose(found.distances, [[0, 0.04, 15.21, 16.81]], rtol=1e-5)
    with pytest.raises(AttributeError, match="nprobs"):
        index.nprobs = 4


def test_ret_11_the_callers_array_stays_and_may_be_read_only(tmp_path):
    rows = np.random.default_rng(0).random((12, 3)).astype(np.float32)
    np.save(tmp_path / "rows.npy", rows)
    mapped = np.load(tmp_path / "rows.npy", mmap_mode="r")
    index = filled(mapped, "cosine")
    assert index.search(mapped, 1).ids[:, 0].tolist() == [*range(12)]
    np.testing.assert_array_equal(mapped, rows)
    writable = rows.copy()
    held = filled(writable)
    writable[:] = 7
    np.testing.assert_array_equal(held.reconstruct(range(12)), rows)


@pytest.mark.parametrize("seed", range(10))
def test_ret_12_two_distinct_points_give_two_clusters(seed):
    found = kmeans(np.vstack([np.zeros((248, 2)), np.ones((1, 2))]), 2, seed=seed)
    assert sorted(found.centroids.tolist()) == [[0, 0], [1, 1]]
    assert found.inertia == 0
    assert sorted(found.counts.tolist()) == [1, 248]


def test_ret_13_limits_and_seeds_of_k_means():
    assert sorted(kmeans([[0], [5], [9]], 3).centroids[:, 0].tolist()) == [0, 5, 9]
    with pytest.raises(ValueError, match="n = 2 and k = 5"):
        kmeans([[0.0], [1.0]], 5)
    with pytest.raises(ValueError, match="not finite"):
        kmeans([[0.0], [np.nan]], 1)
    x = np.random.default_rng(0).random((500, 4))
    one, two, other = (kmeans(x, 16, seed=seed, niter=3) for seed in (1, 1, 2))
    assert np.array_equal(one.centroids, two.centroids)
    assert not np.array_equal(one.centroids, other.centroids)


def test_ret_14_fewer_points_than_clusters():
    found = kmeans([[0, 0], [0, 0], [1, 1], [1, 1]], 3)
    assert np.isfinite(found.centroids).all()
    assert (found.counts > 0).sum() == 2
    assert found.inertia == 0


def test_ret_15_dtypes_layouts_and_widths():
    x = np.random.default_rng(0).random((5, 2))
    want = filled(x.astype(np.float32)).search(x, 3)
    for given in (x, np.asfortranarray(x), x.tolist(), np.ascontiguousarray(x.T).T):
        assert filled(given).search(x, 3).ids.tolist() == want.ids.tolist()
    assert filled(x.astype(np.float16)).ntotal == 5
    with pytest.raises(ShapeError, match=r"width 3; received shape \(4, 2\), of width 2"):
        IndexFlat(3).add(np.zeros((4, 2)))
    assert filled(x).search(x[2], 1).ids.tolist() == [[2]]
    with pytest.raises(TypeError, match="rows of numbers"):
        IndexFlat(2).add([["a", "b"]])


def test_ret_17_constant_columns_of_the_scalar_quantiser():
    x = np.array([[1, 5, 0], [1, 6, 0], [1, 7, 0]], np.float32)
    index = IndexScalarQuantizer(3).train(x)
    index.add(x)
    made = index.reconstruct([0, 1, 2])
    assert (made[:, 0] == 1).all() and (made[:, 2] == 0).all()
    assert np.abs(made[:, 1] - x[:, 1]).max() <= 2 / 255
    zeros = IndexScalarQuantizer(2, "sq4").train(np.zeros((3, 2)))
    zeros.add(np.zeros((1, 2)))
    assert zeros.reconstruct(0).tolist() == faiss_quantize(np.zeros((3, 2))).quantized[0].tolist() == [0, 0]


def test_ret_18_cosine_with_zero_vectors():
    index = filled([[0, 0], [1, 0], [1, 1]], "cosine")
    found = index.search([[1, 0], [0, 0]], 3)
    np.testing.assert_allclose(1 - found.distances, [[1, 0.70710678, 0], [0, 0, 0]], atol=1e-6)
    assert found.ids.tolist() == [[1, 2, 0], [0, 1, 2]]


def test_bad_input_is_refused_and_loses_nothing():
    index = index_factory(4, "IVF2,Flat")
    with pytest.raises(RuntimeError, match="must be trained first"):
        index.add(np.zeros((1, 4)))
    with pytest.raises(RuntimeError, match="must be trained first"):
        index.search(np.zeros((1, 4)), 1)
    with pytest.raises(ValueError, match="2 lists need at least as many"):
        index.train(np.zeros((1, 4)))
    with pytest.raises(ValueError, match="metric: expected one of sqeuclidean"):
        IndexFlat(4, "euclid")
    with pytest.raises(ValueError, match="expected Flat, SQ8"):
        index_factory(4, "IVF2")
    flat = filled(np.eye(4))
    for ids, message in (
        ([7, 7], "twice"),
        ([3, 9], "already holds id 3"),
        ([-1, 9], "not negative"),
        ([9], "1 ids"),
    ):
        with pytest.raises(ValueError, match=message):
            flat.add_with_ids(np.ones((2, 4)), ids)
    with pytest.raises(WriteError, match="reset"):
        flat.train(np.eye(4))
    with pytest.raises(KeyError, match="no id 9"):
        flat.reconstruct(9)
    assert flat.ids.tolist() == [0, 1, 2, 3]
    with pytest.raises(ValueError, match="multiple of 8"):
        IndexBinaryFlat(12)


def test_filters_merging_and_order_of_ids():
    index = IndexFlat(1)
    index.add_with_ids([[1.0], [1.0], [1.0]], [30, 10, 20])
    assert index.search([[1.0]], 2).ids.tolist() == [[10, 20]]
    assert index.search([[1.0]], 3, allow=[30, 20]).ids.tolist() == [[20, 30, -1]]
    assert index.search([[1.0]], 3, allow=lambda ids: ids > 10).ids.tolist() == [[20, 30, -1]]
    other = IndexFlat(1)
    other.add_with_ids([[0.0]], [40])
    index.merge_from(other)
    assert index.ids.tolist() == [10, 20, 30, 40] and other.ntotal == 0
    with pytest.raises(ValueError, match="same kind"):
        index.merge_from(IndexFlat(1, "ip"))
    clash = IndexFlat(1)
    clash.add_with_ids([[0.0]], [40])
    with pytest.raises(ValueError, match="both indexes hold id 40"):
        index.merge_from(clash)


def test_equal_distances_in_different_lists_come_by_id():
    """Corners of a square around the query: all at one distance, in four lists, with ids against the order of lists."""
    corners = np.array([[1, 1], [1, -1], [-1, 1], [-1, -1]], np.float32)
    index = IndexIVFFlat(2, 4, nprobe=4).train(np.tile(corners, (4, 1)))
    index.add_with_ids(np.repeat(corners, 3, axis=0), [11, 0, 7, 3, 10, 2, 5, 9, 1, 8, 4, 6])
    for k in range(1, 13):
        assert index.search([[0, 0]], k).ids[0].tolist() == [*range(k)]


def test_codewords_are_learnt_and_used_on_one_device(monkeypatch):
    """Whatever device an index searches on: the nearest of two near codewords must not depend on it."""
    seen = []

    def spy(name):
        made = getattr(product, name)

        def call(x, *args, **options):
            seen.append(options["device"] if name == "kmeans" else str(x.device).partition(":")[0])
            return made(x, *args, **options)

        monkeypatch.setattr(product, name, call)

    spy("kmeans")
    spy("search")
    x = np.random.default_rng(0).random((40, 4), np.float32)
    index_factory(4, "PQ2x3").train(x).add(x)
    assert seen == ["cpu"] * 4
