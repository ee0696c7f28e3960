"""Indexes from the files that FAISS writes, without FAISS.

Every size in a file is compared with what is left of it before anything is allocated. The file is taken as a whole or
refused: what is not understood is named.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from grilly_core.errors import FileFormatError
from grilly_ext_memory.index.base import Index
from grilly_ext_memory.index.binary import IndexBinaryFlat
from grilly_ext_memory.index.codecs import Codec, Half, Scalar4, Scalar8
from grilly_ext_memory.index.faiss_layout import (
    METRICS,
    OTHER_METRICS,
    OTHER_SCALARS,
    OTHERS,
    SCALARS,
    codes_of,
    width_of,
)
from grilly_ext_memory.index.flat import IndexFlat, IndexPQ, IndexScalarQuantizer
from grilly_ext_memory.index.inverted import IndexIVF, IndexIVFFlat, IndexIVFPQ, IndexIVFScalarQuantizer
from grilly_ext_memory.index.product import Product

__all__ = ["read_faiss"]

#: Wider vectors are taken for damage.
_WIDEST: Final = 1 << 20


def read_faiss(path: str | os.PathLike[str], *, device: Any = None) -> Index:
    """Load an index that FAISS wrote (``faiss.write_index``, ``write_index_binary``). Needs no FAISS.

    Parameters
    ----------
    path : path
        IndexFlat (L2, inner product, L1), IndexPQ, IndexScalarQuantizer (8 and 4 bits, fp16), the same after
        IndexIVF with a flat quantiser, IndexBinaryFlat; each also in an IndexIDMap.
    device : Device or str, optional
        Where searches run.

    Returns
    -------
    Index
        Of the same kind here, with FAISS's ids. It finds what FAISS finds, up to rounding and the order of equals.

    Raises
    ------
    FileFormatError
        If the file is foreign, cut, contradicts itself, or holds what has no counterpart here, which is named.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from grilly_ext_memory.index.faiss_reader import read_faiss
    >>> from grilly_ext_memory.index.faiss_writer import write_faiss
    >>> from grilly_ext_memory.index.flat import IndexFlat
    >>> index, path = IndexFlat(2), pathlib.Path(tempfile.mkdtemp()) / "two.faiss"
    >>> _ = index.add([[1.0, 2.0]])
    >>> write_faiss(index, path)
    >>> read_faiss(path).reconstruct(0).tolist()
    [1.0, 2.0]
    """
    source = Path(path)
    with source.open("rb") as file:
        reader = _Reader(source, file)
        made = _read(reader, device)
        if reader.left:
            raise reader.wrong(f"{reader.left} bytes follow the index")
    return made


class _Reader:
    """Numbers and vectors from a file, none longer than what is left of it."""

    def __init__(self, source: Path, file: BinaryIO) -> None:
        self.source, self._file = source, file
        self.left = os.fstat(file.fileno()).st_size

    def wrong(self, what: str) -> FileFormatError:
        return FileFormatError(f"{self.source}: not an index of FAISS, or damaged: {what}.")

    def unknown(self, what: str) -> FileFormatError:
        return FileFormatError(f"{self.source}: holds {what}, which read_faiss does not read.")

    def bytes(self, count: int, what: str) -> bytes:
        if count > self.left:
            raise self.wrong(f"{what} take {count} bytes, and {self.left} are left")
        self.left -= count
        data = self._file.read(count)
        if len(data) != count:
            raise self.wrong(f"it became shorter while {what} were read")
        return data

    def numbers(self, layout: str, what: str) -> tuple[Any, ...]:
        made = struct.Struct("<" + layout)
        return made.unpack(self.bytes(made.size, what))

    def array(self, dtype: Any, count: int, what: str) -> NDArray[Any]:
        kind = np.dtype(dtype).newbyteorder("<")
        return np.frombuffer(self.bytes(count * kind.itemsize, what), kind)

    def vector(self, dtype: Any, count: int, what: str) -> NDArray[Any]:
        """Read a vector that must be of a length."""
        if (there := self.numbers("Q", f"the length of {what}")[0]) != count:
            raise self.wrong(f"{what} have the length {there}; {count} was expected")
        return self.array(dtype, count, what)

    def kind(self) -> str:
        return self.bytes(4, "the kind").decode("latin-1")


class _Header(NamedTuple):
    d: int
    ntotal: int
    trained: bool
    metric: str


def _header(reader: _Reader) -> _Header:
    d, ntotal, _, _, trained, number = reader.numbers("iqqqBi", "the header")
    if number not in METRICS:
        if number in OTHER_METRICS:
            raise reader.unknown(f"the metric {OTHER_METRICS[number]}")
        raise reader.wrong(f"there is no metric {number}")
    if number > 1:
        reader.numbers("f", "the metric's argument")
    return _checked(reader, d, ntotal, trained, METRICS[number])


def _checked(reader: _Reader, d: int, ntotal: int, trained: int, metric: str) -> _Header:
    if not 1 <= d <= _WIDEST or not 0 <= ntotal < 1 << 40 or trained > 1:
        raise reader.wrong(f"the header says d = {d} and ntotal = {ntotal}")
    return _Header(d, ntotal, bool(trained), metric)


def _read(reader: _Reader, device: Any, mapped: bool = False) -> Index:
    kind = reader.kind()
    if kind in ("IxMp", "IxM2", "IBMp", "IBM2") and not mapped:
        return _id_map(reader, device, kind)
    if kind not in _KINDS:
        if kind in OTHERS:
            raise reader.unknown(OTHERS[kind])
        what = (
            "an IndexIDMap in another" if kind in ("IxMp", "IxM2", "IBMp", "IBM2") else f"the kind {kind!r}"
        )
        raise reader.unknown(what)
    return _KINDS[kind](reader, device)


def _filled(reader: _Reader, index: Index, codes: Any, ids: Any, lists: Any = None) -> Index:
    """Put rows into an index that has its training."""
    ordered = np.sort(ids)
    if len(ids) and ordered[0] < 0:
        raise reader.unknown(f"the negative id {ordered[0]}")
    if len(same := ordered[1:][ordered[1:] == ordered[:-1]]):
        raise reader.unknown(f"the id {same[0]} more than once")
    if codes.dtype == np.float32 and not np.isfinite(codes).all():
        row = int(np.flatnonzero(~np.isfinite(codes).all(axis=1))[0])
        raise reader.unknown(f"numbers that are not finite (row {row})")
    index._segments.add(codes, ids, lists)
    index._next = int(ordered[-1]) + 1 if len(ids) else 0
    return index


def _plain(reader: _Reader, index: Index, head: _Header, codes: Any) -> Index:
    return _filled(reader, index, codes, np.arange(head.ntotal, dtype=np.int64))


def _flat(reader: _Reader, device: Any) -> Index:
    head = _header(reader)
    rows = reader.vector(np.float32, head.ntotal * head.d, "the vectors").reshape(head.ntotal, head.d)
    return _plain(reader, IndexFlat(head.d, head.metric, device=device), head, rows)


def _binary(reader: _Reader, device: Any) -> Index:
    head, size = _binary_header(reader)
    rows = reader.vector(np.uint8, head.ntotal * size, "the vectors").reshape(head.ntotal, size)
    index = IndexBinaryFlat(head.d, device=device)
    index.add(rows)
    return index


def _binary_header(reader: _Reader) -> tuple[_Header, int]:
    d, size, ntotal, trained, _ = reader.numbers("iiqBi", "the header")
    head = _checked(reader, d, ntotal, trained, "hamming")
    if size * 8 != d:
        raise reader.wrong(f"the header says {d} bits and {size} bytes")
    return head, size


def _id_map(reader: _Reader, device: Any, kind: str) -> Index:
    head = _binary_header(reader)[0] if kind.startswith("IB") else _header(reader)
    inner = _read(reader, device, mapped=True)
    if (inner.d, inner.ntotal) != (head.d, head.ntotal):
        raise reader.wrong(f"an IndexIDMap of {head.ntotal} vectors holds an index of {inner.ntotal}")
    names = reader.vector(np.int64, head.ntotal, "the ids")
    run = inner._segments.single()
    inner.reset()
    if run is None:
        return inner
    if (run.ids >= len(names)).any():
        raise reader.wrong(f"an id of the inner index lies beyond the {len(names)} of the map")
    return _filled(reader, inner, run.codes, names[run.ids].astype(np.int64), run.lists())


def _product_of(reader: _Reader, d: int, residual: bool) -> Product:
    wide, m, nbits = reader.numbers("QQQ", "the product quantiser")
    if wide != d or not 1 <= m <= d or d % m:
        raise reader.wrong(
            f"a product quantiser of {m} parts for the width {wide}, in an index of the width {d}"
        )
    if not 1 <= nbits <= 8:
        raise reader.unknown(f"a product quantiser of {nbits} bits; expected at most 8")
    made = Product(d, m, nbits, residual=residual)
    made.codebooks = reader.vector(np.float32, d << nbits, "the codewords").reshape(m, 1 << nbits, d // m)
    return made


def _take_product(reader: _Reader, index: Index, head: _Header, found: Product) -> None:
    if not np.isfinite(found.codebooks).all():  # type: ignore[arg-type]
        raise reader.wrong("the codewords are not finite")
    index.codec = found
    if not head.trained:
        found.codebooks = None


def _pq(reader: _Reader, device: Any) -> Index:
    head = _header(reader)
    found = _product_of(reader, head.d, residual=False)
    index = IndexPQ(head.d, found.m, found.nbits, head.metric, device=device)
    _take_product(reader, index, head, found)
    size = width_of(found.m, found.nbits)
    codes = reader.vector(np.uint8, head.ntotal * size, "the codes").reshape(head.ntotal, size)
    search_type, signs, _ = reader.numbers("iBi", "the settings of the search")
    if search_type != 0 or signs:
        raise reader.unknown(f"an IndexPQ with search_type {search_type} (only 0, asymmetric distances)")
    return _plain(reader, index, head, codes_of(codes, found.m, found.nbits))


def _scalar_of(reader: _Reader, head: _Header, residual: bool = False) -> tuple[Codec, int]:
    """Return a scalar quantiser and the bytes of a row."""
    number, _, _, d, size = reader.numbers("iifQQ", "the scalar quantiser")
    if number not in SCALARS:
        raise reader.unknown(f"a scalar quantiser of type {OTHER_SCALARS.get(number, number)}")
    kind, shared = SCALARS[number]
    width = {"sq8": head.d, "sq4": (head.d + 1) // 2, "f16": 2 * head.d}[kind]
    if (d, size) != (head.d, width):
        raise reader.wrong(
            f"a scalar quantiser of {size} bytes for the width {d}; expected {width} for {head.d}"
        )
    made = {"sq8": Scalar8, "sq4": Scalar4, "f16": Half}[kind]()
    count = 0 if kind == "f16" or not head.trained else (2 if shared else 2 * head.d)
    ranges = reader.vector(np.float32, count, "the ranges").reshape(2, -1)
    if isinstance(made, Scalar8) and count:
        # FAISS decodes to the middle of a step, from the least number on: half a step above what ours calls `low`.
        low, span = (np.broadcast_to(part, head.d).astype(np.float32) for part in ranges)
        if not (np.isfinite(ranges).all() and (span >= 0).all()):
            raise reader.wrong("the ranges of a scalar quantiser are not finite")
        made.low, made.span = low + span * np.float32(0.5 / made.levels), span
    made.residual = residual  # type: ignore[misc]
    return made, width


def _scalar_codes(data: NDArray[Any], codec: Codec) -> NDArray[Any]:
    return data.view("<f2") if isinstance(codec, Half) else data


def _sq(reader: _Reader, device: Any) -> Index:
    head = _header(reader)
    codec, size = _scalar_of(reader, head)
    index = IndexScalarQuantizer(head.d, codec.kind, head.metric, device=device)
    index.codec = codec
    data = reader.vector(np.uint8, head.ntotal * size, "the codes").reshape(head.ntotal, size)
    return _plain(reader, index, head, _scalar_codes(data, codec))


class _Lists(NamedTuple):
    nlist: int
    nprobe: int
    centroids: NDArray[np.float32]


def _ivf(reader: _Reader) -> tuple[_Header, _Lists]:
    head = _header(reader)
    nlist, nprobe = reader.numbers("QQ", "the counts of lists")
    kind = reader.kind()
    if kind not in ("IxF2", "IxFI", "IxFl"):
        raise reader.unknown(
            f"lists found by {OTHERS.get(kind, f'the kind {kind!r}')}; expected a flat quantiser"
        )
    coarse = _header(reader)
    if coarse.d != head.d or coarse.metric != head.metric:
        raise reader.unknown(
            f"lists of width {coarse.d} and metric {coarse.metric} in an index of {head.d} and {head.metric}"
        )
    if not nlist or not nprobe or (head.trained and coarse.ntotal != nlist):
        raise reader.wrong(f"{nlist} lists with {coarse.ntotal} centroids, of which {nprobe} are looked at")
    rows = reader.vector(np.float32, coarse.ntotal * head.d, "the centroids").reshape(-1, head.d)
    if not np.isfinite(rows).all():
        raise reader.wrong("the centroids are not finite")
    direct = reader.numbers("B", "the direct map")[0]
    length = reader.numbers("Q", "the direct map")[0]
    reader.array(np.int64, length, "the direct map")
    if direct == 2:  # a hash table: id and place of each vector
        reader.array(np.int64, 2 * reader.numbers("Q", "the direct map")[0], "the direct map")
    elif direct > 2:
        raise reader.wrong(f"there is no direct map {direct}")
    return head, _Lists(nlist, nprobe, rows)


def _set_lists(index: IndexIVF, head: _Header, lists: _Lists) -> None:
    index.nprobe = min(lists.nprobe, lists.nlist)
    index.centroids = lists.centroids if head.trained else None


def _list_sizes(reader: _Reader, nlist: int) -> NDArray[np.int64]:
    layout = reader.bytes(4, "the layout of the lists")
    length = reader.numbers("Q", "the lengths of the lists")[0]
    given = reader.array(np.uint64, length, "the lengths of the lists")
    if (given > np.uint64(1 << 40)).any():
        raise reader.wrong("a list is longer than the file")
    given = given.astype(np.int64)
    if layout == b"full" and length == nlist:
        return given
    if layout == b"sprs" and length % 2 == 0 and (given[::2] < nlist).all():
        made = np.zeros(nlist, np.int64)
        made[given[::2]] = given[1::2]
        return made
    raise reader.wrong(f"{nlist} lists have lengths of the layout {layout!r} with {length} numbers")


def _rows(reader: _Reader, head: _Header, nlist: int, size: int) -> tuple[Any, Any, Any]:
    """Return codes as bytes ``(N, size)``, ids and lists of all rows."""
    kind = reader.bytes(4, "the kind of lists")
    if kind in (b"il00", b"ilod"):
        raise reader.unknown("no lists" if kind == b"il00" else "lists in another file (OnDiskInvertedLists)")
    if kind != b"ilar":
        raise reader.unknown(f"lists of the kind {kind!r}")
    count, wide = reader.numbers("QQ", "the lists")
    if (count, wide) != (nlist, size):
        raise reader.wrong(f"{count} lists of {wide} bytes a vector; expected {nlist} of {size}")
    lengths = _list_sizes(reader, nlist)
    if lengths.sum() != head.ntotal:
        raise reader.wrong(f"the lists hold {lengths.sum()} vectors, the header says {head.ntotal}")
    codes, ids = [np.zeros(0, np.uint8)], [np.zeros(0, np.int64)]
    for length in lengths[lengths > 0].tolist():
        codes.append(reader.array(np.uint8, length * size, "the codes of a list"))
        ids.append(reader.array(np.int64, length, "the ids of a list"))
    numbers = np.repeat(np.arange(nlist, dtype=np.int32), lengths)
    return np.concatenate(codes).reshape(-1, size), np.concatenate(ids), numbers


def _ivf_flat(reader: _Reader, device: Any) -> Index:
    head, lists = _ivf(reader)
    index = IndexIVFFlat(head.d, lists.nlist, head.metric, device=device)
    _set_lists(index, head, lists)
    codes, ids, numbers = _rows(reader, head, lists.nlist, 4 * head.d)
    return _filled(reader, index, codes.view("<f4").astype(np.float32, copy=False), ids, numbers)


def _ivf_pq(reader: _Reader, device: Any) -> Index:
    head, lists = _ivf(reader)
    residual, size = reader.numbers("BQ", "the settings of codes")
    found = _product_of(reader, head.d, bool(residual))
    if size != width_of(found.m, found.nbits):
        raise reader.wrong(f"codes of {size} bytes for {found.m} parts of {found.nbits} bits")
    index = IndexIVFPQ(
        head.d, lists.nlist, found.m, found.nbits, head.metric, by_residual=bool(residual), device=device
    )
    _set_lists(index, head, lists)
    _take_product(reader, index, head, found)
    codes, ids, numbers = _rows(reader, head, lists.nlist, size)
    return _filled(reader, index, codes_of(codes, found.m, found.nbits), ids, numbers)


def _ivf_sq(reader: _Reader, device: Any) -> Index:
    head, lists = _ivf(reader)
    codec, size = _scalar_of(reader, head)
    wide, residual = reader.numbers("QB", "the settings of codes")
    if wide != size:
        raise reader.wrong(f"codes of {wide} bytes; expected {size}")
    index = IndexIVFScalarQuantizer(
        head.d, lists.nlist, codec.kind, head.metric, by_residual=bool(residual), device=device
    )
    codec.residual = bool(residual)
    index.codec = codec
    _set_lists(index, head, lists)
    codes, ids, numbers = _rows(reader, head, lists.nlist, size)
    return _filled(reader, index, _scalar_codes(codes, codec), ids, numbers)


_KINDS: Final[dict[str, Callable[[_Reader, Any], Index]]] = {
    "IxF2": _flat, "IxFI": _flat, "IxFl": _flat, "IxPq": _pq, "IxSQ": _sq, "IwFl": _ivf_flat, "IwPQ": _ivf_pq,
    "IwSq": _ivf_sq, "IBxF": _binary,
}  # fmt: skip
