"""Generated kernels: fused chains give the bits of their parts. Oracle: the same step run eagerly."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.device.vulkan_kernels.test_vkk_elementwise import SPECIAL

import grilly
from grilly_backend_vulkan import fusion, spirv_text

F = grilly.functional


@pytest.fixture
def put(backend):
    with grilly.fallback("error"):
        yield lambda array: grilly.asarray(array, device="vulkan:0")


def _runs(function, *arrays, state=(), **options):
    """Results of a captured step at the replay, and its program."""
    step = grilly.capture(function, state=state, **options)
    for _ in range(4):
        result = step(*arrays)
    (stage,) = step.programs.values()
    return result, stage.program


def _bytes(result):
    """The bits, with one NaN for all: its sign is nobody's promise."""
    arrays = [t.numpy() for t in (result if isinstance(result, tuple) else (result,))]
    return [
        (np.where(np.isnan(a), np.float32("nan"), a) if a.dtype.kind == "f" else a).tobytes() for a in arrays
    ]


def _agree(function, *arrays):
    """Fused, unfused and eager give the same bits; returns the fused program."""
    eager = _bytes(function(*arrays))
    plain, unfused = _runs(function, *arrays, fuse=False)
    result, program = _runs(function, *arrays)
    assert _bytes(result) == _bytes(plain) == eager
    assert len(program.entries) <= len(unfused.entries)
    return program


UNARY = [
    "abs", "ceil", "cos", "exp", "expm1", "floor", "isfinite", "isinf", "isnan", "log", "log1p", "negative",
    "reciprocal", "round", "sign", "sin", "sqrt", "square", "tanh", "trunc",
]  # fmt: skip


@pytest.mark.parametrize("name", UNARY)
@pytest.mark.parametrize("n", [3, 4099])
def test_every_function_on_special_values(put, name, n):
    x = put(np.resize(np.concatenate([SPECIAL, np.linspace(-5, 5, 40, dtype="f4")]), n))
    function = getattr(grilly, name)
    program = _agree(lambda x: grilly.where(function(x + 0.0) > 0.5, x, 1.0 - x), x)
    assert len(program.entries) == 1 and program.entries[0].plan.op.name.startswith("fused(add ")


@pytest.mark.parametrize("name", ["relu", "sigmoid", "silu", "gelu"])
def test_activations(put, name):
    x = put(np.resize(SPECIAL, 1000))
    program = _agree(lambda x: getattr(F, name)(x * 2.0) + 1.0, x)
    assert len(program.entries) == 1


def test_two_operands_bool_outputs_and_logic(put):
    x, y = put(np.resize(SPECIAL, 1001)), put(np.resize(SPECIAL[::-1], 1001))

    def step(x, y):
        low = (x < y) & (y > 0.5) | (x == 1.0)
        return (
            low,
            grilly.where(low, grilly.pow(abs(x), y), grilly.atan2(x, y)),
            grilly.maximum(x, y) - grilly.minimum(x, y),
        )

    program = _agree(step, x, y)
    assert len(program.entries) == 1 and len(program.entries[0].outs) == 3


def test_other_launches_and_layouts_end_a_chain(put):
    x = put(np.random.default_rng(0).standard_normal((64, 32)).astype("f4"))

    def step(x):
        y = (x + 1.0) * 2.0
        z = (y @ y.T).exp() * 0.5 - 1.0
        return z.T + z, (x[1:] * 3.0 + x[1:] * 2.0).sum()

    program = _agree(step, x)
    names = [e.plan.op.name for e in program.entries]
    assert names[0] == "fused(add mul)" and "matmul" in names


def test_state_written_in_a_chain(put):
    """What a chain writes to memory that it also reads: the value before, then the value after."""

    def make():
        total, count = put(np.zeros(300, "f4")), put(np.zeros(300, "f4"))

        def step(x):
            total.add_(x * 2.0)
            count.add_(1.0)
            return total / count

        return step, [total, count]

    found = []
    for fuse in (True, False, None):
        step, state = make()
        captured = step if fuse is None else grilly.capture(step, state=state, fuse=fuse)
        results = [captured(put(np.full(300, float(i), "f4"))).numpy().tobytes() for i in range(7)]
        found.append((results, [s.numpy().tobytes() for s in state]))
    assert found[0] == found[1] == found[2]


def test_long_chains_are_cut_where_the_device_needs_it(put):
    xs = [put(np.full(64, i + 1.0, "f4")) for i in range(12)]

    def step(*xs):
        total = xs[0] * 1.0
        parts = []
        for x in xs[1:]:
            total = total * x + 1.0
            parts.append(total)
        return tuple(parts)

    program = _agree(step, *xs)
    assert all(len(e.ins) <= fusion.MAX_INPUTS and len(e.outs) <= fusion.MAX_OUTPUTS for e in program.entries)


@st.composite
def programs(draw):
    """Steps: (function, operand numbers), on two inputs and a number."""
    unary = ("abs", "exp", "tanh", "negative", "square", "floor")
    binary = ("add", "multiply", "subtract", "divide", "maximum", "less")
    steps = []
    for i in range(draw(st.integers(2, 12))):
        pick = st.integers(0, i + 2)
        if draw(st.booleans()):
            steps.append((draw(st.sampled_from(unary)), (draw(pick),)))
        else:
            steps.append((draw(st.sampled_from(binary)), (draw(pick), draw(pick))))
    return steps, draw(st.sampled_from([1, 5, 130]))


@given(programs())
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_program(put, program):
    steps, n = program
    rng = np.random.default_rng(n)
    x, y = (put(rng.standard_normal(n).astype("f4")) for _ in range(2))

    def run(x, y):
        values = [x, y, x * 0.0 + 1.5]
        for name, operands in steps:
            given_ = [
                values[o] if values[o].dtype is grilly.float32 else values[o].to("float32") for o in operands
            ]
            values.append(getattr(grilly, name)(*given_))
        return tuple(values[-3:])

    _agree(run, x, y)


def test_modules_hold_only_what_they_use(backend):
    small = spirv_text.Module(fusion.module_of((("add", (0, 0)), ("neg", (1,))), 1, (2,)))
    names = {n.partition("(")[0] for n in small.names if n.startswith("f_")}
    assert names == {"f_add", "f_neg"}
    assert len(small.code()) < len(fusion._frame()) / 3
    assert spirv_text.Module(fusion._frame()).code() == fusion._frame()  # reading and writing lose nothing


def test_what_cannot_be_fused(backend):
    assert fusion.function_for("add", {}, ("f32", "f32"), "f32") == "add"
    assert fusion.function_for("add", {}, ("i32", "i32"), "i32") is None
    assert fusion.function_for("add", {}, ("b1", "b1"), "b1") is None
    assert fusion.function_for("bitwise_and", {}, ("b1", "b1"), "b1") == "both"
    assert fusion.function_for("cast", {}, ("f32",), "f16") is None
    assert fusion.function_for("sum", {}, ("f32",), "f32") is None
