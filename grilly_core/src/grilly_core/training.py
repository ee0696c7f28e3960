"""A small training loop: epochs, evaluation, a progress bar, a table, checkpoints and exact resumption."""

from __future__ import annotations

import itertools
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from grilly_core.amp import GradScaler
from grilly_core.capture import Capture, capture
from grilly_core.config import autocast, no_grad
from grilly_core.dtypes import float32
from grilly_core.io.checkpoint import load_checkpoint, save_checkpoint
from grilly_core.nn.module import Module
from grilly_core.ops.creation import asarray
from grilly_core.optim.lr_scheduler import LRScheduler, ReduceLROnPlateau
from grilly_core.optim.optimizer import Optimizer
from grilly_core.random import Generator
from grilly_core.tensor import Tensor

__all__ = ["Trainer", "accuracy"]

Metric = Callable[[Tensor, Tensor], Any]
Row = dict[str, float]


def accuracy(output: Tensor, target: Tensor) -> Tensor:
    """Return the share of rows whose largest logit is at the target class.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> from grilly_core.training import accuracy
    >>> accuracy(grilly.tensor([[2.0, 1.0], [0.0, 1.0]]), grilly.tensor([0, 0])).item()
    0.5
    """
    return (output.argmax(dim=1) == target.to(output.argmax(dim=1).dtype)).to("float32").mean()


