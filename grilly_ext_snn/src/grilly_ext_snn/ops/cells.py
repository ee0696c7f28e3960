"""Firing rates of place, grid and time cells, and the theta-gamma code; rates in spikes per second."""

from __future__ import annotations

import math
from typing import Any

from grilly_core.errors import ShapeError
from grilly_core.ops.nn_activations import relu
from grilly_core.ops.primitives import cos, exp, iota, lt, sin, sum, where
from grilly_core.ops.views import reshape
from grilly_core.opspec import op
from grilly_core.tensor import Tensor

__all__ = ["grid_cell", "place_cell", "theta_gamma", "time_cell"]

Samples = Any


def _between(base: float, top: float, part: Tensor) -> Tensor:
    result: Tensor = base + (top - base) * part
    return result


@op("snn.place_cell")
def place_cell(
    position: Tensor, centers: Tensor, *, field_width: float = 1.0, max_rate: float = 20.0, baseline_rate: float = 0.1
) -> Tensor:  # fmt: skip
    """Gaussian place fields: positions ``(B, d)`` and centres ``(n, d)`` give rates ``(B, n)``.

    ``r = base + (max - base) exp(-|p - c|^2 / (2 width^2))`` (O'Keefe and Burgess 1996).
    """
    if position.ndim != 2 or centers.ndim != 2 or position.shape[1] != centers.shape[1]:
        raise ShapeError(
            f"place_cell: expected positions (B, d) and centres (n, d) of one d; received {tuple(position.shape)} "
            f"and {tuple(centers.shape)}."
        )
    (b, d), n = position.shape, centers.shape[0]
    apart = reshape(position, shape=(b, 1, d)) - reshape(centers, shape=(1, n, d))
    return _between(baseline_rate, max_rate, exp(sum(apart * apart, axis=2) * (-0.5 / field_width**2)))


@place_cell.samples
def _(s: Samples) -> None:
    s.case(s.f32(3, 2), s.f32(5, 2))
    s.case(s.f32(2, 3), s.f32(4, 3), field_width=0.5, max_rate=5.0, baseline_rate=0.0)
    s.case(s.f32(0, 2), s.f32(3, 2))
    s.error(ShapeError, "one d", s.f32(3, 2), s.f32(5, 3))


@op("snn.grid_cell")
def grid_cell(
    position: Tensor, spacing: Tensor, orientation: Tensor, phase: Tensor, *, max_rate: float = 25.0
) -> Tensor:
    """Hexagonal grids: positions ``(B, 2)``, spacing and orientation (radians) ``(n,)``, phase ``(n, 2)`` → ``(B, n)``.

    Three plane waves 60 degrees apart with wave number ``4 pi / (sqrt(3) spacing)`` (Solstad et al. 2006), rectified
    and scaled so that the peak is `max_rate`: ``r = max * 2/3 * relu(mean of cosines + 1/2)``.
    """
    n = spacing.shape[0] if spacing.ndim == 1 else -1
    if (
        position.ndim != 2
        or position.shape[1] != 2
        or tuple(orientation.shape) != (n,)
        or tuple(phase.shape) != (n, 2)
    ):
        raise ShapeError(
            f"grid_cell: expected positions (B, 2), spacing and orientation (n,) and phase (n, 2); received "
            f"{tuple(position.shape)}, {tuple(spacing.shape)}, {tuple(orientation.shape)} and {tuple(phase.shape)}."
        )
    b = position.shape[0]
    moved = reshape(position, shape=(b, 1, 2)) - reshape(phase, shape=(1, n, 2))
    number = (4.0 * math.pi / math.sqrt(3.0)) / spacing
    total: Any = 0.0
    for k in (-1, 0, 1):
        angle = orientation + k * math.pi / 3.0
        wave = (
            reshape(cos(angle), shape=(1, n)) * moved[:, :, 0]
            + reshape(sin(angle), shape=(1, n)) * moved[:, :, 1]
        )
        total = total + cos(reshape(number, shape=(1, n)) * wave)
    return (max_rate * 2.0 / 3.0) * relu(total / 3.0 + 0.5)


@grid_cell.samples
def _(s: Samples) -> None:
    s.case(s.f32(4, 2), s.f32(3, low=1.0, high=2.0), s.f32(3), s.f32(3, 2), tol=2e-5)
    s.case(s.f32(0, 2), s.f32(3, low=1.0, high=2.0), s.f32(3), s.f32(3, 2))
    s.error(ShapeError, "phase", s.f32(4, 2), s.f32(3), s.f32(3), s.f32(4, 2))


