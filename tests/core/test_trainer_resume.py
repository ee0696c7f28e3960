"""The training loop: it learns, reports what was there, and resumes exactly."""

from __future__ import annotations

import numpy as np
import pytest

import grilly_core as grilly
from grilly_core import data, nn, optim
from grilly_core.training import Trainer, accuracy


def blobs(n=96):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, n).astype(np.int32)
    x = (np.eye(3)[y] * 3 + rng.normal(size=(n, 3))).astype(np.float32)
    return data.TensorDataset(x, y)


def make(checkpoint=None, order=5, **settings):
    grilly.manual_seed(1)
    model = nn.Sequential(nn.Linear(3, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.3), nn.Linear(16, 3))
    opt = optim.AdamW(model.parameters(), lr=0.05)
    trainer = Trainer(
        model,
        opt,
        nn.CrossEntropyLoss(),
        scheduler=optim.lr_scheduler.StepLR(opt, 2, 0.5),
        metrics={"accuracy": accuracy},
        checkpoint=checkpoint,
        progress=False,
        **settings,
    )
    return trainer, data.DataLoader(blobs(), batch_size=16, shuffle=True, generator=order)


def test_it_learns_and_keeps_a_history():
    trainer, loader = make()
    rows = trainer.fit(loader, data.DataLoader(blobs(), batch_size=50), epochs=5)
    assert [row["epoch"] for row in rows] == [1, 2, 3, 4, 5]
    assert [row["lr"] for row in rows] == pytest.approx([0.05, 0.05, 0.025, 0.025, 0.0125])
    assert rows[-1]["val_accuracy"] > 0.9 and rows[-1]["loss"] < rows[0]["loss"]


@pytest.mark.parametrize("order", [5, None])
def test_a_resumed_run_equals_the_uninterrupted_one(tmp_path, order):
    """OPT-03: weights, statistics, optimiser, schedule, dropout and shuffling go on bit for bit."""
    whole, loader = make(order=order)
    whole.fit(loader, epochs=5)
    first, loader = make(tmp_path / "run", order=order)
    first.fit(loader, epochs=2)
    grilly.manual_seed(99)  # whatever happened in between
    second, loader = make(order=order)
    rows = second.resume(tmp_path / "run").fit(loader, epochs=5)
    assert [r["loss"] for r in rows] == [r["loss"] for r in whole.history]
    for (name, a), b in zip(
        whole.model.state_dict().items(), second.model.state_dict().values(), strict=True
    ):
        assert a.tolist() == b.tolist(), name
    assert second.optimizer.param_groups[0]["lr"] == whole.optimizer.param_groups[0]["lr"]


def test_evaluation_weighs_batches_by_size_and_restores_the_mode():
    trainer, _ = make()
    trainer.model.train()
    one = trainer.evaluate(data.DataLoader(blobs(), batch_size=96))
    many = trainer.evaluate(data.DataLoader(blobs(), batch_size=7))
    assert many["loss"] == pytest.approx(one["loss"], rel=1e-5)
    assert many["accuracy"] == pytest.approx(one["accuracy"], rel=1e-5)
    assert trainer.model.training


def test_a_table_is_printed_and_no_bar_without_a_terminal(capsys):
    trainer, loader = make()
    trainer.progress = True
    trainer.fit(loader, epochs=2)
    shown = capsys.readouterr()
    lines = shown.out.splitlines()
    assert len(lines) == 3 and lines[0].split() == ["epoch", "lr", "loss", "seconds"] and shown.err == ""


def test_the_plateau_schedule_gets_the_validation_loss():
    trainer, loader = make()
    trainer.scheduler = optim.lr_scheduler.ReduceLROnPlateau(trainer.optimizer, patience=0, threshold=10.0)
    trainer.fit(loader, data.DataLoader(blobs(), batch_size=96), epochs=2)
    assert trainer.scheduler.last_epoch == 2


@pytest.mark.parametrize("precision", ["bf16", "f16"])
def test_half_precision_learns_as_well(precision):
    trainer, loader = make(precision=precision)
    rows = trainer.fit(loader, data.DataLoader(blobs(), batch_size=50), epochs=5)
    assert rows[-1]["val_accuracy"] > 0.9
    assert [row.get("skipped") for row in rows] == [None if precision == "bf16" else 0] * 5
    assert all(p.dtype is grilly.float32 for p in trainer.model.parameters())


