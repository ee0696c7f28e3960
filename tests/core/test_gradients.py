"""The tape: the gradient cases, higher orders, hooks, and the errors."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

import grilly_core as grilly
from grilly_core.autograd import Function
from grilly_core.errors import AutogradError, ShapeError
from grilly_core.gradcheck import gradgradcheck


def leaf(values, **options):
    return grilly.tensor(values, requires_grad=True, **options)


def test_broadcast_operands():
    """AUT-01. Oracle: a sum over the broadcast axes."""
    a, b = leaf(np.ones((3, 1))), leaf(np.ones((1, 4)))
    (a * b).sum().backward()
    assert a.grad.tolist() == [[4]] * 3
    assert b.grad.tolist() == [[3] * 4]
    c, d = leaf(np.ones((3, 1))), leaf(np.ones((2, 3, 4)))
    (c * d).sum().backward()
    assert c.grad.tolist() == [[8]] * 3
    e = leaf(np.ones((1, 4)))
    (e * grilly.ones(1, 1, 4)).sum().backward()
    assert e.grad.shape == (1, 4)


def test_one_tensor_by_two_paths():
    """AUT-02. Oracle: calculus."""
    x = leaf([1.0, 2.0, 3.0, 4.0])
    (x - x.mean()).sum().backward()
    assert x.grad.tolist() == [0, 0, 0, 0]
    x.grad = None
    ((x - x.mean()) ** 2).sum().backward()
    assert x.grad.tolist() == [-3, -1, 1, 3]


def test_norms_at_zero():
    """AUT-05: a sub-gradient, never NaN."""
    x = leaf(np.zeros(3))
    x.norm().backward()
    assert x.grad.tolist() == [0, 0, 0]


def test_ties_of_max():
    """AUT-06. Oracle: PyTorch 2.13's values."""
    for function, expected in [
        (lambda x: x.max(), [0, 0.5, 0.5]),
        (lambda x: x.max(dim=0).values, [0, 1, 0]),
        (lambda x: x.amax(0), [0, 0.5, 0.5]),
    ]:
        x = leaf([1.0, 3.0, 3.0])
        function(x).backward()
        assert x.grad.tolist() == expected
    assert leaf([1.0, 3.0, 3.0]).max(dim=0).indices.item() == 1
    assert grilly.zeros(2001).argmax().item() == 0


def test_tied_embedding_and_head():
    """AUT-07. Oracle: PyTorch 2.13's values."""
    table = leaf([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    logits = table[[0]] @ table.T
    logits.sum().backward()
    assert table.grad.tolist() == [[3, 2], [1, 0], [1, 0]]


def test_updates_after_the_forward_change_no_gradient():
    w = leaf([2.0])
    y = (w * w).sum()
    with grilly.no_grad():
        w.mul_(10)
    y.backward()
    assert w.grad.tolist() == [4]


def test_third_derivative():
    x = leaf(2.0, dtype="float64")
    y = x**4
    for expected in (32.0, 48.0, 48.0):
        (y,) = grilly.grad(y, x, create_graph=True)
        assert y.item() == pytest.approx(expected)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: grilly.functional.softmax(x, -1),
        lambda x: grilly.functional.layer_norm(x, (4,)),
        lambda x: grilly.functional.gelu(x),
        lambda x: x.logsumexp(1),
        lambda x: x.var(1),
        lambda x: x.norm(dim=1),
        lambda x: x @ x.T,
        lambda x: grilly.concat([x[1:], x[:1] * 2]),
        lambda x: x.cumsum(1) * x.prod(1, keepdim=True),
        lambda x: x[[0, 0, 1]] ** 2,
    ],
)
def test_second_derivatives_by_differences(function):
    x = leaf(np.random.default_rng(0).standard_normal((3, 4)), dtype="float64")
    assert grilly.gradcheck(function, x)
    assert gradgradcheck(function, x)


def test_a_composite_without_a_rule_differentiates_through_its_body():
    @grilly.op("test.logistic")
    def logistic(x, *, gain=1.0):
        """Logistic function."""
        return 1.0 / (1.0 + grilly.exp(-gain * x))

    x = leaf([0.3, -1.0], dtype="float64")
    assert grilly.gradcheck(lambda x: logistic(x, gain=2.0), x)
    assert gradgradcheck(lambda x: logistic(x, gain=2.0), x)


def test_deep_graphs_do_not_recurse():
    x = leaf(1.0)
    y = x
    for _ in range(5000):
        y = y + 1
    y.backward()
    assert x.grad.item() == 1


def test_values_are_freed_by_backward():
    x = leaf(np.ones(3))
    y = (x * x).sum()
    y.backward()
    with pytest.raises(AutogradError, match="retain_graph"):
        y.backward()
    z = (x * x).sum()
    z.backward(retain_graph=True)
    z.backward()


