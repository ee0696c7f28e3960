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


MAPS = [(m, t) for m in ("matrix_exp", "cayley", "householder", None) for t in (True, False)]
SHAPES = {"square": (5, 5), "tall": (6, 4), "wide": (3, 5), "conv": (4, 3, 3)}


def orthogonal_pair(shape, kind, trivial, dtype=torch.float64):
    class Holder:
        def __new__(cls, library):
            m = library.nn.Module()
            m.weight = library.nn.Parameter(
                library.ones(SHAPES[shape], dtype=getattr(library, str(dtype).split(".")[1]))
            )
            return m

    start = np.random.default_rng(0).normal(size=SHAPES[shape])
    mine, peer = Holder(grilly), Holder(torch)
    with torch.no_grad(), grilly.no_grad():
        mine.weight.copy_(grilly.asarray(start, dtype="float64"))
        peer.weight.copy_(torch.from_numpy(start))
    parametrizations.orthogonal(mine, "weight", kind, use_trivialization=trivial)
    their_kinds.orthogonal(peer, "weight", kind, use_trivialization=trivial)
    return mine, peer


def possible(shape, kind, trivial):
    """Without a trivialisation only reflections start from a weight, and the default is for what is not square."""
    return trivial or kind == "householder" or (kind is None and shape in ("tall", "wide"))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("kind", "trivial"), MAPS)
def test_orthogonal_maps_equal_torchs(shape, kind, trivial):
    """Float64: what is learnt, the state dict, the weight made of any parameters, its orthogonality, the gradient."""
    if not possible(shape, kind, trivial):
        with pytest.raises(NotImplementedError, match="use_trivialization"):
            orthogonal_pair_of_ours(shape, kind)
        return
    mine, peer = orthogonal_pair(shape, kind, trivial)
    assert list(mine.state_dict()) == list(peer.state_dict())
    if not trivial:  # no random completion: both start from the same reflections
        theirs_now = peer.parametrizations.weight.original.detach().numpy()
        np.testing.assert_allclose(
            mine.parametrizations.weight.original.detach().numpy(), theirs_now, atol=1e-12
        )
    first = np.asarray(mine.weight.detach().numpy())
    rng = np.random.default_rng(1)
    with torch.no_grad():
        original = peer.parametrizations.weight.original
        signs = torch.diagonal(original, dim1=-2, dim2=-1).clone()
        original.add_(torch.from_numpy(rng.normal(size=SHAPES[shape])))
        torch.diagonal(original, dim1=-2, dim2=-1).copy_(signs)
    mine.load_state_dict(peer.state_dict())
    np.testing.assert_allclose(
        mine.weight.detach().numpy(), peer.weight.detach().numpy(), rtol=1e-9, atol=1e-10
    )
    for w in (first, mine.weight.detach().numpy()):
        w = w if w.shape[-2] >= w.shape[-1] else np.swapaxes(w, -1, -2)
        eye = np.broadcast_to(np.eye(w.shape[-1]), (*w.shape[:-2], w.shape[-1], w.shape[-1]))
        np.testing.assert_allclose(np.swapaxes(w, -1, -2) @ w, eye, atol=1e-10)
    g = rng.normal(size=SHAPES[shape])
    (mine.weight * grilly.asarray(g, dtype="float64")).sum().backward()
    (peer.weight * torch.from_numpy(g)).sum().backward()
    np.testing.assert_allclose(
        mine.parametrizations.weight.original.grad.numpy(), peer.parametrizations.weight.original.grad.numpy(),
        rtol=1e-8, atol=1e-9,
    )  # fmt: skip


def orthogonal_pair_of_ours(shape, kind):
    m = grilly.nn.Module()
    m.weight = grilly.nn.Parameter(grilly.ones(SHAPES[shape]))
    parametrizations.orthogonal(m, "weight", kind, use_trivialization=False)


@pytest.mark.parametrize("kind", ["matrix_exp", "cayley", "householder"])
def test_an_orthogonal_weight_can_be_assigned_and_trains(kind):
    layer = parametrizations.orthogonal(grilly.nn.Linear(4, 4), orthogonal_map=kind)
    turn = grilly.asarray(np.linalg.qr(np.random.default_rng(2).normal(size=(4, 4)))[0].astype(np.float32))
    layer.weight = turn
    np.testing.assert_allclose(layer.weight.detach().numpy(), turn.numpy(), atol=1e-6)
    opt = grilly.optim.SGD(layer.parameters(), lr=3e-3)
    x = grilly.asarray(np.random.default_rng(3).normal(size=(8, 4)), dtype="float32")
    for _ in range(5):
        opt.zero_grad()
        (layer(x) ** 3).sum().backward()
        opt.step()
    w = layer.weight.detach().numpy()
    np.testing.assert_allclose(w @ w.T, np.eye(4), atol=1e-5)
    assert np.abs(w - turn.numpy()).max() > 1e-2


def test_orthogonal_refusals():
    with pytest.raises(ValueError, match="orthogonal_map"):
        parametrizations.orthogonal(grilly.nn.Linear(2, 2), orthogonal_map="qr")
    with pytest.raises(ValueError, match="matrix"):
        parametrizations.orthogonal(grilly.nn.Linear(2, 2), "bias")
    with pytest.raises(ValueError, match="no parameter"):
        parametrizations.orthogonal(grilly.nn.Linear(2, 2), "weights")
