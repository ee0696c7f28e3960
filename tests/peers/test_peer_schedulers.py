"""PyTorch as the oracle of schedules: the rates and momenta of 100 epochs."""

from __future__ import annotations

import functools
import inspect
import math

import pytest

torch = pytest.importorskip("torch")

import grilly_core as grilly  # noqa: E402
from grilly_core import nn, optim  # noqa: E402
from grilly_core.optim import lr_scheduler, swa_utils  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")  # PyTorch warns that its optimiser did not step

ALONE = {
    "StepLR": lambda s, o: s.StepLR(o, 3, 0.5),
    "StepLR-1": lambda s, o: s.StepLR(o, 1, 0.97),
    "MultiStepLR": lambda s, o: s.MultiStepLR(o, [20, 5, 5], 0.5),
    "ConstantLR": lambda s, o: s.ConstantLR(o),
    "ConstantLR-7": lambda s, o: s.ConstantLR(o, 0.25, 7),
    "ExponentialLR": lambda s, o: s.ExponentialLR(o, 0.9),
    "CosineAnnealingLR": lambda s, o: s.CosineAnnealingLR(o, 6, 0.01),
    "CosineAnnealingLR-1": lambda s, o: s.CosineAnnealingLR(o, 1),
    "WarmRestarts": lambda s, o: s.CosineAnnealingWarmRestarts(o, 7),
    "WarmRestarts-longer": lambda s, o: s.CosineAnnealingWarmRestarts(o, 3, 2, 0.02),
    "LinearLR": lambda s, o: s.LinearLR(o, 0.2, 0.9, 4),
    "LinearLR-down": lambda s, o: s.LinearLR(o, 1.0, 0.0, 30),
    "PolynomialLR": lambda s, o: s.PolynomialLR(o),
    "PolynomialLR-power": lambda s, o: s.PolynomialLR(o, 40, 2.5),
    "LambdaLR": lambda s, o: s.LambdaLR(o, [lambda t: 1 / (1 + t), lambda t: 0.9**t]),
    "MultiplicativeLR": lambda s, o: s.MultiplicativeLR(o, [lambda t: 1 / (1 + t / 50), lambda t: 0.9]),
    "CyclicLR": lambda s, o: s.CyclicLR(o, 0.01, 0.2, 4),
    "CyclicLR-triangular2": lambda s, o: s.CyclicLR(o, [0.01, 0.02], 0.2, 4, 9, "triangular2"),
    "CyclicLR-exp": lambda s, o: s.CyclicLR(
        o, 0.01, [0.2, 0.1], 5, mode="exp_range", gamma=0.95, base_momentum=[0.5, 0.6], max_momentum=0.99
    ),
    "CyclicLR-function": lambda s, o: s.CyclicLR(
        o, 0.01, 0.2, 5, scale_fn=lambda x: 1 / x, scale_mode="cycle", cycle_momentum=False
    ),
    "CyclicLR-function-steps": lambda s, o: s.CyclicLR(
        o, 0.01, 0.2, 5, scale_fn=lambda x: math.exp(-x / 50), scale_mode="iterations"
    ),
    "OneCycleLR": lambda s, o: s.OneCycleLR(o, [0.5, 1.0], total_steps=100),
    "OneCycleLR-linear": lambda s, o: s.OneCycleLR(
        o, 0.5, epochs=5, steps_per_epoch=25, pct_start=0.4, anneal_strategy="linear", div_factor=10.0
    ),
    "OneCycleLR-three": lambda s, o: s.OneCycleLR(
        o, 0.5, 110, three_phase=True, base_momentum=[0.7, 0.8], final_div_factor=100.0
    ),
    "OneCycleLR-no-momentum": lambda s, o: s.OneCycleLR(o, 0.5, 120, cycle_momentum=False),
}
COMPOSED = {
    "Sequential": lambda s, o: s.SequentialLR(
        o, [s.LinearLR(o, 0.1, total_iters=3), s.CosineAnnealingLR(o, 5), s.ExponentialLR(o, 0.9)], [3, 48]
    ),
    "Sequential-steps": lambda s, o: s.SequentialLR(
        o, [s.ConstantLR(o, 0.1, 9), s.StepLR(o, 4, 0.5), s.PolynomialLR(o, 20)], [5, 40]
    ),
    "Sequential-restarts": lambda s, o: s.SequentialLR(
        o, [s.LinearLR(o, 0.1, total_iters=10), s.CosineAnnealingWarmRestarts(o, 5, 2)], [10]
    ),
    "Sequential-at-once": lambda s, o: s.SequentialLR(o, [s.ConstantLR(o), s.ExponentialLR(o, 0.9)], [0]),
    "Sequential-multiplicative": lambda s, o: s.SequentialLR(
        o, [s.MultiplicativeLR(o, lambda t: 0.95), s.MultiStepLR(o, [3, 6], 0.5)], [30]
    ),
    "Chained": lambda s, o: s.ChainedScheduler([s.ConstantLR(o, 0.1, 20), s.ExponentialLR(o, 0.95)]),
    "Chained-cosine": lambda s, o: s.ChainedScheduler(
        [s.CosineAnnealingLR(o, 30, 1e-3), s.LinearLR(o, 0.2, total_iters=10), s.StepLR(o, 25, 0.5)], o
    ),
    "Sequential-of-chained": lambda s, o: s.SequentialLR(
        o,
        [s.ChainedScheduler([s.ConstantLR(o, 0.5, 4), s.ExponentialLR(o, 0.95)]), s.ExponentialLR(o, 0.9)],
        [15],
    ),
}
SCHEDULES = {**ALONE, **COMPOSED}


