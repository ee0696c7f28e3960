"""The Fourier transform against NumPy in double precision."""

from __future__ import annotations

import math

import numpy as np
import pytest

from grilly_backend_vulkan.kernels.fft import pieces, radices


def check(vk, rng, shape, axis, inverse, scale=1.0):
    x = (rng.standard_normal(shape) + 1j * rng.standard_normal(shape)).astype("c8")
    actual = vk("fft.dft", x, axis=axis, inverse=inverse, scale=scale)
    wide = x.astype("c16")
    expected = scale * (
        np.fft.ifft(wide, axis=axis, norm="forward") if inverse else np.fft.fft(wide, axis=axis)
    )
    error = np.sqrt(np.mean(np.abs(actual - expected) ** 2) / np.mean(np.abs(expected) ** 2))
    assert error <= 6e-8 * (2 + math.log2(shape[axis]))


SMOOTH = [1, 2, 3, 4, 5, 6, 7, 8, 9, 16, 49, 60, 64, 210, 343, 729, 1000, 1024, 1458, 2048]
LONG = [4096, 10000, 19683, 1 << 20, 7**8]
OTHER = [11, 13, 97, 1009, 4099, 11 * 4096]


@pytest.mark.parametrize("n", SMOOTH + LONG + OTHER)
@pytest.mark.parametrize("inverse", [False, True])
def test_lengths(vk, rng, n, inverse):
    check(vk, rng, (3 if n < 50000 else 1, n), 1, inverse)


@pytest.mark.parametrize(
    "shape, axis",
    [((64, 3), 0), ((3, 8, 5), 1), ((2, 30, 2, 3), -3), ((70, 1, 2), 0), ((4, 4096, 3), 1), ((13, 4), 0),
     ((2, 37, 5), 1), ((2, 64 * 64 * 600, 1), 1)],
)  # fmt: skip
def test_axes(vk, rng, shape, axis):
    check(vk, rng, shape, axis, True, scale=0.25)


def test_a_view_and_an_empty_batch(vk, rng):
    x = (rng.standard_normal((6, 8)) + 1j * rng.standard_normal((6, 8))).astype("c8")
    turned = vk.put(x).permute(1, 0)
    np.testing.assert_allclose(vk("fft.dft", turned, axis=0), np.fft.fft(x.T, axis=0), atol=1e-5)
    assert vk("fft.dft", x[:0], axis=1).shape == (0, 8)


@pytest.mark.parametrize("n", [1, 2, 48, 2048, 4096, 1 << 22, 3**10, 5**6 * 7, 7**8, 1 << 26])
def test_pieces_multiply_to_the_length(n):
    found = pieces(n)
    assert math.prod(found) == n
    assert max(found) <= 2048
    for m in found:
        assert math.prod(radices(m)) == m


def test_other_prime_factors_have_no_pieces():
    assert [pieces(n) for n in (11, 2 * 13, 4099)] == [None] * 3
