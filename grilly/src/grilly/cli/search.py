"""``grilly search build`` and ``grilly search query``: text files in, ranked passages out."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import typer
from rich.console import Console
from rich.progress import track
from rich.table import Table
from rich.text import Text

from grilly import retrieval
from grilly_core.errors import GrillyError

__all__ = ["build", "query"]

_LARGEST: Final = 4 << 20  # bytes; longer files are no texts that people wrote
_NAMED: Final = 5


def build(folder: Path, index: Path, pattern: str, encoder: str | None, size: int) -> int:
    """Make the index hold the passages of a folder's text files; what it held before is replaced or removed."""
    if not folder.is_dir():
        return _failed(f"{folder} is not a folder.")
    try:
        paths = _candidates(folder, pattern, index)
        if all(_read(path) is None for path in paths):  # reads up to the first text
            return _failed(f"no text files match {pattern!r} in {folder}.")
        with retrieval.SemanticSearch(index, _importable(encoder)) as search:
            _update(search, folder, paths, size, index)
    except (GrillyError, ValueError, OSError) as error:
        return _failed(str(error))
    return 0


def query(text: str, index: Path, k: int, source: str | None, encoder: str | None) -> int:
    """Print the passages nearest to a text."""
    if not text.strip():
        return _failed("the text to look for is empty.")
    if not (index / "search.json").exists():
        return _failed(f"{index} holds no index; make one with `grilly search build DIR`.")
    try:
        with retrieval.SemanticSearch(index, _importable(encoder)) as search:
            found = search.query(text, k, source=source)
    except (GrillyError, ValueError, OSError) as error:
        return _failed(str(error))
    console = _console()
    console.print(_table(found) if found else f"nothing found{f' in {source}' if source else ''}.")
    return 0


def _failed(message: str) -> int:
    typer.echo(f"grilly search: {message}", err=True)
    return 1


def _console() -> Console:
    """Return a console that prints texts as they are: brackets and colons of files mean nothing to it."""
    return Console(markup=False, emoji=False, highlight=False, soft_wrap=True)


def _importable(encoder: str | None) -> str | None:
    """Let a module of the current folder be named."""
    if encoder is not None and os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    return encoder


def _candidates(folder: Path, pattern: str, index: Path) -> list[Path]:
    """Return the files that match, without hidden ones and those of the index itself."""
    try:
        found = sorted(path for path in folder.rglob(pattern) if path.is_file())
    except (NotImplementedError, ValueError) as error:
        raise ValueError(
            f"pattern: expected one for names below the folder, such as *.md; received {pattern!r}."
        ) from error
    own = index.resolve()
    return [
        path
        for path in found
        if not any(part.startswith(".") for part in path.relative_to(folder).parts)
        and own not in path.resolve().parents
    ]


def _read(path: Path) -> str | None:
    """Return the text of a file, None if it is none."""
    try:
        text = path.read_text("utf-8") if path.stat().st_size <= _LARGEST else "\0"
    except (UnicodeDecodeError, OSError):
        return None
    return None if "\0" in text else text


def _update(search: Any, folder: Path, paths: Sequence[Path], size: int, index: Path) -> None:
    console = _console()
    before, now, left_out = set(search.store.sources()), set(), []
    for path in track(paths, "indexing", console=console, disable=not console.is_terminal):
        source = path.relative_to(folder).as_posix()
        if (text := _read(path)) is None:
            left_out.append(source)
            continue
        now.add(source)
        if source in before:
            search.remove(source)
        if parts := list(retrieval.passages(text, size)):
            search.add(parts, source, [{"part": i} for i in range(len(parts))])
    for source in (gone := before - now):
        search.remove(source)
    search.compact()
    console.print(f"{_counted(len(search), 'passage')} of {_counted(len(now), 'file')} in {index}")
    if gone:
        console.print(
            f"forgotten: {_counted(len(gone), 'file')} that {'is' if len(gone) == 1 else 'are'} gone"
        )
    if left_out:
        names = ", ".join(left_out[:_NAMED]) + (", …" if len(left_out) > _NAMED else "")
        console.print(
            f"left out: {_counted(len(left_out), 'file')} that cannot be read, are no UTF-8 text, or exceed "
            f"{_LARGEST >> 20} MiB: {names}"
        )
    console.print(f"encoder: {_name(search.encoder)}")


def _counted(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def _name(encoder: Any) -> str:
    spec = getattr(encoder, "spec", None)
    if spec is not None:
        return ", ".join(f"{k} {json.dumps(v)}" if k != "encoder" else str(v) for k, v in spec.items())
    return str(getattr(encoder, "__qualname__", encoder))


def _table(results: Sequence[Any]) -> Table:
    table = Table("score", "source", "passage", box=None)
    for found in results:
        table.add_row(f"{found.score:.3f}", Text(found.document.source), Text(found.snippet))
    return table
