"""Functions of embeddings and `AffectMLP` (features 14.17, 14.19 to 14.24); the oracle is the formula in NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import grilly_core as grilly
from grilly_core import nn

F = grilly.functional


def t64(array):
    return grilly.asarray(array, dtype="float64")


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def test_lookup_and_unit_rows(rng):
    table, ids = rng.normal(size=(5, 3)), np.array([4, 0, 4], np.int32)
    np.testing.assert_array_equal(F.embedding_lookup(t64(table), ids).numpy(), table[ids])
    x = rng.normal(size=(2, 4, 3))
    want = x / np.linalg.norm(x, axis=-1, keepdims=True)
    np.testing.assert_allclose(F.embedding_normalize(t64(x)).numpy(), want, rtol=1e-12)
    assert F.embedding_normalize([[0.0, 0.0]]).tolist() == [[0.0, 0.0]]


@pytest.mark.parametrize("dim", [None, 4, 5])
def test_positions(rng, dim):
    """Both arguments act: the width of the formula, and the longest sequence."""
    x, used = rng.normal(size=(2, 7, 6)), dim or 6
    want = x.copy()
    for pos in range(7):
        for i in range(used):
            angle = pos / 10000 ** (2 * (i // 2) / used)
            want[:, pos, i] += np.cos(angle) if i % 2 else np.sin(angle)
    np.testing.assert_allclose(F.embedding_position(t64(x), dim=dim).numpy(), want, rtol=1e-12)
    with pytest.raises(ValueError, match="at most 6"):
        F.embedding_position(x, max_seq_len=6)
    with pytest.raises(ValueError, match="dim=7"):
        F.embedding_position(x, dim=7)


@pytest.mark.parametrize("kind", ["mean", "max", "sum"])
def test_pooling_with_masks(rng, kind):
    x, mask = rng.normal(size=(3, 4, 2)), np.array([[1, 1, 0, 1], [0, 0, 0, 0], [0, 0, 1, 0]], bool)
    rows = [
        getattr(part[m], kind)(axis=0) if m.any() else np.zeros(2) for part, m in zip(x, mask, strict=True)
    ]
    a = t64(x).requires_grad_()
    out = F.embedding_pool(a, kind, mask)
    np.testing.assert_allclose(out.detach().numpy(), rows, rtol=1e-12)
    np.testing.assert_allclose(F.embedding_pool(t64(x), kind).numpy(), getattr(x, kind)(axis=1), rtol=1e-12)
    out.sum().backward()
    assert np.isfinite(a.grad.numpy()).all() and not a.grad.numpy()[~mask].any()
    with pytest.raises(ValueError, match="pool_type"):
        F.embedding_pool(x, "median")
    with pytest.raises(ValueError, match="mask"):
        F.embedding_pool(x, mask=mask[:, :3])


def test_ffn(rng):
    x, w1, b1, w2, b2 = (rng.normal(size=s) for s in ((2, 3, 4), (5, 4), 5, (2, 5), 2))
    want = np.maximum(x @ w1.T + b1, 0) @ w2.T + b2
    args = [t64(v) for v in (x, w1, b1, w2, b2)]
    np.testing.assert_allclose(F.embedding_ffn(*args, activation="relu").numpy(), want, rtol=1e-10)
    gelu = F.linear(F.gelu(F.linear(*args[:3])), *args[3:])
    assert F.embedding_ffn(*args).tolist() == gelu.tolist()
    with pytest.raises(ValueError, match="activation"):
        F.embedding_ffn(*args, activation="step")


@pytest.mark.parametrize("heads", [1, 2, 4])
def test_attention_in_heads(rng, heads):
    """More heads give another result: each attends within its own features."""
    x = rng.normal(size=(2, 3, 4))
    want = np.empty_like(x)
    size = 4 // heads
    for h in range(heads):
        part = x[..., h * size : (h + 1) * size]
        s = np.exp(part @ part.swapaxes(1, 2) / np.sqrt(size))
        want[..., h * size : (h + 1) * size] = s / s.sum(-1, keepdims=True) @ part
    np.testing.assert_allclose(F.embedding_attention(t64(x), heads).numpy(), want, rtol=1e-10)
    with pytest.raises(ValueError, match="do not make the width"):
        F.embedding_attention(x, 3)
    with pytest.raises(ValueError, match="do not make the width"):
        F.embedding_attention(x, heads, head_dim=size + 1)


@pytest.mark.parametrize("length", [1, 2, 7, 33, 70])
def test_scan_of_any_length(rng, length):
    x, a = rng.normal(size=(2, length, 3)), rng.uniform(-1, 1, (2, length, 3))
    h, want = np.zeros((2, 3)), np.empty_like(x)
    for t in range(length):
        h = a[:, t] * h + x[:, t]
        want[:, t] = h
    np.testing.assert_allclose(F.prefix_scan_causal(t64(x), t64(a)).numpy(), want, rtol=1e-9, atol=1e-12)
    if length == 7:
        f = lambda u, v: (F.prefix_scan_causal(u, v) ** 2).sum()  # noqa: E731
        assert grilly.gradcheck(f, (t64(x).requires_grad_(), t64(a).requires_grad_()))


@pytest.mark.parametrize("hidden", [(5, 4), (5, 5)])
def test_affect_mlp(rng, hidden):
    model = nn.AffectMLP(6, *hidden, leaky_slope=0.2).to(dtype="float64").eval()
    x = rng.normal(size=(3, 6))
    p = {k: v.detach().numpy() for k, v in model.named_parameters()}
    leaky = lambda v: np.where(v > 0, v, 0.2 * v)  # noqa: E731
    h1 = leaky(x @ p["fc1.weight"].T + p["fc1.bias"])
    h2 = leaky(h1 @ p["fc2.weight"].T + p["fc2.bias"]) + (h1 if hidden[0] == hidden[1] else 0)
    out = h2 @ p["fc3.weight"].T + p["fc3.bias"]
    np.testing.assert_allclose(model(t64(x)).detach().numpy(), out, rtol=1e-10)
    felt = np.stack([np.tanh(out[:, 0]), 1 / (1 + np.exp(-out[:, 1]))], axis=1)
    np.testing.assert_allclose(model(t64(x), apply_output_activation=True).detach().numpy(), felt, rtol=1e-10)
    model.train()
    assert model(t64(x)).tolist() != model(t64(x)).tolist()  # dropout acts
    model(t64(x))
    grads = model.backward(grilly.ones((3, 2), dtype="float64"))
    assert grads is None and all(q.grad.numpy().any() for q in model.parameters())
    with pytest.raises(ValueError, match="output_dim=2"):
        nn.AffectMLP(6, output_dim=3)(np.ones((1, 6), np.float32), apply_output_activation=True)
