"""Elementwise primitives and data movement against NumPy and SciPy in f64."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import special

from grilly_backend_cpu import backend
from grilly_backend_cpu.kernels.elementwise import binary

REFERENCES = {
    "neg": np.negative, "abs": np.abs, "sign": np.sign, "floor": np.floor, "exp": np.exp, "expm1": np.expm1,
    "log": np.log, "log1p": np.log1p, "sqrt": np.sqrt, "sin": np.sin, "cos": np.cos, "tanh": np.tanh,
    "erf": special.erf,
}  # fmt: skip
PAIRS = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "floordiv": np.floor_divide,
    "pow": np.power, "maximum": np.maximum, "minimum": np.minimum, "atan2": np.arctan2,
}  # fmt: skip
ODD = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-40, 3e38, -3e38, 89.0, -104.0, 0.6, 0.85])


def ulps(got: Any, exact: Any) -> float:
    """Largest distance in units in the last place of the result's type; equal infinities and NaN count as 0."""
    got64, exact = got.astype(np.float64), np.asarray(exact, np.float64)
    with np.errstate(all="ignore"):
        expected = exact.astype(got.dtype).astype(np.float64)
        tiny = np.finfo(got.dtype).tiny
        unit = np.spacing(np.maximum(np.abs(expected), tiny).astype(got.dtype)).astype(np.float64)
        off = np.abs(got64 - exact) / unit
        same = (got64 == expected) | (np.isnan(got64) & np.isnan(expected))
    return float(np.max(np.where(same, 0, off), initial=0))


@pytest.mark.parametrize("name", REFERENCES)
@pytest.mark.parametrize("size", [12, 70_001])
def test_unary_f32_within_a_few_ulp(run: Any, rng: Any, name: str, size: int) -> None:
    x = np.concatenate([ODD.astype("f4"), rng.uniform(-9, 9, size).astype("f4")])
    with np.errstate(all="ignore"):
        expected = REFERENCES[name](x.astype(np.float64))
    assert ulps(run(name, [x], [(x.shape, "f4")]), expected) <= 4


@pytest.mark.parametrize("name", REFERENCES)
def test_unary_f64_and_strided(plain: Any, rng: Any, name: str) -> None:
    x = rng.uniform(-6, 6, (6, 10))[::-2, ::3]
    with np.errstate(all="ignore"):
        expected = REFERENCES[name](x)
    assert ulps(plain(name, [x], [(x.shape, "f8")]), expected) <= 4


@pytest.mark.parametrize("dtype", ["float16", ml_dtypes.bfloat16])
@pytest.mark.parametrize("name", REFERENCES)
def test_unary_half_types_are_rounded_once(plain: Any, rng: Any, name: str, dtype: Any) -> None:
    x = rng.uniform(0.1, 4, 50).astype(dtype)
    got = plain(name, [x], [(x.shape, dtype)])
    expected = REFERENCES[name](x.astype(np.float64)).astype(dtype)
    np.testing.assert_allclose(
        got.astype("f4"), expected.astype("f4"), rtol=2 * float(ml_dtypes.finfo(dtype).eps)
    )


FLOATING_ONLY = ("div", "atan2")  # core casts integers first


@pytest.mark.parametrize(
    ("name", "dtype"),
    [(n, d) for n in PAIRS for d in ("i4", "u1", "f4", "f8") if d[0] == "f" or n not in FLOATING_ONLY],
)
def test_binary(run: Any, rng: Any, name: str, dtype: str) -> None:
    x = (rng.uniform(1, 9, (3, 50_000))).astype(dtype)
    y = (rng.uniform(1, 3, (3, 50_000))).astype(dtype)
    with np.errstate(all="ignore"):
        expected = PAIRS[name](x, y)
    np.testing.assert_array_equal(run(name, [x, y], [(x.shape, dtype)]), expected)


