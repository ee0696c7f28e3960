"""Files of FAISS 1.15: what it wrote is found here with the same results, and what is written here it reads."""

from __future__ import annotations

import faiss
import numpy as np
import pytest

from grilly_core.errors import FileFormatError
from grilly_ext_memory.index.binary import IndexBinaryFlat
from grilly_ext_memory.index.factory import index_factory
from grilly_ext_memory.index.faiss_reader import read_faiss
from grilly_ext_memory.index.faiss_writer import write_faiss
from grilly_ext_memory.index.flat import IndexFlat

RNG = np.random.default_rng(0)
X, Q = RNG.normal(size=(900, 12)).astype(np.float32), RNG.normal(size=(40, 12)).astype(np.float32)
IDS = RNG.permutation(5000)[:900].astype(np.int64)
BITS, ASKED = RNG.integers(0, 256, (300, 5), np.uint8), RNG.integers(0, 256, (9, 5), np.uint8)

KINDS = [
    "Flat", "SQ8", "SQ4", "SQfp16", "PQ4x4", "PQ3x5", "PQ4", "IVF9,Flat", "IVF9,PQ4x4", "IVF9,PQ6", "IVF9,SQ8",
    "IVF9,SQ4", "IVF9,SQfp16",
]  # fmt: skip
METRICS = {"L2": faiss.METRIC_L2, "IP": faiss.METRIC_INNER_PRODUCT, "L1": faiss.METRIC_L1}


def agree(ours, theirs, k=10):
    """The same distances up to rounding, and the same ids but among equals."""
    found, (distances, ids) = ours.search(Q, k), theirs.search(Q, k + 1)
    np.testing.assert_allclose(found.distances, distances[:, :k], rtol=1e-4, atol=1e-4)
    gaps = np.abs(np.diff(distances, axis=1)) < 1e-4  # between each and the next
    equal = gaps | np.pad(gaps[:, :-1], ((0, 0), (1, 0)))
    assert ((found.ids == ids[:, :k]) | equal).all()
    assert (found.ids == ids[:, :k]).mean() > 0.9
    assert ours.ntotal == theirs.ntotal


def filled(kind, metric=faiss.METRIC_L2, ids=None):
    peer = faiss.index_factory(12, kind, metric)
    peer.train(X)
    peer.add(X) if ids is None else peer.add_with_ids(X, ids)
    if hasattr(peer, "nprobe"):
        peer.nprobe = 4
    return peer


#: FAISS has L1 for whole vectors only.
PAIRS = [(k, m) for k in KINDS for m in METRICS if m != "L1" or k in ("Flat", "IVF9,Flat")]


@pytest.mark.parametrize(("kind", "metric"), PAIRS)
def test_every_kind_is_read(kind, metric, tmp_path):
    peer = filled(kind, METRICS[metric])
    faiss.write_index(peer, str(tmp_path / "index"))
    ours = read_faiss(tmp_path / "index")
    agree(ours, peer)
    assert ours.add(X[:1]).tolist() == [900]
    peer.add(X[:1])
    agree(ours, peer)  # rows that are added later are coded alike


@pytest.mark.parametrize(
    "kind", ["IDMap,Flat", "IDMap2,Flat", "IDMap,PQ4x4", "IDMap2,SQ8", "IVF9,Flat", "IDMap,IVF9,SQ8"]
)
def test_ids_are_kept(kind, tmp_path):
    peer = filled(kind, ids=IDS)
    faiss.write_index(peer, str(tmp_path / "index"))
    ours = read_faiss(tmp_path / "index")
    assert ours.ids.tolist() == sorted(IDS.tolist())
    inner = faiss.downcast_index(peer.index) if "IDMap" in kind else peer
    if hasattr(inner, "nprobe"):
        ours.nprobe = inner.nprobe = 3
    agree(ours, peer)


@pytest.mark.parametrize("direct", ["Array", "Hashtable"])
def test_codes_without_residuals_and_direct_maps(direct, tmp_path):
    for kind in ("IVF9,PQ4x4", "IVF9,SQ8"):
        peer = faiss.index_factory(12, kind)
        peer.by_residual = False
        peer.train(X)
        peer.add(X)
        peer.nprobe = 5
        peer.set_direct_map_type(getattr(faiss.DirectMap, direct))
        faiss.write_index(peer, str(tmp_path / "index"))
        ours = read_faiss(tmp_path / "index")
        agree(ours, peer)
        write_faiss(ours, tmp_path / "again")
        agree(ours, faiss.read_index(str(tmp_path / "again")))


def test_shared_ranges_and_few_vectors(tmp_path):
    """One range for all columns; lists that are mostly empty are written in another way."""
    for qtype in (faiss.ScalarQuantizer.QT_8bit_uniform, faiss.ScalarQuantizer.QT_4bit_uniform):
        peer = faiss.IndexScalarQuantizer(12, qtype)
        peer.train(X)
        peer.add(X)
        faiss.write_index(peer, str(tmp_path / "index"))
        agree(read_faiss(tmp_path / "index"), peer)
    sparse = faiss.index_factory(12, "IVF30,Flat")
    sparse.train(X)
    sparse.add(X[:12])
    sparse.nprobe = 30
    faiss.write_index(sparse, str(tmp_path / "index"))
    agree(read_faiss(tmp_path / "index"), sparse)


@pytest.mark.parametrize("kind", KINDS)
def test_untrained_and_empty_indexes(kind, tmp_path):
    peer = faiss.index_factory(12, kind)
    faiss.write_index(peer, str(tmp_path / "index"))
    ours = read_faiss(tmp_path / "index")
    assert ours.is_trained == peer.is_trained and ours.ntotal == 0
    ours.train(X)
    ours.add(X[:5])
    assert ours.ntotal == 5


