"""PyTorch as the oracle of optimisers: trajectories of 100 steps, states and clipping."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import grilly_core as grilly  # noqa: E402
from grilly_core import nn, optim  # noqa: E402

OPTIMISERS = {
    "SGD": lambda o, p: o.SGD(p, lr=0.1),
    "SGD-decay": lambda o, p: o.SGD(p, lr=0.1, weight_decay=0.1, maximize=True),
    "SGD-momentum": lambda o, p: o.SGD(p, lr=0.1, momentum=0.9, dampening=0.3, weight_decay=0.1),
    "SGD-nesterov": lambda o, p: o.SGD(p, lr=0.1, momentum=0.9, nesterov=True),
    "Adam": lambda o, p: o.Adam(p, lr=0.1),
    "Adam-decay": lambda o, p: o.Adam(p, lr=0.1, weight_decay=0.1, amsgrad=True),
    "Adam-betas": lambda o, p: o.Adam(p, lr=0.1, betas=(0.0, 0.5), eps=1e-3, maximize=True),
    "AdamW": lambda o, p: o.AdamW(p, lr=0.1),
    "AdamW-amsgrad": lambda o, p: o.AdamW(p, lr=0.1, weight_decay=0.3, amsgrad=True),
    "Adamax": lambda o, p: o.Adamax(p),
    "Adamax-decay": lambda o, p: o.Adamax(p, 0.05, (0.8, 0.9), 1e-3, 0.1, maximize=True),
    "NAdam": lambda o, p: o.NAdam(p),
    "NAdam-decay": lambda o, p: o.NAdam(p, 0.05, (0.8, 0.99), weight_decay=0.1, momentum_decay=0.04),
    "NAdam-decoupled": lambda o, p: o.NAdam(
        p, lr=0.05, weight_decay=0.1, decoupled_weight_decay=True, maximize=True
    ),
    "RAdam": lambda o, p: o.RAdam(p, lr=0.05),
    "RAdam-decay": lambda o, p: o.RAdam(p, lr=0.05, betas=(0.5, 0.9), weight_decay=0.1, maximize=True),
    "RAdam-decoupled": lambda o, p: o.RAdam(p, lr=0.05, weight_decay=0.1, decoupled_weight_decay=True),
    "RAdam-never": lambda o, p: o.RAdam(p, lr=0.05, betas=(0.5, 0.5), eps=1e-3),
    "Adagrad": lambda o, p: o.Adagrad(p),
    "Adagrad-decay": lambda o, p: o.Adagrad(
        p, lr=0.1, lr_decay=0.1, weight_decay=0.1, initial_accumulator_value=0.5, eps=1e-3, maximize=True
    ),
    "Adadelta": lambda o, p: o.Adadelta(p),
    "Adadelta-decay": lambda o, p: o.Adadelta(p, 0.5, rho=0.5, eps=1e-3, weight_decay=0.1, maximize=True),
    "RMSprop": lambda o, p: o.RMSprop(p),
    "RMSprop-centered": lambda o, p: o.RMSprop(p, 0.05, alpha=0.9, eps=1e-2, centered=True, weight_decay=0.1),
    "RMSprop-momentum": lambda o, p: o.RMSprop(p, momentum=0.9, maximize=True),
    "RMSprop-both": lambda o, p: o.RMSprop(p, 0.01, 0.9, 1e-2, 0.1, 0.5, True),
    "Rprop": lambda o, p: o.Rprop(p),
    "Rprop-sizes": lambda o, p: o.Rprop(p, 0.05, (0.3, 1.5), (1e-3, 0.2), maximize=True),
    "ASGD": lambda o, p: o.ASGD(p),
    "ASGD-averaging": lambda o, p: o.ASGD(p, 0.1, lambd=0.05, alpha=0.6, t0=20, weight_decay=0.1),
    "ASGD-maximize": lambda o, p: o.ASGD(p, 0.1, t0=5, maximize=True),
}


@pytest.fixture(params=[np.float32, np.float64])
def dtype(request):
    """PyTorch keeps 0-d state (NAdam's product, ASGD's rates) in its default dtype."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float32 if request.param == np.float32 else torch.float64)
    yield request.param
    torch.set_default_dtype(before)


def parameters(dtype=np.float32):
    rng = np.random.default_rng(0)
    start = [np.asarray(rng.normal(size=s)).astype(dtype) for s in ((3, 4), (5,), ())]
    ours = [nn.Parameter(grilly.asarray(v, dtype=dtype)) for v in start]
    return ours, [torch.nn.Parameter(torch.from_numpy(v.copy())) for v in start]


def pull(ours, theirs, rng):
    """Give both a gradient: a bowl whose centre jumps about, at the place where each stands."""
    for p, q in zip(ours, theirs, strict=True):
        centre = np.asarray(rng.normal(size=p.shape)).astype(p.dtype.numpy)
        p.grad = grilly.asarray(0.3 * p.detach().numpy() + centre, dtype=p.dtype)
        q.grad = torch.from_numpy(np.asarray(0.3 * q.detach().numpy() + centre))


