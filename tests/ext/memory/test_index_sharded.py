"""Shards on the workers of a Dask cluster against one index with the same vectors: the same bits, or an error."""

from __future__ import annotations

import json
import os
import signal

import numpy as np
import pytest

from grilly_core.errors import FileFormatError, ShapeError, WriteError
from grilly_ext_memory.index.binary import IndexBinaryFlat
from grilly_ext_memory.index.factory import index_factory
from grilly_ext_memory.index.flat import IndexFlat
from grilly_ext_memory.index.sharded import ShardedIndex, ShardError

distributed = pytest.importorskip("distributed")

RNG = np.random.default_rng(0)
X, Q = RNG.normal(size=(400, 8)).astype(np.float32), RNG.normal(size=(9, 8)).astype(np.float32)
X[200:230] = X[:30]  # equal distances, in other shards
BITS = RNG.integers(0, 256, (90, 3), np.uint8)


@pytest.fixture(scope="module")
def client():
    """Workers as threads of this process: enough where none is lost."""
    with (
        distributed.LocalCluster(
            n_workers=3, threads_per_worker=2, processes=False, dashboard_address=":0"
        ) as cluster,
        distributed.Client(cluster) as made,
    ):
        yield made


@pytest.fixture(autouse=True)
def on_the_cpu(monkeypatch):
    monkeypatch.setenv("GRILLY_DEVICE", "cpu")


def same(first, second):
    for mine, theirs in zip(first, second, strict=True):
        np.testing.assert_array_equal(mine, theirs)
        assert mine.dtype == theirs.dtype


@pytest.mark.parametrize("metric", ["sqeuclidean", "ip", "cosine"])
@pytest.mark.parametrize("kind", ["Flat", "SQ8", "PQ4x4", "IVF6,Flat", "IVF6,PQ2x4"])
def test_the_same_bits_as_one_index(kind, metric, client, tmp_path):
    one = index_factory(8, kind, metric)
    if not one.is_trained:
        one.train(X)
    empty = index_factory(8, kind, metric)
    with ShardedIndex(tmp_path / "index", client, create=empty) as many:
        assert many.shards == 3
        if not many.is_trained:
            with pytest.raises(RuntimeError, match="trained first"):
                many.add(X)
            many.train(X)
        for part in (X[:150], X[150:]):
            np.testing.assert_array_equal(many.add(part), one.add(part))
        if hasattr(one, "nprobe"):
            one.nprobe = many.index.nprobe = 3
        same(many.search(Q, 10), one.search(Q, 10))
        same(many.search(X[:40], 3), one.search(X[:40], 3))
        allow = np.arange(0, 400, 7)
        same(many.search(Q, 10, allow=allow), one.search(Q, 10, allow=allow))
        same(
            many.search(Q, 4, allow=lambda ids: ids % 2 == 0),
            one.search(Q, 4, allow=lambda ids: ids % 2 == 0),
        )
        radius = float(np.median(one.search(Q, 30).distances))
        same(many.range_search(Q, radius), one.range_search(Q, radius))
        gone = [3, 5, 5, 77, 9999]
        assert many.remove_ids(gone) == one.remove_ids(gone) == 3
        same(many.search(Q, 500), one.search(Q, 500))
        np.testing.assert_array_equal(many.reconstruct([399, 0, 4]), one.reconstruct([399, 0, 4]))
        np.testing.assert_array_equal(many.ids, one.ids)
        assert many.ntotal == one.ntotal == 397


def test_bits_and_ids_of_ones_own(client, tmp_path):
    one, ids = IndexBinaryFlat(24), RNG.permutation(500)[:90]
    one.add_with_ids(BITS, ids)
    with ShardedIndex(tmp_path / "index", client, create=IndexBinaryFlat(24), shards=4) as many:
        many.add_with_ids(BITS, ids)
        same(many.search(BITS[:5], 95), one.search(BITS[:5], 95))
        same(many.range_search(BITS[:5], 9), one.range_search(BITS[:5], 9))
        np.testing.assert_array_equal(many.reconstruct(ids[3]), BITS[3])
        with pytest.raises(ValueError, match=f"already holds id {ids[5]}"):
            many.add_with_ids(BITS[:2], [1000, ids[5]])
        with pytest.raises(ValueError, match="id 7 is given twice"):
            many.add_with_ids(BITS[:2], [7, 7])
        with pytest.raises(KeyError, match="no id 777"):
            many.reconstruct([ids[0], 777])
        assert many.ntotal == 90


