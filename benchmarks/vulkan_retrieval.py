"""Search on Vulkan against PyTorch's product and top-k on CUDA: ``python benchmarks/vulkan_retrieval.py``.

Rows are standard normal, k = 10, scores are inner products (PyTorch's product and top-k decide by float32, ours by
float64). Lists are 1,024 of equal length, of which each query probes 16. Times are of one call, in microseconds, the
best of three means after warming up. Without CUDA only our own times show. ``--rows 20000 --width 64`` suits a software
driver; ``--device cpu`` measures nothing but the script.
"""

from __future__ import annotations

import argparse
import itertools
import sys
from pathlib import Path
from typing import Any

# This file's folder would hide the package `vulkan`.
sys.path[0] = str(Path(__file__).parents[1])

import numpy as np

import grilly
from benchmarks.timing import best
from grilly_core.device import open_context
from grilly_ext_memory.kernels import search_vulkan
from grilly_ext_memory.ops.distances import list_search, search

K = 10
PROBES = 16


def cuda() -> Any:
    """Return torch where it has CUDA, else None."""
    try:
        import torch
    except ImportError:
        return None
    return torch if torch.cuda.is_available() else None


def show(what: str, mine: float, peer: float | None) -> None:
    """Print a line."""
    beside = "" if peer is None else f"  PyTorch {peer:9.0f}  ratio {peer / mine:.2f}"
    print(f"{what:44} {mine:9.0f}{beside}", flush=True)


def flat(device: str, rows: Any, counts: list[int], metric: str) -> None:
    """Search of all rows."""
    torch, wait = cuda(), open_context(device).synchronize
    placed = grilly.asarray(rows, device=device)
    peer = None if torch is None else torch.from_numpy(rows).cuda()
    for count in counts:
        queries = np.random.default_rng(1).standard_normal((count, rows.shape[1]), np.float32)
        given, other = grilly.asarray(queries, device=device), None
        mine = best(lambda given=given: search(given, placed, k=K, metric=metric), wait)
        if torch is not None and metric == "ip":
            asked = torch.from_numpy(queries).cuda()
            other = best(lambda asked=asked: torch.topk(asked @ peer.T, K), torch.cuda.synchronize)
            found = search(given, placed, k=K, metric=metric)[1].numpy()
            same = float(np.mean(found == torch.topk(asked @ peer.T, K)[1].cpu().numpy()))
            assert same > 0.999, f"{count} queries: only {same:.4f} of the positions are PyTorch's"
        show(f"{metric} of {len(rows)}x{rows.shape[1]}, {count} queries", mine, other)


def launches(device: str, rows: Any, counts: list[int]) -> None:
    """Print what the launches of a search take on the device, the least of five calls."""
    from grilly_backend_vulkan.relocatable import Bound
    from grilly_backend_vulkan.stream import Stream

    runtime = open_context(device).runtime
    whole, bound, timer, seen = Stream.launch, Bound.__call__, runtime.timer(), []

    def noting(self: Any, pipeline: Any, *given: Any) -> None:
        whole(self, pipeline, *given)
        seen.append((pipeline.name, timer.mark()))

    placed = grilly.asarray(rows, device=device)
    Stream.launch = noting
    Bound.__call__ = lambda self, stream, outs, ins, attrs: self._fn(stream, outs, ins, attrs)
    try:
        for count in counts:
            queries = grilly.asarray(rows[:count] + 1, device=device)
            calls = []
            for _ in range(5):
                seen.clear()
                first = timer.mark()
                search(queries, placed, k=K, metric="ip")
                at, marks = timer.read(), [first, *(mark for _, mark in seen)]
                calls.append([at[b] - at[a] for a, b in itertools.pairwise(marks)])
            print(f"{count} queries")
            for name in dict.fromkeys(name for name, _ in seen):
                least = np.min(
                    [[t for t, x in zip(c, seen, strict=True) if x[0] == name] for c in calls], axis=0
                )
                print(f"  {len(least):4} x {name:30} {least.sum() * 1e6:9.1f} µs", flush=True)
    finally:
        Stream.launch, Bound.__call__ = whole, bound


def inverted(device: str, rows: Any, counts: list[int]) -> None:
    """Search of lists."""
    wait, lists = open_context(device).synchronize, min(1024, len(rows) // PROBES)
    placed = grilly.asarray(rows, device=device)
    offsets = grilly.asarray(np.linspace(0, len(rows), lists + 1).astype(np.int32), device=device)
    rng = np.random.default_rng(2)
    for count in counts:
        probes = np.stack([rng.permutation(lists)[:PROBES] for _ in range(count)]).astype(np.int32)
        queries = rng.standard_normal((count, rows.shape[1]), np.float32)
        given, where = (grilly.asarray(x, device=device) for x in (queries, probes))
        mine = best(
            lambda given=given, where=where: list_search(
                given, placed, offsets, where, k=K, metric="sqeuclidean"
            ),
            wait,
        )
        read = count * PROBES * len(rows) // lists * rows.shape[1] * 4 / mine * 1e-3
        show(f"lists, {PROBES} of {lists}, {count} queries, {read:.0f} GB/s", mine, None)


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="vulkan:0")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--width", type=int, default=384)
    parser.add_argument("--queries", type=int, nargs="+", default=[1, 8, 64, 1024])
    parser.add_argument("--launches", action="store_true")
    parser.add_argument("--exact", action="store_true")
    asked = parser.parse_args()
    if asked.exact:
        search_vulkan._LITTLE = 1 << 60
    rows = np.random.default_rng(0).standard_normal((asked.rows, asked.width), np.float32)
    print(f"k = {K}; times in µs, ratio of PyTorch's to ours")
    with grilly.fallback("error"):
        if asked.launches:
            launches(asked.device, rows, asked.queries)
            return
        for metric in ("ip", "sqeuclidean"):
            flat(asked.device, rows, asked.queries, metric)
        inverted(asked.device, rows, asked.queries)


if __name__ == "__main__":
    main()
