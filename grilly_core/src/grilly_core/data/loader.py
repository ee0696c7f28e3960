"""`DataLoader`: batches of a data set, fetched ahead by threads."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np

from grilly_core.data.sampler import BatchSampler, RandomSampler, Seed, SequentialSampler
from grilly_core.device import Device
from grilly_core.errors import DataWorkerError
from grilly_core.ops.creation import asarray
from grilly_core.tensor import Tensor

__all__ = ["DataLoader", "default_collate"]

Collate = Callable[[list[Any]], Any]


def default_collate(batch: Sequence[Any]) -> Any:
    """Stack items to tensors: arrays, numbers and tensors, also inside tuples, lists and dicts.

    Strings stay lists. Floats become float32 and Python integers int32.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> x, y = grilly.data.default_collate([([1.0, 2.0], 0), ([3.0, 4.0], 1)])
    >>> y.tolist()
    [0, 1]
    """
    return _as_tensors(_stacked(list(batch)), None)


def _stacked(batch: list[Any]) -> Any:
    first = batch[0]
    if isinstance(first, Tensor):
        return np.stack([t.detach().numpy() for t in batch])
    if isinstance(first, np.ndarray | np.generic):
        return np.stack(batch)
    if isinstance(first, bool | int | float):
        return _numbers(batch)
    if isinstance(first, str | bytes):
        return batch
    if isinstance(first, Mapping):
        return {key: _stacked([item[key] for item in batch]) for key in first}
    if isinstance(first, tuple) and hasattr(first, "_fields"):
        return type(first)(*(_stacked(list(field)) for field in zip(*batch, strict=True)))
    if isinstance(first, Sequence):
        if any(len(item) != len(first) for item in batch):
            raise ValueError(
                f"default_collate: items have {sorted({len(i) for i in batch})} fields; they must have one number. "
                "Pass a collate_fn."
            )
        return [_stacked(list(field)) for field in zip(*batch, strict=True)]
    raise TypeError(f"default_collate: cannot stack {type(first).__name__}; pass a collate_fn.")


def _numbers(batch: list[Any]) -> Any:
    kind = np.bool_ if isinstance(batch[0], bool) else np.float32 if isinstance(batch[0], float) else np.int32
    return np.asarray(batch, kind)


def _as_tensors(value: Any, device: Device | str | None) -> Any:
    if isinstance(value, np.ndarray):
        return asarray(value, device=device)
    if isinstance(value, Tensor):
        return value if device is None else value.to(device)
    if isinstance(value, Mapping):
        return {key: _as_tensors(v, device) for key, v in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(_as_tensors(v, device) for v in value))
    if isinstance(value, list | tuple):
        made = [_as_tensors(v, device) for v in value]
        return tuple(made) if isinstance(value, tuple) else made
    return value


class DataLoader:
    """Iterate over a data set in batches.

    Parameters
    ----------
    dataset : Dataset
        Anything with ``len`` and integer indexing.
    batch_size : int
    shuffle : bool
        Visit the items in a new random order in every pass.
    sampler : iterable of int, optional
        Gives the order instead of `shuffle`.
    batch_sampler : iterable of list of int, optional
        Gives whole batches instead of `batch_size`, `shuffle`, `sampler` and `drop_last`.
    num_workers : int
        Threads that fetch ahead; 0 fetches when asked. The order of batches is the same.
    collate_fn : callable, optional
        Makes a batch of a list of items; `default_collate` if not given.
    drop_last : bool
        Leave out a last batch that is smaller.
    generator : Generator or int, optional
        Where the order comes from; the default generator if not given.
    prefetch_factor : int
        Batches that each worker fetches ahead.
    device : Device or str, optional
        Where batches are put; the default device if not given.

    Raises
    ------
    DataWorkerError
        In the iteration, if fetching raised in a worker; the original error is its cause.

    Examples
    --------
    >>> import grilly_core as grilly, numpy as np
    >>> data = grilly.data.TensorDataset(np.arange(5), np.arange(5))
    >>> [x.tolist() for x, _ in grilly.data.DataLoader(data, batch_size=2)]
    [[0, 1], [2, 3], [4]]
    """

    def __init__(
        self,
        dataset: Any,
        batch_size: int = 1,
        shuffle: bool = False,
        sampler: Iterable[int] | None = None,
        batch_sampler: Iterable[list[int]] | None = None,
        num_workers: int = 0,
        collate_fn: Collate | None = None,
        drop_last: bool = False,
        generator: Seed = None,
        prefetch_factor: int = 2,
        device: Device | str | None = None,
    ) -> None:
        if num_workers < 0 or prefetch_factor < 1:
            raise ValueError(
                "num_workers must not be negative and prefetch_factor positive; received "
                f"{num_workers} and {prefetch_factor}."
            )
        self.dataset = dataset
        self.num_workers = num_workers
        self.prefetch_factor = prefetch_factor
        self.device = device
        self.collate_fn = collate_fn
        if batch_sampler is not None:
            if batch_size != 1 or shuffle or sampler is not None or drop_last:
                raise ValueError("batch_sampler excludes batch_size, shuffle, sampler and drop_last.")
            self.batch_sampler: Iterable[list[int]] = batch_sampler
            return
        if sampler is not None and shuffle:
            raise ValueError("sampler and shuffle exclude each other; the sampler gives the order.")
        if sampler is None:
            sampler = RandomSampler(dataset, generator=generator) if shuffle else SequentialSampler(dataset)
        self.sampler = sampler
        self.batch_size = batch_size
        self.drop_last = drop_last
        self.batch_sampler = BatchSampler(sampler, batch_size, drop_last)

    def __len__(self) -> int:
        return len(self.batch_sampler)  # type: ignore[arg-type]

    def __iter__(self) -> Iterator[Any]:
        fetched = self._ahead() if self.num_workers else map(self._fetch, self.batch_sampler)
        for batch in fetched:
            yield _as_tensors(batch, self.device)

    def _fetch(self, indices: list[int]) -> Any:
        """Collate one batch on the host; the tensors are made by the caller's thread."""
        if self.collate_fn is None and hasattr(self.dataset, "get_batch"):
            return self.dataset.get_batch(indices)
        items = [self.dataset[i] for i in indices]
        return _stacked(items) if self.collate_fn is None else self.collate_fn(items)

    def _ahead(self) -> Iterator[Any]:
        pool = ThreadPoolExecutor(self.num_workers, thread_name_prefix="grilly-data")
        waiting: deque[tuple[list[int], Future[Any]]] = deque()
        batches = iter(self.batch_sampler)
        try:
            while True:
                while len(waiting) < self.num_workers * self.prefetch_factor:
                    indices = next(batches, None)
                    if indices is None:
                        break
                    waiting.append((indices, pool.submit(self._fetch, indices)))
                if not waiting:
                    return
                yield _result(*waiting.popleft())
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def _result(indices: list[int], future: Future[Any]) -> Any:
    try:
        return future.result()
    except Exception as error:
        shown = ", ".join(map(str, indices[:5])) + (", …" if len(indices) > 5 else "")
        raise DataWorkerError(
            f"a data worker raised {type(error).__name__} while fetching the items [{shown}]: {error}"
        ) from error
