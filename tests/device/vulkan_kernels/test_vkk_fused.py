"""Fused kernels against the CPU in float64."""

from __future__ import annotations

import numpy as np
import pytest


def widened(x):
    if isinstance(x, list):
        return [widened(t) for t in x]
    return x.astype("f8") if isinstance(x, np.ndarray | np.generic) and x.dtype.kind == "f" else x


def agree(vk, wide, name, *inputs, rtol=2e-5, atol=2e-5, **attrs):
    actual, expected = vk(name, *inputs, **attrs), wide(name, *map(widened, inputs), **attrs)
    if not isinstance(actual, tuple):
        actual, expected = (actual,), (expected,)
    assert len(actual) == len(expected)
    for a, b in zip(actual, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=rtol, atol=atol)


def f32(rng, *shape):
    return rng.standard_normal(shape).astype("f4")


@pytest.mark.parametrize(
    "shape, axis", [((3, 10), 1), ((700, 3), 1), ((2, 9, 5), 1), ((2, 2000), 1), ((40, 33), 0)]
)
def test_softmax_family(vk, wide, rng, shape, axis):
    x, g = f32(rng, *shape) * 5, f32(rng, *shape)
    for name in ("nn.softmax", "nn.log_softmax"):
        agree(vk, wide, name, x, axis=axis)
        y = np.asarray(vk(name, x, axis=axis))
        agree(vk, wide, f"{name}_vjp", g, y, axis=axis)


def test_softmax_far_out(vk):
    np.testing.assert_array_equal(vk("nn.softmax", np.float32([1e30, 1e30, -np.inf])), [0.5, 0.5, 0])
    np.testing.assert_array_equal(vk("nn.softmax", np.float16([60000, 60000])), [0.5, 0.5])
    assert np.isnan(vk("nn.softmax", np.float32([np.nan, 1.0]))).all()


@pytest.mark.parametrize("rows, terms", [(1, 1), (5, 3), (300, 17), (7, 1030)])
def test_row_norms(vk, wide, rng, rows, terms):
    x, g, w, b = f32(rng, rows, terms), f32(rng, rows, terms), f32(rng, terms), f32(rng, terms)
    mean, rstd = f32(rng, rows, 1), np.abs(f32(rng, rows, 1))
    how = {"normalized_shape": (terms,)}
    if terms > 1:
        agree(vk, wide, "nn.layer_norm", x, w, b, rtol=1e-4, atol=1e-4, **how)
    agree(vk, wide, "nn.layer_norm_vjp", g, x, w, mean, rstd, rtol=1e-4, atol=1e-4, **how)
    agree(vk, wide, "nn.rms_norm", x, w, eps=1e-5, **how)
    agree(vk, wide, "nn.rms_norm_vjp", g, x, w, rstd, rtol=1e-4, atol=1e-4, **how)


def test_layer_norm_of_a_large_mean_in_half_precision(vk):
    y = vk("nn.layer_norm", (300 + np.arange(8)).astype("f2"), None, None, normalized_shape=(8,))
    expected = [-1.527, -1.091, -0.655, -0.218, 0.218, 0.655, 1.091, 1.527]
    np.testing.assert_allclose(y.astype("f4"), expected, atol=2e-3)


@pytest.mark.parametrize("shape", [(300, 4), (3, 2, 11, 13), (2, 5, 7)])
@pytest.mark.parametrize("affine", [True, False])
def test_batch_norm(vk, wide, rng, shape, affine):
    x, g, c = f32(rng, *shape), f32(rng, *shape), shape[1]
    w, b = (f32(rng, c), f32(rng, c)) if affine else (None, None)
    mean, scale = f32(rng, c), np.abs(f32(rng, c)) + np.float32(0.5)
    agree(vk, wide, "nn.batch_norm_train", x, w, b)
    agree(vk, wide, "nn.batch_norm_vjp", g, x, w, mean, scale, rtol=1e-4, atol=1e-3)
    agree(vk, wide, "nn.batch_norm_eval", x, w, b, mean, scale)


@pytest.mark.parametrize("reduction", ["none", "sum", "mean"])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("weighted", [True, False])
def test_cross_entropy(vk, wide, rng, reduction, smoothing, weighted):
    rows, classes = 70, 11
    logits, target = f32(rng, rows, classes) * 3, rng.integers(0, classes, rows).astype("i8")
    target[::7] = -100
    weight = np.abs(f32(rng, classes)) + np.float32(0.1) if weighted else None
    how = {"reduction": reduction, "label_smoothing": smoothing}
    agree(vk, wide, "nn.cross_entropy", logits, target, weight, **how)
    g = f32(rng, rows) if reduction == "none" else f32(rng)[()]
    lse = np.log(np.exp(logits).sum(1))
    agree(vk, wide, "nn.cross_entropy_vjp", g, logits, target, weight, lse, **how)


def test_cross_entropy_far_out(vk):
    logits, target = np.float32([[1000, 0, -1000]]), np.int32([1])
    assert vk("nn.cross_entropy", logits, target)[()] == 1000
    g = vk("nn.cross_entropy_vjp", np.float32(1), logits, target, None, np.float32([1000]))
    np.testing.assert_array_equal(g, [[1, -1, 0]])


_THREE = {"stride": (1, 2, 1), "padding": ((0, 1), (1, 0), (0, 0)), "dilation": (1, 1, 2)}
CONVOLUTIONS = [
    ((2, 3, 20), (5, 3, 4), {"stride": (2,), "padding": ((1, 2),), "dilation": (2,)}, 1),
    ((3, 4, 12, 11), (6, 2, 3, 3), {"stride": (1, 2), "padding": ((1, 1), (0, 2)), "dilation": (1, 1)}, 2),
    ((2, 17, 9, 9), (33, 17, 3, 3), {"stride": (1, 1), "padding": ((1, 1), (1, 1)), "dilation": (1, 1)}, 1),
    ((1, 2, 5, 6, 7), (4, 2, 2, 3, 2), _THREE, 1),
]  # fmt: skip


