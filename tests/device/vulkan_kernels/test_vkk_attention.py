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


DECODE = {
    "one query": {"h": 4, "g": 4, "m": 1, "n": 700, "e": 64, "f": 64},
    "heads that share keys": {"h": 8, "g": 2, "m": 1, "n": 513, "e": 64, "f": 40},
    "several queries": {"h": 2, "g": 1, "m": 3, "n": 300, "e": 30, "f": 22},
    "eight rows, wide": {"h": 8, "g": 1, "m": 1, "n": 257, "e": 256, "f": 256},
    "one part": {"h": 3, "g": 3, "m": 2, "n": 256, "e": 16, "f": 8},
    "one key": {"h": 1, "g": 1, "m": 1, "n": 1, "e": 4, "f": 1},
}


@pytest.mark.parametrize("name", DECODE)
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_few_queries(vk, wide, name, dtype):
    """Decoding: the keys are cut into parts. Oracle: the CPU's body in float64 on the rounded operands."""
    arrays = [grilly_core.asarray(x, dtype=dtype) for x in operands(**DECODE[name])]
    attrs = {"causal": "lower_right"} if DECODE[name]["m"] > 1 else {}
    seen = []
    with config.fallback("error"), pytest.MonkeyPatch.context() as patch:
        stream = vk.context.runtime.stream
        pipeline = stream.pipeline
        patch.setattr(stream, "pipeline", lambda name, *a: seen.append(name) or pipeline(name, *a))
        found = registry.get("nn.attention")(*(x.to(vk.device) for x in arrays), **attrs)
    expected = wide("nn.attention", *(x.to("float64").numpy() for x in arrays), **attrs)
    tolerance = {"float32": 2e-6, "float16": 2e-3, "bfloat16": 1.5e-2}[dtype]
    np.testing.assert_allclose(found.to("float32").numpy(), expected, atol=tolerance)
    assert any(name.startswith("attention_decode") for name in seen)


@pytest.mark.parametrize("kind", ["boolean", "added"])
def test_few_queries_with_masks_and_lengths(vk, wide, kind):
    """Rows of one group of heads have masks of their own; what nobody sees may be NaN."""
    q, k, v = operands(4, 2, 2, 600, 24, 24)
    rng = np.random.default_rng(0)
    q, k, v = (np.concatenate([x, x * 0.5]) for x in (q, k, v))
    seen = rng.random((2, 4, 2, 600)) < 0.3
    mask = seen if kind == "boolean" else rng.standard_normal(seen.shape).astype(np.float32)
    lengths = np.array([600, 290], np.int32)
    v[1, :, 290:] = np.nan
    with config.fallback("error"):
        found = registry.get("nn.attention")(*(vk.put(x) for x in (q, k, v, mask, lengths)))
    clean = np.where(np.isnan(v), 0, v)
    wider = mask if kind == "boolean" else mask.astype(np.float64)
    expected = wide("nn.attention", *(x.astype(np.float64) for x in (q, k, clean)), wider, lengths)
    np.testing.assert_allclose(found.numpy(), expected, atol=2e-6)


def test_a_query_that_sees_nothing_gets_zeros(vk):
    q, k, v = (vk.put(x) for x in operands(1, 1, 1, 300, 8, 8))
    mask = vk.put(np.zeros((1, 1, 1, 300), bool))
    assert not registry.get("nn.attention")(q, k, v, mask).numpy().any()


def test_gradients_of_few_queries(vk):
    arrays, g = operands(2, 1, 3, 300, 20, 20), drawn(1, 2, 3, 20)
    found, expected = (
        with_gradients(arrays, g, "float32", vk.device),
        with_gradients(arrays, g, "float64", "cpu"),
    )
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, atol=2e-6 * max(1.0, np.abs(b).max()))
