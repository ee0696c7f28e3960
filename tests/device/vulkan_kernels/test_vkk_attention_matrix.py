"""Attention on cooperative matrices where no device has any: the shaders with matrices that are arrays of numbers.

Each lane of 32 holds 8 of 16 x 16 numbers, in one of three layouts. One is NVIDIA's, for which the shaders keep weights
in registers; the others send them through shared memory, pairs at a time or number by number.
"""

from __future__ import annotations

import dataclasses
from functools import partial

import numpy as np
import pytest

import grilly_core
from grilly_backend_vulkan import build, glsl, shaders
from grilly_backend_vulkan.kernels import attention, attention_matrix
from grilly_core import config, registry

pytestmark = pytest.mark.skipif(not glsl.available(), reason="the shaders are compiled in another form")

PLACES = {
    "direct": "(LANE_ / 4u + i / 4u * 8u) * 16u + LANE_ % 4u * 2u + i % 2u + i / 2u % 2u * 8u",
    "pairs": "LANE_ * 8u + i",
    "apart": "i * 32u + LANE_",
}
MATRICES = r"""
#define LANE_ (gl_LocalInvocationIndex % 32u)
#define WARP (gl_LocalInvocationIndex / 32u)
#define TOGETHER() barrier()
#define IDLE(x) false  // all of a work group meet at each product
#define LEFT float[8]
#define RIGHT float[8]
#define EACH(i) for (uint i = 0u; i < 8u * gl_NumWorkGroups.z; ++i)  // not to be unrolled
shared float left_[WARPS][256], right_[WARPS][256], lanes_[WARPS][32];
uint at_(uint i) { return PLACE; }
float shuffled(float x, uint apart) {
    barrier();
    lanes_[WARP][LANE_] = x;
    barrier();
    return lanes_[WARP][LANE_ ^ apart];
}
bool all_of(bool x) {
    bool all = true;
    barrier();
    lanes_[WARP][LANE_] = x ? 1.0 : 0.0;
    barrier();
    for (uint j = 0u; j < 32u; ++j) all = all && lanes_[WARP][j] == 1.0;
    return all;
}
float number(uint word, uint column) {
    uint bits = column % 2u == 0u ? word & 0xffffu : word >> 16;
#ifdef BRAIN
    return uintBitsToFloat(bits << 16);
#else
    return half_to_float(bits);
#endif
}
void multiply(float a[8], float b[8], inout float c[8]) {
    barrier();
    EACH(i) { left_[WARP][at_(i)] = a[i]; right_[WARP][i * 32u + LANE_] = b[i]; }
    barrier();
    EACH(i) for (uint k = 0u; k < 16u * gl_NumWorkGroups.z; ++k)
        c[i] += left_[WARP][at_(i) / 16u * 16u + k] * right_[WARP][k * 16u + at_(i) % 16u];
}
#define FROM_LANE(x, apart) shuffled(x, apart)
#define ALL(x) all_of(x)
#ifdef BRAIN
#define AS_FACTOR(x) uintBitsToFloat(float_to_brain(x) << 16)
#else
#define AS_FACTOR(x) half_to_float(float_to_half(x))
#endif
#define AS_FLOAT(x) (x)
#define CLEAR(m) EACH(i_) m[i_] = 0.0
#define QUAD(i, line) (at_(i) / 16u * (line) + at_(i) % 16u / 4u)
#define LOAD_SUMS(m, at) EACH(i_) m[i_] = uintBitsToFloat(staged[(at) + QUAD(i_, ROW - 1u)][at_(i_) % 4u])
#define STORE_SUMS(m, at) EACH(i_) staged[(at) + QUAD(i_, ROW)][at_(i_) % 4u] = floatBitsToUint(m[i_])
#define HALF(from, at, row, column) number(from[(at) + (row) + (column) / 8u][(column) / 2u % 4u], column)
#define LOAD_LEFT(m, from, at, line) EACH(i_) m[i_] = HALF(from, at, at_(i_) / 16u * (line), at_(i_) % 16u)
#define OTHER(i) ((i) * 32u + LANE_)
#define LOAD_LINES(m, at) EACH(i_) m[i_] = HALF(tiles, at, OTHER(i_) / 16u * LINE, OTHER(i_) % 16u)
#define LOAD_TURNED(m, at) EACH(i_) m[i_] = HALF(tiles, at, OTHER(i_) % 16u * LINE, OTHER(i_) / 16u)
#define MULTIPLY(a, b, c) multiply(a, b, c)
"""
TOLERANCES = {"f16": 2e-3, "bf16": 1.6e-2, "high": 6e-5}
DTYPES = {"f16": "float16", "bf16": "bfloat16", "high": "float32"}


