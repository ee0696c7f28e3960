"""Indexes in files: the safetensors layout with settings and a checksum of each array in its header.

The arrays are written one after the other as they lie; the library's encoder would first copy them into one block.
The library checks the header when it is read.
"""

from __future__ import annotations

import io
import json
import os
import secrets
import tempfile
import zlib
from pathlib import Path
from typing import Any, BinaryIO, Final

import numpy as np
import safetensors
from numpy.typing import NDArray

from grilly_core.atomic import atomic_write
from grilly_core.errors import FileFormatError
from grilly_ext_memory.index.base import Index
from grilly_ext_memory.index.binary import IndexBinaryFlat
from grilly_ext_memory.index.flat import IndexFlat, IndexPQ, IndexScalarQuantizer
from grilly_ext_memory.index.graph import IndexHNSW
from grilly_ext_memory.index.inverted import IndexIVF, IndexIVFFlat, IndexIVFPQ, IndexIVFScalarQuantizer
from grilly_ext_memory.index.product import Product
from grilly_ext_memory.index.segments import Segment

__all__ = ["KINDS", "header_of", "index_bytes", "index_from_bytes", "load_index", "save_index"]

_FORMAT: Final = "grilly-index"
_VERSION: Final = "1"
#: Arrays that may be larger than memory, and so are not read when a file is mapped.
_LARGE: Final = ("codes", "ids")
_CODES: Final = {
    "U8": np.uint8, "U32": np.uint32, "I32": np.int32, "I64": np.int64, "F16": np.float16, "F32": np.float32
}  # fmt: skip
_NAMES: Final = {np.dtype(dtype): name for name, dtype in _CODES.items()}

#: Name → class.
KINDS: Final[dict[str, type[Index]]] = {
    kind.__name__: kind
    for kind in (
        IndexFlat, IndexScalarQuantizer, IndexPQ, IndexIVFFlat, IndexIVFScalarQuantizer, IndexIVFPQ, IndexBinaryFlat,
        IndexHNSW,
    )
}  # fmt: skip


def save_index(index: Index, path: str | os.PathLike[str], *, previous: str = "") -> str:
    """Save an index; a crash leaves the old file or the new one.

    Parameters
    ----------
    index : Index
    path : path
    previous : str
        Token of the file that this one takes the place of, kept in the header.

    Returns
    -------
    str
        A token of this file, different each time.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from grilly_ext_memory.index.files import load_index, save_index
    >>> from grilly_ext_memory.index.flat import IndexFlat
    >>> index, path = IndexFlat(2), pathlib.Path(tempfile.mkdtemp()) / "two.index"
    >>> _ = index.add([[1.0, 2.0]])
    >>> token = save_index(index, path)
    >>> load_index(path).reconstruct(0).tolist()
    [1.0, 2.0]
    """
    with atomic_write(path) as file:
        return _write(index, file, previous)


def _write(index: Index, file: BinaryIO, previous: str) -> str:
    arrays, token = _arrays(index), secrets.token_hex(8)
    metadata = {
        "format": _FORMAT, "version": _VERSION, "kind": type(index).__name__, "token": token, "previous": previous,
        "settings": json.dumps(index.settings()), "next": str(index._next),
        "crc32": json.dumps({name: zlib.crc32(_bytes(array)) for name, array in arrays.items()}),
    }  # fmt: skip
    file.write(_header(arrays, metadata))
    for array in arrays.values():
        file.write(_bytes(array))
    return token


def index_bytes(index: Index) -> bytes:
    """Return what `save_index` would write.

    Examples
    --------
    >>> from grilly_ext_memory.index.files import index_bytes, index_from_bytes
    >>> from grilly_ext_memory.index.flat import IndexFlat
    >>> index = IndexFlat(1)
    >>> _ = index.add([[5.0]])
    >>> index_from_bytes(index_bytes(index)).reconstruct(0).tolist()
    [5.0]
    """
    file = io.BytesIO()
    _write(index, file, "")
    return file.getvalue()


