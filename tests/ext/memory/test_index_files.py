"""Files and journals of indexes: what is saved is what is read, damage is noticed, a killed process loses nothing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import numpy as np
import pytest

from grilly_core.errors import FileFormatError, WriteError
from grilly_ext_memory.index.binary import IndexBinaryFlat
from grilly_ext_memory.index.factory import index_factory
from grilly_ext_memory.index.files import load_index, save_index
from grilly_ext_memory.index.flat import IndexFlat
from grilly_ext_memory.index.journal import StoredIndex

X = np.random.default_rng(0).random((300, 8), np.float32)


@pytest.mark.parametrize("kind", ["Flat", "SQ8", "SQ4", "SQfp16", "PQ4", "IVF6,Flat", "IVF6,SQ8", "IVF6,PQ4"])
@pytest.mark.parametrize("mmap", [False, True])
def test_a_loaded_index_answers_the_same(kind, mmap, tmp_path):
    index = index_factory(8, kind, "l2")
    if not index.is_trained:
        index.train(X)
    index.add(X)
    index.remove_ids([5, 6])
    save_index(index, tmp_path / "index")
    loaded = load_index(tmp_path / "index", mmap=mmap)
    assert repr(loaded) == repr(index)
    for mine, theirs in zip(index.search(X[:9], 7), loaded.search(X[:9], 7), strict=True):
        np.testing.assert_array_equal(mine, theirs)
    if mmap:
        with pytest.raises(WriteError, match="memory map"):
            loaded.add(X[:1])
    else:
        assert loaded.add(X[:1]).tolist() == [300]


def test_empty_indexes_are_files_too(tmp_path):
    save_index(IndexFlat(3), tmp_path / "index")
    assert load_index(tmp_path / "index").search(np.zeros((1, 3)), 2).ids.tolist() == [[-1, -1]]


def test_damage_is_noticed(tmp_path):
    path = tmp_path / "index"
    index = IndexFlat(8)
    index.add(X)
    save_index(index, path)
    whole = path.read_bytes()
    for cut in (0, 7, 100, len(whole) - 1):
        path.write_bytes(whole[:cut])
        with pytest.raises(FileFormatError):
            load_index(path)
        assert path.read_bytes() == whole[:cut]
    broken = bytearray(whole)
    broken[-1000] ^= 1
    path.write_bytes(broken)
    with pytest.raises(FileFormatError, match="checksum"):
        load_index(path)
    path.write_bytes(b"PK\x03\x04 something else")
    with pytest.raises(FileFormatError, match="not an index"):
        load_index(path)


def test_a_journal_brings_everything_back(tmp_path):
    path = tmp_path / "index"
    with StoredIndex(path, create=IndexFlat(8)) as stored:
        stored.add(X[:10])
        stored.add_with_ids(X[10:12], [50, 40])
        assert stored.remove_ids([3]) == 1
        with pytest.raises(ValueError, match="already holds id 40"):
            stored.add_with_ids(X[:1], [40])
        want = stored.index.ids.tolist()
    with StoredIndex(path) as stored:
        assert stored.index.ids.tolist() == want
        stored.compact()
        assert stored.add(X[:1]).tolist() == [51]
    with StoredIndex(path) as stored:
        assert stored.index.ids.tolist() == [*want, 51]
        assert stored.dropped == 0
        with pytest.raises(WriteError, match="another process"):
            StoredIndex(path)
    with pytest.raises(FileNotFoundError, match="create="):
        StoredIndex(tmp_path / "none")


def test_every_cut_of_a_journal_keeps_a_prefix(tmp_path):
    path, journal = tmp_path / "index", tmp_path / "index.journal"
    with StoredIndex(path, create=IndexFlat(2)) as stored:
        for i in range(4):
            stored.add([[i, i]])
    whole, seen = journal.read_bytes(), []
    for cut in range(33, len(whole)):
        journal.write_bytes(whole[:cut])
        with StoredIndex(path) as stored:
            seen.append(stored.index.ntotal)
    assert seen == sorted(seen) and set(seen) == {0, 1, 2, 3, 4}


def test_damage_before_a_flush_is_an_error_and_after_it_is_dropped(tmp_path):
    path, journal = tmp_path / "index", tmp_path / "index.journal"
    stored = StoredIndex(path, create=IndexFlat(2))
    stored.add([[1, 1]])
    stored.flush()
    flushed = journal.stat().st_size
    stored.close()
    whole = journal.read_bytes()
    broken = bytearray(whole)
    broken[flushed - 40] ^= 1
    journal.write_bytes(broken)
    with pytest.raises(FileFormatError, match="flushed ones follow"):
        StoredIndex(path)
    assert journal.read_bytes() == broken
    journal.write_bytes(whole + b"GRJ\nhalf a record")
    with StoredIndex(path) as again:
        assert again.index.ntotal == 1 and again.dropped == 17


def test_a_journal_of_another_file_is_refused(tmp_path):
    for name in ("one", "two"):
        with StoredIndex(tmp_path / name, create=IndexFlat(2)) as stored:
            stored.add([[1, 1]])
    (tmp_path / "two.journal").replace(tmp_path / "one.journal")
    with pytest.raises(FileFormatError, match="belongs to another file"):
        StoredIndex(tmp_path / "one")


def test_dying_between_saving_and_a_new_journal_adds_nothing_twice(tmp_path):
    path, journal = tmp_path / "index", tmp_path / "index.journal"
    with StoredIndex(path, create=IndexFlat(2)) as stored:
        stored.add([[1, 1], [2, 2]])
        stored.flush()
        old = journal.read_bytes()
        stored.compact()
    journal.write_bytes(old)
    with StoredIndex(path) as stored:
        assert stored.index.ntotal == 2


WRITER = """
import sys
import numpy as np
from grilly_ext_memory.index.flat import IndexFlat
from grilly_ext_memory.index.journal import StoredIndex
stored = StoredIndex(sys.argv[1], create=IndexFlat(16))
rows = np.random.default_rng(0).random((100000, 16), np.float32)
for at in range(0, 100000, 50):
    stored.add(rows[at:at + 50])
    if at % 500 == 0:
        stored.flush()
        print(at + 50, flush=True)
