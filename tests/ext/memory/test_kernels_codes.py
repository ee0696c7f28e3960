"""Search in lists, among codes and bits by kernels: the oracles are the definitions in NumPy, bit for bit."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.ext.memory.test_kernels_search import DEVICES, exact, mask_shape, needs_vulkan, there

import grilly_core as grilly
from grilly_ext_memory.ops.codes import code_search, hamming_topk
from grilly_ext_memory.ops.distances import METRICS, in_lists, list_search
from grilly_ext_memory.ops.product import code_tables
from grilly_ext_memory.ops.selection import best


@pytest.fixture(autouse=True)
def _no_fallback():
    with grilly.fallback("error"):
        yield


def lists_of(rng, rows, lists, queries, probed):
    """Return offsets of lists of any lengths, and probes among which are strangers and repetitions."""
    inner = np.sort(rng.integers(0, rows + 1, lists - 1))
    offsets = np.concatenate([[0], inner, [rows]]).astype(np.int32)
    return offsets, rng.integers(-1, lists + 1, (queries, probed)).astype(np.int32)


def same(found, want):
    np.testing.assert_array_equal(found[1].numpy(), want[1])
    np.testing.assert_array_equal(found[0].numpy(), want[0])


@settings(max_examples=40, deadline=None)
@given(
    device=st.sampled_from(DEVICES),
    queries=st.sampled_from([1, 4, 30]),
    rows=st.sampled_from([5, 130, 1500]),
    lists=st.sampled_from([1, 3, 12]),
    probed=st.sampled_from([0, 1, 2, 5]),
    k=st.sampled_from([1, 10, 200]),
    metric=st.sampled_from(list(METRICS)),
    masks=st.sampled_from([0, 1, 2]),
    seed=st.integers(0, 1 << 30),
)
def test_lists_are_searched_by_the_definition(device, queries, rows, lists, probed, k, metric, masks, seed):
    rng = np.random.default_rng(seed)
    q, x = (np.round(rng.standard_normal((n, 7)) * 4).astype(np.float32) for n in (queries, rows))
    offsets, probes = lists_of(rng, rows, lists, queries, probed)
    mask = None if masks == 0 else rng.random(mask_shape(device, masks, queries, rows)) < 0.6
    found = list_search(*there(q, x, offsets, probes, mask, device=device), k=k, metric=metric)
    same(found, best(exact(q, x, metric), in_lists(offsets, probes, rows, mask), k, METRICS[metric]))


@settings(max_examples=40, deadline=None)
@given(
    device=st.sampled_from(DEVICES),
    queries=st.sampled_from([1, 4, 30]),
    rows=st.sampled_from([3, 300, 1500]),
    codes=st.sampled_from([1, 4, 7, 8]),
    width=st.sampled_from([1, 16, 256]),
    probed=st.sampled_from([1, 3]),
    k=st.sampled_from([1, 10, 600]),
    largest=st.booleans(),
    seed=st.integers(0, 1 << 30),
)
def test_codes_are_searched_by_the_definition(device, queries, rows, codes, width, probed, k, largest, seed):
    rng = np.random.default_rng(seed)
    tables = np.round(rng.standard_normal((queries, probed, codes, width)) * 4).astype(np.float32)
    picks = rng.integers(0, 256, (rows, codes), np.uint8)
    offsets, probes = lists_of(rng, rows, 5, queries, probed)
    mask = rng.random(rows) < 0.8
    scores = np.full((queries, rows), np.nan, np.float32)
    for i in range(queries):
        for p in reversed(range(probed)):
            if 0 <= probes[i, p] < 5:
                some = slice(offsets[probes[i, p]], offsets[probes[i, p] + 1])
                entries = tables[i, p][np.arange(codes), np.minimum(picks[some], width - 1)]
                scores[i, some] = np.cumsum(entries, axis=1, dtype=np.float32)[:, -1] if codes else 0
    found = code_search(*there(tables, picks, offsets, probes, mask, device=device), k=k, largest=largest)
    same(found, best(scores, in_lists(offsets, probes, rows, mask), k, largest))


@settings(max_examples=40, deadline=None)
@given(
    device=st.sampled_from(DEVICES),
    queries=st.sampled_from([1, 4, 30]),
    rows=st.sampled_from([3, 300, 9000]),
    words=st.sampled_from([1, 3, 4, 8]),
    k=st.sampled_from([1, 10, 600]),
    masks=st.sampled_from([0, 1, 2]),
    seed=st.integers(0, 1 << 30),
)
def test_bits_are_counted(device, queries, rows, words, k, masks, seed):
    rng = np.random.default_rng(seed)
    q, x = (rng.integers(0, 1 << 32, (n, words), np.uint32) for n in (queries, rows))
    mask = None if masks == 0 else rng.random(mask_shape(device, masks, queries, rows)) < 0.6
    counts = np.bitwise_count(q[:, None] ^ x).sum(-1).astype(np.int64)
    same(hamming_topk(*there(q, x, mask, device=device), k=k), best(counts, mask, k, False, (1 << 31) - 1))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("metric", ["sqeuclidean", "ip", "l1"])
def test_tables_are_sums_in_order(device, metric):
    rng = np.random.default_rng(0)
    q, books = (rng.standard_normal(s).astype(np.float32) for s in ((9, 3, 6), (3, 40, 6)))
    a, b = q[:, :, None], books[None]
    terms = {"ip": lambda: a * b, "l1": lambda: np.abs(a - b), "sqeuclidean": lambda: (a - b) * (a - b)}[
        metric
    ]()
    want = np.cumsum(terms, axis=-1, dtype=np.float32)[..., -1]
    np.testing.assert_array_equal(code_tables(*there(q, books, device=device), metric=metric).numpy(), want)


@needs_vulkan
def test_many_entries_are_kept_in_turns(monkeypatch):
    from grilly_ext_memory.kernels import codes_vulkan

    monkeypatch.setattr(codes_vulkan, "_ENTRIES", 200)
    rng = np.random.default_rng(1)
    q, x = (rng.standard_normal((n, 11)).astype(np.float32) for n in (23, 900))
    offsets, probes = lists_of(rng, 900, 7, 23, 3)
    found = list_search(*there(q, x, offsets, probes), k=13, metric="l2")
    same(found, best(exact(q, x, "l2"), in_lists(offsets, probes, 900, None), 13, False))
