"""Tensors are values: copy on write, refused writes through views, and the NumPy protocols."""

from __future__ import annotations

import gc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import grilly_core as grilly
from grilly_core.errors import DTypeError, ShapeError, WriteError


def test_a_view_does_not_see_a_later_write():
    x = grilly.arange(4)
    y = x[1:]
    x[1] = 50
    assert x.tolist() == [0, 50, 2, 3]
    assert y.tolist() == [1, 2, 3]


@pytest.mark.parametrize(
    "write",
    [
        lambda x: x[0].__setitem__(1, 5.0),
        lambda x: x.data.zero_(),
        lambda x: x.reshape(4).add_(1),
        lambda x: x.T.fill_(0),
        lambda x: x.detach().mul_(2),
        lambda x: x[0].__iadd__(1),
    ],
)
def test_writing_through_a_view_is_refused(write):
    x = grilly.ones(2, 2)
    with pytest.raises(WriteError, match="clone"):
        write(x)
    assert x.tolist() == [[1, 1], [1, 1]]


def test_expanded_tensors_refuse_writes_and_size_one_axes_do_not():
    """TEN-03: never one write for each alias."""
    base = grilly.ones(1)
    with pytest.raises(WriteError):
        base.expand(3).add_(1)
    assert base.tolist() == [1]
    y = grilly.asarray(np.zeros((4, 4, 3), np.float32).transpose(2, 0, 1)[None])
    assert y.add_(1).sum().item() == 48


def test_augmented_assignment_replaces_this_object():
    x = grilly.ones(3)
    alias = x
    x += 1
    assert alias is x
    assert x.tolist() == [2, 2, 2]


def test_a_write_keeps_dtype_and_shape():
    x = grilly.zeros(3, dtype="int32")
    with pytest.raises(DTypeError, match="float32"):
        x += 0.5
    with pytest.raises(ShapeError, match="shape"):
        x += grilly.ones(2, 3, dtype="int32")
    assert x.tolist() == [0, 0, 0]


def test_writes_to_a_watched_leaf_need_no_grad():
    w = grilly.ones(2, requires_grad=True)
    with pytest.raises(WriteError, match="no_grad"):
        w[0] = 3.0
    with grilly.no_grad():
        w -= 0.5
    assert w.requires_grad
    assert w.tolist() == [0.5, 0.5]


def test_repeated_indices():
    """TEN-05. Oracle: NumPy's rule for assignment, a count for accumulation."""
    index = [0, 0, 1]
    y = grilly.zeros(3)
    y[index] += 1
    assert y.tolist() == [1, 1, 0]
    z = grilly.zeros(3).index_add_(0, grilly.asarray(index), grilly.ones(3))
    assert z.tolist() == [2, 1, 0]
    many = grilly.zeros(3).index_add_(0, grilly.zeros(100_000, dtype="int32"), grilly.ones(100_000))
    assert many.tolist() == [100_000, 0, 0]


def test_empty_batches():
    """TEN-06. Oracle: PyTorch 2.13's values."""
    e = grilly.zeros(0, 4)
    f = grilly.functional
    assert e.sum().item() == 0
    assert np.isnan(e.mean().item())
    assert e.prod().item() == 1
    assert f.softmax(e, 1).shape == (0, 4)
    assert f.linear(e, grilly.ones(3, 4)).shape == (0, 3)
    assert (grilly.zeros(2, 0) @ grilly.zeros(0, 3)).tolist() == [[0, 0, 0]] * 2
    assert f.conv2d(grilly.zeros(0, 3, 8, 8), grilly.ones(4, 3, 3, 3)).shape == (0, 4, 6, 6)
    assert grilly.concat([grilly.zeros(0), grilly.ones(2)]).tolist() == [1, 1]
    assert grilly.concat([grilly.zeros(0, 3), grilly.zeros(0, 3)]).shape == (0, 3)
    with pytest.raises(ShapeError, match="no element"):
        e.max()
    with pytest.raises(ShapeError, match="no element"):
        e.argmax(0)


def test_gradients_of_empty_batches():
    """TEN-06, backward: zero-size or zero gradients."""
    x = grilly.zeros(0, 4, requires_grad=True)
    w = grilly.ones(3, 4, requires_grad=True)
    grilly.functional.linear(x, w).sum().backward()
    assert x.grad.shape == (0, 4)
    assert w.grad.tolist() == [[0] * 4] * 3


