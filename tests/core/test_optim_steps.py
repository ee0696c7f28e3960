"""Optimisers and schedules: rules, resuming, rates and refusals."""

from __future__ import annotations

import math

import numpy as np
import pytest

import grilly_core as grilly
from grilly_core import nn, optim
from grilly_core.errors import StateDictError
from grilly_core.optim import lr_scheduler


def parameter(values=(1.0, -2.0)):
    return nn.Parameter(grilly.tensor(list(values)))


def give(p, g):
    p.grad = grilly.asarray(np.asarray(g, np.float32))


@pytest.mark.parametrize(
    ("make", "want"),
    [
        (lambda p: optim.Adam(p, lr=0.1, weight_decay=0.1), [0.7000313, -2.2996185]),
        (lambda p: optim.AdamW(p, lr=0.1, weight_decay=0.1), [0.6732889, -2.2376080]),
        (lambda p: optim.SGD(p, lr=0.1, momentum=0.9), [-0.683, -2.2805]),
        (lambda p: optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True), [-1.4147, -2.40245]),
    ],
)
def test_three_steps_with_a_constant_gradient(make, want):
    """OPT-01: L2 decay and decoupled decay are different optimisers."""
    p = parameter()
    opt = make([p])
    for _ in range(3):
        give(p, [3.0, 0.5])
        opt.step()
    np.testing.assert_allclose(p.detach().numpy(), want, rtol=2e-6)


def adam_after(steps):
    p = parameter([1.0])
    opt = optim.Adam([p], lr=0.1)
    for _ in range(steps):
        give(p, [1.0])
        opt.step()
    return p, opt


def test_resuming_needs_and_uses_the_state():
    """OPT-03: the restored run equals the uninterrupted one bit for bit."""
    p, opt = adam_after(3)
    saved, value = opt.state_dict(), p.detach().clone()
    give(p, [2.0])
    opt.step()
    assert p.item() == pytest.approx(0.6024575, abs=1e-6)

    fresh = nn.Parameter(value)
    again = optim.Adam([fresh], lr=0.1)
    again.load_state_dict(saved)
    give(fresh, [2.0])
    again.step()
    assert fresh.tolist() == p.tolist()

    bare = nn.Parameter(value)
    without = optim.Adam([bare], lr=0.1)
    give(bare, [2.0])
    without.step()
    assert bare.item() == pytest.approx(0.6000001, abs=1e-6)


def test_a_state_of_another_list_is_refused():
    """OPT-03: loading by position into another list is a ValueError, and loads nothing."""
    _, opt = adam_after(1)
    other = optim.Adam([parameter(), parameter()], lr=0.5)
    for error in (ValueError, StateDictError):
        with pytest.raises(error, match=r"\[2\].*\[1\]"):
            other.load_state_dict(opt.state_dict())
    assert other.param_groups[0]["lr"] == 0.5 and not other.state
    with pytest.raises(ValueError, match="exp_avg"):
        optim.Adam([parameter([1.0, 2.0])]).load_state_dict(opt.state_dict())


@pytest.mark.parametrize("make", [lambda p: optim.SGD(p, lr=0.05), lambda p: optim.Adam(p, lr=0.05)])
def test_a_transposed_parameter_moves_like_a_packed_one(make):
    """OPT-06: strides of a parameter change nothing."""
    w = np.random.default_rng(0).uniform(size=(2, 3)).astype(np.float32)
    strided = nn.Parameter(grilly.asarray(np.ascontiguousarray(w)).T)
    packed = nn.Parameter(grilly.asarray(np.ascontiguousarray(w.T)))
    assert strided.shape == packed.shape == (3, 2)
    for p in (strided, packed):
        opt = make([p])
        for _ in range(5):
            opt.zero_grad()
            (p * p).sum().backward()
            opt.step()
    assert strided.tolist() == packed.tolist()
    assert np.abs(strided.detach().numpy() - w.T).max() > 0.2


