"""Documents in SQLite: texts, where they came from, and metadata to filter by."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from grilly_core.errors import FileFormatError

__all__ = ["Document", "DocumentStore"]

_FORMAT: Final = "grilly-documents"
_VERSION: Final = 1
_SCHEMA: Final = """
CREATE TABLE info (key TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE documents (
    id INTEGER PRIMARY KEY AUTOINCREMENT, text TEXT NOT NULL, source TEXT NOT NULL, metadata TEXT NOT NULL
);
CREATE INDEX documents_source ON documents (source);
"""
_MOST: Final = 500  # variables of one statement


@dataclass(frozen=True)
class Document:
    """One passage.

    Attributes
    ----------
    id : int
        Never used twice in a store.
    text : str
    source : str
        Where it came from, such as a path.
    metadata : dict
        Strings, numbers and truth values.
    """

    id: int
    text: str
    source: str
    metadata: dict[str, Any]


class DocumentStore:
    """A file of documents.

    Parameters
    ----------
    path : path
        ``":memory:"`` for one that is gone when closed.

    Raises
    ------
    FileFormatError
        If the file is of another kind or version; it stays as it is.

    Examples
    --------
    >>> from grilly_ext_memory.text.store import DocumentStore
    >>> store = DocumentStore(":memory:")
    >>> ids = store.add(["one", "two"], "numbers", [{"n": 1}, {"n": 2}])
    >>> [store.get(i).text for i in store.ids({"n": 2})]
    ['two']
    """

    def __init__(self, path: str | Path) -> None:
        self.path = str(path)
        self._base = sqlite3.connect(self.path, isolation_level=None, check_same_thread=False)
        try:
            self._open()
        except BaseException:
            self._base.close()
            raise

    def _open(self) -> None:
        try:
            tables = {
                name for (name,) in self._base.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
            }
        except sqlite3.DatabaseError as error:
            raise FileFormatError(f"{self.path}: no file of documents ({error}).") from error
        if not tables:
            with self.transaction():
                for statement in filter(None, (part.strip() for part in _SCHEMA.split(";"))):
                    self._base.execute(statement)
                self._base.execute("INSERT INTO info VALUES ('format', ?)", (f"{_FORMAT} {_VERSION}",))
            return
        found = (
            self._base.execute("SELECT value FROM info WHERE key = 'format'").fetchone()
            if "info" in tables
            else None
        )
        if found is None or found[0] != f"{_FORMAT} {_VERSION}":
            raise FileFormatError(
                f"{self.path}: expected {_FORMAT} {_VERSION}; received {found[0] if found else 'another database'}."
            )

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All that is done inside is kept, or nothing of it."""
        if self._base.in_transaction:
            yield
            return
        self._base.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._base.execute("ROLLBACK")
            raise
        self._base.execute("COMMIT")

    def add(
        self, texts: Sequence[str], source: str = "", metadata: Sequence[Mapping[str, Any]] | None = None
    ) -> list[int]:  # fmt: skip
        """Add documents and return their ids."""
        rows = [{}] * len(texts) if metadata is None else list(metadata)
        if len(rows) != len(texts):
            raise ValueError(f"add: {len(texts)} texts and {len(rows)} metadata; expected as many.")
        checked = [_checked(row) for row in rows]
        with self.transaction():
            return [
                int(self._base.execute(
                    "INSERT INTO documents (text, source, metadata) VALUES (?, ?, ?)", (text, source, row)
                ).lastrowid or 0)
                for text, row in zip(texts, checked, strict=True)
            ]  # fmt: skip

    def get(self, id: int) -> Document:
        """Return a document.

        Raises
        ------
        KeyError
            If there is none with this id.
        """
        found = self._base.execute(
            "SELECT id, text, source, metadata FROM documents WHERE id = ?", (int(id),)
        ).fetchone()
        if found is None:
            raise KeyError(f"no document {id} in {self.path}")
        return Document(found[0], found[1], found[2], json.loads(found[3]))

    def ids(self, where: Mapping[str, Any] | None = None, source: str | None = None) -> list[int]:
        """Return the ids of all documents with these metadata and of this source, in order.

        Parameters
        ----------
        where : mapping, optional
            Name → value, or → list of values any of which will do.
        source : str, optional
        """
        clauses, values = [], []
        for name, wanted in (where or {}).items():
            options = list(wanted) if isinstance(wanted, (list, tuple, set, frozenset)) else [wanted]
            marks = ", ".join("?" * len(options))
            clauses.append(f"json_extract(metadata, ?) IN ({marks})")
            values += ["$." + json.dumps(name), *options]
        if source is not None:
            clauses.append("source = ?")
            values.append(source)
        condition = " WHERE " + " AND ".join(clauses) if clauses else ""
        return [i for (i,) in self._base.execute(f"SELECT id FROM documents{condition} ORDER BY id", values)]

    def remove(self, ids: Iterable[int]) -> int:
        """Remove documents; returns how many there were."""
        listed, gone = [int(i) for i in ids], 0
        with self.transaction():
            for start in range(0, len(listed), _MOST):
                part = listed[start : start + _MOST]
                marks = ", ".join("?" * len(part))
                gone += self._base.execute(f"DELETE FROM documents WHERE id IN ({marks})", part).rowcount
        return gone

    def sources(self) -> list[str]:
        """Return where the documents came from."""
        return [s for (s,) in self._base.execute("SELECT DISTINCT source FROM documents ORDER BY source")]

    def __len__(self) -> int:
        return int(self._base.execute("SELECT count(*) FROM documents").fetchone()[0])

    def __iter__(self) -> Iterator[Document]:
        for i, text, source, metadata in self._base.execute(
            "SELECT id, text, source, metadata FROM documents ORDER BY id"
        ):
            yield Document(i, text, source, json.loads(metadata))

    def close(self) -> None:
        """Close the file."""
        self._base.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:  # fmt: skip
        self.close()


def _checked(metadata: Mapping[str, Any]) -> str:
    for name, value in metadata.items():
        if not isinstance(name, str) or not isinstance(value, (str, int, float, bool, type(None))):
            raise ValueError(
                f"metadata: names are strings, values strings, numbers, truth values or None; received {name!r}: "
                f"{type(value).__name__}."
            )
    return json.dumps(dict(metadata), sort_keys=True)
