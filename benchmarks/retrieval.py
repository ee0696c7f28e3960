"""Search against FAISS on the CPU, in one run, two threads: ``python benchmarks/retrieval.py [--quick]``.

Rows are standard normal, k = 10. The ratio is FAISS's time over ours. IVF is compared with the same centroids, lists
and probes, so recall is equal. The last line is what a search of 1M x 128 rows takes in memory beyond the rows,
measured in a process of its own.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

sys.path[0] = str(Path(__file__).parents[1])
for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(name, "2")
os.environ["GRILLY_FALLBACK"] = "error"

import faiss
import numpy as np

import grilly_core as grilly
from benchmarks.timing import Row, compare, table
from grilly_ext_memory.ops.distances import list_search, search

K, WIDTH, LISTS, PROBES = 10, 384, 256, 16


def rows(n: int, d: int, seed: int) -> Any:
    """Return standard normal rows."""
    return np.random.default_rng(seed).standard_normal((n, d), np.float32)


def flat(data: Any, counts: tuple[tuple[int, float], ...], metric: str = "sqeuclidean") -> list[Row]:
    """Flat search of some numbers of queries, each with its mark."""
    peer = (faiss.IndexFlatIP if metric == "ip" else faiss.IndexFlatL2)(data.shape[1])
    peer.add(data)
    placed, made = grilly.asarray(data), []
    for count, mark in counts:
        queries = rows(count, data.shape[1], 1)
        given = grilly.asarray(queries)
        found = search(given, placed, k=K, metric=metric)[1].numpy()
        same = np.mean(found == peer.search(queries, K)[1])
        assert same > 0.99, f"only {same:.3f} of the positions are FAISS's"
        made.append(
            compare(
                f"flat {metric} {len(data)}x{data.shape[1]}, {count} queries",
                lambda given=given: search(given, placed, k=K, metric=metric),
                lambda queries=queries: peer.search(queries, K),
                mark,
                rounds=5,
            )
        )
    return made


def inverted(data: Any, counts: tuple[int, ...]) -> list[Row]:
    """Search in lists with FAISS's own centroids and assignment."""
    d = data.shape[1]
    quantizer = faiss.IndexFlatL2(d)
    peer = faiss.IndexIVFFlat(quantizer, d, LISTS)
    peer.cp.niter = 5
    peer.train(data)
    peer.add(data)
    peer.nprobe = PROBES
    assigned = quantizer.search(data, 1)[1][:, 0]
    order = np.argsort(assigned, kind="stable")
    offsets = np.concatenate([[0], np.cumsum(np.bincount(assigned, minlength=LISTS))]).astype(np.int32)
    placed, starts = grilly.asarray(data[order]), grilly.asarray(offsets)
    centroids, made = grilly.asarray(quantizer.reconstruct_n(0, LISTS)), []

    def ours(queries: Any) -> Any:
        probes = search(queries, centroids, k=PROBES, metric="sqeuclidean")[1]
        return list_search(queries, placed, starts, probes, k=K, metric="sqeuclidean")

    for count in counts:
        queries = rows(count, d, 2)
        given = grilly.asarray(queries)
        same = np.mean(order[ours(given)[1].numpy()] == peer.search(queries, K)[1])
        assert same > 0.99, f"only {same:.3f} of the positions are FAISS's"
        made.append(
            compare(
                f"lists {len(data)}x{d}, {PROBES} of {LISTS}, {count} queries",
                lambda given=given: ours(given),
                lambda queries=queries: peer.search(queries, K),
                0.8,
                rounds=5,
            )
        )
    return made


def assignment(data: Any) -> list[Row]:
    """The step of k-means that takes the time: the nearest of 256 centroids for every row."""
    centroids = data[:: len(data) // LISTS][:LISTS].copy()
    peer = faiss.IndexFlatL2(data.shape[1])
    peer.add(centroids)
    given, placed = grilly.asarray(data), grilly.asarray(centroids)
    return [
        compare(
            f"nearest of {LISTS} centroids, {len(data)}x{data.shape[1]}",
            lambda: search(given, placed, k=1, metric="sqeuclidean"),
            lambda: peer.search(data, 1),
            0.8,
            rounds=5,
        )
    ]


_MEMORY = """
import numpy as np, grilly_core as grilly
from grilly_ext_memory.ops.distances import search
def kept(what):
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) / 1024 for line in status if line.startswith(what))
small = grilly.asarray(np.ones((4096, 128), np.float32))
queries = grilly.asarray(np.random.default_rng(1).standard_normal((1024, 128), np.float32))
search(queries, small, k=10, metric="sqeuclidean")
data = np.empty((1_000_000, 128), np.float32)
for first in range(0, len(data), 10_000):
    data[first : first + 10_000] = np.random.default_rng(first).standard_normal((10_000, 128), np.float32)
data = grilly.asarray(data, copy=False)
with open("/proc/self/clear_refs", "w") as peak:  # the peak starts anew from what is held now
    peak.write("5")
before = kept("VmRSS")
search(queries, data, k=10, metric="sqeuclidean")
print(f"{kept('VmHWM') - before:.0f}")
"""


def memory() -> str:
    """Return the peak of a search of 1M x 128 rows with 1,024 queries beyond what was held before, on Linux."""
    done = subprocess.run([sys.executable, "-c", _MEMORY], capture_output=True, text=True, check=True)
    return f"search of 1000000x128, 1024 queries: {done.stdout.strip()} MB beyond the rows (mark: below 200)"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the rows, no memory")
    quick = parser.parse_args().quick
    faiss.omp_set_num_threads(2)
    data = rows(10_000 if quick else 100_000, WIDTH, 0)
    made = flat(data, ((1, 1.0), (64, 3.0), (1024, 1.1)))
    made += flat(data, ((64, 3.0),), "ip")
    made += inverted(data, (1, 1024))
    made += assignment(data)
    print(table(made, "FAISS"))
    if not quick:
        print(memory())


if __name__ == "__main__":
    main()