class Trainer:
    """Train a model on batches of (input, target).

    Parameters
    ----------
    model : Module
    optimizer : Optimizer
    loss : callable
        ``loss(output, target)``.
    scheduler : LRScheduler, optional
        Moved on after every epoch; `ReduceLROnPlateau` gets the validation loss, or else the training loss.
    metrics : mapping of str to callable, optional
        Each a mean over the batch, as ``metric(output, target)``; reported by `evaluate`.
    precision : {None, "bf16", "f16"}
        Run the forward pass under `autocast`; with float16 a `GradScaler` scales the loss, and the table tells how many
        steps were skipped because of an overflow.
    accumulate : int
        How many batches make one step of the optimiser. Their gradients are summed up, each batch weighed by its share
        of the samples, so that with a loss that is a mean a step is that of one large batch; the last step of an epoch
        may have fewer.
    capture : bool, optional
        Whether the step is captured. By default it is where it can be; where it cannot, a line under the table says
        why. True makes that an error.
    checkpoint : path, optional
        Written after every epoch.
    progress : bool
        Show a progress bar (if the output is a terminal) and a row for each epoch.

    Attributes
    ----------
    epoch : int
        Epochs done.
    history : list of dict
        One row for each.
    scaler : GradScaler or None

    Examples
    --------
    >>> import grilly_core as grilly, numpy as np
    >>> from grilly_core.training import Trainer
    >>> data = grilly.data.TensorDataset(np.ones((8, 2), np.float32), np.zeros((8, 1), np.float32))
    >>> model = grilly.nn.Linear(2, 1)
    >>> trainer = Trainer(model, grilly.optim.SGD(model.parameters(), lr=0.1), grilly.nn.MSELoss(), progress=False)
    >>> rows = trainer.fit(grilly.data.DataLoader(data, batch_size=4), epochs=3)
    >>> rows[-1]["loss"] < rows[0]["loss"]
    True
    """

    def __init__(
        self,
        model: Module,
        optimizer: Optimizer,
        loss: Callable[[Any, Any], Tensor],
        *,
        scheduler: LRScheduler | None = None,
        metrics: Mapping[str, Metric] | None = None,
        precision: str | None = None,
        accumulate: int = 1,
        capture: bool | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
        progress: bool = True,
    ) -> None:
        self.model = model
        self.optimizer = optimizer
        self.loss = loss
        self.scheduler = scheduler
        self.metrics = dict(metrics or {})
        self.checkpoint = checkpoint
        self.progress = progress
        if precision not in (None, "bf16", "f16"):
            raise ValueError(f"precision: expected None, 'bf16' or 'f16'; received {precision!r}.")
        if isinstance(accumulate, bool) or not isinstance(accumulate, int) or accumulate < 1:
            raise ValueError(f"accumulate: expected an integer of at least 1; received {accumulate!r}.")
        self.precision = precision
        self.accumulate = accumulate
        self.scaler = GradScaler() if precision == "f16" else None
        self._step: Callable[..., Tensor] = self._eager_step
        if capture is not False:
            self._step = _captured(self._eager_step, [model, optimizer, self.scaler], strict=bool(capture))
        self._told = False
        self.epoch = 0
        self.history: list[Row] = []
        self._loader: Any = None
        self._saved_sampler: list[int] | None = None

    # -- running -------------------------------------------------------------------------------------------

    def fit(self, train: Iterable[Any], validation: Iterable[Any] | None = None, *, epochs: int) -> list[Row]:
        """Train until `epochs` epochs are done, counting those before a `resume`.

        Parameters
        ----------
        train : iterable of (input, target)
            Such as a `DataLoader`.
        validation : iterable of (input, target), optional
            Evaluated after every epoch.
        epochs : int

        Returns
        -------
        list of dict
            The history, one row for each epoch.
        """
        self._loader = train
        self._restore_order()
        while self.epoch < epochs:
            start = time.perf_counter()
            row: Row = {"epoch": float(self.epoch + 1), "lr": float(self.optimizer.param_groups[0]["lr"])}
            skipped = 0 if self.scaler is None else self.scaler.skipped_steps()
            row["loss"] = self._train_epoch(train, f"epoch {self.epoch + 1}/{epochs}")
            if self.scaler is not None:
                row["skipped"] = float(self.scaler.skipped_steps() - skipped)
            if validation is not None:
                row |= {f"val_{name}": value for name, value in self.evaluate(validation).items()}
            self._schedule(row)
            row["seconds"] = time.perf_counter() - start
            self.epoch += 1
            self.history.append(row)
            if self.checkpoint is not None:
                self.save(self.checkpoint)
            if self.progress:
                self._show(row)
        return self.history

    def _train_epoch(self, train: Iterable[Any], title: str) -> float:
        self.model.train()
        total: Any = 0.0  # kept on the device: reading it after every step would wait for each
        count = 0
        for batches in _windows(self._bar(train, title), self.accumulate):
            sizes = [len(target) for _, target in batches]
            for i, (input, target) in enumerate(batches):
                place: tuple[Any, ...] = ()
                if self.accumulate > 1:  # a tensor, so that a captured step takes any share
                    share = asarray(sizes[i] / max(sum(sizes), 1), dtype=float32)
                    place = (share, i == 0, i == len(batches) - 1)
                loss = self._step(input, target, *place)
                total, count = total + loss.detach() * sizes[i], count + sizes[i]
        return float(total) / max(count, 1)

    def _eager_step(
        self, input: Any, target: Any, share: Tensor | None = None, first: bool = True, last: bool = True
    ) -> Tensor:
        """Go forward and back over a batch, the `first` of a step of the optimiser, the `last`, or one between."""
        if first:
            self.optimizer.zero_grad()
        with autocast(self.precision or "bf16", enabled=self.precision is not None):
            loss = self.loss(self.model(input), target)
        part = loss if share is None else loss * share.to(loss.device)
        if self.scaler is None:
            part.backward()
            if last:
                self.optimizer.step()
        else:
            self.scaler.scale(part).backward()
            if last:
                self.scaler.step(self.optimizer)
                self.scaler.update()
        return loss

    def evaluate(self, batches: Iterable[Any]) -> Row:
        """Return the loss and the metrics over batches, in evaluation mode, weighted by batch size."""
        was_training = self.model.training
        self.model.eval()
        totals: Row = dict.fromkeys(["loss", *self.metrics], 0.0)
        count = 0
        with no_grad():
            for input, target in batches:
                output = self.model(input)
                size = len(target)
                count += size
                for name, metric in {"loss": self.loss, **self.metrics}.items():
                    totals[name] += float(metric(output, target)) * size
        self.model.train(was_training)
        return {name: total / max(count, 1) for name, total in totals.items()}

    def _schedule(self, row: Row) -> None:
        if isinstance(self.scheduler, ReduceLROnPlateau):
            self.scheduler.step(row.get("val_loss", row["loss"]))
        elif self.scheduler is not None:
            self.scheduler.step()

    # -- state ---------------------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Save weights, optimiser, schedule, random state, epoch, history and the order of the loader."""
        save_checkpoint(
            path,
            self.model,
            self.optimizer,
            self.scheduler,
            epoch=self.epoch,
            loss=self.history[-1]["loss"] if self.history else None,
            history=self.history,
            order=self._order_state(),
            scaler={} if self.scaler is None else self.scaler.state_dict(),
        )

    def resume(self, path: str | os.PathLike[str]) -> Trainer:
        """Continue from a checkpoint: the next `fit` does what the uninterrupted run would have done."""
        tree = load_checkpoint(path, self.model, self.optimizer, self.scheduler, restore_rng=True)
        self.epoch = int(tree["epoch"])
        self.history = list(tree["history"])
        self._saved_sampler = tree["order"]
        if self.scaler is not None and tree.get("scaler"):
            self.scaler.load_state_dict(tree["scaler"])
        return self

    def _order(self) -> Generator | None:
        """The loader's own random generator, if it has one."""
        found = getattr(getattr(self._loader, "sampler", None), "generator", None)
        return found if isinstance(found, Generator) else None

    def _order_state(self) -> list[int] | None:
        generator = self._order()
        return None if generator is None else list(generator.get_state())

    def _restore_order(self) -> None:
        generator, saved = self._order(), self._saved_sampler
        if generator is not None and saved is not None:
            generator.set_state((saved[0], saved[1]))
        self._saved_sampler = None

    # -- showing -------------------------------------------------------------------------------------------

    def _bar(self, batches: Iterable[Any], title: str) -> Iterator[Any]:
        """Show progress on a terminal; elsewhere the batches pass unseen."""
        if not (self.progress and sys.stderr.isatty()):
            return iter(batches)
        from tqdm import tqdm  # only when there is a terminal to show a bar on

        return iter(tqdm(batches, desc=title, leave=False))

    def _show(self, row: Row) -> None:
        cells = {name: _cell(name, value) for name, value in row.items()}
        if len(self.history) == 1 or set(self.history[-2]) != set(row):
            print("  ".join(name.rjust(_width(name)) for name in cells))
        print("  ".join(text.rjust(_width(name)) for name, text in cells.items()), flush=True)
        reason = getattr(self._step, "error", None)
        if reason is not None and not self._told:
            self._told = True
            print(f"(the step runs eagerly: {reason})", flush=True)


def _windows(batches: Iterator[Any], size: int) -> Iterator[list[Any]]:
    """Take batches together, `size` at a time and at last what is left."""
    while window := list(itertools.islice(batches, size)):
        yield window


def _captured(step: Callable[..., Tensor], state: list[Any], strict: bool) -> Capture:
    return capture(step, state, on_error="raise" if strict else "eager")


def _width(name: str) -> int:
    return max(len(name), 8)


def _cell(name: str, value: float) -> str:
    if name in ("epoch", "skipped"):
        return str(int(value))
    return f"{value:.1f}" if name == "seconds" else f"{value:.4g}" if name == "lr" else f"{value:.4f}"
