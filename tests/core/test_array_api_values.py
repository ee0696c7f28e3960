"""The Array API's functions on random arrays; the oracle is NumPy, which implements the standard too."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import grilly

FEW = settings(max_examples=40, deadline=None)
SHAPES = hnp.array_shapes(min_dims=1, max_dims=3, min_side=0, max_side=4)
FILLED = hnp.array_shapes(min_dims=1, max_dims=3, min_side=1, max_side=4)
FLOATS = st.floats(-100, 100, width=32)
EDGES = st.sampled_from([0.0, -0.0, 1.0, -2.5, np.inf, -np.inf, np.nan])
INTS = st.integers(-50, 50)

ONE_ARRAY = """
    abs ceil exp expm1 floor isfinite isinf isnan log
    log1p round sign signbit sqrt square tanh trunc
"""
TWO_ARRAYS = """
    add atan2 copysign divide floor_divide hypot logaddexp
    maximum minimum multiply pow remainder subtract
"""


def floats(shape=FILLED, elements=FLOATS):
    return hnp.arrays(np.float32, shape, elements=elements)


def ints(shape=FILLED, elements=INTS):
    return hnp.arrays(np.int32, shape, elements=elements)


def agree(mine, theirs, tol=1e-5):
    theirs = np.asarray(theirs)
    assert mine.shape == theirs.shape
    assert mine.dtype.kind == theirs.dtype.kind
    np.testing.assert_allclose(mine.numpy(), theirs, rtol=tol, atol=tol)


def tensor(array):
    return grilly.asarray(array, device="cpu")


@pytest.mark.parametrize(
    "name",
    ONE_ARRAY.split(),
)
@FEW
@given(x=floats(elements=EDGES | FLOATS))
def test_functions_of_one_array_also_at_the_edges(name, x):
    with np.errstate(all="ignore"):
        expected = getattr(np, name)(x)
    mine = getattr(grilly, name)(tensor(x)).numpy()
    np.testing.assert_allclose(mine, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "name",
    TWO_ARRAYS.split(),
)
@FEW
@given(data=st.data())
def test_functions_of_two_arrays_broadcast(name, data):
    shapes = data.draw(hnp.mutually_broadcastable_shapes(num_shapes=2, max_dims=3, max_side=4)).input_shapes
    x, y = (data.draw(floats(shape, st.floats(0.5, 9, width=32))) for shape in shapes)
    agree(getattr(grilly, name)(tensor(x), tensor(y)), getattr(np, name)(x, y), 1e-4)


@pytest.mark.parametrize(
    "name",
    ["bitwise_and", "bitwise_or", "bitwise_xor", "floor_divide", "remainder", "less", "equal", "not_equal"],
)
@FEW
@given(data=st.data())
def test_functions_of_integers_broadcast(name, data):
    shapes = data.draw(hnp.mutually_broadcastable_shapes(num_shapes=2, max_dims=3, max_side=4)).input_shapes
    x, y = data.draw(ints(shapes[0])), data.draw(ints(shapes[1], st.integers(1, 9)))
    assert np.array_equal(getattr(grilly, name)(tensor(x), tensor(y)).numpy(), getattr(np, name)(x, y))


@pytest.mark.parametrize(
    "name", ["all", "any", "count_nonzero", "max", "mean", "min", "prod", "std", "sum", "var"]
)
@FEW
@given(data=st.data(), keepdims=st.booleans())
def test_reductions(name, data, keepdims):
    x = data.draw(floats(elements=st.floats(-3, 3, width=32)))
    axis = data.draw(st.none() | st.integers(-x.ndim, x.ndim - 1) | st.just(tuple(range(x.ndim))))
    mine = getattr(grilly, name)(tensor(x), axis=axis, keepdims=keepdims)
    expected = getattr(np, name)(x.astype(np.float64), axis=axis, keepdims=keepdims)
    np.testing.assert_allclose(mine.numpy(), expected, rtol=1e-4, atol=1e-4)


@FEW
@given(data=st.data(), initial=st.booleans())
def test_running_sums_and_products(data, initial):
    x = data.draw(floats(elements=st.floats(-2, 2, width=32)))
    axis = data.draw(st.integers(-x.ndim, x.ndim - 1))
    for name in ("cumulative_sum", "cumulative_prod"):
        mine = getattr(grilly, name)(tensor(x), axis=axis, include_initial=initial)
        agree(mine, getattr(np, name)(x, axis=axis, include_initial=initial), 1e-4)


@FEW
@given(x=ints(SHAPES, st.integers(-4, 4)))
def test_sets(x):
    values, indices, inverse, counts = grilly.unique_all(tensor(x))
    expected = np.unique_all(x)
    assert values.tolist() == expected.values.tolist()
    assert counts.tolist() == expected.counts.tolist()
    assert np.array_equal(inverse.numpy(), expected.inverse_indices.reshape(x.shape))
    assert np.array_equal(x.ravel()[indices.numpy()], expected.values)


@FEW
@given(x=floats(elements=EDGES | FLOATS), descending=st.booleans(), data=st.data())
def test_sorting_is_stable_and_puts_nan_last(x, descending, data):
    axis = data.draw(st.integers(-x.ndim, x.ndim - 1))
    mine = grilly.sort(tensor(x), axis=axis, descending=descending).numpy()
    expected = np.sort(x, axis)
    assert np.array_equal(mine, np.flip(expected, axis) if descending else expected, equal_nan=True)
    order = grilly.argsort(tensor(x), axis=axis).numpy()
    assert np.array_equal(order, np.argsort(x, axis, stable=True))


@FEW
@given(
    x=floats(hnp.array_shapes(min_dims=1, max_dims=1, min_side=0, max_side=20), EDGES | FLOATS),
    v=floats(elements=EDGES | FLOATS),
    side=st.sampled_from(["left", "right"]),
)
def test_searching_in_sorted_values(x, v, side):
    x = np.sort(x)
    assert np.array_equal(
        grilly.searchsorted(tensor(x), tensor(v), side=side).numpy(), np.searchsorted(x, v, side)
    )


@FEW
@given(x=floats(st.just((2, 3, 4))), data=st.data())
def test_reading_and_writing_by_basic_keys(x, data):
    key = data.draw(hnp.basic_indices(x.shape, allow_newaxis=True, allow_ellipsis=True))
    agree(tensor(x)[key], x[key])
    mine, expected = tensor(x), x.copy()
    mine[key] = 7.0
    expected[key] = 7.0
    assert np.array_equal(mine.numpy(), expected)


@FEW
@given(x=floats(st.just((3, 4))), data=st.data())
def test_reading_and_writing_by_masks_and_integer_arrays(x, data):
    mask = data.draw(hnp.arrays(np.bool_, data.draw(st.sampled_from([(3, 4), (3,)]))))
    rows = data.draw(ints(hnp.array_shapes(max_dims=2, max_side=3), st.integers(-3, 2)))
    for key in (mask, rows, (rows, 1), (slice(None), rows), (rows, rows)):
        tensors = (
            tuple(tensor(k) if isinstance(k, np.ndarray) else k for k in key)
            if isinstance(key, tuple)
            else tensor(key)
        )
        agree(tensor(x)[tensors], x[key])
        mine, expected = tensor(x), x.copy()
        mine[tensors] = 7.0
        expected[key] = 7.0
        assert np.array_equal(mine.numpy(), expected)


@FEW
@given(x=floats(), data=st.data())
def test_manipulation(x, data):
    axis = data.draw(st.integers(-x.ndim, x.ndim - 1))
    order = data.draw(st.permutations(range(x.ndim)))
    shift = data.draw(st.integers(-5, 5))
    t = tensor(x)
    agree(grilly.permute_dims(t, order), np.permute_dims(x, order))
    agree(grilly.roll(t, shift, axis=axis), np.roll(x, shift, axis))
    agree(grilly.flip(t, axis=axis), np.flip(x, axis))
    agree(grilly.repeat(t, 2, axis=axis), np.repeat(x, 2, axis))
    agree(grilly.tile(t, (2, 1)), np.tile(x, (2, 1)))
    agree(grilly.concat([t, t], axis=axis), np.concat([x, x], axis=axis))
    agree(grilly.stack([t, t], axis=axis), np.stack([x, x], axis=axis))
    agree(grilly.moveaxis(t, axis, 0), np.moveaxis(x, axis, 0))
    agree(grilly.diff(t, axis=axis), np.diff(x, axis=axis))
    agree(grilly.take(t, tensor(np.zeros(2, np.int32)), axis=axis), np.take(x, [0, 0], axis=axis))


REAL = [
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "float32",
    "float64",
    "complex64",
    "complex128",
]


def _promote(a, b):
    """Whether the standard says what two types meet in: an integer with a float is left open."""
    kinds = {np.dtype(a).kind, np.dtype(b).kind}
    return not (kinds & {"i", "u"} and kinds & {"f", "c"})


@pytest.mark.parametrize(("a", "b"), [(a, b) for a in REAL for b in REAL if _promote(a, b)])
def test_promotion_is_the_standards(a, b):
    assert grilly.result_type(getattr(grilly, a), getattr(grilly, b)).name == np.result_type(a, b).name


@FEW
@given(data=st.data(), n=st.integers(1, 4))
def test_decompositions_give_the_matrix_back(data, n):
    m = data.draw(st.integers(1, 4))
    x = data.draw(hnp.arrays(np.float64, (2, m, n), elements=st.floats(-2, 2)))
    t = grilly.asarray(x, dtype=grilly.float64, device="cpu")
    q, r = grilly.linalg.qr(t)
    np.testing.assert_allclose((q @ r).numpy(), x, atol=1e-9)
    u, s, vh = grilly.linalg.svd(t, full_matrices=False)
    np.testing.assert_allclose((u * s[..., None, :] @ vh).numpy(), x, atol=1e-9)
    np.testing.assert_allclose(s.numpy(), np.linalg.svd(x, compute_uv=False), atol=1e-9)
    factors = grilly.linalg.lu(t)
    np.testing.assert_allclose((factors.P @ factors.L @ factors.U).numpy(), x, atol=1e-9)
    square = t @ t.mT + grilly.eye(m, dtype=grilly.float64, device="cpu")
    low = grilly.linalg.cholesky(square)
    np.testing.assert_allclose((low @ low.mT).numpy(), square.numpy(), atol=1e-9)
    w, v = grilly.linalg.eigh(square)
    np.testing.assert_allclose((v * w[..., None, :] @ v.mT).numpy(), square.numpy(), atol=1e-9)
    np.testing.assert_allclose(
        (square @ grilly.linalg.inv(square)).numpy(), np.eye(m)[None].repeat(2, 0), atol=1e-9
    )
    np.testing.assert_allclose(grilly.linalg.det(square).numpy(), np.linalg.det(square.numpy()), rtol=1e-9)


@pytest.mark.parametrize(
    "equation",
    [
        "ij,jk->ik",
        "ij,ij->",
        "ii->i",
        "ii",
        "i,j->ij",
        "bij,bjk->bik",
        "ij->ji",
        "...ij,...jk->...ik",
        "ij,jk,kl->il",
    ],
)
def test_einsum(equation):
    rng = np.random.default_rng(0)
    operands = [
        rng.standard_normal((3,) * len(term.replace("...", "b")))
        for term in equation.split("->")[0].split(",")
    ]
    mine = grilly.einsum(equation, *(grilly.asarray(x, dtype=grilly.float64, device="cpu") for x in operands))
    np.testing.assert_allclose(mine.numpy(), np.einsum(equation, *operands), atol=1e-12)
