"""Spiking layers against snnTorch, in one run: ``python benchmarks/snn.py [--device DEVICE]``.

snnTorch runs on CUDA where the device is a GPU and PyTorch has it, else on the CPU with two threads. The ratio is its
time over ours. Both use the delayed reset by subtraction and the arctangent surrogate.

On the CPU three more rows say what the machine itself needs, measured in the same run: the least traffic of the layer
at the rate of a copy between arrays that are used in turn, and the products of the training step at the rate of
NumPy's BLAS. What snnTorch's time is over those is the highest ratio that is possible here.
"""

from __future__ import annotations

import argparse
import itertools
import os
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

sys.path[0] = str(Path(__file__).parents[1])
os.environ["GRILLY_FALLBACK"] = "error"

import numpy as np
import snntorch
import torch

import grilly
from grilly_core.device import open_context
from grilly_ext_snn.functional.losses import ce_rate_loss
from grilly_ext_snn.functional.nets import reset_net
from grilly_ext_snn.nn.nodes import LeakyNode

BETA, STEPS, BATCH, NEURONS = 0.9, 100, 128, 1024
Call = Callable[[], Any]


def seconds(call: Call, sync: Call, rounds: int) -> float:
    """Best of some calls, each waited for, after one to warm up."""
    call(), sync()
    best = float("inf")
    for _ in range(rounds):
        start = time.perf_counter()
        call(), sync()
        best = min(best, time.perf_counter() - start)
    return best


