"""Layers that wait for their first input, buffers, modules without first values: PyTorch's classes are the oracle."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from tests.peers.peer_modules import PLACES, compare, need  # noqa: E402

import grilly_core as grilly  # noqa: E402
from grilly_core import nn, optim  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore:Lazy modules:UserWarning")

IMAGES = {1: (2, 4, 6), 2: (2, 4, 6, 5), 3: (2, 4, 5, 4, 6)}
LAYERS = {
    "LazyLinear": (lambda n: n.LazyLinear(3), (2, 5, 4)),
    "LazyLinear-plain": (lambda n: n.LazyLinear(3, bias=False), (4,)),
    **{f"LazyConv{d}d": (lambda n, d=d: getattr(n, f"LazyConv{d}d")(6, 3, 2, 1, groups=2), s)
       for d, s in IMAGES.items()},
    **{
        f"LazyConvTranspose{d}d": (
            lambda n, d=d: getattr(n, f"LazyConvTranspose{d}d")(6, 3, stride=2, groups=2, bias=False), s
        )
        for d, s in IMAGES.items()
    },
    **{f"LazyBatchNorm{d}d": (lambda n, d=d: getattr(n, f"LazyBatchNorm{d}d")(momentum=0.3), s)
       for d, s in IMAGES.items()},
    **{f"LazyInstanceNorm{d}d": (lambda n, d=d: getattr(n, f"LazyInstanceNorm{d}d")(), s) for d, s in IMAGES.items()},
    "LazyConv2d-single": (lambda n: n.LazyConv2d(3, 2), (4, 5, 5)),
}  # fmt: skip


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("name", LAYERS)
def test_lazy_layer_equals_torch(name, place):
    """Looks before and after, state dicts before the first input and after, outputs and all gradients."""
    need(place)
    make, shape = LAYERS[name]
    device, dtype, _, _ = PLACES[place]
    theirs, ours = make(torch.nn).to(getattr(torch, dtype)), make(nn).to(device).to(dtype=dtype)
    assert repr(ours) == repr(theirs)
    assert list(ours.state_dict()) == list(theirs.state_dict())
    assert ours.has_uninitialized_params() == bool(theirs.has_uninitialized_params())
    rng = np.random.default_rng(0)
    x = rng.normal(size=shape)
    theirs(torch.from_numpy(x).to(getattr(torch, dtype)))
    with torch.no_grad():
        for p in theirs.parameters():
            p.copy_(torch.from_numpy(rng.normal(size=tuple(p.shape))))
    held = list(ours.parameters())
    assert ours.load_state_dict(theirs.state_dict()) == ([], [])
    assert all(
        p is q for p, q in zip(held, ours.parameters(), strict=True)
    )  # an optimiser's are the same objects
    assert type(ours).__name__ == type(theirs).__name__
    assert repr(ours) == repr(theirs)
    compare(ours, theirs, [x], rng, place)
    ours.eval(), theirs.eval()
    compare(ours, theirs, [x], rng, place)


def test_a_single_image_gives_its_channels():
    """PyTorch takes the height for the channels here, and then warns that they do not fit."""
    layer = nn.LazyInstanceNorm2d()
    assert layer(grilly.randn(4, 5, 6)).shape == (4, 5, 6)
    assert layer.num_features == 4


def test_the_first_input_gives_the_first_values_of_the_ordinary_layer():
    grilly.manual_seed(3)
    ordinary = nn.Conv2d(4, 3, 2)
    grilly.manual_seed(3)
    lazy = nn.LazyConv2d(3, 2)
    assert type(lazy) is nn.LazyConv2d
    lazy(grilly.ones((1, 4, 3, 3)))
    assert type(lazy) is nn.Conv2d
    for p, q in zip(lazy.parameters(), ordinary.parameters(), strict=True):
        assert p.tolist() == q.tolist()


def test_lazy_layers_in_a_model_that_is_copied_pickled_and_trained():
    model = nn.Sequential(nn.LazyLinear(4), nn.LazyBatchNorm1d(), nn.ReLU(), nn.LazyLinear(1))
    opt = optim.SGD(model.parameters(), lr=0.1)
    x = grilly.randn(5, 3)
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert other[0].has_uninitialized_params()
        other(x)
        assert repr(other[0]) == "Linear(in_features=3, out_features=4, bias=True)"
    assert model[0].has_uninitialized_params() and model[0].weight.shape == (0,)
    model(x).sum().backward()
    before = [p.tolist() for p in model.parameters()]
    opt.step()
    assert [p.tolist() for p in model.parameters()] != before
    assert model[1].num_batches_tracked.item() == 1
    assert type(model[1].running_mean).__name__ == "Buffer"
    fresh = nn.Sequential(nn.LazyLinear(4), nn.LazyBatchNorm1d(), nn.ReLU(), nn.LazyLinear(1))
    fresh.load_state_dict(model.state_dict())
    model.eval(), fresh.eval()
    assert fresh(x).tolist() == model(x).tolist()


def test_a_state_dict_without_shapes_fits_only_lazy_layers():
    empty = nn.LazyLinear(4).state_dict()
    lazy = nn.LazyLinear(4)
    lazy.load_state_dict(empty)
    assert lazy.has_uninitialized_params()
    with pytest.raises(grilly.errors.StateDictError, match="weight: the module has shape"):
        nn.Linear(3, 4).load_state_dict(empty)


def both(make):
    return make(grilly.nn, grilly), make(torch.nn, torch)


def test_buffers_register_as_in_torch():
    def make(n, library):
        m = n.Module()
        m.kept = n.Buffer(library.ones(2))
        m.passing = n.Buffer(library.ones(3), persistent=False)
        m.kept = library.zeros(2)  # a tensor takes the buffer's place
        return m

    ours, theirs = both(make)
    assert list(ours.state_dict()) == list(theirs.state_dict()) == ["kept"]
    assert [n for n, _ in ours.named_buffers()] == [n for n, _ in theirs.named_buffers()]
    assert ours.kept.tolist() == theirs.kept.tolist() == [0.0, 0.0]
    assert list(ours.parameters()) == list(theirs.parameters()) == []
    other = copy.deepcopy(ours)
    other.kept.fill_(5.0)
    assert ours.kept.tolist() == [0.0, 0.0] and list(other.state_dict()) == ["kept"]
    assert ours.to(dtype="float64").passing.dtype == grilly.float64


def test_skipped_values_move_no_generator():
    grilly.manual_seed(0)
    want = grilly.rand(3).tolist()
    grilly.manual_seed(0)
    layers = [
        nn.utils.skip_init(nn.Linear, 3, 4), nn.utils.skip_init(nn.LSTM, 3, 4), nn.utils.skip_init(nn.Embedding, 3, 4),
        nn.utils.skip_init(nn.MultiheadAttention, 4, 2), nn.utils.skip_init(nn.Conv2d, 2, 3, 3, bias=False),
    ]  # fmt: skip
    assert grilly.rand(3).tolist() == want
    theirs = torch.nn.utils.skip_init(torch.nn.Linear, 3, 4)
    assert [tuple(p.shape) for p in layers[0].parameters()] == [tuple(p.shape) for p in theirs.parameters()]
    assert all(not p.numpy().any() for layer in layers[:3] for p in (q.detach() for q in layer.parameters()))
    assert nn.Linear(3, 4).weight.detach().numpy().any()  # only inside
    with pytest.raises(TypeError, match="class of modules"):
        nn.utils.skip_init(len)


@pytest.mark.parametrize("affine", [False, True])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("name", ["Conv1d", "Conv2d", "Conv3d", "ConvTranspose2d", "Linear"])
def test_fused_normalisation_equals_torch(name, bias, affine):
    rng = np.random.default_rng(1)
    axes = 0 if name == "Linear" else int(name[-2])
    norm = f"BatchNorm{max(axes, 1)}d"
    if name == "Linear":
        make = lambda n: (n.Linear(4, 3, bias=bias), n.BatchNorm1d(3, eps=0.1, affine=True))  # noqa: E731
    else:
        make = lambda n: (getattr(n, name)(4, 3, 2, bias=bias), getattr(n, norm)(3, eps=0.1, affine=affine))  # noqa: E731
    (layer, bn), (their_layer, their_bn) = make(nn), make(torch.nn)
    with torch.no_grad():
        for t in (*their_layer.parameters(), *their_bn.parameters()):
            t.copy_(torch.from_numpy(rng.normal(size=tuple(t.shape))))
        their_bn.running_mean.copy_(torch.from_numpy(rng.normal(size=3)))
        their_bn.running_var.copy_(torch.from_numpy(rng.uniform(0.5, 2, 3)))
    layer.load_state_dict(their_layer.state_dict()), bn.load_state_dict(their_bn.state_dict())
    for m in (layer, bn, their_layer, their_bn):
        m.eval()
    if name == "Linear":
        fused, theirs = (
            nn.utils.fuse_linear_bn_eval(layer, bn),
            torch.nn.utils.fuse_linear_bn_eval(their_layer, their_bn),
        )
    else:
        turned = name.startswith("ConvT")
        fused = nn.utils.fuse_conv_bn_eval(layer, bn, turned)
        theirs = torch.nn.utils.fuse_conv_bn_eval(their_layer, their_bn, turned)
    for p, q in zip(fused.parameters(), theirs.parameters(), strict=True):
        assert p.requires_grad == q.requires_grad
        np.testing.assert_allclose(p.detach().numpy(), q.detach().numpy(), rtol=2e-5, atol=1e-6)
    x = rng.normal(size=(2, 4, *(3,) * axes)).astype(np.float32)
    np.testing.assert_allclose(
        fused(x).detach().numpy(), bn(layer(grilly.asarray(x))).detach().numpy(), rtol=1e-4, atol=1e-5
    )
    layer.train()
    with pytest.raises(ValueError, match="evaluation mode"):
        nn.utils.fuse_conv_bn_eval(layer, bn)
