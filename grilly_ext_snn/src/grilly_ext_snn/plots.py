"""Plots of spikes, membranes, rates, weights and learning windows; they need matplotlib (the extra ``plot``).

Each function draws into the axes it is given, or into a new figure, and returns the axes; ``axes.figure.savefig``
writes the picture.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from grilly_core.errors import MissingPluginError, ShapeError
from grilly_core.tensor import Tensor
from grilly_ext_snn.functional.plasticity import stdp_window

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = [
    "new_figure", "plot_firing_rate", "plot_membrane_potential", "plot_receptive_fields", "plot_spike_raster",
    "plot_stdp_window",
]  # fmt: skip


def new_figure(**options: Any) -> Any:
    """Return a matplotlib figure that needs no display; explains what to install if there is no matplotlib."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingPluginError(
            "plots need matplotlib: from a checkout of grilly run `pip install './grilly_ext_snn[plot]'`."
        ) from error
    figure = Figure(**{"layout": "constrained", **options})
    FigureCanvasAgg(figure)
    return figure


def _axes(ax: Axes | None, size: tuple[float, float] = (7, 3.5)) -> Any:
    return new_figure(figsize=size).subplots() if ax is None else ax


def _one_sample(name: str, values: Any, sample: int) -> np.ndarray:
    """Return ``(T, N)`` of ``(T, N)`` or of one sample of ``(T, B, ...)``."""
    a = np.asarray(values.detach().numpy() if isinstance(values, Tensor) else values)
    if a.ndim < 2 or a.size == 0:
        raise ShapeError(f"{name}: expected (T, N) or (T, B, ...); received shape {a.shape}.")
    if a.ndim == 2:
        return a
    if not -a.shape[1] <= sample < a.shape[1]:
        raise IndexError(f"{name}: sample {sample} is not one of {a.shape[1]}.")
    return a[:, sample].reshape(len(a), -1)


def plot_spike_raster(
    spikes: Any, ax: Axes | None = None, *, sample: int = 0, dt: float = 1.0, unit: str = "step", color: str = "black"
) -> Axes:  # fmt: skip
    """Draw a mark for every spike: time to the right, neurons upwards.

    Parameters
    ----------
    spikes : array_like, (T, N) or (T, B, ...)
    ax : Axes, optional
    sample : int
        Which one of the batch is drawn.
    dt : float
        The time of a step in `unit`.
    unit : str
        What the time axis is labelled with.
    color : str

    Examples
    --------
    >>> import numpy as np
    >>> from grilly_ext_snn.plots import plot_spike_raster
    >>> plot_spike_raster(np.eye(4)).get_ylabel()
    'neuron'
    """
    a = _one_sample("plot_spike_raster", spikes, sample)
    axes = _axes(ax)
    times, neurons = np.nonzero(a)
    axes.plot(times * dt, neurons, "|", color=color, markersize=max(2.0, min(10.0, 200.0 / a.shape[1])))
    axes.set(xlim=(-0.5 * dt, (len(a) - 0.5) * dt), ylim=(-0.5, a.shape[1] - 0.5))
    axes.set(xlabel=f"time ({unit})", ylabel="neuron")
    return axes  # type: ignore[no-any-return]


def plot_membrane_potential(
    v: Any, threshold: float | None = None, ax: Axes | None = None, *, spikes: Any = None, sample: int = 0,
    neurons: Any = None, dt: float = 1.0, unit: str = "step",
) -> Axes:  # fmt: skip
    """Draw membranes over time, a line for each neuron.

    Parameters
    ----------
    v : array_like, (T, N) or (T, B, ...)
    threshold : float, optional
        Drawn as a dashed line.
    ax : Axes, optional
    spikes : array_like, of the shape of `v`, optional
        Marked by triangles above the lines.
    sample : int
        Which one of the batch is drawn.
    neurons : sequence of int, optional
        The first five without it.
    dt, unit
        See `plot_spike_raster`.

    Examples
    --------
    >>> import numpy as np
    >>> from grilly_ext_snn.plots import plot_membrane_potential
    >>> len(plot_membrane_potential(np.ones((9, 2)), threshold=1.0).lines)
    3
    """
    a = _one_sample("plot_membrane_potential", v, sample)
    chosen = list(range(min(5, a.shape[1]))) if neurons is None else [int(n) for n in neurons]
    axes = _axes(ax)
    times = np.arange(len(a)) * dt
    fired = None if spikes is None else _one_sample("plot_membrane_potential", spikes, sample)
    if fired is not None and fired.shape != a.shape:
        raise ShapeError(f"plot_membrane_potential: spikes {fired.shape} are not those of v {a.shape}.")
    top = max(float(a[:, chosen].max()), -np.inf if threshold is None else threshold)
    for n in chosen:
        (line,) = axes.plot(times, a[:, n], label=f"neuron {n}")
        if fired is not None:
            at = np.flatnonzero(fired[:, n])
            axes.plot(at * dt, np.full(len(at), top), "v", color=line.get_color(), markersize=4)
    if threshold is not None:
        axes.axhline(threshold, linestyle="--", color="grey", linewidth=1)
    axes.set(xlabel=f"time ({unit})", ylabel="membrane")
    axes.legend(fontsize="small")
    return axes  # type: ignore[no-any-return]


