"""Modules of place, grid and time cells and of the theta-gamma code."""

from __future__ import annotations

import math
from typing import Any

import grilly_core as grilly
from grilly_core.nn import Module
from grilly_core.random import Generator
from grilly_core.tensor import Tensor
from grilly_ext_snn.functional import cells
from grilly_ext_snn.nn.memory import MemoryModule

__all__ = ["GridCell", "PlaceCell", "ThetaGammaEncoder", "TimeCell"]


class PlaceCell(Module):
    """Place cells whose centres are drawn once, uniformly.

    Parameters
    ----------
    n_neurons : int
    spatial_dims : int
    field_width, max_rate, baseline_rate : float
        See `place_cell`.
    bounds : (float, float)
        Of every coordinate of the centres.
    rng : Generator, optional

    Attributes
    ----------
    field_centers : buffer, (n_neurons, spatial_dims)

    Examples
    --------
    >>> from grilly_ext_snn.nn.cells import PlaceCell
    >>> PlaceCell(10)([[0.5, 0.5], [0.1, 0.2]]).shape
    (2, 10)
    """

    field_centers: Tensor

    def __init__(
        self, n_neurons: int, spatial_dims: int = 2, field_width: float = 1.0, max_rate: float = 20.0,
        baseline_rate: float = 0.1, *, bounds: tuple[float, float] = (0.0, 1.0), rng: Generator | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        if not bounds[0] < bounds[1]:
            raise ValueError(f"PlaceCell: bounds must be (low, high) with low < high; received {bounds!r}.")
        self.field_width, self.max_rate, self.baseline_rate = field_width, max_rate, baseline_rate
        unit = grilly.rand((n_neurons, spatial_dims), rng=rng)
        self.register_buffer("field_centers", bounds[0] + (bounds[1] - bounds[0]) * unit)

    def forward(self, agent_position: Any) -> Tensor:
        """Return the rates at positions ``(d,)`` or ``(B, d)``."""
        return cells.place_cell(
            agent_position, self.field_centers, self.field_width, self.max_rate, self.baseline_rate
        )


class GridCell(Module):
    """Grid cells, of one spacing and orientation or of one each.

    Parameters
    ----------
    n_neurons : int
    spacing, orientation : float or array_like, (n_neurons,)
    phase : array_like, (n_neurons, 2), optional
        Drawn uniformly from a square of side `spacing` without it.
    max_rate : float
    rng : Generator, optional

    Examples
    --------
    >>> from grilly_ext_snn.nn.cells import GridCell
    >>> GridCell(5, 0.5)([0.1, 0.2]).shape
    (5,)
    """

    spacing: Tensor
    orientation: Tensor
    phase: Tensor

    def __init__(
        self, n_neurons: int, spacing: Any = 1.0, orientation: Any = 0.0, phase: Any = None, max_rate: float = 25.0,
        *, rng: Generator | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.max_rate = max_rate
        for name, value in (("spacing", spacing), ("orientation", orientation)):
            made = grilly.asarray(value, dtype="float32").reshape(-1)
            self.register_buffer(name, grilly.broadcast_to(made, (n_neurons,)))
        if not bool((self.spacing > 0).all().item()):
            raise ValueError(f"GridCell: every spacing must be positive; received {spacing!r}.")
        drawn = grilly.rand((n_neurons, 2), rng=rng) * self.spacing.unsqueeze(1) if phase is None else phase
        self.register_buffer("phase", grilly.asarray(drawn, dtype="float32"))

    def forward(self, agent_position: Any) -> Tensor:
        """Return the rates at positions ``(2,)`` or ``(B, 2)``."""
        return cells.grid_cell(agent_position, self.spacing, self.orientation, self.phase, self.max_rate)


class TimeCell(MemoryModule):
    """Time cells whose preferred times are spaced evenly; keeps a slow average of the rates.

    Parameters
    ----------
    n_neurons : int
    temporal_width, max_rate, baseline_rate, mode, scalar
        See `time_cell`.
    duration : float
        The latest preferred time; the first is ``duration / n_neurons``.

    Attributes
    ----------
    preferred_times : buffer, (n_neurons,)
    membrane : Tensor or None
        A memory of the shape of the rates; `reset` forgets it.

    Examples
    --------
    >>> from grilly_ext_snn.nn.cells import TimeCell
    >>> TimeCell(4)(2.0).shape
    (4,)
    """

    preferred_times: Tensor
    membrane: Tensor | None

    def __init__(
        self, n_neurons: int, temporal_width: float = 1.0, max_rate: float = 15.0, baseline_rate: float = 0.1, *,
        duration: float = 10.0, mode: str = "gaussian", scalar: bool = False,
    ) -> None:  # fmt: skip
        super().__init__()
        if not 0 < duration < math.inf:
            raise ValueError(f"TimeCell: duration must be positive; received {duration!r}.")
        self.temporal_width, self.max_rate, self.baseline_rate = temporal_width, max_rate, baseline_rate
        self.mode, self.scalar = mode, scalar
        times = (grilly.arange(n_neurons, dtype="float32") + 1.0) * (duration / n_neurons)
        self.register_buffer("preferred_times", times)
        self.register_memory("membrane", 0.0)

    def forward(self, current_time: Any) -> Tensor:
        """Return the rates at a time or at times ``(B,)``."""
        rates, _ = cells.time_cell(
            current_time, self.preferred_times, self.temporal_width, self.max_rate, self.baseline_rate,
            mode=self.mode, scalar=self.scalar,
        )  # fmt: skip
        self.prepare(rates)
        self.membrane = 0.9 * self.membrane + 0.1 * rates.detach()
        return rates


class ThetaGammaEncoder(Module):
    """The theta-gamma code of times; see `theta_gamma_encoding`.

    Examples
    --------
    >>> from grilly_ext_snn.nn.cells import ThetaGammaEncoder
    >>> ThetaGammaEncoder(n_theta=4, n_gamma=5)([0.1, 0.2]).shape
    (2, 20)
    """

    def __init__(
        self, n_theta: int = 8, n_gamma: int = 40, theta_freq: float = 8.0, gamma_freq: float = 40.0,
        coupling_strength: float = 0.5, *, coupling: str = "product",
    ) -> None:  # fmt: skip
        super().__init__()
        self.numbers = (n_theta, n_gamma, theta_freq, gamma_freq, coupling_strength)
        self.coupling = coupling

    def forward(self, time: Any) -> Tensor:
        """Return the code of a time or of times ``(B,)``, in seconds."""
        return cells.theta_gamma_encoding(time, *self.numbers, coupling=self.coupling)
