"""Rules that PyTorch lacks, by formulas written out in NumPy; and refusals."""

from __future__ import annotations

import numpy as np
import pytest

import grilly_core as grilly
from grilly_core import nn, optim
from grilly_core.optim import lr_scheduler, swa_utils


def parameter(values):
    return nn.Parameter(grilly.asarray(np.asarray(values), dtype="float64"))


def give(p, g):
    p.grad = grilly.asarray(np.asarray(g), dtype="float64")


def test_natural_gradient_by_its_formula():
    """F = mF + (1-m)g², unbiased, with damping (features 5.6)."""
    rng = np.random.default_rng(0)
    theta, fisher = rng.normal(size=4), np.zeros(4)
    p = parameter(theta)
    opt = optim.NaturalGradient([p], lr=0.05, fisher_momentum=0.8, damping=0.01)
    for t in range(1, 101):
        g = rng.normal(size=4)
        give(p, g)
        opt.step()
        fisher = 0.8 * fisher + 0.2 * g * g
        theta = theta - 0.05 * g / (fisher / (1 - 0.8**t) + 0.01)
        np.testing.assert_allclose(p.detach().numpy(), theta, rtol=1e-10)


def test_natural_gradient_of_a_small_gradient_is_damped():
    """The unbiased first step is lr g / (g² + damping): 0.01 gives 0.0091, no leap."""
    p = parameter([0.0])
    give(p, [0.01])
    optim.NaturalGradient([p], lr=1e-3).step()
    assert p.item() == pytest.approx(-1e-3 * 0.01 / (1e-4 + 1e-3))


def test_nlms_by_its_formula():
    rng = np.random.default_rng(1)
    w, b = rng.normal(size=(2, 3)), rng.normal(size=2)
    weight, bias = parameter(w), parameter(b)
    opt = optim.NLMS([weight, bias], lr=0.5, lr_decay=0.9, lr_min=0.2, eps=0.1)
    mu = 0.5
    for _ in range(30):
        x, wanted = rng.normal(size=(4, 3)), rng.normal(size=(4, 2))
        error = wanted - (x @ w.T + b)
        opt.step(x=grilly.asarray(x, dtype="float64"), error=grilly.asarray(error, dtype="float64"))
        scaled = error / (0.1 + (x * x).sum(axis=1, keepdims=True))
        w, b = w + mu * scaled.T @ x / 4, b + mu * scaled.mean(axis=0)
        mu = max(mu * 0.9, 0.2)
        np.testing.assert_allclose(weight.detach().numpy(), w, rtol=1e-10)
        np.testing.assert_allclose(bias.detach().numpy(), b, rtol=1e-10)
        assert opt.param_groups[0]["lr"] == pytest.approx(mu)


def test_nlms_takes_one_row_a_closure_and_learns():
    layer = nn.Linear(3, 1)
    opt = optim.NLMS(layer.parameters(), lr=1.0, lr_decay=1.0)
    rng, goal = np.random.default_rng(2), np.array([1.0, -2.0, 0.5])
    for _ in range(300):
        x = rng.normal(size=3).astype(np.float32)
        given = opt.step(lambda x=x: (x, np.array([x @ goal + 0.7], np.float32) - layer(x).detach()))
        assert given[0] is x
    np.testing.assert_allclose(layer.weight.detach().numpy()[0], goal, atol=1e-3)
    assert layer.bias.item() == pytest.approx(0.7, abs=1e-3)


@pytest.mark.parametrize("log_scale", [False, True])
def test_hypergradient_adamw_by_its_formula(log_scale):
    """lr += β Σ g·d before, d the direction of the last step (Baydin et al. 2018), for each group on its own."""
    rng = np.random.default_rng(3)
    values = [rng.normal(size=3), rng.normal(size=2)]
    params = [parameter(v) for v in values]
    groups = [{"params": [params[0]]}, {"params": [params[1]], "lr": 0.02}]
    settings = {"beta_hyper": 0.05 if log_scale else 1e-3, "lr_min": 0.004, "lr_max": 0.03}
    opt = optim.HypergradientAdamW(groups, lr=0.01, weight_decay=0.1, log_scale=log_scale, **settings)
    lrs, ms, vs, ds = [0.01, 0.02], [0.0, 0.0], [0.0, 0.0], [0.0, 0.0]
    seen = set()
    for t in range(1, 101):
        for i, p in enumerate(params):
            g = 0.5 * values[i] + rng.normal(size=values[i].shape)
            give(p, g)
            h = settings["beta_hyper"] * float(np.sum(g * ds[i]))
            lrs[i] = np.clip(lrs[i] * np.exp(h) if log_scale else lrs[i] + h, 0.004, 0.03)
            ms[i], vs[i] = 0.9 * ms[i] + 0.1 * g, 0.999 * vs[i] + 0.001 * g * g
            ds[i] = ms[i] / (1 - 0.9**t) / (np.sqrt(vs[i] / (1 - 0.999**t)) + 1e-8)
            values[i] = values[i] * (1 - lrs[i] * 0.1) - lrs[i] * ds[i]
        opt.step()
        assert opt.current_lr == pytest.approx(lrs, rel=1e-9)
        for p, v in zip(params, values, strict=True):
            np.testing.assert_allclose(p.detach().numpy(), v, rtol=1e-9)
        seen.add(round(float(lrs[0]), 6))
    assert len(seen) > 20


