"""A layer that learns digits by spike timing alone, in the manner of Diehl and Cook (2015).

Neurons compete: the one whose membrane is furthest above its threshold fires and sets all membranes back. Thresholds
rise for neurons that fire more than others and fall for those that fire less, and the weights into each neuron keep
their sum, so that every neuron finds images of its own.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

import grilly_core as grilly
from grilly_core.tensor import Tensor
from grilly_ext_snn.demo.digits import Digits
from grilly_ext_snn.functional.encoding import rate_encode
from grilly_ext_snn.nn.plasticity import STDPLayer

__all__ = ["STEPS", "Competition", "votes"]

STEPS = 20
BRIGHTEST = 0.8  # the chance of a spike of a white pixel


class Competition:
    """Neurons over an `STDPLayer` of which one at a time fires.

    Parameters
    ----------
    inputs, neurons : int
    total : float
        Sum of the weights into a neuron; a neuron at rest fires at a quarter of it.
    leak : float
        What is left of a membrane after a step.
    calm : float
        How fast thresholds follow the firing rates.
    """

    def __init__(
        self, inputs: int, neurons: int, *, total: float = 8.0, leak: float = 0.9, calm: float = 5.0
    ) -> None:
        self.layer = STDPLayer(inputs, neurons)
        self.total, self.leak, self.calm = total, leak, calm
        self.threshold = grilly.full((neurons,), 0.25 * total)
        self._normalise()

    def _normalise(self) -> None:
        w = self.layer.weight
        self.layer.weight = w * (self.total / w.sum(1, keepdim=True))

    def respond(self, spikes: Tensor) -> Tensor:
        """Return the spikes ``(T, B, neurons)`` that inputs ``(T, B, inputs)`` cause."""
        membrane = grilly.zeros((spikes.shape[1], self.layer.out_features))
        fired = []
        for current in self.layer(spikes):
            charged = membrane * self.leak + current
            above = charged - self.threshold
            best = above.amax(1, keepdim=True)
            spike = ((above >= best) & (above >= 0)).to("float32")
            membrane = charged * (1.0 - spike.amax(1, keepdim=True))
            fired.append(spike)
        result: Tensor = grilly.stack(fired)
        return result

    def learn(self, spikes: Tensor) -> Tensor:
        """Let the layer respond and learn from that; return the spikes."""
        fired = self.respond(spikes)
        self.layer.reset()
        self.layer.update_weights(
            spikes.permute(1, 0, 2),
            fired.permute(1, 0, 2),
            tau_plus=5.0,
            tau_minus=5.0,
            a_plus=0.1,
            a_minus=0.02,
        )
        self._normalise()
        rates = fired.mean((0, 1))
        self.threshold = (self.threshold + self.calm * (rates - rates.mean())).clamp(min=0.25 * self.total)
        return fired

    def fit(self, images: np.ndarray, epochs: int, seed: int, batch: int = 32) -> None:
        """Show all images `epochs` times, in an order that depends on `seed`."""
        rng = np.random.default_rng(seed)
        with grilly.no_grad():
            for epoch in range(epochs):
                order = rng.permutation(len(images))
                starts = range(0, len(order) - batch + 1, batch)
                for start in _bar(starts, f"epoch {epoch + 1}/{epochs}"):
                    self.learn(self.encode(images[order[start : start + batch]]))

    def encode(self, images: np.ndarray) -> Tensor:
        """Return the spikes that stand for images."""
        return rate_encode(grilly.asarray(images * BRIGHTEST), STEPS)

    def counts(self, images: np.ndarray) -> np.ndarray:
        """Return how often each neuron fires for each image."""
        with grilly.no_grad():
            found: np.ndarray = self.respond(self.encode(images)).sum(0).numpy()
        return found


def _bar(steps: range, title: str) -> Any:
    """Show progress on a terminal; elsewhere nothing."""
    if not sys.stderr.isatty():
        return steps
    from tqdm import tqdm

    return tqdm(steps, desc=title, leave=False)


def votes(competition: Competition, train_set: Digits, test_set: Digits) -> tuple[np.ndarray, float]:
    """Name each neuron after the digit it fires most for; return the names and the accuracy of their votes.

    Labels come in here for the first time, to see what has been learnt without them.
    """
    seen = competition.counts(train_set.images)
    means = np.stack([seen[train_set.labels == digit].mean(0) for digit in range(10)])
    names = means.argmax(0)
    counts = competition.counts(test_set.images)
    by_digit = np.stack(
        [counts[:, names == d].mean(1) if (names == d).any() else np.zeros(len(counts)) for d in range(10)],
        axis=1,
    )
    return names, float((by_digit.argmax(1) == test_set.labels).mean())
