"""Rows held in registers: softmax, norms, sums and maxima and their gradients. Oracle: the CPU in float64."""

from __future__ import annotations

import numpy as np
import pytest

import grilly

F = grilly.functional
TERMS = (4, 12, 68, 1024, 1028, 2052, 8192, 8196)  # the last is too long to be held

OPS = {
    "softmax": lambda x, w: F.softmax(x, -1),
    "log_softmax": lambda x, w: F.log_softmax(x, -1),
    "layer_norm": lambda x, w: F.layer_norm(x, (x.shape[-1],), w, w * 0.5),
    "rms_norm": lambda x, w: F.rms_norm(x, (x.shape[-1],), w, 1e-5),
    "sum": lambda x, w: x.sum(-1),
    "amax": lambda x, w: x.amax(-1),
}


@pytest.mark.parametrize("terms", TERMS)
@pytest.mark.parametrize("name", OPS)
def test_values_and_gradients(vk, rng, name, terms):
    a = (rng.standard_normal((7, terms)) * 3 + 1).astype("f4")
    w, g = rng.standard_normal(terms).astype("f4"), rng.standard_normal((7, terms)).astype("f4")
    found = []
    for device, dtype in (("vulkan:0", "float32"), ("cpu", "float64")):
        x, weight = (grilly.asarray(v, dtype=dtype, device=device).requires_grad_(True) for v in (a, w))
        y = OPS[name](x, weight)
        grad = grilly.asarray(g if y.ndim == 2 else g[:, 0].copy(), dtype=dtype, device=device)
        y.backward(grad)
        parts = [y.detach(), x.grad] + ([weight.grad] if "norm" in name else [])
        found.append([p.cpu().numpy() for p in parts])
    for ours, exact in zip(*found, strict=True):
        scale = np.abs(exact).max() + 1
        assert np.abs(ours - exact).max() / scale < 3e-6, name


def test_infinities_and_nan(vk):
    """As IEEE says, row by row: nothing leaks into the neighbours."""
    a = np.zeros((5, 64), "f4")
    a[1, 3], a[2, 5], a[3] = np.nan, np.inf, -np.inf
    a[4, 7] = -np.inf
    x = vk.put(a)
    with np.errstate(invalid="ignore"):
        e = np.exp(a.astype("f8") - a.max(1, keepdims=True))
        np.testing.assert_allclose(F.softmax(x, -1).numpy(), e / e.sum(1, keepdims=True), rtol=1e-6)
        np.testing.assert_array_equal(x.sum(-1).numpy(), a.sum(1))
    np.testing.assert_array_equal(x.amax(-1).numpy(), a.max(1))


def test_a_row_that_does_not_begin_at_16_bytes(vk, rng):
    a = rng.standard_normal((1, 1025)).astype("f4")
    x = vk.put(a).reshape(-1)[1:].reshape(1, 1024)
    np.testing.assert_allclose(x.sum(-1).numpy(), a[:, 1:].astype("f8").sum(1), rtol=1e-5)
