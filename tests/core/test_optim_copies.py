"""Optimisers and schedules that are pickled or deep-copied go on as the original would; bad states change nothing.

Oracle: the original optimiser, stepped with the same inputs; bits must agree.
"""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

import grilly_core as grilly
from grilly_core import nn, optim
from grilly_core.optim import lr_scheduler

RULES = {
    name: getattr(optim, name)
    for name in (
        *(
            "ASGD",
            "Adadelta",
            "Adagrad",
            "Adam",
            "AdamW",
            "Adamax",
            "AutoHypergradientAdamW",
            "HypergradientAdamW",
        ),
        *("LBFGS", "NAdam", "NaturalGradient", "RAdam", "RMSprop", "Rprop", "SGD"),
    )
}
RULES["HypergradientAdamW"] = lambda p, lr: optim.HypergradientAdamW(p, lr, beta_hyper=1e-3)
RULES["AutoHypergradientAdamW"] = lambda p, lr: optim.AutoHypergradientAdamW(p, lr, warmup_steps=1)
WAYS = {"pickle": lambda both: pickle.loads(pickle.dumps(both)), "deepcopy": copy.deepcopy}


def trained(rule):
    grilly.manual_seed(0)
    model = nn.Linear(3, 2)
    optimizer = rule(model.parameters(), lr=0.05)
    for seed in range(4):  # learned rates move from the second step on
        train(model, optimizer, seed)
    return model, optimizer


def train(model, optimizer, seed):
    x = grilly.asarray(np.random.default_rng(seed).normal(size=(5, 3)).astype(np.float32))

    def closure():
        optimizer.zero_grad()
        loss = (model(x) ** 2).sum()
        loss.backward()
        return loss

    optimizer.step(closure)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", RULES)
def test_a_copy_goes_on_as_the_original(name, way):
    model, optimizer = trained(RULES[name])
    twin, follower = WAYS[way]((model, optimizer))
    assert [id(p) for g in follower.param_groups for p in g["params"]] == [id(p) for p in twin.parameters()]
    before = [p.tolist() for p in model.parameters()]
    train(twin, follower, 9)
    assert [p.tolist() for p in model.parameters()] == before
    assert [p.tolist() for p in twin.parameters()] != before
    train(model, optimizer, 9)
    assert [p.tolist() for p in twin.parameters()] == [p.tolist() for p in model.parameters()]


@pytest.mark.parametrize("way", WAYS)
def test_a_schedule_is_copied_with_its_optimiser(way):
    _, optimizer = trained(optim.SGD)
    schedule = lr_scheduler.StepLR(optimizer, 1, 0.5)
    copied, follower = WAYS[way]((schedule, optimizer))
    copied.step()
    assert copied.optimizer is follower
    assert (follower.param_groups[0]["lr"], optimizer.param_groups[0]["lr"]) == (0.025, 0.05)


@pytest.mark.parametrize("rule", [optim.AdamW, optim.LBFGS])
@pytest.mark.parametrize("given", [{}, {"state": {}}, {"param_groups": []}])
def test_a_state_without_its_parts_is_named(rule, given):
    _, optimizer = trained(rule)
    with pytest.raises(optim.OptimizerStateError, match="'state' and 'param_groups'"):
        optimizer.load_state_dict(given)
    with pytest.raises(TypeError, match="received NoneType"):
        optimizer.load_state_dict(None)


def test_a_state_with_a_bad_setting_changes_nothing():
    _, optimizer = trained(optim.AdamW)
    saved = optimizer.state_dict()
    bad = {**saved, "param_groups": [{**saved["param_groups"][0], "eps": 0.5, "lr": -1.0}]}
    with pytest.raises(ValueError, match="lr"):
        optimizer.load_state_dict(bad)
    assert optimizer.param_groups[0]["lr"] == 0.05
    assert optimizer.param_groups[0]["eps"] == saved["param_groups"][0]["eps"]
