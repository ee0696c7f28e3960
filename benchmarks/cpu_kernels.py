"""Kernels of the CPU backend against PyTorch's, each with its ratio (peer's time / ours: above 1 we are faster).

Run it as ``env -u OPENBLAS_CORETYPE -u OPENBLAS_L2_SIZE python benchmarks/cpu_kernels.py [words of names]``: those
variables, where an environment sets them, make NumPy's BLAS pick kernels of another CPU. Both sides use
``OMP_NUM_THREADS`` threads (default 2). Times drift by a third between runs on a shared machine, so the two are
measured in turn, each in a process of its own (the pools of PyTorch and of Numba spin for a while after each call and
would take the CPUs from each other), and the best of several rounds counts.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from types import SimpleNamespace
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "2")

import numpy as np
import torch
import torch.nn.functional as F

from grilly_backend_cpu import backend

Case = tuple[str, Callable[[], Any], Callable[[], Any]]
ROUNDS = 9


class Kernels:
    """Collects what the backend declares, and picks as core does: the highest priority whose condition holds."""

    def __init__(self) -> None:
        self.found: dict[str, list[Any]] = {}
        backend.open(0).register_kernels(self)  # type: ignore[arg-type]

    def add(self, name: str, fn: Any, *, dtypes: Any, layout: str = "strided", when: Any = None, priority: int = 0,
            compute: Any = None) -> None:  # fmt: skip
        """Take one declaration."""
        self.found.setdefault(name, []).append((priority, fn, frozenset(dtypes), when))

    def bind(self, name: str, outs: list[Any], ins: list[Any], **attrs: Any) -> Callable[[], None]:
        """Return the kernel as a call without arguments."""
        condition = SimpleNamespace(ins=[spec(a) for a in ins], outs=[spec(a) for a in outs], attrs=attrs)
        code = "f32" if any(a is not None and a.dtype == np.float32 for a in (*ins, *outs)) else "u32"
        fitting = [k for k in self.found[name] if code in k[2] and (k[3] is None or k[3](condition))]
        fn = max(fitting, key=lambda k: k[0])[1]
        out_views, in_views = [view(a) for a in outs], [view(a) for a in ins]
        return lambda: fn(None, out_views, in_views, attrs)


def view(array: Any) -> Any:
    return None if array is None else SimpleNamespace(array=array, shape=array.shape, dtype=array.dtype)


def spec(array: Any) -> Any:
    if array is None:
        return None
    return SimpleNamespace(
        shape=array.shape, dtype=str(array.dtype), size=array.size, contiguous=array.flags.c_contiguous
    )


def normal(*shape: int, scale: float = 1.0) -> Any:
    return (np.random.default_rng(0).standard_normal(shape) * scale).astype(np.float32)


def t(array: Any) -> torch.Tensor:
    return torch.from_numpy(array)


def best(call: Callable[[], Any], seconds: float = 0.02) -> float:
    """Return the time of one call: the mean over a stretch of about 20 ms, once the other side's threads sleep."""
    time.sleep(0.1)
    call()
    start = time.perf_counter()
    count = 0
    while True:
        call()
        count += 1
        passed = time.perf_counter() - start
        if passed > seconds:
            return passed / count


