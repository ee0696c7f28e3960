"""`SNNVisualizer`: the last steps of a running network, as one picture."""

from __future__ import annotations

import os
from collections import deque
from pathlib import Path
from typing import Any

import numpy as np

from grilly_core.atomic import atomic_write
from grilly_core.errors import ShapeError
from grilly_core.tensor import Tensor
from grilly_ext_snn import plots

__all__ = ["SNNVisualizer"]


class SNNVisualizer:
    """Keep the last steps of a layer that runs step by step, and draw raster, membranes and rate.

    Parameters
    ----------
    max_history : int
        Steps that are kept.

    Examples
    --------
    >>> import grilly
    >>> from grilly_ext_snn.nn.nodes import LIFNode
    >>> from grilly_ext_snn.visualizer import SNNVisualizer
    >>> node, seen = LIFNode(), SNNVisualizer(max_history=50)
    >>> for _ in range(60):
    ...     seen.update(node(grilly.full((1, 3), 0.7)), node.v)
    >>> len(seen), len(seen.plot(threshold=1.0).axes)
    (50, 3)
    """

    def __init__(self, max_history: int = 100) -> None:
        if isinstance(max_history, bool) or not isinstance(max_history, int) or max_history < 1:
            raise ValueError(
                f"SNNVisualizer: max_history must be a positive integer; received {max_history!r}."
            )
        self.max_history = max_history
        self._spikes: deque[np.ndarray] = deque(maxlen=max_history)
        self._membranes: deque[np.ndarray] = deque(maxlen=max_history)

    def __len__(self) -> int:
        return len(self._spikes)

    def update(self, spikes: Any, membrane: Any = None) -> None:
        """Take one step: spikes ``(N,)`` or ``(B, N)``, of which the first sample is kept, and the membranes."""
        found = [_row(value) for value in (spikes, membrane) if value is not None]
        if self._spikes and found[0].shape != self._spikes[-1].shape:
            raise ShapeError(
                f"SNNVisualizer: {len(self._spikes[-1])} neurons so far; received {len(found[0])}. reset() starts anew."
            )
        if bool(self._membranes) != (len(found) == 2) and self._spikes:
            raise ValueError("SNNVisualizer: give the membrane at every step or at none.")
        self._spikes.append(found[0])
        if len(found) == 2:
            self._membranes.append(found[1])

    def reset(self) -> None:
        """Forget all steps."""
        self._spikes.clear()
        self._membranes.clear()

    @property
    def spikes(self) -> np.ndarray:
        """The spikes that are kept, (T, N)."""
        return np.stack(self._spikes) if self._spikes else np.zeros((0, 0), np.float32)

    def plot(self, threshold: float | None = None) -> Any:
        """Return a figure of the raster, the membranes if there are some, and the mean rate."""
        if not self._spikes:
            raise ValueError("SNNVisualizer: there is nothing to draw; call update() first.")
        rows = 3 if self._membranes else 2
        figure = plots.new_figure(figsize=(8, 2.5 * rows))
        axes = figure.subplots(rows, 1, sharex=True)
        plots.plot_spike_raster(self.spikes, axes[0])
        if self._membranes:
            plots.plot_membrane_potential(np.stack(self._membranes), threshold, axes[1])
        plots.plot_firing_rate(self.spikes, axes[-1])
        return figure

    def save(self, path: str | os.PathLike[str], threshold: float | None = None) -> None:
        """Write the figure of `plot` as PNG, atomically."""
        with atomic_write(Path(path)) as file:
            self.plot(threshold).savefig(file, format="png")


def _row(value: Any) -> np.ndarray:
    a = np.asarray(value.detach().numpy() if isinstance(value, Tensor) else value)
    if a.ndim > 1:
        a = a[0]
    if a.size == 0:
        raise ShapeError(f"SNNVisualizer: expected (N,) or (B, N); received shape {a.shape}.")
    return a.reshape(-1)
