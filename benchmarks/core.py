"""Core against PyTorch on the CPU, in one run: ``python benchmarks/core.py``.

Two threads each. Where the environment pins OpenBLAS to an old processor (``OPENBLAS_CORETYPE``), unset it
for a fair run:
``env -u OPENBLAS_CORETYPE -u OPENBLAS_L2_SIZE python benchmarks/core.py``. The ratio is PyTorch's time over ours.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))
os.environ.setdefault("OMP_NUM_THREADS", "2")
os.environ["GRILLY_FALLBACK"] = "error"

import numpy as np
import torch

import grilly
from benchmarks.timing import Row, compare, table

Step = Callable[[], object]


def import_time() -> str:
    """Median time of ``import grilly`` in a fresh interpreter, less the interpreter's own start."""
    code = "import time; s = time.perf_counter(); import grilly; print(time.perf_counter() - s)"
    times = [
        float(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)
        for _ in range(5)
    ]
    return f"import grilly: {statistics.median(times) * 1e3:.1f} ms (mark: below 100 ms)"


def small_ops() -> list[Row]:
    """The cost of one call."""
    a, b = grilly.ones(1), grilly.ones(1)
    ta, tb = torch.ones(1), torch.ones(1)
    return [compare("add, one element, no gradient", lambda: a + b, lambda: ta + tb, 1 / 3)]


def products() -> list[Row]:
    """Matrix products: BLAS against MKL."""
    rows = []
    for n in (512, 1024, 2048):
        x = np.random.default_rng(0).standard_normal((n, n)).astype(np.float32)
        a, ta = grilly.asarray(x), torch.from_numpy(x)
        rows.append(compare(f"matmul {n}", lambda a=a: a @ a, lambda ta=ta: ta @ ta, 0.85, budget=0.2))
    return rows


def elementwise() -> list[Row]:
    """Four million elements."""
    x = np.random.default_rng(0).standard_normal((4096, 1024)).astype(np.float32)
    a, ta = grilly.asarray(x), torch.from_numpy(x)
    f, tf = grilly.functional, torch.nn.functional
    return [
        compare("GELU (erf), 4M elements", lambda: f.gelu(a), lambda: tf.gelu(ta), 0.8, budget=0.2),
        compare(
            "softmax, 4096 × 1024", lambda: f.softmax(a, -1), lambda: tf.softmax(ta, -1), 0.8, budget=0.2
        ),
    ]


def _steps(model: Any, peer: Any, x: Any, y: Any) -> tuple[Step, Step, Step]:
    """Training steps with AdamW: eager, captured, PyTorch's."""
    peer.load_state_dict({k: torch.from_numpy(v.numpy(copy=True)) for k, v in model.state_dict().items()})
    optimizer = grilly.optim.AdamW(model.parameters(), lr=1e-3)
    peer_optimizer = torch.optim.AdamW(peer.parameters(), lr=1e-3)
    gx, gy, tx, ty = grilly.asarray(x), grilly.asarray(y), torch.from_numpy(x), torch.from_numpy(y)

    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        loss = grilly.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    def peer_step() -> None:
        peer_optimizer.zero_grad()
        torch.nn.functional.cross_entropy(peer(tx), ty).backward()
        peer_optimizer.step()

    captured = grilly.capture(step, state=(model, optimizer))
    return lambda: step(gx, gy), lambda: captured(gx, gy), peer_step


def mlp() -> list[Row]:
    """The step of an MLP 784-256-10, batch 64."""
    n, t = grilly.nn, torch.nn
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((64, 784)).astype(np.float32), rng.integers(0, 10, 64)
    eager, captured, peer = _steps(
        n.Sequential(n.Linear(784, 256), n.ReLU(), n.Linear(256, 10)),
        t.Sequential(t.Linear(784, 256), t.ReLU(), t.Linear(256, 10)), x, y,
    )  # fmt: skip
    return [
        compare("MLP 784-256-10 step, b64, AdamW, eager", eager, peer, 1.0, budget=0.2),
        compare("MLP 784-256-10 step, b64, AdamW, captured", captured, peer, 1.2, budget=0.2),
    ]


def _cnn(n: Any) -> Any:
    return n.Sequential(
        n.Conv2d(1, 32, 3, padding=1), n.ReLU(), n.MaxPool2d(2), n.Conv2d(32, 64, 3, padding=1), n.ReLU(),
        n.MaxPool2d(2),
        n.Flatten(), n.Linear(256, 10),
    )  # fmt: skip


def cnn() -> list[Row]:
    """The step of the demo's network, batch 64 of 8 × 8 images."""
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((64, 1, 8, 8)).astype(np.float32), rng.integers(0, 10, 64)
    eager, captured, peer = _steps(_cnn(grilly.nn), _cnn(torch.nn), x, y)
    return [
        compare("digits CNN step, b64, AdamW, eager", eager, peer, 0.7, budget=0.2),
        compare("digits CNN step, b64, AdamW, captured", captured, peer, 0.7, budget=0.2),
    ]


def main() -> None:
    """Print the table."""
    torch.set_num_threads(2)
    start = time.perf_counter()
    print(import_time())
    rows = [*small_ops(), *products(), *elementwise(), *mlp(), *cnn()]
    print(table(rows, "PyTorch"))
    print(
        f"NumPy {np.__version__}, torch {torch.__version__}, 2 threads; {time.perf_counter() - start:.0f} s"
    )


if __name__ == "__main__":
    main()
