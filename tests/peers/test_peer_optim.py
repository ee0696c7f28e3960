"""PyTorch as the oracle of optimisers and schedules."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import grilly_core as grilly  # noqa: E402
from grilly_core import nn, optim  # noqa: E402
from grilly_core.optim import lr_scheduler  # noqa: E402

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
}


def parameters(dtype=np.float32):
    rng = np.random.default_rng(0)
    start = [rng.normal(size=s).astype(dtype) for s in ((3, 4), (5,), ())]
    ours = [nn.Parameter(grilly.asarray(v, dtype=dtype)) for v in start]
    return ours, [torch.nn.Parameter(torch.from_numpy(v.copy())) for v in map(np.asarray, start)]


@pytest.mark.parametrize("name", OPTIMISERS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_optimiser_equals_torch(name, dtype):
    ours, theirs = parameters(dtype)
    a, b = OPTIMISERS[name](optim, ours), OPTIMISERS[name](torch.optim, theirs)
    rng = np.random.default_rng(1)
    tol = 1e-5 if dtype == np.float32 else 1e-12
    for i in range(6):
        for p, q in zip(ours, theirs, strict=True):
            g = np.asarray(rng.normal(size=p.shape)).astype(dtype)
            p.grad, q.grad = grilly.asarray(g, dtype=dtype), torch.from_numpy(g)
        if i == 2:  # a parameter that rests for a step has its own step count
            ours[1].grad = theirs[1].grad = None
        if i == 4:
            a.param_groups[0]["lr"] = b.param_groups[0]["lr"] = 0.03
        a.step(), b.step()
        for p, q in zip(ours, theirs, strict=True):
            assert p.dtype.numpy == dtype
            np.testing.assert_allclose(p.detach().numpy(), q.detach().numpy(), rtol=tol, atol=tol)


@pytest.mark.parametrize("name", ["SGD-momentum", "Adam-decay", "AdamW"])
def test_torch_optimiser_state_loads(name):
    ours, theirs = parameters()
    a, b = OPTIMISERS[name](optim, ours), OPTIMISERS[name](torch.optim, theirs)
    rng = np.random.default_rng(2)

    def grads():
        for p, q in zip(ours, theirs, strict=True):
            g = np.asarray(rng.normal(size=p.shape), np.float32)
            p.grad, q.grad = grilly.asarray(g), torch.from_numpy(g)

    for _ in range(3):
        grads()
        b.step()
    state = b.state_dict()
    for group in state["param_groups"]:
        for key in set(group) - set(a.param_groups[0]):
            del group[key]
    a.load_state_dict(state)
    with grilly.no_grad():
        for p, q in zip(ours, theirs, strict=True):
            p.copy_(q.detach().numpy())
    grads()
    a.step(), b.step()
    for p, q in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(p.detach().numpy(), q.detach().numpy(), rtol=1e-5, atol=1e-6)


SCHEDULES = {
    "StepLR": lambda s, o: s.StepLR(o, 3, 0.5),
    "MultiStepLR": lambda s, o: s.MultiStepLR(o, [2, 5, 5], 0.5),
    "ExponentialLR": lambda s, o: s.ExponentialLR(o, 0.9),
    "CosineAnnealingLR": lambda s, o: s.CosineAnnealingLR(o, 6, 0.01),
    "LinearLR": lambda s, o: s.LinearLR(o, 0.2, 0.9, 4),
    "LambdaLR": lambda s, o: s.LambdaLR(o, [lambda t: 1 / (1 + t), lambda t: 0.9**t]),
    "OneCycleLR": lambda s, o: s.OneCycleLR(o, [0.5, 1.0], total_steps=13),
    "OneCycleLR-linear": lambda s, o: s.OneCycleLR(
        o, 0.5, epochs=2, steps_per_epoch=6, pct_start=0.4, anneal_strategy="linear", div_factor=10
    ),
    "SequentialLR": lambda s, o: s.SequentialLR(
        o, [s.LinearLR(o, 0.1, total_iters=3), s.CosineAnnealingLR(o, 5), s.ExponentialLR(o, 0.5)], [3, 8]
    ),
}


def optimisers(kind):
    ours, theirs = parameters()
    return [
        getattr(module, kind)([{"params": p[:1]}, {"params": p[1:], "lr": 0.3}], lr=0.1)
        for module, p in ((optim, ours), (torch.optim, theirs))
    ]


@pytest.mark.parametrize("kind", ["SGD", "AdamW"])
@pytest.mark.parametrize("name", SCHEDULES)
@pytest.mark.filterwarnings("ignore")  # PyTorch warns that its optimiser did not step
def test_schedule_equals_torch(name, kind):
    a, b = optimisers(kind)
    s, t = SCHEDULES[name](lr_scheduler, a), SCHEDULES[name](torch.optim.lr_scheduler, b)
    for _ in range(11):
        for ours, theirs in zip(a.param_groups, b.param_groups, strict=True):
            assert ours["lr"] == pytest.approx(theirs["lr"], rel=1e-9, abs=1e-12)
            for key in ("momentum", "betas"):
                if key in ours:
                    assert ours[key] == pytest.approx(theirs[key])
        s.step(), t.step()


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"patience": 1, "cooldown": 2},
        {"mode": "max", "patience": 0, "threshold_mode": "abs", "threshold": 0.2},
    ],
)
def test_plateau_equals_torch(settings):
    a, b = optimisers("SGD")
    s = lr_scheduler.ReduceLROnPlateau(a, **{"patience": 2, **settings})
    t = torch.optim.lr_scheduler.ReduceLROnPlateau(b, **{"patience": 2, **settings})
    for metric in (1.0, 0.9, 0.95, 0.91, 0.9, 0.9, 0.9, 0.5, 0.5, 0.5, 0.5, 1.5, 1.6, 1.6, 1.6):
        s.step(metric), t.step(metric)
        assert [g["lr"] for g in a.param_groups] == pytest.approx([g["lr"] for g in b.param_groups])


@pytest.mark.parametrize("norm_type", [1.0, 2.0, 3.5, float("inf")])
def test_clip_grad_norm_equals_torch(norm_type):
    ours, theirs = parameters()
    rng = np.random.default_rng(3)
    for p, q in zip(ours, theirs, strict=True):
        g = np.asarray(rng.normal(size=p.shape), np.float32)
        p.grad, q.grad = grilly.asarray(g), torch.from_numpy(g.copy())
    norm = nn.utils.clip_grad_norm_((p for p in ours), 0.7, norm_type)
    want = torch.nn.utils.clip_grad_norm_(theirs, 0.7, norm_type)
    assert norm.item() == pytest.approx(want.item(), rel=1e-5)
    for p, q in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(p.grad.numpy(), q.grad.numpy(), rtol=1e-5)
