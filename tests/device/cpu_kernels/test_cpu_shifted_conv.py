"""Convolution by shifted views; the oracle is a sum over taps in float64, and its transpose for the gradient."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("numba")

from grilly_backend_cpu import jit_setup
from grilly_backend_cpu.fast import shifted_conv, shifted_weight
from grilly_backend_cpu.kernels.conv_ways import Geometry

#: images (n, c, h, w), outputs, kernel, padding of each axis (low, high), dilation
CASES = [
    ((2, 16, 5, 17), 20, (3, 3), ((1, 1), (1, 1)), (1, 1)),
    ((1, 17, 30, 16), 33, (3, 5), ((1, 1), (2, 2)), (1, 1)),
    ((3, 16, 20, 18), 19, (3, 3), ((0, 0), (0, 0)), (2, 2)),
    ((2, 16, 12, 18), 16, (2, 4), ((0, 1), (1, 2)), (1, 1)),
    ((2, 20, 16, 16), 16, (1, 1), ((0, 0), (0, 0)), (1, 1)),
    ((1, 16, 40, 40), 30, (3, 3), ((2, 2), (2, 2)), (1, 2)),
    ((1, 16, 1, 9), 16, (3, 3), ((1, 1), (1, 1)), (1, 1)),
]


def padded(x: Any, padding: Any) -> Any:
    return np.pad(x.astype(np.float64), ((0, 0), (0, 0), *padding))


def taps(weight: Any, dilation: Any, size: Any) -> Any:
    """Yield each tap's weight (o, c) and where it reads in the padded image."""
    for a, b in np.ndindex(*weight.shape[2:]):
        at = a * dilation[0], b * dilation[1]
        yield weight[:, :, a, b], (..., *(slice(p, p + n) for p, n in zip(at, size, strict=True)))


@pytest.mark.parametrize("case", CASES)
def test_both_directions(case: Any, rng: np.random.Generator) -> None:
    shape, outputs, kernel, padding, dilation = case
    x = rng.standard_normal(shape, dtype=np.float32)
    weight = rng.standard_normal((outputs, shape[1], *kernel), dtype=np.float32)
    bias = rng.standard_normal(outputs, dtype=np.float32)
    wide = padded(x, padding)
    size = [n - (k - 1) * d for n, k, d in zip(wide.shape[2:], kernel, dilation, strict=True)]
    g = rng.standard_normal((shape[0], outputs, *size), dtype=np.float32)
    expected = np.zeros(g.shape) + bias[:, None, None]
    back = np.zeros(wide.shape)
    for part, where in taps(weight, dilation, size):
        expected += np.einsum("oc,nchw->nohw", part.astype(np.float64), wide[where])
        back[where] += np.einsum("oc,nohw->nchw", part.astype(np.float64), g)
    inside = tuple(slice(p[0], p[0] + n) for p, n in zip(padding, shape[2:], strict=True))
    low = [p[0] for p in padding]
    out, gx = np.full(g.shape, np.nan, np.float32), np.full(shape, np.nan, np.float32)
    geo = Geometry.of(shape, weight.shape, size, {
        "padding": padding, "stride": (1, 1), "dilation": dilation, "groups": 1})  # fmt: skip
    assert shifted_conv.serves(geo, x.dtype, shape[1], size[1])
    shifted_conv.convolve(x, weight, bias, out, low, dilation)
    shifted_conv.input_grad(g, weight, gx, low, dilation)
    np.testing.assert_allclose(out, expected, rtol=1e-4, atol=2e-4)
    np.testing.assert_allclose(gx, back[(..., *inside)], rtol=1e-4, atol=2e-4)


@pytest.mark.parametrize("rows", [512, 20])
@pytest.mark.parametrize("case", CASES)
def test_the_gradient_of_the_weight(
    case: Any, rows: int, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    shape, outputs, kernel, padding, dilation = case
    monkeypatch.setattr(shifted_weight, "_POSITIONS", rows)
    x = rng.standard_normal(shape, dtype=np.float32)
    wide = padded(x, padding)
    size = [n - (k - 1) * d for n, k, d in zip(wide.shape[2:], kernel, dilation, strict=True)]
    g = rng.standard_normal((shape[0], outputs, *size), dtype=np.float32)
    gw = np.full((outputs, shape[1], *kernel), np.nan, np.float32)
    expected = np.zeros(gw.shape)
    for (a, b), (_, where) in zip(np.ndindex(*kernel), taps(gw, dilation, size), strict=True):
        expected[:, :, a, b] = np.einsum("nohw,nchw->oc", g.astype(np.float64), wide[where])
    shifted_weight.weight_grad(g, x, gw, [p[0] for p in padding], dilation)
    np.testing.assert_allclose(gw, expected, rtol=1e-4, atol=2e-4)


def test_what_is_not_finite_reaches_only_the_taps_that_see_it(rng: np.random.Generator) -> None:
    x, g = rng.random((2, 32, 9, 9), np.float32), np.ones((2, 16, 9, 9), np.float32)
    x[1, 3, 0, 8] = np.inf
    gw = np.empty((16, 32, 3, 3), np.float32)
    shifted_weight.weight_grad(g, x, gw, (1, 1), (1, 1))
    reached = np.zeros((32, 3, 3), bool)
    reached[3, :2, 1:] = True  # not by the last row of taps, nor by the first column
    np.testing.assert_array_equal(~np.isfinite(gw), np.broadcast_to(reached, gw.shape))


def test_the_gradient_of_the_weight_does_not_depend_on_threads(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    x, g = rng.random((3, 32, 30, 30), np.float32), rng.random((3, 20, 30, 30), np.float32)
    found = set()
    for threads in (1, 2, 2):
        monkeypatch.setitem(jit_setup._state, "threads", threads)
        gw = np.full((20, 32, 3, 3), np.nan, np.float32)
        shifted_weight.weight_grad(g, x, gw, (1, 1), (1, 1))
        found.add(gw.tobytes())
    assert len(found) == 1


def test_what_is_not_finite_stays_in_its_channel_and_image(rng: np.random.Generator) -> None:
    x = rng.random((2, 16, 9, 9), dtype=np.float32)
    x[0, 15, 8, 8], x[1, 0, 0, 0] = np.inf, np.nan
    out = np.empty((2, 16, 9, 9), np.float32)
    shifted_conv.convolve(x, np.ones((16, 16, 3, 3), np.float32), None, out, (1, 1), (1, 1))
    reached = np.zeros((2, 9, 9), bool)
    reached[0, 7:, 7:] = reached[1, :2, :2] = True
    np.testing.assert_array_equal(~np.isfinite(out), np.broadcast_to(reached[:, None], out.shape))


def test_bits_do_not_depend_on_threads_or_batch(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    x, weight = rng.random((3, 16, 30, 30), np.float32), rng.random((16, 16, 3, 3), np.float32)
    found = []
    for threads, images, floats in ((2, 3, 1 << 24), (1, 3, 1 << 24), (2, 1, 1 << 24), (2, 3, 1)):
        monkeypatch.setitem(jit_setup._state, "threads", threads)
        monkeypatch.setattr(shifted_conv, "_PADDED", floats)
        out = np.full((images, 16, 30, 30), np.nan, np.float32)
        shifted_conv.convolve(x[:images], weight, None, out, (1, 1), (1, 1))
        found.append(out[0].tobytes())
        assert np.isfinite(out).all()
    assert len(set(found)) == 1
