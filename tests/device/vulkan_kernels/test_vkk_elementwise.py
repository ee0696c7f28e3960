"""Elementwise shaders against NumPy in float64: accuracy, special values, types, layouts, sizes."""

from __future__ import annotations

import math

import numpy as np
import pytest

from grilly_core import dtypes

TINY = 2.0**-126
SPECIAL = np.array(
    [
        0,
        -0.0,
        np.inf,
        -np.inf,
        np.nan,
        1,
        -1,
        88.72,
        88.73,
        -88,
        3e38,
        9.0,
        0.625,
        4.0,
        3.99,
        20.625,
        8000,
        1e10,
    ],
    "f4",
)
CODES = {
    "b1": "?", "u8": "u1", "u16": "u2", "u32": "u4", "u64": "u8", "i8": "i1", "i16": "i2", "i32": "i4", "i64": "i8",
    "f16": "f2", "f32": "f4", "f64": "f8",
}  # fmt: skip


def worst_ulp(actual, expected):
    """Largest error in units of the last place; results too small to be normal numbers may be 0."""
    with np.errstate(all="ignore"):
        a = actual.astype("f8")
        step = np.spacing(np.abs(expected).astype("f4")).astype("f8")
        error = np.abs(a - expected) / step
        fine = (np.isnan(a) & np.isnan(expected)) | (a == expected)
        fine |= (np.abs(expected) < TINY) & (np.abs(a) <= TINY)
        fine |= np.isinf(a) & (np.abs(expected) > np.finfo("f4").max) & (np.sign(a) == np.sign(expected))
    return float(np.nan_to_num(np.where(fine, 0, error), nan=np.inf).max())


def spread_values(rng, n=20000):
    anything = rng.integers(0, 2**32, n, dtype=np.uint64).astype("u4").view("f4")
    parts = [anything, rng.standard_normal(n) * 10, rng.uniform(-1, 1, n), rng.uniform(-104, 89, n), SPECIAL]
    with np.errstate(all="ignore"):  # signalling NaN
        return np.concatenate(parts).astype("f4")


@pytest.mark.parametrize("name", ["exp", "expm1", "log", "log1p", "sin", "cos", "tanh", "erf", "sqrt"])
def test_unary_functions_are_within_4_ulp(vk, rng, name):
    x = spread_values(rng)
    function = np.vectorize(math.erf, otypes=["f8"]) if name == "erf" else getattr(np, name)
    with np.errstate(all="ignore"):
        expected = function(x.astype("f8"))
    assert worst_ulp(vk(name, x), expected) <= 4


@pytest.mark.parametrize("name", ["add", "sub", "mul", "div", "pow", "arctan2", "maximum", "minimum"])
def test_binary_functions_are_within_4_ulp(vk, rng, name):
    x, y = spread_values(rng), rng.permutation(spread_values(rng))
    x, y = (
        np.concatenate([a, b])
        for a, b in ((x, np.repeat(SPECIAL, SPECIAL.size)), (y, np.tile(SPECIAL, SPECIAL.size)))
    )
    x, y = (np.where(np.abs(v) < TINY, 0, v).astype("f4") for v in (x, y))  # which devices may flush
    function = {"sub": np.subtract, "mul": np.multiply, "div": np.divide, "pow": np.power}.get(
        name
    ) or getattr(np, name)
    with np.errstate(all="ignore"):
        expected = function(x.astype("f8"), y.astype("f8"))
    assert worst_ulp(vk("atan2" if name == "arctan2" else name, x, y), expected) <= 4


def test_power_is_exact_enough_far_out(vk, rng):
    x = np.concatenate([rng.uniform(0, 3, 20000), rng.uniform(0.9, 1.1, 20000)]).astype("f4")
    y = np.concatenate([rng.uniform(-50, 50, 20000), rng.uniform(-800, 800, 20000)]).astype("f4")
    assert worst_ulp(vk("pow", x, y), np.power(x.astype("f8"), y.astype("f8"))) <= 4


def test_known_values_far_out(vk):
    np.testing.assert_array_equal(vk("tanh", np.float32([100, -100, 1e30, np.inf])), [1, -1, 1, 1])
    gelu = vk("nn.gelu", np.float32([20.625, -20.625, 100, 1e4]), approximate="tanh")
    np.testing.assert_array_equal(gelu, np.float32([20.625, 0, 100, 1e4]))
    np.testing.assert_array_equal(vk("nn.sigmoid", np.float32([1e4, -1e4])), [1, 0])
    np.testing.assert_array_equal(vk("nn.silu", np.float32([1e4, -1e4])), [1e4, 0])
    np.testing.assert_array_equal(vk("nn.softplus", np.float32([100])), [100])
    np.testing.assert_allclose(
        vk("atan2", np.float32([0.0, -0.0]), np.float32([-1, -1])), [np.pi, -np.pi], rtol=1e-7
    )


def test_floordiv_floors(vk, rng):
    np.testing.assert_array_equal(
        vk("floordiv", np.int32([-7, 7, 7, -7, 5]), np.int32([2, 2, -2, -2, 0])), [-4, 3, -4, 3, 0]
    )
    x = rng.integers(-1000, 1000, 20000).astype("f4") / 8
    y = (rng.integers(1, 100, 20000) * rng.choice([-1, 1], 20000)).astype("f4") / 8
    np.testing.assert_array_equal(vk("floordiv", x, y), np.floor_divide(x.astype("f8"), y.astype("f8")))


