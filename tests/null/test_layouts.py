"""Shape and stride arithmetic against NumPy's own views."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from grilly_core import layout
from grilly_core.errors import ShapeError

SHAPES = st.lists(st.integers(1, 4), min_size=0, max_size=4).map(tuple)


def strided(array):
    """Strides in elements."""
    return tuple(s // array.itemsize for s in array.strides)


@st.composite
def views(draw):
    """A NumPy array with odd strides."""
    shape = draw(SHAPES)
    array = np.arange(math.prod(2 * n for n in shape), dtype=np.int32).reshape([2 * n for n in shape])
    array = array[tuple(slice(None, None, draw(st.sampled_from([1, 2]))) for _ in shape)]
    return array.transpose(draw(st.permutations(range(len(shape)))))


@given(views(), st.data())
def test_reshape_agrees_with_numpy(array, data):
    """Where NumPy makes a view, so do we, with the same strides; where it copies, we answer None."""
    factors = data.draw(st.permutations([n for n in array.shape if n > 1]))
    target = tuple(factors) if data.draw(st.booleans()) else (math.prod(array.shape),)
    strides = layout.reshape_strides(layout.make_layout(array.shape, strided(array)), target)
    expected = array.reshape(target)
    if strides is not None:
        shown = np.lib.stride_tricks.as_strided(array, target, [s * 4 for s in strides])
        assert np.array_equal(shown, expected)
    else:
        assert not np.shares_memory(array, expected)


@given(SHAPES, SHAPES)
def test_broadcast_agrees_with_numpy(a, b):
    try:
        expected = np.broadcast_shapes(a, b)
    except ValueError:
        with pytest.raises(ShapeError, match="broadcast"):
            layout.broadcast_shapes(a, b)
    else:
        assert layout.broadcast_shapes(a, b) == expected


@given(views())
def test_contiguity_agrees_with_numpy(array):
    assert layout.make_layout(array.shape, strided(array)).contiguous == array.flags.c_contiguous


def test_layouts_are_interned():
    assert layout.contiguous((2, 3)) is layout.make_layout((2, 3), (3, 1))


@pytest.mark.parametrize(
    ("shape", "size", "message"),
    [
        ((2, -1, -1), 8, "one -1"),
        ((3, -1), 8, "whole number"),
        ((2, 2), 8, "holds 4"),
        ((-2, 2), 8, "negative"),
    ],
)
def test_bad_shapes_are_explained(shape, size, message):
    with pytest.raises(ShapeError, match=message):
        layout.resolve_shape(shape, size)


@pytest.mark.parametrize("axis", [3, -4, 1.5, True, "x"])
def test_bad_axes_are_explained(axis):
    with pytest.raises((IndexError, TypeError), match="axis"):
        layout.normalize_axis(axis, 3)