def test_an_overflow_is_told_in_the_table(capsys):
    trainer, loader = make(precision="f16")
    trainer.progress = True
    trainer.scaler.load_state_dict({**trainer.scaler.state_dict(), "scale": 2.0**18})
    rows = trainer.fit(loader, epochs=2)
    assert rows[0]["skipped"] > 0 and rows[1]["skipped"] == 0
    assert "skipped" in capsys.readouterr().out


def test_the_scale_is_resumed(tmp_path):
    first, loader = make(tmp_path / "run", precision="f16")
    first.fit(loader, epochs=2)
    second, _ = make(precision="f16")
    second.resume(tmp_path / "run")
    assert second.scaler.state_dict() == first.scaler.state_dict()


def test_captured_and_eager_training_are_the_same():
    histories = []
    for capture in (True, False, None):
        trainer, loader = make(capture=capture)
        histories.append([row["loss"] for row in trainer.fit(loader, epochs=3)])
        assert bool(getattr(trainer._step, "programs", {})) == (capture is not False)
    assert histories[0] == histories[1] == histories[2]


def small(accumulate, batch_size, **settings):
    """A model without what looks at a batch as a whole, on 90 samples in their order."""
    grilly.manual_seed(1)
    model = nn.Sequential(nn.Linear(3, 16), nn.Tanh(), nn.Linear(16, 3))
    opt = optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    trainer = Trainer(model, opt, nn.CrossEntropyLoss(), accumulate=accumulate, progress=False, **settings)
    rows = trainer.fit(data.DataLoader(blobs(90), batch_size=batch_size), epochs=4)
    if settings.get("capture"):
        assert any(stage.program is not None for stage in trainer._step.programs.values())
    return [row["loss"] for row in rows], [p.detach().numpy() for p in model.parameters()]


@pytest.mark.parametrize("capture", [True, False])
@pytest.mark.parametrize("precision", [None, "f16"])
def test_accumulated_batches_are_one_large_batch(capture, precision):
    """90 samples: 3 batches of 8 make a step of 24; the last of 24, 24, 24 and 18 has batches of 8, 8 and 2."""
    losses, weights = small(3, 8, capture=capture, precision=precision)
    wanted_losses, wanted = small(1, 24, capture=False, precision=precision)
    tol = 1e-5 if precision is None else 3e-2
    assert losses == pytest.approx(wanted_losses, rel=tol)
    for a, b in zip(weights, wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=tol, atol=tol)
    assert small(3, 8, capture=not capture, precision=precision)[0] == losses


def test_impossible_accumulation_is_refused():
    for wrong in (0, 2.0, True):
        with pytest.raises(ValueError, match="accumulate"):
            small(wrong, 8)


def test_a_step_that_cannot_be_captured_runs_eagerly_and_says_why(capsys):
    def reading_loss(output, target):
        loss = nn.CrossEntropyLoss()(output, target)
        assert loss.item() > 0  # a host read
        return loss

    plain, loader = make(capture=False)
    wanted = [row["loss"] for row in plain.fit(loader, epochs=3)]
    trainer, loader = make()
    trainer.loss, trainer.progress = reading_loss, True
    assert [row["loss"] for row in trainer.fit(loader, epochs=3)] == wanted  # nothing was done twice
    assert (
        capsys.readouterr().out.count("(the step runs eagerly: capture: the step reads a value on the host")
        == 1
    )
    strict, loader = make(capture=True)
    strict.loss = reading_loss
    with pytest.raises(grilly.CaptureError, match="reads a value"):
        strict.fit(loader, epochs=1)


def test_settings_and_loaded_state_reach_a_captured_step(tmp_path):
    """A program is for its settings: other betas, or a state that was loaded, are not ignored."""
    losses = []
    for capture in (True, False):
        trainer, loader = make(tmp_path / f"run{capture}", capture=capture)
        trainer.fit(loader, epochs=2)
        trainer.optimizer.param_groups[0]["betas"] = (0.5, 0.9)
        trainer.fit(loader, epochs=3)
        trainer.optimizer.load_state_dict(trainer.optimizer.state_dict())
        trainer.fit(loader, epochs=4)
        losses.append([row["loss"] for row in trainer.history])
    assert losses[0] == losses[1]