@pytest.mark.parametrize("code", ["u8", "u16", "u32", "u64", "i8", "i16", "i32", "i64"])
def test_integers_wrap_round_and_keep_their_type(vk, rng, code):
    kind = np.dtype(CODES[code])
    info = np.iinfo(kind)
    x, y = (rng.integers(info.min, info.max, 500, kind, endpoint=True) for _ in range(2))
    shift = rng.integers(0, info.bits, 500).astype(kind)
    for name, function in (("add", np.add), ("sub", np.subtract), ("mul", np.multiply), ("maximum", np.maximum),
                           ("bitwise_xor", np.bitwise_xor), ("eq", np.equal), ("lt", np.less)):  # fmt: skip
        np.testing.assert_array_equal(vk(name, x, y), function(x, y), err_msg=name)
    np.testing.assert_array_equal(vk("shift_left", x, shift), np.left_shift(x, shift))
    np.testing.assert_array_equal(vk("shift_right", x, shift), np.right_shift(x, shift))
    np.testing.assert_array_equal(
        vk("floordiv", x, np.where(y == 0, 1, y)), np.floor_divide(x, np.where(y == 0, 1, y))
    )
    small = rng.integers(0, 4, 500).astype(kind)
    np.testing.assert_array_equal(vk("pow", x, small), np.power(x, small))


def test_float64_and_int64_are_not_narrowed(vk):
    np.testing.assert_array_equal(vk("add", np.float64([1.0]), np.float64([1e-12])), [1 + 1e-12])
    np.testing.assert_array_equal(vk("add", np.int64([2**40]), np.int64([1])), [2**40 + 1])
    np.testing.assert_array_equal(vk("div", np.float64([1.0]), np.float64([3.0])), [1 / 3])
    np.testing.assert_array_equal(vk("add", np.uint8([250]), np.uint8([10])), [4])


@pytest.mark.parametrize("source", CODES)
def test_cast_from_each_type_to_each(vk, source):
    values = np.array([0, 1, 2, 3, 100, 127, 5]).astype(CODES[source])
    if source[0] in "if":
        values = np.concatenate([values, -values])
    if source[0] == "f":
        values = np.concatenate([values, np.array([0.5, 1.7, -2.5, 1e-5, 6e-8], CODES[source])])
    if source in ("i64", "u64"):
        values = np.append(values, np.array([2**40 + 1, 2**62 + 12345], CODES[source]))
    for target, kind in CODES.items():
        given = np.abs(values) if source[0] == "f" and target[0] == "u" else values
        with np.errstate(over="ignore"):
            expected = given.astype(kind)
        np.testing.assert_array_equal(
            vk("cast", given, dtype=dtypes.as_dtype(target)), expected, err_msg=target
        )


def test_half_conversions_round_as_numpy_does(vk, rng):
    halves = np.arange(1 << 16, dtype="u2").view("f2")
    np.testing.assert_array_equal(vk("cast", halves, dtype=dtypes.float32), halves.astype("f4"))
    scales = 10.0 ** rng.integers(-8, 5, 40000)
    for x in ((rng.standard_normal(40000) * scales).astype("f4"), rng.standard_normal(40000) * scales):
        with np.errstate(over="ignore"):
            expected = x.astype("f2")
        np.testing.assert_array_equal(vk("cast", x, dtype=dtypes.float16), expected)


@pytest.mark.parametrize("n", [1, 7, 8, 9, 31, 33, 63, 64, 65, 127, 129, 255, 257, 1023, 1025])
def test_every_element_of_every_size(vk, n):
    x = np.arange(n, dtype="f4")
    np.testing.assert_array_equal(vk("add", x, np.float32(1)), x + 1)


def test_more_than_65535_work_groups(vk):
    n = 65535 * 256 + 1
    x = vk.put(np.zeros(n, np.uint8))
    y = vk("add", x, np.uint8(1))
    assert y[-1] == 1 and y[65535 * 256 - 1] == 1 and int(y.sum()) == n


def test_axes_beyond_the_push_constants(vk):
    a = np.arange(64.0, dtype="f4").reshape((2,) * 6)
    x = vk.put(a)
    y = vk("add", x, x.permute(5, 4, 3, 2, 1, 0))
    np.testing.assert_array_equal(y, a + a.transpose())
    eight = np.arange(256.0, dtype="f4").reshape((2,) * 8)
    b, c = vk.put(eight[:, :1]), vk.put(eight[:1, :, :1])
    y = vk("where", vk.put(eight > 100), b.permute(*range(8)), c)
    np.testing.assert_array_equal(y, np.where(eight > 100, eight[:, :1], eight[:1, :, :1]))


def test_pieces_stay_within_31_bits():
    from grilly_backend_vulkan.kernels.mapping import pieces

    parts = pieces((3, 5), ((1 << 33, 7), (5, 1)))
    assert [(p.n, p.offsets) for p in parts] == [(5, (i << 33, 5 * i)) for i in range(3)]
    whole = pieces((1 << 32,), ((1,), (1,)))
    assert sum(p.n for p in whole) == 1 << 32 and max(p.n for p in whole) < 1 << 31


@pytest.mark.parametrize("code", ["f32", "f64"])
def test_floor_division_at_the_ends(vk, code):
    """Python's rule at infinities, zeros and underflow (NumPy)."""
    if code == "f64" and not vk.context.runtime.facts.f64:
        pytest.skip("no f64")
    ends = np.array(
        [0, -0.0, 1, -1, 2.5, -7, 1e30, -1e30, 1e-30, -1e-30, np.inf, -np.inf, np.nan], CODES[code]
    )
    x, y = (a.reshape(-1).copy() for a in np.meshgrid(ends, ends))
    with np.errstate(all="ignore"):
        expected = np.floor_divide(x, y)
    tiny = np.abs(expected) > 1e37  # beyond the range in f32
    np.testing.assert_array_equal(np.where(tiny, 0, vk("floordiv", x, y)), np.where(tiny, 0, expected))