def test_it_lives_in_its_folder(client, tmp_path):
    with ShardedIndex(tmp_path / "index", client, create=IndexFlat(8), shards=2) as many:
        many.add(X[:50])
        many.remove_ids([49])
        many.compact()
        many.add(X[50:60])
    with ShardedIndex(tmp_path / "index", client) as many:
        assert many.ntotal == 59
        assert many.add(X[:1]).tolist() == [60]
    with pytest.raises(WriteError, match="closed"):
        many.add(X)
    (tmp_path / "index" / "shard-1.index").unlink()
    with pytest.raises(FileNotFoundError, match=r"shard-1\.index"):
        ShardedIndex(tmp_path / "index", client)
    manifest = tmp_path / "index" / "sharded.json"
    for content in (
        b"",
        b"[]",
        b"{}",
        json.dumps({"format": "grilly-sharded-index", "version": 9, "shards": 1}).encode(),
    ):
        manifest.write_bytes(content)
        with pytest.raises(FileFormatError, match="list of an index's shards"):
            ShardedIndex(tmp_path / "index", client)
    with pytest.raises(FileNotFoundError, match="create=Index"):
        ShardedIndex(tmp_path / "other", client)


def test_requests_in_several_blocks(client, tmp_path, monkeypatch):
    """Large additions and many queries travel in parts, which changes nothing."""
    monkeypatch.setattr("grilly_ext_memory.index.sharded._BLOCK", 700)
    one = IndexFlat(8)
    one.add(X)
    with ShardedIndex(tmp_path / "index", client, create=IndexFlat(8)) as many:
        many.add(X)
        same(many.search(X[:60], 5), one.search(X[:60], 5))
        same(many.range_search(X[:60], 3.0), one.range_search(X[:60], 3.0))
        same(many.search(X[:0], 5), one.search(X[:0], 5))
        same(many.range_search(X[:0], 3.0), one.range_search(X[:0], 3.0))


def test_training_again_while_empty(client, tmp_path):
    with ShardedIndex(tmp_path / "index", client, create=index_factory(8, "IVF4,Flat")) as many:
        many.train(X)
        many.add(X[:20])
        with pytest.raises(WriteError, match="holds 20 vectors"):
            many.train(X)
        many.remove_ids(range(20))
        many.train(X[:100])
        assert many.add(X[:3]).tolist() == [20, 21, 22]
        one = index_factory(8, "IVF4,Flat").train(X[:100])
        np.testing.assert_array_equal(many.index.centroids, one.centroids)
        assert many.search(X[0], 1, nprobe=4).ids.tolist() == [[20]]


def test_who_opens_last_owns_the_folder(client, tmp_path):
    first = ShardedIndex(tmp_path / "index", client, create=IndexFlat(8))
    first.add(X[:10])
    with ShardedIndex(tmp_path / "index", client) as second:
        assert second.ntotal == 10
        with pytest.raises(ShardError, match="another ShardedIndex has opened this folder"):
            first.add(X[:1])
        assert second.add(X[:1]).tolist() == [10]
        first.close()  # closes nothing of the other's
        assert second.search(X[3], 1).ids.tolist() == [[3]]


def test_a_damaged_shard_is_named(client, tmp_path):
    with ShardedIndex(tmp_path / "index", client, create=IndexFlat(8)) as many:
        many.add(X)
        many.compact()
    for shard in (0, 2):
        path = tmp_path / "index" / f"shard-{shard}.index"
        data = bytearray(path.read_bytes())
        data[-9] ^= 1
        path.write_bytes(bytes(data))
    with pytest.raises(
        ShardError, match=r"shard \d .*FileFormatError.*damaged.*; shard \d .*damaged"
    ) as caught:
        ShardedIndex(tmp_path / "index", client)
    assert sorted(caught.value.shards) == [0, 2]


