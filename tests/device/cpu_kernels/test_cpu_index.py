"""Products, gather and scatter, sort, random words."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grilly_backend_cpu.kernels.matmul import product


@pytest.mark.parametrize("dtype", ["f4", "f8", "c8", "i4", "f2", ml_dtypes.bfloat16])
@pytest.mark.parametrize(
    "shapes", [((3, 4), (4, 5)), ((2, 3, 3, 4), (2, 3, 4, 5)), ((1, 7), (7, 1)), ((2, 0), (0, 3))]
)
def test_matmul(plain: Any, rng: Any, dtype: Any, shapes: Any) -> None:
    a, b = (rng.integers(-4, 5, s).astype(dtype) for s in shapes)
    expected = a.astype("c16") @ b.astype("c16")
    got = plain("matmul", [a, b], [(expected.shape, dtype)])
    np.testing.assert_array_equal(got.astype("c16"), expected)


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.integers(0, 5), min_size=3, max_size=3),
    st.lists(st.integers(0, 3), max_size=2),
    st.integers(0, 7),
)
def test_products_of_any_layout(mkn: Any, batch: Any, kind: int) -> None:
    (m, k, n), rng = mkn, np.random.default_rng(3)
    a, b = rng.normal(size=(*batch, m, k)), rng.normal(size=(*batch, k, n))
    a = np.swapaxes(np.ascontiguousarray(np.swapaxes(a, -1, -2)), -1, -2) if kind & 1 else a
    b = np.swapaxes(np.ascontiguousarray(np.swapaxes(b, -1, -2)), -1, -2) if kind & 2 else b
    if kind & 4 and all(batch):
        b = np.broadcast_to(b[(0,) * len(batch)], b.shape)
    out = np.full((*batch, m, n), 9.0)
    product(a, b, out)
    np.testing.assert_allclose(out, a @ b, atol=1e-12)


@pytest.mark.parametrize("shape", [(4, 3), (2, 4, 3), (3,), (0, 3)])
@pytest.mark.parametrize("bias", [True, False])
def test_linear(plain: Any, rng: Any, shape: Any, bias: bool) -> None:
    x, w = rng.normal(size=shape).astype("f4"), rng.normal(size=(5, 3)).astype("f4")
    b = rng.normal(size=5).astype("f4") if bias else None
    expected = x.astype("f8") @ w.T + (0 if b is None else b)
    np.testing.assert_allclose(
        plain("nn.linear", [x, w, b], [(expected.shape, "f4")]), expected, rtol=1e-5, atol=1e-5
    )


def test_gather(plain: Any, rng: Any) -> None:
    x, index = rng.normal(size=(4, 5)).astype("f4"), np.array([4, 0, 0], "i4")
    np.testing.assert_array_equal(plain("gather", [x.T, index], [((3, 4), "f4")], axis=0), x.T[index])
    np.testing.assert_array_equal(plain("gather", [x, index[:0]], [((4, 0), "f4")], axis=1), x[:, :0])


@pytest.mark.parametrize("bad", [-1, 5])
def test_an_index_outside_is_named(plain: Any, bad: int) -> None:
    x, index = np.zeros((2, 5), "f4"), np.array([0, bad], "i4")
    with pytest.raises(IndexError, match=rf"index {bad} .* size 5"):
        plain("gather", [x, index], [((2, 2), "f4")], axis=1)
    with pytest.raises(IndexError, match="size 5"):
        plain("scatter", [x, index, x[:, :2]], [((2, 5), "f4")], axis=1, mode="add")


@pytest.mark.parametrize("mode", ["set", "add", "min", "max"])
@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("dtype", ["f4", "i4"])
def test_scatter(run: Any, rng: Any, mode: str, axis: int, dtype: str) -> None:
    x = rng.integers(-9, 9, (5, 6, 7)).astype(dtype)
    index = np.array([2, 0, 2, 4, 2], "i4")
    shape = (*x.shape[:axis], 5, *x.shape[axis + 1 :])
    updates = rng.integers(-9, 9, shape).astype(dtype)
    expected = np.moveaxis(x.copy(), axis, 0)
    for i, part in zip(index, np.moveaxis(updates, axis, 0), strict=True):
        change = {"set": lambda a, b: b, "add": np.add, "min": np.minimum, "max": np.maximum}[mode]
        expected[i] = change(expected[i], part)
    got = run("scatter", [x, index, updates], [(x.shape, dtype)], axis=axis, mode=mode)
    np.testing.assert_array_equal(got, np.moveaxis(expected, 0, axis))


def test_scatter_loses_no_duplicate(run: Any) -> None:  # TEN-05
    n = 100_000
    got = run(
        "scatter",
        [np.zeros(3, "f4"), np.zeros(n, "i4"), np.ones(n, "f4")],
        [((3,), "f4")],
        axis=0,
        mode="add",
    )
    np.testing.assert_array_equal(got, [n, 0, 0])


def test_scatter_writes_bools_and_empty_updates(plain: Any) -> None:
    x = np.zeros(4, "?")
    got = plain("scatter", [x, np.array([1, 3]), np.array([True, True])], [((4,), "?")], axis=0, mode="set")
    np.testing.assert_array_equal(got, [0, 1, 0, 1])
    got = plain("scatter", [x, np.zeros(0, "i4"), x[:0]], [((4,), "?")], axis=0, mode="set")
    np.testing.assert_array_equal(got, x)


@pytest.mark.parametrize("dtype", ["f4", "f2", ml_dtypes.bfloat16, "i4", "?"])
@pytest.mark.parametrize("descending", [False, True])
def test_sort_is_stable(plain: Any, rng: Any, dtype: Any, descending: bool) -> None:
    x = rng.integers(0, 4, (3, 50)).astype(dtype)
    values, index = plain("sort", [x], [(x.shape, dtype), (x.shape, "i4")], axis=1, descending=descending)
    keys = -x.astype("f8") if descending else x.astype("f8")
    order = np.argsort(keys, 1, kind="stable")
    np.testing.assert_array_equal(index, order)
    np.testing.assert_array_equal(values, np.take_along_axis(x, order, 1))


def test_sort_nan_is_the_greatest(plain: Any) -> None:  # NUM-01
    x = np.array([1, np.nan, 3], "f4")
    values, index = plain("sort", [x], [((3,), "f4"), ((3,), "i4")], axis=0, descending=False)
    np.testing.assert_array_equal(values, [1, 3, np.nan])
    values, index = plain("sort", [x], [((3,), "f4"), ((3,), "i4")], axis=0, descending=True)
    np.testing.assert_array_equal(values, [np.nan, 3, 1])
    np.testing.assert_array_equal(index, [1, 2, 0])


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        ([0, 0, 0, 0], [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]),
        ([0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF], None),
    ],
)
def test_random_bits_are_philox(run: Any, state: Any, expected: Any) -> None:
    """The first row is the published test vector; the second only fixes that the offset wraps round."""
    state = np.array(state, "u4")
    got = run("random_bits", [state], [((4,), "u4")], size=4, relative=0)
    if expected is not None:
        np.testing.assert_array_equal(got, expected)
    wrapped = run("random_bits", [np.array([*state[:2], 0, 0], "u4")], [((4,), "u4")], size=4, relative=5)
    later = run("random_bits", [np.array([*state[:2], 4, 0], "u4")], [((4,), "u4")], size=4, relative=1)
    np.testing.assert_array_equal(wrapped, later)


@pytest.mark.parametrize("size", [0, 1, 5, 4096, 40_003])
def test_random_bits_agree_and_are_a_prefix(run: Any, plain: Any, size: int) -> None:
    state = np.array([1, 2, 0xFFFFFFFE, 3], "u4")
    whole = plain("random_bits", [state], [((50_000,), "u4")], size=50_000, relative=9)
    np.testing.assert_array_equal(
        run("random_bits", [state], [((size,), "u4")], size=size, relative=9), whole[:size]
    )


@pytest.mark.parametrize("p", [0.0, 0.3, 1.0])
def test_dropout_keeps_by_word(run: Any, plain: Any, rng: Any, p: float) -> None:
    x = np.where(rng.random((3, 3001)) < 0.01, np.inf, rng.normal(size=(3, 3001))).astype("f4")
    state = np.array([5, 6, 7, 0], "u4")
    words = plain("random_bits", [state], [((x.size,), "u4")], size=x.size, relative=2).reshape(x.shape)
    keep = words >= int(p * 2**32) if p < 1 else np.zeros(x.shape, bool)
    scaled = x * np.float32(1 / (1 - p)) if p < 1 else x
    expected = np.where(keep, scaled, np.float32(0))
    np.testing.assert_array_equal(run("nn.dropout", [x, state], [(x.shape, "f4")], p=p, relative=2), expected)


@pytest.mark.parametrize("dtype", ["f4", "?", "c8", "i8", ml_dtypes.bfloat16])
@pytest.mark.parametrize("shape", [(), (1,), (3, 4), (2, 1, 5), (0, 4)])
def test_one_element_repeated_is_copied(plain: Any, dtype: Any, shape: tuple[int, ...]) -> None:
    """The oracle is what was repeated, and NumPy's copy where only some axes repeat."""
    one = np.asarray(3).astype(dtype)
    repeated = np.broadcast_to(one, shape)
    np.testing.assert_array_equal(plain("strided_copy", [repeated], [(shape, dtype)]), np.full(shape, one))
    rows = np.broadcast_to(np.arange(4).astype(dtype), (3, 4))
    np.testing.assert_array_equal(plain("strided_copy", [rows], [((3, 4), dtype)]), rows.copy())
