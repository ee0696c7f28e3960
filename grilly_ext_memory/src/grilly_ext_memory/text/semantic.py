"""Search by meaning, or as near to it as the encoder comes: texts in a document store, their vectors in an index."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import numpy as np

from grilly_core.atomic import atomic_write
from grilly_core.errors import FileFormatError
from grilly_ext_memory.index.flat import IndexFlat
from grilly_ext_memory.index.journal import StoredIndex
from grilly_ext_memory.text.encoders import Encoder, HashingEncoder, encode, encoder_from
from grilly_ext_memory.text.passages import snippet
from grilly_ext_memory.text.store import Document, DocumentStore

__all__ = ["Result", "SemanticSearch"]

_FORMAT: Final = "grilly-search 1"
_BATCH: Final = 256


@dataclass(frozen=True)
class Result:
    """One answer.

    Attributes
    ----------
    score : float
        Cosine of query and document, 1 for the same direction.
    document : Document
    snippet : str
        The part of the text with the most of the query's words.
    """

    score: float
    document: Document
    snippet: str


class SemanticSearch:
    """A folder with documents (SQLite), an index of their vectors, and the name of the encoder.

    Documents are written before their vectors. When a folder is opened, documents without a vector are encoded again
    and vectors without a document are removed, so a process that was killed leaves nothing half there.

    Parameters
    ----------
    folder : path
        Made if it is not there.
    encoder : callable or str, optional
        ``(list of str) -> array (N, D)``, or ``"module:attribute"`` of one, or ``"hashing"``, the default for a new
        folder: a `HashingEncoder`, which compares spelling, not meaning. A folder remembers a `HashingEncoder`; others
        must be given each time, as no file says which code to run.
    device : Device or str, optional
        Where searches run.

    Raises
    ------
    ValueError
        If the encoder is another one than that of the folder's vectors, or makes other widths.
    FileFormatError
        If the folder holds something else.

    Examples
    --------
    >>> import tempfile
    >>> from grilly_ext_memory.text.semantic import SemanticSearch
    >>> with SemanticSearch(tempfile.mkdtemp()) as search:
    ...     ids = search.add(["Lists are sorted with sort.", "Sockets connect two processes."], "notes")
    ...     search.query("how to sort a list")[0].document.text
    'Lists are sorted with sort.'
    """

    def __init__(
        self, folder: str | Path, encoder: Encoder | str | None = None, *, device: Any = None
    ) -> None:
        self.folder = Path(folder)
        if self.folder.exists() and not self.folder.is_dir():
            raise FileFormatError(f"{self.folder} is a file; expected a folder, or a name for a new one.")
        self.encoder, spec = self._encoder(encoder)
        self.dim = encode(self.encoder, ["width"]).shape[1]
        self.folder.mkdir(parents=True, exist_ok=True)
        self.store = DocumentStore(self.folder / "documents.sqlite")
        try:
            self._vectors = StoredIndex(
                self.folder / "vectors.index", create=IndexFlat(self.dim, "cosine"), device=device
            )
        except BaseException:
            self.store.close()
            raise
        try:
            self._reconcile()
            if spec is not None:  # at last: a folder with something else in it is not marked as one of ours
                with atomic_write(self.folder / "search.json") as file:
                    file.write(json.dumps({"format": _FORMAT, "encoder": spec, "dim": self.dim}).encode())
        except BaseException:
            self.close()
            raise

    def _encoder(self, given: Encoder | str | None) -> tuple[Encoder, Any]:
        """Return the encoder, and its spec if the folder is new."""
        path = self.folder / "search.json"
        if path.exists():
            try:
                kept = json.loads(path.read_text())
                known = kept["format"] == _FORMAT
            except (ValueError, KeyError, TypeError) as error:
                raise FileFormatError(f"{path}: not a search folder of grilly ({error}).") from error
            if not known:
                raise FileFormatError(f"{path}: expected {_FORMAT}; received {kept['format']!r}.")
            made = self._remembered(kept.get("encoder")) if given is None else given
            made = encoder_from(made) if isinstance(made, str) else made
            if (width := encode(made, ["width"]).shape[1]) != kept["dim"]:
                raise ValueError(
                    f"{self.folder} holds vectors of width {kept['dim']}; the encoder makes {width}."
                )
            if given is not None and (spec := _spec(given)) not in (None, kept["encoder"]):
                raise ValueError(
                    f"{self.folder} holds vectors of another encoder, {kept['encoder']!r}; received {spec!r}."
                )
            return made, None
        given = "hashing" if given is None else given
        made = encoder_from(given) if isinstance(given, str) else given
        return made, _spec(given) or {"encoder": "callable"}

    def _remembered(self, spec: Any) -> Encoder:
        """Return the encoder that a folder describes. A name in a file is never imported: it may be anybody's."""
        if isinstance(spec, dict):
            return encoder_from(spec)
        raise ValueError(
            f"{self.folder} holds vectors of the encoder {spec!r}; pass it again: encoder= (in the shell: --encoder)."
        )

    def _reconcile(self) -> None:
        if self._vectors.index.d != self.dim:
            raise ValueError(
                f"{self.folder} holds vectors of width {self._vectors.index.d}; the encoder makes {self.dim}."
            )
        documents, vectors = np.array(self.store.ids(), np.int64), self._vectors.index.ids
        if len(lost := np.setdiff1d(vectors, documents)):
            self._vectors.remove_ids(lost)
        for at in range(0, len(missing := np.setdiff1d(documents, vectors)), _BATCH):
            part = missing[at : at + _BATCH]
            self._vectors.add_with_ids(
                encode(self.encoder, [self.store.get(i).text for i in part], self.dim), part
            )
        if len(lost) or len(missing):
            self._vectors.flush()

    def add(
        self, texts: Sequence[str], source: str = "", metadata: Sequence[Mapping[str, Any]] | None = None
    ) -> list[int]:  # fmt: skip
        """Add documents; when this returns they are on the disk.

        Parameters
        ----------
        texts : sequence of str
        source : str
            Where they come from, such as a path.
        metadata : sequence of mapping, optional
            One for each text; see `DocumentStore.add`.

        Returns
        -------
        list of int
            Their ids.
        """
        vectors = encode(self.encoder, texts, self.dim) if texts else np.zeros((0, self.dim), np.float32)
        ids = self.store.add(texts, source, metadata)
        self._vectors.add_with_ids(vectors, np.array(ids, np.int64))
        self._vectors.flush()
        return ids

    def remove(self, source: str) -> int:
        """Remove all documents of a source; returns how many there were."""
        ids = self.store.ids(source=source)
        gone = self.store.remove(ids)
        self._vectors.remove_ids(np.array(ids, np.int64))
        self._vectors.flush()
        return gone

    def query(
        self, text: str, k: int = 5, *, where: Mapping[str, Any] | None = None, source: str | None = None
    ) -> list[Result]:  # fmt: skip
        """Return the documents nearest to a text, best first.

        Parameters
        ----------
        text : str
        k : int
        where : mapping, optional
            Metadata that documents must have; see `DocumentStore.ids`.
        source : str, optional
            Only documents from there.
        """
        allow = None if where is None and source is None else self.store.ids(where, source)
        found = self._vectors.search(encode(self.encoder, [text], self.dim), k, allow=allow)
        return [
            Result(1.0 - float(distance), document := self.store.get(int(i)), snippet(document.text, text))
            for distance, i in zip(found.distances[0], found.ids[0], strict=True)
            if i >= 0
        ]

    def __len__(self) -> int:
        return len(self.store)

    def compact(self) -> None:
        """Save the index anew, and empty its journal."""
        self._vectors.compact()

    def close(self) -> None:
        """Close the files."""
        self._vectors.close()
        self.store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:  # fmt: skip
        self.close()


def _spec(encoder: Encoder | str) -> Any:
    """Return what makes an encoder again, None for a callable that does not say."""
    if encoder == "hashing":
        return HashingEncoder().spec
    return encoder if isinstance(encoder, str) else getattr(encoder, "spec", None)
