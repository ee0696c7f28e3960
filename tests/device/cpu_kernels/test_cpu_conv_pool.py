"""Convolution and pooling against a direct sum over windows."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest


def direct(x: Any, w: Any, stride: Any, padding: Any, dilation: Any, groups: int) -> Any:
    """Convolve window by window, in f64."""
    x, w = np.pad(x.astype("f8"), [(0, 0), (0, 0), *padding]), w.astype("f8")
    kernel, d = w.shape[2:], len(stride)
    count = [(x.shape[2 + i] - dilation[i] * (kernel[i] - 1) - 1) // stride[i] + 1 for i in range(d)]
    out = np.zeros((len(x), len(w), *count))
    each_o, each_c = len(w) // groups, w.shape[1]
    for o, *at in np.ndindex(len(w), *count):
        c = o // each_o * each_c
        starts = [p * s for p, s in zip(at, stride, strict=True)]
        spans = tuple(
            slice(b, b + e * (k - 1) + 1, e) for b, e, k in zip(starts, dilation, kernel, strict=True)
        )
        out[(slice(None), o, *at)] = (
            (x[(slice(None), slice(c, c + each_c), *spans)] * w[o]).reshape(len(x), -1).sum(1)
        )
    return out


CASES = {
    "3x3": ((2, 3, 6, 7), (4, 3, 3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1), 1),
    "many small": ((20, 3, 5, 4), (4, 3, 3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1), 1),
    "many small strided": ((17, 4, 7, 6), (4, 2, 3, 2), (2, 3), ((1, 0), (2, 1)), (1, 2), 2),
    "asymmetric": ((2, 2, 5, 6), (3, 2, 2, 3), (2, 1), ((0, 2), (3, 1)), (1, 1), 1),
    "dilated groups": ((2, 4, 9, 9), (6, 2, 3, 3), (1, 2), ((2, 2), (0, 0)), (2, 3), 2),
    "depthwise": ((3, 4, 6, 6), (4, 1, 3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1), 4),
    "pointwise": ((2, 3, 4, 5), (6, 3, 1, 1), (1, 1), ((0, 0), (0, 0)), (1, 1), 1),
    "pointwise groups": ((2, 4, 4, 5), (6, 2, 1, 1), (1, 1), ((0, 0), (0, 0)), (1, 1), 2),
    "wide padding": ((2, 1, 2, 2), (1, 1, 2, 2), (1, 1), ((4, 4), (3, 5)), (1, 1), 1),
    "1d": ((2, 3, 9), (4, 3, 3), (2,), ((1, 2),), (2,), 1),
    "1d many": ((18, 3, 9), (4, 3, 3), (1,), ((1, 1),), (1,), 1),
    "3d": ((2, 2, 4, 5, 3), (3, 2, 2, 2, 3), (1, 2, 1), ((0, 1), (1, 0), (1, 1)), (1, 1, 1), 1),
    "large plane": ((2, 2, 40, 33), (3, 2, 3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1), 1),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_conv_and_gradients(run: Any, rng: Any, case: str, dtype: str) -> None:
    shape, weight_shape, stride, padding, dilation, groups = CASES[case]
    how = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    x, w = rng.normal(size=shape).astype(dtype), rng.normal(size=weight_shape).astype(dtype)
    b = rng.normal(size=weight_shape[0]).astype(dtype)
    expected = direct(x, w, **how)
    close = {"rtol": 1e-4, "atol": 1e-4} if dtype == "f4" else {"rtol": 1e-10, "atol": 1e-10}
    got = run("nn.conv", [x, w, None], [(expected.shape, dtype)], **how)
    np.testing.assert_allclose(got, expected, **close)
    biased = run("nn.conv", [x, w, b], [(expected.shape, dtype)], **how)
    np.testing.assert_allclose(biased, expected + b.reshape(-1, *(1,) * len(stride)), **close)
    # The gradients are the adjoints of a linear map: <g, conv(dx, w)> = <gx, dx>, and the same for the weight.
    g, dx, dw = (rng.normal(size=s).astype(dtype) for s in (expected.shape, shape, weight_shape))
    gx = run("nn.conv_input_grad", [g, w], [(shape, dtype)], input_shape=shape, **how)
    gw = run("nn.conv_weight_grad", [g, x], [(weight_shape, dtype)], weight_shape=weight_shape, **how)
    scale = math.sqrt(expected.size) * 10
    assert abs((g * direct(dx, w, **how)).sum() - (gx.astype("f8") * dx).sum()) < close["atol"] * scale
    assert abs((g * direct(x, dw, **how)).sum() - (gw.astype("f8") * dw).sum()) < close["atol"] * scale


def test_conv_known_values(run: Any) -> None:  # TEN-01, NN-08
    how = {"stride": (1, 1), "padding": ((0, 0), (0, 0)), "dilation": (1, 1)}
    w, x = np.arange(16, dtype="f4").reshape(2, 2, 2, 2), np.arange(18, dtype="f4").reshape(1, 2, 3, 3)
    got = run("nn.conv", [x, w.transpose(1, 0, 2, 3), None], [((1, 2, 2, 2), "f4")], groups=1, **how)
    np.testing.assert_array_equal(got.ravel(), [444, 488, 576, 620, 652, 728, 880, 956])
    x, w = np.arange(36, dtype="f4").reshape(1, 4, 3, 3), np.arange(32, dtype="f4").reshape(4, 2, 2, 2) / 10
    got = run("nn.conv", [x, w, None], [((1, 4, 2, 2), "f4")], groups=2, **how)
    np.testing.assert_allclose(got[0, :, 0, 0], [26.8, 68.4, 390.8, 547.6], rtol=1e-5)
    np.testing.assert_allclose(got.sum(), 4531.2, rtol=1e-5)


def test_conv_of_nothing(run: Any) -> None:  # TEN-06
    how = {"stride": (1, 1), "padding": ((0, 0), (0, 0)), "dilation": (1, 1), "groups": 1}
    x, w = np.zeros((0, 3, 8, 8), "f4"), np.ones((4, 3, 3, 3), "f4")
    assert run("nn.conv", [x, w, None], [((0, 4, 6, 6), "f4")], **how).shape == (0, 4, 6, 6)
    g = np.zeros((0, 4, 6, 6), "f4")
    assert run("nn.conv_input_grad", [g, w], [(x.shape, "f4")], input_shape=x.shape, **how).shape == x.shape
    assert not run("nn.conv_weight_grad", [g, x], [(w.shape, "f4")], weight_shape=w.shape, **how).any()


POOLS = {
    "2x2": ((2, 3, 6, 8), (2, 2), (2, 2), ((0, 0), (0, 0)), (1, 1), (3, 4)),
    "padded": ((2, 3, 5, 7), (3, 2), (2, 1), ((1, 1), (1, 0)), (1, 1), (3, 7)),
    "overhang": ((1, 2, 6, 7), (1, 1), (2, 2), ((0, 0), (0, 0)), (1, 1), (3, 4)),
    "dilated": ((1, 2, 7, 9), (2, 3), (1, 2), ((1, 1), (1, 1)), (2, 2), (7, 4)),
    "1d": ((2, 3, 5), (2,), (2,), ((1, 1),), (1,), (3,)),
    "3d": ((1, 2, 4, 5, 3), (2, 2, 2), (2, 2, 1), ((0, 0), (1, 1), (0, 0)), (1, 1, 1), (2, 3, 2)),
}  # fmt: skip


def window(at: Any, case: Any) -> list[tuple[int, ...]]:
    """Places of the input that a window covers."""
    shape, kernel, stride, padding, dilation, _ = case
    axes = []
    for i in range(len(kernel)):
        start = at[i] * stride[i] - padding[i][0]
        axes.append([p for p in (start + t * dilation[i] for t in range(kernel[i])) if 0 <= p < shape[2 + i]])
    return [tuple(a[j] for a, j in zip(axes, index, strict=True)) for index in np.ndindex(*map(len, axes))]


@pytest.mark.parametrize("name", POOLS)
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_max_pool(run: Any, rng: Any, name: str, dtype: str) -> None:
    case = POOLS[name]
    shape, kernel, stride, padding, dilation, count = case
    x = rng.integers(0, 9, shape).astype(dtype)
    x[0, 0].flat[3] = np.nan
    x[-1, -1] = -np.inf
    how = {"kernel": kernel, "stride": stride, "padding": padding, "dilation": dilation, "output_size": count}
    full = (*shape[:2], *count)
    y, index = run("nn.max_pool", [x], [(full, dtype), (full, "i4")], **how)
    for n, c, *at in np.ndindex(*full):
        places = window(at, case)
        values = np.array([x[(n, c, *p)] for p in places])
        best = int(np.argmax(values))
        np.testing.assert_array_equal(y[(n, c, *at)], values[best])
        assert index[(n, c, *at)] == np.ravel_multi_index(places[best], shape[2:])
    g = rng.normal(size=full).astype(dtype)
    expected = np.zeros((shape[0] * shape[1], math.prod(shape[2:])))
    planes = len(expected)
    np.add.at(expected, (np.arange(planes)[:, None], index.reshape(planes, -1)), g.reshape(planes, -1))
    got = run("nn.max_pool_vjp", [g, index], [(shape, dtype)], input_shape=shape)
    np.testing.assert_allclose(got.reshape(expected.shape), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", [n for n in POOLS if n != "dilated"])
@pytest.mark.parametrize(("include", "override"), [(True, None), (False, None), (True, 3)])
def test_avg_pool(run: Any, rng: Any, name: str, include: bool, override: Any) -> None:
    case = POOLS[name]
    shape, kernel, stride, padding, _, count = case
    x, g = rng.normal(size=shape).astype("f4"), rng.normal(size=(*shape[:2], *count)).astype("f4")
    how = {"kernel": kernel, "stride": stride, "padding": padding, "output_size": count, "count_include_pad": include,
           "divisor_override": override}  # fmt: skip
    expected, gx = np.zeros(g.shape), np.zeros(shape)
    for at in np.ndindex(*count):
        places = window(at, case)
        counted = 1
        for i, a in enumerate(at):
            start = a * stride[i] - padding[i][0]
            counted *= min(start + kernel[i], shape[2 + i] + padding[i][1]) - start
        divisor = override or (counted if include else len(places))
        for p in places:
            expected[(..., *at)] += x[(..., *p)] / divisor
            gx[(..., *p)] += g[(..., *at)] / divisor
    np.testing.assert_allclose(
        run("nn.avg_pool", [x], [(g.shape, "f4")], **how), expected, rtol=1e-5, atol=1e-6
    )
    got = run("nn.avg_pool_vjp", [g], [(shape, "f4")], input_shape=shape, **how)
    np.testing.assert_allclose(got, gx, rtol=1e-5, atol=1e-6)


def test_pooling_known_values(run: Any) -> None:  # NN-11, NN-12
    a = np.array([1, 2, 3, 4, 5], "f4").reshape(1, 1, 5)
    out = [((1, 1, 3), "f4")]
    how = {"kernel": (2,), "stride": (2,), "padding": ((1, 1),), "output_size": (3,)}
    np.testing.assert_array_equal(run("nn.max_pool", [a], out, dilation=(1,), **how).ravel(), [1, 3, 5])
    got = run("nn.avg_pool", [a], out, count_include_pad=True, divisor_override=None, **how)
    np.testing.assert_array_equal(got.ravel(), [0.5, 2.5, 4.5])
    got = run("nn.avg_pool", [a], out, count_include_pad=False, divisor_override=None, **how)
    np.testing.assert_array_equal(got.ravel(), [1, 2.5, 4.5])
    how = {"kernel": (2,), "stride": (2,), "padding": ((0, 0),), "output_size": (3,)}
    got = run("nn.avg_pool", [a], out, count_include_pad=True, divisor_override=None, **how)
    np.testing.assert_array_equal(got.ravel(), [1.5, 3.5, 5])
