"""Every optimiser and schedule: saved at step 50 and resumed, captured, and skipped, with the same bits as without."""

from __future__ import annotations

import numpy as np
import pytest

import grilly_core as grilly
from grilly_core import nn, optim
from grilly_core.optim import lr_scheduler, swa_utils

OPTIMISERS = {
    "SGD": lambda p: optim.SGD(p, lr=0.05, momentum=0.9, dampening=0.1),
    "Adam": lambda p: optim.Adam(p, lr=0.05, amsgrad=True),
    "AdamW": lambda p: optim.AdamW(p, lr=0.05),
    "Adamax": lambda p: optim.Adamax(p, lr=0.05),
    "NAdam": lambda p: optim.NAdam(p, lr=0.05),
    "RAdam": lambda p: optim.RAdam(p, lr=0.05),
    "Adagrad": lambda p: optim.Adagrad(p, lr=0.05, lr_decay=0.1, initial_accumulator_value=0.1),
    "Adadelta": lambda p: optim.Adadelta(p),
    "RMSprop": lambda p: optim.RMSprop(p, momentum=0.5, centered=True),
    "Rprop": lambda p: optim.Rprop(p),
    "ASGD": lambda p: optim.ASGD(p, lr=0.05, t0=10),
    "NaturalGradient": lambda p: optim.NaturalGradient(p, lr=0.01),
    "HypergradientAdamW": lambda p: optim.HypergradientAdamW(p, lr=0.01, beta_hyper=1e-4),
    "AutoHypergradientAdamW": lambda p: optim.AutoHypergradientAdamW(p, lr=0.01, warmup_steps=3),
    "Hypergradient-log": lambda p: optim.HypergradientAdamW(p, beta_hyper=1e-3, log_scale=True),
}
SCHEDULES = {
    "StepLR": lambda o: lr_scheduler.StepLR(o, 7, 0.8),
    "MultiStepLR": lambda o: lr_scheduler.MultiStepLR(o, [10, 55]),
    "ConstantLR": lambda o: lr_scheduler.ConstantLR(o, 0.5, 60),
    "LinearLR": lambda o: lr_scheduler.LinearLR(o, 0.1, 1.0, 70),
    "ExponentialLR": lambda o: lr_scheduler.ExponentialLR(o, 0.97),
    "PolynomialLR": lambda o: lr_scheduler.PolynomialLR(o, 120, 2.0),
    "LambdaLR": lambda o: lr_scheduler.LambdaLR(o, lambda t: 1 / (1 + t)),
    "MultiplicativeLR": lambda o: lr_scheduler.MultiplicativeLR(o, lambda t: 0.99),
    "CosineAnnealingLR": lambda o: lr_scheduler.CosineAnnealingLR(o, 40),
    "WarmRestarts": lambda o: lr_scheduler.CosineAnnealingWarmRestarts(o, 9, 2),
    "WarmupCosine": lambda o: lr_scheduler.WarmupCosine(o, 60, 90),
    "CyclicLR": lambda o: lr_scheduler.CyclicLR(o, 0.01, 0.1, 15, mode="exp_range", gamma=0.99),
    "OneCycleLR": lambda o: lr_scheduler.OneCycleLR(o, 0.1, 110, three_phase=True),
    "SWALR": lambda o: swa_utils.SWALR(o, 0.01, 70),
    "ChainedScheduler": lambda o: lr_scheduler.ChainedScheduler(
        [lr_scheduler.ConstantLR(o, 0.1, 60), lr_scheduler.ExponentialLR(o, 0.98)]
    ),
    "SequentialLR": lambda o: lr_scheduler.SequentialLR(
        o, [lr_scheduler.LinearLR(o, 0.1, total_iters=20), lr_scheduler.CosineAnnealingLR(o, 40)], [20]
    ),
}


def model_of():
    grilly.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))


def inputs(i):
    return grilly.asarray(np.random.default_rng(i).normal(size=(5, 3)).astype(np.float32))


def stepper(model, opt):
    def step(x):
        opt.zero_grad()
        loss = ((model(x) - x.sum(dim=1, keepdim=True)) ** 2).mean()
        loss.backward()
        opt.step()
        return loss

    return step


def weights(model):
    return [v.tolist() for v in model.state_dict().values()]


@pytest.mark.parametrize("name", OPTIMISERS)
def test_resumed_optimiser_equals_the_uninterrupted_one(name, tmp_path):
    """OPT-03: saved to a file after 50 steps, and bit-equal after 50 more."""
    model = model_of()
    opt = OPTIMISERS[name](model.parameters())
    step = stepper(model, opt)
    for i in range(100):
        if i == 50:
            grilly.io.save_checkpoint(tmp_path / "run", model, opt)
        step(inputs(i))
    again = model_of()
    fresh = OPTIMISERS[name](again.parameters())
    grilly.io.load_checkpoint(tmp_path / "run", again, fresh)
    step = stepper(again, fresh)
    for i in range(50, 100):
        step(inputs(i))
    assert weights(again) == weights(model)
    assert weights(again) != weights(model_of())


