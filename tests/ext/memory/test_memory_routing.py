"""The router against the papers' formulas in float64, finite differences, and experts asked one row at a time."""

from __future__ import annotations

import numpy as np
import pytest

import grilly
from grilly_core.errors import ShapeError
from grilly_core.gradcheck import gradcheck
from grilly_ext_memory.functional.routing import load_balance_loss, router_z_loss
from grilly_ext_memory.nn.routing import ExpertRouter

RNG = np.random.default_rng(0)
X, W = RNG.normal(size=(12, 4)), RNG.normal(size=(3, 4))


def router(top_k=1, weight=W, **options):
    made = ExpertRouter(4, len(weight), top_k, **options).double()
    made.load_state_dict({"weight": np.asarray(weight, np.float64)})
    return made


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def host(tensor):
    return tensor.detach().numpy()


def rows(x):
    return grilly.asarray(x, dtype="float64")


@pytest.mark.parametrize("similarity", ["dot", "cosine"])
def test_probabilities_choices_and_losses_are_the_formulas(similarity):
    """Fedus et al. 2022, equations 1 and 4 to 6; Zoph et al. 2022, equation 5."""
    found = router(2, temperature=0.5, similarity=similarity)(rows(X))
    x, w = X, W
    if similarity == "cosine":
        x, w = (t / np.linalg.norm(t, axis=1, keepdims=True) for t in (X, W))
    logits = x @ w.T / 0.5
    p = softmax(logits)
    best = np.argsort(-p, axis=1)[:, :2]
    np.testing.assert_allclose(host(found.probabilities), p, rtol=1e-12)
    np.testing.assert_array_equal(host(found.experts), best)
    np.testing.assert_allclose(host(found.gates), np.take_along_axis(p, best, 1), rtol=1e-12)
    shares = np.bincount(best.ravel(), minlength=3) / best.size
    np.testing.assert_allclose(found.balance_loss.item(), 3 * (shares * p.mean(0)).sum(), rtol=1e-12)
    z = (np.log(np.exp(logits).sum(1)) ** 2).mean()
    np.testing.assert_allclose(found.z_loss.item(), z, rtol=1e-12)
    assert host(found.kept).all()


def test_renormalised_gates_sum_to_one():
    gates = host(router(2, renormalize=True)(rows(X)).gates)
    np.testing.assert_allclose(gates.sum(1), 1, rtol=1e-12)


def test_capacity_serves_first_choices_first():
    """By hand: all rows prefer expert 0, whose three places go to the first three rows; second choices come after."""
    x = np.array([[3.0, 2, 1, 0], [3, 1, 2, 0], [3, 2, 1, 0], [3, 2, 1, 0]])
    found = router(2, weight=np.eye(4)[:3], capacity_factor=1.0)(rows(x))
    assert router(2, weight=np.eye(4)[:3], capacity_factor=1.0).capacity(4) == 3  # ceil(1.0 * 4 * 2 / 3)
    assert found.experts.tolist() == [[0, 1], [0, 2], [0, 1], [0, 1]]
    assert found.kept.tolist() == [[True, True], [True, True], [True, True], [False, True]]
    assert host(found.gates)[3, 0] == 0 < host(found.gates)[3, 1]
    late = router(2, weight=np.eye(4)[:2], capacity_factor=0.5)(rows([[1, 2, 0, 0], [2, 1, 0, 0]]))
    assert late.kept.tolist() == [[True, False], [True, False]]


def test_of_equal_experts_the_first_is_chosen():
    assert router(2, weight=np.ones((3, 4)))(rows(X)).experts.tolist() == [[0, 1]] * 12


@pytest.mark.parametrize("options", [{}, {"top_k": 2, "renormalize": True}, {"similarity": "cosine"}])
def test_gradients(options):
    """Finite differences of gates and both losses, at rows whose choices are not close."""
    made = router(**options)
    x = rows(X[:5]).requires_grad_()
    for part in ("gates", "balance_loss", "z_loss"):
        assert gradcheck(lambda t, part=part: getattr(made(t), part), [x])
    (made(x).gates.sum() + made(x).balance_loss).backward()
    assert np.abs(host(made.weight.grad)).max() > 0


@pytest.mark.parametrize("capacity_factor", [None, 0.5])
def test_combining_is_asking_row_by_row(capacity_factor):
    made = router(2, capacity_factor=capacity_factor)
    layers = [grilly.nn.Linear(4, 5).double() for _ in range(3)]
    x = rows(X).requires_grad_()
    found = made(x)
    mixed = made.combine(x, layers, found)
    gates, experts = host(found.gates), host(found.experts)
    answers = [X @ host(layer.weight).T + host(layer.bias) for layer in layers]
    want = [sum(gates[b, j] * answers[experts[b, j]][b] for j in range(2)) for b in range(12)]
    np.testing.assert_allclose(host(mixed), want, rtol=1e-10, atol=1e-12)
    mixed.sum().backward()
    assert all(np.abs(host(t.grad)).max() > 0 for t in (x, made.weight, layers[0].weight))


def test_training_on_the_loss_spreads_the_rows():
    """A router that sends all rows to one expert uses all after a few steps on the balance loss alone."""
    made = router(weight=np.eye(3, 4) + np.array([[2.0], [0], [0]]))
    x = rows(np.abs(X))
    start = made(x)
    optimizer = grilly.optim.SGD(made.parameters(), lr=0.5)
    for _ in range(60):
        optimizer.zero_grad()
        made(x).balance_loss.backward()
        optimizer.step()
    end = made(x)
    assert len(set(host(start.experts).ravel())) == 1 and start.balance_loss.item() > 1.5
    assert len(set(host(end.experts).ravel())) == 3 and end.balance_loss.item() < 1.1


def test_no_rows():
    made = router(2, capacity_factor=1.0)
    found = made(rows(np.zeros((0, 4))))
    assert found.experts.shape == (0, 2) and found.balance_loss.item() == found.z_loss.item() == 0
    layers = [grilly.nn.Linear(4, 5).double() for _ in range(3)]
    assert made.combine(rows(np.zeros((0, 4))), layers).shape == (0, 5)


def test_bad_input():
    with pytest.raises(ValueError, match="top_k is at most num_experts = 3"):
        ExpertRouter(4, 3, 4)
    with pytest.raises(ValueError, match="temperature"):
        ExpertRouter(4, 3, temperature=0.0)
    with pytest.raises(ValueError, match="similarity"):
        ExpertRouter(4, 3, similarity="l2")
    with pytest.raises(ValueError, match="renormalize needs"):
        ExpertRouter(4, 3, renormalize=True)
    with pytest.raises(ShapeError, match=r"rows \(B, 4\)"):
        router()(rows(X[:, :3]))
    with pytest.raises(ValueError, match="expected 3 experts"):
        router().combine(rows(X), [lambda x: x])
    with pytest.raises(ShapeError, match="choices"):
        router().combine(rows(X), [lambda x: x] * 3, router()(rows(X[:3])))
    with pytest.raises(ShapeError, match="probabilities"):
        load_balance_loss(np.ones((2, 3)), [0])
    with pytest.raises(TypeError, match="whole numbers"):
        load_balance_loss(np.ones((2, 3)), [0.0, 1.0])
    with pytest.raises(ShapeError, match="logits"):
        router_z_loss([1.0])
