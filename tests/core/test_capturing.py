"""Capture: replays equal eager runs bit for bit, and the sharp edges are errors."""

from __future__ import annotations

import numpy as np
import pytest

import grilly_core as grilly
from grilly_core.errors import CaptureError


def parameters():
    rng = np.random.default_rng(0)
    w = grilly.tensor(rng.normal(size=(4, 3)), requires_grad=True)
    b = grilly.tensor(rng.normal(size=3), requires_grad=True)
    return w, b, grilly.zeros(3)


def train(captured, steps=8):
    w, b, mean = parameters()

    def step(x, y):
        w.grad = b.grad = None
        loss = ((x @ w + b - y) ** 2).mean() + grilly.rand(1).sum()
        loss.backward()
        with grilly.no_grad():
            w.sub_(0.1 * w.grad)
            b.sub_(0.1 * b.grad)
            mean.copy_(mean * 0.9 + b.grad)
        return loss

    run = grilly.capture(step, state=[w, b, mean]) if captured else step
    rng = np.random.default_rng(1)
    losses = [
        run(grilly.asarray(rng.normal(size=(5, 4))), grilly.asarray(rng.normal(size=(5, 3)))).item()
        for _ in range(steps)
    ]
    return losses, w.tolist(), w.grad.tolist(), mean.tolist()


def test_a_captured_step_equals_the_eager_one():
    grilly.manual_seed(3)
    eager = train(False)
    state = grilly.random.get_state()
    grilly.manual_seed(3)
    assert train(True) == eager
    assert grilly.random.get_state() == state


def accumulator():
    total = grilly.zeros(2)

    def add(x):
        total.add_(x)
        return total.sum()

    return total, grilly.capture(add, state=total)


def test_snapshots_survive_a_replay():
    total, step = accumulator()
    for _ in range(5):
        step(grilly.ones(2))
    snapshot, array = total.detach(), total.numpy()
    step(grilly.ones(2))
    step(grilly.ones(2))
    assert snapshot.tolist() == [5, 5]
    assert array.tolist() == [5, 5]
    assert total.tolist() == [7, 7]


def test_state_set_from_outside_is_used():
    total, step = accumulator()
    for _ in range(5):
        step(grilly.ones(2))
    total.fill_(100.0)
    assert step(grilly.ones(2)).item() == 202


def test_results_outlive_the_next_replay():
    _, step = accumulator()
    results = [step(grilly.ones(2)) for _ in range(6)]
    assert [r.item() for r in results] == [2, 4, 6, 8, 10, 12]


def test_states_that_trade_places():
    a, b = grilly.asarray([1.0]), grilly.asarray([2.0])

    def swap():
        a_now, b_now = a.clone(), b.clone()
        a.copy_(b_now)
        b.copy_(a_now)

    step = grilly.capture(swap, state=[a, b])
    for i in range(1, 8):
        step()
        assert (a.item(), b.item()) == ((2, 1) if i % 2 else (1, 2))


def test_a_python_number_that_changes_is_an_error():
    rates = iter([0.1, 0.1, 0.2, 0.3])
    step = grilly.capture(lambda x: x * next(rates))
    step(grilly.ones(2))
    step(grilly.ones(2))
    with pytest.raises(CaptureError, match="'mul'"):
        step(grilly.ones(2))


def test_an_attribute_that_changes_is_an_error():
    axes = iter([0, 0, 1])
    step = grilly.capture(lambda x: x.sum(next(axes)))
    step(grilly.ones(2, 2))
    step(grilly.ones(2, 2))
    with pytest.raises(CaptureError, match="axis"):
        step(grilly.ones(2, 2))