def rates(make, epochs, step=lambda s: s.step()):
    opt = optim.SGD([parameter()], lr=1.0)
    schedule, seen = make(opt), []
    for _ in range(epochs):
        seen.append(opt.param_groups[0]["lr"])
        step(schedule)
    return seen


def test_schedule_sequences():
    """OPT-07: no step too early or too late."""
    assert rates(lambda o: lr_scheduler.StepLR(o, 2, 0.1), 6) == pytest.approx([1, 1, 0.1, 0.1, 0.01, 0.01])
    cosine = [1, 0.853553, 0.5, 0.146447, 0, 0.146447, 0.5]
    assert rates(lambda o: lr_scheduler.CosineAnnealingLR(o, 4), 7) == pytest.approx(cosine, abs=1e-6)
    assert rates(lambda o: lr_scheduler.LinearLR(o, 0.25, 1.0, 3), 5) == pytest.approx(
        [0.25, 0.5, 0.75, 1, 1]
    )


def test_plateau_sequence():
    """OPT-07: patience 2 on a constant metric, as in the case: the rate in force after each report."""
    opt = optim.SGD([parameter()], lr=1.0)
    schedule, seen = lr_scheduler.ReduceLROnPlateau(opt, patience=2), []
    for _ in range(7):
        schedule.step(1.0)
        seen.append(opt.param_groups[0]["lr"])
    assert seen == pytest.approx([1, 1, 1, 0.1, 0.1, 0.1, 0.01])


def test_the_group_is_the_only_place_of_the_rate():
    p = parameter([1.0])
    opt = optim.SGD([p], lr=1.0)
    schedule = lr_scheduler.StepLR(opt, 1, 0.1)
    moved = []
    for _ in range(3):
        before = p.item()
        give(p, [1.0])
        opt.step()
        schedule.step()
        moved.append(before - p.item())
    assert moved == pytest.approx([1.0, 0.1, 0.01], rel=1e-4)


@pytest.mark.parametrize("lr", [-0.1, math.inf, math.nan])
def test_impossible_rates_are_refused(lr):
    with pytest.raises(ValueError, match="lr"):
        optim.SGD([parameter()], lr=lr)
    opt = optim.Adam([parameter()])
    give(opt.param_groups[0]["params"][0], [1.0, 1.0])
    opt.step()
    opt.param_groups[0]["lr"] = lr
    with pytest.raises(ValueError, match="lr"):
        opt.step()


def test_wrong_arguments_are_refused():
    p = parameter()
    for make, error, message in (
        (lambda: optim.SGD([]), ValueError, "empty"),
        (lambda: optim.SGD(p), TypeError, "list"),
        (lambda: optim.SGD([p, p]), ValueError, "twice"),
        (lambda: optim.SGD([p * 2]), ValueError, "leaves"),
        (lambda: optim.SGD([p], nesterov=True), ValueError, "momentum"),
        (lambda: optim.SGD([p], weight_decay=-1), ValueError, "weight_decay"),
        (lambda: optim.Adam([p], betas=(1.0, 0.9)), ValueError, "betas"),
        (lambda: optim.Adam([{"params": [p], "beta": 1}]), ValueError, "beta"),
        (lambda: lr_scheduler.OneCycleLR(optim.SGD([p]), 1.0), ValueError, "total_steps"),
        (lambda: lr_scheduler.SequentialLR(optim.SGD([p]), [], []), ValueError, "at least one"),
    ):
        with pytest.raises(error, match=message):
            make()


def test_a_step_leaves_gradients_and_clears_them_when_asked():
    p = parameter()
    opt = optim.SGD([p], lr=0.1)
    give(p, [1.0, 1.0])
    opt.step()
    assert p.grad.tolist() == [1.0, 1.0]
    opt.zero_grad(set_to_none=False)
    assert p.grad.tolist() == [0.0, 0.0]
    opt.zero_grad()
    assert p.grad is None
    before = p.tolist()
    opt.step()
    assert p.tolist() == before


