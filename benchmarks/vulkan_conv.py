"""Convolution on the Vulkan backend against cuDNN in float32, in one run: ``python benchmarks/vulkan_conv.py``.

TF32 is off and cuDNN chooses its algorithms by trial. Each row's results are compared with cuDNN's before it is
timed; times are those of many calls in a row with one wait. Without CUDA the rows show our times alone, on smaller
problems.
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


@dataclass(frozen=True)
class Problem:
    """A square convolution of a batch, and the ratios to reach (forward, forward and backward)."""

    batch: int
    ins: int
    side: int
    outs: int
    kernel: int = 3
    stride: int = 1
    groups: int = 1
    marks: tuple[float, float] | None = None

    def __str__(self) -> str:
        extra = (f", stride {self.stride}" if self.stride > 1 else "") + (
            ", depthwise" if self.groups > 1 else ""
        )
        return f"{self.batch}×{self.ins}×{self.side}² → {self.outs}, {self.kernel}×{self.kernel}{extra}"


PROBLEMS = [
    Problem(16, 64, 56, 64, marks=(1.0, 0.8)),
    Problem(16, 256, 28, 256, marks=(1.0, 0.8)),
    Problem(16, 512, 14, 512, marks=(1.0, 0.8)),
    Problem(16, 256, 56, 64, kernel=1),
    Problem(16, 128, 56, 256, stride=2),
    Problem(16, 3, 224, 64, kernel=7, stride=2),
    Problem(16, 256, 56, 256, groups=256),
    Problem(64, 1, 8, 32),
    Problem(64, 32, 4, 64),
]


def sync() -> None:
    """Wait for both."""
    open_context(DEVICE).synchronize()
    if CUDA:
        torch.cuda.synchronize()


def seconds(call: Call, budget: float = 0.02) -> float:
    """Best of three rounds, each of as many calls as fit the budget, with one wait."""
    call()
    sync()
    start = time.perf_counter()
    call()
    sync()
    count = max(1, min(100, int(budget / (time.perf_counter() - start))))
    best = float("inf")
    for _ in range(3):
        start = time.perf_counter()
        for _ in range(count):
            call()
        sync()
        best = min(best, (time.perf_counter() - start) / count)
    return best


def steps(problem: Problem) -> tuple[list[Call], list[Call]]:
    """Forward, and forward and backward, of ours and of PyTorch's, on the same numbers."""
    rng = np.random.default_rng(0)
    shapes = (
        (problem.batch, problem.ins, problem.side, problem.side),
        (problem.outs, problem.ins // problem.groups, problem.kernel, problem.kernel),
        (problem.outs,),
    )
    arrays = [rng.standard_normal(s).astype(np.float32) for s in shapes]
    arrays[1] /= np.sqrt(np.float32(arrays[1][0].size))
    how = {"stride": problem.stride, "padding": problem.kernel // 2, "groups": problem.groups}
    ours = [grilly.tensor(a, device=DEVICE, requires_grad=True) for a in arrays]
    theirs = [torch.tensor(a, device="cuda" if CUDA else "cpu", requires_grad=True) for a in arrays]

    def of(module: Any, tensors: list[Any], grad: Call, g: Any) -> list[Call]:
        conv = module.nn.functional.conv2d if module is torch else module.functional.conv2d

        def forward() -> Any:
            with module.no_grad():
                return conv(*tensors, **how)

        return [forward, lambda: grad(conv(*tensors, **how), tensors, g)]

    shape = of(torch, theirs, torch.autograd.grad, None)[0]().shape
    weight = rng.standard_normal(shape).astype(np.float32)
    g, tg = grilly.asarray(weight, device=DEVICE), torch.tensor(weight, device=theirs[0].device)
    return of(grilly, ours, grilly.grad, g), of(torch, theirs, torch.autograd.grad, tg)


def check(a: Any, b: Any, what: str) -> None:
    """Compare results, relative to the largest; cuDNN's own gradients of weights are off by 2e-5 to 1e-4."""
    for mine, other in zip(*(r if isinstance(r, list | tuple) else (r,) for r in (a, b)), strict=True):
        expected = other.detach().cpu().numpy()
        np.testing.assert_allclose(
            mine.detach().numpy(), expected, rtol=0, atol=2e-4 * np.abs(expected).max(), err_msg=what
        )


def rows(problem: Problem) -> list[str]:
    """Check and time both passes of one problem."""
    lines, mine, theirs = [], *steps(problem)
    places = (problem.side // problem.stride) ** 2
    work = 2e-12 * problem.batch * places * problem.outs * (problem.ins // problem.groups) * problem.kernel**2
    for i, what in enumerate(("forward", "forward + backward")):
        check(mine[i](), theirs[i](), f"{problem}, {what}")
        ours = seconds(mine[i])
        rate = work * (1, 3)[i] / ours
        line = f"| {problem} | {what} | {ours * 1e6:.1f} µs | {rate:.2f} TFLOP/s |"
        if CUDA:
            peer = seconds(theirs[i])
            mark = f"{problem.marks[i]}" if problem.marks else ""
            line += f" {peer * 1e6:.1f} µs | {peer / ours:.2f} | {mark} |"
        lines.append(line)
    return lines


def main() -> None:
    """Print the table, and write it to a file if asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    out = parser.parse_args().out
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.benchmark = True
    lines = ["| convolution | pass | grilly | rate |" + (" cuDNN | ratio | mark |" if CUDA else "")]
    lines.append("|---" * (7 if CUDA else 4) + "|")
    warm = grilly.ones((2048, 2048), device=DEVICE)
    start = time.perf_counter()
    while CUDA and time.perf_counter() - start < 0.7:  # clocks rise under load
        _ = warm @ warm
        sync()
    problems = PROBLEMS if CUDA else [p for p in PROBLEMS if p.side <= 8]
    for problem in problems:
        lines += rows(problem)
        print("\n".join(lines if problem is problems[0] else lines[-2:]), flush=True)
    if out is not None:
        out.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
