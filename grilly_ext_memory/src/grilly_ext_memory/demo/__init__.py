"""``grilly demo search``: digits by their pixels, Python's own help by words, and a process killed while it adds."""

from __future__ import annotations

import argparse
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import numpy as np

import grilly_core as grilly
from grilly_ext_memory.index.clustering import kmeans
from grilly_ext_memory.index.flat import IndexFlat
from grilly_ext_memory.index.inverted import IndexIVFFlat
from grilly_ext_memory.index.journal import StoredIndex
from grilly_ext_memory.index.tuning import plot_sweep, sweep_nprobe
from grilly_ext_memory.text.passages import passages
from grilly_ext_memory.text.semantic import SemanticSearch

__all__ = ["main"]

_QUESTIONS: Final = (
    "sort a list in place",
    "open a file for reading",
    "wait for a thread to finish",
    "round a number",
)
_MODULES: Final = (
    "argparse", "collections", "csv", "dataclasses", "datetime", "functools", "heapq", "itertools", "json", "pathlib",
    "random", "re", "shutil", "socket", "sqlite3", "statistics", "string", "subprocess", "tempfile", "threading",
)  # fmt: skip
_WRITER: Final = """
import sys
import numpy as np
from grilly_ext_memory.index.flat import IndexFlat
from grilly_ext_memory.index.journal import StoredIndex
rows = np.random.default_rng(0).random((200000, 64), np.float32)
stored = StoredIndex(sys.argv[1], create=IndexFlat(64))
for at in range(0, len(rows), 100):
    stored.add(rows[at:at + 100])
    stored.flush()
    print(at + 100, flush=True)
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the demo; 1 if something was not found or was lost."""
    parser = argparse.ArgumentParser(prog="grilly demo search", description=__doc__)
    parser.add_argument("--device", default="cpu", help="where searches run")
    parser.add_argument("--out", type=Path, default=Path("out/search"), help="folder of the results")
    chosen = parser.parse_args(arguments)
    chosen.out.mkdir(parents=True, exist_ok=True)
    grilly.set_default_device(chosen.device)
    fine = digits(chosen.out)
    fine &= python_help(chosen.out)
    fine &= survives(chosen.out)
    print(f"pictures and indexes in {chosen.out}")
    return 0 if fine else 1


def digits(out: Path) -> bool:
    """Classify digits by their nearest pixels, and draw recall against lists looked at."""
    try:
        from sklearn import datasets
    except ImportError as error:
        raise SystemExit(
            "This demo needs scikit-learn and matplotlib: `pip install './grilly_ext_memory[demo]'`."
        ) from error
    found = datasets.load_digits()
    x, labels = found.data.astype(np.float32), found.target
    known, asked = np.arange(len(x)) % 4 > 0, np.arange(len(x)) % 4 == 0
    index = IndexFlat(64)
    index.add(x[known])
    near = labels[known][index.search(x[asked], 5).ids]
    votes = np.array([np.bincount(row, minlength=10).argmax() for row in near])
    accuracy = float((votes == labels[asked]).mean())
    print(f"digits: the 5 nearest of {index.ntotal} images name {accuracy:.1%} of {asked.sum()} others")
    inverted = IndexIVFFlat(64, 32).train(x[known])
    inverted.add(x[known])
    print(f"  {inverted.clusters}")
    sweep = sweep_nprobe(inverted, x[asked], exact=index)
    for row in sweep:
        print(f"  nprobe {row.nprobe:3d}  recall@10 {row.recall:.3f}  {1e3 * row.ms:7.1f} µs a query")
    print(f"  drawn: {plot_sweep(sweep, out / 'recall.png', 'digits, IVF32,Flat')}")
    print(f"  {kmeans(x, 10, nredo=3)}")
    return accuracy > 0.95 and sweep[-1].recall == 1.0


def python_help(out: Path) -> bool:
    """Answer questions about Python from its help topics and docstrings."""
    with SemanticSearch(out / "help") as search:
        if not len(search):
            for source, text in _help_texts():
                search.add(list(passages(text)), source)
            search.compact()
        print(
            f"Python's help: {len(search)} passages, {len(search.store.sources())} sources; by spelling, not meaning"
        )
        answered = True
        for question in _QUESTIONS:
            best = search.query(question, 2)
            answered &= len(best) == 2
            print(f"  {question}?")
            for result in best:
                print(f"    {result.score:.3f} {result.document.source}: {result.snippet[:100]}")
    return answered


def _help_texts() -> Iterator[tuple[str, str]]:
    from pydoc_data.topics import topics

    yield from ((f"topic {name}", text) for name, text in sorted(topics.items()))
    for name in _MODULES:
        module = __import__(name)
        for public in sorted(vars(module)):
            text = getattr(vars(module)[public], "__doc__", None)
            if not public.startswith("_") and isinstance(text, str) and len(text) > 40:
                yield f"{name}.{public}", text


def survives(out: Path) -> bool:
    """Kill a process while it adds, and count what is left."""
    path = out / "killed.index"
    for old in (path, path.with_name(path.name + ".journal")):
        old.unlink(missing_ok=True)
    writer = subprocess.Popen([sys.executable, "-c", _WRITER, str(path)], stdout=subprocess.PIPE, text=True)
    assert writer.stdout is not None
    with writer.stdout as lines:
        promised = [int(lines.readline()) for _ in range(20)][-1]
        writer.send_signal(getattr(signal, "SIGKILL", signal.SIGTERM))
        writer.wait()
        promised = max([promised, *(int(line) for line in lines if line.endswith("\n"))])
    with StoredIndex(path) as stored:
        count = stored.index.ntotal
        rows = np.random.default_rng(0).random((200000, 64), np.float32)[:count]
        same = bool(np.array_equal(stored.index.reconstruct(np.arange(count)), rows))
    print(
        f"killed while adding: {promised} rows were flushed, {count} are there, {'all' if same else 'NOT all'} as added"
    )
    return same and count >= promised
