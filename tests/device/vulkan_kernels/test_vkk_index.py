"""Gather, scatter, sort and random words."""

from __future__ import annotations

import numpy as np
import pytest

from grilly_core import registry

MODES = {"add": np.add, "min": np.minimum, "max": np.maximum}


def scattered(x, index, updates, axis, mode):
    out, parts = np.moveaxis(x.copy(), axis, 0), np.moveaxis(updates, axis, 0)
    if mode == "set":
        for i, part in zip(index, parts, strict=True):
            out[i] = part
    else:
        MODES[mode].at(out, index, parts)
    return np.moveaxis(out, 0, axis)


@pytest.mark.parametrize("code", ["?", "u1", "f2", "i4", "f8", "c16"])
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_gather_of_every_size_of_element(vk, rng, code, axis):
    x = rng.integers(0, 100, (4, 5, 6)).astype(code)
    index = rng.integers(-4, 4, 9).astype("i4")
    np.testing.assert_array_equal(vk("gather", x, index, axis=axis), np.take(x, index, axis))


@pytest.mark.parametrize("code", ["i1", "u1", "i2", "u2", "u4", "i8"])
def test_index_types(vk, code):
    x, index = np.arange(12, dtype="f4").reshape(6, 2), np.array([5, 0, 3], code)
    np.testing.assert_array_equal(vk("gather", x, index, axis=0), x[[5, 0, 3]])


def test_gather_never_reads_outside(vk):
    x = np.arange(4, dtype="f4")
    np.testing.assert_array_equal(vk("gather", x, np.int32([99, -99, 2]), axis=0), [3, 0, 2])


@pytest.mark.parametrize("mode", ["set", "add", "min", "max"])
@pytest.mark.parametrize("count", [3, 33, 700])
@pytest.mark.parametrize("axis", [0, 1])
def test_scatter_with_duplicates(vk, rng, mode, count, axis):
    shape = [6, 7]
    x = rng.standard_normal(shape).astype("f4")
    shape[axis] = count
    index, updates = rng.integers(0, 6, count).astype("i4"), rng.standard_normal(shape).astype("f4")
    expected = scattered(x.astype("f8"), index, updates.astype("f8"), axis, mode)
    np.testing.assert_allclose(
        vk("scatter", x, index, updates, axis=axis, mode=mode), expected, rtol=1e-5, atol=1e-5
    )


@pytest.mark.parametrize("count", [4, 40])
def test_scatter_leaves_out_what_is_outside(vk, count):
    index = np.resize(np.int32([0, 9, -9, 2]), count)
    y = vk("scatter", np.zeros(4, "f4"), index, np.ones(count, "f4"), axis=0, mode="add")
    np.testing.assert_array_equal(y, [count / 4, 0, count / 4, 0])


def test_scatter_of_very_many_duplicates(vk):
    n = 70_000  # software drivers cut loops off after 65535 turns
    index = np.where(np.arange(n) == 5, 1, 0).astype("i4")
    y = vk("scatter", np.zeros(3, "f4"), index, np.ones(n, "f4"), axis=0, mode="add")
    np.testing.assert_array_equal(y, [n - 1, 1, 0])
    y = vk("scatter", np.zeros(3, "f4"), index, np.arange(n, dtype="f4"), axis=0, mode="set")
    np.testing.assert_array_equal(y, [n - 1, 5, 0])


def test_scatter_of_integers_and_flags(vk, rng):
    index = rng.integers(0, 5, 50).astype("i4")
    for code in ("i8", "u1", "?"):
        updates = rng.integers(0, 2, 50).astype(code)
        y = vk("scatter", np.zeros(5, code), index, updates, axis=0, mode="add")
        np.testing.assert_array_equal(y, scattered(np.zeros(5, code), index, updates, 0, "add"))


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("n", [1, 2, 255, 512, 513, 1025, 3000])
def test_sort_is_stable_at_every_length(vk, rng, n, descending):
    x = rng.integers(-20, 20, (2, n)).astype("f4")
    x[0, :: max(n // 5, 1)] = np.nan
    expected = registry.get("sort").reference_rule(x, axis=1, descending=descending)
    values, places = vk("sort", x, axis=1, descending=descending)
    np.testing.assert_array_equal(values, expected[0])
    np.testing.assert_array_equal(places, expected[1])


@pytest.mark.parametrize("code", ["?", "i1", "u2", "u4", "i8", "u8", "f2", "f8"])
def test_sort_of_types_along_the_first_axis(vk, rng, code):
    x = rng.integers(0, 100, (40, 3)).astype(code)
    if code not in "?u2u4u8":
        x = (x - 50).astype(code)
    values, places = vk("sort", x, axis=0)
    order = np.argsort(x, axis=0, kind="stable")
    np.testing.assert_array_equal(places, order)
    np.testing.assert_array_equal(values, np.take_along_axis(x, order, 0))


def test_signed_zeros_are_equal_when_sorted(vk):
    x = np.float32([0.0, -0.0, np.inf, -np.inf, -0.0])
    np.testing.assert_array_equal(vk("sort", x, axis=0)[1], [3, 0, 1, 4, 2])


@pytest.mark.parametrize("size", [1, 4, 5, 1000])
def test_random_words_are_the_references(vk, size):
    state = np.array([123, 456, 0xFFFFFFFE, 7], "u4")
    expected = registry.get("random_bits").reference_rule(state, size=size, relative=3)
    np.testing.assert_array_equal(vk("random_bits", state, size=size, relative=3), expected)


@pytest.mark.parametrize("code", ["f4", "f2"])
def test_dropout_keeps_what_the_words_say(vk, rng, code):
    x, state = rng.standard_normal(1001).astype(code), np.array([1, 2, 3, 4], "u4")
    kept = registry.get("random_bits").reference_rule(state, size=1001, relative=0) >= int(0.3 * 2.0**32)
    scaled = (x.astype("f4") * np.float32(1 / 0.7)).astype(code)
    np.testing.assert_array_equal(vk("nn.dropout", x, state, p=0.3), np.where(kept, scaled, 0))
    np.testing.assert_array_equal(vk("nn.dropout", np.float32([np.inf]), state, p=1.0), [0])


def test_embedding_gradient(vk, rng):
    ids, g = rng.integers(0, 5, (30, 4)).astype("i8"), rng.standard_normal((30, 4, 3)).astype("f4")
    expected = np.zeros((5, 3))
    np.add.at(expected, ids, g)
    expected[2] = 0
    y = vk("nn.embedding_vjp", g, ids, num_embeddings=5, padding_idx=2)
    np.testing.assert_allclose(y, expected, rtol=1e-5, atol=1e-5)