"""


@pytest.mark.skipif(os.name != "posix", reason="kill -9 is posix")
def test_a_killed_process_loses_nothing_that_was_flushed(tmp_path):
    writer = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(tmp_path / "index")], stdout=subprocess.PIPE, text=True
    )
    flushed = [int(writer.stdout.readline()) for _ in range(12)][-1]
    writer.send_signal(signal.SIGKILL)
    writer.wait()
    writer.stdout.close()
    rows = np.random.default_rng(0).random((100000, 16), np.float32)
    with StoredIndex(tmp_path / "index") as stored:
        assert stored.index.ntotal >= flushed
        found = stored.index.reconstruct(stored.index.ids)
    np.testing.assert_array_equal(found, rows[: len(found)])


@pytest.mark.parametrize("bits", [64, 24])
def test_bits_live_in_files_and_journals_too(bits, tmp_path):
    rows = np.random.default_rng(0).integers(0, 256, (40, bits // 8), np.uint8)
    with StoredIndex(tmp_path / "index", create=IndexBinaryFlat(bits)) as stored:
        stored.add(rows[:30])
        stored.add_with_ids(rows[30:], range(50, 60))
    for _ in range(2):
        with StoredIndex(tmp_path / "index") as stored:
            assert stored.dropped == 0
            np.testing.assert_array_equal(stored.index.reconstruct([*range(30), *range(50, 60)]), rows)
            stored.compact()
    assert load_index(tmp_path / "index", mmap=True).search(rows[3], 1).distances.tolist() == [[0]]


def test_a_folder_is_no_index(tmp_path):
    with pytest.raises(FileFormatError, match="is a folder.*ShardedIndex"):
        load_index(tmp_path)
