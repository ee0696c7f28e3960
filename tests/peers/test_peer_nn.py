"""PyTorch as the oracle: its state dicts load unchanged, and outputs and all gradients agree."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import grilly_core as grilly  # noqa: E402
from grilly_core import functional, nn  # noqa: E402

# PyTorch warns of what it does itself: copies for padding='same', and what 'mean' means in its KLDivLoss.
pytestmark = [
    pytest.mark.filterwarnings("ignore:Using padding='same':UserWarning"),
    pytest.mark.filterwarnings("ignore:reduction. 'mean' divides:UserWarning"),
]

MODULES = {
    "Linear": ((3, 4), lambda n: n.Linear(4, 5)),
    "Linear-3d": ((2, 3, 4), lambda n: n.Linear(4, 5, bias=False)),
    "Conv1d": ((2, 4, 9), lambda n: n.Conv1d(4, 6, 3, stride=2, padding=1, dilation=2, groups=2)),
    "Conv1d-same": ((2, 2, 9), lambda n: n.Conv1d(2, 3, 4, padding="same")),
    "Conv2d": ((2, 4, 7, 8), lambda n: n.Conv2d(4, 6, (3, 2), stride=(2, 1), padding=(1, 0), groups=2)),
    "Conv2d-dilated": ((1, 2, 9, 9), lambda n: n.Conv2d(2, 2, 3, dilation=(2, 3), padding=2, bias=False)),
    "Conv2d-stride": ((2, 1, 8, 8), lambda n: n.Conv2d(1, 3, 3, stride=3)),
    "Conv2d-depthwise": ((2, 4, 6, 6), lambda n: n.Conv2d(4, 8, 3, groups=4, padding="valid")),
    "Conv2d-unbatched": ((3, 6, 6), lambda n: n.Conv2d(3, 2, 3)),
    "Conv2d-reflect": ((2, 1, 6, 5), lambda n: n.Conv2d(1, 2, 3, padding=(2, 1), padding_mode="reflect")),
    "Conv2d-replicate": ((2, 1, 6, 5), lambda n: n.Conv2d(1, 2, 3, padding=(2, 1), padding_mode="replicate")),
    "Conv2d-circular": ((2, 1, 6, 5), lambda n: n.Conv2d(1, 2, 3, padding=(2, 1), padding_mode="circular")),
    "Conv2d-same-circular": ((2, 1, 6, 5), lambda n: n.Conv2d(1, 2, 4, padding="same", padding_mode="circular")),
    "Conv3d": ((1, 2, 4, 5, 4), lambda n: n.Conv3d(2, 3, 2, stride=(1, 2, 1), padding=1)),
    "BatchNorm1d": ((6, 3), lambda n: n.BatchNorm1d(3)),
    "BatchNorm1d-3d": ((4, 3, 5), lambda n: n.BatchNorm1d(3, momentum=None)),
    "BatchNorm2d": ((4, 3, 2, 5), lambda n: n.BatchNorm2d(3, affine=False)),
    "BatchNorm2d-untracked": ((4, 3, 2, 5), lambda n: n.BatchNorm2d(3, track_running_stats=False)),
    "BatchNorm3d": ((4, 3, 2, 2, 2), lambda n: n.BatchNorm3d(3, eps=1e-3)),
    "LayerNorm": ((4, 6), lambda n: n.LayerNorm(6)),
    "LayerNorm-2": ((3, 4, 6), lambda n: n.LayerNorm((4, 6), bias=False)),
    "LayerNorm-plain": ((3, 4, 6), lambda n: n.LayerNorm(6, elementwise_affine=False)),
    "RMSNorm": ((4, 6), lambda n: n.RMSNorm(6)),
    "RMSNorm-eps": ((2, 4, 6), lambda n: n.RMSNorm((4, 6), eps=1e-3)),
    "GroupNorm": ((2, 6, 3, 3), lambda n: n.GroupNorm(3, 6)),
    "MaxPool1d": ((2, 3, 9), lambda n: n.MaxPool1d(3, stride=2, padding=1, ceil_mode=True)),
    "MaxPool2d": ((2, 3, 8, 8), lambda n: n.MaxPool2d(2)),
    "MaxPool2d-overlap": ((2, 3, 9, 8), lambda n: n.MaxPool2d((3, 2), stride=(1, 2), padding=1, dilation=(2, 1))),
    "MaxPool2d-unbatched": ((3, 8, 8), lambda n: n.MaxPool2d(3, 2)),
    "AvgPool1d": ((2, 3, 9), lambda n: n.AvgPool1d(3, stride=2, padding=1, ceil_mode=True)),
    "AvgPool2d": ((2, 3, 8, 7), lambda n: n.AvgPool2d(3, 2, 1, count_include_pad=False)),
    "AvgPool2d-override": ((2, 3, 8, 7), lambda n: n.AvgPool2d(3, 2, ceil_mode=True, divisor_override=5)),
    "AdaptiveAvgPool1d": ((2, 3, 7), lambda n: n.AdaptiveAvgPool1d(3)),
    "AdaptiveAvgPool2d": ((2, 3, 7, 6), lambda n: n.AdaptiveAvgPool2d((3, None))),
    "AdaptiveAvgPool2d-even": ((2, 3, 8, 6), lambda n: n.AdaptiveAvgPool2d(2)),
    "AdaptiveAvgPool2d-up": ((2, 3, 3, 2), lambda n: n.AdaptiveAvgPool2d(5)),
    "AdaptiveMaxPool1d": ((2, 3, 7), lambda n: n.AdaptiveMaxPool1d(3)),
    "AdaptiveMaxPool2d": ((2, 3, 7, 6), lambda n: n.AdaptiveMaxPool2d((4, 5))),
    "Flatten": ((2, 3, 4), lambda n: n.Flatten()),
    "Unflatten": ((2, 12), lambda n: n.Unflatten(1, (3, 4))),
    "PReLU": ((2, 3, 4), lambda n: n.PReLU(3)),
    "Softmax": ((2, 3, 4), lambda n: n.Softmax(dim=1)),
    "LogSoftmax": ((2, 3, 4), lambda n: n.LogSoftmax(dim=-1)),
    "Softmin": ((2, 3), lambda n: n.Softmin(dim=1)),
    "GLU": ((2, 6), lambda n: n.GLU()),
    **{
        name: ((5, 7), lambda n, name=name: getattr(n, name)())
        for name in (
            "ReLU", "ReLU6", "GELU", "SiLU", "Tanh", "Sigmoid", "LeakyReLU", "ELU", "CELU", "SELU", "Softplus",
            "Hardtanh", "Hardswish", "Hardsigmoid", "Mish", "Softsign", "Tanhshrink", "Softshrink", "Hardshrink",
            "LogSigmoid", "Identity",
        )
    },
    "GELU-tanh": ((5, 7), lambda n: n.GELU(approximate="tanh")),
    "Threshold": ((5, 7), lambda n: n.Threshold(0.5, -1.0)),
    "Hardtanh-range": ((5, 7), lambda n: n.Hardtanh(-0.5, 0.7)),
    "Sequential": ((4, 6), lambda n: n.Sequential(n.Linear(6, 5), n.Tanh(), n.Sequential(n.Linear(5, 2)))),
}  # fmt: skip


def paired(make, shape, seed=0):
    rng = np.random.default_rng(seed)
    theirs = make(torch.nn)
    ours = make(nn)
    with torch.no_grad():
        for p in theirs.parameters():
            p.copy_(torch.from_numpy(rng.normal(size=tuple(p.shape)).astype(np.float32)))
    report = ours.load_state_dict(theirs.state_dict())
    assert report == ([], [])
    x = (2.0 * rng.normal(size=shape)).astype(np.float32)
    return ours, theirs, x, rng


def assert_equal_runs(ours, theirs, x, rng):
    a = grilly.asarray(x).requires_grad_()
    b = torch.from_numpy(x.copy()).requires_grad_()
    out, want = ours(a), theirs(b)
    np.testing.assert_allclose(out.detach().numpy(), want.detach().numpy(), rtol=2e-5, atol=2e-5)
    g = rng.normal(size=tuple(want.shape)).astype(np.float32)
    out.backward(grilly.asarray(g))
    want.backward(torch.from_numpy(g))
    np.testing.assert_allclose(a.grad.numpy(), b.grad.numpy(), rtol=1e-4, atol=1e-4)
    theirs_by_name = dict(theirs.named_parameters())
    for name, p in ours.named_parameters():
        np.testing.assert_allclose(
            p.grad.numpy(), theirs_by_name[name].grad.numpy(), rtol=1e-4, atol=2e-4, err_msg=name
        )


@pytest.mark.parametrize("name", MODULES)
def test_module_equals_torch(name):
    shape, make = MODULES[name]
    ours, theirs, x, rng = paired(make, shape)
    assert_equal_runs(ours, theirs, x, rng)
    for key, value in theirs.state_dict().items():  # running statistics moved alike
        np.testing.assert_allclose(
            ours.state_dict()[key].numpy(), value.numpy(), rtol=1e-5, atol=1e-6, err_msg=key
        )
    ours.eval(), theirs.eval()
    np.testing.assert_allclose(
        ours(grilly.asarray(x)).detach().numpy(),
        theirs(torch.from_numpy(x)).detach().numpy(),
        rtol=2e-5,
        atol=2e-5,
    )


@pytest.mark.parametrize("name", MODULES)
def test_state_dict_keys_and_repr_equal_torch(name):
    _, make = MODULES[name]
    ours, theirs = make(nn), make(torch.nn)
    assert list(ours.state_dict()) == list(theirs.state_dict())
    assert {k: tuple(v.shape) for k, v in ours.state_dict().items()} == {
        k: tuple(v.shape) for k, v in theirs.state_dict().items()
    }


@pytest.mark.parametrize("name", ["Linear", "Conv1d", "Conv2d", "Conv2d-depthwise", "Embedding", "PReLU"])
def test_initial_distribution_equals_torch(name):
    makes = {
        "Linear": lambda n: n.Linear(50, 400),
        "Conv1d": lambda n: n.Conv1d(10, 100, 5),
        "Conv2d": lambda n: n.Conv2d(8, 64, 5),
        "Conv2d-depthwise": lambda n: n.Conv2d(64, 256, 5, groups=64),
        "Embedding": lambda n: n.Embedding(200, 50),
        "PReLU": lambda n: n.PReLU(3),
    }
    ours, theirs = makes[name](nn), makes[name](torch.nn)
    for (key, a), b in zip(ours.named_parameters(), theirs.parameters(), strict=True):
        a, b = a.detach().numpy(), b.detach().numpy()
        n = a.size
        assert a.shape == b.shape
        np.testing.assert_allclose(a.std(), b.std(), rtol=6 / np.sqrt(n), atol=1e-6, err_msg=key)
        np.testing.assert_allclose(
            np.abs(a).max(), np.abs(b).max(), rtol=0.3 if name == "Embedding" else 0.05
        )


LOSSES = {
    "MSELoss": (lambda n, r: n.MSELoss(reduction=r), "real"),
    "L1Loss": (lambda n, r: n.L1Loss(reduction=r), "real"),
    "SmoothL1Loss": (lambda n, r: n.SmoothL1Loss(reduction=r, beta=0.5), "real"),
    "HuberLoss": (lambda n, r: n.HuberLoss(reduction=r, delta=0.7), "real"),
    "BCELoss": (lambda n, r: n.BCELoss(reduction=r), "probability"),
    "BCEWithLogitsLoss": (lambda n, r: n.BCEWithLogitsLoss(reduction=r), "share"),
    "KLDivLoss": (lambda n, r: n.KLDivLoss(reduction=r), "share"),
    "CrossEntropyLoss": (lambda n, r: n.CrossEntropyLoss(reduction=r), "class"),
    "CrossEntropyLoss-smooth": (lambda n, r: n.CrossEntropyLoss(reduction=r, label_smoothing=0.2), "class"),
    "CrossEntropyLoss-soft": (lambda n, r: n.CrossEntropyLoss(reduction=r, label_smoothing=0.1), "share"),
    "NLLLoss": (lambda n, r: n.NLLLoss(reduction=r, ignore_index=1), "class"),
}


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("name", LOSSES)
def test_loss_equals_torch(name, reduction):
    make, kind = LOSSES[name]
    rng = np.random.default_rng(1)
    x = rng.normal(size=(6, 4)).astype(np.float32)
    t = rng.normal(size=(6, 4)).astype(np.float32)
    if kind == "probability":
        x, t = rng.uniform(0.01, 0.99, (6, 4)).astype(np.float32), rng.uniform(size=(6, 4)).astype(np.float32)
    elif kind == "share":
        t = rng.dirichlet(np.ones(4), 6).astype(np.float32)
        t[0] = [0, 0, 1, 0]
    elif kind == "class":
        t = np.array([0, 1, 3, 2, 1, -100 if "NLL" not in name else 0])
    compare_losses(make(nn, reduction), make(torch.nn, reduction), (x,), (t,))


def compare_losses(ours, theirs, vectors, rest):
    a = [grilly.asarray(v).requires_grad_() for v in vectors]
    b = [torch.from_numpy(v.copy()).requires_grad_() for v in vectors]
    loss, want = ours(*a, *map(grilly.asarray, rest)), theirs(*b, *map(torch.from_numpy, rest))
    np.testing.assert_allclose(loss.detach().numpy(), want.detach().numpy(), rtol=1e-5, atol=1e-6)
    loss.sum().backward()
    want.sum().backward()
    for p, q in zip(a, b, strict=True):
        np.testing.assert_allclose(p.grad.numpy(), q.grad.numpy(), rtol=1e-4, atol=1e-6)
    grads = ours.backward(np.ones(want.shape, np.float32), *vectors, *rest)
    grads = grads if isinstance(grads, tuple) else (grads,)
    for p, q in zip(grads, b, strict=True):
        np.testing.assert_allclose(p.numpy(), q.grad.numpy(), rtol=1e-4, atol=1e-6)


def test_weighted_losses_equal_torch():
    rng = np.random.default_rng(2)
    x = rng.normal(size=(5, 3)).astype(np.float32)
    w = np.array([0.5, 2.0, 1.5], np.float32)
    t = np.array([0, 2, -100, 1, 2])
    for reduction in ("mean", "sum", "none"):
        for smoothing in (0.0, 0.3):
            settings = {"reduction": reduction, "label_smoothing": smoothing}
            compare_losses(
                nn.CrossEntropyLoss(grilly.asarray(w), **settings),
                torch.nn.CrossEntropyLoss(torch.from_numpy(w), **settings),
                (x,),
                (t,),
            )
    share = rng.uniform(size=(5, 3)).astype(np.float32)
    compare_losses(
        nn.BCEWithLogitsLoss(grilly.asarray(w), pos_weight=grilly.asarray(w)),
        torch.nn.BCEWithLogitsLoss(torch.from_numpy(w), pos_weight=torch.from_numpy(w)),
        (x,),
        (share,),
    )
    compare_losses(nn.NLLLoss(grilly.asarray(w)), torch.nn.NLLLoss(torch.from_numpy(w)), (x,), (t,))


def test_losses_of_vectors_equal_torch():
    rng = np.random.default_rng(3)
    a, b, c = (rng.normal(size=(5, 4)).astype(np.float32) for _ in range(3))
    sign = np.array([1, -1, 1, -1, -1])
    for reduction in ("mean", "sum", "none"):
        compare_losses(
            nn.CosineEmbeddingLoss(0.1, reduction),
            torch.nn.CosineEmbeddingLoss(0.1, reduction=reduction),
            (a, b),
            (sign,),
        )
        for settings in ({}, {"swap": True}, {"p": 1.0}):
            compare_losses(
                nn.TripletMarginLoss(reduction=reduction, **settings),
                torch.nn.TripletMarginLoss(reduction=reduction, **settings),
                (a, b, c),
                (),
            )


def test_cross_entropy_over_images_and_sequences():
    rng = np.random.default_rng(4)
    x = rng.normal(size=(2, 5, 3, 4)).astype(np.float32)
    t = rng.integers(0, 5, (2, 3, 4))
    for reduction in ("mean", "none"):
        compare_losses(
            nn.CrossEntropyLoss(reduction=reduction),
            torch.nn.CrossEntropyLoss(reduction=reduction),
            (x,),
            (t,),
        )
    moved = functional.cross_entropy(np.moveaxis(x, 1, -1), t, class_dim=-1)
    want = torch.nn.functional.cross_entropy(torch.from_numpy(x), torch.from_numpy(t))
    np.testing.assert_allclose(moved.item(), want.item(), rtol=1e-5)


@pytest.mark.parametrize("settings", [{}, {"padding_idx": 2}, {"padding_idx": -1}, {"max_norm": 1.0}])
def test_embedding_equals_torch(settings):
    rng = np.random.default_rng(5)
    ids = rng.integers(0, 7, (3, 4))
    ours, theirs = nn.Embedding(7, 3, **settings), torch.nn.Embedding(7, 3, **settings)
    ours.load_state_dict(theirs.state_dict())
    out, want = ours(grilly.asarray(ids)), theirs(torch.from_numpy(ids))
    np.testing.assert_allclose(out.detach().numpy(), want.detach().numpy(), rtol=1e-5, atol=1e-6)
    g = rng.normal(size=(3, 4, 3)).astype(np.float32)
    out.backward(grilly.asarray(g)), want.backward(torch.from_numpy(g))
    np.testing.assert_allclose(ours.weight.grad.numpy(), theirs.weight.grad.numpy(), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(
        ours.weight.detach().numpy(), theirs.weight.detach().numpy(), rtol=1e-5, atol=1e-6
    )


@pytest.mark.parametrize("mode", ["constant", "reflect", "replicate", "circular"])
def test_pad_equals_torch(mode):
    x = np.arange(24.0, dtype=np.float32).reshape(1, 2, 3, 4)
    pad = (2, 1, 1, 2)
    ours = functional.pad(x, pad, mode).numpy()
    np.testing.assert_array_equal(ours, torch.nn.functional.pad(torch.from_numpy(x), pad, mode).numpy())


def test_pooling_indices_equal_torch():
    x = np.random.default_rng(6).normal(size=(2, 3, 7, 9)).astype(np.float32)
    ours, index = functional.max_pool2d(x, (3, 2), 2, 1, return_indices=True)
    want, places = torch.nn.functional.max_pool2d(torch.from_numpy(x), (3, 2), 2, 1, return_indices=True)
    np.testing.assert_array_equal(ours.numpy(), want.numpy())
    np.testing.assert_array_equal(index.numpy(), places.numpy())
    ours, index = functional.adaptive_max_pool2d(x, (4, 5), return_indices=True)
    want, places = torch.nn.functional.adaptive_max_pool2d(torch.from_numpy(x), (4, 5), return_indices=True)
    np.testing.assert_array_equal(ours.numpy(), want.numpy())
    np.testing.assert_array_equal(index.numpy(), places.numpy())


@pytest.mark.parametrize(
    "make",
    [
        lambda f, t, x: f.cosine_similarity(t(x[0]), t(x[1])),
        lambda f, t, x: f.pairwise_distance(t(x[0]), t(x[1]), 3.0),
        lambda f, t, x: f.normalize(t(x[0])),
        lambda f, t, x: f.normalize(t(x[0]), p=1.0, dim=0),
        lambda f, t, x: f.group_norm(t(x[0]), 2),
    ],
)
def test_functions_equal_torch(make):
    x = np.random.default_rng(7).normal(size=(2, 5, 4)).astype(np.float32)
    ours = make(functional, grilly.asarray, x).numpy()
    np.testing.assert_allclose(
        ours, make(torch.nn.functional, torch.from_numpy, x).numpy(), rtol=1e-5, atol=1e-6
    )


@pytest.mark.parametrize(
    "name", ["Conv2d", "Conv1d", "BatchNorm1d-3d", "LayerNorm", "GELU", "Softplus", "AvgPool2d", "MaxPool2d"]
)
def test_second_derivative_equals_torch(name):
    shape, make = MODULES[name]
    ours, theirs, x, rng = paired(make, shape)
    a = grilly.asarray(x).requires_grad_()
    b = torch.from_numpy(x.copy()).requires_grad_()
    (first,) = grilly.grad((ours(a) ** 3).sum(), a, create_graph=True)
    (want,) = torch.autograd.grad((theirs(b) ** 3).sum(), b, create_graph=True)
    v = rng.normal(size=shape).astype(np.float32)
    (first * grilly.asarray(v)).sum().backward()
    (want * torch.from_numpy(v)).sum().backward()
    np.testing.assert_allclose(a.grad.numpy(), b.grad.numpy(), rtol=2e-3, atol=2e-3)
    for p, q in zip(ours.parameters(), theirs.parameters(), strict=True):
        if q.grad is not None:
            np.testing.assert_allclose(p.grad.numpy(), q.grad.numpy(), rtol=2e-3, atol=2e-2)
