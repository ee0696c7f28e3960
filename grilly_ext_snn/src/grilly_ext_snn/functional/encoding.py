"""From numbers to spike trains: rate, latency, phase, thermometer, delta and population codes. Time comes first."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import grilly_core as grilly
from grilly_core.errors import ShapeError
from grilly_core.random import Generator
from grilly_core.tensor import Tensor
from grilly_ext_snn.functional._arguments import finite, in_unit_interval, steps, tensor, timed

__all__ = [
    "delta_encode", "latency_encode", "phase_encode", "population_encode", "rate_encode", "spike_times",
    "thermometer_encode",
]  # fmt: skip


def rate_encode(
    x: Any, num_steps: int, gain: float = 1.0, offset: float = 0.0, *, rng: Generator | None = None
) -> Tensor:
    """Bernoulli spikes: at each step an element fires with probability ``gain * x + offset``.

    Parameters
    ----------
    x : array_like
        From 0 to 1; what `gain` and `offset` move outside is clipped.
    num_steps : int
    gain, offset : float
    rng : Generator, optional

    Returns
    -------
    Tensor, (num_steps, *x.shape)
        Zeros and ones.

    Raises
    ------
    ValueError
        If a value of `x` is outside [0, 1] or NaN.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> from grilly_ext_snn.functional.encoding import rate_encode
    >>> rate_encode(grilly.tensor([0.0, 1.0]), 3).tolist()
    [[0.0, 1.0], [0.0, 1.0], [0.0, 1.0]]
    """
    count, values = steps("rate_encode", num_steps), tensor(x).detach()
    in_unit_interval("rate_encode", values)
    chance = (values * gain + offset).clamp(0.0, 1.0)
    return grilly.bernoulli(grilly.broadcast_to(chance, (count, *values.shape)), rng=rng)


def spike_times(
    x: Any,
    num_steps: int,
    tau: float = 1.0,
    threshold: float = 0.01,
    *,
    linear: bool = False,
    normalize: bool = False,
) -> Tensor:
    """When each element of `x` would fire first, in steps; not rounded.

    ``tau log(x / (x - threshold))``, the charging time of a leaky neuron (Gerstner and Kistler 2002), or with `linear`
    ``tau (1 - x)``; values below the threshold count as it. `normalize` spreads the times over all steps.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> from grilly_ext_snn.functional.encoding import spike_times
    >>> spike_times(grilly.tensor([0.0, 0.5, 1.0]), 5, linear=True, normalize=True).tolist()
    [3.9600000381469727, 2.0, 0.0]
    """
    count = steps("spike_times", num_steps)
    finite("spike_times", tau=tau)
    if not 0 <= threshold < 1:
        raise ValueError(f"spike_times: threshold must be in [0, 1); received {threshold!r}.")
    values = tensor(x).detach()
    in_unit_interval("spike_times", values)
    if linear:
        return ((1.0 - values) * float(count - 1 if normalize else tau)).clamp(
            max=(count - 1 if normalize else tau) * (1 - threshold)
        )
    held = values.clamp(min=threshold + 1e-7)
    times = tau * grilly.log(held / (held - threshold))
    if normalize and values.numel():
        longest = times.max().item()
        return times * ((count - 1) / longest) if longest > 0 else times
    return times


def latency_encode(
    x: Any,
    num_steps: int,
    tau: float = 1.0,
    threshold: float = 0.01,
    *,
    linear: bool = False,
    normalize: bool = False,
    clip: bool = False,
    bypass: bool = False,
) -> Tensor:
    """One spike for each element, the earlier the larger it is.

    Parameters
    ----------
    x : array_like
        From 0 to 1.
    num_steps : int
    tau, threshold, linear, normalize
        See `spike_times`; times are rounded to the nearest step, halves to the even one.
    clip : bool
        Whether values below the threshold do not fire at all.
    bypass : bool
        Whether spikes beyond the last step are dropped instead of an error.

    Returns
    -------
    Tensor, (num_steps, *x.shape)

    Raises
    ------
    ValueError
        If a value is outside [0, 1], or would fire after the last step.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> from grilly_ext_snn.functional.encoding import latency_encode
    >>> latency_encode(grilly.tensor([0.0, 0.5, 1.0]), 5, linear=True, normalize=True).argmax(0).tolist()
    [4, 2, 0]
    """
    values = tensor(x).detach()
    times = grilly.round(spike_times(values, num_steps, tau, threshold, linear=linear, normalize=normalize))
    if values.numel() and not bypass and (latest := times.max().item()) > num_steps - 1:
        raise ValueError(
            f"latency_encode: a spike at step {latest:.0f} is beyond the last of {num_steps} steps; take more steps, a "
            "smaller tau, normalize=True, or bypass=True to drop such spikes."
        )
    spikes = _at(times, num_steps)
    return spikes * (values >= threshold).to(values.dtype) if clip else spikes


def _clock(count: int, x: Tensor) -> Tensor:
    """Return the steps as a tensor that goes with ``(T, *x.shape)``."""
    made = grilly.arange(count, dtype=x.dtype, device=x.device)
    return made.reshape(count, *(1,) * x.ndim)


def _at(times: Tensor, count: int) -> Tensor:
    return (times.unsqueeze(0) == _clock(count, times)).to(times.dtype)


def phase_encode(x: Any, num_steps: int) -> Tensor:
    """One spike in each period of `num_steps` steps, where ``sin(2 pi (t + 1/2) / T + phi)`` rises through 0.

    ``phi = 2 pi x``: the larger a value, the earlier; 0 fires at the last step, as 1 does at the first.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> from grilly_ext_snn.functional.encoding import phase_encode
    >>> phase_encode(grilly.tensor([0.0, 0.5, 1.0]), 4).argmax(0).tolist()
    [3, 2, 0]
    """
    count, values = steps("phase_encode", num_steps), tensor(x).detach()
    in_unit_interval("phase_encode", values)
    # the wave of value x rises through zero at T (1 - x); steps are [t, t + 1)
    return _at(grilly.floor((1.0 - values) * count).clamp(max=count - 1), count)


def thermometer_encode(x: Any, num_steps: int) -> Tensor:
    """Fire in the first ``round(x T)`` steps.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> from grilly_ext_snn.functional.encoding import thermometer_encode
    >>> thermometer_encode(grilly.tensor([0.0, 0.5, 1.0]), 4).sum(0).tolist()
    [0.0, 2.0, 4.0]
    """
    count, values = steps("thermometer_encode", num_steps), tensor(x).detach()
    in_unit_interval("thermometer_encode", values)
    return (_clock(count, values) < grilly.round(values * count).unsqueeze(0)).to(values.dtype)


def delta_encode(x: Any, threshold: float = 0.1, *, padding: bool = False, off_spike: bool = False) -> Tensor:
    """Fire where a signal ``(T, ...)`` has risen by at least `threshold` since the step before.

    Parameters
    ----------
    x : array_like, (T, ...)
    threshold : float
    padding : bool
        What comes before the first step: 0, or with True the first step itself, which then does not fire.
    off_spike : bool
        Whether a fall by the threshold gives -1.

    Examples
    --------
    >>> from grilly_ext_snn.functional.encoding import delta_encode
    >>> delta_encode([1.0, 2.0, 0.0, 2.0, 2.9], 1.0, off_spike=True).tolist()
    [1.0, 1.0, -1.0, 1.0, 0.0]
    """
    values = timed("delta_encode", x, least=1).detach()
    finite("delta_encode", threshold=threshold)
    first = values[:1] if padding else values[:1] * 0.0
    change = values - grilly.concat([first, values[:-1]], axis=0)
    spikes = (change >= threshold).to(values.dtype)
    return spikes - (change <= -threshold).to(values.dtype) if off_spike else spikes


def population_encode(
    x: Any, neurons: int, low: float = 0.0, high: float = 1.0, *, width: float | None = None
) -> Tensor:
    """Gaussian receptive fields: how strongly each of `neurons` answers to each value.

    Centres are spaced evenly from `low` to `high`; the answers, from 0 to 1, are for `rate_encode` or
    `latency_encode` (Bohte, Kok and La Poutré 2002).

    Parameters
    ----------
    x : array_like
    neurons : int
        At least 2.
    low, high : float
    width : float, optional
        Standard deviation; the distance of two centres over 1.5 without it.

    Returns
    -------
    Tensor, (*x.shape, neurons)

    Examples
    --------
    >>> from grilly_ext_snn.functional.encoding import population_encode
    >>> population_encode([0.5], 3).argmax(-1).tolist()
    [1]
    """
    if neurons < 2 or not low < high:
        raise ShapeError(
            f"population_encode: expected at least 2 neurons and low < high; received {neurons}, {low} and {high}."
        )
    values = tensor(x)
    sigma = (high - low) / (neurons - 1) / 1.5 if width is None else width
    finite("population_encode", width=sigma)
    centres = grilly.asarray(np.linspace(low, high, neurons), dtype=values.dtype, device=values.device)
    apart = (values.unsqueeze(-1) - centres) * (1.0 / (math.sqrt(2.0) * sigma))
    return grilly.exp(-(apart * apart))
