"""Meta-tests: what is declared is complete, documented and consistent."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path

import pytest

import grilly
import grilly_core
from grilly_core import registry
from grilly_core.methods import elementwise
from grilly_core.plugins import loader
from grilly_core.samples import cases_of

ROOT = Path(__file__).parents[2]
loader.load_every_op(strict=True)
OPS = registry.specs()
#: Views whose samples would need layouts that no shape expresses; the ops over them are sampled.
UNSAMPLED = {"restride", "pairs_as_complex"}
PRIMITIVES = [
    "full", "iota", "cast", "bitcast", "strided_copy", "neg", "abs", "sign", "floor", "exp", "expm1", "log",
    "log1p", "sqrt", "sin", "cos", "tanh", "erf", "isnan", "add", "sub", "mul", "div", "floordiv", "pow",
    "maximum", "minimum", "atan2", "bitwise_and", "bitwise_or", "bitwise_xor", "shift_left", "shift_right",
    "eq", "lt", "where", "sum", "max", "argmax", "cumsum", "matmul", "gather", "scatter", "sort",
    "random_bits",
]  # fmt: skip


def test_the_primitives_are_those_of_the_design():
    assert len(PRIMITIVES) == 45
    assert {n for n, op in OPS.items() if op.primitive} == set(PRIMITIVES)


@pytest.mark.parametrize("name", OPS)
def test_every_op_is_complete(name):
    op = OPS[name]
    assert op.doc
    assert name in UNSAMPLED or cases_of(op).cases
    if op.primitive:
        assert op.reference_rule is not None
        assert op.nondiff or op.vjp_rule is not None


def test_generated_methods_match_their_declarations():
    tree = ast.parse(inspect.getsource(elementwise.ElementwiseMethods))
    declared = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    generated = {*elementwise._UNARY, *elementwise._BINARY, *(f"{n}_" for n in elementwise._IN_PLACE)}
    assert declared == generated
    for name in generated:
        assert getattr(grilly.Tensor, name).__doc__


@pytest.mark.parametrize("name", grilly_core.__all__)
def test_public_names_exist_and_are_the_same_in_both_packages(name):
    assert getattr(grilly, name) is getattr(grilly_core, name)


@pytest.mark.parametrize(
    "module",
    [
        "functional",
        "nn",
        "optim",
        "data",
        "io",
        "random",
        "linalg",
        "fft",
        "special",
        "lora",
        "autograd",
        "testing",
    ],
)
def test_public_modules_are_documented(module):
    found = getattr(grilly_core, module)
    for name in found.__all__:
        value = getattr(found, name)
        if inspect.isclass(value) or inspect.isfunction(value):
            assert inspect.getdoc(value), f"{module}.{name}"


def test_test_files_have_unique_names():
    names = [p.name for p in ROOT.glob("tests/**/test_*.py")]
    assert len(names) == len(set(names))


def test_every_fused_cpu_kernel_names_an_op():
    grilly.ones(1, device="cpu")
    assert not set(registry.kernels_for("cpu")) - set(OPS)


def test_fused_cpu_kernels_are_sampled():
    fused = {n for n in registry.kernels_for("cpu") if OPS[n].kind == "composite"}
    assert len(fused) > 20
    assert not [n for n in fused if not cases_of(OPS[n]).cases]