@pytest.mark.parametrize("x_shape, w_shape, how, groups", CONVOLUTIONS)
def test_convolution(vk, wide, rng, x_shape, w_shape, how, groups):
    x, w, b = f32(rng, *x_shape), f32(rng, *w_shape), f32(rng, w_shape[0])
    agree(vk, wide, "nn.conv", x, w, b, groups=groups, rtol=1e-4, atol=1e-4, **how)
    g = f32(rng, *vk("nn.conv", x, w, None, groups=groups, **how).shape)
    agree(
        vk, wide, "nn.conv_input_grad", g, w, input_shape=x_shape, groups=groups, rtol=1e-4, atol=1e-4, **how
    )
    agree(
        vk,
        wide,
        "nn.conv_weight_grad",
        g,
        x,
        weight_shape=w_shape,
        groups=groups,
        rtol=1e-4,
        atol=1e-4,
        **how,
    )


def test_weight_gradient_in_parts(vk, wide, rng):
    x, g = f32(rng, 4, 1, 30, 30), f32(rng, 4, 2, 28, 28)
    how = {"stride": (1, 1), "padding": ((0, 0), (0, 0)), "dilation": (1, 1)}
    agree(vk, wide, "nn.conv_weight_grad", g, x, weight_shape=(2, 1, 3, 3), rtol=1e-4, atol=1e-3, **how)


POOLS = [
    ((2, 3, 9), {"kernel": (3,), "stride": (2,), "padding": ((1, 1),), "output_size": (5,)}),
    ((2, 3, 9, 8), {"kernel": (3, 2), "stride": (2, 2), "padding": ((1, 1), (0, 0)), "output_size": (5, 4)}),
    ((1, 2, 5, 4, 6), {"kernel": (2, 2, 3), "stride": (1, 2, 2), "padding": ((0, 0),) * 3, "output_size": (4, 2, 2)}),
    ((1, 2, 5), {"kernel": (2,), "stride": (2,), "padding": ((1, 1),), "output_size": (4,)}),  # the last hangs over
]  # fmt: skip


@pytest.mark.parametrize("shape, how", POOLS)
def test_pooling(vk, wide, rng, shape, how):
    x, ones = f32(rng, *shape), (1,) * (len(shape) - 2)
    agree(vk, wide, "nn.max_pool_with_index", x, dilation=ones, **how)
    y, index = vk("nn.max_pool_with_index", x, dilation=ones, **how)
    g = f32(rng, *y.shape)
    agree(vk, wide, "nn.max_pool_vjp", g, index, input_shape=shape)
    for options in ({}, {"count_include_pad": False}, {"divisor_override": 3}):
        agree(vk, wide, "nn.avg_pool", x, **how, **options)
        agree(vk, wide, "nn.avg_pool_vjp", g, input_shape=shape, **how, **options)


def test_largest_of_a_window_with_nan(vk):
    x = np.float32([[[1, np.nan, 5, 7, 2, 2]]])
    how = {"kernel": (2,), "stride": (2,), "padding": ((0, 0),), "dilation": (1,), "output_size": (3,)}
    y, index = vk("nn.max_pool_with_index", x, **how)
    np.testing.assert_array_equal(y, [[[np.nan, 7, 2]]])
    np.testing.assert_array_equal(index, [[[1, 3, 4]]])


SHAPES = [(3, 4), (1,), (1025,), (0,), (64, 33)]


@pytest.mark.parametrize("how", [
    {}, {"momentum": 0.9, "dampening": 0.2}, {"momentum": 0.9, "nesterov": True},
    {"momentum": 0.9, "first": True, "maximize": True},
])  # fmt: skip
def test_sgd(vk, wide, rng, how):
    params, grads, momenta = ([f32(rng, *s) for s in SHAPES] for _ in range(3))
    given = momenta if "momentum" in how else None
    agree(vk, wide, "optim.sgd_step", params, grads, given, np.float32(0.1), weight_decay=0.01, **how)


@pytest.mark.parametrize("how", [{}, {"decoupled": True}, {"maximize": True, "beta1": 0.0}])
@pytest.mark.parametrize("largest", [True, False])
def test_adam(vk, wide, rng, how, largest):
    params, grads, ms, vs, tops = ([f32(rng, *s) for s in SHAPES * 30] for _ in range(5))
    vs, tops = [np.abs(v) for v in vs], [np.abs(v) for v in tops] if largest else None
    scalars = np.float32(0.01), np.float32(3)
    agree(vk, wide, "optim.adam_step", params, grads, ms, vs, tops, *scalars, weight_decay=0.01, **how)


@pytest.mark.parametrize("name", ["relu", "sigmoid", "silu", "gelu", "softplus", "leaky_relu", "elu"])
def test_activations_of_strided_and_half_inputs(vk, wide, rng, name):
    x = f32(rng, 30, 20) * 4
    np.testing.assert_allclose(
        vk(f"nn.{name}", vk.put(x).permute(1, 0)), wide(f"nn.{name}", x.T.astype("f8")), rtol=2e-5, atol=2e-6
    )
    half = x.astype("f2")
    np.testing.assert_allclose(
        vk(f"nn.{name}", half), wide(f"nn.{name}", half.astype("f8")), rtol=2e-3, atol=2e-3
    )