def test_host_data_that_changes_is_an_error():
    data = iter([1.0, 1.0, 2.0])
    step = grilly.capture(lambda x: x + np.full(2, next(data), np.float32))
    step(grilly.ones(2))
    step(grilly.ones(2))
    with pytest.raises(CaptureError, match="constant"):
        step(grilly.ones(2))


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda x: x * x.sum().item(), "host"),
        (lambda x: x if x.sum() > 0 else -x, "host"),
        (lambda x: x[x > 0], "host"),
        (lambda x: x + OUTSIDE[0], "state"),
        (lambda x: grilly.capture(lambda y: y)(x), "inside another"),
    ],
)
def test_what_a_step_cannot_do(function, message):
    OUTSIDE[:] = [grilly.ones(2)]
    step = grilly.capture(function)
    with pytest.raises(CaptureError, match=message):
        for _ in range(3):
            step(grilly.ones(2))


OUTSIDE: list = []


def test_too_many_signatures_suggest_drop_last():
    step = grilly.capture(lambda x: x * 2)
    with pytest.raises(CaptureError, match="drop_last"):
        for n in range(1, 12):
            step(grilly.ones(n))


def test_each_signature_has_its_program():
    step = grilly.capture(lambda x, scale: x * scale)
    for _ in range(5):
        assert step(grilly.ones(2), 2.0).tolist() == [2, 2]
        assert step(grilly.ones(3), 3.0).tolist() == [3, 3, 3]


def test_a_step_returns_structures():
    step = grilly.capture(lambda x: {"double": x * 2, "both": (x + 1, None)})
    for i in range(6):
        out = step(grilly.full((2,), float(i)))
        assert out["double"].tolist() == [2 * i] * 2
        assert out["both"][0].tolist() == [i + 1] * 2
        assert out["both"][1] is None


def test_numpy_arguments_are_inputs():
    step = grilly.capture(lambda x: x * 2)
    for i in range(6):
        assert step(np.full(2, i, np.float32)).tolist() == [2 * i] * 2


def test_memory_of_temporaries_is_shared():
    def chain(x):
        for _ in range(20):
            x = x * 1.5 - 1.0
        return x

    step = grilly.capture(chain)
    for _ in range(4):
        step(grilly.ones(1000))
    (stage,) = step.programs.values()
    temporaries = {id(b) for s, b in stage.program._buffers.items() if stage.program.roles[s] == "temporary"}
    assert len(temporaries) <= 3


def test_a_program_is_for_the_policy_it_was_recorded_under():
    """A step captured outside of autocast is not replayed inside, nor one with gradients under no_grad."""
    x = grilly.full((4, 4), 1.0 + 2.0**-9)
    step = grilly.capture(lambda x: x @ x)
    for _ in range(5):
        plain = step(x)
    with grilly.autocast("bfloat16"):
        for _ in range(5):
            assert step(x).dtype is grilly.bfloat16
    assert step(x).dtype is grilly.float32 and step(x).tolist() == plain.tolist() == (x @ x).tolist()
    assert len(step.programs) == 2
    with grilly.no_grad():
        step(x)
    assert len(step.programs) == 3


@pytest.mark.parametrize("fuse", [True, False])
def test_what_nobody_reads_is_not_replayed(fuse):
    """A chain whose result is thrown away has no launch left, not an empty one."""
    total = grilly.zeros(4)

    def step(x):
        ((x + 1.0) * x).exp()
        total.add_(x)
        (total @ total).exp()
        return (x * 2.0).sum()

    call = grilly.capture(step, state=total, fuse=fuse)
    x = grilly.ones(4)
    assert [call(x).item() for _ in range(6)] == [8.0] * 6 and total.tolist() == [6.0] * 4
    (program,) = [stage.program for stage in call.programs.values()]
    names = sorted(entry.plan.op.name for entry in program.entries)
    assert [n for n in names if n != "strided_copy"] == [
        "add",
        "mul",
        "sum",
    ]  # the copy keeps the state in its place


def test_results_without_elements():
    """What has no elements is launched by nothing, and still has a place."""
    step = grilly.capture(
        lambda x: (grilly.concat([x[:0] + 1, x[:0] * 2]), grilly.concat([x[:0], x[:0]]).sum())
    )
    for _ in range(4):
        empty, total = step(grilly.ones((2, 3)))
        assert empty.shape == (0, 3)
        assert total.item() == 0.0