def assert_equal(ours, theirs, tol):
    for p, q in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(p.detach().numpy(), q.detach().numpy(), rtol=tol, atol=tol)


@pytest.mark.parametrize("name", OPTIMISERS)
def test_a_hundred_steps_equal_torch(name, dtype):
    ours, theirs = parameters(dtype)
    a, b = OPTIMISERS[name](optim, ours), OPTIMISERS[name](torch.optim, theirs)
    rng = np.random.default_rng(1)
    for i in range(100):
        pull(ours, theirs, rng)
        if i == 2:  # a parameter that rests for a step has its own step count
            ours[1].grad = theirs[1].grad = None
        if i == 50:
            a.param_groups[0]["lr"] = b.param_groups[0]["lr"] = 0.03
        a.step(), b.step()
        assert_equal(ours, theirs, 1e-5 if dtype == np.float32 else 1e-11)
    assert all(p.dtype.numpy == dtype for p in ours)


GROUPS = {
    "SGD": {"lr": 0.02, "momentum": 0.5}, "Adam": {"betas": (0.5, 0.9)}, "AdamW": {"amsgrad": True},
    "Adamax": {"eps": 1e-2}, "NAdam": {"momentum_decay": 0.1}, "RAdam": {"weight_decay": 0.2},
    "Adagrad": {"lr_decay": 0.2}, "Adadelta": {"rho": 0.5},
    "RMSprop": {"centered": True, "eps": 1e-2}, "Rprop": {"etas": (0.2, 1.1)}, "ASGD": {"t0": 3, "lr": 0.2},
}  # fmt: skip


@pytest.mark.parametrize("name", GROUPS)
def test_groups_equal_torch(name, dtype):
    """The second group has settings of its own, the third is added on the way."""
    ours, theirs = parameters(dtype)
    a, b = (
        getattr(module, name)([{"params": p[:1]}, {"params": p[1:2], **GROUPS[name]}], lr=0.05)
        for module, p in ((optim, ours), (torch.optim, theirs))
    )
    rng = np.random.default_rng(2)
    for i in range(100):
        if i == 30 and name != "Adagrad":  # PyTorch's makes state at construction only
            for optimiser, p in ((a, ours), (b, theirs)):
                optimiser.add_param_group({"params": p[2], "lr": 0.02})
        pull(ours, theirs, rng)
        a.step(), b.step()
        assert_equal(ours, theirs, 1e-5 if dtype == np.float32 else 1e-11)


@pytest.mark.parametrize(
    "name",
    ["SGD-momentum", "Adam-decay", "AdamW", "Adamax", "NAdam", "RAdam", "Adagrad", "Adadelta", "RMSprop-both",
     "Rprop", "ASGD-averaging"],
)  # fmt: skip
def test_torch_optimiser_state_loads(name):
    """PyTorch's state dict, as it is, continues here."""
    ours, theirs = parameters()
    a, b = OPTIMISERS[name](optim, ours), OPTIMISERS[name](torch.optim, theirs)
    rng = np.random.default_rng(2)
    for _ in range(25):
        pull(ours, theirs, rng)
        b.step()
    a.load_state_dict(b.state_dict())
    with grilly.no_grad():
        for p, q in zip(ours, theirs, strict=True):
            p.copy_(q.detach().numpy())
    for _ in range(3):
        pull(ours, theirs, rng)
        a.step(), b.step()
    assert_equal(ours, theirs, 1e-5)


def settings_of(signature):
    wanted = {}
    for name, p in signature.parameters.items():
        default = tuple(p.default) if isinstance(p.default, list | tuple) else p.default
        wanted[name] = (p.kind, default)
    return wanted


@pytest.mark.parametrize(
    "name",
    ["SGD", "Adam", "AdamW", "Adamax", "NAdam", "RAdam", "Adagrad", "Adadelta", "RMSprop", "Rprop", "ASGD"],
)
def test_signatures_equal_torch(name):
    mine, other = (inspect.signature(getattr(module, name).__init__) for module in (optim, torch.optim))
    assert settings_of(mine) == settings_of(other)
    assert [n for n, p in mine.parameters.items() if p.kind is p.POSITIONAL_OR_KEYWORD] == [
        n for n, p in other.parameters.items() if p.kind is p.POSITIONAL_OR_KEYWORD
    ]