def elementwise(k: Kernels) -> Iterator[Case]:
    x, g = normal(1 << 22), normal(1 << 22)
    out, tx, tg = np.empty_like(x), t(x), t(g)
    yield "add 1 element", k.bind("add", [out[:1]], [x[:1], g[:1]]), lambda a=tx[:1], b=tg[:1]: a + b
    tout = torch.empty_like(tx)
    yield "add 4M", k.bind("add", [out], [x, g]), lambda: torch.add(tx, tg, out=tout)
    for name in ("exp", "tanh", "erf", "sqrt", "sin"):
        yield f"{name} 4M", k.bind(name, [out], [x]), partial(getattr(torch, name), tx, out=tout)
    yield "gelu 4M", k.bind("nn.gelu", [out], [x], approximate="none"), lambda: F.gelu(tx)
    yield (
        "gelu tanh 4M",
        k.bind("nn.gelu", [out], [x], approximate="tanh"),
        lambda: F.gelu(tx, approximate="tanh"),
    )
    gelu_vjp = torch.ops.aten.gelu_backward
    yield "gelu_vjp 4M", k.bind("nn.gelu_vjp", [out], [g, x], approximate="none"), lambda: gelu_vjp(tg, tx)
    yield "silu 4M", k.bind("nn.silu", [out], [x]), lambda: F.silu(tx)
    yield "sigmoid 4M", k.bind("nn.sigmoid", [out], [x]), lambda: torch.sigmoid(tx, out=tout)
    yield "relu 4M", k.bind("nn.relu", [out], [x]), lambda: F.relu(tx)
    yield "softplus 4M", k.bind("nn.softplus", [out], [x], beta=1.0, threshold=20.0), lambda: F.softplus(tx)
    state = np.array([1, 2, 0, 0], np.uint32)
    yield "dropout 4M", k.bind("nn.dropout", [out], [x, state], p=0.5, relative=0), lambda: F.dropout(tx, 0.5)
    yield "sum 4M", k.bind("sum", [out[:1].reshape(())], [x], axis=(0,), keepdims=False), lambda: tx.sum()
    m, tm = x.reshape(4096, 1024), tx.view(4096, 1024)
    yield "sum axis 0 4M", k.bind("sum", [out[:1024]], [m], axis=(0,), keepdims=False), lambda: tm.sum(0)
    yield "sum axis 1 4M", k.bind("sum", [out[:4096]], [m], axis=(1,), keepdims=False), lambda: tm.sum(1)


def products(k: Kernels) -> Iterator[Case]:
    for n in (64, 512, 1024, 2048):
        a, b, out = normal(n, n), normal(n, n), np.empty((n, n), np.float32)
        yield f"matmul {n}", k.bind("matmul", [out], [a, b]), partial(torch.matmul, t(a), t(b))
        yield f"matmul {n} transposed", k.bind("matmul", [out], [a, b.T]), partial(torch.matmul, t(a), t(b).T)
    x, w, bias, out = normal(64, 784), normal(256, 784), normal(256), np.empty((64, 256), np.float32)
    yield "linear 64x784x256", k.bind("nn.linear", [out], [x, w, bias]), lambda: F.linear(t(x), t(w), t(bias))


def rows(k: Kernels) -> Iterator[Case]:
    x, g = normal(4096, 1024), normal(4096, 1024)
    out, tx, tg = np.empty_like(x), t(x), t(g)
    ty = torch.softmax(tx, 1)
    y = ty.numpy()
    yield "softmax 4M", k.bind("nn.softmax", [out], [x], axis=1), lambda: torch.softmax(tx, 1)
    soft_vjp = torch.ops.aten._softmax_backward_data
    yield (
        "softmax_vjp 4M",
        k.bind("nn.softmax_vjp", [out], [g, y], axis=1),
        lambda: soft_vjp(tg, ty, 1, torch.float32),
    )
    yield "log_softmax 4M", k.bind("nn.log_softmax", [out], [x], axis=1), lambda: torch.log_softmax(tx, 1)
    yield "softmax axis 0 4M", k.bind("nn.softmax", [out], [x], axis=0), lambda: torch.softmax(tx, 0)
    w, b = normal(1024), normal(1024)
    mean, rstd = np.empty((4096, 1), np.float32), np.empty((4096, 1), np.float32)
    ours = k.bind("nn.layer_norm", [out, mean, rstd], [x, w, b], normalized_shape=(1024,), eps=1e-5)
    yield "layer_norm 4M", ours, lambda: F.layer_norm(tx, (1024,), t(w), t(b))
    ours()
    grads = [np.empty_like(x), np.empty_like(w), np.empty_like(b)]
    ours = k.bind("nn.layer_norm_vjp", grads, [g, x, w, mean, rstd], normalized_shape=(1024,))
    vjp = torch.ops.aten.native_layer_norm_backward
    yield (
        "layer_norm_vjp 4M",
        ours,
        lambda: vjp(tg, tx, (1024,), t(mean), t(rstd), t(w), t(b), (True, True, True)),
    )
    target = np.random.default_rng(1).integers(0, 1024, 4096).astype(np.int32)
    long, how = t(target).long(), {"reduction": "mean", "ignore_index": -100, "label_smoothing": 0.0}
    loss, lse = np.empty((), np.float32), np.empty(4096, np.float32)
    yield (
        "cross_entropy 4M",
        k.bind("nn.cross_entropy", [loss, lse], [x, target, None], **how),
        lambda: F.cross_entropy(tx, long),
    )
    leaf = tx.clone().requires_grad_()
    one = np.ones((), np.float32)
    ours = (k.bind("nn.cross_entropy", [loss, lse], [x, target, None], **how),
            k.bind("nn.cross_entropy_vjp", [out], [one, x, target, None, lse], **how))  # fmt: skip
    yield (
        "cross_entropy both 4M",
        lambda: [f() for f in ours],
        lambda: torch.autograd.grad(F.cross_entropy(leaf, long), leaf),
    )


