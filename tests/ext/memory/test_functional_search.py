"""FAISS's operations as functions, against NumPy in float64 and by hand."""

from __future__ import annotations

import numpy as np
import pytest

import grilly
from grilly_core.errors import DTypeError, ShapeError
from grilly_core.gradcheck import gradcheck
from grilly_ext_memory.functional.search import (
    faiss_distance,
    faiss_ivf_filter,
    faiss_kmeans,
    faiss_kmeans_update,
    faiss_quantize,
    faiss_topk,
    hamming_topk,
)

RNG = np.random.default_rng(0)
Q, X = RNG.normal(size=(7, 5)), RNG.normal(size=(40, 5))


def wide(x):
    return grilly.asarray(x, dtype="float64")


APART = Q[:, None] - X[None]
COSINES = (Q @ X.T) / np.linalg.norm(Q, axis=1)[:, None] / np.linalg.norm(X, axis=1)
FORMULAS = {
    "l2": np.sqrt((APART**2).sum(-1)),
    "sqeuclidean": (APART**2).sum(-1),
    "l1": np.abs(APART).sum(-1),
    "cosine": 1 - COSINES,
    "dot": -(Q @ X.T),
    "ip": Q @ X.T,
}


@pytest.mark.parametrize("name", FORMULAS)
def test_distances_are_the_formulas(name):
    np.testing.assert_allclose(faiss_distance(wide(Q), wide(X), name).numpy(), FORMULAS[name], rtol=1e-10)
    single = faiss_distance(Q[0].tolist(), X, name)
    assert single.dtype is grilly.float32 and single.shape == (1, 40)
    np.testing.assert_allclose(single.numpy()[0], FORMULAS[name][0], rtol=1e-4, atol=1e-5)
    q, x = (wide(t[:3]).requires_grad_() for t in (Q, X))
    assert gradcheck(lambda a, b: faiss_distance(a, b, name), [q, x])


def test_the_smallest_distances_by_a_stable_sort():
    table = RNG.integers(0, 5, size=(6, 30)).astype(np.float32)
    values, indices = faiss_topk(table, 12)
    order = np.argsort(table, axis=1, kind="stable")[:, :12]
    assert indices.dtype is grilly.int64
    np.testing.assert_array_equal(indices.numpy(), order)
    np.testing.assert_array_equal(values.numpy(), np.take_along_axis(table, order, 1))
    assert faiss_topk(table, 99).indices.shape == (6, 30)
    assert faiss_topk([1.0, np.nan, 3.0], 3, largest=True).indices.tolist() == [[2, 0, -1]]
    assert faiss_topk(np.zeros((2, 0)), 3).values.shape == (2, 0)
    x = wide(table[0]).requires_grad_()
    faiss_topk(x, 2).values.sum().backward()
    assert np.flatnonzero(x.grad.numpy()).tolist() == sorted(order[0, :2].tolist())


def test_bits_by_popcount():
    q, x = RNG.integers(0, 1 << 32, (3, 4), np.uint32), RNG.integers(0, 1 << 32, (50, 4), np.uint32)
    counts = np.bitwise_count(q[:, None] ^ x[None]).sum(-1)
    order = np.argsort(counts, axis=1, kind="stable")[:, :9]
    found = hamming_topk(q, x, 9)
    np.testing.assert_array_equal(found.indices.numpy(), order)
    np.testing.assert_array_equal(found.values.numpy(), np.take_along_axis(counts, order, 1))
    assert found.indices.dtype is grilly.int64
    assert hamming_topk(q[0], x[:2], 9).values.shape == (1, 2)
    with pytest.raises(DTypeError, match="uint32"):
        hamming_topk(q.astype(np.int32), x, 1)


def test_lists_hold_every_vector_once():
    """Without a query the nearest centroid; with one the union of its lists, which with all lists is everything."""
    centroids = X[:6]
    distances = ((X[:, None] - centroids[None]) ** 2).sum(-1)
    lists = faiss_ivf_filter(X, centroids, 6)
    np.testing.assert_array_equal(lists.numpy(), distances.argmin(1))
    assert lists.dtype is grilly.int64
    near = np.argsort(((Q[:, None] - centroids[None]) ** 2).sum(-1), axis=1)[:, :2]
    for probes, ids in zip(near, faiss_ivf_filter(X, centroids, query=Q, nprobe=2), strict=True):
        assert ids.tolist() == np.flatnonzero(np.isin(lists.numpy(), probes)).tolist()
    for ids in faiss_ivf_filter(X, centroids, query=Q, nprobe=99):
        assert ids.tolist() == list(range(40))


