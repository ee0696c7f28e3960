"""Attention in tiles against the CPU's body in float64: every width of a shader, and operands laid out otherwise."""

from __future__ import annotations

import numpy as np
import pytest

import grilly_core
from grilly_core import config, registry


def drawn(*shape):
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def operands(h, g, m, n, e, f):
    return drawn(1, h, m, e), drawn(1, g, n, e), drawn(1, g, n, f)


def with_gradients(arrays, g, dtype, device):
    xs = [grilly_core.asarray(x, dtype=dtype, device=device).requires_grad_() for x in arrays]
    with config.fallback("error"):
        y = grilly_core.functional.scaled_dot_product_attention(*xs, is_causal=True, enable_gqa=True)
        y.backward(grilly_core.asarray(g, dtype=dtype, device=device))
    return [np.array(t.detach().numpy()) for t in (y, *(x.grad for x in xs))]


@pytest.mark.parametrize(("e", "f"), [(30, 22), (64, 48), (128, 128), (256, 200)])
def test_widths(vk, e, f):
    """Queries and keys that fill no tile, forward and backward."""
    arrays, g = operands(2, 1, 140, 133, e, f), drawn(1, 2, 140, f)
    found, expected = (
        with_gradients(arrays, g, "float32", vk.device),
        with_gradients(arrays, g, "float64", "cpu"),
    )
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, atol=2e-6 * max(1.0, np.abs(b).max()))


def test_heads_behind_positions_are_read_in_place(vk, wide):
    """``(batch, positions, heads, width)`` permuted, and a slice that no vector load may touch."""
    x = drawn(1, 20, 2, 33)
    y = vk.put(x).permute(0, 2, 1, 3)[..., 1:]
    with config.fallback("error"), grilly_core.Device(vk.device):
        found = registry.get("nn.attention")(y, y, y)
    turned = np.swapaxes(x, 1, 2)[..., 1:].astype(np.float64)
    np.testing.assert_allclose(found.numpy(), wide("nn.attention", turned, turned, turned), atol=2e-6)
