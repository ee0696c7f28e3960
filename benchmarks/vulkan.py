"""The Vulkan backend against PyTorch CUDA on one GPU, in one run: ``python benchmarks/vulkan.py [--out FILE]``.

Each row is checked against NumPy or PyTorch before it is timed. Kernels are timed as many launches in a
row with one wait, the
training step by itself with a wait each; the ratio is PyTorch's time over ours. Without CUDA the rows show
our times alone.
"""

from __future__ import annotations

import argparse
import datetime
import os
import platform
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

# This file would hide the package `vulkan`.
sys.path[0] = str(Path(__file__).parents[1])
os.environ["GRILLY_FALLBACK"] = "error"

import numpy as np
import torch

import grilly
from grilly_core.device import open_context

CUDA = torch.cuda.is_available()
DEVICE = "vulkan:0"
F, TF = grilly.functional, torch.nn.functional
Call = Callable[[], Any]

WARM = 0.3  # seconds


def sync() -> None:
    """Wait for both."""
    open_context(DEVICE).synchronize()
    if CUDA:
        torch.cuda.synchronize()


def seconds(call: Call, repeat: int) -> float:
    """Best of three rounds of `repeat` calls, one wait each round, once the clocks have risen."""
    warm = time.perf_counter() + WARM
    while time.perf_counter() < warm:
        call()
        sync()
    best = float("inf")
    for _ in range(3):
        start = time.perf_counter()
        for _ in range(repeat):
            call()
        sync()
        best = min(best, (time.perf_counter() - start) / repeat)
    return best


def pair(array: np.ndarray) -> tuple[Any, Any]:
    """The array on both."""
    return grilly.asarray(array, device=DEVICE), torch.from_numpy(array).to("cuda" if CUDA else "cpu")


def row(
    what: str,
    ours: Call,
    theirs: Call,
    repeat: int,
    rate: tuple[float, str] | None = None,
    tolerance: float = 2e-3,
) -> str:
    """Check, time and format one comparison; `rate` is (work, unit) for one call."""
    a, b = ours().detach().to("float32").numpy(), theirs().detach().float().cpu().numpy()
    np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance, err_msg=what)
    mine = seconds(ours, repeat)
    speed = f"{rate[0] / mine:9.1f} {rate[1]}" if rate else ""
    if not CUDA:
        return f"| {what} | {mine * 1e6:.1f} µs | | | {speed} |"
    peer = seconds(theirs, repeat)
    return f"| {what} | {mine * 1e6:.1f} µs | {peer * 1e6:.1f} µs | {peer / mine:.2f} | {speed} |"


