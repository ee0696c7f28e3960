"""Selection and search among codes: a stable sort in NumPy is the oracle."""

from __future__ import annotations

import numpy as np
import pytest

import grilly_core as grilly
from grilly_ext_memory.ops.codes import code_search, hamming_topk
from grilly_ext_memory.ops.selection import topk


def tensors(*arrays):
    return [None if x is None else grilly.asarray(x) for x in arrays]


@pytest.mark.parametrize("largest", [False, True])
@pytest.mark.parametrize(("q", "n", "k"), [(3, 1000, 1), (5, 2000, 100), (2, 50, 50)])
def test_ties_keep_the_lower_position(q, n, k, largest):
    scores = np.random.default_rng(0).integers(0, 20, (q, n)).astype(np.float32)
    values, positions = topk(grilly.asarray(scores), k=k, largest=largest)
    order = np.argsort(-scores if largest else scores, axis=1, kind="stable")[:, :k]
    assert np.array_equal(positions.numpy(), order)
    assert np.array_equal(values.numpy(), np.take_along_axis(scores, order, 1))


def test_infinity_is_found_and_nan_is_not():
    scores = grilly.asarray(np.array([[np.inf, np.nan, -np.inf, 0]], np.float32))
    assert topk(scores, k=4)[1].tolist() == [[2, 3, 0, -1]]
    assert topk(scores, k=4, largest=True)[1].tolist() == [[0, 3, 2, -1]]


def test_values_have_the_gradient_of_a_choice():
    x = grilly.tensor([[3.0, 1.0, 2.0]], requires_grad=True)
    topk(x, k=2)[0].sum().backward()
    assert x.grad.tolist() == [[0.0, 1.0, 1.0]]


def test_codes_are_sums_of_tables():
    rng = np.random.default_rng(1)
    tables, codes = (
        rng.standard_normal((4, 1, 6, 256)).astype(np.float32),
        rng.integers(0, 256, (700, 6), np.uint8),
    )
    offsets, probes = np.array([0, 700], np.int32), np.zeros((4, 1), np.int32)
    values, positions = code_search(*tensors(tables, codes, offsets, probes), k=9)
    scores = np.zeros((4, 700), np.float32)
    for m in range(6):
        scores += tables[:, 0, m, codes[:, m]]
    order = np.argsort(scores, axis=1, kind="stable")[:, :9]
    assert np.array_equal(positions.numpy(), order)
    assert np.array_equal(values.numpy(), np.take_along_axis(scores, order, 1))


def test_bits_that_differ_are_counted():
    rng = np.random.default_rng(2)
    queries, data = (rng.integers(0, 1 << 32, (n, 4), np.uint32) for n in (5, 900))
    allowed = rng.integers(0, 2, 900).astype(bool)
    values, positions = hamming_topk(*tensors(queries, data, allowed), k=12)
    counts = np.bitwise_count(queries[:, None] ^ data).sum(-1).astype(np.int64)
    order = np.argsort(np.where(allowed, counts, 1 << 40), axis=1, kind="stable")[:, :12]
    assert np.array_equal(positions.numpy(), order)
    assert np.array_equal(values.numpy(), np.take_along_axis(counts, order, 1))