def test_a_dropped_graph_is_collected():
    x = leaf(np.ones(3))
    y = x * 2
    gone = weakref.ref(y)
    del y
    assert gone() is None
    gc.collect()


def test_no_grad_reaches_every_module():
    x = leaf([1.0])
    with grilly.no_grad():
        assert not (x * 2).requires_grad
        with grilly.enable_grad():
            assert (x * 2).requires_grad

    @grilly.no_grad()
    def quiet(x):
        return x * 2

    assert not quiet(x).requires_grad


def test_hooks():
    x = leaf([1.0, 2.0])
    y = x * 3
    seen = []
    y.register_hook(lambda g: seen.append(g.tolist()))
    remove = x.register_hook(lambda g: g * 10)
    y.retain_grad()
    y.sum().backward()
    assert seen == [[1, 1]]
    assert y.grad.tolist() == [1, 1]
    assert x.grad.tolist() == [30, 30]
    remove()
    x.grad = None
    (x * 3).sum().backward()
    assert x.grad.tolist() == [3, 3]


def test_custom_gradients():
    class Clamp(Function):
        @staticmethod
        def forward(ctx, x, limit):
            ctx.save_for_backward(x)
            return x.clamp(-limit, limit)

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return g * (x.abs() < 5), None

    x = leaf([0.5, 3.0, 9.0])
    Clamp.apply(x, 1.0).sum().backward()
    assert x.grad.tolist() == [1, 1, 0]


def test_errors_name_the_way_out():
    with pytest.raises(AutogradError, match="requires_grad_"):
        grilly.ones(1).backward()
    with pytest.raises(AutogradError, match="needs its gradient"):
        (leaf([1.0, 2.0]) * 2).backward()
    with pytest.raises(ShapeError, match="gradient"):
        (leaf([1.0, 2.0]) * 2).backward(grilly.ones(3))
    with pytest.raises(AutogradError, match="allow_unused"):
        grilly.grad(leaf(1.0) * 2, leaf(1.0))
    with pytest.raises(AutogradError, match="floating"):
        grilly.tensor([1, 2], requires_grad=True)
    with pytest.raises(ShapeError, match="grad"):
        leaf([1.0]).grad = grilly.ones(2)


def test_gradcheck_finds_a_wrong_rule():
    @grilly.custom_vjp
    def wrong(x):
        return x * x

    wrong.vjp(lambda grads, outs, ins: (grads[0],))
    with pytest.raises(AutogradError, match="wrong"):
        grilly.gradcheck(wrong, leaf([3.0], dtype="float64"))


def test_grad_leaves_grad_alone_and_does_only_the_work_asked_for():
    x, w = leaf([1.0]), leaf([2.0])
    (g,) = grilly.grad((x * w).sum(), x)
    assert g.tolist() == [2]
    assert x.grad is None
    assert w.grad is None


def test_complex_gradients_follow_the_conjugate_rule():
    """Oracle: for real L = |z|**2, PyTorch's convention gives 2 z."""
    z = leaf(np.array([1 + 2j, -0.5j], np.complex64))
    (z * grilly.conj(z)).real.sum().backward()
    assert np.allclose(z.grad.numpy(), [2 + 4j, -1j])


def test_grad_by_an_intermediate_keeps_what_made_it():
    x = leaf([2.0])
    h = x * x
    (g,) = grilly.grad((h * 3).sum(), h)
    assert g.tolist() == [3]
    h.sum().backward()
    assert x.grad.tolist() == [4]


def test_the_tape_keeps_only_what_the_rules_read():
    """ReLU's rule reads its output, an addition's nothing: what went in between is let go."""
    from grilly_core.buffer import Buffer

    x = grilly.ones(12_345, requires_grad=True)
    y = grilly.functional.relu(x + 1.0) + 1.0
    gc.collect()
    alive = [o for o in gc.get_objects() if issubclass(type(o), Buffer) and o.nbytes == 4 * 12_345]
    assert len(alive) == 3  # x, the output of relu, y
    y.sum().backward()
    assert x.grad.tolist() == [1.0] * 12_345


def test_a_rule_may_not_read_what_it_did_not_ask_to_keep():
    @grilly.op("test.forgetful", saves="shapes")
    def forgetful(x):
        """Square."""
        return x * x

    forgetful.vjp(lambda grads, outs, ins, attrs, needs: (grads[0] * ins[0].tolist()[0],))
    with pytest.raises(grilly.CaptureError, match="values"):
        forgetful(leaf([2.0])).sum().backward()


def test_the_gradient_of_one_bfloat16_number():
    """A sum over nothing but axes of size 1 hands its 0-d gradient on as a view."""
    x = grilly.ones((1, 1), dtype="bfloat16").requires_grad_(True)
    x.sum().backward()
    assert x.grad.dtype is grilly.bfloat16 and x.grad.tolist() == [[1.0]]
