"""Train a small convolutional network on scikit-learn's handwritten digits.

The 1797 images of 8x8 pixels are split with equal shares of each class into three quarters for training and one for the
test. The run writes loss curves, a confusion matrix and the weights, then loads the weights in a new process and checks
that they give the same accuracy.

``grilly demo digits`` or ``python -m grilly.demos.digits --epochs 16 --seed 0 --device cpu --out out/digits``
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import grilly
from grilly import data, functional, io, nn, optim
from grilly_core.training import Trainer, accuracy

__all__ = ["build_model", "load_digits", "main", "train", "verify"]

TEST_SHARE = 0.25


def load_digits(seed: int) -> tuple[tuple[Any, Any], tuple[Any, Any]]:
    """Return (images, labels) for training and for the test; the split depends on the seed alone."""
    try:
        from sklearn import datasets, model_selection
    except ImportError as error:
        raise SystemExit(
            "This demo needs scikit-learn and matplotlib: from a checkout of grilly run "
            "`pip install ./grilly_core './grilly_backend_cpu[fast]' './grilly[demo]'`."
        ) from error
    found = datasets.load_digits()
    images = (found.images / 16.0).astype(np.float32)[:, None]
    labels = found.target.astype(np.int32)
    x, x_test, y, y_test = model_selection.train_test_split(
        images, labels, test_size=TEST_SHARE, stratify=labels, random_state=seed
    )
    return (x, y), (x_test, y_test)


def build_model() -> nn.Sequential:
    """Return the network: two convolutions with pooling, then a linear layer."""
    return nn.Sequential(
        nn.Conv2d(1, 32, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(256, 10),
    )


def train(
    epochs: int, seed: int, precision: str | None = None
) -> tuple[nn.Sequential, list[dict[str, float]]]:
    """Train on the default device; return the model and a row of numbers for each epoch."""
    grilly.manual_seed(seed)
    train_set, test_set = (data.TensorDataset(*part) for part in load_digits(seed))
    model = build_model()
    optimizer = optim.AdamW(model.parameters(), lr=6e-3)
    trainer = Trainer(
        model,
        optimizer,
        functional.cross_entropy,
        scheduler=optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs),
        metrics={"accuracy": accuracy},
        precision=precision,
    )
    history = trainer.fit(
        data.DataLoader(train_set, batch_size=64, shuffle=True, generator=seed),
        data.DataLoader(test_set, batch_size=256),
        epochs=epochs,
    )
    return model, history


def predict(model: nn.Module, images: Any) -> Any:
    """Return the class of each image, as an array."""
    model.eval()
    with grilly.no_grad():
        return model(grilly.asarray(images)).argmax(dim=1).numpy()


def verify(weights: Path, seed: int) -> dict[str, Any]:
    """Load weights into a fresh model and count how many test images it gets right."""
    model = build_model()
    model.load_state_dict(io.load_file(weights))
    _, (images, labels) = load_digits(seed)
    return {"correct": int((predict(model, images) == labels).sum()), "images": len(labels)}


def _verify_in_new_process(weights: Path, seed: int, device: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "grilly.demos.digits", "--verify", str(weights), "--seed", str(seed)]
    done = subprocess.run([*command, "--device", device], check=True, capture_output=True, text=True)
    return dict(json.loads(done.stdout.splitlines()[-1]))


def confusion(labels: Any, predicted: Any) -> Any:
    """Return the matrix of counts: a row for each true class, a column for each prediction."""
    matrix = np.zeros((10, 10), np.int64)
    np.add.at(matrix, (labels, predicted), 1)
    return matrix


def plot(history: Sequence[dict[str, float]], matrix: Any, out: Path) -> None:
    """Draw the loss curves and the confusion matrix."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 4.5), layout="constrained")
    FigureCanvasAgg(figure)
    curves, table = figure.subplots(1, 2)
    epochs = [row["epoch"] for row in history]
    curves.plot(epochs, [row["loss"] for row in history], marker="o", label="training")
    curves.plot(epochs, [row["val_loss"] for row in history], marker="s", label="test")
    curves.set(xlabel="epoch", ylabel="cross-entropy", yscale="log", title="Loss")
    curves.legend()
    table.imshow(matrix, cmap="Blues")
    for (i, j), count in np.ndenumerate(matrix):
        if count:
            table.text(j, i, str(count), ha="center", va="center", color="white" if i == j else "black")
    table.set(xlabel="predicted", ylabel="true", xticks=range(10), yticks=range(10), title="Test images")
    figure.savefig(out / "digits.png", dpi=120)


def run(device: str, epochs: int, seed: int, out: Path, precision: str | None = None) -> float:
    """Train, write everything to `out`, check the saved weights, and return the test accuracy."""
    out.mkdir(parents=True, exist_ok=True)
    start = time.perf_counter()
    model, history = train(epochs, seed, precision)
    _, (images, labels) = load_digits(seed)
    predicted = predict(model, images)
    correct = int((predicted == labels).sum())
    plot(history, confusion(labels, predicted), out)
    weights = io.save_file(model.state_dict(), out / "digits.safetensors")
    again = _verify_in_new_process(weights, seed, device)
    if again != {"correct": correct, "images": len(labels)}:
        raise SystemExit(f"the saved weights give {again}, the trained model {correct} of {len(labels)}.")
    share = correct / len(labels)
    print(f"\ntest accuracy {share:.2%} ({correct} of {len(labels)}) in {time.perf_counter() - start:.1f} s")
    print(f"a new process that loaded {weights.name} gets the same {correct} right")
    print(f"written: {out / 'digits.png'}, {weights}")
    return share


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the demo with command-line arguments."""
    parser = argparse.ArgumentParser(
        prog="grilly demo digits", description="Train a small network on handwritten digits."
    )
    parser.add_argument("--device", default=str(grilly.default_device()), help="such as cpu or vulkan:0")
    parser.add_argument("--epochs", type=int, default=16)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--precision", choices=["bf16", "f16"], help="train in mixed precision")
    parser.add_argument("--out", type=Path, default=Path("out/digits"), help="folder for the results")
    parser.add_argument("--verify", type=Path, metavar="WEIGHTS", help="only evaluate saved weights")
    options = parser.parse_args(arguments)
    if options.epochs < 1:
        parser.error("--epochs must be at least 1")
    grilly.set_default_device(options.device)
    if options.verify is not None:
        print(json.dumps(verify(options.verify, options.seed)))
        return
    run(options.device, options.epochs, options.seed, options.out, options.precision)


if __name__ == "__main__":
    main()