def test_a_schedule_replaces_the_learned_rate():
    p = parameter([1.0])
    opt = optim.HypergradientAdamW([p], lr=0.1, beta_hyper=0.01)
    for _ in range(3):
        give(p, [1.0])
        opt.step()
    assert opt.current_lr[0] > 0.1 and opt.state_dict()["param_groups"][0]["lr"] == opt.current_lr[0]
    opt.param_groups[0]["lr"] = 0.5
    assert opt.current_lr == [0.5]
    give(p, [0.0])
    opt.step()
    assert opt.current_lr == [0.5]


def test_auto_hypergradient_by_its_formula():
    """Features 5.8, with a rate and a mean square for each group, and the change held to a tenth."""
    rng = np.random.default_rng(1)
    values = [rng.normal(size=3), rng.normal(size=2)]
    params = [parameter(v) for v in values]
    groups = [{"params": [params[0]]}, {"params": [params[1]], "lr": 0.02, "hyper_lr": 0.05}]
    opt = optim.AutoHypergradientAdamW(groups, lr=0.01, lr_min=0.005, lr_max=0.05, warmup_steps=4)
    lrs, powers, ms, vs, ds = [0.01, 0.02], [0.0, 0.0], [0.0, 0.0], [0.0, 0.0], [None, None]
    held, limited = 0, 0
    for t in range(1, 101):
        for i, p in enumerate(params):
            g = 0.5 * values[i] + rng.normal(size=values[i].shape)
            give(p, g)
            if t > 1:
                h = np.clip(-(g @ ds[i]) / (ds[i] @ ds[i]), -1, 1)
                powers[i] = 0.99 * powers[i] + 0.01 * h * h
                change = (0.01, 0.05)[i] * h / np.sqrt(powers[i])
                held += abs(change) > 0.1 * lrs[i]
                change = np.clip(change, -0.1 * lrs[i], 0.1 * lrs[i])
                if t > 4:
                    new = np.clip(lrs[i] - change, 0.005, 0.05)
                    limited += new in (0.005, 0.05)
                    lrs[i] = new
            ms[i], vs[i] = 0.9 * ms[i] + 0.1 * g, 0.999 * vs[i] + 0.001 * g * g
            ds[i] = ms[i] / (1 - 0.9**t) / (np.sqrt(vs[i] / (1 - 0.999**t)) + 1e-8)
            values[i] = values[i] * (1 - lrs[i] * 0.01) - lrs[i] * ds[i]
        opt.step()
        assert opt.current_lr == pytest.approx(lrs, rel=1e-9)
        for p, v in zip(params, values, strict=True):
            np.testing.assert_allclose(p.detach().numpy(), v, rtol=1e-8)
    assert held > 10 and limited > 3
    saved = [g["hyper_power"] for g in opt.state_dict()["param_groups"]]
    assert saved == pytest.approx(powers, rel=1e-9)


def test_lbfgs_finds_the_minimum_of_a_quadratic():
    """With exact curvature it needs few steps: the oracle is the solution of the linear system."""
    rng = np.random.default_rng(4)
    a = rng.normal(size=(6, 6))
    matrix, rhs = a @ a.T + np.eye(6), rng.normal(size=6)
    p = parameter(np.zeros(6))
    opt = optim.LBFGS([p], line_search_fn="strong_wolfe", max_iter=40)
    m, r = grilly.asarray(matrix, dtype="float64"), grilly.asarray(rhs, dtype="float64")

    def closure():
        opt.zero_grad()
        loss = 0.5 * (p * (m @ p)).sum() - (r * p).sum()
        loss.backward()
        return loss

    opt.step(closure)
    np.testing.assert_allclose(p.detach().numpy(), np.linalg.solve(matrix, rhs), atol=1e-5)


