"""Cases of neighbouring systems that concern kernels (VUL-04, -05, -06, -09), with the answers given there."""

from __future__ import annotations

import math

import numpy as np
import pytest

import grilly

F = grilly.functional
INF = float("inf")


@pytest.mark.parametrize("n", [1, 7, 8, 9, 31, 32, 33, 63, 64, 65, 127, 128, 129, 1023, 1025])
def test_vul_04_any_subgroup_width(vk, n):
    x = vk.put(np.arange(n, dtype="f4"))
    assert x.sum().item() == n * (n - 1) / 2
    assert x.max().item() == n - 1 and x.argmax().item() == n - 1
    rows = vk.put(np.random.default_rng(n).standard_normal((5, n)).astype("f4"))
    np.testing.assert_allclose(F.softmax(rows, -1).sum(-1).numpy(), np.ones(5), atol=1e-6)
    if n > 1:
        normed = F.layer_norm(rows, (n,)).numpy().astype("f8")
        np.testing.assert_allclose(normed.mean(1), np.zeros(5), atol=1e-6)
        exact = rows.numpy().astype("f8").var(1)
        np.testing.assert_allclose(normed.var(1), exact / (exact + 1e-5), rtol=1e-5)


def test_vul_05_sums_of_half_precision_do_not_overflow(vk):
    a = vk.put(np.full((1, 1024), 16, "f2"))
    b = vk.put(np.repeat(np.array([16, -16], "f2"), 512)[:, None].copy())
    assert (a @ b).item() == 0
    assert (a.to("float32") @ a.to("float32").T).item() == 262144
    assert a.sum().item() == 16384 and a.mean().item() == 16
    assert F.linear(a, b.T).item() == 0


def test_vul_06_activations_of_large_values(vk):
    x = vk.put(np.array([20.625, -20.625, 100, 1e4], "f4"))
    assert F.gelu(x, approximate="tanh").tolist() == [20.625, 0, 100, 1e4]
    assert F.gelu(x).tolist() == [20.625, 0, 100, 1e4]
    assert vk.put(np.array([100, -100, 1e30, INF], "f4")).tanh().tolist() == [1, -1, 1, 1]
    ends = vk.put(np.array([1e4, -1e4], "f4"))
    assert F.sigmoid(ends).tolist() == [1, 0]
    assert F.silu(ends).tolist() == [1e4, 0]
    assert F.softplus(vk.put(np.array([100], "f4"))).tolist() == [100]


def test_vul_09_rounding_remainders_and_signed_zero(vk):
    def put(*values):
        return vk.put(np.array(values, "f4"))

    assert grilly.round(put(0.5, 1.5, 2.5, -2.5)).tolist() == [0, 2, 2, -2]
    assert grilly.remainder(put(-5.5, 5.5), put(3, -3)).tolist() == [0.5, -0.5]
    assert (put(-7, 7) // 2).tolist() == [-4, 3]
    assert (put(-7, 7) % 3).tolist() == [2, 1]
    tiny = grilly.exp(put(-90)).item()
    assert tiny == 0 or tiny == pytest.approx(math.exp(-90), rel=1e-3)
    assert grilly.atan2(put(0.0, -0.0), put(-1, -1)).tolist() == pytest.approx([math.pi, -math.pi])
