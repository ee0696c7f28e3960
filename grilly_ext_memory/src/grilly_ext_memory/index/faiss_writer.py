"""Indexes in files that FAISS reads."""

from __future__ import annotations

import itertools
import os
import struct
from typing import Any, BinaryIO, Final

import numpy as np

from grilly_core.atomic import atomic_write
from grilly_ext_memory.index.base import Index
from grilly_ext_memory.index.binary import IndexBinaryFlat
from grilly_ext_memory.index.codecs import Half, Raw, Scalar8
from grilly_ext_memory.index.faiss_layout import DUMMY, METRICS, SCALARS, packed, width_of
from grilly_ext_memory.index.flat import IndexFlat, IndexPQ, IndexScalarQuantizer
from grilly_ext_memory.index.inverted import IndexIVF, IndexIVFFlat, IndexIVFPQ, IndexIVFScalarQuantizer
from grilly_ext_memory.index.product import Product
from grilly_ext_memory.index.segments import Segment

__all__ = ["write_faiss"]

_NUMBERS: Final = {metric: number for number, metric in METRICS.items()}
_QTYPES: Final = {kind: number for number, (kind, shared) in SCALARS.items() if not shared}
_FLAT: Final = {"sqeuclidean": b"IxF2", "ip": b"IxFI", "l1": b"IxFl"}
_KINDS: Final[dict[type[Index], bytes]] = {
    IndexPQ: b"IxPq", IndexScalarQuantizer: b"IxSQ", IndexIVFFlat: b"IwFl", IndexIVFPQ: b"IwPQ",
    IndexIVFScalarQuantizer: b"IwSq",
}  # fmt: skip


def write_faiss(index: Index, path: str | os.PathLike[str]) -> None:
    """Save an index for ``faiss.read_index`` (``read_index_binary``); a crash leaves the old file or the new one.

    Parameters
    ----------
    index : Index
        Of metric ``"sqeuclidean"``, ``"ip"`` or ``"l1"``, or binary; trained. Where the ids of an index without lists
        are not 0 to N - 1, they are written as an IndexIDMap2.
    path : path

    Raises
    ------
    ValueError
        If FAISS has no such index.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from grilly_ext_memory.index.faiss_reader import read_faiss
    >>> from grilly_ext_memory.index.faiss_writer import write_faiss
    >>> from grilly_ext_memory.index.flat import IndexFlat
    >>> index, path = IndexFlat(2, "ip"), pathlib.Path(tempfile.mkdtemp()) / "two.faiss"
    >>> _ = index.add_with_ids([[1.0, 2.0]], [7])
    >>> write_faiss(index, path)
    >>> read_faiss(path).ids.tolist()
    [7]
    """
    if type(index) not in (*_KINDS, IndexFlat, IndexBinaryFlat):
        raise ValueError(f"write_faiss: there is no counterpart of {type(index).__name__}.")
    if index.metric not in (*_NUMBERS, "hamming"):
        instead = {"l2": "'sqeuclidean', which has the same order", "cosine": "'ip' with vectors of length 1"}
        raise ValueError(
            f"write_faiss: FAISS has no metric {index.metric!r}; use an index with {instead[index.metric]}."
        )
    if not index.is_trained:
        raise RuntimeError("write_faiss: the index must be trained first; call train(vectors).")
    run = index._segments.single()
    with atomic_write(path) as file:
        if isinstance(index, IndexIVF):
            _ivf(file, index, run)
        else:
            _mapped(file, index, run)