class TestNumPy:
    def test_copy_contract(self):
        """TEN-07. Oracle: NumPy 2's rules for the copy keyword."""
        t = grilly.asarray([0, 1, 2])
        a = np.array(t, copy=True)
        a[0] = 99
        assert t.tolist() == [0, 1, 2]
        view = np.array(t, copy=False)
        assert not view.flags.writeable
        assert np.shares_memory(view, t.numpy())
        assert np.asarray(t, dtype="f8").dtype == np.float64
        with pytest.raises(ValueError, match="copy"):
            np.array(t, dtype="f8", copy=False)

    def test_ndarray_on_the_left(self):
        """TEN-08: operators give tensors with history, never object arrays."""
        a = np.arange(3.0, dtype="f4")
        t = grilly.tensor([1.0, 2.0, 3.0], requires_grad=True)
        for result, expected in [
            (a * t, [0, 2, 6]),
            (a + t, [1, 3, 5]),
            (a @ t, 8),
            (np.float32(2) * t, [2, 4, 6]),
            (np.multiply(a, t), [0, 2, 6]),
        ]:
            assert isinstance(result, grilly.Tensor)
            assert result.requires_grad
            assert result.tolist() == expected
        assert (a == t).tolist() == [False, False, False]
        (a * t).sum().backward()
        assert t.grad.tolist() == [0, 1, 2]

    def test_numpy_functions_return_tensors(self):
        t = grilly.tensor([1.0, 4.0], requires_grad=True)
        for result in (np.sqrt(t), np.sum(t), np.concatenate([t, t]), np.where(t > 2, t, 0.0)):
            assert isinstance(result, grilly.Tensor)
            assert result.requires_grad

    def test_unknown_numpy_functions_say_so(self):
        with pytest.raises(TypeError, match="numpy"):
            np.busday_count(grilly.ones(2), grilly.ones(2))

    def test_a_view_outlives_its_tensor(self):
        """TEN-11. Oracle: n (n - 1) / 2."""
        a = grilly.arange(1_000_000, dtype="float64").numpy()
        gc.collect()
        others = [grilly.ones(1_000_000) for _ in range(20)]
        assert a.sum() == 499999500000
        del others

    def test_a_view_does_not_see_a_later_write(self):
        t = grilly.zeros(3)
        a = t.numpy()
        t[0] = 1.0
        t += 1
        assert a.tolist() == [0, 0, 0]

    def test_numpy_on_a_watched_tensor_says_detach(self):
        t = grilly.ones(2, requires_grad=True)
        with pytest.raises(grilly.AutogradError, match="detach"):
            t.numpy()
        assert "1." in repr(t)
        assert t.tolist() == [1, 1]

    def test_dlpack_round_trip(self):
        t = grilly.arange(6, dtype="float32").reshape(2, 3)
        assert np.from_dlpack(t).tolist() == t.tolist()
        a = np.arange(3.0)
        shared = grilly.from_dlpack(a)
        assert shared.dtype is grilly.float64
        assert np.shares_memory(shared.numpy(), a)

    def test_sharing_on_request(self):
        a = np.arange(3, dtype=np.float32)
        assert np.shares_memory(grilly.asarray(a, copy=False).numpy(), a)
        with pytest.raises(ValueError, match="copy"):
            grilly.asarray(a, dtype="float64", copy=False)


