"""Layers that draw: the oracle is the definition (what may be dropped, and which mean and variance stay)."""

from __future__ import annotations

import numpy as np
import pytest

import grilly_core as grilly
from grilly_core import functional, nn
from grilly_core.errors import ShapeError

X = np.random.default_rng(0).normal(size=(40, 30, 4)).astype(np.float32)


@pytest.mark.parametrize(
    ("layer", "shape"),
    [(nn.Dropout1d, (40, 30, 4)), (nn.Dropout2d, (40, 30, 2, 2)), (nn.Dropout3d, (40, 30, 2, 1, 2))],
)
def test_whole_channels_are_dropped(layer, shape):
    x = np.ones(shape, np.float32)
    y = layer(0.25)(grilly.asarray(x)).numpy().reshape(40, 30, -1)
    assert set(np.unique(y)) == {0.0, np.float32(1 / 0.75)}
    assert (y == y[..., :1]).all()
    assert abs((y == 0).mean() - 0.25) < 0.05
    np.testing.assert_array_equal(layer(0.25).eval()(grilly.asarray(x)).numpy(), x)
    assert not layer(1.0)(grilly.asarray(x * np.inf)).numpy().any()


def test_dropout_of_one_sample_drops_its_channels():
    y = functional.dropout1d(np.ones((200, 3), np.float32), 0.5).numpy()
    assert (y == y[:, :1]).all() and 0.3 < (y == 0).mean() < 0.7
    with pytest.raises(ShapeError, match="dropout3d"):
        functional.dropout3d(np.ones((2, 2), np.float32))
    with pytest.warns(UserWarning, match="dropout1d"):
        functional.dropout2d(np.ones((2, 2, 2), np.float32))


@pytest.mark.parametrize("layer", [nn.AlphaDropout, nn.FeatureAlphaDropout])
def test_alpha_dropout_keeps_mean_and_variance(layer):
    x = np.random.default_rng(1).normal(size=(200, 200, 3)).astype(np.float32)
    y = layer(0.3)(grilly.asarray(x)).numpy()
    assert abs(y.mean()) < 0.05 and abs(y.std() - 1) < 0.05
    values, counts = np.unique(y, return_counts=True)
    dropped = y == values[counts.argmax()]  # they all get one value
    if layer is nn.FeatureAlphaDropout:
        assert (dropped == dropped[..., :1]).all()
    assert abs(dropped.mean() - 0.3) < 0.02
    assert not layer(1.0)(grilly.asarray(x)).numpy().any()


def test_gradients_pass_where_nothing_was_dropped():
    for layer in (nn.Dropout1d(0.5), nn.AlphaDropout(0.5), nn.RReLU()):
        x = grilly.asarray(X).requires_grad_()
        y = layer(x)
        y.sum().backward()
        g, ratio = x.grad.numpy(), (y.detach().numpy() / X)
        if not isinstance(layer, nn.AlphaDropout):
            np.testing.assert_allclose(g, ratio, rtol=1e-4, atol=1e-6)
        assert (g == 0).any() != isinstance(layer, nn.RReLU)


def test_random_slopes_lie_between_their_bounds():
    y = nn.RReLU(0.2, 0.4)(grilly.asarray(X)).numpy()
    np.testing.assert_array_equal(y[X > 0], X[X > 0])
    slopes = y[X < 0] / X[X < 0]
    assert slopes.min() >= 0.2 - 1e-5 and slopes.max() <= 0.4 + 1e-5 and slopes.std() > 0.05
    with pytest.raises(ValueError, match="lower"):
        functional.rrelu(X, 0.5, 0.4)


def test_gumbel_choices_follow_the_softmax():
    logits = grilly.asarray(
        np.tile(np.log(np.array([0.2, 0.3, 0.5], np.float32)), (4000, 1))
    ).requires_grad_()
    hard = functional.gumbel_softmax(logits, hard=True)
    np.testing.assert_allclose(hard.detach().numpy().mean(0), [0.2, 0.3, 0.5], atol=0.04)
    np.testing.assert_allclose(np.sort(hard.detach().numpy(), 1)[:, :2], 0, atol=1e-6)
    (hard * grilly.asarray(np.array([1.0, 2.0, 3.0], np.float32))).sum().backward()
    assert np.abs(logits.grad.numpy()).max() > 0
    np.testing.assert_allclose(functional.gumbel_softmax(logits).sum(dim=1).detach().numpy(), 1, rtol=1e-5)


def test_one_seed_gives_the_same_draws():
    for call in (functional.dropout1d, lambda x, **k: functional.alpha_dropout(x, training=True, **k)):
        draws = [call(X, rng=grilly.random.Generator(7)).numpy() for _ in range(2)]
        np.testing.assert_array_equal(*draws)
        assert (call(X, rng=grilly.random.Generator(8)).numpy() != draws[0]).any()


def test_gates_of_halves():
    x = np.random.default_rng(2).normal(size=(3, 6)).astype(np.float32)
    a, b = x[:, :3], x[:, 3:]
    np.testing.assert_allclose(nn.ReGLU()(grilly.asarray(x)).numpy(), a * np.maximum(b, 0), rtol=1e-6)
    gelu = functional.gelu(b, "tanh").numpy()
    np.testing.assert_allclose(nn.GeGLU(approximate="tanh")(grilly.asarray(x)).numpy(), a * gelu, rtol=1e-5)
