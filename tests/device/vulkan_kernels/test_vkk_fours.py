"""Elementwise kernels with four elements a thread: the same bits as one a thread, for every type and end of array.

Oracle: the one-element path, taken by operands with gaps, which is compared with NumPy elsewhere.
"""

from __future__ import annotations

import numpy as np
import pytest
from tests.device.vulkan_kernels.test_vkk_elementwise import CODES

import grilly
from grilly_backend_vulkan.kernels import mapping

SIZES = (8192, 8193, 8195, 10007)


def _values(code, n, rng):
    kind = np.dtype(CODES[code])
    if kind.kind == "f":
        return (rng.standard_normal(n) * 3).astype(kind)
    if kind.kind == "b":
        return rng.integers(0, 2, n).astype(kind)
    return rng.integers(1, 100, n).astype(kind)


def _both(vk, arrays, function):
    """The op on packed operands, and on the same with gaps."""
    packed = [vk.put(a) for a in arrays]
    gaps = [vk.put(np.repeat(a, 2))[::2] if a.ndim else vk.put(a) for a in arrays]
    return function(*packed).numpy(), function(*gaps).numpy()


@pytest.fixture
def ranks(monkeypatch):
    """The ranks that launches were made with."""
    seen = []
    whole = mapping._in_fours

    def noting(*given):
        seen.append(whole(*given))
        return seen[-1]

    monkeypatch.setattr(mapping, "_in_fours", noting)
    return seen


@pytest.mark.parametrize("code", [c for c in CODES if np.dtype(CODES[c]).itemsize <= 4])
@pytest.mark.parametrize("n", SIZES)
def test_every_type_and_end(vk, rng, ranks, code, n):
    a, b = (_values(code, n, rng) for _ in range(2))
    ops = [lambda x, y: x + y, lambda x, y: x < y, lambda x, y: grilly.where(x == y, x, y)]
    if code != "b1":
        ops.append(lambda x, y: abs(x) * 3)
    if "f" in code:
        a[::3] = np.nan
        ops.append(lambda x, y: grilly.isnan(x))
    for op in ops:
        packed, gaps = _both(vk, [a, b], op)
        assert packed.tobytes() == gaps.tobytes()
    assert True in ranks and False in ranks


@pytest.mark.parametrize("code", ["f32", "f16"])
def test_one_number_for_all_and_unaligned_operands(vk, rng, code):
    a = _values(code, 9001, rng)
    x = vk.put(a)
    for op in (lambda t: t + 2.0, lambda t: 1.0 / (abs(t) + 1.0), lambda t: grilly.where(t > 0, t, 0.0)):
        expected = op(vk.put(np.repeat(a, 2))[::2]).numpy()
        assert op(x).numpy().tobytes() == expected.tobytes()
        for start in (1, 2, 3, 4):
            assert op(x[start:]).numpy().tobytes() == expected[start:].tobytes()


@pytest.mark.parametrize("source", ["f32", "f16", "bf16"])
@pytest.mark.parametrize("target", ["float32", "float16", "bfloat16", "int32", "bool"])
def test_casts(vk, rng, source, target):
    bits = rng.integers(0, 2**32, 9003, dtype=np.uint64).astype("u4")
    x = vk.put(np.where(np.isnan(bits.view("f4")), 1.0, bits.view("f4")).astype("f4")).to(source)
    if target == "int32":
        x = grilly.minimum(grilly.maximum(x, -1e4), 1e4)
    y = grilly.stack([x, x], axis=1).reshape(-1)[::2]
    assert x.to(target).to("float32").numpy().tobytes() == y.to(target).to("float32").numpy().tobytes()


@pytest.mark.parametrize("code", ["f32", "f16"])
@pytest.mark.parametrize("name", ["relu", "gelu", "silu", "sigmoid", "softplus"])
def test_activations_and_gradients(vk, rng, name, code):
    a = _values(code, 8195, rng)
    results = []
    for x in (vk.put(a), vk.put(np.repeat(a, 2))[::2]):
        x = x.detach().requires_grad_(True)
        y = getattr(grilly.functional, name)(x)
        y.sum().backward()
        results.append((y.detach().numpy().tobytes(), x.grad.numpy().tobytes()))
    assert results[0] == results[1]