class TestEntryRules:
    def test_default_types(self):
        assert grilly.asarray([1, 2]).dtype is grilly.int32
        assert grilly.asarray([1.0]).dtype is grilly.float32
        assert grilly.asarray(np.zeros(2)).dtype is grilly.float32
        assert grilly.asarray(np.zeros(2), dtype="float64").dtype is grilly.float64
        assert grilly.asarray(np.zeros(2, np.int64)).dtype is grilly.int64
        assert grilly.asarray([True]).dtype is grilly.bool

    def test_arrays_take_the_floating_type_they_meet(self):
        x = grilly.ones(2, dtype="float64")
        assert (x + np.ones(2, np.float32)).dtype is grilly.float64
        assert (x + 1.5).dtype is grilly.float64

    @pytest.mark.parametrize("bad", [[[1], [1, 2]], ["a"], object(), {1: 2}])
    def test_what_is_no_array_is_refused(self, bad):
        with pytest.raises((ValueError, TypeError), match=r"asarray|dtype"):
            grilly.asarray(bad)

    def test_integers_that_do_not_fit_are_refused(self):
        with pytest.raises(DTypeError, match="int64"):
            grilly.asarray([2**40])
        with pytest.raises(DTypeError, match="uint8"):
            grilly.asarray([300], dtype="uint8")
        with pytest.raises(DTypeError, match="fit"):
            grilly.zeros(2, dtype="uint8") + 300

    def test_negative_zero_keeps_its_sign(self):
        x = grilly.ones(1)
        assert np.signbit((x * 0.0).item()) == np.False_
        assert np.signbit((x * -0.0).item())


ARRAYS = hnp.arrays(
    np.int32, hnp.array_shapes(min_dims=1, max_dims=3, max_side=4), elements=st.integers(-9, 9)
)


@settings(max_examples=200)
@given(ARRAYS, st.data())
def test_basic_reads_are_numpys(array, data):
    key = data.draw(hnp.basic_indices(array.shape, allow_newaxis=True))
    assert np.array_equal(grilly.asarray(array)[key].numpy(), array[key])


@settings(max_examples=100)
@given(ARRAYS, st.data())
def test_index_array_reads_and_writes_are_numpys(array, data):
    key = data.draw(
        hnp.integer_array_indices(array.shape, result_shape=hnp.array_shapes(max_dims=2, max_side=3))
    )
    t = grilly.asarray(array)
    assert np.array_equal(t[key].numpy(), array[key])
    expected = array.copy()
    expected[key] = 7
    t[key] = 7
    assert np.array_equal(t.numpy(), expected)


@settings(max_examples=100)
@given(ARRAYS, st.data())
def test_basic_writes_are_numpys(array, data):
    key = data.draw(hnp.basic_indices(array.shape))
    value = np.arange(array[key].size, dtype=np.int32).reshape(array[key].shape)
    expected = array.copy()
    expected[key] = value
    t = grilly.asarray(array)
    t[key] = value
    assert np.array_equal(t.numpy(), expected)


@settings(max_examples=50)
@given(ARRAYS)
def test_masks_are_numpys(array):
    t = grilly.asarray(array)
    assert np.array_equal(t[t > 0].numpy(), array[array > 0])
    expected = array.copy()
    expected[array > 0] = -1
    t[t > 0] = -1
    assert np.array_equal(t.numpy(), expected)


@pytest.mark.parametrize("key", [5, -6, (0, 0), [7], (..., ...), 1.5, "a"])
def test_bad_keys_are_explained(key):
    with pytest.raises(IndexError, match=r"index|out of range"):
        grilly.arange(5)[key]


@given(
    hnp.arrays(
        np.float32, hnp.array_shapes(min_dims=1, max_dims=3, max_side=4), elements=st.floats(-4, 4, width=32)
    ),
    st.data(),
)
def test_reductions_agree_with_float64(array, data):
    """Oracle: NumPy in float64."""
    axis = data.draw(st.sampled_from([None, *range(-array.ndim, array.ndim)]))
    keepdims = data.draw(st.booleans())
    t = grilly.asarray(array)
    for name in ("sum", "max", "min", "prod", "mean", "var"):
        ours = getattr(grilly, name)(t, axis=axis, keepdims=keepdims)
        theirs = getattr(np, name)(array.astype(np.float64), axis=axis, keepdims=keepdims)
        grilly.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5, what=name)


def test_fills_tell_zeros_apart():
    """0.0 and -0.0 are equal as keys of a cache, and different as values."""
    for value in (0.0, -0.0, 0.0):
        assert np.signbit(grilly.full((2,), value).tolist()[0]) == np.signbit(value)


def test_positions_beyond_int32_are_refused():
    huge = grilly.zeros(1, dtype="uint8").expand(2**31)
    with pytest.raises(ShapeError, match="int32"):
        huge.argmax(0)
    with pytest.raises(ShapeError, match="int64"):
        grilly.arange(2**31)