P = [parameter([1.0])]
S = lr_scheduler


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: optim.Adam(P, differentiable=True), "differentiable"),
        (lambda: optim.Rprop(P, differentiable=True), "differentiable"),
        (lambda: optim.SGD([{"params": P, "differentiable": True}]), "differentiable"),
        (lambda: optim.AdamW(P, foreach=True, fused=True), "foreach and fused"),
        (lambda: optim.Adamax(P, betas=(0.9, 1.0)), "betas"),
        (lambda: optim.NAdam(P, momentum_decay=-1.0), "momentum_decay"),
        (lambda: optim.RAdam(P, eps=-1.0), "eps"),
        (lambda: optim.Adagrad(P, initial_accumulator_value=-1.0), "initial_accumulator_value"),
        (lambda: optim.Adadelta(P, rho=1.5), "rho"),
        (lambda: optim.RMSprop(P, alpha=-0.1), "alpha"),
        (lambda: optim.Rprop(P, etas=(1.2, 0.5)), "etas"),
        (lambda: optim.Rprop(P, step_sizes=(2.0, 1.0)), "step_sizes"),
        (lambda: optim.ASGD(P, t0=-1.0), "t0"),
        (lambda: optim.NaturalGradient(P, fisher_momentum=1.0), "fisher_momentum"),
        (lambda: optim.NaturalGradient(P, damping=-1.0), "damping"),
        (lambda: optim.NLMS(P), "weight"),
        (lambda: optim.NLMS([parameter(np.ones((1, 2)))], lr=2.0), "between 0 and 2"),
        (lambda: optim.NLMS([parameter(np.ones((1, 2)))], lr_decay=0.0), "lr_decay"),
        (lambda: optim.HypergradientAdamW(P, lr_min=1.0, lr_max=0.5), "lr_min"),
        (lambda: optim.AutoHypergradientAdamW(P, hyper_lr=-1.0), "hyper_lr"),
        (lambda: optim.LBFGS([{"params": P}, {"params": [parameter([1.0])]}]), "one group"),
        (lambda: optim.LBFGS(P, line_search_fn="armijo"), "line_search_fn"),
        (lambda: optim.LBFGS(P, history_size=0), "history_size"),
        (lambda: optim.Adam([("a", P[0]), parameter([1.0])]), "names"),
        (lambda: S.StepLR(optim.SGD(P), 0), "step_size"),
        (lambda: S.ConstantLR(optim.SGD(P), 1.5), "factor"),
        (lambda: S.LambdaLR(optim.SGD(P), [abs, abs]), "2 values for 1 groups"),
        (lambda: S.CyclicLR(optim.SGD(P), 0.1, 1.0, mode="square"), "mode"),
        (lambda: S.CyclicLR(optim.SGD(P), [0.1, 0.2], 1.0), "base_lr"),
        (lambda: S.CyclicLR(optim.Adagrad(P), 0.1, 1.0), "cycle_momentum"),
        (lambda: S.CosineAnnealingWarmRestarts(optim.SGD(P), 0), "T_0"),
        (lambda: S.WarmupCosine(optim.SGD(P), 10, 10), "warmup_steps"),
        (lambda: S.WarmupCosine(optim.SGD(P), 1, 10, start_factor=2.0), "start_factor"),
        (lambda: S.OneCycleLR(optim.SGD(P), 1.0, 10, pct_start=2.0), "pct_start"),
        (lambda: S.OneCycleLR(optim.SGD(P), 1.0, epochs=0, steps_per_epoch=3), "epochs"),
        (lambda: S.ChainedScheduler([]), "at least one"),
        (lambda: S.ChainedScheduler([S.ReduceLROnPlateau(optim.SGD(P))]), "metric"),
        (lambda: S.SequentialLR(o := optim.SGD(P), [S.ExponentialLR(o, 0.5)], [1]), "milestones"),
        (
            lambda: S.SequentialLR(optim.SGD(P), [S.ExponentialLR(optim.SGD(P), 0.5)], []),
            "another optimiser",
        ),
        (lambda: swa_utils.SWALR(optim.SGD(P), 0.1, anneal_strategy="exp"), "anneal_strategy"),
        (lambda: swa_utils.get_ema_avg_fn(1.5), "decay"),
        (lambda: nn.utils.clip_grad_norm_(P, 1.0, 0.0), "norm_type"),
        (lambda: nn.utils.clip_grad_value_(P, -1.0), "clip_value"),
        (
            lambda: swa_utils.AveragedModel(
                nn.Linear(1, 1),
                avg_fn=swa_utils.get_swa_avg_fn(),
                multi_avg_fn=swa_utils.get_swa_multi_avg_fn(),
            ),
            "at most one",
        ),
    ],
)
def test_impossible_settings_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_wrong_types_are_refused():
    for make, message in (
        (lambda: S.StepLR(nn.Linear(1, 1), 2), "Optimizer"),
        (lambda: S.CyclicLR("sgd", 0.1, 1.0), "Optimizer"),
        (lambda: S.MultiplicativeLR(optim.SGD(P), 0.5), "function"),
        (lambda: optim.Adam(P, fused=1), "fused"),
        (lambda: optim.LBFGS(P).step(), "closure"),
        (lambda: optim.NLMS([parameter(np.ones((1, 2)))]).step(), "x and error"),
        (lambda: optim.NLMS([parameter(np.ones((1, 2)))]).step(gradients={}), "gradients"),
    ):
        with pytest.raises(TypeError, match=message):
            make()


def test_choices_change_nothing():
    results = []
    for choices in ({}, {"foreach": True}, {"foreach": False, "capturable": True}, {"fused": True}):
        p = parameter([1.0, 2.0])
        opt = optim.AdamW([p], **choices)
        give(p, [0.5, -1.0])
        opt.step()
        results.append(p.tolist())
        assert not {"foreach", "fused", "capturable"} & set(opt.param_groups[0])
    assert all(r == results[0] for r in results)
