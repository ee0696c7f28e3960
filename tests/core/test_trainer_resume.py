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
