"""A network of two spiking layers that learns by surrogate gradients through time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import grilly_core as grilly
from grilly_core import data, nn, optim
from grilly_core.tensor import Tensor
from grilly_core.training import Trainer
from grilly_ext_snn.demo.digits import Digits
from grilly_ext_snn.functional.encoding import rate_encode
from grilly_ext_snn.functional.losses import accuracy_rate, ce_rate_loss
from grilly_ext_snn.functional.nets import reset_net
from grilly_ext_snn.nn.nodes import LIFNode

__all__ = ["STEPS", "SpikingNet", "train"]

STEPS = 20


class SpikingNet(nn.Module):
    """Two linear maps with leaky neurons behind them; every call starts from rest.

    Parameters
    ----------
    hidden : int
        Neurons of the first layer.
    """

    def __init__(self, hidden: int = 128) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(64, hidden), LIFNode(v_reset=None, step_mode="m"),
            nn.Linear(hidden, 10), LIFNode(v_reset=None, step_mode="m"),
        )  # fmt: skip

    def forward(self, spikes: Tensor) -> Tensor:
        """Return spikes ``(T, B, 10)`` of spikes ``(T, B, 64)``."""
        reset_net(self.layers)
        result: Tensor = self.layers(spikes)
        reset_net(self.layers)
        return result


class Encoded:
    """Batches of a loader with their images as spikes, drawn anew each time."""

    def __init__(self, loader: data.DataLoader, steps: int) -> None:
        self.loader, self.steps = loader, steps

    def __len__(self) -> int:
        return len(self.loader)

    def __iter__(self) -> Iterator[tuple[Tensor, Any]]:
        for images, labels in self.loader:
            yield rate_encode(grilly.asarray(images), self.steps), labels


def train(
    train_set: Digits, test_set: Digits, epochs: int, seed: int
) -> tuple[SpikingNet, list[dict[str, float]]]:
    """Train on the default device; return the network and a row of numbers for each epoch."""
    net = SpikingNet()
    optimizer = optim.Adam(net.parameters(), lr=5e-3)
    trainer = Trainer(
        net, optimizer, ce_rate_loss, metrics={"accuracy": accuracy_rate},
        scheduler=optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs),
    )  # fmt: skip
    batches = data.DataLoader(data.TensorDataset(*train_set), batch_size=64, shuffle=True, generator=seed)
    tests = data.DataLoader(data.TensorDataset(*test_set), batch_size=256)
    return net, trainer.fit(Encoded(batches, STEPS), Encoded(tests, STEPS), epochs=epochs)
