"""Between continuous networks and spiking ones: codes of batches ``(B, F)`` as spikes ``(B, T, F)``, and back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

import grilly_core as grilly
from grilly_core.errors import ShapeError
from grilly_core.random import Generator
from grilly_core.tensor import Tensor
from grilly_ext_snn.functional import encoding
from grilly_ext_snn.functional._arguments import steps, tensor

__all__ = ["bridge_temporal_weights", "continuous_to_spikes", "hybrid_blend", "spikes_to_continuous"]

#: Codes by the numbers that they also have.
_CODES: Final = ("rate", "latency", "phase", "thermometer", "delta")
_SQUASH: Final[dict[str, Callable[[Tensor], Tensor]]] = {
    "clip": lambda x: x.clamp(0.0, 1.0),
    "sigmoid": lambda x: grilly.functional.sigmoid(x),
    "minmax": lambda x: (x - x.min()) / (x.max() - x.min()).clamp(min=1e-12),
}


def _code(name: str, value: int | str) -> str:
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < len(_CODES):
        return _CODES[value]
    if value in _CODES:
        return str(value)
    raise ValueError(
        f"{name}: encoding_type is one of {', '.join(_CODES)} or its number; received {value!r}."
    )


def _projected(name: str, x: Tensor, weights: Any, bias: Any) -> Tensor:
    if weights is None:
        if bias is not None:
            raise ValueError(f"{name}: projection_bias needs projection_weights.")
        return x
    w = tensor(weights, x)
    if w.ndim != 2 or w.shape[1] != x.shape[-1]:
        raise ShapeError(
            f"{name}: projection_weights must be (O, {x.shape[-1]}); received shape {tuple(w.shape)}."
        )
    return grilly.functional.linear(x, w, None if bias is None else tensor(bias, x))


def continuous_to_spikes(
    continuous: Any,
    num_timesteps: int = 10,
    encoding_type: int | str = "rate",
    projection_weights: Any = None,
    projection_bias: Any = None,
    *,
    squash: str = "clip",
    threshold: float = 0.1,
    rng: Generator | None = None,
) -> Tensor:
    """Encode features as spikes.

    Parameters
    ----------
    continuous : array_like, (B, F)
    num_timesteps : int
    encoding_type : {"rate", "latency", "phase", "thermometer", "delta"} or their numbers 0 to 4
        ``"delta"`` climbs from 0 to a value in steps of `threshold`, one spike each.
    projection_weights : array_like, (S, F), optional
        Applied first, with `projection_bias`.
    projection_bias : array_like, (S,), optional
    squash : {"clip", "sigmoid", "minmax"}
        How values are brought into [0, 1].
    threshold : float
        Only for ``"delta"``.
    rng : Generator, optional
        Only for ``"rate"``.

    Returns
    -------
    Tensor, (B, T, F) or (B, T, S)
        Zeros and ones; no gradient.

    Examples
    --------
    >>> from grilly_ext_snn.functional.bridges import continuous_to_spikes
    >>> continuous_to_spikes([[0.0, 0.5, 1.0]], 5, "latency").argmax(1).tolist()
    [[4, 2, 0]]
    """
    name = "continuous_to_spikes"
    count, code = steps(name, num_timesteps), _code(name, encoding_type)
    if squash not in _SQUASH:
        raise ValueError(f"{name}: squash is one of {', '.join(_SQUASH)}; received {squash!r}.")
    x = tensor(continuous)
    if x.ndim != 2:
        raise ShapeError(f"{name}: expected features (B, F); received shape {tuple(x.shape)}.")
    with grilly.no_grad():
        x = _SQUASH[squash](_projected(name, x, projection_weights, projection_bias))
        if code == "rate":
            spikes = encoding.rate_encode(x, count, rng=rng)
        elif code == "latency":
            spikes = encoding.latency_encode(x, count, linear=True, normalize=True, threshold=0.0)
        elif code == "phase":
            spikes = encoding.phase_encode(x, count)
        elif code == "thermometer":
            spikes = encoding.thermometer_encode(x, count)
        else:
            climbed = grilly.floor(x / threshold + 1e-6).clamp(max=count)
            clock = grilly.arange(count, dtype=x.dtype, device=x.device).reshape(count, 1, 1)
            spikes = (clock < climbed.unsqueeze(0)).to(x.dtype)
    return spikes.permute(1, 0, 2)


def spikes_to_continuous(
    spikes: Any,
    encoding_type: int | str = "rate",
    time_window: int | None = 5,
    temporal_weights: Any = None,
    projection_weights: Any = None,
    projection_bias: Any = None,
    *,
    threshold: float = 0.1,
) -> Tensor:
    """Decode spikes into features.

    Parameters
    ----------
    spikes : array_like, (B, T, F)
    encoding_type : {"rate", "latency", "phase", "thermometer", "delta"} or their numbers 0 to 4
        ``"rate"``: the mean, weighted by `temporal_weights` if given, of the last `time_window` steps (None: all);
        ``"latency"``: ``1 - t / (T - 1)`` of the first spike, 0 without one; ``"phase"``: ``1 - (t + 1/2) / T``;
        ``"thermometer"``: the mean over all steps; ``"delta"``: `threshold` times the number of spikes.
    time_window : int, optional
    temporal_weights : array_like, (min(time_window, T),), optional
        Only for ``"rate"``.
    projection_weights : array_like, (O, F), optional
        Applied last, with `projection_bias`.
    projection_bias : array_like, (O,), optional
    threshold : float

    Returns
    -------
    Tensor, (B, F) or (B, O)
        Differentiable for ``"rate"``, ``"thermometer"`` and ``"delta"``.

    Examples
    --------
    >>> from grilly_ext_snn.functional.bridges import continuous_to_spikes, spikes_to_continuous
    >>> spikes_to_continuous(continuous_to_spikes([[0.25, 0.75]], 5, "latency"), "latency").tolist()
    [[0.25, 0.75]]
    """
    name = "spikes_to_continuous"
    code, s = _code(name, encoding_type), tensor(spikes)
    if s.ndim != 3 or s.shape[1] < 1:
        raise ShapeError(
            f"{name}: expected spikes (B, T, F) of at least one step; received {tuple(s.shape)}."
        )
    if temporal_weights is not None and code != "rate":
        raise ValueError(f"{name}: temporal_weights go with encoding_type 'rate'; received {code!r}.")
    count = s.shape[1]
    if code == "rate":
        window = count if time_window is None else min(steps(name, time_window), count)
        decoded = _windowed(name, s[:, count - window :], temporal_weights)
    elif code == "thermometer":
        decoded = s.mean(1)
    elif code == "delta":
        decoded = s.sum(1) * threshold
    else:
        fired, first = s.amax(1) > 0, (s > 0).to("int32").argmax(1).to(s.dtype)
        value = 1.0 - (first / max(count - 1, 1) if code == "latency" else (first + 0.5) / count)
        decoded = grilly.where(fired, value, 0.0)
    return _projected(name, decoded, projection_weights, projection_bias)


def _windowed(name: str, s: Tensor, weights: Any) -> Tensor:
    if weights is None:
        return s.mean(1)
    w = tensor(weights, s)
    if tuple(w.shape) != (s.shape[1],):
        raise ShapeError(f"{name}: temporal_weights must be ({s.shape[1]},); received {tuple(w.shape)}.")
    return (s * w.reshape(1, -1, 1)).sum(1) / w.sum()


def bridge_temporal_weights(weights: Any, temporal_window: int = 10, *, expand: bool = False) -> Tensor:
    """Weights of the steps of a window that grow as ``exp((t - W + 1) / W)`` and sum to 1.

    Parameters
    ----------
    weights : array_like, (O, I)
        What is spread over time with `expand`; else only its dtype and device count.
    temporal_window : int
    expand : bool
        Whether to return ``(W, O, I)``, the weights times each step's share.

    Returns
    -------
    Tensor, (W,) or (W, O, I)

    Examples
    --------
    >>> import numpy as np
    >>> from grilly_ext_snn.functional.bridges import bridge_temporal_weights
    >>> round(bridge_temporal_weights(np.ones((2, 3)), 4).sum().item(), 6)
    1.0
    """
    count, w = steps("bridge_temporal_weights", temporal_window), tensor(weights)
    if w.ndim != 2:
        raise ShapeError(f"bridge_temporal_weights: expected weights (O, I); received {tuple(w.shape)}.")
    shares = np.exp((np.arange(count) - count + 1) / count)
    made = grilly.asarray(shares / shares.sum(), dtype=w.dtype, device=w.device)
    return made.reshape(count, 1, 1) * w.unsqueeze(0) if expand else made


def hybrid_blend(mlp: Any, snn: Any, gate: Any) -> Tensor:
    """Return ``(1 - gate) * mlp + gate * snn``.

    Examples
    --------
    >>> from grilly_ext_snn.functional.bridges import hybrid_blend
    >>> hybrid_blend([1.0, 1.0], [3.0, 3.0], 0.5).tolist()
    [2.0, 2.0]
    """
    a = tensor(mlp)
    g = tensor(gate, a)
    return (1.0 - g) * a + g * tensor(snn, a)