def planes(k: Kernels) -> Iterator[Case]:
    x = normal(16, 64, 56, 56)
    out, tx = np.empty_like(x), t(x)
    w, b = normal(64), normal(64)
    stats = [np.empty(64, np.float32) for _ in range(3)]
    ours = k.bind("nn.batch_norm_train", [out, *stats], [x, w, b], eps=1e-5)
    yield "batch_norm 16x64x56x56", ours, lambda: F.batch_norm(tx, None, None, t(w), t(b), True)
    ours()
    grads = [np.empty_like(x), np.empty_like(w), np.empty_like(b)]
    leaf = tx.clone().requires_grad_()
    normalised = F.batch_norm(leaf, None, None, t(w).requires_grad_(), t(b).requires_grad_(), True)
    yield (
        "batch_norm_vjp",
        k.bind("nn.batch_norm_vjp", grads, [x, x, w, stats[0], stats[2]]),
        lambda: torch.autograd.grad(normalised, leaf, tx, retain_graph=True),
    )
    yield from pools(k, x, tx)
    for name, shape, o, kernel in (
        ("conv 64x1x8x8->32", (64, 1, 8, 8), 32, 3),
        ("conv 64x32x4x4->64", (64, 32, 4, 4), 64, 3),
        ("conv 16x64x56x56->64", (16, 64, 56, 56), 64, 3),
        ("conv 1x1 16x64x56x56->256", (16, 64, 56, 56), 256, 1),
    ):
        yield from convolutions(k, name, shape, o, kernel)


def pools(k: Kernels, x: Any, tx: torch.Tensor) -> Iterator[Case]:
    how = {"kernel": (2, 2), "stride": (2, 2), "padding": ((0, 0), (0, 0)), "output_size": (28, 28)}
    y, index = np.empty((16, 64, 28, 28), np.float32), np.empty((16, 64, 28, 28), np.int32)
    yield (
        "max_pool 2x2",
        k.bind("nn.max_pool", [y, index], [x], dilation=(1, 1), **how),
        lambda: F.max_pool2d(tx, 2, return_indices=True),
    )
    more = {"count_include_pad": True, "divisor_override": None}
    yield "avg_pool 2x2", k.bind("nn.avg_pool", [y], [x], **how, **more), lambda: F.avg_pool2d(tx, 2)