@pytest.mark.parametrize("ids", [None, IDS])
@pytest.mark.parametrize("metric", ["sqeuclidean", "ip"])
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_written(kind, metric, ids, tmp_path):
    ours = index_factory(12, kind, metric).train(X)
    ours.add(X) if ids is None else ours.add_with_ids(X, ids)
    if hasattr(ours, "nprobe"):
        ours.nprobe = 4
    write_faiss(ours, tmp_path / "index")
    agree(ours, faiss.read_index(str(tmp_path / "index")))
    again = read_faiss(tmp_path / "index")
    assert again.ids.tolist() == ours.ids.tolist()
    np.testing.assert_allclose(
        again.search(Q, 5).distances, ours.search(Q, 5).distances, rtol=1e-4, atol=1e-5
    )


def test_bits(tmp_path):
    for ids in (None, IDS[:300]):
        peer = (
            faiss.IndexBinaryFlat(40) if ids is None else faiss.IndexBinaryIDMap2(faiss.IndexBinaryFlat(40))
        )
        peer.add(BITS) if ids is None else peer.add_with_ids(BITS, ids)
        faiss.write_index_binary(peer, str(tmp_path / "index"))
        ours = read_faiss(tmp_path / "index")
        np.testing.assert_array_equal(ours.search(ASKED, 7).distances, peer.search(ASKED, 7)[0])
        mine = IndexBinaryFlat(40)
        mine.add(BITS) if ids is None else mine.add_with_ids(BITS, ids)
        write_faiss(mine, tmp_path / "mine")
        back = faiss.read_index_binary(str(tmp_path / "mine"))
        np.testing.assert_array_equal(back.search(ASKED, 7)[0], mine.search(ASKED, 7).distances)
        want = np.arange(300) if ids is None else np.sort(ids)
        assert ours.ids.tolist() == want.tolist()


@pytest.mark.parametrize(
    ("kind", "named"),
    [("PCA4,Flat", "IndexPreTransform"), ("HNSW8", "IndexHNSWFlat"), ("LSH", "IndexLSH"),
     ("IVF9_HNSW8,Flat", "lists found by IndexHNSWFlat"),
     ("PQ4x4fs", "IndexPQFastScan"), ("SQ6", "QT_6bit"), ("SQbf16", "QT_bf16"),
     ("IVF4,Flat,RFlat", "IndexRefine"), ("RQ2x4", "IndexResidualQuantizer"), ("IMI2x2,Flat", "MultiIndexQuantizer")],
)  # fmt: skip
def test_what_has_no_counterpart_is_named(kind, named, tmp_path):
    peer = faiss.index_factory(12, kind)
    peer.train(X)
    faiss.write_index(peer, str(tmp_path / "index"))
    with pytest.raises(FileFormatError, match=named):
        read_faiss(tmp_path / "index")


def test_other_metrics_and_binary_lists_are_named(tmp_path):
    faiss.write_index(faiss.IndexFlat(12, faiss.METRIC_Canberra), str(tmp_path / "index"))
    with pytest.raises(FileFormatError, match="the metric Canberra"):
        read_faiss(tmp_path / "index")
    faiss.write_index_binary(faiss.IndexBinaryHNSW(40), str(tmp_path / "index"))
    with pytest.raises(FileFormatError, match="IndexBinaryHNSW"):
        read_faiss(tmp_path / "index")
    double = faiss.index_factory(12, "IDMap,Flat")
    double.add_with_ids(X[:2], np.array([3, 3]))
    faiss.write_index(double, str(tmp_path / "index"))
    with pytest.raises(FileFormatError, match="the id 3 more than once"):
        read_faiss(tmp_path / "index")


@pytest.mark.parametrize("kind", ["Flat", "PQ4x4", "SQ8", "IVF9,Flat", "IVF9,PQ4x4", "IDMap,SQ4"])
def test_damage_is_an_error_or_another_index(kind, tmp_path):
    """Every cut is noticed. A changed byte is noticed, or changes a number; it never does anything else."""
    peer = faiss.index_factory(12, kind)
    peer.train(X)
    peer.add_with_ids(X[:7], np.arange(7)) if "ID" in kind else peer.add(X[:7])
    whole = faiss.serialize_index(peer).tobytes()
    path = tmp_path / "index"
    for cut in [*range(min(len(whole), 120)), *range(120, len(whole), 97)]:
        path.write_bytes(whole[:cut])
        with pytest.raises(FileFormatError):
            read_faiss(path)
    path.write_bytes(whole + b"\0")
    with pytest.raises(FileFormatError, match="1 bytes follow"):
        read_faiss(path)
    for at in [*range(min(len(whole), 160)), *range(160, len(whole), 53)]:
        for value in (0, 1, 0x7F, 0xFF, whole[at] ^ 0x10):
            path.write_bytes(whole[:at] + bytes([value]) + whole[at + 1 :])
            try:
                assert read_faiss(path).ntotal == 7
            except FileFormatError:
                assert bytes([value]) != whole[at : at + 1]


def test_flat_is_the_same_index(tmp_path):
    """Bits for bits: a flat index of FAISS is one of ours with the same vectors."""
    peer = faiss.IndexFlatL2(12)
    peer.add(X)
    faiss.write_index(peer, str(tmp_path / "index"))
    ours = IndexFlat(12)
    ours.add(X)
    write_faiss(ours, tmp_path / "mine")
    assert (tmp_path / "mine").read_bytes() == (tmp_path / "index").read_bytes()