def optimisers(kind="SGD"):
    made = []
    for tensor, parameter, module in (
        (grilly.tensor, nn.Parameter, optim),
        (torch.tensor, torch.nn.Parameter, torch.optim),
    ):
        p = [parameter(tensor([1.0])) for _ in range(3)]
        made.append(getattr(module, kind)([{"params": p[:1]}, {"params": p[1:], "lr": 0.3}], lr=0.1))
    return made


def assert_equal(a, b):
    for ours, theirs in zip(a.param_groups, b.param_groups, strict=True):
        assert ours["lr"] == pytest.approx(theirs["lr"], rel=1e-9, abs=1e-12)
        for key in ("momentum", "betas"):
            if key in ours:
                assert ours[key] == pytest.approx(theirs[key], rel=1e-9)


@pytest.mark.parametrize("kind", ["SGD", "AdamW"])
@pytest.mark.parametrize("name", SCHEDULES)
def test_a_hundred_epochs_equal_torch(name, kind):
    a, b = optimisers(kind)
    s, t = SCHEDULES[name](lr_scheduler, a), SCHEDULES[name](torch.optim.lr_scheduler, b)
    for _ in range(100):
        assert_equal(a, b)
        assert s.get_last_lr() == pytest.approx(t.get_last_lr(), rel=1e-9, abs=1e-12)
        s.step(), t.step()
    assert_equal(a, b)


@pytest.mark.parametrize("name", ["StepLR", "MultiStepLR", "ConstantLR-7", "ExponentialLR", "CosineAnnealingLR",
                                  "WarmRestarts", "WarmRestarts-longer", "LinearLR", "PolynomialLR-power",
                                  "LambdaLR", "CyclicLR"])  # fmt: skip
def test_jumps_equal_torch(name):
    a, b = optimisers()
    s, t = SCHEDULES[name](lr_scheduler, a), SCHEDULES[name](torch.optim.lr_scheduler, b)
    for epoch in (3, 4, 17, 18, 2):
        s.step(epoch), t.step(epoch)
        assert_equal(a, b)
        s.step(), t.step()
        assert_equal(a, b)


def test_parts_of_epochs_equal_torch():
    a, b = optimisers()
    s = lr_scheduler.CosineAnnealingWarmRestarts(a, 3, 2)
    t = torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(b, 3, 2)
    for i in range(60):
        s.step(i / 4), t.step(i / 4)
        assert_equal(a, b)


@pytest.mark.parametrize(
    "name", ["StepLR", "ExponentialLR", "CosineAnnealingLR", "LinearLR", "MultiplicativeLR"]
)
def test_a_rate_written_by_hand_counts_as_in_torch(name):
    a, b = optimisers()
    s, t = SCHEDULES[name](lr_scheduler, a), SCHEDULES[name](torch.optim.lr_scheduler, b)
    for i in range(20):
        if i == 3:
            a.param_groups[0]["lr"] = b.param_groups[0]["lr"] = 0.7
        s.step(), t.step()
        assert_equal(a, b)


