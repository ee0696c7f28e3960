"""Files in FAISS's layout, written out by hand byte by byte, and written files read back; damage is always named."""

from __future__ import annotations

import contextlib
import struct
import tracemalloc

import numpy as np
import pytest

from grilly_core.errors import FileFormatError
from grilly_ext_memory.index.binary import IndexBinaryFlat
from grilly_ext_memory.index.factory import index_factory
from grilly_ext_memory.index.faiss_layout import codes_of, packed
from grilly_ext_memory.index.faiss_reader import read_faiss
from grilly_ext_memory.index.faiss_writer import write_faiss
from grilly_ext_memory.index.flat import IndexFlat
from grilly_ext_memory.index.graph import IndexHNSW

X = np.random.default_rng(0).normal(size=(300, 6)).astype(np.float32)


def header(kind, d, n, metric=1):
    return struct.pack("<4siqqqBi", kind, d, n, 1 << 20, 1 << 20, 1, metric)


def vector(code, *values):
    return struct.pack(f"<Q{len(values)}{code}", len(values), *values)


FLAT = header(b"IxF2", 2, 2) + vector("f", 1, 2, 3, 4)


def read(tmp_path, data):
    path = tmp_path / "index"
    path.write_bytes(data)
    return read_faiss(path)


def test_flat_and_its_ids(tmp_path):
    index = read(tmp_path, FLAT)
    assert repr(index) == "IndexFlat(d=2, metric='sqeuclidean', ntotal=2)"
    assert index.reconstruct([1, 0]).tolist() == [[3, 4], [1, 2]]
    mapped = read(tmp_path, header(b"IxM2", 2, 2) + FLAT + vector("q", 9, 4))
    assert mapped.search([3, 4], 2).ids.tolist() == [[4, 9]]
    assert mapped.add([[0, 0]]).tolist() == [10]


def test_lists_in_both_layouts_of_lengths(tmp_path):
    coarse = header(b"IxFI", 2, 3, 0) + vector("f", 0, 1, 1, 0, 1, 1)
    start = header(b"IwFl", 2, 3, 0) + struct.pack("<QQ", 3, 2) + coarse + struct.pack("<BQ", 0, 0)
    lists = struct.pack("<4sQQ", b"ilar", 3, 8)
    rows = struct.pack("<2fq", 0, 5, 8) + struct.pack("<4fqq", 4, 4, 5, 5, 7, 2)
    for lengths in (b"full" + vector("Q", 1, 0, 2), b"sprs" + vector("Q", 0, 1, 2, 2)):
        index = read(tmp_path, start + lists + lengths + rows)
        assert (index.nlist, index.nprobe, index.metric) == (3, 2, "ip")
        assert index.list_sizes().tolist() == [1, 0, 2]
        assert index.search([1, 1], 3, nprobe=3).ids.tolist() == [[2, 7, 8]]
        assert index.search([1, 1], 3, nprobe=1).ids.tolist() == [[2, 7, -1]]
    bad = b"sprs" + vector("Q", 0, 1, 3, 2)
    with pytest.raises(FileFormatError, match="3 lists have lengths"):
        read(tmp_path, start + lists + bad + rows)


def test_codes_are_packed_from_the_low_bits_on():
    """By hand: 1, 2, 3, 4 in 3 bits each are 001 010 011 100, low bits first: 1 + 2·8 + 3·64 + 4·512 = 0x8d1."""
    codes = np.array([[1, 2, 3, 4]], np.uint8)
    assert packed(codes, 3).tolist() == [[0xD1, 0x08]]
    rng = np.random.default_rng(0)
    for bits in range(1, 9):
        many = rng.integers(0, 1 << bits, (20, 7)).astype(np.uint8)
        np.testing.assert_array_equal(codes_of(packed(many, bits), 7, bits), many)


@pytest.mark.parametrize(
    "kind", ["Flat", "SQ8", "SQ4", "SQfp16", "PQ3x5", "IVF6,Flat", "IVF6,SQ4", "IVF6,PQ2x3"]
)
def test_what_is_written_is_read(kind, tmp_path):
    index = index_factory(6, kind, "ip").train(X)
    index.add(X)
    index.remove_ids([3, 4])
    write_faiss(index, tmp_path / "index")
    again = read_faiss(tmp_path / "index")
    assert again.ids.tolist() == index.ids.tolist() and type(again) is type(index)
    np.testing.assert_allclose(again.search(X[:9], 5).distances, index.search(X[:9], 5).distances, rtol=1e-5)
    empty = index_factory(6, kind).train(X)
    write_faiss(empty, tmp_path / "index")
    assert read_faiss(tmp_path / "index").add(X[:2]).tolist() == [0, 1]