def test_bad_input(client, tmp_path):
    with ShardedIndex(tmp_path / "index", client, create=IndexFlat(8)) as many:
        many.add(X)
        with pytest.raises(ShapeError, match="width 8"):
            many.search(Q[:, :3], 1)
        with pytest.raises(ValueError, match="k must be at least 1"):
            many.search(Q, 0)
        with pytest.raises(ValueError, match="not finite"):
            many.add(np.full((1, 8), np.nan))
        with pytest.raises(TypeError, match="nprobe is for indexes with lists"):
            many.search(Q, 1, nprobe=3)
        assert many.search(np.full((1, 8), np.nan), 2).ids.tolist() == [[-1, -1]]
        assert many.ntotal == 400
    full = IndexFlat(8)
    full.add(X)
    with pytest.raises(ValueError, match="create must be empty"):
        ShardedIndex(tmp_path / "other", client, create=full)
    with pytest.raises(TypeError, match=r"distributed\.Client"):
        ShardedIndex(tmp_path / "other", None, create=IndexFlat(8))
    with pytest.raises(ValueError, match="shards must be at least 1"):
        ShardedIndex(tmp_path / "other", client, create=IndexFlat(8), shards=0)


@pytest.fixture
def processes():
    """Workers as processes, which their nannies start again when they are killed."""
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster,
        distributed.Client(cluster) as made,
    ):
        yield made


def killing(marker):
    """A filter that kills the worker which first calls it."""

    def allow(ids):
        if not os.path.exists(marker):
            os.close(os.open(marker, os.O_CREAT))
            os.kill(os.getpid(), signal.SIGKILL)
        return ids >= 0

    return allow


@pytest.mark.slow
def test_lost_workers_change_nothing_and_are_named_when_there_is_no_other(processes, tmp_path):
    """Killed between requests, within one, and every time."""
    one = IndexFlat(8)
    one.add(X)
    many = ShardedIndex(tmp_path / "index", processes, create=IndexFlat(8), shards=4, retries=2)
    many.add(X)
    os.kill(next(iter(processes.run(os.getpid).values())), signal.SIGKILL)
    same(many.search(Q, 10), one.search(Q, 10))
    same(many.search(Q, 10, allow=killing(str(tmp_path / "marker"))), one.search(Q, 10))
    assert (tmp_path / "marker").exists()
    os.kill(next(iter(processes.run(os.getpid).values())), signal.SIGKILL)
    assert many.add(X[:5]).tolist() == one.add(X[:5]).tolist()
    assert many.remove_ids([1, 402]) == one.remove_ids([1, 402]) == 2
    same(many.search(X[:9], 4), one.search(X[:9], 4))
    with pytest.raises(
        ShardError, match=r"search: the workers of the shards 0.* were lost, 3 times in a row"
    ) as caught:
        many.search(Q, 1, allow=lambda ids: os.kill(os.getpid(), signal.SIGKILL))
    assert 0 in caught.value.shards
    same(many.search(X[:9], 4), one.search(X[:9], 4))
    many.close()


@pytest.mark.slow
def test_an_addition_that_fails_leaves_nothing(tmp_path):
    """One worker, and none after it: what its shards took is unknown to the caller, but nothing is lost or doubled."""
    with (
        distributed.LocalCluster(
            n_workers=1, threads_per_worker=1, processes=False, dashboard_address=":0"
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        many = ShardedIndex(tmp_path / "index", client, create=IndexFlat(8), shards=2, retries=0, timeout=0.3)
        many.add(X[:10])
        cluster.scale(0)
        while client.nthreads():
            pass
        with pytest.raises(
            ShardError, match="no workers for 0.3 seconds; the shards 0, 1 cannot be asked"
        ) as caught:
            many.add(X[10:20])
        assert any("may have taken a part" in note for note in caught.value.__notes__)
        cluster.scale(1)
        client.wait_for_workers(1, timeout=20)
        assert many.ntotal == 10
        assert many.add(X[10:12]).tolist() == [20, 21]
        same(many.search(X[10], 1)[1:], (np.array([[20]]),))
        many.close()
