"""Dense layers with their activation as one launch in captured steps. Oracle: the bits of the same step run eagerly."""

from __future__ import annotations

import numpy as np
import pytest

import grilly

F = grilly.functional
ACTIVATIONS = {
    "relu": F.relu,
    "gelu": F.gelu,
    "gelu_tanh": lambda z: F.gelu(z, approximate="tanh"),
    "silu": F.silu,
    "sigmoid": F.sigmoid,
    "tanh": F.tanh,
}


@pytest.fixture
def operands(backend):
    rng = np.random.default_rng(0)
    shapes = (5, 40), (30, 40), (30,)
    with grilly.fallback("error"):
        yield [grilly.asarray(rng.standard_normal(s, dtype=np.float32), device="vulkan:0") for s in shapes]


def _captured(function, arguments, **options):
    """Result of the replay and the names of the program's ops."""
    step = grilly.capture(function, **options)
    for _ in range(4):
        result = step(*arguments)
    (stage,) = step.programs.values()
    return result, [entry.plan.op.name for entry in stage.program.entries]


@pytest.mark.parametrize("name", ACTIVATIONS)
@pytest.mark.parametrize("bias", [True, False])
def test_an_activation_is_drawn_into_the_product(operands, name, bias):
    x, weight, offset = operands

    def layer(x, weight, offset):
        return ACTIVATIONS[name](F.linear(x, weight, offset if bias else None))

    result, ops = _captured(layer, (x, weight, offset))
    assert ops == ["nn.linear_act"]
    assert result.numpy().tobytes() == layer(x, weight, offset).numpy().tobytes()


def test_it_is_not_where_fusing_is_turned_off(operands):
    _, ops = _captured(lambda x, w, b: F.relu(F.linear(x, w, b)), operands, fuse=False)
    assert ops == ["nn.linear", "nn.relu"]


@pytest.mark.parametrize(
    "function",
    [
        lambda x, w, b: (lambda z: F.relu(z) * z)(F.linear(x, w, b)),  # read twice
        lambda x, w, b: (lambda z: (z, F.relu(z)))(F.linear(x, w, b)),  # a result
        lambda x, w, b: F.relu(F.linear(x, w, b).T),  # in another order
        lambda x, w, b: F.elu(F.linear(x, w, b)),  # no kernel of a product knows it
    ],
)
def test_what_else_needs_the_product_keeps_it(operands, function):
    result, ops = _captured(function, operands)
    assert "nn.linear" in ops
    assert "nn.linear_act" not in ops
    expected = function(*operands)
    pairs = zip(result, expected, strict=True) if isinstance(result, tuple) else [(result, expected)]
    assert all(a.numpy().tobytes() == b.numpy().tobytes() for a, b in pairs)


def test_an_operand_written_in_between_is_read_before(operands):
    x, weight, bias = operands
    offset = bias.clone()

    def step(x, weight):
        y = F.linear(x, weight, offset)
        offset.add_(1.0)
        return F.relu(y)

    capture = grilly.capture(step, state=offset)
    before = bias.numpy()
    for i in range(5):
        result = capture(x, weight)
        expected = F.relu(F.linear(x, weight, grilly.asarray(before + np.float32(i), device="vulkan:0")))
        np.testing.assert_allclose(result.numpy(), expected.numpy(), rtol=1e-6, atol=1e-6)


def test_training_with_it_equals_training_without(operands):
    x, *_ = operands
    losses = []
    for fuse in (True, False):
        grilly.manual_seed(0)
        model = grilly.nn.Sequential(
            grilly.nn.Linear(40, 24), grilly.nn.ReLU(), grilly.nn.Linear(24, 3), grilly.nn.Sigmoid()
        )
        model.to("vulkan:0")
        optimizer = grilly.optim.SGD(model.parameters(), lr=0.5)

        def step(x, model=model, optimizer=optimizer):
            optimizer.zero_grad()
            loss = (model(x) ** 2).mean()
            loss.backward()
            optimizer.step()
            return loss

        capture = grilly.capture(step, state=(model, optimizer), fuse=fuse)
        losses.append([capture(x).item() for _ in range(6)])
    assert losses[0] == losses[1]
    assert losses[0][-1] < losses[0][0]


def test_a_gradient_goes_through_product_and_relu_in_one_launch(operands):
    x, weight, bias = operands
    last = grilly.asarray(
        np.random.default_rng(1).standard_normal((3, 30), dtype=np.float32), device="vulkan:0"
    )

    def gradient(x, weight, bias, last):
        x = x.detach().requires_grad_()
        return grilly.grad(F.linear(F.relu(F.linear(x, weight, bias)), last).sum(), x)[0]

    result, ops = _captured(gradient, (x, weight, bias, last))
    assert "nn.matmul_relu_vjp" in ops
    assert "nn.relu_vjp" not in ops
    assert result.numpy().tobytes() == gradient(x, weight, bias, last).numpy().tobytes()
