"""Promotion against NumPy within a kind, and the rules that are ours."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from grilly_core import dtypes
from grilly_core.dtypes import as_dtype, promote, promote_scalar
from grilly_core.errors import DTypeError

PLAIN = [d for d in dtypes.ALL if d is not dtypes.bfloat16]
NO_COMMON = {("uint64", s) for s in ("int8", "int16", "int32", "int64")}


@pytest.mark.parametrize("a", PLAIN, ids=str)
@pytest.mark.parametrize("b", PLAIN, ids=str)
def test_promotion_within_a_kind_is_numpys(a, b):
    """Oracle: numpy.result_type, where the Array API defines the pair."""
    kinds = {a.kind, b.kind}
    if (a.name, b.name) in NO_COMMON or (b.name, a.name) in NO_COMMON:
        with pytest.raises(DTypeError, match="no common integer type"):
            promote(a, b)
    elif kinds <= {"u", "i"} or kinds <= {"f", "c"} or len(kinds) == 1:
        assert promote(a, b).name == np.result_type(a.numpy, b.numpy).name


def test_integers_meet_floats_as_floats():
    assert promote(dtypes.int64, dtypes.float16) is dtypes.float16
    assert promote(dtypes.float16, dtypes.bfloat16) is dtypes.float32


def test_python_scalars_are_weak():
    assert promote_scalar(dtypes.float16, float) is dtypes.float16
    assert promote_scalar(dtypes.int8, int) is dtypes.int8
    assert promote_scalar(dtypes.int8, float) is dtypes.float32
    assert promote_scalar(dtypes.float64, complex) is dtypes.complex128


@pytest.mark.parametrize("name", ["f32", "float32", np.float32, np.dtype("f4"), float, dtypes.float32])
def test_many_names_mean_float32(name):
    assert as_dtype(name) is dtypes.float32


@pytest.mark.parametrize("name", ["f31", object, np.dtype("M8[s]"), np.dtype(">f4")])
def test_foreign_types_are_refused(name):
    with pytest.raises(DTypeError):
        as_dtype(name)


def test_pickles_to_itself():
    assert pickle.loads(pickle.dumps(dtypes.float16)) is dtypes.float16