class Peer(torch.nn.Module):
    """A loop over time in snnTorch's way: layers of a linear map, if there is one, and `Leaky`."""

    def __init__(self, sizes: list[int]) -> None:
        super().__init__()
        pairs = list(itertools.pairwise(sizes))
        self.maps = torch.nn.ModuleList([torch.nn.Linear(a, b) for a, b in pairs])
        self.nodes = torch.nn.ModuleList([snntorch.Leaky(beta=BETA) for _ in pairs or [0]])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the spikes of all steps."""
        states, out = [node.init_leaky() for node in self.nodes], []
        for step in x:
            for i, node in enumerate(self.nodes):
                step, states[i] = node(self.maps[i](step) if len(self.maps) else step, states[i])
            out.append(step)
        return torch.stack(out)


def layer(device: str, place: str) -> tuple[list[tuple[str, Call, Call]], float]:
    """The layer alone; also the share of spikes on which both agree."""
    x = np.random.default_rng(0).random((STEPS, BATCH, NEURONS)).astype(np.float32)
    a, b, peer = grilly.asarray(x, device=device), torch.from_numpy(x).to(place), Peer([])
    with grilly.no_grad(), torch.no_grad():
        same = float((LeakyNode(BETA, step_mode="m")(a).numpy() == peer(b).cpu().numpy()).mean())

    def ours() -> Any:
        with grilly.no_grad():
            return LeakyNode(BETA, step_mode="m")(a)

    def theirs() -> Any:
        with torch.no_grad():
            return peer(b)

    ga, gb = a.detach().requires_grad_(), b.clone().requires_grad_()

    def both() -> None:
        ga.grad = None
        LeakyNode(BETA, step_mode="m")(ga).sum().backward()

    def their_both() -> None:
        gb.grad = None
        peer(gb).sum().backward()

    name = f"Leaky T={STEPS} B={BATCH} N={NEURONS}"
    return [(f"{name} forward", ours, theirs), (f"{name} forward + backward", both, their_both)], same


def training(device: str, place: str) -> list[tuple[str, Call, Call]]:
    """A step of a 784-256-10 network, T=50, batch 128, Adam."""
    rng = np.random.default_rng(0)
    x, y = (rng.random((50, BATCH, 784)) < 0.2).astype(np.float32), rng.integers(0, 10, BATCH)
    nodes = [LeakyNode(BETA, step_mode="m") for _ in range(2)]
    nn = grilly.nn
    net = nn.Sequential(nn.Linear(784, 256), nodes[0], nn.Linear(256, 10), nodes[1]).to(device)
    optimizer = grilly.optim.Adam(net.parameters(), lr=1e-3)
    a, ya = grilly.asarray(x, device=device), grilly.asarray(y.astype(np.int32), device=device)

    def step(a: Any, ya: Any) -> Any:
        reset_net(net)
        optimizer.zero_grad()
        loss = ce_rate_loss(net(a), ya)
        loss.backward()
        optimizer.step()
        reset_net(net)
        return loss

    peer = Peer([784, 256, 10]).to(place)
    adam = torch.optim.Adam(peer.parameters(), lr=1e-3)
    b, yb = torch.from_numpy(x).to(place), torch.from_numpy(y).to(place)

    def their_step() -> None:
        adam.zero_grad()
        spikes = peer(b)
        loss = torch.nn.functional.cross_entropy(spikes.flatten(0, 1), yb.repeat(len(spikes)))
        loss.backward()
        adam.step()

    captured = grilly.capture(step, state=(net, optimizer))
    for _ in range(4):
        captured(a, ya)
    name = "784-256-10 step T=50 B=128 Adam"
    return [
        (f"{name}, eager", lambda: step(a, ya), their_step),
        (f"{name}, captured", lambda: captured(a, ya), their_step),
    ]


def copying(passes: int) -> Call:
    """Return a call that moves as many arrays of the layer's size as there are `passes`, half of them read."""
    arrays = [np.ones(STEPS * BATCH * NEURONS, np.float32) for _ in range(6)]
    pool, turn = ThreadPoolExecutor(2), itertools.count()

    def halves(source: Any, target: Any) -> None:
        pieces = zip(np.split(source, 2), np.split(target, 2), strict=True)
        for job in [pool.submit(np.copyto, b, a) for a, b in pieces]:
            job.result()

    def call() -> None:
        for _ in range(passes // 2):
            i = next(turn)
            halves(arrays[i % 6], arrays[(i + 1) % 6])

    return call


def products() -> Call:
    """Return a call with the three large products of the training step, and the small ones of its last layer."""
    rows, rng = 50 * BATCH, np.random.default_rng(0)
    x, hidden, out = (rng.random((rows, n), np.float32) for n in (784, 256, 10))
    first, last = rng.random((784, 256), np.float32), rng.random((256, 10), np.float32)
    into = np.empty((rows, 256), np.float32)

    def call() -> None:
        np.matmul(x, first, into)
        np.matmul(hidden.T, x)
        np.matmul(hidden, last)
        np.matmul(out.T, hidden)
        np.matmul(out, last.T, into)

    return call


def roofs(peers: dict[str, float], rounds: int) -> None:
    """Print what copies and products alone take, against the peer's times of rows that begin with these words."""
    layer = f"Leaky T={STEPS} B={BATCH} N={NEURONS}"
    moved = seconds(copying(10), lambda: None, rounds) / 10
    for work, passes, what in (
        (f"{layer} forward", 2, "x read, spikes written"),
        (
            f"{layer} forward + backward",
            7,
            "also the membrane and the gradient written, three arrays read again",
        ),
        ("784-256-10 step T=50 B=128 Adam, eager", 0, "its products"),
    ):
        least = passes * moved if passes else seconds(products(), lambda: None, rounds)
        print(
            f"| {work}, roof: {what} | {least * 1e3:.2f} ms | {peers[work] * 1e3:.1f} ms | {peers[work] / least:.1f} |"
        )


def lazily(make: Callable[..., list[Any]], *arguments: str) -> Iterator[Any]:
    """Yield what `make` returns, called when the first is wanted."""
    yield from make(*arguments)


def main(device: str, rounds: int) -> None:
    """Print the table."""
    torch.set_num_threads(2)
    place = "cuda" if not device.startswith("cpu") and torch.cuda.is_available() else "cpu"

    def sync() -> None:
        open_context(device).synchronize()
        if place == "cuda":
            torch.cuda.synchronize()

    rows, same = layer(device, place)
    print(f"grilly on {device}, snnTorch {snntorch.__version__} on {place}; {same:.4%} of the spikes agree\n")
    print("| work | grilly | snnTorch | ratio |\n|---|---|---|---|")
    peers = {}
    # The training is made ready when its turn comes: threads of BLAS wait busily for a while after a product.
    for name, ours, theirs in itertools.chain(rows, lazily(training, device, place)):
        mine, peer = seconds(ours, sync, rounds), seconds(theirs, sync, max(2, rounds // 3))
        peers[name] = peer
        print(f"| {name} | {mine * 1e3:.2f} ms | {peer * 1e3:.1f} ms | {peer / mine:.1f} |", flush=True)
    if device.startswith("cpu"):
        roofs(peers, rounds)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cpu", help="Device of grilly, such as cpu or vulkan:0.")
    parser.add_argument("--rounds", type=int, default=9, help="Calls timed; the best counts.")
    arguments = parser.parse_args()
    main(arguments.device, arguments.rounds)
