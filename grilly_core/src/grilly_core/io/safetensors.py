"""The safetensors format: a JSON header, then the tensors' bytes. Reading it runs no code.

The `safetensors` library encodes and decodes. Here is what it leaves open: packing strided arrays, atomic writes,
bfloat16, and errors that say which file and why.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
import safetensors
from safetensors import numpy as encoder

from grilly_core import dtypes
from grilly_core.atomic import atomic_write
from grilly_core.device import Device
from grilly_core.errors import DTypeError, FileFormatError
from grilly_core.ops.creation import asarray
from grilly_core.tensor import Tensor

__all__ = ["load_file", "read_arrays", "save_file", "write_arrays"]

_NAMES: Final = {
    "BOOL": dtypes.bool_, "U8": dtypes.uint8, "I8": dtypes.int8, "U16": dtypes.uint16, "I16": dtypes.int16,
    "U32": dtypes.uint32, "I32": dtypes.int32, "U64": dtypes.uint64, "I64": dtypes.int64, "F16": dtypes.float16,
    "BF16": dtypes.bfloat16, "F32": dtypes.float32, "F64": dtypes.float64, "C64": dtypes.complex64,
}  # fmt: skip
_CODES: Final = frozenset(dtype.name for dtype in _NAMES.values())


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
    # The library reads a buffer as it lies, so strided arrays must be packed first.
    packed = {name: np.asarray(_checked(name, array), order="C") for name, array in arrays.items()}
    blob = encoder.save(packed, metadata=dict(metadata) or None)
    with atomic_write(path) as file:
        file.write(blob)
    return Path(path)


def _checked(name: str, array: Any) -> Any:
    if name == "__metadata__":
        raise ValueError("save_file: '__metadata__' is a reserved name; pass metadata=... instead.")
    dtype = dtypes.from_numpy(array.dtype)
    if dtype.name not in _CODES:
        raise DTypeError(
            f"save_file: {name!r} is {dtype.name}, which the format has no code for; cast it first."
        )
    return array


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
    try:
        entries = safetensors.deserialize(data)  # type: ignore[no-untyped-call]
    except safetensors.SafetensorError as error:
        raise FileFormatError(
            f"{source}: not a safetensors file, or truncated: {error}.{_hint(data)}"
        ) from error
    arrays = {}
    for name, entry in entries:
        if entry["dtype"] not in _NAMES:
            raise FileFormatError(
                f"{source}: {name!r} is {entry['dtype']}, a type that grilly does not have."
            )
        arrays[name] = np.frombuffer(entry["data"], _NAMES[entry["dtype"]].numpy).reshape(entry["shape"])
    header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])  # the library has validated it
    return arrays, header.get("__metadata__", {})


def _hint(data: bytes) -> str:
    foreign = data[:2] in (b"PK", b"\x80\x02", b"\x80\x04", b"\x80\x05")
    return " It looks like a pickle or an archive, which are never loaded." if foreign else ""