def test_k_means_and_its_update():
    """Lloyd's fixed point: the update of what k-means found changes nothing."""
    found = faiss_kmeans(X, 4, 100, seed=3)
    distances = ((X[:, None] - found.centroids.numpy()[None]) ** 2).sum(-1)
    np.testing.assert_array_equal(found.assignments.numpy(), distances.argmin(1))
    np.testing.assert_allclose(found.inertia, distances.min(1).sum(), rtol=1e-5)
    moved = faiss_kmeans_update(X, found.centroids, found.assignments, 4)
    np.testing.assert_allclose(moved.numpy(), found.centroids.numpy(), rtol=1e-5, atol=1e-6)
    again = faiss_kmeans(X, 4, 100, seed=3)
    assert np.array_equal(again.centroids.numpy(), found.centroids.numpy())


def test_an_empty_cluster_keeps_its_centroid():
    to = np.array([0, 2, 2, 0] * 10)
    centroids = RNG.normal(size=(4, 5))
    moved = faiss_kmeans_update(wide(X), wide(centroids), to).numpy()
    np.testing.assert_allclose(moved[0], X[to == 0].mean(0), rtol=1e-12)
    np.testing.assert_allclose(moved[2], X[to == 2].mean(0), rtol=1e-12)
    np.testing.assert_array_equal(moved[[1, 3]], centroids[[1, 3]])
    x, c = wide(X[:8]).requires_grad_(), wide(centroids).requires_grad_()
    assert gradcheck(lambda a, b: faiss_kmeans_update(a, b, to[:8]), [x, c])


def test_quantisers():
    book = RNG.normal(size=(9, 5))
    quantized, codes = faiss_quantize(X, book, nbits=4)
    want = ((X[:, None] - book[None]) ** 2).sum(-1).argmin(1)
    np.testing.assert_array_equal(codes.numpy(), want)
    np.testing.assert_allclose(quantized.numpy(), book[want], rtol=1e-6)
    x, books = RNG.normal(size=(30, 6)), RNG.normal(size=(3, 7, 2))
    made = faiss_quantize(x, books, nbits=3)
    parts = x.reshape(30, 3, 1, 2) - books[None]
    want = (parts**2).sum(-1).argmin(-1)
    np.testing.assert_array_equal(made.codes.numpy(), want)
    np.testing.assert_allclose(made.quantized.numpy(), books[np.arange(3), want].reshape(30, 6), rtol=1e-6)
    for nbits in (4, 8):  # at most half a step in each column
        made = faiss_quantize(x, nbits=nbits)
        step = np.ptp(x, axis=0) / (2**nbits - 1)
        assert (np.abs(made.quantized.numpy() - x) <= 0.5001 * step + 1e-6).all()
        assert made.codes.numpy().max() == 2**nbits - 1 and made.codes.dtype is grilly.uint8
    flat = faiss_quantize([[1.0, 0.0], [1.0, 2.0]])
    assert flat.quantized.tolist() == [[1, 0], [1, 2]]
    long = wide(book).requires_grad_()
    faiss_quantize(wide(X), long).quantized.sum().backward()
    np.testing.assert_allclose(long.grad.numpy()[:, 0], np.bincount(codes.numpy(), minlength=9))


def test_bad_input():
    with pytest.raises(ValueError, match="distance_type is one of"):
        faiss_distance(Q, X, "euclid")
    with pytest.raises(ShapeError, match="width 5, vectors have 4"):
        faiss_distance(Q, X[:, :4])
    with pytest.raises(ValueError, match="k must be at least 1"):
        faiss_topk(X, 0)
    with pytest.raises(ValueError, match="nlist is 100 and there are 6 centroids"):
        faiss_ivf_filter(X, X[:6], 100)
    with pytest.raises(ValueError, match="nprobe must be at least 1"):
        faiss_ivf_filter(X, X[:6], query=Q, nprobe=0)
    with pytest.raises(ValueError, match="n = 40 and k = 41"):
        faiss_kmeans(X, 41)
    with pytest.raises(IndexError, match=r"\[0, 2\)"):
        faiss_kmeans_update(X[:3], X[:2], [0, 1, 2])
    with pytest.raises(ShapeError, match="whole numbers"):
        faiss_kmeans_update(X[:3], X[:2], [0.0, 1.0, 1.0])
    with pytest.raises(ValueError, match="9 codewords do not fit into nbits = 3"):
        faiss_quantize(X, X[:9], nbits=3)
    with pytest.raises(ShapeError, match="need a codebook"):
        faiss_quantize(X, np.ones((2, 4, 2)))
    with pytest.raises(ValueError, match="nbits is 1 to 8"):
        faiss_quantize(X, nbits=9)
