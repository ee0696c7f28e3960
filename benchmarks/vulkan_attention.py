"""Causal attention on Vulkan against PyTorch's on CUDA: ``python benchmarks/vulkan_attention.py``.

Times are of one call, in microseconds, the best of three means after warming up. Without CUDA only our own times show.
"""

from __future__ import annotations

import sys
from pathlib import Path

# This file's folder would hide the package `vulkan`.
sys.path[0] = str(Path(__file__).parents[1])

import grilly
from benchmarks.timing import best
from grilly_core.device import open_context

SHAPE = (4, 16, 4096)  # batch, heads, positions


def ours(dtype: str, width: int, precision: str = "highest") -> tuple[float, float]:
    """Return the times forward, and forward with backward."""
    attention = grilly.functional.scaled_dot_product_attention
    wait = open_context("vulkan:0").synchronize
    *qkv, g = (grilly.randn(*SHAPE, width, device="vulkan:0").to(dtype) for _ in range(4))
    with grilly.fallback("error"), grilly.matmul_precision(precision):
        forward = best(lambda: attention(*qkv, is_causal=True), wait)
        watched = [x.detach().requires_grad_() for x in qkv]
        both = best(lambda: grilly.grad(attention(*watched, is_causal=True), watched, g), wait)
    return forward, both


def theirs(dtype: str, width: int) -> tuple[float, float] | None:
    """Return PyTorch's times, or None without CUDA."""
    try:
        import torch
    except ImportError:
        return None
    if not torch.cuda.is_available():
        return None
    attention, wait = torch.nn.functional.scaled_dot_product_attention, torch.cuda.synchronize
    *qkv, g = (torch.randn(*SHAPE, width, device="cuda", dtype=getattr(torch, dtype)) for _ in range(4))
    forward = best(lambda: attention(*qkv, is_causal=True), wait)
    watched = [x.clone().requires_grad_() for x in qkv]
    both = best(lambda: torch.autograd.grad(attention(*watched, is_causal=True), watched, g), wait)
    return forward, both


def decoding(dtype: str, keys: int, groups: int) -> tuple[float, float | None]:
    """Return our time, and PyTorch's, for one query of 32 heads of width 128 in a batch of 4."""
    sizes = [(4, 32, 1, 128), (4, groups, keys, 128), (4, groups, keys, 128)]
    attention = grilly.functional.scaled_dot_product_attention
    qkv = [grilly.randn(*s, device="vulkan:0").to(dtype) for s in sizes]
    with grilly.fallback("error"):
        mine = best(lambda: attention(*qkv, enable_gqa=True), open_context("vulkan:0").synchronize, 20)
    try:
        import torch
    except ImportError:
        return mine, None
    if not torch.cuda.is_available():
        return mine, None
    peer = torch.nn.functional.scaled_dot_product_attention
    others = [torch.randn(*s, device="cuda", dtype=getattr(torch, dtype)) for s in sizes]
    return mine, best(lambda: peer(*others, enable_gqa=groups < 32), torch.cuda.synchronize, 20)


def main() -> None:
    """Print the tables."""
    print(f"causal attention of (batch, heads, positions) {SHAPE}; times in µs, ratio of PyTorch's to ours")
    for dtype, precision in (("float32", "highest"), ("float32", "high"), ("float16", "highest")):
        for width in (64, 128):
            peer, mine = theirs(dtype, width), ours(dtype, width, precision)
            name = f'{dtype} "high"' if precision == "high" else dtype
            for i, what in enumerate(("forward", "forward + backward")):
                beside = "" if peer is None else f"  PyTorch {peer[i]:8.0f}  ratio {peer[i] / mine[i]:.2f}"
                print(f"{name:14} width {width:3} {what:18} {mine[i]:8.0f}{beside}", flush=True)
    print("one query of 32 heads, width 128, batch 4")
    for dtype, keys, groups in (
        ("float16", 4096, 32),
        ("float16", 4096, 8),
        ("float16", 32768, 8),
        ("float32", 4096, 32),
    ):
        mine, other = decoding(dtype, keys, groups)
        rate = 4 * groups * keys * 256 * (2 if dtype == "float16" else 4) / mine * 1e-3
        beside = "" if other is None else f"  PyTorch {other:8.0f}  ratio {other / mine:.2f}"
        print(f"{dtype:8} {keys:6} keys, {groups:2} groups {mine:8.0f} {rate:6.0f} GB/s{beside}", flush=True)


if __name__ == "__main__":
    main()
