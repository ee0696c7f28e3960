"""Convolution and its gradients, by every way there is, against the CPU in float64."""

from __future__ import annotations

import numpy as np
import pytest

from grilly_backend_vulkan.kernels import conv_depthwise, conv_matrix, conv_tiles
from grilly_core import apply, dtypes

#: shape of x, shape of weight, stride, padding, dilation, groups
CASES = [
    ((2, 16, 9, 12), (32, 16, 3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1), 1),
    ((3, 20, 11, 7), (17, 20, 3, 2), (2, 3), ((1, 0), (2, 1)), (2, 1), 1),
    ((2, 32, 8, 8), (72, 16, 1, 1), (1, 1), ((0, 0), (0, 0)), (1, 1), 2),
    ((1, 16, 5, 5), (16, 16, 2, 2), (3, 3), ((0, 0), (0, 1)), (1, 1), 1),
    ((2, 33, 70), (16, 33, 5), (2,), ((2, 2),), (1,), 1),
    ((1, 17, 4, 5, 6), (18, 17, 2, 3, 2), (1, 2, 1), ((1, 1), (0, 1), (0, 0)), (1, 1, 2), 1),
    ((1, 130, 12, 12), (140, 130, 3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1), 1),
]  # fmt: skip
#: one channel in a group
DEPTHWISE = [
    ((2, 5, 9, 12), (5, 1, 3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1), 5),
    ((3, 4, 11, 7), (12, 1, 5, 2), (2, 3), ((1, 0), (2, 1)), (2, 1), 4),
    ((2, 3, 70), (6, 1, 11), (1,), ((5, 5),), (1,), 3),
    ((2, 3, 4, 5, 6), (3, 1, 2, 3, 2), (1, 2, 1), ((1, 1), (0, 1), (0, 0)), (1, 1, 2), 3),
    ((8, 2, 40, 41), (2, 1, 3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1), 2),
]  # fmt: skip
IDS = [f"{x}*{w}" for x, w, *_ in CASES]


@pytest.fixture
def choose(monkeypatch):
    """Set a choice of a kernel; plans made before or meanwhile remember other ones."""

    def chosen(module, name, value):
        monkeypatch.setattr(module, name, value)
        apply._plans.clear()

    yield chosen
    apply._plans.clear()


@pytest.fixture(params=[(64, 64), (64, 128), (128, 64), (128, 128)], ids=str)
def tile(request, choose):
    """Everything by tiles of one size, whatever its size."""
    if request.param not in conv_tiles._tiles(
        request.getfixturevalue("vk").context.runtime.facts.shared_memory
    ):
        pytest.skip("the device has too little shared memory")
    choose(conv_tiles, "suits", lambda geometry: True)
    choose(conv_tiles, "_tiles", lambda shared: [request.param])
    return request.param


def check(vk, wide, rng, case):
    """Compare the three ops with the CPU's in float64, relative to the largest value."""
    x_shape, w_shape, stride, padding, dilation, groups = case
    how = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    x, w, b = (rng.standard_normal(s).astype("f4") for s in (x_shape, w_shape, w_shape[:1]))
    y = wide("nn.conv", *(t.astype("f8") for t in (x, w, b)), **how)
    g = rng.standard_normal(y.shape).astype("f4")
    close(vk("nn.conv", x, w, b, **how), y)
    close(vk("nn.conv", x, w, None, **how), wide("nn.conv", x.astype("f8"), w.astype("f8"), None, **how))
    for name, other, shape in (
        ("nn.conv_input_grad", w, {"input_shape": x_shape}),
        ("nn.conv_weight_grad", x, {"weight_shape": w_shape}),
    ):
        expected = wide(name, g.astype("f8"), other.astype("f8"), **shape, **how)
        close(vk(name, g, other, **shape, **how), expected)


def close(actual, expected):
    np.testing.assert_allclose(actual, expected, rtol=0, atol=3e-6 * np.abs(expected).max())


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_tiles(vk, wide, rng, tile, case):
    check(vk, wide, rng, case)


@pytest.mark.parametrize("case", CASES, ids=IDS)
@pytest.mark.parametrize("parts", [2, 3])
def test_sums_cut_into_parts_and_sizes_as_constants(vk, wide, rng, choose, case, parts):
    def plan(rows, columns, copies, steps, outputs, shared, weight=False):
        return (64, 64), -(-rows // 64) * -(-columns // 64) * copies, min(parts, steps)

    choose(conv_tiles, "suits", lambda geometry: True)
    choose(conv_tiles, "_FIXED_WORK", 0)
    choose(conv_tiles, "_plan", plan)
    check(vk, wide, rng, case)


def test_plans_fill_a_device():
    """Two to three tiles for each processor, or more; parts only where they gain more than they cost."""
    for rows, columns, copies, steps in (
        (64, 50176, 1, 36),
        (256, 12544, 1, 144),
        (512, 3136, 1, 288),
        (512, 512, 9, 196),
    ):
        _, tiles, chunks = conv_tiles._plan(rows, columns, copies, steps, rows * columns * copies, 49152)
        assert tiles * chunks >= 132
    assert conv_tiles._plan(1024, 1 << 20, 1, 64, 1 << 30, 49152) == ((128, 128), 8 << 13, 1)


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_element_by_element(vk, wide, rng, choose, case):
    choose(conv_tiles, "suits", lambda geometry: False)
    check(vk, wide, rng, case)


@pytest.mark.parametrize("case", DEPTHWISE, ids=lambda case: f"{case[0]}*{case[1]}")
@pytest.mark.parametrize("own", [True, False])
def test_depthwise(vk, wide, rng, choose, case, own):
    if not own:  # by the general kernel
        choose(conv_depthwise, "suits", lambda geometry: False)
    check(vk, wide, rng, case)


@pytest.mark.parametrize("code, tol", [("f16", 1e-3), ("bf16", 8e-3)])
@pytest.mark.parametrize(
    "case",
    [((2, 16, 9, 12), (32, 16, 3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1), 1),
     ((3, 48, 11, 7), (32, 24, 3, 2), (2, 3), ((1, 0), (2, 1)), (2, 1), 2),
     ((1, 136, 12, 12), (144, 136, 3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1), 1)],
)  # fmt: skip
def test_cooperative_matrices(vk, wide, rng, choose, case, code, tol):
    if (code, "f32", 16, 16, 16) not in vk.context.runtime.facts.cooperative:
        pytest.skip("the device has no such matrices")
    choose(conv_matrix, "_LEAST_WORK", 0)
    choose(conv_matrix, "_LEAST_CHANNELS", 8)
    x_shape, w_shape, stride, padding, dilation, groups = case
    how = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    half = dtypes.float16.numpy if code == "f16" else dtypes.bfloat16.numpy
    x, w, b = (rng.standard_normal(s).astype(half) for s in (x_shape, w_shape, w_shape[:1]))
    y = wide("nn.conv", *(t.astype("f8") for t in (x, w, b)), **how)
    g = rng.standard_normal(y.shape).astype(half)
    for name, inputs, attrs in (
        ("nn.conv", (x, w, b), {}),
        ("nn.conv_input_grad", (g, w), {"input_shape": x_shape}),
        ("nn.conv_weight_grad", (g, x), {"weight_shape": w_shape}),
    ):
        expected = wide(name, *(t.astype("f8") for t in inputs), **attrs, **how)
        actual = vk(name, *inputs, **attrs, **how)
        assert actual.dtype == half
        np.testing.assert_allclose(actual.astype("f8"), expected, rtol=0, atol=tol * np.abs(expected).max())