def convolutions(k: Kernels, name: str, shape: tuple[int, ...], o: int, kernel: int) -> Iterator[Case]:
    x, w, b = normal(*shape), normal(o, shape[1], kernel, kernel), normal(o)
    pad = kernel // 2
    how = {"stride": (1, 1), "padding": ((pad, pad),) * 2, "dilation": (1, 1), "groups": 1}
    y = np.empty((shape[0], o, *shape[2:]), np.float32)
    g, gx, gw = normal(*y.shape), np.empty_like(x), np.empty_like(w)
    tx, tw, tb, tg = t(x), t(w), t(b), t(g)
    yield name, k.bind("nn.conv", [y], [x, w, b], **how), lambda: F.conv2d(tx, tw, tb, padding=pad)
    grad_x, grad_w = torch.nn.grad.conv2d_input, torch.nn.grad.conv2d_weight
    yield (
        f"{name} input grad",
        k.bind("nn.conv_input_grad", [gx], [g, w], input_shape=x.shape, **how),
        lambda: grad_x(x.shape, tw, tg, padding=pad),
    )
    yield (
        f"{name} weight grad",
        k.bind("nn.conv_weight_grad", [gw], [g, x], weight_shape=w.shape, **how),
        lambda: grad_w(tx, w.shape, tg, padding=pad),
    )


def optimisers(k: Kernels) -> Iterator[Case]:
    shapes = ((256, 784), (256,), (10, 256), (10,))
    p, g, m = ([normal(*s) for s in shapes] for _ in range(3))
    v = [np.abs(a) for a in m]
    lr, step = np.float32(1e-3).reshape(()), np.float32(3).reshape(())
    how = {"n": 4, "beta1": 0.9, "beta2": 0.999, "eps": 1e-8, "weight_decay": 0.01, "decoupled": True,
           "maximize": False}  # fmt: skip
    ours = k.bind("optim.adam_step", [*p, *m, *v], [*p, *g, *m, *v, lr, step], **how)
    for fused in (False, True):
        parameters = [t(a.copy()).requires_grad_() for a in p]
        for parameter, grad in zip(parameters, g, strict=True):
            parameter.grad = t(grad)
        peer = torch.optim.AdamW(parameters, lr=1e-3, fused=fused)
        yield f"adamw step MLP ({'fused' if fused else 'default'} peer)", ours, peer.step


FAMILIES = (elementwise, products, rows, planes, optimisers)


def serve(side: str) -> None:
    """Answer ``next`` with the name of the next case, and ``time`` with one measurement of this side of it."""
    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"].split(",")[0]))
    kernels = Kernels()
    cases = (case for family in FAMILIES for case in family(kernels))
    call: Callable[[], Any] = list
    for line in sys.stdin:
        if line.strip() == "next":
            name, ours, peer = next(cases, ("", list, list))
            call = ours if side == "ours" else peer
            print(name, flush=True)
        else:
            print(best(call), flush=True)


def ask(side: subprocess.Popen[str], what: str) -> str:
    assert side.stdin is not None and side.stdout is not None
    side.stdin.write(f"{what}\n")
    side.stdin.flush()
    answer = side.stdout.readline()
    if not answer:
        raise RuntimeError("a side of the benchmark has died; its traceback is above.")
    return answer.strip()


def main(words: list[str]) -> None:
    ours, peer = (
        subprocess.Popen(
            [sys.executable, __file__, "--side", side],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for side in ("ours", "peer")
    )
    print(f"{'kernel':36}{'ours µs':>12}{'peer µs':>12}{'ratio':>8}")
    while name := ask(ours, "next"):
        ask(peer, "next")
        if words and not any(w in name for w in words):
            continue
        for side in (ours, peer):
            ask(side, "time")
        pairs = [(float(ask(ours, "time")), float(ask(peer, "time"))) for _ in range(ROUNDS)]
        mine, theirs = (min(p[i] for p in pairs) * 1e6 for i in (0, 1))
        print(f"{name:36}{mine:12.1f}{theirs:12.1f}{theirs / mine:8.2f}", flush=True)
    for side in (ours, peer):
        side.kill()


if __name__ == "__main__":
    if sys.argv[1:2] == ["--side"]:
        serve(sys.argv[2])
    else:
        main(sys.argv[1:])
