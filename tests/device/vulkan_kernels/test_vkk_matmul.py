"""Products of matrices: sizes round the tiles, layouts, batches, types."""

from __future__ import annotations

import numpy as np
import pytest


@pytest.mark.parametrize("m", [1, 15, 17, 33, 65])
@pytest.mark.parametrize("n", [1, 16, 31, 130])
@pytest.mark.parametrize("k", [1, 16, 37])
def test_sizes(vk, rng, m, n, k):
    a, b = (rng.standard_normal(s).astype("f4") for s in ((m, k), (k, n)))
    np.testing.assert_allclose(vk("matmul", a, b), a.astype("f8") @ b, rtol=1e-5, atol=1e-5)


def test_large_tiles(vk, rng, monkeypatch):
    from grilly_backend_vulkan.kernels import matmul_general

    monkeypatch.setattr(matmul_general, "_tile", lambda *sizes: 8)
    a, b = (rng.standard_normal(s).astype("f4") for s in ((130, 40), (40, 140)))
    np.testing.assert_allclose(vk("matmul", a, b), a.astype("f8") @ b, rtol=1e-5, atol=1e-5)


def test_transposed_and_expanded_operands(vk, rng):
    a, b = (rng.standard_normal(s).astype("f4") for s in ((20, 33), (33, 20)))
    expected = a.T.astype("f8") @ b.T
    y = vk("matmul", vk.put(a).permute(1, 0), vk.put(b).permute(1, 0))
    np.testing.assert_allclose(y, expected, rtol=1e-5, atol=1e-5)
    x = vk.put(a[:, None]).expand(20, 4, 33)
    y = vk("matmul", x, vk.put(b[None]).expand(20, 33, 20))
    np.testing.assert_allclose(
        y, np.broadcast_to(a[:, None], (20, 4, 33)) @ b.astype("f8"), rtol=1e-5, atol=1e-5
    )


@pytest.mark.parametrize("order", [(0, 1, 2, 3, 4, 5), (2, 0, 1, 3, 4, 5), (3, 2, 1, 0, 5, 4)])
def test_batches_of_any_layout(vk, rng, order):
    a, b = (
        rng.standard_normal((2, 3, 2, 3, 4, 5)).astype("f4"),
        rng.standard_normal((2, 3, 2, 3, 5, 4)).astype("f4"),
    )
    x, y = a.transpose(order), b.transpose(order)
    if order[-1] == 4:
        x, y = x[..., :4, :], y[..., :, :4]
        x, y = x.swapaxes(-1, -2), y.swapaxes(-1, -2)
    left = vk.put(np.ascontiguousarray(x.transpose(np.argsort(order)))).permute(*order)
    right = vk.put(np.ascontiguousarray(y.transpose(np.argsort(order)))).permute(*order)
    np.testing.assert_allclose(vk("matmul", left, right), x.astype("f8") @ y, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("code", ["i4", "u1", "i8", "f8"])
def test_types(vk, rng, code):
    a, b = (rng.integers(0, 9, s).astype(code) for s in ((9, 20), (20, 7)))
    np.testing.assert_array_equal(vk("matmul", a, b), a @ b)


@pytest.mark.parametrize("k", [511, 1500, 300_000])
@pytest.mark.parametrize("code", ["f4", "i4"])
def test_long_sums_in_parts(vk, rng, k, code):
    a, b, bias = (rng.integers(-3, 4, s).astype(code) for s in ((2, k), (k, 3), (3,)))
    np.testing.assert_array_equal(vk("matmul", a, b), a @ b)
    if code == "f4":
        np.testing.assert_array_equal(vk("nn.linear", a, b.T.copy(), bias), a @ b + bias)


def test_half_precision_adds_in_single(vk):
    a, b = (
        np.full((1, 1024), 16, "f2"),
        np.concatenate([np.full(512, 16), np.full(512, -16)]).astype("f2")[:, None],
    )
    np.testing.assert_array_equal(vk("matmul", a, b), [[0]])


def test_empty_sums_are_zero(vk):
    np.testing.assert_array_equal(
        vk("matmul", np.zeros((2, 0), "f4"), np.zeros((0, 3), "f4")), np.zeros((2, 3))
    )


@pytest.mark.parametrize("bias", [True, False])
def test_linear(vk, rng, bias):
    x, w, b = (rng.standard_normal(s).astype("f4") for s in ((3, 5, 70), (33, 70), (33,)))
    expected = x.astype("f8") @ w.T + (b if bias else 0)
    np.testing.assert_allclose(vk("nn.linear", x, w, b if bias else None), expected, rtol=1e-5, atol=1e-5)
