"""The safetensors format: a JSON header, then the tensors' bytes. Reading it runs no code.

The layout (8 bytes of header length, the header, the data) is public; this file reads and writes it with NumPy alone.
Everything a file claims is checked against what it holds.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np

from grilly_core import dtypes
from grilly_core.atomic import atomic_write
from grilly_core.device import Device
from grilly_core.dtypes import DType
from grilly_core.errors import DTypeError, FileFormatError
from grilly_core.ops.creation import asarray
from grilly_core.tensor import Tensor

__all__ = ["load_file", "read_arrays", "save_file", "write_arrays"]

_NAMES: Final = {
    "BOOL": dtypes.bool_, "U8": dtypes.uint8, "I8": dtypes.int8, "U16": dtypes.uint16, "I16": dtypes.int16,
    "U32": dtypes.uint32, "I32": dtypes.int32, "U64": dtypes.uint64, "I64": dtypes.int64, "F16": dtypes.float16,
    "BF16": dtypes.bfloat16, "F32": dtypes.float32, "F64": dtypes.float64, "C64": dtypes.complex64,
}  # fmt: skip
_CODES: Final = {dtype.name: code for code, dtype in _NAMES.items()}
_HEADER_LIMIT: Final = 100_000_000
_ALIGNMENT: Final = 8


def save_file(
    tensors: Mapping[str, Any], path: str | os.PathLike[str], metadata: Mapping[str, str] | None = None
) -> Path:
    """Save named tensors to a safetensors file.

    The file is written beside the old one and renamed, so a crash leaves either the old content or the new.

    Parameters
    ----------
    tensors : mapping of str to array_like
        Such as ``model.state_dict()``.
    path : path
    metadata : mapping of str to str, optional
        Kept in the header.

    Returns
    -------
    Path
        The file written.

    Examples
    --------
    >>> import grilly_core as grilly, tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "weights.safetensors"
    >>> _ = grilly.io.save_file(grilly.nn.Linear(2, 3).state_dict(), path)
    >>> sorted(grilly.io.load_file(path))
    ['bias', 'weight']
    """
    return write_arrays(path, {name: _host(name, t) for name, t in tensors.items()}, metadata or {})


def _host(name: str, value: Any) -> Any:
    if not isinstance(name, str):
        raise TypeError(f"save_file: names are strings; received {name!r}.")
    array = value.detach().numpy() if isinstance(value, Tensor) else np.asarray(value)
    if array.dtype == object:
        raise DTypeError(
            f"save_file: {name!r} is not a tensor or an array of numbers but {type(value).__name__}."
        )
    return array


def write_arrays(
    path: str | os.PathLike[str], arrays: Mapping[str, Any], metadata: Mapping[str, str]
) -> Path:
    """Save NumPy arrays; see `save_file`."""
    header: dict[str, Any] = {"__metadata__": dict(metadata)} if metadata else {}
    start = 0
    # Wide types first, as other writers do: every tensor is then aligned to its own size.
    order = sorted(arrays, key=lambda name: (-arrays[name].dtype.itemsize, name))
    for name in order:
        array = arrays[name]
        end = start + array.nbytes
        header[name] = {"dtype": _code(name, array), "shape": list(array.shape), "data_offsets": [start, end]}
        start = end
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % _ALIGNMENT)
    with atomic_write(path) as file:
        for chunk in _chunks(text, [arrays[name] for name in order]):
            file.write(chunk)
    return Path(path)


def _code(name: str, array: Any) -> str:
    if name == "__metadata__":
        raise ValueError("save_file: '__metadata__' is a reserved name; pass metadata=... instead.")
    dtype = dtypes.from_numpy(array.dtype)
    if dtype.name not in _CODES:
        raise DTypeError(
            f"save_file: {name!r} is {dtype.name}, which the format has no code for; cast it first."
        )
    return _CODES[dtype.name]


def _chunks(header: bytes, arrays: list[Any]) -> Iterator[bytes | memoryview]:
    yield len(header).to_bytes(8, "little")
    yield header
    for array in arrays:
        packed = np.ascontiguousarray(array)  # strided arrays must be packed, whatever wrote them
        yield packed.reshape(-1).view(np.uint8).data


def load_file(path: str | os.PathLike[str], device: Device | str | None = None) -> dict[str, Tensor]:
    """Load the tensors of a safetensors file.

    Parameters
    ----------
    path : path
    device : Device or str, optional
        Where to put them; the default device if not given.

    Returns
    -------
    dict of str to Tensor

    Raises
    ------
    FileFormatError
        If the file is not of this format, truncated, or contradicts itself. Nothing in it is ever executed.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "weights.safetensors"
    >>> _ = grilly.io.save_file({"x": grilly.ones(2)}, path)
    >>> grilly.io.load_file(path)["x"].tolist()
    [1.0, 1.0]
    """
    arrays, _ = read_arrays(path)
    return {
        name: asarray(array, dtype=dtypes.from_numpy(array.dtype), device=device)
        for name, array in arrays.items()
    }


def read_arrays(path: str | os.PathLike[str]) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the arrays and the metadata of a safetensors file."""
    source = Path(path)
    data = source.read_bytes()
    header, start = _header(source, data)
    metadata = header.pop("__metadata__", {})
    if not isinstance(metadata, dict) or not all(isinstance(v, str) for v in metadata.values()):
        raise FileFormatError(f"{source}: the metadata must map names to strings.")
    body = memoryview(data)[start:]
    arrays = {}
    ranges = []
    for name, entry in header.items():
        dtype, shape, (low, high) = _entry(source, name, entry, len(body))
        ranges.append((low, high))
        arrays[name] = np.frombuffer(body[low:high], dtype.numpy).reshape(shape)
    _check_cover(source, sorted(ranges), len(body))
    return arrays, metadata


