"""Parametrised weights against PyTorch: state dicts, outputs, gradients, and what training does to estimates."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from torch.nn.utils import parametrizations as their_kinds
from torch.nn.utils import parametrize as theirs

import grilly
from grilly.nn.utils import parametrizations, parametrize

LAYERS = {
    "linear": (lambda nn: nn.Linear(6, 4), (3, 6)),
    "conv": (lambda nn: nn.Conv2d(3, 5, 3), (2, 3, 6, 6)),
    "transposed": (lambda nn: nn.ConvTranspose1d(4, 3, 3), (2, 4, 7)),
}
KINDS = {
    "weight_norm": lambda m, made: m.weight_norm(made),
    "weight_norm dim 1": lambda m, made: m.weight_norm(made, dim=1),
    "weight_norm whole": lambda m, made: m.weight_norm(made, dim=None),
    "spectral_norm": lambda m, made: m.spectral_norm(made, n_power_iterations=2),
}


def pair(layer, kind):
    build, shape = LAYERS[layer]
    mine, peer = (
        KINDS[kind](parametrizations, build(grilly.nn)), KINDS[kind](their_kinds, build(torch.nn)),
    )  # fmt: skip
    assert list(mine.state_dict()) == list(peer.state_dict()) or sorted(mine.state_dict()) == sorted(
        peer.state_dict()
    )
    mine.load_state_dict(peer.state_dict())
    x = np.random.default_rng(0).standard_normal(shape, dtype=np.float32)
    return mine, peer, x


@pytest.mark.parametrize("layer", LAYERS)
@pytest.mark.parametrize("kind", KINDS)
def test_outputs_gradients_and_state(layer, kind):
    mine, peer, x = pair(layer, kind)
    a, b = grilly.asarray(x).requires_grad_(), torch.from_numpy(x).requires_grad_()
    for _ in range(3):  # power iterations go on from use to use
        y, z = mine(a), peer(b)
    np.testing.assert_allclose(y.detach().numpy(), z.detach().numpy(), atol=2e-6)
    (y**2).sum().backward()
    (z**2).sum().backward()
    for (name, p), (other, q) in zip(
        sorted(mine.named_parameters()), sorted(peer.named_parameters()), strict=True
    ):
        assert name == other
        np.testing.assert_allclose(p.grad.numpy(), q.grad.numpy(), rtol=2e-5, atol=2e-5, err_msg=name)
    for name, value in peer.state_dict().items():
        np.testing.assert_allclose(mine.state_dict()[name].numpy(), value.numpy(), atol=1e-5, err_msg=name)
    mine.eval(), peer.eval()
    np.testing.assert_allclose(mine(a).detach().numpy(), peer(b).detach().numpy(), atol=2e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_removal_keeps_the_value_and_the_class(kind):
    mine, _, x = pair("linear", kind)
    mine.eval()
    before = mine(grilly.asarray(x)).detach().numpy()
    assert parametrize.is_parametrized(mine, "weight")
    assert parametrize.type_before_parametrizations(mine) is grilly.nn.Linear
    parametrize.remove_parametrizations(mine, "weight")
    assert type(mine) is grilly.nn.Linear
    assert sorted(mine.state_dict()) == ["bias", "weight"]
    np.testing.assert_array_equal(mine(grilly.asarray(x)).detach().numpy(), before)


class Doubled(grilly.nn.Module):
    def forward(self, x):
        return 2 * x

    def right_inverse(self, x):
        return x / 2


class PeerDoubled(torch.nn.Module):
    def forward(self, x):
        return 2 * x

    def right_inverse(self, x):
        return x / 2


def test_several_on_one_tensor_and_assignment():
    mine, peer = grilly.nn.Linear(3, 2), torch.nn.Linear(3, 2)
    mine.load_state_dict(peer.state_dict())
    for _ in range(2):
        parametrize.register_parametrization(mine, "weight", Doubled())
        theirs.register_parametrization(peer, "weight", PeerDoubled())
    key = "parametrizations.weight.original"
    np.testing.assert_allclose(mine.state_dict()[key].numpy(), peer.state_dict()[key].numpy())
    value = np.arange(6, dtype=np.float32).reshape(2, 3)
    mine.weight, peer.weight = grilly.asarray(value), torch.from_numpy(value)
    np.testing.assert_array_equal(mine.weight.detach().numpy(), value)
    np.testing.assert_allclose(mine.state_dict()[key].numpy(), peer.state_dict()[key].numpy())


def test_an_optimiser_made_before_goes_on_to_train():
    layer = grilly.nn.Linear(3, 2)
    optimizer = grilly.optim.SGD(layer.parameters(), lr=0.1)
    parametrize.register_parametrization(layer, "weight", Doubled())
    before = layer.weight.detach().numpy()
    layer(grilly.ones(1, 3)).sum().backward()
    optimizer.step()
    np.testing.assert_allclose(layer.weight.detach().numpy(), before - 0.4, rtol=1e-6)


def test_buffers_copies_and_caching():
    module = grilly.nn.Module()
    module.register_buffer("scale", grilly.ones(2))
    parametrize.register_parametrization(module, "scale", Doubled())
    assert module.scale.tolist() == [1.0, 1.0]
    other = copy.deepcopy(module)
    other.scale = grilly.asarray([3.0, 4.0])
    assert (module.scale.tolist(), other.scale.tolist()) == ([1.0, 1.0], [3.0, 4.0])
    with parametrize.cached():
        assert module.scale is module.scale
    assert module.scale is not module.scale


def test_what_cannot_be():
    layer = grilly.nn.Linear(3, 2)
    with pytest.raises(ValueError, match="'kernel'"):
        parametrize.register_parametrization(layer, "kernel", Doubled())
    with pytest.raises(ValueError, match="not parametrised"):
        parametrize.remove_parametrizations(layer, "weight")

    class Row(grilly.nn.Module):
        def forward(self, x):
            return x[0]

    before = layer.weight.detach().numpy()
    with pytest.raises(grilly.ShapeError, match="unsafe"):
        parametrize.register_parametrization(layer, "weight", Row())
    np.testing.assert_array_equal(layer.weight.detach().numpy(), before)
    assert not parametrize.is_parametrized(layer)
    with pytest.raises(ValueError, match="positive"):
        parametrizations.spectral_norm(layer, n_power_iterations=0)