class Resuming:
    """A module whose schedules all begin after epoch 5."""

    def __init__(self, module):
        self.module = module

    def __getattr__(self, kind):
        return functools.partial(getattr(self.module, kind), last_epoch=5)


@pytest.mark.parametrize("name", ALONE)
def test_resuming_at_an_epoch_equals_torch(name):
    """A new schedule with `last_epoch`, on groups that know their first rates."""
    a, b = optimisers()
    for o, module in ((a, lr_scheduler), (b, torch.optim.lr_scheduler)):
        schedule = ALONE[name](module, o)
        for _ in range(5):
            schedule.step()
    s, t = ALONE[name](Resuming(lr_scheduler), a), ALONE[name](Resuming(torch.optim.lr_scheduler), b)
    for _ in range(20):
        assert_equal(a, b)
        s.step(), t.step()


def test_warmup_cosine_equals_torch_schedules_in_sequence():
    a, b = optimisers()
    s = lr_scheduler.WarmupCosine(a, 10, 60, eta_min=0.02, start_factor=0.1)
    m = torch.optim.lr_scheduler
    t = m.SequentialLR(b, [m.LinearLR(b, 0.1, 1.0, 10), m.CosineAnnealingLR(b, 50, 0.02)], [10])
    for _ in range(60):
        assert_equal(a, b)
        s.step(), t.step()
    for _ in range(5):  # at the end it stays, while a cosine rises again
        s.step()
        assert [g["lr"] for g in a.param_groups] == pytest.approx([0.02, 0.02])


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"patience": 1, "cooldown": 2},
        {"patience": 0, "factor": 0.5, "min_lr": [0.02, 0.1], "eps": 1e-3},
        {"mode": "max", "patience": 0, "threshold_mode": "abs", "threshold": 0.2},
    ],
)
def test_plateau_equals_torch(settings):
    a, b = optimisers("SGD")
    s = lr_scheduler.ReduceLROnPlateau(a, **{"patience": 2, **settings})
    t = torch.optim.lr_scheduler.ReduceLROnPlateau(b, **{"patience": 2, **settings})
    for i in range(100):
        metric = 1.0 - 0.01 * i + 0.3 * math.sin(i)
        s.step(metric), t.step(metric)
        assert_equal(a, b)
        assert s.in_cooldown == t.in_cooldown and s.get_last_lr() == pytest.approx(t.get_last_lr())


@pytest.mark.parametrize(
    "settings", [{}, {"anneal_epochs": 7, "anneal_strategy": "linear"}, {"anneal_epochs": 0}]
)
def test_swalr_equals_torch(settings):
    a, b = optimisers()
    s = swa_utils.SWALR(a, [0.05, 0.5], **settings)
    t = torch.optim.swa_utils.SWALR(b, [0.05, 0.5], **settings)
    for _ in range(100):
        assert_equal(a, b)
        s.step(), t.step()


@pytest.mark.parametrize("name", sorted(set(lr_scheduler.__all__) - {"LRScheduler", "WarmupCosine"}))
def test_signatures_equal_torch(name):
    mine, other = (
        inspect.signature(getattr(module, name).__init__)
        for module in (lr_scheduler, torch.optim.lr_scheduler)
    )
    assert [(n, p.kind, p.default) for n, p in mine.parameters.items()] == [
        (n, p.kind, p.default) for n, p in other.parameters.items()
    ]


@pytest.mark.parametrize("name", ["StepLR", "ExponentialLR", "CosineAnnealingLR", "WarmRestarts-longer", "LinearLR",
                                  "PolynomialLR", "Chained", "Sequential"])  # fmt: skip
def test_torch_state_loads(name):
    a, b = optimisers()
    s, t = SCHEDULES[name](lr_scheduler, a), SCHEDULES[name](torch.optim.lr_scheduler, b)
    for _ in range(13):
        t.step()
    a.load_state_dict(b.state_dict())
    s.load_state_dict(t.state_dict())
    for _ in range(20):
        assert_equal(a, b)
        s.step(), t.step()