def plot_firing_rate(
    spikes: Any, ax: Axes | None = None, *, window: int = 5, dt: float = 1.0, unit: str = "step"
) -> Axes:
    """Draw the mean firing rate of a layer over time, smoothed over `window` steps.

    Parameters
    ----------
    spikes : array_like, (T, ...)
        Averaged over all axes but the first.
    ax : Axes, optional
    window : int
        Steps of the moving average; at the ends it is shorter.
    dt, unit
        See `plot_spike_raster`; the rate is in spikes per `unit`.

    Examples
    --------
    >>> import numpy as np
    >>> from grilly_ext_snn.plots import plot_firing_rate
    >>> plot_firing_rate(np.ones((9, 2))).lines[0].get_ydata().tolist()
    [1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0]
    """
    if isinstance(window, bool) or not isinstance(window, int) or window < 1:
        raise ValueError(f"plot_firing_rate: window must be a positive integer; received {window!r}.")
    a = np.asarray(spikes.detach().numpy() if isinstance(spikes, Tensor) else spikes)
    if a.ndim < 1 or a.size == 0:
        raise ShapeError(f"plot_firing_rate: expected (T, ...); received shape {a.shape}.")
    rate = a.reshape(len(a), -1).mean(1) / dt
    kernel = np.ones(window)
    smooth = np.convolve(rate, kernel, "full") / np.convolve(np.ones(len(rate)), kernel, "full")
    start = (window - 1) // 2
    axes = _axes(ax)
    axes.plot(np.arange(len(a)) * dt, smooth[start : start + len(a)])
    axes.set(xlabel=f"time ({unit})", ylabel=f"spikes per {unit}", ylim=(0, None))
    return axes  # type: ignore[no-any-return]


def plot_stdp_window(
    a_plus: float = 0.01, a_minus: float = 0.012, tau_plus: float = 20.0, tau_minus: float = 20.0, reach: int = 60,
    ax: Axes | None = None,
) -> Axes:  # fmt: skip
    """Draw what `stdp_window` computes: the change of a weight by the time between two spikes.

    Examples
    --------
    >>> from grilly_ext_snn.plots import plot_stdp_window
    >>> plot_stdp_window(reach=20).get_ylabel()
    'change of the weight'
    """
    times, changes = stdp_window(a_plus, a_minus, tau_plus, tau_minus, reach)
    axes = _axes(ax)
    for side, color in ((times < 0, "tab:blue"), (times > 0, "tab:red")):
        axes.plot(times[side], changes[side], color=color)
    axes.plot(times[times == 0], changes[times == 0], ".", color="black")
    axes.axhline(0, color="grey", linewidth=0.5)
    axes.axvline(0, color="grey", linewidth=0.5)
    axes.set(xlabel="spike of post after spike of pre (steps)", ylabel="change of the weight")
    return axes  # type: ignore[no-any-return]


def plot_receptive_fields(
    weight: Any, shape: tuple[int, int], *, columns: int = 10, titles: Any = None
) -> Any:
    """Draw the weights into each neuron as an image; returns the figure.

    Parameters
    ----------
    weight : array_like, (neurons, height * width)
    shape : (int, int)
        Height and width.
    columns : int
        Images in a row.
    titles : sequence, optional
        Written above the images.

    Examples
    --------
    >>> import numpy as np
    >>> from grilly_ext_snn.plots import plot_receptive_fields
    >>> len(plot_receptive_fields(np.ones((3, 4)), (2, 2)).axes)
    3
    """
    a = np.asarray(weight.detach().numpy() if isinstance(weight, Tensor) else weight)
    if a.ndim != 2 or a.shape[1] != shape[0] * shape[1] or len(a) < 1:
        raise ShapeError(
            f"plot_receptive_fields: expected weights (neurons, {shape[0]} * {shape[1]}); received {a.shape}."
        )
    columns = max(1, min(columns, len(a)))
    rows = -(-len(a) // columns)
    figure = new_figure(figsize=(columns * 0.9, rows * (0.9 if titles is None else 1.1)))
    for i, image in enumerate(a.reshape(len(a), *shape)):
        axes = figure.add_subplot(rows, columns, i + 1)
        axes.imshow(image, cmap="viridis")
        axes.set_axis_off()
        if titles is not None:
            axes.set_title(str(titles[i]), fontsize=8)
    return figure
