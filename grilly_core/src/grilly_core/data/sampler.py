"""Orders in which a loader visits a data set."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from grilly_core.ops.random import randperm
from grilly_core.random import Generator

__all__ = [
    "BatchSampler",
    "RandomSampler",
    "Sampler",
    "Seed",
    "SequentialSampler",
    "SubsetRandomSampler",
    "permutation",
]

Seed = Generator | int | None


def as_generator(generator: Seed) -> Generator | None:
    """Return a generator for a seed; None stays None, which means the default one."""
    return Generator(generator) if isinstance(generator, int) else generator


def permutation(n: int, generator: Seed = None) -> Any:
    """Return the integers below n in random order, as an array, drawn on the CPU."""
    return randperm(n, device="cpu", rng=as_generator(generator)).numpy()


class Sampler:
    """Base of samplers: define `__iter__` over indices and `__len__`.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> class Backwards(grilly.data.Sampler):
    ...     def __init__(self, n):
    ...         self.n = n
    ...     def __iter__(self):
    ...         return iter(range(self.n)[::-1])
    ...     def __len__(self):
    ...         return self.n
    >>> [x.tolist() for x in grilly.data.DataLoader([5, 6], sampler=Backwards(2))]
    [[6], [5]]
    """

    def __iter__(self) -> Iterator[Any]:
        raise NotImplementedError(f"{type(self).__name__} does not define __iter__.")

    def __len__(self) -> int:
        raise NotImplementedError(f"{type(self).__name__} does not define __len__.")


class SequentialSampler(Sampler):
    """Every index in order.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> list(grilly.data.SequentialSampler("abc"))
    [0, 1, 2]
    """

    def __init__(self, data_source: Any) -> None:
        self.data_source = data_source

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self.data_source)))

    def __len__(self) -> int:
        return len(self.data_source)


class RandomSampler(Sampler):
    """Indices in random order, new in every pass.

    Parameters
    ----------
    data_source : Dataset
    replacement : bool
        Whether an index may come again.
    num_samples : int, optional
        How many to draw; the size of the data set if not given.
    generator : Generator or int, optional
        Where the order comes from; the default generator if not given.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> sorted(grilly.data.RandomSampler("abc", generator=0))
    [0, 1, 2]
    """

    def __init__(
        self,
        data_source: Any,
        replacement: bool = False,
        num_samples: int | None = None,
        generator: Seed = None,
    ) -> None:
        if num_samples is not None and num_samples < 1:
            raise ValueError(f"num_samples: must be positive; received {num_samples}.")
        self.data_source = data_source
        self.replacement = replacement
        self._num_samples = num_samples
        self.generator = as_generator(generator)

    def __iter__(self) -> Iterator[int]:
        n = len(self.data_source)
        if self.replacement:
            from grilly_core.ops.random import randint

            yield from randint(0, n, (len(self),), device="cpu", rng=self.generator).tolist()
            return
        left = len(self)
        while left > 0:
            order = permutation(n, self.generator).tolist()
            yield from order[:left]
            left -= n

    def __len__(self) -> int:
        return len(self.data_source) if self._num_samples is None else self._num_samples


class SubsetRandomSampler(Sampler):
    """The given indices in random order.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> sorted(grilly.data.SubsetRandomSampler([4, 7], generator=0))
    [4, 7]
    """

    def __init__(self, indices: Sequence[int], generator: Seed = None) -> None:
        self.indices = indices
        self.generator = as_generator(generator)

    def __iter__(self) -> Iterator[int]:
        return iter([self.indices[i] for i in permutation(len(self.indices), self.generator)])

    def __len__(self) -> int:
        return len(self.indices)


class BatchSampler(Sampler):
    """Lists of `batch_size` indices.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> list(grilly.data.BatchSampler(range(5), 2, drop_last=False))
    [[0, 1], [2, 3], [4]]
    """

    def __init__(self, sampler: Iterable[Any], batch_size: int, drop_last: bool) -> None:
        if not isinstance(batch_size, int) or isinstance(batch_size, bool) or batch_size < 1:
            raise ValueError(f"batch_size: expected a positive integer; received {batch_size!r}.")
        self.sampler = sampler
        self.batch_size = batch_size
        self.drop_last = drop_last

    def __iter__(self) -> Iterator[list[Any]]:
        batch: list[Any] = []
        for index in self.sampler:
            batch.append(index)
            if len(batch) == self.batch_size:
                yield batch
                batch = []
        if batch and not self.drop_last:
            yield batch

    def __len__(self) -> int:
        n = len(self.sampler)  # type: ignore[arg-type]
        return n // self.batch_size if self.drop_last else -(-n // self.batch_size)
