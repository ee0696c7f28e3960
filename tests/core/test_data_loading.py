"""Data sets, samplers and loaders."""

from __future__ import annotations

import threading
from typing import NamedTuple

import numpy as np
import pytest

import grilly_core as grilly
from grilly_core import data
from grilly_core.errors import DataWorkerError, ShapeError


def numbers(n=10):
    return data.TensorDataset(np.arange(n, dtype=np.int32), np.arange(n, dtype=np.float32) / 2)


def values(loader):
    return [x.tolist() for x, _ in loader]


def test_batches_in_order_and_the_last_one():
    loader = data.DataLoader(numbers(5), batch_size=2)
    assert values(loader) == [[0, 1], [2, 3], [4]] and len(loader) == 3
    short = data.DataLoader(numbers(5), batch_size=2, drop_last=True)
    assert values(short) == [[0, 1], [2, 3]] and len(short) == 2


def test_shuffling_by_seed_repeats_and_differs_between_passes():
    def passes(seed):
        loader = data.DataLoader(numbers(), batch_size=5, shuffle=True, generator=seed)
        return [[i for batch in values(loader) for i in batch] for _ in range(2)]

    first, second = passes(3)
    assert passes(3) == [first, second] and first != second
    assert sorted(first) == sorted(second) == list(range(10))
    assert passes(4)[0] != first


def test_the_default_generator_decides_without_a_seed():
    loader = data.DataLoader(numbers(), batch_size=10, shuffle=True)
    grilly.manual_seed(1)
    a = values(loader)
    grilly.manual_seed(1)
    assert values(loader) == a


@pytest.mark.parametrize("workers", [1, 3])
def test_workers_change_neither_batches_nor_order(workers):
    plain = data.DataLoader(numbers(50), batch_size=4, shuffle=True, generator=0)
    ahead = data.DataLoader(numbers(50), batch_size=4, shuffle=True, generator=0, num_workers=workers)
    assert values(ahead) == values(plain)


class Failing(data.Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, index):
        if index == 5:
            raise KeyError("row five")
        return index


def test_a_worker_error_surfaces_with_its_cause():
    loader = data.DataLoader(Failing(), batch_size=2, num_workers=2)
    seen = []
    with pytest.raises(DataWorkerError, match=r"KeyError while fetching the items \[4, 5\]") as caught:
        for batch in loader:
            seen.append(batch.tolist())
    assert seen == [[0, 1], [2, 3]] and isinstance(caught.value.__cause__, KeyError)
    with pytest.raises(KeyError):
        list(data.DataLoader(Failing(), batch_size=2))


def test_leaving_the_loop_early_ends_the_workers():
    iterator = iter(data.DataLoader(numbers(1000), num_workers=2))
    next(iterator)
    iterator.close()
    assert not [t for t in threading.enumerate() if t.name.startswith("grilly-data")]


def test_workers_really_run_in_threads():
    names = set()

    class Named(data.Dataset):
        def __len__(self):
            return 4

        def __getitem__(self, index):
            names.add(threading.current_thread().name)
            return index

    list(data.DataLoader(Named(), num_workers=1))
    assert all(name.startswith("grilly-data") for name in names)


class Point(NamedTuple):
    x: float
    y: int


def test_default_collate_keeps_the_structure():
    batch = data.default_collate(
        [{"p": Point(1.0, 2), "s": "a", "b": True}, {"p": Point(3.0, 4), "s": "b", "b": False}]
    )
    assert isinstance(batch["p"], Point) and batch["p"].x.tolist() == [1.0, 3.0]
    assert batch["p"].y.dtype is grilly.int32 and batch["s"] == ["a", "b"] and batch["b"].dtype is grilly.bool
    stacked = data.default_collate([(grilly.ones(2), np.int64(7)), (grilly.zeros(2), np.int64(8))])
    assert stacked[0].shape == (2, 2) and stacked[1].dtype is grilly.int64
    with pytest.raises(ValueError, match="fields"):
        data.default_collate([(1, 2), (3,)])
    with pytest.raises(TypeError, match="collate_fn"):
        data.default_collate([object()])


def test_own_collation_and_samplers():
    loader = data.DataLoader([3, 1, 2], batch_size=2, collate_fn=sum, sampler=[2, 0, 1])
    assert list(loader) == [5, 1]
    batches = data.DataLoader(numbers(4), batch_sampler=[[3, 0], [1]])
    assert values(batches) == [[3, 0], [1]] and len(batches) == 2
    with pytest.raises(ValueError, match="excludes"):
        data.DataLoader(numbers(), batch_sampler=[[0]], shuffle=True)
    with pytest.raises(ValueError, match="exclude"):
        data.DataLoader(numbers(), sampler=[0], shuffle=True)
    with pytest.raises(ValueError, match="batch_size"):
        data.DataLoader(numbers(), batch_size=0)
    with pytest.raises(ValueError, match="num_workers"):
        data.DataLoader(numbers(), num_workers=-1)


def test_combining_data_sets():
    both = data.Subset([1, 2], [0, 1]) + data.ConcatDataset([[3], [], [4]])
    assert [both[i] for i in range(len(both))] == [1, 2, 3, 4] and both[-1] == 4
    with pytest.raises(IndexError, match="4 items"):
        both[4]
    subset = data.Subset(data.Subset(numbers(), [9, 8, 7]), [2, 0])
    assert subset[0][0] == 7 and subset.get_batch([1, 0])[0].tolist() == [9, 7]
    with pytest.raises(ShapeError, match="one length"):
        data.TensorDataset(np.ones(2), np.ones(3))
    assert len(data.ArrayDataset(np.ones(3), transform=lambda x: x)) == 3


def test_random_split():
    parts = data.random_split(range(10), [0.5, 0.25, 0.25], generator=1)
    assert [len(p) for p in parts] == [6, 2, 2] or [len(p) for p in parts] == [5, 3, 2]
    assert sorted(i for p in parts for i in p.indices) == list(range(10))
    again = data.random_split(range(10), [0.5, 0.25, 0.25], generator=1)
    assert [p.indices for p in again] == [p.indices for p in parts]
    assert [len(p) for p in data.random_split(range(10), [7, 3], generator=1)] == [7, 3]
    with pytest.raises(ValueError, match="add up"):
        data.random_split(range(10), [7, 4])


def test_samplers():
    assert len(list(data.RandomSampler(range(3), num_samples=7, generator=0))) == 7
    drawn = list(data.RandomSampler(range(3), replacement=True, num_samples=50, generator=0))
    assert set(drawn) == {0, 1, 2} and len(drawn) == 50
    assert sorted(data.SubsetRandomSampler([5, 7], generator=0)) == [5, 7]


def test_transforms_with_their_own_randomness():
    noisy = data.RandomNoise(0.5, rng=3)
    assert noisy(np.zeros(3)).tolist() == data.RandomNoise(0.5, rng=3)(np.zeros(3)).tolist()
    assert data.RandomFlip(1.0)([1, 2]).tolist() == [2, 1] and data.RandomFlip(0.0)([1, 2]) == [1, 2]
    assert data.Normalize(1.0, 2.0)([3.0]).tolist() == [1.0]
    assert data.Lambda(abs)(-2) == 2
    with pytest.raises(ValueError, match="std"):
        data.Normalize(0.0, [1.0, 0.0])
    with pytest.raises(IndexError, match="3 classes"):
        data.OneHot(3)(3)


def test_batches_go_to_the_device_that_was_asked_for():
    (x, _), *_ = data.DataLoader(numbers(4), batch_size=2, device="cpu")
    assert x.device == grilly.Device("cpu:0")
