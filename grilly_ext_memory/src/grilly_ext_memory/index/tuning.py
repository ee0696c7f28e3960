"""How much an index finds, and at which cost."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from grilly_ext_memory.index.arguments import as_count
from grilly_ext_memory.index.flat import IndexFlat
from grilly_ext_memory.index.inverted import IndexIVF

__all__ = ["Setting", "plot_sweep", "recall_at_k", "sweep_nprobe"]


@dataclass(frozen=True)
class Setting:
    """One row of a sweep.

    Attributes
    ----------
    nprobe : int
    recall : float
        Share of the true k nearest that were found.
    ms : float
        Milliseconds a query, the least of the repeats.
    """

    nprobe: int
    recall: float
    ms: float


def recall_at_k(found: Any, truth: Any) -> float:
    """Return the share of the true nearest ids that were found.

    Parameters
    ----------
    found, truth : array_like of int, (Q, k)
        Ids; -1 counts as nothing.

    Examples
    --------
    >>> from grilly_ext_memory.index.tuning import recall_at_k
    >>> recall_at_k([[1, 2, 9]], [[1, 2, 3]])
    0.6666666666666666
    """
    found, truth = np.asarray(found), np.asarray(truth)
    if found.ndim != 2 or truth.ndim != 2 or len(found) != len(truth):
        raise ValueError(
            f"recall_at_k: expected ids (Q, k) of the same queries; received {found.shape}, {truth.shape}."
        )
    wanted = int((truth >= 0).sum())
    hits = sum(len(np.intersect1d(a[a >= 0], b[b >= 0])) for a, b in zip(found, truth, strict=True))
    return hits / wanted if wanted else 1.0


def sweep_nprobe(
    index: IndexIVF, queries: Any, k: int = 10, *, exact: IndexFlat, probes: Sequence[int] | None = None,
    repeats: int = 3,
) -> list[Setting]:  # fmt: skip
    """Return recall and time for rising numbers of lists looked at.

    Parameters
    ----------
    index : IndexIVF
    queries : array_like, (Q, d)
    k : int
    exact : IndexFlat
        The same vectors under the same ids.
    probes : sequence of int, optional
        Powers of two up to `nlist` without it.
    repeats : int
        Searches for each time.

    Returns
    -------
    list of Setting
        Lists looked at, recall, and milliseconds of a query.

    Examples
    --------
    >>> import numpy as np
    >>> from grilly_ext_memory.index.flat import IndexFlat
    >>> from grilly_ext_memory.index.inverted import IndexIVFFlat
    >>> from grilly_ext_memory.index.tuning import sweep_nprobe
    >>> rows = np.random.default_rng(0).standard_normal((400, 8)).astype(np.float32)
    >>> exact, lists = IndexFlat(8), IndexIVFFlat(8, 4)
    >>> trained = lists.train(rows)
    >>> ids = exact.add(rows), lists.add(rows)
    >>> [(s.nprobe, s.recall > 0.3) for s in sweep_nprobe(lists, rows[:20], exact=exact)]
    [(1, True), (2, True), (4, True)]
    """
    k, repeats = as_count(k, "sweep_nprobe"), as_count(repeats, "sweep_nprobe", "repeats")
    truth = exact.search(queries, k).ids
    chosen = probes or sorted({*(2**i for i in range(index.nlist.bit_length())), index.nlist})
    made = []
    for count in chosen:
        times = []
        for _ in range(repeats):
            start = time.perf_counter()
            found = index.search(queries, k, nprobe=count)
            times.append(time.perf_counter() - start)
        made.append(Setting(count, recall_at_k(found.ids, truth), 1e3 * min(times) / len(found.ids)))
    return made


def plot_sweep(settings: Sequence[Setting], path: str | Path, title: str = "") -> Path:
    """Draw recall against lists looked at, with the time of a query; needs matplotlib (the extra ``plot``).

    Parameters
    ----------
    settings : sequence of Setting
    path : path
        Of the picture; its ending says the format.
    title : str
    """
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError(
            "plot_sweep needs matplotlib: install the extra `plot` of grilly-ext-memory."
        ) from error
    figure = Figure(figsize=(6, 4), layout="constrained")
    left = figure.subplots()
    left.set(xscale="log", xlabel="lists looked at (nprobe)", ylabel="recall", ylim=(0, 1.02), title=title)
    left.plot([s.nprobe for s in settings], [s.recall for s in settings], "o-", label="recall")
    right = left.twinx()
    right.set_ylabel("ms a query")
    right.plot([s.nprobe for s in settings], [s.ms for s in settings], "s--", color="tab:gray")
    left.grid(visible=True, alpha=0.3)
    figure.savefig(path, dpi=150)
    return Path(path)
