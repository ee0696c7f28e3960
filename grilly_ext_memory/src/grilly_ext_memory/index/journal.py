"""Indexes that live in a file: what was added since it was saved is in a journal beside it.

A journal is a header and records, each with its own checksum. `flush` writes a mark that names its own place and waits
until everything is on the disk. When a file is opened, records are read up to the first that is cut or damaged. If a
mark comes after it, something that `flush` had returned for is damaged, which is an error; else a process died while it
wrote, and what it never flushed is dropped.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Final, Self

import numpy as np
from numpy.typing import NDArray

from grilly_core.atomic import atomic_write
from grilly_core.errors import FileFormatError, WriteError
from grilly_ext_memory.index.base import Allowed, Index
from grilly_ext_memory.index.files import header_of, load_index, save_index
from grilly_ext_memory.index.ranking import Hits, Ids

__all__ = ["StoredIndex"]

try:
    import fcntl
except ImportError:  # systems without: two processes that write one journal are not noticed there
    fcntl = None  # type: ignore[assignment]

_MAGIC: Final = b"grilly-journal 1"
_START: Final = struct.Struct("<16s16s")  # magic, token of the index's file
_RECORD: Final = struct.Struct(
    "<4sBQQI"
)  # magic, kind, rows, place in the file, checksum of these and the payload
_ADD, _REMOVE, _MARK = 1, 2, 3
_WORD: Final = b"GRJ\n"


class StoredIndex:
    """An index in a file, with a journal: what `flush` has returned for survives a killed process and a power cut.

    Parameters
    ----------
    path : path
        Of the index; the journal is ``path + ".journal"``.
    create : Index, optional
        Saved there if there is no file yet; trained, if its kind must be.
    device : Device or str, optional

    Attributes
    ----------
    index : Index
        For searching. What is changed here directly is not in the journal.
    dropped : int
        Bytes at the journal's end that were cut off when it was opened.

    Raises
    ------
    WriteError
        If another process has it open.
    FileFormatError
        If a file is foreign or damaged; both stay as they are.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from grilly_ext_memory.index.flat import IndexFlat
    >>> from grilly_ext_memory.index.journal import StoredIndex
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "notes.index"
    >>> with StoredIndex(path, create=IndexFlat(2)) as stored:
    ...     ids = stored.add([[1.0, 2.0]])
    ...     stored.flush()
    >>> with StoredIndex(path) as stored:
    ...     stored.search([1.0, 2.0], k=1).ids.tolist()
    [[0]]
    """

    def __init__(
        self, path: str | os.PathLike[str], create: Index | None = None, *, device: Any = None
    ) -> None:
        self.path = Path(path)
        self._journal = self.path.with_name(self.path.name + ".journal")
        self._lock = _locked(self.path.with_name(self.path.name + ".lock"))
        try:
            if not self.path.exists():
                if create is None:
                    raise FileNotFoundError(f"{self.path}: no such index; pass create=Index to make one.")
                if not create.is_trained:
                    raise RuntimeError(
                        f"{self.path}: create must be trained first, since a journal holds vectors only."
                    )
                save_index(create, self.path)
            self.index = load_index(self.path, device=device)
            self._token, self.dropped = self._replay()
            self._file = self._journal.open("ab")
        except BaseException:
            self._lock.close()
            raise

    def _replay(self) -> tuple[str, int]:
        metadata = header_of(self.path)[0]["__metadata__"]
        token, previous = metadata["token"], metadata["previous"]
        data = self._journal.read_bytes() if self._journal.exists() else b""
        if not data:
            self._begin(token)
            return token, 0
        # A journal begins whole, since it is begun atomically: a shorter file is not one.
        magic, base = _START.unpack_from(data) if len(data) >= _START.size else (b"", b"")
        if magic != _MAGIC:
            raise FileFormatError(f"{self._journal}: not a journal of this version; it was left as it is.")
        if base.decode("ascii", "replace") != token:
            if base.decode("ascii", "replace") != previous:
                raise FileFormatError(
                    f"{self._journal} belongs to another file than {self.path}; move one of them away."
                )
            self._begin(
                token
            )  # its records are in the index: a process died between saving that and starting anew
            return token, 0
        end = _START.size
        for kind, ids, rows, following in _records(data, self.index._row, self._journal):
            if kind == _ADD:
                self.index.add_with_ids(rows, ids)
            elif kind == _REMOVE:
                self.index.remove_ids(ids)
            end = following
        if end < len(data):
            with self._journal.open("r+b") as file:
                file.truncate(end)
        return token, len(data) - end

    def _begin(self, token: str) -> None:
        with atomic_write(self._journal) as file:
            file.write(_START.pack(_MAGIC, token.encode()))

    def add(self, x: Any) -> Ids:
        """Add vectors and return their ids; see `Index.add`."""
        self._open()
        return self._logged(self.index._checked(x, "add"), self.index.add(x))

    def add_with_ids(self, x: Any, ids: Any) -> Ids:
        """Add vectors under ids of yours; see `Index.add_with_ids`."""
        self._open()
        return self._logged(self.index._checked(x, "add_with_ids"), self.index.add_with_ids(x, ids))

    def _logged(self, rows: Any, ids: Ids) -> Ids:
        self._write(_ADD, ids, self.index._given_form(rows))
        return ids

    def remove_ids(self, ids: Any) -> int:
        """Remove vectors; returns how many there were."""
        self._open()
        gone = self.index.remove_ids(ids)
        self._write(_REMOVE, np.asarray(ids, np.int64).reshape(-1))
        return gone

    def _open(self) -> None:
        if self._file.closed:
            raise WriteError(f"{self.path}: the index is closed.")

    def _write(self, kind: int, ids: Ids, rows: NDArray[Any] | None = None) -> None:
        self._open()
        payload = ids.tobytes() + (b"" if rows is None else rows.tobytes())
        place = self._file.tell()
        head = _RECORD.pack(_WORD, kind, len(ids), place, 0)
        self._file.write(
            _RECORD.pack(_WORD, kind, len(ids), place, zlib.crc32(payload, zlib.crc32(head))) + payload
        )

    def flush(self) -> None:
        """Return when everything added so far is on the disk."""
        self._write(_MARK, np.zeros(0, np.int64))
        self._file.flush()
        os.fsync(self._file.fileno())

    def search(self, queries: Any, k: int, *, allow: Allowed = None, **options: Any) -> Hits:
        """Return the k nearest vectors of each query; see `Index.search`."""
        return self.index.search(queries, k, allow=allow, **options)

    def compact(self) -> None:
        """Save the index with all that is in the journal, and start a new journal."""
        self.flush()
        self._token = save_index(self.index, self.path, previous=self._token)
        self._file.close()
        self._begin(self._token)
        self._file = self._journal.open("ab")

    def close(self) -> None:
        """Flush, and let other processes open it."""
        if not self._file.closed:
            self.flush()
            self._file.close()
        self._lock.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:  # fmt: skip
        self.close()


def _locked(path: Path) -> BinaryIO:
    file = path.open("ab")
    if fcntl is not None:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            file.close()
            raise WriteError(f"{path}: another process has this index open; close it there first.") from error
    return file


def _records(
    data: bytes, row: np.dtype[Any], path: Path
) -> Iterator[tuple[int, Ids, NDArray[Any] | None, int]]:
    """Yield kind, ids, vectors and end of each record that is whole; see the module for what follows."""
    at = _START.size
    while (record := _record(data, at, row)) is not None:
        yield record
        at = record[3]
    found = data.find(_WORD, at + 1)
    while found >= 0:
        later = _record(data, found, row)
        if later is not None and later[0] == _MARK:
            raise FileFormatError(
                f"{path}: the record at byte {at} is damaged, and flushed ones follow at {found}; the file was left as "
                "it is. Restore it from a copy, or cut it at that byte to lose what follows."
            )
        found = data.find(_WORD, found + 1)


def _record(data: bytes, at: int, row: np.dtype[Any]) -> tuple[int, Ids, NDArray[Any] | None, int] | None:
    if at + _RECORD.size > len(data):
        return None
    word, kind, count, place, checksum = _RECORD.unpack_from(data, at)
    start = at + _RECORD.size
    width = {_ADD: 8 + row.itemsize, _REMOVE: 8, _MARK: 0}.get(kind)
    if word != _WORD or place != at or width is None or start + count * width > len(data):
        return None
    payload = memoryview(data)[start : start + count * width]
    head = _RECORD.pack(_WORD, kind, count, place, 0)
    if zlib.crc32(payload, zlib.crc32(head)) != checksum:
        return None
    ids = np.frombuffer(payload[: 8 * count] if kind != _MARK else b"", np.int64)
    rows = np.frombuffer(payload[8 * count :], row.base).reshape(count, *row.shape) if kind == _ADD else None
    return kind, ids, rows, start + count * width
