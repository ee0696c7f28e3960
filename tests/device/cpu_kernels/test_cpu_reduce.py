"""Reductions: accuracy along every axis, NaN, ties, empty axes."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grilly_backend_cpu.kernels.reduce import accurate_sum


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_long_f32_sums_do_not_stop_growing(run: Any, axis: int) -> None:  # NUM-03
    shape = [1, 1, 1]
    shape[axis] = 2**24 + 10
    ones = np.broadcast_to(np.float32(1), shape)
    ones = np.ascontiguousarray(ones)
    assert run("sum", [ones], [((1, 1), "f4")], axis=(axis,), keepdims=False).item() == 16777226


@pytest.mark.parametrize("axis", [0, 1])
def test_sums_of_tenths(run: Any, axis: int) -> None:  # NUM-03
    shape = (2**22, 2) if axis == 0 else (2, 2**22)
    x = np.full(shape, 0.1, "f4")
    got = run("sum", [x], [((2,), "f4")], axis=(axis,), keepdims=False)
    np.testing.assert_allclose(got, float(np.float32(0.1)) * 2**22, rtol=1e-6)


@pytest.mark.parametrize("axes", [(0,), (1,), (2,), (0, 2), (0, 1), (1, 2), (0, 1, 2)])
@pytest.mark.parametrize("dtype", ["f4", "f8", "i4", "c8", "f2", ml_dtypes.bfloat16])
def test_sum_over_any_axes(run: Any, rng: Any, axes: Any, dtype: Any) -> None:
    x = rng.integers(0, 9, (70, 33, 40)) if dtype == "i4" else rng.uniform(0, 0.5, (70, 33, 40))
    x = x.astype(dtype)
    wide = np.complex128 if dtype == "c8" else np.float64
    expected = x.astype(wide).sum(axes, keepdims=True)
    got = run("sum", [x], [(expected.shape, dtype)], axis=axes, keepdims=True).astype(wide)
    eps = 0 if dtype == "i4" else float(ml_dtypes.finfo(dtype).eps)
    np.testing.assert_allclose(
        got, expected.astype(dtype).astype(wide), rtol=(40 if dtype == "f8" else 6) * eps
    )


@settings(max_examples=50, deadline=None)
@given(
    shape=st.lists(st.integers(0, 40), min_size=1, max_size=4).map(tuple),
    flip=st.booleans(),
    data=st.data(),
)
def test_accurate_sum_of_any_layout(shape: Any, flip: bool, data: Any) -> None:
    axes = tuple(data.draw(st.sets(st.integers(0, len(shape) - 1), min_size=1)))
    x = np.random.default_rng(1).normal(size=shape[::-1]).astype("f4").T
    x = x[::-1] if flip else x
    np.testing.assert_allclose(
        accurate_sum(x, axes), x.astype("f8").sum(axes, keepdims=True), rtol=1e-5, atol=1e-4
    )


def test_half_precision_sums_overflow_only_in_the_result(plain: Any) -> None:  # NUM-04
    ones = np.ones(70000, "f2")
    assert np.isinf(plain("sum", [ones], [((), "f2")], axis=(0,), keepdims=False))
    many = np.full((10000, 2), 6, "f2")
    np.testing.assert_array_equal(plain("sum", [many], [((2,), "f2")], axis=(0,), keepdims=False), 60000)


def test_max_and_argmax_put_nan_first(plain: Any) -> None:
    x = np.array([[1, np.nan, 3, np.nan], [2, 5, 5, 1]], "f4")
    np.testing.assert_array_equal(plain("max", [x], [((2,), "f4")], axis=(1,), keepdims=False), [np.nan, 5])
    np.testing.assert_array_equal(plain("argmax", [x], [((2,), "i4")], axis=1, keepdims=False), [1, 1])
    half = x.astype(ml_dtypes.bfloat16)
    np.testing.assert_array_equal(
        plain("argmax", [half], [((2, 1), "i4")], axis=1, keepdims=True), [[1], [1]]
    )
    got = plain("max", [half], [((2,), half.dtype)], axis=(1,), keepdims=False).astype("f4")
    np.testing.assert_array_equal(got, [np.nan, 5])


@pytest.mark.parametrize("dtype", ["f4", "i4", "c8", "f2", ml_dtypes.bfloat16])
@pytest.mark.parametrize("axis", [0, 1])
def test_cumsum(plain: Any, rng: Any, dtype: Any, axis: int) -> None:
    x = rng.integers(0, 4, (7, 9)).astype(dtype)
    got = plain("cumsum", [x], [(x.shape, dtype)], axis=axis)
    np.testing.assert_array_equal(got.astype("c16"), np.cumsum(x.astype("c16"), axis))


def test_empty_axes(plain: Any) -> None:  # TEN-06
    x = np.zeros((0, 4), "f4")
    np.testing.assert_array_equal(plain("sum", [x], [((4,), "f4")], axis=(0,), keepdims=False), 0)
    assert plain("sum", [x], [((), "f4")], axis=(0, 1), keepdims=False) == 0
    assert plain("cumsum", [x], [(x.shape, "f4")], axis=0).shape == (0, 4)
