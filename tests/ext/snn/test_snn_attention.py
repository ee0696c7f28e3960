"""Attention for spiking networks and the convolutional block against the papers' formulas in NumPy, in float64."""

from __future__ import annotations

import numpy as np
import pytest

import grilly
from grilly import nn
from grilly_core.errors import ShapeError

RNG = np.random.default_rng(0)
T, B, N, D, H = 4, 2, 5, 12, 3


def lif(x, threshold):
    """`LIFNode` with decay_input: ``H = V + (X - V) / 2``, hard reset to 0."""
    v, out = np.zeros(x.shape[1:]), []
    for now in x:
        h = v + (now - v) / 2
        s = (h >= threshold).astype(float)
        v = h * (1 - s)
        out.append(s)
    return np.stack(out)


def array(tensor):
    return np.asarray(tensor.detach().numpy(), np.float64)


def branch(module, x, threshold):
    w, b = array(module.linear.weight), array(module.linear.bias)
    norm = module.norm
    y = (x @ w.T + b - array(norm.running_mean)) / np.sqrt(array(norm.running_var) + norm.eps)
    return lif(y * array(norm.weight) + array(norm.bias), threshold)


def heads(x):
    return x.reshape(T, B, N, H, D // H).transpose(0, 1, 3, 2, 4)


def made(kind, *arguments):
    """A module in float64 and evaluation mode whose statistics are not the first ones."""
    grilly.manual_seed(3)
    module = kind(*arguments).to(dtype=grilly.float64).eval()
    for m in module.modules():
        if isinstance(m, nn.BatchNorm1d):
            with grilly.no_grad():
                m.running_mean = grilly.asarray(RNG.random(D) * 0.2, dtype="float64")
                m.running_var = grilly.asarray(RNG.random(D) * 0.05 + 0.01, dtype="float64")
                m.bias = nn.Parameter(grilly.asarray(RNG.random(D) * 0.8, dtype="float64"))
    return module


X = RNG.random((T, B, N, D)) * 2


def test_spiking_self_attention_is_spikformers():
    module = made(nn.SpikingSelfAttention, D, H, 0.6)
    q, k, v = (heads(branch(getattr(module, n), X, 0.6)) for n in "qkv")
    mixed = (q @ k.swapaxes(-1, -2)) @ v * 0.125
    spikes = lif(mixed.transpose(0, 1, 3, 2, 4).reshape(T, B, N, D), 0.3)
    wanted = branch(module.out, spikes, 0.6)
    assert 0 < spikes.mean() < 1 and 0 < wanted.mean() < 1
    np.testing.assert_array_equal(array(module(grilly.asarray(X, dtype="float64"))), wanted)


@pytest.mark.parametrize(("kind", "axis"), [(nn.TokenQKAttention, -1), (nn.ChannelQKAttention, -2)])
def test_qk_attention_is_qkformers(kind, axis):
    module = made(kind, D, H)
    q, k = (heads(branch(getattr(module, n), X, 1.0)) for n in "qk")
    chosen = lif(q.sum(axis, keepdims=True), 0.5)
    assert 0 < chosen.mean() < 1
    wanted = branch(module.out, (chosen * k).transpose(0, 1, 3, 2, 4).reshape(T, B, N, D), 1.0)
    assert 0 < wanted.mean() < 1
    np.testing.assert_array_equal(array(module(grilly.asarray(X, dtype="float64"))), wanted)


def test_gradients_reach_every_parameter_of_spiking_attention():
    for module in (nn.SpikingSelfAttention(D, H, 0.2), nn.QKAttention(D, H, "channel", 0.2)):
        (module(X.astype("f4")) * grilly.asarray(RNG.random(X.shape).astype("f4"))).sum().backward()
        lacking = [
            name for name, p in module.named_parameters() if p.grad is None or not p.grad.numpy().any()
        ]
        assert not [name for name in lacking if not name.endswith("linear.bias")], (
            "a norm takes a bias back out"
        )


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def squeeze(module, x, axes):
    def mlp(s):
        return np.maximum(s @ array(module.down.weight).T, 0) @ array(module.up.weight).T

    return sigmoid(mlp(x.mean(axes)) + mlp(x.max(axes)))


def test_attention_over_steps_channels_and_pixels():
    x = RNG.standard_normal((T, B, 6, 5, 5))
    given = grilly.asarray(x, dtype="float64")
    time = nn.TemporalWiseAttention(T, 6, 2).to(dtype=grilly.float64)
    by_sample = np.swapaxes(x, 0, 1)
    weights = squeeze(time.time, by_sample, (2, 3, 4)).T[:, :, None, None, None]
    np.testing.assert_allclose(array(time(given)), x * weights, rtol=1e-9)
    module = nn.MultiDimensionalAttention(T, 6, 2, 3).to(dtype=grilly.float64)
    y = x * squeeze(module.time, by_sample, (2, 3, 4)).T[:, :, None, None, None]
    y = y * squeeze(module.channel, y.swapaxes(0, 1).swapaxes(1, 2), (2, 3, 4))[None, :, :, None, None]
    two = np.stack([y.mean((0, 2)), y.max((0, 2))], 1)
    padded = np.pad(two, ((0, 0), (0, 0), (1, 1), (1, 1)))
    kernel = array(module.pixels.weight)[0]
    pixels = sum(
        (kernel[:, i, j][None, :, None, None] * padded[:, :, i : i + 5, j : j + 5]).sum(1)
        for i in range(3) for j in range(3)
    )  # fmt: skip
    wanted = np.maximum(y * sigmoid(pixels)[None, :, None], 0)
    np.testing.assert_allclose(array(module(given)), wanted, rtol=1e-9, atol=1e-12)


def test_a_convolutional_block_is_its_parts():
    grilly.manual_seed(0)
    block = nn.SpikingConvBlock(2, 3, node=nn.IFNode(v_threshold=0.5), pool=2)
    x = grilly.asarray(RNG.random((T, B, 2, 6, 6)).astype("f4"))
    y = block.conv(x.reshape(T * B, 2, 6, 6)).detach().numpy().reshape(T, B, 3, 6, 6)
    z = 0.5 * (y - y.mean((0, 1, 3, 4), keepdims=True)) / np.sqrt(y.var((0, 1, 3, 4), keepdims=True) + 1e-5)
    v, spikes = np.zeros_like(z[0]), []
    for now in z:
        v = v + now
        spikes.append(v >= 0.5)
        v = np.where(v >= 0.5, 0, v)
    pooled = np.array(spikes).reshape(T, B, 3, 3, 2, 3, 2).any((4, 6))
    assert 0 < pooled.mean() < 1
    assert (array(block(x)) == pooled).mean() > 0.99  # rounding may flip a spike at the threshold


def test_bad_shapes_and_settings():
    for make, message in (
        (lambda: nn.SpikingSelfAttention(10, 3), "multiple of num_heads"),
        (lambda: nn.QKAttention(8, 2, mode="row"), "token"),
        (lambda: nn.SpikingSelfAttention(8, 2)(grilly.ones((2, 3, 8))), r"\(T, B, N, 8\)"),
        (lambda: nn.TemporalWiseAttention(4, 3)(grilly.ones((5, 2, 3, 2, 2))), r"\(4, B, 3"),
        (lambda: nn.MultiDimensionalAttention(4, 3)(grilly.ones((4, 2, 3, 2))), "H, W"),
        (lambda: nn.MultiDimensionalAttention(4, 3, kernel_size=2), "odd"),
        (lambda: nn.SpikingConvBlock(1, 2)(grilly.ones((2, 1, 4, 4))), "T, B, C, H, W"),
        (lambda: nn.RecurrentSpikingLayer(2, 3, step_mode="x"), "step_mode"),
    ):
        with pytest.raises((ShapeError, ValueError), match=message):
            make()