def compiled(kind, code, layout):
    """Return one of the shaders in a small form, with arrays for matrices."""
    name = f"attention_matrix{kind}_{code}_64"
    variant = next(v for v in build.variants() if v.name == name)
    small = variant.defines | {"D": 32, "WARPS": 2, "BC": 32, "SUMS": "float[8]", "PLACE": PLACES[layout]}
    source = build.expanded(dataclasses.replace(variant, defines=small))
    start = source.index("#ifndef SUMS  // tests put")
    end = source.index("uint stage()")
    text = source[:start] + MATRICES + source[end:]
    return glsl.compile_glsl(
        text.replace("[[unroll]]", ""), name
    )  # a compiler for CPUs takes minutes if unrolled


@pytest.fixture
def emulated(vk, monkeypatch):
    """Return a function that makes the kernels of a type and a layout the only ones."""

    def use(code, layout):
        way = attention_matrix.SPLIT if code == "high" else attention_matrix.WAYS[code]
        prefix = f"emulated.{layout}"
        for kind in ("", "_query_grad", "_key_grad"):
            shaders.register_shader(f"{prefix}{kind}_{code}_32", spirv=compiled(kind, code, layout))
        small = dataclasses.replace(
            way, name=f"{prefix}{{kind}}_{code}_{{width}}", rows={32: 32}, grad_rows={32: 32}, subgroup=0
        )
        kernels = registry.kernels_for("vulkan")
        for name, run in (("nn.attention", attention.forward), ("nn.attention_vjp", attention.backward)):
            first = kernels[name][0]
            made = dataclasses.replace(
                first, fn=partial(run, small), dtypes=frozenset({way.code, "f32"}), compute=None, when=None
            )
            monkeypatch.setitem(kernels, name, [made])
        registry._changed()

    yield use
    monkeypatch.undo()
    registry._changed()


def drawn(*shape):
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def gradients(dtype, device, arrays, g, **attrs):
    xs = [grilly_core.asarray(x, dtype=dtype, device=device).requires_grad_() for x in arrays]
    with config.fallback("error"):
        y = grilly_core.functional.scaled_dot_product_attention(*xs, enable_gqa=True, **attrs)
        y.backward(grilly_core.asarray(g, dtype=dtype, device=device))
    return [np.array(t.detach().to("float64").numpy()) for t in (y, *(x.grad for x in xs))]


CASES = [
    ("f16", "direct", {"is_causal": True}),
    ("bf16", "pairs", {}),
    ("high", "apart", {"scale": -0.4}),
    ("high", "direct", {"is_causal": True}),
]


@pytest.mark.parametrize(("code", "layout", "attrs"), CASES)
def test_matrices(vk, emulated, code, layout, attrs):
    """Rows and columns that fill no tile, and heads that share keys. Oracle: the CPU's body in float64."""
    arrays = drawn(1, 2, 50, 24), drawn(1, 1, 70, 24), drawn(1, 1, 70, 24)
    g = drawn(1, 2, 50, 24)
    rounded = [grilly_core.asarray(x, dtype=DTYPES[code]).to("float64").numpy() for x in (*arrays, g)]
    expected = gradients("float64", "cpu", rounded[:3], rounded[3], **attrs)
    emulated(code, layout)
    found = gradients(DTYPES[code], vk.device, arrays, g, **attrs)
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, atol=TOLERANCES[code] * max(1.0, np.abs(b).max()))