def test_named_parameters_and_tensor_rates_equal_torch():
    ours, theirs = parameters()
    a = optim.Adam([(str(i), p) for i, p in enumerate(ours)], lr=grilly.tensor(0.1))
    b = torch.optim.Adam([(str(i), p) for i, p in enumerate(theirs)], lr=torch.tensor(0.1))
    pull(ours, theirs, np.random.default_rng(5))
    a.step(), b.step()
    assert_equal(ours, theirs, 1e-6)
    assert a.param_groups[0]["param_names"] == b.param_groups[0]["param_names"] == ["0", "1", "2"]
    a.load_state_dict(b.state_dict() | {"param_groups": [b.state_dict()["param_groups"][0] | {"lr": 0.1}]})
    assert a.param_groups[0]["param_names"] == ["0", "1", "2"]


def give_both(ours, theirs, seed, scale=1.0):
    rng = np.random.default_rng(seed)
    for p, q in zip(ours, theirs, strict=True):
        g = np.asarray(rng.normal(size=p.shape) * scale, np.float32)
        p.grad, q.grad = grilly.asarray(g), torch.from_numpy(g.copy())


def assert_equal_grads(ours, theirs):
    for p, q in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(p.grad.numpy(), q.grad.numpy(), rtol=1e-5)


@pytest.mark.parametrize("norm_type", [1.0, 2.0, 3.5, float("inf")])
@pytest.mark.parametrize("scale", [1.0, 1e-3])
def test_clip_grad_norm_equals_torch(norm_type, scale):
    ours, theirs = parameters()
    give_both(ours, theirs, 3, scale)
    norm = nn.utils.clip_grad_norm_((p for p in ours), 0.7, norm_type, foreach=True)
    want = torch.nn.utils.clip_grad_norm_(theirs, 0.7, norm_type)
    assert norm.item() == pytest.approx(want.item(), rel=1e-5)
    assert_equal_grads(ours, theirs)


def test_clipping_with_a_known_norm_and_by_value_equals_torch():
    ours, theirs = parameters()
    give_both(ours, theirs, 4)
    nn.utils.clip_grads_with_norm_(ours, 0.5, grilly.tensor(2.0))
    torch.nn.utils.clip_grads_with_norm_(theirs, 0.5, torch.tensor(2.0))
    assert_equal_grads(ours, theirs)
    nn.utils.clip_grad_value_(ours, 0.1), torch.nn.utils.clip_grad_value_(theirs, 0.1)
    assert_equal_grads(ours, theirs)
    assert max(np.abs(p.grad.numpy()).max() for p in ours) == np.float32(0.1)


def test_clipping_keeps_half_precision_and_sums_in_float32():
    """300 times 300 overflows float16; the norm does not."""
    p, q = nn.Parameter(grilly.ones(4, dtype="float16")), torch.nn.Parameter(torch.ones(4))
    p.grad, q.grad = grilly.full(4, 300.0, dtype="float16"), torch.full((4,), 300.0)
    norm, want = nn.utils.clip_grad_norm_(p, 3.0), torch.nn.utils.clip_grad_norm_(q, 3.0)
    assert norm.item() == pytest.approx(want.item()) and p.grad.dtype is grilly.float16
    np.testing.assert_allclose(p.grad.numpy().astype(np.float32), q.grad.numpy(), rtol=1e-3)


LBFGS = {
    "plain": {"lr": 0.1, "max_iter": 4},
    "short-memory": {"lr": 0.3, "history_size": 3, "max_iter": 7},
    "wolfe": {"max_iter": 5, "line_search_fn": "strong_wolfe"},
    "wolfe-far": {"lr": 30.0, "max_iter": 6, "history_size": 2, "line_search_fn": "strong_wolfe"},
    "wolfe-few": {"max_iter": 10, "max_eval": 7, "line_search_fn": "strong_wolfe"},
}


@pytest.mark.parametrize("settings", LBFGS)
def test_lbfgs_equals_torch(settings):
    """A valley that bends (Rosenbrock's), in float64: the same path, evaluation for evaluation."""
    start = np.array([-1.2, 1.0, 0.3, -0.5])
    p = nn.Parameter(grilly.asarray(start, dtype="float64"))
    q = torch.nn.Parameter(torch.from_numpy(start.copy()))
    a, b = optim.LBFGS([p], **LBFGS[settings]), torch.optim.LBFGS([q], **LBFGS[settings])

    def valley(x, optimiser):
        def closure():
            optimiser.zero_grad()
            loss = (0.1 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()
            loss.backward()
            return loss

        return closure

    for _ in range(12):
        mine, other = a.step(valley(p, a)), b.step(valley(q, b))
        assert mine.item() == pytest.approx(other.item(), rel=1e-7, abs=1e-12)
        np.testing.assert_allclose(p.detach().numpy(), q.detach().numpy(), rtol=1e-6, atol=1e-7)
        assert a.state_dict()["state"][0]["func_evals"] == b.state_dict()["state"][0]["func_evals"]
    assert p.detach().numpy() == pytest.approx(1.0, abs=0.2)
    a.load_state_dict(b.state_dict())
