"""What indexes refuse, each in words that say what was expected and what came; the index stays as it was."""

from __future__ import annotations

import numpy as np
import pytest

from grilly_ext_memory.index.factory import index_factory

X = np.random.default_rng(0).standard_normal((60, 4)).astype(np.float32)
KINDS = ["Flat", "SQ8", "SQ4", "SQfp16", "PQ2x3", "IVF5,Flat", "IVF5,SQ8", "IVF5,SQfp16", "IVF5,PQ2x3"]


@pytest.fixture(params=KINDS)
def index(request):
    made = index_factory(4, request.param)
    made = made if made.is_trained else made.train(X)
    made.add(X)
    return made


@pytest.mark.parametrize("kind", ["SQ8", "SQ4", "PQ2x3", "IVF5,Flat", "IVF5,SQ8", "IVF5,PQ2x3"])
def test_an_untrained_index_says_so(kind):
    made = index_factory(4, kind)
    for use in (lambda: made.add(X), lambda: made.search(X, 1), lambda: made.range_search(X, 1.0)):
        with pytest.raises(RuntimeError, match="must be trained first"):
            use()
    with pytest.raises(ValueError, match=r"train.*received 0"):
        made.train(X[:0])


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda i: i.search(X, 0), ValueError, "k must be at least 1; received 0"),
        (lambda i: i.search(X, 2.5), TypeError, "k must be a whole number; received 2.5"),
        (lambda i: i.search(X[:, :3], 1), ValueError, "width 4; received shape .*width 3"),
        (lambda i: i.add([[1, 2], [3]]), TypeError, "rows of numbers"),
        (lambda i: i.add(np.full((1, 4), 1e39)), ValueError, "not finite in float32"),
        (lambda i: i.add_with_ids(X[:1], [2**63 - 1]), ValueError, "below 9223372036854775807"),
        (lambda i: i.range_search(X[:1], float("nan")), ValueError, "radius must be a number; received nan"),
        (lambda i: i.range_search(X[:1], "far"), TypeError, "radius must be a number; received 'far'"),
        (lambda i: i.merge_from(None), ValueError, "expected another index"),
    ],
)
def test_what_is_refused_changes_nothing(index, call, error, words):
    before = index.search(X[:5], 3)
    with pytest.raises(error, match=words):
        call(index)
    after = index.search(X[:5], 3)
    assert (after.ids == before.ids).all() and (after.distances == before.distances).all()
    assert index.add(X[:1]).tolist() == [60]


def test_a_metric_that_an_index_of_bits_has_not_is_refused():
    with pytest.raises(ValueError, match="BFlat.*'ip'"):
        index_factory(8, "BFlat", "ip")
    assert index_factory(8, "BFlat", "hamming").d == 8
