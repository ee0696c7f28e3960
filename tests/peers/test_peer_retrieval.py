"""Indexes against FAISS 1.15 and float64 NumPy: flat results the same up to ties, codes no worse, k-means as good."""

from __future__ import annotations

import itertools

import faiss
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grilly_ext_memory.index.binary import IndexBinaryFlat
from grilly_ext_memory.index.clustering import kmeans
from grilly_ext_memory.index.factory import index_factory
from grilly_ext_memory.index.flat import IndexFlat

RNG = np.random.default_rng(0)
CENTRES = RNG.normal(size=(40, 32))
X = (CENTRES[RNG.integers(40, size=5000)] + 0.4 * RNG.normal(size=(5000, 32))).astype(np.float32)
Q = (CENTRES[RNG.integers(40, size=300)] + 0.4 * RNG.normal(size=(300, 32))).astype(np.float32)


def exact(q, x, metric):
    """Distances in float64."""
    q, x = q.astype(np.float64), x.astype(np.float64)
    if metric == "ip":
        return q @ x.T
    if metric == "cosine":
        return 1 - (q @ x.T) / np.linalg.norm(q, axis=1)[:, None] / np.linalg.norm(x, axis=1)
    apart = q[:, None] - x[None]
    if metric == "l1":
        return np.abs(apart).sum(-1)
    return (apart**2).sum(-1) if metric == "sqeuclidean" else np.sqrt((apart**2).sum(-1))


def agrees(found, distances, largest):
    """The k best distances of float64, and ids whose distances these are."""
    k = found.ids.shape[1]
    best = -np.sort(-distances, axis=1)[:, :k] if largest else np.sort(distances, axis=1)[:, :k]
    np.testing.assert_allclose(found.distances, best, rtol=2e-5, atol=1e-5)
    np.testing.assert_allclose(np.take_along_axis(distances, found.ids, 1), best, rtol=2e-5, atol=1e-5)


@pytest.mark.parametrize("metric", ["sqeuclidean", "l2", "ip", "cosine", "l1"])
@settings(max_examples=15, deadline=None)
@given(
    st.integers(1, 300), st.integers(1, 40), st.integers(1, 20), st.integers(1, 9), st.integers(0, 2**32 - 1)
)
def test_flat_is_exact_on_any_shape(metric, n, d, k, queries, seed):
    rng = np.random.default_rng(seed)
    x, q = rng.normal(size=(n, d)).astype(np.float32), rng.normal(size=(queries, d)).astype(np.float32)
    index = IndexFlat(d, metric)
    index.add(x)
    found = index.search(q, min(k, n))
    agrees(found, exact(q, x, metric), metric == "ip")
    for at in range(0, queries, 3):  # the same bits whether queries come alone or together
        alone = index.search(q[at], min(k, n))
        assert np.array_equal(alone.ids[0], found.ids[at]) and np.array_equal(
            alone.distances[0], found.distances[at]
        )


@pytest.mark.parametrize(("metric", "peer"), [("sqeuclidean", faiss.IndexFlatL2), ("ip", faiss.IndexFlatIP)])
def test_flat_finds_what_faiss_finds(metric, peer):
    index, theirs = IndexFlat(32, metric), peer(32)
    index.add(X)
    theirs.add(X)
    found, (distances, ids) = index.search(Q, 10), theirs.search(Q, 10)
    np.testing.assert_allclose(found.distances, distances, rtol=1e-4, atol=1e-4)
    assert (found.ids == ids).mean() > 0.99


@pytest.mark.parametrize("metric", ["sqeuclidean", "ip", "cosine", "l1"])
def test_all_lists_are_as_good_as_flat(metric):
    index, flat = index_factory(32, "IVF30,Flat", metric).train(X), IndexFlat(32, metric)
    index.add(X)
    flat.add(X)
    found, want = index.search(Q, 10, nprobe=30), flat.search(Q, 10)
    assert np.array_equal(found.ids, want.ids) and np.array_equal(found.distances, want.distances)


def recall(ids, want):
    return np.mean([len(set(a) & set(b)) / len(b) for a, b in zip(ids, want, strict=True)])


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [("SQ8", "SQ8"), ("SQ4", "SQ4"), ("SQfp16", "SQfp16"), ("PQ8", "PQ8"), ("PQ16", "PQ16"), ("IVF30,PQ8", "IVF30,PQ8"),
     ("IVF30,SQ8", "IVF30,SQ8")],
)  # fmt: skip
def test_codes_lose_no_more_than_those_of_faiss(ours, theirs):
    index, peer, flat = index_factory(32, ours), faiss.index_factory(32, theirs), IndexFlat(32)
    index.train(X)
    peer.train(X)
    for each in (index, peer, flat):
        each.add(X)
    if hasattr(index, "nprobe"):
        index.nprobe = peer.nprobe = 8
        peer.make_direct_map()
    error = ((index.reconstruct(range(5000)) - X) ** 2).sum()
    assert error <= 1.02 * ((peer.reconstruct_n(0, 5000) - X) ** 2).sum()
    want = flat.search(Q, 10).ids
    assert recall(index.search(Q, 10).ids, want) >= recall(peer.search(Q, 10)[1], want) - 0.03


def test_inverted_lists_recall_as_much_as_those_of_faiss():
    index, peer, flat = (
        index_factory(32, "IVF50,Flat").train(X),
        faiss.index_factory(32, "IVF50,Flat"),
        IndexFlat(32),
    )
    peer.train(X)
    for each in (index, peer, flat):
        each.add(X)
    want = flat.search(Q, 10).ids
    for probes in (1, 3, 7):
        index.nprobe = peer.nprobe = probes
        assert recall(index.search(Q, 10).ids, want) >= recall(peer.search(Q, 10)[1], want) - 0.05
    assert recall(index.search(Q, 10).ids, want) >= 0.9  # nprobe = sqrt(nlist)


@pytest.mark.parametrize("k", [8, 64])
def test_the_objective_of_k_means_is_within_two_percent(k):
    peer = faiss.Kmeans(32, k, niter=25, nredo=5, seed=1, max_points_per_centroid=10**6)
    peer.train(X)
    found = kmeans(X, k, nredo=5)
    assert found.inertia <= 1.02 * peer.obj[-1]
    np.testing.assert_allclose(
        found.inertia, exact(X, found.centroids, "sqeuclidean").min(axis=1).sum(), rtol=1e-4
    )


def test_bits_against_faiss():
    rows, queries = RNG.integers(0, 256, (400, 24), np.uint8), RNG.integers(0, 256, (9, 24), np.uint8)
    index, peer = IndexBinaryFlat(192), faiss.IndexBinaryFlat(192)
    index.add(rows)
    peer.add(rows)
    found, (distances, _) = index.search(queries, 20), peer.search(queries, 20)
    np.testing.assert_array_equal(found.distances, distances)
    apart = np.unpackbits(queries[:, None] ^ rows[None], axis=2).sum(axis=2)
    np.testing.assert_array_equal(np.take_along_axis(apart, found.ids, 1), found.distances)
    np.testing.assert_array_equal(index.reconstruct(range(400)), rows)


def test_range_search_against_faiss():
    index, peer = IndexFlat(32), faiss.IndexFlatL2(32)
    index.add(X)
    peer.add(X)
    found, (limits, _, ids) = index.range_search(Q, 8.0), peer.range_search(Q, 8.0)
    np.testing.assert_array_equal(found.limits, limits)
    for a, b in itertools.pairwise(limits):
        assert set(found.ids[a:b]) == set(ids[a:b])
        assert (np.diff(found.distances[a:b]) >= 0).all()
