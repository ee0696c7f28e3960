"""``grilly search build`` and ``grilly search query``: text files in, ranked passages out."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import typer
from rich.console import Console
from rich.progress import track
from rich.table import Table

from grilly import retrieval

__all__ = ["build", "query"]

_LARGEST: Final = 4 << 20  # bytes; longer files are no texts that people wrote


def _texts(folder: Path, pattern: str) -> Iterator[tuple[Path, str]]:
    """Yield the files that are UTF-8 text."""
    for path in sorted(p for p in folder.rglob(pattern) if p.is_file() and p.stat().st_size <= _LARGEST):
        try:
            yield path, path.read_text("utf-8")
        except (UnicodeDecodeError, OSError):
            continue


def build(folder: Path, index: Path, pattern: str, encoder: str | None, size: int) -> int:
    """Index the passages of all text files; files that were there before are replaced."""
    console = Console()
    if not folder.is_dir():
        typer.echo(f"grilly search: {folder} is not a folder.", err=True)
        return 1
    files = list(_texts(folder, pattern))
    if not files:
        typer.echo(f"grilly search: no text files match {pattern!r} in {folder}.", err=True)
        return 1
    with retrieval.SemanticSearch(index, encoder) as search:
        for path, text in track(files, "indexing", console=console, disable=not console.is_terminal):
            source = str(path.relative_to(folder))
            search.remove(source)
            if parts := list(retrieval.passages(text, size)):
                search.add(parts, source, [{"part": i} for i in range(len(parts))])
        search.compact()
        console.print(f"{len(search):,} passages of {len(files):,} files in {index}")
        console.print(f"encoder: {getattr(search.encoder, 'spec', search.encoder)}")
    return 0


def query(text: str, index: Path, k: int, source: str | None, encoder: str | None) -> int:
    """Print the passages nearest to a text."""
    if not (index / "search.json").exists():
        typer.echo(
            f"grilly search: {index} holds no index; make one with `grilly search build DIR`.", err=True
        )
        return 1
    with retrieval.SemanticSearch(index, encoder) as search:
        Console().print(_table(search.query(text, k, source=source)))
    return 0


def _table(results: list[Any]) -> Table:
    table = Table("score", "source", "passage", box=None)
    for found in results:
        table.add_row(f"{found.score:.3f}", found.document.source, found.snippet)
    return table
