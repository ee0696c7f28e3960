"""Sums, maxima, running sums: sizes round the widths of groups, axes, accuracy, NaN."""

from __future__ import annotations

import numpy as np
import pytest

SIZES = [1, 7, 8, 9, 31, 32, 33, 63, 64, 65, 127, 128, 129, 1023, 1025]


@pytest.mark.parametrize("n", SIZES)
def test_reductions_of_every_width(vk, n):
    x = np.arange(n, dtype="f4")
    assert vk("sum", x) == n * (n - 1) / 2
    assert vk("max", x) == n - 1
    assert vk("argmax", x, axis=0) == n - 1
    np.testing.assert_allclose(vk("nn.softmax", x / n).sum(), 1, rtol=1e-6)
    np.testing.assert_array_equal(vk("cumsum", x, axis=0), np.cumsum(x))
    if n > 1:
        y = vk("nn.layer_norm", x, None, None, normalized_shape=(n,))
        np.testing.assert_allclose([y.mean(), y.var()], [0, 1], atol=1e-3)


@pytest.mark.parametrize("axes", [0, 1, 2, (0, 1), (1, 2), (0, 2), (0, 1, 2)])
@pytest.mark.parametrize("shape", [(5, 70, 3), (3, 4, 300), (130, 2, 70)])
def test_sums_over_any_axes(vk, rng, axes, shape):
    x = rng.standard_normal(shape).astype("f4")
    np.testing.assert_allclose(vk("sum", x, axis=axes), x.sum(axes, dtype="f8"), rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(vk("max", x, axis=axes), x.max(axes))


def test_many_axes_that_do_not_merge(vk, rng):
    x = rng.standard_normal((2, 3, 2, 3, 2, 3, 2, 3, 2, 3)).astype("f4")
    axes = (0, 2, 4, 6, 8)
    np.testing.assert_allclose(vk("sum", x, axis=axes), x.sum(axes), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("code", ["u4", "i8", "f8", "f2"])
def test_types(vk, rng, code):
    x = rng.integers(0, 8, (6, 200)).astype(code)
    for axis in (0, 1):
        np.testing.assert_array_equal(vk("sum", x, axis=axis), x.sum(axis))
        np.testing.assert_array_equal(vk("max", x, axis=axis), x.max(axis))
        np.testing.assert_array_equal(vk("argmax", x, axis=axis), x.argmax(axis))
        np.testing.assert_array_equal(vk("cumsum", x, axis=axis), x.cumsum(axis, dtype=code))


def test_long_sums_keep_growing(vk, rng):
    tenth = vk.put(np.full(1, 0.1, "f4")).expand(1 << 22)
    np.testing.assert_allclose(vk("sum", tenth), np.float64(np.float32(0.1)) * (1 << 22), rtol=1e-6)
    ones = vk.put(np.ones((1, 1), "f4")).expand((1 << 24) + 10, 1)
    assert vk("sum", ones, axis=0)[0] == (1 << 24) + 10
    x = (1e4 + rng.random(200_000)).astype("f4")
    np.testing.assert_allclose(vk("sum", x) / x.size, x.mean(dtype="f8"), rtol=1e-6)
    assert vk("sum", np.full(70000, 1, "f2")) == np.inf


def test_columns_in_parts(vk, rng):
    x = rng.standard_normal((20000, 3)).astype("f4")
    np.testing.assert_allclose(vk("sum", x, axis=0), x.sum(0, dtype="f8"), rtol=1e-5, atol=1e-3)


def test_nan_and_infinity(vk):
    x = np.float32([[1, np.nan, 3], [np.inf, 2, 1], [-np.inf, 1, np.inf], [-np.inf, -np.inf, -np.inf]])
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(vk("sum", x, axis=1), x.sum(1))
        np.testing.assert_array_equal(vk("cumsum", x, axis=1), x.cumsum(1))
    np.testing.assert_array_equal(vk("max", x, axis=1), x.max(1))
    np.testing.assert_array_equal(vk("argmax", x, axis=1), x.argmax(1))
    ties = np.tile(np.float32([0, 5, 5, 1]), 100)
    assert vk("argmax", ties, axis=0) == 1


def test_places_in_long_rows(vk):
    for n in (9000, (1 << 24) + 3):  # software drivers cut loops off after 65535 turns
        x = np.zeros((1, n), "f4")
        x[0, -1] = 1
        assert vk("argmax", x, axis=1)[0] == n - 1
        x[0, [n // 3, n // 2]] = np.nan
        assert vk("argmax", x, axis=1)[0] == n // 3
    ties = np.zeros((3, 20000), "f4")
    ties[:, [19000, 7000, 12000]] = 4
    np.testing.assert_array_equal(vk("argmax", vk.put(ties.T.copy()).permute(1, 0), axis=1), [7000] * 3)


def test_long_running_sums(vk, rng):
    whole = rng.integers(-2, 3, (2, 20000)).astype("f4")
    np.testing.assert_array_equal(vk("cumsum", whole, axis=1), whole.cumsum(1))
    np.testing.assert_array_equal(vk("cumsum", whole.T.copy(), axis=0), whole.T.cumsum(0))
    x = rng.standard_normal((2, 3000)).astype("f4")
    np.testing.assert_allclose(vk("cumsum", x, axis=1), x.cumsum(1, dtype="f8"), rtol=1e-5, atol=1e-4)
    np.testing.assert_allclose(
        vk("cumsum", x.T.copy(), axis=0), x.T.cumsum(0, dtype="f8"), rtol=1e-5, atol=1e-4
    )
