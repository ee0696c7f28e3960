"""``nn.linear_act`` and ``nn.matmul_int8``, and products on cooperative matrices where the device has them.

The oracles are the CPU's bodies given f64, and NumPy. Software devices have no cooperative matrices:
the tests marked so run on GPUs only.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import grilly_core
from grilly_core import dtypes

SIZES = st.sampled_from([9, 16, 33, 64, 127, 130, 257])
ACTIVATIONS = ("none", "relu", "gelu", "gelu_tanh", "silu", "sigmoid", "tanh")


@pytest.fixture
def matrices(vk):
    from grilly_backend_vulkan.kernels.matmul import has_matrices

    def need(code):
        if not has_matrices(vk.context.runtime.facts, code):
            pytest.skip(f"the device has no cooperative matrices of {code}")

    return need


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("shape", [(3, 5, 7), (70, 80, 66)])  # the general kernel, and tiles
def test_linear_act(vk, wide, rng, activation, shape):
    m, n, k = shape
    x, w, b, r = (rng.standard_normal(s).astype("f4") for s in ((m, k), (n, k), (n,), (m, n)))
    for bias, residual in ((b, r), (None, None)):
        found = vk("nn.linear_act", x, w, bias, residual, activation=activation)
        f8 = [None if t is None else t.astype("f8") for t in (x, w, bias, residual)]
        expected = wide("nn.linear_act", *f8, activation=activation)
        np.testing.assert_allclose(found, expected, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("code,unit", [("f16", 2.0**-11), ("bf16", 2.0**-8)])
def test_linear_act_of_half_types_rounds_once(vk, wide, rng, code, unit):
    given_ = [
        vk.put(rng.standard_normal(s).astype("f4")).to(dtypes.as_dtype(code))
        for s in ((40, 96), (72, 96), (72,), (40, 72))
    ]
    found = vk("nn.linear_act", *given_, activation="silu").astype("f8")
    f8 = [t.to(dtypes.as_dtype("f32")).numpy().astype("f8") for t in given_]
    expected = wide("nn.linear_act", *f8, activation="silu")
    assert (np.abs(found - expected) <= unit * np.abs(expected) + 1e-4).all()


@pytest.mark.parametrize(
    "shapes", [((3, 4), (4, 5)), ((70, 130), (130, 66)), ((2, 40, 64), (2, 64, 33)), ((3, 0), (0, 2))]
)
def test_int8(vk, rng, shapes):
    a, b = (rng.integers(-128, 128, s).astype("i1") for s in shapes)
    np.testing.assert_array_equal(vk("nn.matmul_int8", a, b), a.astype("i4") @ b.astype("i4"))


@pytest.mark.parametrize("code,unit", [("f16", 2.0**-11), ("bf16", 2.0**-8)])
@settings(max_examples=15, deadline=None)
@given(m=SIZES, n=SIZES, k=SIZES, turned=st.tuples(st.booleans(), st.booleans()))
def test_half_types_on_cooperative_matrices(vk, code, unit, m, n, k, turned):
    from grilly_backend_vulkan.kernels.matmul import has_matrices

    if not has_matrices(vk.context.runtime.facts, code):
        pytest.skip(f"the device has no cooperative matrices of {code}")
    rng = np.random.default_rng(m + n + k)
    shapes = ((m, k), (k, n))
    x, y = (
        vk.put(np.ascontiguousarray(rng.standard_normal(s[::-1] if t else s).astype("f4"))).to(
            dtypes.as_dtype(code)
        )
        for s, t in zip(shapes, turned, strict=True)
    )
    a, b = (t.to(dtypes.as_dtype("f32")).numpy().astype("f8") for t in (x, y))
    a, b = (v.T if t else v for v, t in zip((a, b), turned, strict=True))
    x, y = (v.permute(1, 0) if t else v for v, t in zip((x, y), turned, strict=True))
    sums = np.abs(a) @ np.abs(b)
    assert (
        np.abs(vk("matmul", x, y).astype("f8") - a @ b) <= unit * np.abs(a @ b) + k * 2.0**-22 * sums
    ).all()


@pytest.mark.parametrize("precision,error", [("high", 3e-5), ("medium", 1e-2)])
@pytest.mark.parametrize("turned", [False, True])
def test_f32_as_products_of_bf16(vk, rng, matrices, precision, error, turned):
    matrices("bf16")
    a, b = (rng.standard_normal(s).astype("f4") for s in ((515, 600), (515, 600) if turned else (600, 515)))
    right = vk.put(b).permute(1, 0) if turned else vk.put(b)
    with grilly_core.matmul_precision(precision):
        found = vk("matmul", a, right)
    exact = a.astype("f8") @ (b.T if turned else b)
    assert np.linalg.norm(found - exact) <= error * np.linalg.norm(exact)
    assert np.linalg.norm(found - exact) > 1e-7 * np.linalg.norm(exact)  # it was asked for


def test_precision_changes_nothing_where_the_device_cannot(vk, rng):
    from grilly_backend_vulkan.kernels.matmul import has_matrices

    if has_matrices(vk.context.runtime.facts, "bf16"):
        pytest.skip("the device multiplies bf16 matrices")
    a, b = (rng.standard_normal(s).astype("f4") for s in ((70, 80), (80, 66)))
    with grilly_core.matmul_precision("high"):
        high = vk("matmul", a, b)
    np.testing.assert_array_equal(high, vk("matmul", a, b))


def test_shaders_on_cooperative_matrices_say_what_they_need():
    build = pytest.importorskip("grilly_backend_vulkan.build")
    from grilly_backend_vulkan.shaders import capabilities

    seen = 0
    for variant in build.variants():
        if 6022 in capabilities((build.SPIRV / f"{variant.name}.spv").read_bytes()):
            assert "cooperative_matrix" in variant.needs, variant.name
            seen += 1
    assert seen >= len(build.matmul_matrices.TILES) * 3