@pytest.mark.parametrize("name", SCHEDULES)
def test_resumed_schedule_equals_the_uninterrupted_one(name, tmp_path):
    model = model_of()
    opt = optim.AdamW(model.parameters(), lr=0.05)
    schedule = SCHEDULES[name](opt)
    step = stepper(model, opt)
    for i in range(100):
        if i == 50:
            grilly.io.save_checkpoint(tmp_path / "run", model, opt, schedule)
        step(inputs(i))
        schedule.step()
    again = model_of()
    fresh = optim.AdamW(again.parameters(), lr=0.05)
    other = SCHEDULES[name](fresh)
    grilly.io.load_checkpoint(tmp_path / "run", again, fresh, other)
    step = stepper(again, fresh)
    for i in range(50, 100):
        step(inputs(i))
        other.step()
    assert fresh.param_groups[0]["lr"] == opt.param_groups[0]["lr"]
    assert weights(again) == weights(model)


@pytest.mark.parametrize("name", OPTIMISERS)
def test_captured_steps_equal_eager_ones(name):
    def run(captured):
        model = model_of()
        opt = OPTIMISERS[name](model.parameters())
        step = stepper(model, opt)
        call = grilly.capture(step, state=(model, opt)) if captured else step
        for i in range(12):
            call(inputs(i))
            if i == 6 and "yper" not in name:
                opt.param_groups[0]["lr"] = 0.02
        if captured:
            assert all(stage.program is not None for stage in call.programs.values())
        return weights(model)

    assert run(True) == run(False)


@pytest.mark.parametrize("name", OPTIMISERS)
def test_a_skipped_step_changes_nothing(name):
    """An overflow leaves parameters, moments, counters and learned rates as they were."""
    model = model_of()
    opt = OPTIMISERS[name](model.parameters())
    step = stepper(model, opt)
    for i in range(3):
        step(inputs(i))
    before = weights(model), saved(opt)
    for p in model.parameters():
        p.grad = grilly.full_like(p, float("inf"))
    opt.step_unless(grilly.tensor(1.0))
    assert (weights(model), saved(opt)) == before


def saved(opt):
    state = opt.state_dict()
    content = {k: {n: v.tolist() for n, v in c.items()} for k, c in state["state"].items()}
    return content, [group["lr"] for group in state["param_groups"]]


def test_lbfgs_resumes_exactly(tmp_path):
    start = grilly.asarray(np.array([-1.2, 1.0, 0.5]), dtype="float64")

    def valley(x, opt):
        def closure():
            opt.zero_grad()
            loss = ((x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()
            loss.backward()
            return loss

        return closure

    settings = {"max_iter": 3, "history_size": 4, "line_search_fn": "strong_wolfe"}
    p = nn.Parameter(start)
    opt = optim.LBFGS([p], **settings)
    for i in range(6):
        if i == 3:
            grilly.io.save_tree({"p": p.detach(), "opt": opt.state_dict()}, tmp_path / "run")
        opt.step(valley(p, opt))
    tree = grilly.io.load_tree(tmp_path / "run")
    q = nn.Parameter(tree["p"])
    again = optim.LBFGS([q], **settings)
    again.load_state_dict(tree["opt"])
    for _ in range(3):
        again.step(valley(q, again))
    assert p.tolist() == q.tolist() and p.tolist() != start.tolist()
    with pytest.raises(optim.OptimizerStateError, match="3 elements"):
        optim.LBFGS([parameter(3)]).load_state_dict(optim_state_of_two())


def parameter(n):
    return nn.Parameter(grilly.ones(n))


def optim_state_of_two():
    p = parameter(2)
    opt = optim.LBFGS([p])

    def closure():
        opt.zero_grad()
        loss = (p * p).sum()
        loss.backward()
        return loss

    opt.step(closure)
    return opt.state_dict()


def test_nlms_captured_rates_fall_as_eager_ones():
    def run(captured):
        layer = nn.Linear(3, 1)
        nn.init.zeros_(layer.weight), nn.init.zeros_(layer.bias)
        opt = optim.NLMS(layer.parameters(), lr=0.9, lr_decay=0.9, lr_min=0.3)

        def step(x):
            opt.step(x=x, error=x.sum(dim=1, keepdim=True) - layer(x).detach())

        call = grilly.capture(step, state=(layer, opt)) if captured else step
        for i in range(20):
            call(inputs(i))
        return weights(layer), opt.param_groups[0]["lr"]

    assert run(True) == run(False)
    assert run(True)[1] == 0.3


def test_averages_in_a_captured_step():
    def run(captured):
        model = model_of()
        average = swa_utils.AveragedModel(model, multi_avg_fn=swa_utils.get_ema_multi_avg_fn(0.9))
        opt = optim.AdamW(model.parameters(), lr=0.05)
        plain = stepper(model, opt)

        def step(x):
            loss = plain(x)
            average.update_parameters(model)
            return loss

        call = grilly.capture(step, state=(model, average, opt)) if captured else step
        for i in range(10):
            call(inputs(i))
        return weights(average)

    assert run(True) == run(False)