def test_closures_and_given_gradients():
    p = parameter([1.0])
    opt = optim.SGD([p], lr=0.5)

    def closure():
        opt.zero_grad()
        loss = (p * p).sum()
        loss.backward()
        return loss

    assert opt.step(closure).item() == 1.0 and p.item() == 0.0
    opt.step(gradients={p: np.array([2.0], np.float32)})
    assert p.item() == -1.0


def test_the_tape_keeps_the_values_of_forward_time():
    p = parameter([3.0])
    loss = (p * p).sum()
    with grilly.no_grad():
        p.fill_(100.0)
    loss.backward()
    assert p.grad.item() == 6.0


def test_groups_and_half_precision():
    a, b = parameter([1.0]), nn.Parameter(grilly.tensor([1.0], dtype="float16"))
    opt = optim.Adam([{"params": [a], "lr": 0.5}, {"params": [b]}], lr=0.25)
    for p in (a, b):
        p.grad = grilly.ones(1, dtype=p.dtype)
    opt.step()
    assert a.item() == pytest.approx(0.5, rel=1e-5) and b.item() == pytest.approx(0.75, rel=1e-3)
    assert b.dtype is grilly.float16 and opt.state[b]["exp_avg"].dtype is grilly.float16


def test_schedule_state_round_trip():
    def make():
        opt = optim.SGD([parameter()], lr=1.0)
        parts = [lr_scheduler.LinearLR(opt, 0.1, total_iters=3), lr_scheduler.ExponentialLR(opt, 0.5)]
        return opt, lr_scheduler.SequentialLR(opt, parts, [3])

    (a, s), (b, t) = make(), make()
    for _ in range(4):
        s.step()
    b.load_state_dict(a.state_dict())
    t.load_state_dict(s.state_dict())
    for _ in range(3):
        assert a.param_groups[0]["lr"] == b.param_groups[0]["lr"]
        s.step(), t.step()
    with pytest.raises(ValueError, match="StepLR"):
        lr_scheduler.StepLR(b, 2).load_state_dict({"gamma": 1})


@pytest.mark.parametrize(
    "make", [lambda p: optim.SGD(p, lr=0.1, momentum=0.9), lambda p: optim.AdamW(p, lr=0.1)]
)
def test_a_captured_step_sees_changes_of_the_rate(make):
    def run(captured):
        grilly.manual_seed(0)
        model = nn.Linear(3, 1)
        opt = make(model.parameters())

        def step(x):
            opt.zero_grad()
            loss = (model(x) ** 2).mean()
            loss.backward()
            opt.step()
            return loss

        call = grilly.capture(step, state=(model, opt)) if captured else step
        losses = []
        for i in range(8):
            opt.param_groups[0]["lr"] = 0.1 / (1 + i)
            losses.append(call(grilly.full((4, 3), 0.1 * i)).item())
        return losses, model.weight.tolist()

    assert run(True) == run(False)


def test_vectors_of_parameters():
    model = nn.Linear(2, 3)
    vector = nn.utils.parameters_to_vector(model.parameters())
    assert vector.shape == (9,)
    nn.utils.vector_to_parameters(grilly.arange(9, dtype="float32"), model.parameters())
    assert model.weight.tolist() == [[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]] and model.bias.tolist() == [
        6.0,
        7.0,
        8.0,
    ]
    with pytest.raises(ValueError, match="9"):
        nn.utils.vector_to_parameters(grilly.ones(8), model.parameters())


def test_clipping_refuses_what_is_not_finite_when_asked():
    p = parameter()
    give(p, [math.inf, 1.0])
    with pytest.raises(RuntimeError, match="not finite"):
        nn.utils.clip_grad_norm_(p, 1.0, error_if_nonfinite=True)
    assert nn.utils.clip_grad_norm_([parameter()], 1.0).item() == 0.0