def test_no_warning_and_ieee_values(run: Any) -> None:
    x, y = np.array([3e38, 1, 0, -1, np.nan], "f4"), np.array([3e38, 0, 0, 0, 1], "f4")
    np.testing.assert_array_equal(run("add", [x, x], [((5,), "f4")]), [np.inf, 2, 0, -2, np.nan])
    np.testing.assert_array_equal(run("div", [x, y], [((5,), "f4")]), [1, np.inf, np.nan, -np.inf, np.nan])
    np.testing.assert_array_equal(run("maximum", [x, y], [((5,), "f4")]), [np.float32(3e38), 1, 0, 0, np.nan])
    np.testing.assert_array_equal(
        run("log", [-y], [((5,), "f4")]), [np.nan, -np.inf, -np.inf, -np.inf, np.nan]
    )


def test_floordiv_floors_and_integers_survive_zero(plain: Any) -> None:
    x, y = np.array([7, -7, 7, -7, 5], "i4"), np.array([2, 2, -2, -2, 0], "i4")
    np.testing.assert_array_equal(plain("floordiv", [x, y], [((5,), "i4")]), [3, -4, -4, 3, 0])


@pytest.mark.parametrize("name", ["add", "mul", "eq", "exp", "sqrt", "abs"])
def test_complex(plain: Any, rng: Any, name: str) -> None:
    x = (rng.normal(size=5) + 1j * rng.normal(size=5)).astype("c8")
    dtype = {"eq": "?", "abs": "f4"}.get(name, "c8")
    function = {
        "add": np.add,
        "mul": np.multiply,
        "eq": np.equal,
        "exp": np.exp,
        "sqrt": np.sqrt,
        "abs": np.abs,
    }
    ins = [x, x] if name in ("add", "mul", "eq") else [x]
    np.testing.assert_allclose(plain(name, ins, [((5,), dtype)]), function[name](*ins), rtol=1e-6)


def test_where_bits_and_compare(plain: Any, rng: Any) -> None:
    x, y = rng.integers(0, 99, (2, 40)).astype("i4")
    c = x < y
    np.testing.assert_array_equal(plain("lt", [x, y], [((40,), "?")]), c)
    np.testing.assert_array_equal(plain("where", [c, x, y], [((40,), "i4")]), np.where(c, x, y))
    for name, function in (("bitwise_xor", np.bitwise_xor), ("shift_left", np.left_shift)):
        np.testing.assert_array_equal(plain(name, [x, y % 8], [((40,), "i4")]), function(x, y % 8))


def test_data_ops(plain: Any, rng: Any) -> None:
    x = rng.normal(size=(4, 6)).astype("f4")
    np.testing.assert_array_equal(plain("strided_copy", [x.T[::-1]], [((6, 4), "f4")]), x.T[::-1])
    np.testing.assert_array_equal(
        plain("bitcast", [x.T], [((6, 4), "u4")]), np.ascontiguousarray(x.T).view("u4")
    )
    np.testing.assert_array_equal(plain("cast", [x], [((4, 6), "i4")]), x.astype("i4"))
    np.testing.assert_array_equal(plain("cast", [x], [((4, 6), "?")]), x != 0)
    np.testing.assert_array_equal(plain("full", [], [((2,), "f4")], value=1.5), [1.5, 1.5])
    np.testing.assert_array_equal(plain("iota", [], [((4,), "i4")], start=3, step=-2), [3, 1, -1, -3])
    np.testing.assert_array_equal(plain("isnan", [ODD], [(ODD.shape, "?")]), np.isnan(ODD))
    huge = np.array([1e39, np.nan])
    assert np.isinf(plain("cast", [huge], [((2,), "f4")])[0])  # and no warning


@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_any_shape_and_stride(data: Any) -> None:
    shape = data.draw(hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=5))
    x = data.draw(hnp.arrays("f4", shape, elements=st.floats(-100, 100, width=32)))
    axes = data.draw(st.permutations(range(len(shape))))
    slices = tuple(
        data.draw(st.sampled_from([slice(None), slice(None, None, -1), slice(1, None, 2)])) for _ in shape
    )
    strided = np.transpose(x[slices], axes)
    backend.open(0)
    out = np.empty(strided.shape, "f4")
    wrap = type("V", (), {})
    views = [wrap(), wrap(), wrap()]
    for v, a in zip(views, (strided, strided, out), strict=True):
        v.array = a
    binary(np.add)(None, views[2:], views[:2], {})
    np.testing.assert_array_equal(out, strided + strided)
