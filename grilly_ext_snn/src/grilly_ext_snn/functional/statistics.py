"""Firing rates of a layer in numbers, and the neurons that do no work."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from grilly_core.errors import ShapeError
from grilly_core.tensor import Tensor

__all__ = ["FiringRates", "firing_rate_statistics"]


class FiringRates(NamedTuple):
    """What `firing_rate_statistics` returns; rates are spikes per step.

    Attributes
    ----------
    rates : ndarray
        Of each neuron.
    mean, low, high : float
        Over the neurons.
    dead, saturated : ndarray of int
        Flat indices of neurons that fire too rarely or too often.
    """

    rates: np.ndarray
    mean: float
    low: float
    high: float
    dead: np.ndarray
    saturated: np.ndarray


def firing_rate_statistics(spikes: Any, dead: float = 0.0, saturated: float = 0.95) -> FiringRates:
    """Summarise the spikes ``(T, B, ...)`` of a layer.

    Parameters
    ----------
    spikes : array_like, (T, B, ...)
    dead : float
        A neuron that fires at most at this rate, over all steps and samples, is dead.
    saturated : float
        One that fires at least at this rate is saturated.

    Returns
    -------
    FiringRates

    Examples
    --------
    >>> import numpy as np
    >>> from grilly_ext_snn.functional.statistics import firing_rate_statistics
    >>> spikes = np.zeros((10, 1, 3))
    >>> spikes[:, :, 1], spikes[::2, :, 2] = 1, 1
    >>> found = firing_rate_statistics(spikes)
    >>> found.mean, found.dead.tolist(), found.saturated.tolist()
    (0.5, [0], [1])
    """
    a = np.asarray(spikes.detach().numpy() if isinstance(spikes, Tensor) else spikes)
    if a.ndim < 3 or a.size == 0:
        raise ShapeError(
            f"firing_rate_statistics: expected spikes (T, B, ...) with neurons in the last axes; received {a.shape}."
        )
    if not 0 <= dead < saturated:
        raise ValueError(
            f"firing_rate_statistics: expected 0 <= dead < saturated; received {dead} and {saturated}."
        )
    rates = a.mean((0, 1), dtype=np.float64)
    flat = rates.ravel()
    return FiringRates(
        rates, float(flat.mean()), float(flat.min()), float(flat.max()), np.flatnonzero(flat <= dead),
        np.flatnonzero(flat >= saturated),
    )  # fmt: skip
