"""Products of f32 in tiles, packing for cooperative matrices, the choice of tiles; NumPy in f64 is the oracle."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("grilly_backend_vulkan")
from grilly_backend_vulkan.kernels import matmul_choice, matmul_matrices, matmul_tiles
from grilly_backend_vulkan.kernels.matmul_product import Finish, Matrices, Product, lines

SIZES = st.sampled_from([1, 2, 3, 7, 16, 31, 64, 67, 128, 131])


def bound(a, b):
    """What rounding to f32 can do to sums of these products, in whatever order."""
    k = a.shape[-1]
    return (k + 2) * 2.0**-24 * (np.abs(a).astype("f8") @ np.abs(b).astype("f8")) + 1e-30


def assert_product(found, a, b):
    assert (np.abs(found - a.astype("f8") @ b.astype("f8")) <= bound(a, b)).all()


def matrices(vk, x, along_rows):
    """Put a matrix whose rows (or columns) are packed; returns it with what keeps it alive."""
    tensor = vk.put(np.ascontiguousarray(x if along_rows else x.T))
    steps = (x.shape[1], 1) if along_rows else (1, x.shape[0])
    return Matrices(tensor._value, *steps), tensor


def product(vk, a, b, layout, tile, parts, finish=()):
    (left, kept), (right, also) = (matrices(vk, x, way) for x, way in zip((a, b), layout, strict=True))
    out = vk.put(np.full((a.shape[0], b.shape[1]), np.nan, "f4"))
    extra = [None if x is None else vk.put(x) for x in finish[:2]]
    done = Finish(*(None if t is None else t._value for t in extra), *finish[2:])
    p = Product.of(out._value, left, right, (a.shape[0], b.shape[1], a.shape[1]), finish=done)
    matmul_tiles.launch(vk.context.runtime.stream, p, tile, parts)
    vk.context.synchronize()
    del kept, also
    return np.array(out.numpy())


@pytest.mark.parametrize("tile", matmul_tiles.TILES, ids=lambda t: t.name)
@settings(max_examples=12, deadline=None)
@given(m=SIZES, n=SIZES, k=SIZES, layout=st.tuples(st.booleans(), st.booleans()), parts=st.integers(1, 3))
def test_every_tile_on_every_layout(vk, tile, m, n, k, layout, parts):
    rng = np.random.default_rng(m * n + k)
    a, b = (rng.standard_normal(s).astype("f4") for s in ((m, k), (k, n)))
    assert_product(product(vk, a, b, layout, tile, parts), a, b)


@pytest.mark.parametrize("parts", [1, 3])
def test_rows_beyond_the_edge_do_not_leak(vk, rng, parts):
    a, b = (rng.standard_normal(s).astype("f4") for s in ((66, 64), (64, 70)))
    a[65], b[:, 69] = np.nan, np.inf
    found = product(vk, a, b, (True, False), matmul_tiles.TILES[-1], parts)
    assert_product(found[:65, :69], a[:65], b[:, :69])
    assert np.isnan(found[65]).all()


@pytest.mark.parametrize("parts", [1, 2])
def test_bias_activation_and_residual(vk, rng, parts):
    a, b, bias, residual = (
        rng.standard_normal(s).astype("f4") for s in ((70, 48), (48, 36), (36,), (70, 36))
    )
    found = product(vk, a, b, (True, True), matmul_tiles.TILES[0], parts, (bias, residual, "relu"))
    expected = np.maximum(a.astype("f8") @ b + bias, 0) + residual
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


def test_parts_are_added_in_the_same_order_each_time(vk, rng):
    a, b = (rng.standard_normal(s).astype("f4") for s in ((64, 999), (999, 64)))
    first, second = (product(vk, a, b, (True, True), matmul_tiles.TILES[-1], 5) for _ in range(2))
    np.testing.assert_array_equal(first, second)


def test_batches_that_repeat_an_operand(vk, rng):
    a, b = (rng.standard_normal(s).astype("f4") for s in ((3, 40, 90), (90, 33)))
    found = vk("matmul", vk.put(a), vk.put(b[None]).expand(3, 90, 33))
    for i in range(3):
        assert_product(found[i], a[i], b)


# -- packing: what cooperative matrices are given ----------------------------------------------------------------


def packed(vk, x, along_rows, code, parts=1, low=0):
    given_, kept = matrices(vk, x, along_rows)
    runtime = vk.context.runtime
    found = matmul_matrices._packed(runtime.stream, given_, ((), *x.shape), code, parts, low)
    bits = np.empty(found.view.buffer.nbytes, "u1")
    runtime.copy_out(found.view.buffer.handle, 0, bits)
    del kept
    return bits, found


def from_brain(bits):
    return (bits.view("u2").astype("u4") << 16).view("f4")


@pytest.mark.parametrize("along_rows", [True, False])
@pytest.mark.parametrize("shape", [(5, 11), (8, 16), (16, 3)])
def test_halves_are_packed_and_filled_up_with_zeros(vk, rng, shape, along_rows):
    x = rng.standard_normal(shape).astype("f2")
    bits, found = packed(vk, x, along_rows, "s2")
    lines_ = x if along_rows else x.T
    expected = np.zeros((lines_.shape[0], -(-lines_.shape[1] // 8) * 8), "f2")
    expected[:, : lines_.shape[1]] = lines_
    np.testing.assert_array_equal(bits.view("f2").reshape(expected.shape), expected)
    assert (found.row, found.column) == ((expected.shape[1], 1) if along_rows else (1, expected.shape[1]))


@pytest.mark.parametrize("along_rows", [True, False])
@pytest.mark.parametrize("low", [0, 1])
@pytest.mark.parametrize("shape", [(5, 11), (8, 16)])
def test_f32_is_split_into_what_bf16_holds_and_the_rest(vk, rng, shape, low, along_rows):
    x = rng.standard_normal(shape).astype("f4")
    bits, _ = packed(vk, x, along_rows, "f32", 3, low)
    lines_ = x if along_rows else x.T
    values = from_brain(bits)
    if along_rows:
        three = values.reshape(lines_.shape[0], 3, -1).swapaxes(0, 1)[:, :, : lines_.shape[1]]
    else:
        three = values.reshape(3, -(-lines_.shape[0] // 8) * 8, -1)[:, : lines_.shape[0], : lines_.shape[1]]
    high = three[[i for i in range(3) if i != low]]
    np.testing.assert_array_equal(high[0], high[1])
    np.testing.assert_array_less(np.abs(lines_ - high[0]), 2.0**-8 * np.abs(lines_))
    np.testing.assert_array_less(np.abs(lines_ - high[0] - three[low]), 2.0**-16 * np.abs(lines_))


def test_infinities_have_no_rest(vk):
    x = np.array([[np.inf, -np.inf, np.nan, 1.0] + [0.0] * 4], "f4")
    three = from_brain(packed(vk, x, True, "f32", 3, 0)[0]).reshape(3, 8)
    np.testing.assert_array_equal(three[1], x[0])
    np.testing.assert_array_equal(three[0], 0)


# -- the choice --------------------------------------------------------------------------------------------------


def test_tiles_fit_the_shared_memory(vk):
    facts = dataclasses.replace(vk.context.runtime.facts, shared_memory=16384)
    tile, _ = matmul_choice.choose(facts, "f32", 4096, 4096, 4096, 1)
    assert tile.shared <= 16384
    assert matmul_choice.choose(dataclasses.replace(facts, shared_memory=1024), "f32", 64, 64, 64, 1) is None


def test_few_tiles_have_long_sums_cut(vk):
    facts = vk.context.runtime.facts
    assert matmul_choice.choose(facts, "f32", 64, 64, 8192, 1)[1] > 1
    assert matmul_choice.choose(facts, "f32", 4096, 4096, 4096, 1)[1] == 1
    assert matmul_choice.choose(facts, "f32", 64, 64, 64, 64)[1] == 1


def test_a_tile_alone_on_its_processor_counts_as_slow(vk):
    """64x4096x4096 on an H200: two parts fill its processors once and were measured at 208 µs, eight at 77."""
    facts = dataclasses.replace(vk.context.runtime.facts, name="NVIDIA H200", shared_memory=49152)
    tile, parts = matmul_choice.choose(facts, "f32", 64, 4096, 4096, 1)
    assert -(-4096 // tile.columns) * parts > 2 * 132


def test_the_users_table_is_preferred(vk, monkeypatch, tmp_path):
    monkeypatch.setenv("GRILLY_CACHE_DIR", str(tmp_path))
    facts = dataclasses.replace(vk.context.runtime.facts, name="a device of this test")
    path = matmul_choice.table_path(facts)
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps({"f32": {"64x128x8": [1e-6, 1e-6]}}))
    tile, _ = matmul_choice.choose(facts, "f32", 512, 512, 512, 1)
    assert tile.name == "64x128x8"
    path.write_text("no JSON")
    assert matmul_choice.costs(dataclasses.replace(facts, name="another"))["processors"] > 0


def test_operands_without_neighbours_have_no_lines():
    assert lines(Matrices(None, 20, 2), 4, 5) is None
    assert lines(Matrices(None, 1 << 25, 1), 4, 5) is None
    assert lines(Matrices(None, 20, 1), 4, 5).along_k
    assert not lines(Matrices(None, 1, 20), 4, 5).along_k
