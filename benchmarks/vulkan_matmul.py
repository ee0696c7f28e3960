"""Matrix products on the Vulkan backend against cuBLAS, in one run: ``python benchmarks/vulkan_matmul.py``.

TF32 is off. Sampled rows of every result are compared with float64 before it is timed; times are those of many calls in
a row with one wait. Without CUDA the rows show our times alone, on smaller problems.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# This file's folder would hide the package `vulkan`.
sys.path[0] = str(Path(__file__).parents[1])
os.environ["GRILLY_FALLBACK"] = "error"

import numpy as np
import torch

import grilly
from grilly_core.device import open_context

CUDA = torch.cuda.is_available()
DEVICE = "vulkan:0"
Call = Callable[[], Any]
BOUNDS = {"float32": 1e-5, "float16": 2e-3, "bfloat16": 2e-2, "int8": 0.0, "high": 3e-5, "medium": 1e-2}


@dataclass(frozen=True)
class Problem:
    """A product m x n x k, its type, whether the second operand is a transposed view, and the ratio to reach."""

    m: int
    n: int
    k: int
    dtype: str = "float32"
    transposed: bool = False
    precision: str = "highest"
    mark: float | None = None

    def __str__(self) -> str:
        kind = self.dtype if self.precision == "highest" else f"{self.dtype}, {self.precision}"
        return f"{self.m}×{self.n}×{self.k} {kind}{', x @ W.T' if self.transposed else ''}"


PROBLEMS = [
    Problem(4096, 4096, 4096, mark=0.9),
    Problem(4096, 4096, 4096, transposed=True, mark=0.9),
    Problem(8192, 8192, 8192, mark=0.9),
    Problem(1024, 1024, 1024),
    Problem(1001, 999, 1003),
    Problem(64, 4096, 4096, transposed=True),
    Problem(4096, 4096, 4096, precision="high", mark=2.2),
    Problem(4096, 4096, 4096, transposed=True, precision="high", mark=2.2),
    Problem(4096, 4096, 4096, precision="medium"),
    Problem(4096, 4096, 4096, "float16", mark=0.5),
    Problem(4096, 4096, 4096, "float16", True, mark=0.5),
    Problem(4096, 4096, 4096, "bfloat16", mark=0.5),
    Problem(8192, 8192, 8192, "float16", mark=0.5),
    Problem(64, 4096, 4096, "float16", True, mark=0.5),
    Problem(1001, 999, 1003, "float16"),
    Problem(4096, 4096, 4096, "int8", True),
]


def sync() -> None:
    """Wait for both."""
    open_context(DEVICE).synchronize()
    if CUDA:
        torch.cuda.synchronize()


def seconds(call: Call, budget: float = 0.03) -> float:
    """Best of three rounds, each of as many calls as fit the budget, with one wait."""
    call()
    sync()
    start = time.perf_counter()
    call()
    sync()
    count = max(1, min(200, int(budget / (time.perf_counter() - start))))
    best = float("inf")
    for _ in range(3):
        start = time.perf_counter()
        for _ in range(count):
            call()
        sync()
        best = min(best, (time.perf_counter() - start) / count)
    return best


def operands(problem: Problem) -> tuple[Any, Any]:
    """Return host operands, the second as the product takes it."""
    rng = np.random.default_rng(0)
    shapes = (
        (problem.m, problem.k),
        ((problem.n, problem.k) if problem.transposed else (problem.k, problem.n)),
    )
    if problem.dtype == "int8":
        return tuple(rng.integers(-128, 128, s, dtype=np.int8) for s in shapes)  # type: ignore[return-value]
    return tuple(rng.standard_normal(s, dtype=np.float32) for s in shapes)  # type: ignore[return-value]


def check(problem: Problem, mine: Any, a: Any, b: Any) -> None:
    """Compare sampled rows with float64."""
    rows = np.linspace(0, problem.m - 1, 4).astype(int)
    exact = a[rows].astype("f8") @ (b.T if problem.transposed else b).astype("f8")
    if problem.dtype in ("float16", "bfloat16"):
        mine = mine.astype(grilly.float32)
    error = np.linalg.norm(mine.numpy()[rows] - exact) / np.linalg.norm(exact)
    bound = BOUNDS[problem.dtype if problem.precision == "highest" else problem.precision]
    if error > bound:
        raise AssertionError(f"{problem}: relative error {error:.1e}, above {bound:.1e}")


def row(problem: Problem) -> str:
    """Check, time and format one product."""
    a, b = operands(problem)
    x, w = (grilly.asarray(t, device=DEVICE).astype(getattr(grilly, problem.dtype)) for t in (a, b))
    product = grilly.functional.matmul_int8 if problem.dtype == "int8" else grilly.matmul

    def ours() -> Any:
        with grilly.matmul_precision(problem.precision):
            return product(x, w.T if problem.transposed else w)

    check(problem, ours(), a, b)
    mine = seconds(ours)
    rate = 2e-12 * problem.m * problem.n * problem.k / mine
    line = f"| {problem} | {mine * 1e6:.1f} µs | {rate:.1f} T/s |"
    if CUDA:
        s, v = (torch.from_numpy(t).cuda().to(getattr(torch, problem.dtype)) for t in (a, b))
        v = v.T if problem.transposed else v
        peer = seconds((lambda: torch._int_mm(s, v)) if problem.dtype == "int8" else (lambda: s @ v))
        line += f" {peer * 1e6:.1f} µs | {peer / mine:.2f} | {problem.mark or ''} |"
    return line


def main() -> None:
    """Print the table, and write it to a file if asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    out = parser.parse_args().out
    torch.backends.cuda.matmul.allow_tf32 = False
    lines = ["| product | grilly | rate |" + (" cuBLAS | ratio | mark |" if CUDA else "")]
    lines.append("|---" * (6 if CUDA else 3) + "|")
    print("\n".join(lines), flush=True)
    warm = grilly.ones((2048, 2048), device=DEVICE)
    start = time.perf_counter()
    while CUDA and time.perf_counter() - start < 0.7:  # clocks rise under load
        _ = warm @ warm
        sync()
    small = [Problem(128, 128, 128), Problem(128, 128, 128, transposed=True), Problem(65, 63, 67, "float16")]
    for problem in PROBLEMS if CUDA else small:
        lines.append(row(problem))
        print(lines[-1], flush=True)
    if out is not None:
        out.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
