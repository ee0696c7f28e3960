"""Running one module of ours beside PyTorch's: the same state dict in, the same outputs and gradients out."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest
import torch

import grilly_core as grilly
from grilly_core import nn

#: Device and dtype of ours, and how far outputs and gradients may be from PyTorch's on the CPU in the same dtype.
PLACES = {
    "cpu-float32": ("cpu", "float32", 2e-5, 2e-4),
    "cpu-float64": ("cpu", "float64", 1e-9, 1e-9),
    "vulkan-float32": ("vulkan:0", "float32", 5e-5, 3e-4),
}


def need(place: str) -> None:
    """Skip the test if the place's device is not there; where Vulkan is required it must be."""
    device = PLACES[place][0]
    if device == "cpu" or os.environ.get("GRILLY_VULKAN_REQUIRED") == "1":
        return
    try:
        grilly.zeros(1, device=device).numpy()
    except (grilly.errors.DeviceError, grilly.errors.PluginError) as error:
        pytest.skip(f"no {device}: {error}")


def flat(value: Any) -> list[Any]:
    """Return the tensors of nested tuples, in order."""
    if isinstance(value, tuple | list):
        return [t for part in value for t in flat(part)]
    return [value] if hasattr(value, "shape") else []


def paired(make: Any, rng: np.random.Generator, place: str, scale: float = 0.5) -> tuple[Any, Any]:
    """Return ours and PyTorch's module with the same random parameters, loaded through PyTorch's state dict."""
    device, dtype, _, _ = PLACES[place]
    theirs = make(torch.nn).to(getattr(torch, dtype))
    with torch.no_grad():
        for p in theirs.parameters():
            p.copy_(torch.from_numpy(scale * rng.normal(size=tuple(p.shape))))
    ours = make(nn).to(dtype=dtype)
    assert ours.load_state_dict(theirs.state_dict()) == ([], [])
    assert list(ours.state_dict()) == list(theirs.state_dict())
    return ours.to(device), theirs


def leaves(arrays: list[np.ndarray], place: str) -> tuple[list[Any], list[Any]]:
    """Return the arrays as tensors of ours and of PyTorch; the floating ones require grad."""
    device, dtype, _, _ = PLACES[place]
    a = [grilly.asarray(x, dtype=dtype if x.dtype.kind == "f" else None, device=device) for x in arrays]
    b = [torch.from_numpy(x.copy()) for x in arrays]
    b = [t.to(getattr(torch, dtype)) if t.is_floating_point() else t for t in b]
    for x, t, u in zip(arrays, a, b, strict=True):
        if x.dtype.kind == "f":
            t.requires_grad_()
            u.requires_grad_()
    return a, b


def host(t: Any) -> np.ndarray:
    """Return a tensor of either library as an array."""
    return t.detach().cpu().numpy()


def compare(
    ours: Any, theirs: Any, arrays: list[np.ndarray], rng: np.random.Generator, place: str, form: Any = None,
    least: float = 0.0,
) -> None:  # fmt: skip
    """Compare outputs, gradients of the inputs and gradients of the parameters.

    `form(library, tensors)` makes the call's arguments of the input tensors, if they are not the arguments themselves.
    Gradients may differ by `least`, where PyTorch is less exact than the place asks for.
    """
    _, _, near, near_grad = PLACES[place]
    near_grad = max(near_grad, least)
    a, b = leaves(arrays, place)
    out = flat(ours(*(form(grilly, a) if form else a)))
    want = flat(theirs(*(form(torch, b) if form else b)))
    assert len(out) == len(want)
    mine, other = 0.0, 0.0
    for o, w in zip(out, want, strict=True):
        np.testing.assert_allclose(host(o), host(w), rtol=near, atol=near)
        if w.requires_grad:
            assert o.requires_grad
            g = rng.normal(size=tuple(w.shape))
            mine = mine + (o * grilly.asarray(g, dtype=o.dtype, device=o.device)).sum()
            other = other + (w * torch.from_numpy(np.asarray(g)).to(w.dtype)).sum()
    if not isinstance(other, torch.Tensor):
        return
    mine.backward()
    other.backward()
    compare_gradients(a, b, near_grad)
    if hasattr(theirs, "named_parameters"):
        found = dict(ours.named_parameters())
        compare_gradients(
            [found[n] for n, _ in theirs.named_parameters()], list(theirs.parameters()), near_grad
        )


def compare_gradients(ours: list[Any], theirs: list[Any], near: float) -> None:
    """Compare ``.grad``, which both have or both lack; errors count against the largest element."""
    for p, q in zip(ours, theirs, strict=True):
        if q.grad is None:
            assert p.grad is None or not host(p.grad).any()
            continue
        want = host(q.grad)
        got = host(p.grad) if p.grad is not None else np.zeros_like(want)
        np.testing.assert_allclose(got, want, rtol=near, atol=near * max(1.0, np.abs(want).max(initial=0)))
