"""Classification by the nearest rows of an index."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Self

import numpy as np
from numpy.typing import NDArray

import grilly_core as grilly
from grilly_core.errors import StateDictError
from grilly_core.nn import Module
from grilly_core.tensor import Tensor
from grilly_ext_memory.index.arguments import as_count, as_ids, as_metric, largest_first
from grilly_ext_memory.index.base import Index
from grilly_ext_memory.index.files import index_bytes, index_from_bytes
from grilly_ext_memory.index.flat import IndexFlat
from grilly_ext_memory.index.ranking import Hits, Ids

__all__ = ["KNNClassifier"]

_WEIGHTS: Final = ("uniform", "distance")

Weigh = Callable[[NDArray[Any]], Any]


class KNNClassifier(Module):
    """The class of most of the k nearest rows, as scikit-learn's `KNeighborsClassifier`, over any index.

    Of classes with as many votes the lower one is taken. Nothing is learnt by gradients; the rows, the labels and the
    index's training are in ``state_dict``.

    Parameters
    ----------
    k : int
        Neighbours that vote; all of them, if there are fewer.
    metric : str
        Of an `IndexFlat` that is made for the first rows; see there.
    weights : {"uniform", "distance"} or callable
        One vote each, or the inverse of the distance, where rows at distance 0 outvote all others. A callable is given
        the distances ``(Q, k)`` and returns as many votes, not negative. Neighbours that are missing have no vote.
    index : Index, optional
        Empty; used instead of an `IndexFlat`. It then belongs to the classifier.
    device : Device or str, optional
        Of the `IndexFlat`.

    Attributes
    ----------
    classes : ndarray or None
        The labels there are, in rising order.
    index : Index or None

    Examples
    --------
    >>> from grilly_ext_memory.nn.neighbours import KNNClassifier
    >>> knn = KNNClassifier(k=3).fit([[0.0], [1.0], [8.0], [9.0], [10.0]], ["low", "low", "high", "high", "high"])
    >>> knn.predict([[0.2], [9.1]]).tolist()
    ['low', 'high']
    """

    def __init__(
        self, k: int = 5, metric: str = "l2", weights: str | Weigh = "uniform", *, index: Index | None = None,
        device: Any = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.k, self.metric = as_count(k, "KNNClassifier"), as_metric(metric)
        if index is not None and index.ntotal:
            raise ValueError(
                f"KNNClassifier: the index must be empty, since each row needs a label; received {index!r}. Give the "
                "rows to fit()."
            )
        if not callable(weights) and weights not in _WEIGHTS:
            raise ValueError(
                f"KNNClassifier: weights is 'uniform', 'distance' or callable; received {weights!r}."
            )
        if weights == "distance" and largest_first(metric if index is None else index.metric):
            raise ValueError(
                "KNNClassifier: metric 'ip' has no distances to divide by; use 'cosine', or give weights as a callable."
            )
        self.index, self.weights, self._device = index, weights, device
        self.classes: NDArray[Any] | None = None
        self._codes: Ids = np.zeros(0, np.int64)  # of the rows from the id `_first` on
        self._first = 0

    def fit(self, x: Any, y: Any) -> Self:
        """Forget all rows and take these.

        Parameters
        ----------
        x : array_like, (N, d)
            Also trains an index that must be trained and is not.
        y : array_like, (N,)
            Labels: whole numbers, truth values or strings.
        """
        labels = _labels(y)
        if not len(labels):
            raise ValueError("KNNClassifier: fit needs at least one row.")
        index = self.index
        if index is None:
            width = np.shape(x.detach().numpy() if isinstance(x, Tensor) else x)[-1:]
            index = IndexFlat(*width or (1,), self.metric, device=self._device)
        _check_count(index, x, labels)
        if not index.is_trained:
            index.train(x)
        index.reset()
        ids = index.add(x)
        self.index, self._first = index, int(ids[0])
        self.classes, self._codes = np.unique(labels, return_inverse=True)
        return self

    def add(self, x: Any, y: Any) -> Ids:
        """Take more rows; returns their ids. Labels may be new ones."""
        index, classes = self._fitted("add")
        labels = _labels(y)
        if labels.dtype.kind != classes.dtype.kind:
            raise TypeError(f"KNNClassifier: the labels are {classes.dtype}; received {labels.dtype}.")
        _check_count(index, x, labels)
        ids = index.add(x)
        known = classes[self._codes]
        self.classes, self._codes = np.unique(np.concatenate([known, labels]), return_inverse=True)
        return ids

    def remove_ids(self, ids: Any) -> int:
        """Remove rows; returns how many there were. A class without rows stays, and is not predicted."""
        return self._fitted("remove_ids")[0].remove_ids(as_ids(ids, "remove_ids"))

    def _fitted(self, who: str) -> tuple[Index, NDArray[Any]]:
        if self.index is None or self.classes is None:
            raise RuntimeError(f"KNNClassifier: {who} needs rows; call fit(x, y) first.")
        return self.index, self.classes

    def predict(self, x: Any) -> NDArray[Any]:
        """Return a label for each row ``(Q, d)``."""
        _, classes = self._fitted("predict")
        made: NDArray[Any] = classes[self._votes(x).argmax(axis=1)]
        return made

    def predict_proba(self, x: Any) -> NDArray[np.float64]:
        """Return each class's share of the votes ``(Q, classes)``, in the order of `classes`."""
        votes = self._votes(x)
        total = votes.sum(axis=1, keepdims=True)
        return votes / np.where(total == 0, 1, total)

    def score(self, x: Any, y: Any) -> float:
        """Return the share of rows whose label is predicted."""
        labels = _labels(y)
        found = self.predict(x)
        if len(found) != len(labels):
            raise ValueError(f"KNNClassifier: {len(found)} rows and {len(labels)} labels; expected as many.")
        return float(np.mean(found == labels))

    def forward(self, x: Any) -> Tensor:
        """Return `predict_proba` as a tensor of float32, on the device of `x` where that is a tensor."""
        place = x.device if isinstance(x, Tensor) else None
        return grilly.asarray(self.predict_proba(x).astype(np.float32), device=place)

    def _votes(self, x: Any) -> NDArray[np.float64]:
        index, classes = self._fitted("predict")
        found = index.search(x, min(self.k, max(index.ntotal, 1)))
        there = found.ids >= 0
        if not there.any(axis=1).all():
            row = int(np.flatnonzero(~there.any(axis=1))[0])
            raise ValueError(
                f"KNNClassifier: row {row} has no neighbour: it holds NaN, or the lists that the index looks at are "
                "empty (raise nprobe)."
            )
        weights = self._weighed(found, there)
        codes = self._codes[np.where(there, found.ids - self._first, 0)]
        cells = np.arange(len(codes))[:, None] * len(classes) + codes
        votes = np.bincount(cells.ravel(), weights.ravel(), minlength=len(codes) * len(classes))
        return votes.reshape(len(codes), len(classes))

    def _weighed(self, found: Hits, there: NDArray[np.bool_]) -> NDArray[np.float64]:
        distances = found.distances.astype(np.float64)
        if callable(self.weights):
            given = np.asarray(self.weights(distances), np.float64)
            if given.shape != distances.shape or not (given[there] >= 0).all():
                raise ValueError(
                    f"KNNClassifier: weights must return votes {distances.shape}, not negative; received shape "
                    f"{given.shape}."
                )
            return np.where(there, given, 0.0)
        if self.weights == "uniform":
            return there.astype(np.float64)
        same = there & (distances == 0)
        inverse = np.divide(1.0, distances, out=np.zeros_like(distances), where=there & (distances > 0))
        return np.where(same.any(axis=1, keepdims=True), same, inverse)

    def get_extra_state(self) -> dict[str, Any]:
        """Return the index as the bytes of its file, and the labels."""
        if self.index is None or self.classes is None:
            return {}
        data = np.frombuffer(index_bytes(self.index), np.uint8)
        return {
            "index": data.copy(), "classes": self.classes.tolist(), "first": self._first,
            "codes": self._codes.astype(np.int32),
        }  # fmt: skip

    def set_extra_state(self, state: dict[str, Any]) -> None:
        """Take what `get_extra_state` returned; the index is then of the kind that was saved."""
        if not state:
            self.classes, self._codes, self._first = None, np.zeros(0, np.int64), 0
            if self.index is not None:
                self.index.reset()
            return
        place = self._device if self.index is None else self.index.device
        data, codes = (_array(state[name]) for name in ("index", "codes"))
        classes = np.array(state["classes"])
        if codes.size and not 0 <= codes.min() <= codes.max() < len(classes):
            raise StateDictError("KNNClassifier: the saved labels name classes that are not there.")
        index = index_from_bytes(data.tobytes(), device=place)
        if index.ntotal and not state["first"] <= index.ids[0] <= index.ids[-1] < state["first"] + len(codes):
            raise StateDictError("KNNClassifier: the saved index holds rows without a label.")
        self.index, self.classes, self._codes, self._first = (
            index,
            classes,
            codes.astype(np.int64),
            state["first"],
        )

    def extra_repr(self) -> str:
        """Settings."""
        return f"k={self.k}, weights={self.weights!r}, index={self.index!r}"


def _array(value: Any) -> NDArray[Any]:
    return value.numpy() if isinstance(value, Tensor) else np.asarray(value)


def _labels(y: Any) -> NDArray[Any]:
    labels = _array(y)
    if labels.ndim != 1 or labels.dtype.kind not in "iubU":
        raise TypeError(
            "KNNClassifier: expected labels (N,) as whole numbers, truth values or strings; received "
            f"{labels.dtype} {labels.shape}."
        )
    return labels.astype(np.int64) if labels.dtype.kind in "iu" else labels


def _check_count(index: Index, x: Any, labels: NDArray[Any]) -> None:
    """Refuse rows before the classifier or its index has changed."""
    rows = index._vectors(x, "KNNClassifier", finite=True)
    if len(rows) != len(labels):
        raise ValueError(f"KNNClassifier: {len(rows)} rows and {len(labels)} labels; expected as many.")