def index_from_bytes(data: bytes, *, device: Any = None) -> Index:
    """Return the index that `index_bytes` was given; see `load_index`."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "index"
        path.write_bytes(data)
        return load_index(path, device=device)


def _arrays(index: Index) -> dict[str, NDArray[Any]]:
    """Return what is saved, wide numbers first so that each array lies at a multiple of its item's size."""
    run = index._segments.single()
    arrays = dict(index._learnt())
    if run is not None:
        arrays |= {"codes": run.codes, "ids": run.ids, "offsets": run.offsets}
    packed = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    return dict(sorted(packed.items(), key=lambda item: (-item[1].itemsize, item[0])))


def _bytes(array: NDArray[Any]) -> memoryview:
    return memoryview(array.reshape(-1).view(np.uint8))


def _header(arrays: dict[str, NDArray[Any]], metadata: dict[str, str]) -> bytes:
    entries: dict[str, Any] = {"__metadata__": metadata}
    at = 0
    for name, array in arrays.items():
        entries[name] = {
            "dtype": _NAMES[array.dtype], "shape": list(array.shape), "data_offsets": [at, at + array.nbytes]
        }  # fmt: skip
        at += array.nbytes
    metadata["header"] = _header_sum(entries)
    text = json.dumps(entries).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text


def _header_sum(entries: dict[str, Any]) -> str:
    """Return the checksum of all that the header says beside it."""
    metadata = {name: text for name, text in entries["__metadata__"].items() if name != "header"}
    return str(zlib.crc32(json.dumps({**entries, "__metadata__": metadata}, sort_keys=True).encode()))


def load_index(
    path: str | os.PathLike[str], *, mmap: bool = False, verify: bool | None = None, device: Any = None
) -> Index:
    """Load an index.

    Parameters
    ----------
    path : path
    mmap : bool
        Read vectors from the file when they are needed, through a memory map: for indexes larger than memory. Such an
        index can be searched, not changed.
    verify : bool, optional
        Compare the checksums of vectors and ids; by default unless `mmap`. All others are always compared.
    device : Device or str, optional
        Where searches run.

    Returns
    -------
    Index

    Raises
    ------
    FileFormatError
        If the file is foreign, cut, of another version, or damaged. Nothing in it is ever executed.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from grilly_ext_memory.index.files import load_index, save_index
    >>> from grilly_ext_memory.index.flat import IndexFlat
    >>> index = IndexFlat(2)
    >>> ids = index.add(np.eye(2, dtype=np.float32))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     saved = save_index(index, f"{folder}/a.index")
    ...     load_index(f"{folder}/a.index").search(np.float32([[0.9, 0]]), 1).ids.tolist()
    [[0]]
    """
    source = Path(path)
    header, start = header_of(source)
    metadata = header["__metadata__"]
    arrays = {name: _mapped(source, entry, start) for name, entry in header.items() if name != "__metadata__"}
    if not mmap:
        arrays = {name: np.array(array) for name, array in arrays.items()}
    whole, sums = not mmap if verify is None else verify, json.loads(metadata["crc32"])
    for name, array in arrays.items():
        if (whole or name not in _LARGE) and zlib.crc32(_bytes(array)) != sums.get(name):
            raise FileFormatError(f"{source}: the checksum of {name!r} does not agree; the file is damaged.")
    try:
        index = KINDS[metadata["kind"]](**json.loads(metadata["settings"]), device=device)
        _fill(index, arrays, int(metadata["next"]), whole)
    except (KeyError, TypeError, ValueError) as error:
        raise FileFormatError(f"{source}: the file contradicts itself: {error}.") from error
    index.read_only = mmap
    return index


