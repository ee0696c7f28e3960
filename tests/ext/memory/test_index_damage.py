"""Damaged and contradictory files: refused with `FileFormatError`, left as they are; the oracle is what was saved."""

from __future__ import annotations

import json

import numpy as np
import pytest

from grilly_core.errors import FileFormatError, WriteError
from grilly_ext_memory.index import files
from grilly_ext_memory.index.factory import index_factory
from grilly_ext_memory.index.files import load_index, save_index
from grilly_ext_memory.index.flat import IndexFlat, IndexPQ
from grilly_ext_memory.index.journal import StoredIndex

KINDS = ["Flat", "SQ8", "SQ4", "SQfp16", "PQ2x3", "IVF5,Flat", "IVF5,SQ8", "IVF5,PQ2x3", "BFlat", "HNSW8"]


def made(description):
    if description.startswith("HNSW"):
        pytest.importorskip("hnswlib")
    rng = np.random.default_rng(0)
    x = rng.standard_normal((60, 8)).astype(np.float32)
    index = index_factory(8, description)
    if description == "BFlat":
        index.add(rng.integers(0, 256, (60, 1), np.uint8))
        return index
    index = index if index.is_trained else index.train(x)
    index.add(x)
    return index


@pytest.mark.parametrize("mmap", [False, True])
@pytest.mark.parametrize("description", KINDS)
def test_a_flipped_bit_or_a_cut_is_noticed(tmp_path, description, mmap):
    path, rng = tmp_path / "index", np.random.default_rng(1)
    index = made(description)
    save_index(index, path)
    data = path.read_bytes()
    header, start = files.header_of(path)
    # Vectors and ids of a mapped file are not read when it is opened.
    spared = [header[name]["data_offsets"] for name in ("codes", "ids")] if mmap else []
    for _ in range(300):
        damaged, at = bytearray(data), int(rng.integers(len(data)))
        if any(low <= at - start < high for low, high in spared):
            continue
        if rng.random() < 0.2:
            del damaged[at:]
        else:
            damaged[at] ^= 1 << int(rng.integers(8))
        path.write_bytes(damaged)
        try:
            loaded = load_index(path, mmap=mmap)
        except FileFormatError:
            assert path.read_bytes() == damaged
            continue
        # What is left of the header are spaces in it, which mean nothing.
        assert repr(loaded) == repr(index) and loaded.settings() == index.settings()
        np.testing.assert_array_equal(loaded.reconstruct(loaded.ids), index.reconstruct(index.ids))


def rewritten(index, path, **changes):
    """Save an index whose arrays are not those that it has, with checksums that agree."""
    arrays = {**files._arrays(index), **changes}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(files, "_arrays", lambda index: arrays)
        save_index(index, path)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("codes", lambda a: a[:, :-1]),
        ("codes", lambda a: a + np.uint8(8)),
        ("codes", lambda a: a.astype(np.float32)),
        ("ids", lambda a: a[::-1]),
        ("ids", lambda a: a - 1),
        ("ids", lambda a: a + 1),
        ("codebooks", lambda a: a[:, :4]),
        ("offsets", lambda a: a[:1]),
    ],
)
def test_arrays_that_contradict_each_other_are_refused(tmp_path, name, change):
    index, path = made("PQ2x3"), tmp_path / "index"
    rewritten(index, path, **{name: np.ascontiguousarray(change(files._arrays(index)[name]))})
    with pytest.raises(FileFormatError, match="contradicts itself"):
        load_index(path)


def test_vectors_without_a_training_are_refused(tmp_path):
    index, path = made("PQ2x3"), tmp_path / "index"
    arrays = files._arrays(index)
    del arrays["codebooks"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(files, "_arrays", lambda index: arrays)
        save_index(index, path)
    with pytest.raises(FileFormatError, match="without a training"):
        load_index(path)
    save_index(IndexPQ(8, 2, 3), path)
    assert not load_index(path).is_trained


def test_a_short_foreign_journal_stays(tmp_path):
    save_index(IndexFlat(2), tmp_path / "index")
    journal = tmp_path / "index.journal"
    journal.write_text("my notes")
    with pytest.raises(FileFormatError, match="not a journal"):
        StoredIndex(tmp_path / "index")
    assert journal.read_text() == "my notes"


def test_a_closed_index_takes_nothing(tmp_path):
    stored = StoredIndex(tmp_path / "index", create=IndexFlat(2))
    stored.close()
    for change in (lambda: stored.add([[1, 2]]), lambda: stored.remove_ids([0]), stored.flush):
        with pytest.raises(WriteError, match="closed"):
            change()
    assert stored.index.ntotal == 0


def test_the_checksum_of_the_header_is_of_its_meaning(tmp_path):
    """A header written by another JSON library, with its keys in another order, is the same header."""
    index, path = made("Flat"), tmp_path / "index"
    save_index(index, path)
    header, start = files.header_of(path)
    text = json.dumps(dict(reversed(header.items())), indent=0).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(len(text).to_bytes(8, "little") + text + path.read_bytes()[start:])
    assert load_index(path).ids.tolist() == index.ids.tolist()
