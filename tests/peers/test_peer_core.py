"""Tensor methods, indexing and their gradients against PyTorch 2.13, in float64 to 1e-9."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import grilly

UNARY = {
    "abs": (-3, 3),
    "acos": (-0.9, 0.9),
    "acosh": (1.1, 4),
    "asin": (-0.9, 0.9),
    "asinh": (-3, 3),
    "atan": (-3, 3),
    "atanh": (-0.9, 0.9),
    "ceil": (-3, 3),
    "cos": (-3, 3),
    "cosh": (-3, 3),
    "erf": (-3, 3),
    "erfc": (-2, 2),
    "exp": (-3, 3),
    "exp2": (-3, 3),
    "expm1": (-3, 3),
    "floor": (-3, 3),
    "log": (0.1, 3),
    "log10": (0.1, 3),
    "log1p": (-0.9, 3),
    "log2": (0.1, 3),
    "neg": (-3, 3),
    "reciprocal": (0.2, 3),
    "relu": (-3, 3),
    "round": (-3, 3),
    "rsqrt": (0.2, 3),
    "sigmoid": (-3, 3),
    "sign": (-3, 3),
    "sin": (-3, 3),
    "sinh": (-3, 3),
    "sqrt": (0.2, 3),
    "square": (-3, 3),
    "tan": (-1.2, 1.2),
    "tanh": (-3, 3),
    "trunc": (-3, 3),
}
BINARY = [
    "add",
    "sub",
    "mul",
    "div",
    "pow",
    "maximum",
    "minimum",
    "atan2",
    "hypot",
    "logaddexp",
    "remainder",
    "copysign",
]


def both(array):
    return (
        grilly.tensor(array, dtype="float64", requires_grad=True),
        torch.tensor(array, dtype=torch.float64, requires_grad=True),
    )


def agree(ours, theirs, *leaves):
    """Values agree, and so do the gradients of a weighted sum."""
    assert ours.shape == tuple(theirs.shape)
    np.testing.assert_allclose(ours.detach().numpy(), theirs.detach().numpy(), rtol=1e-9, atol=1e-12)
    if not theirs.requires_grad:
        return
    weights = np.random.default_rng(0).standard_normal(ours.shape)
    ours.backward(grilly.asarray(weights, dtype="float64"))
    theirs.backward(torch.tensor(weights))
    for a, b in leaves:
        expected = np.zeros(a.shape) if b.grad is None else b.grad.numpy()
        actual = np.zeros(a.shape) if a.grad is None else a.grad.numpy()
        np.testing.assert_allclose(actual, expected, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("name", UNARY)
def test_unary(name):
    low, high = UNARY[name]
    a, b = both(np.random.default_rng(1).uniform(low, high, (3, 5)))
    agree(getattr(a, name)(), getattr(b, name)(), (a, b))


@pytest.mark.parametrize("name", BINARY)
@pytest.mark.parametrize("shapes", [((3, 4), (3, 4)), ((3, 1), (4,)), ((), (2, 3))])
def test_binary(name, shapes):
    rng = np.random.default_rng(2)
    (a, b), (c, d) = both(rng.uniform(0.3, 3, shapes[0])), both(rng.uniform(0.4, 2, shapes[1]))
    agree(getattr(a, name)(c), getattr(torch, name)(b, d), (a, b), (c, d))


REDUCTIONS = [
    ("sum", {"dim": 1}), ("sum", {"dim": (0, 2), "keepdim": True}), ("mean", {"dim": -1}), ("prod", {"dim": 1}),
    ("var", {"dim": 1}), ("var", {"dim": 0, "unbiased": False}), ("std", {"dim": 2}), ("amax", {"dim": 1}),
    ("amin", {"dim": (0, 1)}), ("logsumexp", {"dim": 1}), ("norm", {"dim": 1}), ("norm", {"p": 1, "dim": 1}),
    ("norm", {"p": 3, "dim": 1}), ("cumsum", {"dim": 1}), ("cumprod", {"dim": 0}), ("softmax", {"dim": 1}),
    ("log_softmax", {"dim": 0}),
]  # fmt: skip


@pytest.mark.parametrize(("name", "options"), REDUCTIONS)
def test_reductions(name, options):
    a, b = both(np.random.default_rng(3).standard_normal((3, 4, 5)))
    agree(getattr(a, name)(**options), getattr(b, name)(**options), (a, b))


@pytest.mark.parametrize("name", ["max", "min", "sort", "topk"])
def test_values_with_indices(name):
    options = {"k": 2} if name == "topk" else {"dim": 1}
    a, b = both(np.random.default_rng(4).standard_normal((4, 6)))
    ours, theirs = getattr(a, name)(**options), getattr(b, name)(**options)
    assert ours.indices.tolist() == theirs.indices.tolist()
    agree(ours.values, theirs.values, (a, b))


SHAPES = [
    lambda x: x.reshape(4, -1),
    lambda x: x.transpose(0, 2),
    lambda x: x.permute(1, 2, 0),
    lambda x: x.flatten(1),
    lambda x: x.unsqueeze(1).expand(2, 3, 3, 4),
    lambda x: x.flip(0, 2),
    lambda x: x.roll(1, 1),
    lambda x: x.repeat(2, 1, 1),
    lambda x: x.repeat_interleave(2, 1),
    lambda x: x.narrow(2, 1, 2),
    lambda x: x.chunk(2, 2)[1],
    lambda x: x.split(2, 1)[0],
    lambda x: x.unbind(1)[2],
    lambda x: x.tril(),
    lambda x: x.triu(1),
    lambda x: x[:, 1:, ::2],
    lambda x: x[..., None, -1],
    lambda x: x[[1, 0, 1]],
    lambda x: x[:, [0, 2], [1, 1]],
    lambda x: x[[0, 1], :, [2, 3]],
    lambda x: x[x > 0],
    lambda x: x.clamp(-0.5, 0.5),
    lambda x: x.masked_fill(x > 0, 2.0),
    lambda x: x @ x.transpose(1, 2),
    lambda x: x @ x[0].t(),
    lambda x: x.squeeze(0),
    lambda x: x.unflatten(2, (2, 2)),
]


@pytest.mark.parametrize("function", SHAPES, ids=range(len(SHAPES)))
def test_shapes_and_picking(function):
    a, b = both(np.random.default_rng(5).standard_normal((2, 3, 4)))
    agree(function(a), function(b), (a, b))


def test_gather_and_scatter():
    rng = np.random.default_rng(6)
    (a, b), (c, d) = both(rng.standard_normal((4, 5))), both(rng.standard_normal((4, 3)))
    index = rng.integers(0, 5, (4, 3))
    i, j = grilly.asarray(index), torch.tensor(index)
    agree(a.gather(1, i), b.gather(1, j), (a, b))
    a.grad, b.grad = None, None
    agree(a.scatter_add(1, i, c), b.scatter_add(1, j, d), (a, b), (c, d))
    rows = rng.integers(0, 4, 3)
    agree(a.detach().index_add(0, grilly.asarray(rows), grilly.ones(3, 5, dtype="float64")),
          b.detach().index_add(0, torch.tensor(rows), torch.ones(3, 5, dtype=torch.float64)))  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(
    hnp.mutually_broadcastable_shapes(signature="(m,k),(k,n)->(m,n)", max_dims=2, max_side=3),
)
def test_matmul_broadcasts(shapes):
    rng = np.random.default_rng(7)
    (a, b), (c, d) = (both(rng.standard_normal(s)) for s in shapes.input_shapes)
    agree(a @ c, b @ d, (a, b), (c, d))


@settings(max_examples=80, deadline=None)
@given(hnp.arrays(np.float64, hnp.array_shapes(max_dims=3, max_side=4), elements=st.floats(-2, 2)), st.data())
def test_basic_index_gradients(array, data):
    key = data.draw(
        hnp.basic_indices(array.shape, allow_newaxis=True).filter(lambda k: not _has_negative_step(k))
    )
    a, b = both(array)
    agree(a[key], b[key], (a, b))


def _has_negative_step(key):
    return any(
        isinstance(k, slice) and (k.step or 1) < 0 for k in (key if isinstance(key, tuple) else (key,))
    )


def test_convolution_with_a_transposed_weight():
    """TEN-01, with its own values and PyTorch's gradients."""
    w, x = np.arange(16.0).reshape(2, 2, 2, 2), np.arange(18.0).reshape(1, 2, 3, 3)
    (a, b), (c, d) = both(w), both(x)
    ours = grilly.functional.conv2d(c, a.transpose(0, 1))
    assert ours.detach().numpy().ravel().tolist() == [444, 488, 576, 620, 652, 728, 880, 956]
    agree(ours, torch.nn.functional.conv2d(d, b.transpose(0, 1)), (a, b), (c, d))
    five = np.arange(32.0).reshape(2, 2, 2, 2, 2)
    (e, f) = both(five)
    agree(
        grilly.functional.conv2d(c.detach(), e[:, :, 1]),
        torch.nn.functional.conv2d(d.detach(), f[:, :, 1]),
        (e, f),
    )


def test_second_order_gradients():
    a, b = both(np.random.default_rng(8).standard_normal((3, 4)))

    def penalty(x, grad, f):
        (g,) = grad(f(x).sum(), x, create_graph=True)
        return (g * g).sum()

    ours = penalty(a, grilly.grad, lambda x: grilly.functional.gelu(x).softmax(1) * x)
    theirs = penalty(b, torch.autograd.grad, lambda x: torch.nn.functional.gelu(x).softmax(1) * x)
    agree(ours, theirs, (a, b))