def header_of(path: str | os.PathLike[str]) -> tuple[dict[str, Any], int]:
    """Return the header of an index's file, and where its arrays start."""
    source = Path(path)
    if source.is_dir():
        raise FileFormatError(
            f"{source} is a folder; expected an index's file. ShardedIndex and SemanticSearch open folders."
        )
    try:
        with safetensors.safe_open(source, framework="numpy") as opened:  # type: ignore[no-untyped-call]
            metadata = opened.metadata() or {}
    except safetensors.SafetensorError as error:
        raise FileFormatError(f"{source}: not an index of grilly, or cut: {error}.") from error
    if metadata.get("format") != _FORMAT or metadata.get("version") != _VERSION:
        raise FileFormatError(
            f"{source}: expected {_FORMAT} of version {_VERSION}; received {metadata.get('format', 'another kind')} "
            f"{metadata.get('version', '')}."
        )
    with source.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        header: dict[str, Any] = json.loads(file.read(length))
    if metadata.get("header") != _header_sum(header):
        raise FileFormatError(f"{source}: the checksum of the header does not agree; the file is damaged.")
    return header, 8 + length


def _mapped(source: Path, entry: dict[str, Any], start: int) -> NDArray[Any]:
    dtype, shape = _CODES[entry["dtype"]], tuple(entry["shape"])
    if 0 in shape:
        return np.zeros(shape, dtype)
    return np.memmap(source, dtype, "r", start + entry["data_offsets"][0], shape)


def _fill(index: Index, arrays: dict[str, NDArray[Any]], following: int, whole: bool) -> None:
    """Give an index what the file holds, once it fits together; of vectors and ids the contents if `whole`."""
    for name, shape in _shapes(index).items():
        if name in arrays and arrays[name].shape != shape:
            raise ValueError(f"{name} of shape {arrays[name].shape} in the place of {shape}")
    index._restore(arrays)
    index._next = following
    if "codes" not in arrays:
        return
    if not index.is_trained:
        raise ValueError("vectors without a training")
    codes, ids, offsets = arrays["codes"], arrays["ids"], arrays["offsets"]
    one = _code(index)
    if codes.dtype != one.dtype or codes.shape != (len(ids), *one.shape[1:]):
        raise ValueError(f"{len(ids)} ids and codes {codes.dtype} {codes.shape}")
    if ids.dtype != np.int64 or len(offsets) != index._segments.lists + 1 or offsets[-1] != len(ids):
        raise ValueError(f"{len(ids)} ids {ids.dtype} and {len(offsets)} offsets")
    if np.any(np.diff(offsets) < 0) or offsets[0] != 0:
        raise ValueError("offsets that fall")
    if whole:
        _check_contents(index, codes, ids, offsets)
    index._segments.adopt(Segment(codes, ids, offsets))


def _shapes(index: Index) -> dict[str, tuple[int, ...]]:
    """Return the shapes of what training makes."""
    shapes: dict[str, tuple[int, ...]] = {"low": (index.d,), "span": (index.d,)}
    if isinstance(index, IndexIVF):
        shapes["centroids"] = (index.nlist, index.d)
    if isinstance(index.codec, Product):
        m, count = index.codec.m, 1 << index.codec.nbits
        shapes["codebooks"] = (m, count, index.d // m)
    return shapes


def _code(index: Index) -> NDArray[Any]:
    """Return the code of some row."""
    if isinstance(index, IndexBinaryFlat):
        return np.zeros((1, -(-index.d // 32)), np.uint32)
    return index.codec.encode(np.zeros((1, index.d), np.float32))


def _check_contents(index: Index, codes: NDArray[Any], ids: NDArray[Any], offsets: NDArray[Any]) -> None:
    rising = np.diff(ids, prepend=-1) > 0
    rising[offsets[:-1][offsets[:-1] < len(ids)]] = True
    if not rising.all() or ids.min() < 0 or ids.max() >= index._next:
        raise ValueError(f"ids that fall, or are not between 0 and {index._next}")
    if isinstance(index.codec, Product) and int(codes.max()) >> index.codec.nbits:
        raise ValueError(f"codeword {int(codes.max())} of {1 << index.codec.nbits}")