def kernels(scale: int) -> list[str]:
    """Matrix products, and kernels bound by memory."""
    rng, rows = np.random.default_rng(0), []
    for n in (1024 // scale, 4096 // scale):
        x, tx = pair(rng.standard_normal((n, n)).astype(np.float32))
        rows.append(
            row(f"matmul {n}³ f32", lambda x=x: x @ x, lambda tx=tx: tx @ tx, 10, (2e-12 * n**3, "TFLOP/s"))
        )
    size = (1 << 28) // scale**2
    x, tx = pair(rng.standard_normal((size // 1024, 1024)).astype(np.float32))
    gb = 8e-9 * size
    rows.append(row(f"x + x, {size * 4 >> 20} MiB", lambda: x + x, lambda: tx + tx, 5, (gb, "GB/s")))
    rows.append(row("exp", lambda: grilly.exp(x), lambda: torch.exp(tx), 5, (gb, "GB/s")))
    rows.append(row("GELU", lambda: F.gelu(x), lambda: TF.gelu(tx), 5, (gb, "GB/s")))
    rows.append(
        row("softmax, rows of 1024", lambda: F.softmax(x, -1), lambda: TF.softmax(tx, -1), 5, (gb, "GB/s"))
    )
    rows.append(
        row(
            "layer norm, rows of 1024",
            lambda: F.layer_norm(x, (1024,)),
            lambda: TF.layer_norm(tx, (1024,)),
            5,
            (gb, "GB/s"),
        )
    )
    rows.append(row("sum over rows", lambda: x.sum(1), lambda: tx.sum(1), 5, (gb / 2, "GB/s")))
    return rows


def products(scale: int) -> list[str]:
    """Matrix products in other types, precisions and shapes."""
    rng, rows = np.random.default_rng(0), []
    for m, n in ((4096, 4096), (8192, 8192), (64, 4096)):
        m, n = max(m // scale, 8), n // scale
        a, ta = pair(rng.standard_normal((m, n)).astype(np.float32))
        b, tb = pair(rng.standard_normal((n, n)).astype(np.float32))
        rate = (2e-12 * m * n * n, "TFLOP/s")
        name = f"matmul {m}×{n}×{n}"
        rows.append(row(f"{name} f32", lambda a=a, b=b: a @ b, lambda a=ta, b=tb: a @ b, 10, rate))
        for dtype in ("float16", "bfloat16"):
            x, y = a.to(dtype), b.to(dtype)
            tx, ty = ta.to(getattr(torch, dtype)), tb.to(getattr(torch, dtype))
            rows.append(
                row(
                    f"{name} {dtype}",
                    lambda x=x, y=y: x @ y,
                    lambda x=tx, y=ty: x @ y,
                    20,
                    rate,
                    tolerance=2.0,
                )
            )
        if m > 64:
            rows.append(
                row(
                    f'{name} f32, "high"',
                    lambda a=a, b=b: high(a, b),
                    lambda a=ta, b=tb: a @ b,
                    10,
                    rate,
                    tolerance=0.1,
                )
            )
    return rows


def high(a: Any, b: Any) -> Any:
    """The product under ``matmul_precision("high")``."""
    with grilly.matmul_precision("high"):
        return a @ b


def eager() -> list[str]:
    """The cost of one small op among many."""
    x, tx = pair(np.ones(256, np.float32))

    def chain(x: Any) -> Any:
        for _ in range(100):
            x = x + 1.0
        return x

    line = row("100 dependent adds of 256 elements", lambda: chain(x), lambda: chain(tx), 10)
    return [line]


def steps() -> list[str]:
    """Training steps of an MLP and of the demo's network; PyTorch with its fused AdamW, eager and as a CUDA graph."""
    rng, rows = np.random.default_rng(0), []
    y = rng.integers(0, 10, 64)
    for what, build, x in (
        ("MLP 784-256-10 step, b64, AdamW", _mlp, rng.standard_normal((64, 784))),
        ("digits CNN step, b64, AdamW", _cnn, rng.standard_normal((64, 1, 8, 8))),
    ):
        ours, captured, theirs, graph = _training(build, x.astype(np.float32), y)
        rows.append(row(f"{what}: eager, against eager, waiting each step", waited(ours), waited(theirs), 20))
        rows.append(row(f"{what}: captured, against eager, waiting", waited(captured), waited(theirs), 20))
        rows.append(
            row(f"{what}: captured, against a CUDA graph, waiting", waited(captured), waited(graph), 50)
        )
        rows.append(row(f"{what}: captured, against a CUDA graph, not waiting", captured, graph, 200))
    return rows


def waited(run: Call) -> Call:
    """The call, and a wait for it."""

    def both() -> Any:
        result = run()
        sync()
        return result

    return both


def _mlp(n: Any) -> Any:
    return n.Sequential(n.Linear(784, 256), n.ReLU(), n.Linear(256, 10))


def _cnn(n: Any) -> Any:
    return n.Sequential(
        n.Conv2d(1, 32, 3, padding=1), n.ReLU(), n.MaxPool2d(2), n.Conv2d(32, 64, 3, padding=1), n.ReLU(),
        n.MaxPool2d(2),
        n.Flatten(), n.Linear(256, 10),
    )  # fmt: skip


def _training(build: Any, x: np.ndarray, y: np.ndarray) -> tuple[Call, Call, Call, Call]:
    """Steps with a learning rate of 0, so that repeated losses stay comparable."""
    model, peer = build(grilly.nn).to(DEVICE), build(torch.nn)
    peer.load_state_dict(
        {k: torch.from_numpy(v.cpu().numpy(copy=True)) for k, v in model.state_dict().items()}
    )
    (gx, tx), (gy, ty) = pair(x), pair(y)
    peer.to(tx.device)
    optimizer = grilly.optim.AdamW(model.parameters(), lr=0.0)
    other = torch.optim.AdamW(peer.parameters(), lr=0.0, fused=CUDA, capturable=CUDA)

    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    def peer_step() -> Any:
        other.zero_grad()
        loss = TF.cross_entropy(peer(tx), ty)
        loss.backward()
        other.step()
        return loss

    captured = grilly.capture(step, state=(model, optimizer))
    for _ in range(4):
        captured(gx, gy)
    return lambda: step(gx, gy), lambda: captured(gx, gy), peer_step, _graph(peer_step)


def _graph(step: Call) -> Call:
    """The step as a CUDA graph, warmed up beforehand as PyTorch's documentation asks."""
    if not CUDA:
        return step
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        loss = step()

    def replay() -> Any:
        graph.replay()
        return loss

    return replay


def main() -> None:
    """Print the table, and write it if asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, help="also write the table here, as Markdown")
    parser.add_argument("--scale", type=int, default=1, help="divide sizes, for slow devices")
    arguments = parser.parse_args()
    name = open_context(DEVICE).runtime.facts.name
    peer = torch.cuda.get_device_name() if CUDA else "none"
    lines = [
        f"{datetime.date.today()}: {name} through Vulkan, PyTorch {torch.__version__} on {peer}; Python "
        f"{platform.python_version()}.",
        "Command: `python "
        f"benchmarks/vulkan.py{'' if arguments.scale == 1 else f' --scale {arguments.scale}'}`. TF32 is off.",
        "",
        "| work | grilly Vulkan | PyTorch CUDA | ratio | rate |",
        "|---|---|---|---|---|",
    ]
    scale = arguments.scale
    for part in (lambda: kernels(scale), lambda: products(scale), eager, steps):
        found = part()
        lines += found
        print("\n".join(found), flush=True)
    if arguments.out:
        arguments.out.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
