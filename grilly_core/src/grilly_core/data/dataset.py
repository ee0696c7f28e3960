"""Data sets: anything with a length and items, and ways to combine them."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np

from grilly_core.data.sampler import Seed, permutation
from grilly_core.errors import ShapeError
from grilly_core.tensor import Tensor

__all__ = ["ArrayDataset", "ConcatDataset", "Dataset", "Subset", "TensorDataset", "random_split"]


class Dataset:
    """Base of data sets: define `__getitem__` and `__len__`.

    A data set that can fetch many items at once may also define ``get_batch(indices)``, which returns what collating
    the items would; loaders with the default collation use it.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> class Squares(grilly.data.Dataset):
    ...     def __len__(self):
    ...         return 4
    ...     def __getitem__(self, index):
    ...         return index * index
    >>> [x.tolist() for x in grilly.data.DataLoader(Squares(), batch_size=2)]
    [[0, 1], [4, 9]]
    """

    def __getitem__(self, index: int) -> Any:
        raise NotImplementedError(f"{type(self).__name__} does not define __getitem__.")

    def __len__(self) -> int:
        raise NotImplementedError(f"{type(self).__name__} does not define __len__.")

    def __add__(self, other: Dataset) -> ConcatDataset:
        return ConcatDataset([self, other])


@runtime_checkable
class SupportsBatch(Protocol):
    """A data set that fetches many items at once."""

    def get_batch(self, indices: Sequence[int]) -> Any:
        """Return the items already collated."""


def _host(array: Any) -> Any:
    return array.detach().numpy() if isinstance(array, Tensor) else np.asarray(array)


class TensorDataset(Dataset):
    """Tensors or arrays that are indexed together along their first axis.

    They are kept on the host; loaders move batches to a device.

    Parameters
    ----------
    *tensors : array_like
        Of equal length.

    Examples
    --------
    >>> import grilly_core as grilly, numpy as np
    >>> data = grilly.data.TensorDataset(np.zeros((4, 2), np.float32), np.arange(4))
    >>> len(data), int(data[3][1])
    (4, 3)
    """

    def __init__(self, *tensors: Any) -> None:
        if not tensors:
            raise ValueError("TensorDataset: give at least one tensor.")
        self.tensors = tuple(_host(t) for t in tensors)
        lengths = [t.shape[0] if t.ndim else None for t in self.tensors]
        if None in lengths or len(set(lengths)) != 1:
            shapes = ", ".join(str(t.shape) for t in self.tensors)
            raise ShapeError(f"TensorDataset: the first axes must have one length; received shapes {shapes}.")

    def __getitem__(self, index: int) -> tuple[Any, ...]:
        return tuple(t[index] for t in self.tensors)

    def get_batch(self, indices: Sequence[int]) -> tuple[Any, ...]:
        """Return the items at `indices`, stacked."""
        chosen = np.asarray(indices)
        return tuple(t[chosen] for t in self.tensors)

    def __len__(self) -> int:
        return int(self.tensors[0].shape[0])


class ArrayDataset(Dataset):
    """Data with labels and transforms of both.

    Parameters
    ----------
    data : array_like
    labels : array_like, optional
        Without them items are the data alone.
    transform, target_transform : callable, optional
        Applied to each item and label.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.data.ArrayDataset([1.0, 2.0], [0, 1], transform=lambda x: x * 10)[1]
    (np.float64(20.0), np.int64(1))
    """

    def __init__(
        self,
        data: Any,
        labels: Any = None,
        transform: Callable[[Any], Any] | None = None,
        target_transform: Callable[[Any], Any] | None = None,
    ) -> None:
        self.data = _host(data)
        self.labels = None if labels is None else _host(labels)
        if self.labels is not None and len(self.labels) != len(self.data):
            raise ShapeError(f"ArrayDataset: {len(self.data)} items, but {len(self.labels)} labels.")
        if labels is None and target_transform is not None:
            raise ValueError("ArrayDataset: target_transform needs labels.")
        self.transform = transform
        self.target_transform = target_transform

    def __getitem__(self, index: int) -> Any:
        item = self.data[index]
        item = item if self.transform is None else self.transform(item)
        if self.labels is None:
            return item
        label = self.labels[index]
        return item, label if self.target_transform is None else self.target_transform(label)

    def __len__(self) -> int:
        return len(self.data)


class Subset(Dataset):
    """Some items of a data set.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.data.Subset([10, 20, 30], [2, 0])[0]
    30
    """

    def __init__(self, dataset: Any, indices: Sequence[int]) -> None:
        self.dataset = dataset
        self.indices = [int(i) for i in indices]
        if isinstance(dataset, SupportsBatch):
            self.get_batch = self._get_batch

    def __getitem__(self, index: int) -> Any:
        return self.dataset[self.indices[index]]

    def _get_batch(self, indices: Sequence[int]) -> Any:
        return self.dataset.get_batch([self.indices[i] for i in indices])

    def __len__(self) -> int:
        return len(self.indices)


class ConcatDataset(Dataset):
    """Data sets one after the other.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> list(grilly.data.ConcatDataset([[1, 2], [3]]))
    [1, 2, 3]
    """

    def __init__(self, datasets: Iterable[Any]) -> None:
        self.datasets = list(datasets)
        if not self.datasets:
            raise ValueError("ConcatDataset: give at least one data set.")
        self.cumulative_sizes = [int(n) for n in np.cumsum([len(d) for d in self.datasets])]

    def __getitem__(self, index: int) -> Any:
        size = len(self)
        if not -size <= index < size:
            raise IndexError(f"index {index} is out of range for {size} items.")
        index %= size
        part = bisect_right(self.cumulative_sizes, index)
        return self.datasets[part][index - (self.cumulative_sizes[part - 1] if part else 0)]

    def __len__(self) -> int:
        return self.cumulative_sizes[-1]


def random_split(dataset: Any, lengths: Sequence[float], generator: Seed = None) -> list[Subset]:
    """Split a data set at random into parts that do not overlap.

    Parameters
    ----------
    dataset : Dataset
    lengths : sequence of int, or of float
        Sizes that add up to the data set's, or fractions that add up to 1 (what rounding leaves over goes round).
    generator : Generator or int, optional
        Where the order comes from; the default generator if not given.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> [len(part) for part in grilly.data.random_split(list(range(10)), [0.75, 0.25], generator=0)]
    [8, 2]
    """
    n = len(dataset)
    if math.isclose(sum(lengths), 1.0) and n != 1:
        sizes = [math.floor(n * share) for share in lengths]
        for i in range(n - sum(sizes)):
            sizes[i % len(sizes)] += 1
    else:
        sizes = [int(size) for size in lengths]
    if sum(sizes) != n or any(size < 0 for size in sizes):
        raise ValueError(f"lengths: {list(lengths)} do not add up to {n} items (or to 1).")
    order = permutation(n, generator)
    ends = np.cumsum(sizes)
    return [Subset(dataset, order[end - size : end].tolist()) for end, size in zip(ends, sizes, strict=True)]