def _header(file: BinaryIO, kind: bytes, index: Index, count: int) -> None:
    if index.metric == "hamming":
        file.write(struct.pack("<4siiqBi", kind, index.d, index.d // 8, count, 1, 1))
        return
    number = _NUMBERS[index.metric]
    file.write(struct.pack("<4siqqqBi", kind, index.d, count, DUMMY, DUMMY, 1, number))
    if number > 1:
        file.write(struct.pack("<f", 0.0))


def _vector(file: BinaryIO, array: Any) -> None:
    file.write(struct.pack("<Q", array.size))
    _raw(file, array)


def _raw(file: BinaryIO, array: Any) -> None:
    file.write(np.ascontiguousarray(array, array.dtype.newbyteorder("<")).reshape(-1).view(np.uint8).data)


def _codes(index: Index, codes: Any) -> Any:
    """Return codes as FAISS has them."""
    if isinstance(index, IndexBinaryFlat):
        return codes.view(np.uint8)[:, : index.d // 8]
    if isinstance(index.codec, Product):
        return packed(codes, index.codec.nbits)
    return codes if isinstance(index.codec, Raw) else np.ascontiguousarray(codes).view(np.uint8)


def _mapped(file: BinaryIO, index: Index, run: Segment | None) -> None:
    count = index.ntotal
    named = run is not None and not np.array_equal(run.ids, np.arange(count))
    binary = isinstance(index, IndexBinaryFlat)
    if named:
        _header(file, b"IBM2" if binary else b"IxM2", index, count)
    kind = b"IBxF" if binary else _KINDS.get(type(index), _FLAT.get(index.metric, b""))
    _header(file, kind, index, count)
    _quantizer(file, index)
    codes = np.zeros((0, 1), np.uint8) if run is None else _codes(index, run.codes)
    _vector(file, codes)
    if isinstance(index, IndexPQ):
        file.write(struct.pack("<iBi", 0, 0, 0))
    if named and run is not None:
        _vector(file, run.ids)


def _quantizer(file: BinaryIO, index: Index) -> None:
    codec = index.codec
    if isinstance(codec, Product):
        file.write(struct.pack("<QQQ", codec.d, codec.m, codec.nbits))
        _vector(file, codec.codebooks)
    elif isinstance(codec, Scalar8 | Half):
        file.write(struct.pack("<iifQQ", _QTYPES[codec.kind], 0, 0.0, index.d, _code_size(index)))
        ranges = np.zeros(0, np.float32)
        if isinstance(codec, Scalar8) and codec.low is not None and codec.span is not None:
            # FAISS decodes to the middle of a step; see the reader.
            ranges = np.concatenate([codec.low - codec.span * np.float32(0.5 / codec.levels), codec.span])
        _vector(file, ranges)


def _code_size(index: Index) -> int:
    codec = index.codec
    if isinstance(codec, Product):
        return width_of(codec.m, codec.nbits)
    return {"flat": 4 * index.d, "sq8": index.d, "sq4": (index.d + 1) // 2, "f16": 2 * index.d}[codec.kind]


def _ivf(file: BinaryIO, index: IndexIVF, run: Segment | None) -> None:
    assert index.centroids is not None
    _header(file, _KINDS[type(index)], index, index.ntotal)
    file.write(struct.pack("<QQ", index.nlist, min(index.nprobe, index.nlist)))
    _header(file, _FLAT[index.metric], index, index.nlist)
    _vector(file, index.centroids)
    file.write(struct.pack("<BQ", 0, 0))  # no direct map
    size, residual = _code_size(index), index.codec.residual
    if isinstance(index, IndexIVFPQ):
        file.write(struct.pack("<BQ", residual, size))
    _quantizer(file, index)
    if isinstance(index, IndexIVFScalarQuantizer):
        file.write(struct.pack("<QB", size, residual))
    file.write(struct.pack("<4sQQ4s", b"ilar", index.nlist, size, b"full"))
    offsets = np.zeros(index.nlist + 1, np.int64) if run is None else run.offsets.astype(np.int64)
    _vector(file, np.diff(offsets))
    if run is not None:
        codes = _codes(index, run.codes)
        for low, high in itertools.pairwise(offsets):
            _raw(file, codes[low:high])
            _raw(file, run.ids[low:high])