def _header(source: Path, data: bytes) -> tuple[dict[str, Any], int]:
    if len(data) < 8:
        raise FileFormatError(f"{source}: not a safetensors file: {len(data)} bytes are too few.")
    size = int.from_bytes(data[:8], "little")
    if size > min(_HEADER_LIMIT, len(data) - 8):
        hint = (
            " It looks like a pickle or an archive, which are never loaded."
            if data[:2] in (b"PK", b"\x80\x02", b"\x80\x04", b"\x80\x05")
            else ""
        )
        raise FileFormatError(
            f"{source}: not a safetensors file, or truncated: its header should take {size} bytes, "
            f"{len(data) - 8} are there.{hint}"
        )
    try:
        header = json.loads(data[8 : 8 + size].decode(), object_pairs_hook=_unique)
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        raise FileFormatError(
            f"{source}: not a safetensors file: its header is not JSON ({error})."
        ) from error
    if not isinstance(header, dict):
        raise FileFormatError(f"{source}: not a safetensors file: its header is {type(header).__name__}.")
    return header, 8 + size


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        raise FileFormatError("a safetensors header names something twice.")
    return made


def _entry(source: Path, name: str, entry: Any, size: int) -> tuple[DType, tuple[int, ...], tuple[int, int]]:
    try:
        dtype, shape, (low, high) = _NAMES[entry["dtype"]], tuple(entry["shape"]), entry["data_offsets"]
        sound = all(type(n) is int and n >= 0 for n in (*shape, low, high)) and low <= high
    except (KeyError, TypeError, ValueError) as error:
        raise FileFormatError(
            f"{source}: the entry of {name!r} is not understood: {entry!r:.120}."
        ) from error
    if not sound or high - low != math.prod(shape) * dtype.itemsize:
        raise FileFormatError(f"{source}: {name!r} of shape {shape} does not take the bytes {low} to {high}.")
    if high > size:
        raise FileFormatError(f"{source}: truncated: {name!r} ends at byte {high}, the data at {size}.")
    return dtype, shape, (low, high)


def _check_cover(source: Path, ranges: list[tuple[int, int]], size: int) -> None:
    end = 0
    for low, high in ranges:
        if low != end:
            raise FileFormatError(f"{source}: tensors overlap or leave a gap at byte {min(low, end)}.")
        end = high
    if end != size:
        raise FileFormatError(f"{source}: {size - end} bytes follow the last tensor.")
