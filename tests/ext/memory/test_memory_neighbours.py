"""Classification by neighbours: votes counted by hand, and what a classifier keeps."""

from __future__ import annotations

import copy

import numpy as np
import pytest

import grilly
from grilly_core.errors import ShapeError
from grilly_ext_memory.index.binary import IndexBinaryFlat
from grilly_ext_memory.index.factory import index_factory
from grilly_ext_memory.index.flat import IndexFlat
from grilly_ext_memory.nn.neighbours import KNNClassifier

X = np.array([[0.0], [1.0], [3.0], [7.0], [8.0]])
Y = [2, 5, 5, 2, 9]


def test_votes_are_counted():
    """By hand: the nearest three of 1.5 are 1, 0 and 3, those of 7.4 are 7, 8 and 3."""
    knn = KNNClassifier(k=3).fit(X, Y)
    assert knn.classes.tolist() == [2, 5, 9]
    np.testing.assert_allclose(knn.predict_proba([[1.6], [7.4]]), [[1 / 3, 2 / 3, 0], [1 / 3, 1 / 3, 1 / 3]])
    assert knn.predict([[1.6], [7.4]]).tolist() == [5, 2]  # of equal votes the lower class
    assert knn.score([[1.6], [7.4]], [5, 9]) == 0.5
    near = KNNClassifier(k=2, weights="distance").fit(X, Y)
    np.testing.assert_allclose(near.predict_proba([[7.25], [8.0]]), [[0.75, 0, 0.25], [0, 0, 1]], atol=1e-12)


def test_weights_by_a_function_and_missing_neighbours():
    """A neighbour that is not there has no vote, whatever a function says of its distance."""
    seen = []

    def square(distances):
        seen.append(distances.shape)
        return distances**2

    knn = KNNClassifier(k=99, weights=square).fit(X, Y)
    votes = (X[:, 0] - 2.0) ** 2
    want = np.array([votes[0] + votes[3], votes[1] + votes[2], votes[4]])
    np.testing.assert_allclose(knn.predict_proba([[2.0]])[0], want / want.sum())
    assert seen == [(1, 5)]
    with pytest.raises(ValueError, match=r"votes \(1, 5\)"):
        KNNClassifier(k=9, weights=lambda d: d[:, :1]).fit(X, Y).predict([[1.0]])


def test_rows_come_and_go():
    knn = KNNClassifier(k=1).fit(X, Y)
    assert knn.add([[20.0]], [3]).tolist() == [5]
    assert knn.classes.tolist() == [2, 3, 5, 9]
    assert knn.predict([[19.0], [3.0]]).tolist() == [3, 5]
    assert knn.remove_ids([5]) == 1
    assert knn.predict([[19.0]]).tolist() == [9]
    knn.fit([[0.0], [1.0]], ["b", "a"])
    assert knn.predict([[0.2]]).tolist() == ["b"]
    assert len(knn.index) == 2


@pytest.mark.parametrize("kind", ["Flat", "SQ8", "PQ2x3", "IVF4,Flat"])
def test_any_index_and_its_state(kind, tmp_path):
    """The state brings back a classifier that answers the same, through a file too."""
    rng = np.random.default_rng(0)
    centres = 10 * rng.normal(size=(3, 4))
    y = rng.integers(3, size=120)
    x = centres[y] + rng.normal(size=(120, 4))
    knn = KNNClassifier(index=index_factory(4, kind)).fit(x, y)
    assert knn.score(x, y) == 1.0
    knn.fit(x[::-1], y[::-1])  # ids go on, labels follow them
    assert knn.score(x, y) == 1.0
    other = KNNClassifier()
    grilly.io.save_tree(knn.state_dict(), tmp_path / "state")
    other.load_state_dict(grilly.io.load_tree(tmp_path / "state"))
    np.testing.assert_array_equal(other.predict_proba(x), knn.predict_proba(x))
    assert type(other.index) is type(knn.index)
    twin = copy.deepcopy(knn)
    twin.add(x[:1], [7])
    assert twin.predict_proba(x[:1]).shape == (1, 4) and twin.index.ntotal == 121
    assert knn.predict_proba(x[:1]).shape == (1, 3) and knn.index.ntotal == 120
    empty = KNNClassifier()
    other.load_state_dict(empty.state_dict())
    with pytest.raises(RuntimeError, match=r"call fit"):
        other.predict(x)


def test_bits_and_tensors():
    knn = KNNClassifier(k=1, index=IndexBinaryFlat(8)).fit(np.array([[0], [255]], np.uint8), [False, True])
    assert knn.predict(np.array([[3], [127]], np.uint8)).tolist() == [False, True]
    dense = KNNClassifier(k=1).fit(grilly.asarray(X), grilly.asarray(np.array(Y)))
    out = dense(grilly.asarray([[0.9]]))
    assert isinstance(out, grilly.Tensor) and out.tolist() == [[0.0, 1.0, 0.0]]


def test_bad_input_is_refused_and_changes_nothing():
    knn = KNNClassifier(k=1).fit(X, Y)
    with pytest.raises(ValueError, match="5 rows and 4 labels"):
        knn.fit(X, Y[:4])
    with pytest.raises(ShapeError, match="width 1"):
        knn.fit(np.zeros((2, 2)), [1, 2])
    with pytest.raises(TypeError, match="labels are int64"):
        knn.add([[1.0]], ["x"])
    with pytest.raises(ValueError, match="not finite"):
        knn.add([[np.nan]], [1])
    assert knn.predict(X).tolist() == Y
    with pytest.raises(ValueError, match="row 1 has no neighbour"):
        knn.predict([[1.0], [np.nan]])
    with pytest.raises(TypeError, match="whole numbers"):
        KNNClassifier().fit(X, X[:, 0])
    with pytest.raises(ValueError, match="k must be at least 1"):
        KNNClassifier(k=0)
    with pytest.raises(ValueError, match="'uniform'"):
        KNNClassifier(weights="even")
    with pytest.raises(ValueError, match="'ip' has no distances"):
        KNNClassifier(metric="ip", weights="distance")
    with pytest.raises(RuntimeError, match="call fit"):
        KNNClassifier().predict(X)
    full = IndexFlat(1)
    full.add(X)
    with pytest.raises(ValueError, match="must be empty"):
        KNNClassifier(index=full)
