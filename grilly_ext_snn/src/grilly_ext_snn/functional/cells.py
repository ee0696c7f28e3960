"""Firing rates of cells of the hippocampal formation, in spikes per second."""

from __future__ import annotations

from typing import Any

import grilly_core as grilly
from grilly_core.tensor import Tensor
from grilly_ext_snn.functional._arguments import finite, tensor
from grilly_ext_snn.ops import cells as ops

__all__ = ["grid_cell", "place_cell", "theta_gamma_encoding", "time_cell"]


def place_cell(
    agent_position: Any,
    field_centers: Any,
    field_width: float = 1.0,
    max_rate: float = 20.0,
    baseline_rate: float = 0.1,
) -> Tensor:
    """Rates of place cells with Gaussian fields.

    Parameters
    ----------
    agent_position : array_like, (d,) or (B, d)
    field_centers : array_like, (n, d)
    field_width : float
        Standard deviation of a field.
    max_rate, baseline_rate : float
        In the centre, and far away.

    Returns
    -------
    Tensor, (n,) or (B, n)

    Examples
    --------
    >>> from grilly_ext_snn.functional.cells import place_cell
    >>> place_cell([0.0, 0.0], [[0.0, 0.0], [9.0, 0.0]]).tolist()
    [20.0, 0.10000000149011612]
    """
    finite("place_cell", field_width=field_width)
    centers = tensor(field_centers)
    position = tensor(agent_position, centers)
    single = position.ndim == 1
    rates = ops.place_cell(
        position.unsqueeze(0) if single else position, centers, field_width=float(field_width),
        max_rate=float(max_rate), baseline_rate=float(baseline_rate),
    )  # fmt: skip
    return rates.squeeze(0) if single else rates


def grid_cell(
    agent_position: Any, spacing: Any, orientation: Any = 0.0, phase: Any = None, max_rate: float = 25.0
) -> Tensor:
    """Rates of grid cells with hexagonal fields.

    Parameters
    ----------
    agent_position : array_like, (2,) or (B, 2)
    spacing : array_like, (n,) or float
        Distance of neighbouring fields.
    orientation : array_like, (n,) or float
        Radians.
    phase : array_like, (n, 2), optional
        Where a field lies; the origin without it.
    max_rate : float

    Returns
    -------
    Tensor, (n,) or (B, n)

    Examples
    --------
    >>> from grilly_ext_snn.functional.cells import grid_cell
    >>> grid_cell([0.0, 0.0], [1.0, 2.0]).tolist()
    [25.0, 25.0]
    """
    s = tensor(spacing).reshape(-1)
    position = tensor(agent_position, s)
    n, single = s.shape[0], position.ndim == 1
    o = grilly.broadcast_to(tensor(orientation, s).reshape(-1), (n,))
    p = grilly.zeros((n, 2), dtype=s.dtype, device=s.device) if phase is None else tensor(phase, s)
    rates = ops.grid_cell(position.unsqueeze(0) if single else position, s, o, p, max_rate=float(max_rate))
    return rates.squeeze(0) if single else rates


def time_cell(
    current_time: Any,
    preferred_times: Any,
    temporal_width: Any = 1.0,
    max_rate: float = 15.0,
    baseline_rate: float = 0.1,
    membrane_state: Any = None,
    *,
    mode: str = "gaussian",
    scalar: bool = False,
) -> tuple[Tensor, Tensor]:
    """Rates of time cells, and a slow average of them.

    Parameters
    ----------
    current_time : array_like, () or (B,)
    preferred_times : array_like, (n,)
    temporal_width : array_like, (n,) or float
    max_rate, baseline_rate : float
    membrane_state : array_like, optional
        The average before, of the rates' shape; zeros without it.
    mode : {"gaussian", "dynamic"}
        The latter rises as ``exp(3 d / w)`` before the preferred time and falls as ``exp(-5 d / w)``.
    scalar : bool
        Whether widths grow with the preferred time (Weber's law): ``w = temporal_width * t_i``.

    Returns
    -------
    rates : Tensor, (n,) or (B, n)
    membrane : Tensor
        ``0.9 membrane_state + 0.1 rates``.

    Examples
    --------
    >>> from grilly_ext_snn.functional.cells import time_cell
    >>> rates, membrane = time_cell(2.0, [2.0, 9.0])
    >>> rates.tolist(), membrane.tolist()
    ([15.0, 0.10000000149011612], [1.5, 0.010000000707805157])
    """
    preferred = tensor(preferred_times)
    now = tensor(current_time, preferred)
    width = grilly.broadcast_to(tensor(temporal_width, preferred), preferred.shape)
    if scalar:
        width = width * preferred.clamp(min=1e-6)
    if not bool((width > 0).all().item()):
        raise ValueError("time_cell: every width must be positive.")
    rates = ops.time_cell(
        now.reshape(-1), preferred, width, max_rate=float(max_rate), baseline_rate=float(baseline_rate), mode=mode
    )  # fmt: skip
    rates = rates.squeeze(0) if now.ndim == 0 else rates
    before = 0.0 if membrane_state is None else 0.9 * tensor(membrane_state, rates)
    return rates, before + 0.1 * rates


def theta_gamma_encoding(
    time: Any,
    n_theta: int = 8,
    n_gamma: int = 40,
    theta_freq: float = 8.0,
    gamma_freq: float = 40.0,
    coupling_strength: float = 0.5,
    *,
    coupling: str = "product",
) -> Tensor:
    """Code times by two oscillations.

    Parameters
    ----------
    time : array_like, () or (B,)
        Seconds.
    n_theta, n_gamma : int
        How many phases of each, equally spaced.
    theta_freq, gamma_freq : float
        Hertz.
    coupling_strength : float
    coupling : {"product", "pac"}
        The product of the two sines, or the gamma wave's amplitude following the theta phase.

    Returns
    -------
    Tensor, (n_theta * n_gamma,) or (B, n_theta * n_gamma)

    Examples
    --------
    >>> from grilly_ext_snn.functional.cells import theta_gamma_encoding
    >>> theta_gamma_encoding(0.1).shape
    (320,)
    """
    finite("theta_gamma_encoding", theta_freq=theta_freq, gamma_freq=gamma_freq)
    now = tensor(time)
    now = now if now.dtype.is_floating else now.to("float32")
    code = ops.theta_gamma(
        now.reshape(-1), n_theta=n_theta, n_gamma=n_gamma, theta_freq=float(theta_freq), gamma_freq=float(gamma_freq),
        coupling_strength=float(coupling_strength), coupling=coupling,
    )  # fmt: skip
    return code.squeeze(0) if now.ndim == 0 else code