@op("snn.time_cell")
def time_cell(
    time: Tensor, preferred: Tensor, width: Tensor, *, max_rate: float = 15.0, baseline_rate: float = 0.1,
    mode: str = "gaussian",
) -> Tensor:  # fmt: skip
    """Time fields: times ``(B,)``, preferred times and widths ``(n,)`` give rates ``(B, n)``.

    ``"gaussian"``: ``base + (max - base) exp(-(t - t_i)^2 / (2 w^2))``. ``"dynamic"``: rises as ``exp(3 d / w)``
    before the preferred time and falls as ``exp(-5 d / w)`` after it, ``d = t - t_i``.
    """
    if mode not in ("gaussian", "dynamic"):
        raise ValueError(f"time_cell: mode is 'gaussian' or 'dynamic'; received {mode!r}.")
    if time.ndim != 1 or preferred.ndim != 1 or width.shape != preferred.shape:
        raise ShapeError(
            f"time_cell: expected times (B,), preferred times (n,) and widths (n,); received {tuple(time.shape)}, "
            f"{tuple(preferred.shape)} and {tuple(width.shape)}."
        )
    apart = reshape(time, shape=(time.shape[0], 1)) - preferred
    if mode == "gaussian":
        return _between(baseline_rate, max_rate, exp(-0.5 * (apart / width) * (apart / width)))
    relative = apart / width
    return _between(baseline_rate, max_rate, exp(where(lt(relative, 0.0), 3.0 * relative, -5.0 * relative)))


@time_cell.samples
def _(s: Samples) -> None:
    width = s.f32(4, low=0.5, high=1.5)
    s.case(s.f32(3), s.f32(4), width)
    s.case(s.f32(3), s.f32(4), width, mode="dynamic")
    s.error(ValueError, "mode", s.f32(3), s.f32(4), width, mode="ramp")
    s.error(ShapeError, "widths", s.f32(3), s.f32(4), s.f32(3))


@op("snn.theta_gamma")
def theta_gamma(
    time: Tensor, *, n_theta: int = 8, n_gamma: int = 40, theta_freq: float = 8.0, gamma_freq: float = 40.0,
    coupling_strength: float = 0.5, coupling: str = "product",
) -> Tensor:  # fmt: skip
    """Theta-gamma code of times ``(B,)`` in seconds: ``(B, n_theta * n_gamma)``, phases evenly round the circle.

    ``"product"``: ``c sin(theta_i) sin(gamma_j)``. ``"pac"``, phase-amplitude coupling (Canolty 2006, Tort 2010): the
    gamma wave's amplitude follows the theta phase, ``((1 - c) + c (1 + cos theta_i) / 2) sin(gamma_j)``.
    """
    if coupling not in ("product", "pac"):
        raise ValueError(f"theta_gamma: coupling is 'product' or 'pac'; received {coupling!r}.")
    if time.ndim != 1 or n_theta < 1 or n_gamma < 1:
        raise ShapeError(
            f"theta_gamma: expected times (B,) and at least one phase of each; received {tuple(time.shape)}, "
            f"n_theta={n_theta} and n_gamma={n_gamma}."
        )
    b = time.shape[0]
    theta = _phases(time, theta_freq, n_theta, (b, n_theta, 1))
    gamma = sin(_phases(time, gamma_freq, n_gamma, (b, 1, n_gamma)))
    if coupling == "product":
        mixed = coupling_strength * sin(theta) * gamma
    else:
        mixed = ((1.0 - coupling_strength) + (0.5 * coupling_strength) * (1.0 + cos(theta))) * gamma
    return reshape(mixed, shape=(b, n_theta * n_gamma))


def _phases(time: Tensor, frequency: float, count: int, shape: tuple[int, int, int]) -> Tensor:
    steps = iota(size=count, start=0, step=1, dtype=time.dtype) * (2.0 * math.pi / count)
    turned = reshape(time, shape=(time.shape[0], 1)) * (2.0 * math.pi * frequency) + steps
    return reshape(turned, shape=shape)


@theta_gamma.samples
def _(s: Samples) -> None:
    time = s.f32(3, low=0.0, high=0.2)
    s.case(time, n_theta=2, n_gamma=3, tol=5e-5)
    s.case(time, n_theta=2, n_gamma=3, coupling="pac", tol=5e-5)
    s.error(ValueError, "coupling", time, coupling="none")
