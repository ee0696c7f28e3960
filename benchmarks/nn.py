"""Layers and training steps on the CPU against PyTorch's, each with its ratio (above 1 we are faster).

Run it as ``env -u OPENBLAS_CORETYPE -u OPENBLAS_L2_SIZE python benchmarks/nn.py [words of names]``: those variables,
where an environment sets them, make NumPy's BLAS pick kernels of another CPU. Both sides use ``OMP_NUM_THREADS``
threads (default 2) and the same code: a case is written once, for the names that both libraries share. Each side
runs in processes of its own, in turn, because the pools of threads spin after each call; the best of several rounds
counts.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, Final

os.environ.setdefault("OMP_NUM_THREADS", "2")

import numpy as np

ROUNDS: Final = 3
BUDGET: Final = 0.25  # seconds of a measurement
SIDES: Final = ("grilly", "torch")
#: The least ratio that is asked for, of all cases and of some.
FLOOR: Final = 0.6
FLOORS: Final = {"LSTM": 0.7, "convolution": 0.75}


def library(side: str) -> SimpleNamespace:
    """Return the names that cases use."""
    if side == "torch":
        import torch

        torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
        return SimpleNamespace(
            nn=torch.nn, F=torch.nn.functional, optim=torch.optim, no_grad=torch.no_grad,
            tensor=torch.from_numpy, watched=lambda x: torch.from_numpy(x).requires_grad_(),
        )  # fmt: skip
    import grilly

    return SimpleNamespace(
        nn=grilly.nn, F=grilly.functional, optim=grilly.optim, no_grad=grilly.no_grad, tensor=grilly.asarray,
        watched=lambda x: grilly.asarray(x).requires_grad_(),
    )  # fmt: skip


def drawn(*shape: int) -> np.ndarray:
    """Return normal numbers, the same for both sides."""
    return np.random.default_rng(sum(shape)).standard_normal(shape, dtype=np.float32)


def layer(build: Callable[[Any], Any], *shape: int) -> Callable[[Any], dict[str, Callable[[], Any]]]:
    """Return a case of a layer with one input: forward, and forward with backward."""

    def case(lib: Any) -> dict[str, Callable[[], Any]]:
        module, x = build(lib), lib.watched(drawn(*shape))

        def output() -> Any:
            y = module(x)
            return y[0] if isinstance(y, tuple) else y

        def forward() -> Any:
            with lib.no_grad():
                return output()

        def both() -> Any:
            x.grad = None
            for parameter in module.parameters():
                parameter.grad = None
            output().sum().backward()

        return {"forward": forward, "forward + backward": both}

    return case


def attention(lib: Any) -> Any:
    """Self-attention of 8 heads."""
    inner = lib.nn.MultiheadAttention(256, 8, batch_first=True)

    class Self(lib.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.inner = inner

        def forward(self, x: Any) -> Any:
            return self.inner(x, x, x, need_weights=False)

    return Self()


def residual(lib: Any) -> Any:
    """Two convolutions with batch norms around a shortcut."""
    nn = lib.nn

    class Block(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.conv1, self.bn1 = nn.Conv2d(64, 64, 3, padding=1, bias=False), nn.BatchNorm2d(64)
            self.conv2, self.bn2 = nn.Conv2d(64, 64, 3, padding=1, bias=False), nn.BatchNorm2d(64)

        def forward(self, x: Any) -> Any:
            return lib.F.relu(self.bn2(self.conv2(lib.F.relu(self.bn1(self.conv1(x))))) + x)

    return Block()


def step(
    build: Callable[[Any], Any], classes: int, *shape: int
) -> Callable[[Any], dict[str, Callable[[], Any]]]:
    """Return a case of a training step with AdamW."""

    def case(lib: Any) -> dict[str, Callable[[], Any]]:
        model = build(lib)
        optimizer = lib.optim.AdamW(model.parameters(), lr=1e-3)
        x = lib.tensor(drawn(*shape))
        y = lib.tensor(np.random.default_rng(0).integers(0, classes, shape[0]))

        def once() -> None:
            optimizer.zero_grad()
            lib.F.cross_entropy(model(x), y).backward()
            optimizer.step()

        return {"": once}

    return case


def mlp(lib: Any) -> Any:
    """784-256-10."""
    return lib.nn.Sequential(lib.nn.Linear(784, 256), lib.nn.ReLU(), lib.nn.Linear(256, 10))


def cnn(lib: Any) -> Any:
    """Two convolutions and a dense layer for images of 28 × 28."""
    nn = lib.nn
    return nn.Sequential(
        nn.Conv2d(1, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(),
        nn.MaxPool2d(2), nn.Flatten(), nn.Linear(64 * 49, 10),
    )  # fmt: skip


CASES: Final = {
    "LSTM 50×32×128, 256 units": layer(lambda lib: lib.nn.LSTM(128, 256), 50, 32, 128),
    "GRU 50×32×128, 256 units": layer(lambda lib: lib.nn.GRU(128, 256), 50, 32, 128),
    "attention 8×256×256, 8 heads": layer(attention, 8, 256, 256),
    "transformer layer 8×256×256": layer(
        lambda lib: lib.nn.TransformerEncoderLayer(256, 8, 1024, dropout=0.0, batch_first=True), 8, 256, 256
    ),
    "convolution 16×64×56×56 → 64, 3×3": layer(
        lambda lib: lib.nn.Conv2d(64, 64, 3, padding=1), 16, 64, 56, 56
    ),
    "ResNet block 8×64×28×28": layer(residual, 8, 64, 28, 28),
    "linear 1024×1024 → 1024": layer(lambda lib: lib.nn.Linear(1024, 1024), 1024, 1024),
    "layer norm 4096×1024": layer(lambda lib: lib.nn.LayerNorm(1024), 4096, 1024),
    "batch norm 32×64×28×28": layer(lambda lib: lib.nn.BatchNorm2d(64), 32, 64, 28, 28),
    "training step, MLP, b64": step(mlp, 10, 64, 784),
    "training step, CNN 28×28, b64": step(cnn, 10, 64, 1, 28, 28),
}


def measure(side: str, name: str) -> dict[str, float]:
    """Return the seconds of one call of each part of a case."""
    parts = CASES[name](library(side))
    found = {}
    for part, call in parts.items():
        for _ in range(3):
            call()
        start = time.perf_counter()
        call()
        count = max(1, int(BUDGET / 3 / max(time.perf_counter() - start, 1e-6)))
        times = []
        for _ in range(3):
            start = time.perf_counter()
            for _ in range(count):
                call()
            times.append((time.perf_counter() - start) / count)
        found[part] = min(times)
    return found


def measured_apart(side: str, name: str) -> dict[str, float]:
    """Return what `measure` finds in a process of its own."""
    command = [sys.executable, __file__, "--measure", side, name]
    return dict(json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout))


def main() -> None:
    """Print a line for each case, then the median and the least."""
    words = sys.argv[1:]
    if words[:1] == ["--measure"]:
        print(json.dumps(measure(*words[1:])))
        return
    print(f"{'work':54}{'grilly ms':>10}{'torch ms':>10}{'ratio':>8}{'floor':>7}")
    ratios = []
    for name in CASES:
        if not all(word in name for word in words):
            continue
        best: dict[str, dict[str, float]] = {side: {} for side in SIDES}
        for _ in range(ROUNDS):
            for side in SIDES:
                for part, seconds in measured_apart(side, name).items():
                    best[side][part] = min(seconds, best[side].get(part, seconds))
        floor = next((f for word, f in FLOORS.items() if name.startswith(word)), FLOOR)
        for part, seconds in best["grilly"].items():
            peer = best["torch"][part]
            ratios.append(peer / seconds)
            figures = f"{seconds * 1e3:>10.2f}{peer * 1e3:>10.2f}{ratios[-1]:>8.2f}{floor:>7.2f}"
            print(f"{name + ' ' + part:54}{figures}{'' if ratios[-1] >= floor else '  below'}", flush=True)
    if ratios:
        print(f"median {statistics.median(ratios):.2f}, least {min(ratios):.2f}")


if __name__ == "__main__":
    main()