def test_bits(tmp_path):
    data = struct.pack("<4siiqBi", b"IBxF", 16, 2, 2, 1, 1) + vector("B", 1, 2, 3, 4)
    index = read(tmp_path, data)
    assert index.reconstruct([0, 1]).tolist() == [[1, 2], [3, 4]]
    bits = IndexBinaryFlat(16)
    bits.add_with_ids(np.array([[1, 2]], np.uint8), [6])
    write_faiss(bits, tmp_path / "index")
    assert read_faiss(tmp_path / "index").ids.tolist() == [6]


@pytest.mark.parametrize(
    ("data", "named"),
    [
        (b"", "the kind take 4 bytes"),
        (b"RIFF" + bytes(90), "the kind 'RIFF'"),
        (header(b"IxPT", 2, 0), "IndexPreTransform"),
        (header(b"IHNf", 2, 0), "IndexHNSWFlat"),
        (FLAT[:-1], "the vectors take 16 bytes, and 15 are left"),
        (FLAT + b"x", "1 bytes follow the index"),
        (header(b"IxF2", 2, 3) + FLAT[37:], "the vectors have the length 4; 6 was expected"),
        (
            header(b"IxF2", 1 << 20, 1 << 39) + struct.pack("<Q", 1 << 59),
            "the vectors take 2305843009213693952 bytes",
        ),
        (header(b"IxF2", -2, 1), "d = -2"),
        (header(b"IxF2", 2, -1), "ntotal = -1"),
        (header(b"IxFl", 2, 0, 20) + bytes(12), "the metric Canberra"),
        (header(b"IxFl", 2, 0, 99) + bytes(12), "there is no metric 99"),
        (header(b"IxF2", 2, 1) + vector("f", 1, np.nan), r"not finite \(row 0\)"),
        (header(b"IxMp", 2, 2) + FLAT + vector("q", 5, 5), "the id 5 more than once"),
        (header(b"IxMp", 2, 2) + FLAT + vector("q", -1, 5), "the negative id -1"),
        (header(b"IxMp", 2, 3) + FLAT + vector("q", 1, 2, 3), "of 3 vectors holds an index of 2"),
        (header(b"IxMp", 2, 2) * 2 + FLAT, "an IndexIDMap in another"),
        (header(b"IxPq", 2, 0) + struct.pack("<QQQ", 2, 3, 8), "3 parts for the width 2"),
        (header(b"IxPq", 2, 0) + struct.pack("<QQQ", 2, 2, 12), "12 bits"),
        (header(b"IwFl", 2, 0) + struct.pack("<QQ", 1 << 60, 1) + header(b"IxF2", 2, 1), "1 centroids"),
        (header(b"IwFl", 2, 0) + struct.pack("<QQ4s", 1, 1, b"IHNf"), "lists found by IndexHNSWFlat"),
        (header(b"IwFl", 2, 0) + struct.pack("<QQ", 1, 1) + header(b"IxFI", 2, 1, 0), "metric ip"),
        (header(b"IxSQ", 2, 0) + struct.pack("<iifQQ", 7, 0, 0, 2, 4), "QT_bf16"),
        (header(b"IxSQ", 2, 0) + struct.pack("<iifQQ", 0, 0, 0, 2, 9), "9 bytes for the width 2"),
    ],
)
def test_damage_and_foreign_files_are_named(data, named, tmp_path):
    """Nothing near what a lying size says is allocated, and the file stays."""
    tracemalloc.start()
    try:
        with pytest.raises(FileFormatError, match=named):
            read(tmp_path, data)
        assert tracemalloc.get_traced_memory()[1] < 4 << 20
    finally:
        tracemalloc.stop()
    assert (tmp_path / "index").read_bytes() == data


def test_any_cut_and_any_byte(tmp_path):
    """Every cut is an error; a changed byte is one, or gives an index: nothing else is raised."""
    index = index_factory(6, "IVF3,PQ2x3").train(X)
    index.add(X[:5])
    write_faiss(index, tmp_path / "whole")
    whole = (tmp_path / "whole").read_bytes()
    for at in range(len(whole)):
        with pytest.raises(FileFormatError):
            read(tmp_path, whole[:at])
        with contextlib.suppress(FileFormatError):
            assert read(tmp_path, whole[:at] + bytes([whole[at] ^ 0x41]) + whole[at + 1 :]).ntotal == 5


def test_what_faiss_has_not_is_refused(tmp_path):
    for metric, instead in (("l2", "sqeuclidean"), ("cosine", "length 1")):
        with pytest.raises(ValueError, match=instead):
            write_faiss(IndexFlat(2, metric), tmp_path / "index")
    with pytest.raises(RuntimeError, match="trained first"):
        write_faiss(index_factory(6, "PQ2"), tmp_path / "index")
    with pytest.raises(ValueError, match="no counterpart of IndexHNSW"):
        write_faiss(IndexHNSW.__new__(IndexHNSW), tmp_path / "index")
    assert not (tmp_path / "index").exists()
