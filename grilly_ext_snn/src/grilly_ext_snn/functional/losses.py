"""Losses and regularisers of spiking classifiers: spikes and membranes are ``(T, B, classes)``, targets ``(B,)``."""

from __future__ import annotations

from typing import Any

import grilly_core as grilly
from grilly_core.errors import ShapeError
from grilly_core.tensor import Tensor
from grilly_ext_snn.functional._arguments import tensor, timed

__all__ = [
    "accuracy_rate", "ce_count_loss", "ce_max_membrane_loss", "ce_rate_loss", "l1_rate_sparsity", "mse_count_loss",
    "mse_membrane_loss", "rate_range_loss",
]  # fmt: skip


def _checked(name: str, values: Any, targets: Any) -> tuple[Tensor, Tensor]:
    x = timed(name, values)
    y = tensor(targets, x)
    if x.ndim != 3 or tuple(y.shape) != (x.shape[1],):
        raise ShapeError(
            f"{name}: expected (T, B, classes) and targets (B,); received {tuple(x.shape)} and {tuple(y.shape)}."
        )
    return x, y


def _by_class(name: str, counts: Tensor, num_classes: int | None) -> Tensor:
    """Sum the neurons of each class; neurons of one class are neighbours."""
    outputs = counts.shape[-1]
    if num_classes is None or num_classes == outputs:
        return counts
    if num_classes < 1 or outputs % num_classes:
        raise ShapeError(f"{name}: {outputs} outputs cannot be shared evenly by {num_classes} classes.")
    return counts.reshape(*counts.shape[:-1], num_classes, outputs // num_classes).sum(-1)


def ce_rate_loss(spikes: Any, targets: Any, num_classes: int | None = None) -> Tensor:
    """Cross-entropy of the spikes at each step, averaged over steps: the right neuron fires always.

    Parameters
    ----------
    spikes : array_like, (T, B, C)
    targets : array_like of int, (B,)
    num_classes : int, optional
        Fewer than `C`: groups of neighbouring neurons vote for a class.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> from grilly_ext_snn.functional.losses import ce_rate_loss
    >>> round(ce_rate_loss(grilly.zeros((5, 2, 4)), grilly.tensor([0, 3])).item(), 4)
    1.3863
    """
    x, y = _checked("ce_rate_loss", spikes, targets)
    x = _by_class("ce_rate_loss", x, num_classes)
    t, b, c = x.shape
    every = grilly.broadcast_to(y, (t, b)).reshape(t * b)
    return grilly.functional.cross_entropy(x.reshape(t * b, c), every)


def ce_count_loss(spikes: Any, targets: Any, num_classes: int | None = None) -> Tensor:
    """Cross-entropy of the number of spikes: the right neuron fires most.

    Parameters
    ----------
    spikes : array_like, (T, B, C)
    targets : array_like of int, (B,)
    num_classes : int, optional
        Fewer than `C`: groups of neighbouring neurons vote for a class.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> from grilly_ext_snn.functional.losses import ce_count_loss
    >>> spikes = grilly.tensor([[[1.0, 0.0]], [[1.0, 0.0]]])
    >>> round(ce_count_loss(spikes, grilly.tensor([0])).item(), 4)
    0.1269
    """
    x, y = _checked("ce_count_loss", spikes, targets)
    return grilly.functional.cross_entropy(_by_class("ce_count_loss", x.sum(0), num_classes), y)


def ce_max_membrane_loss(membrane: Any, targets: Any) -> Tensor:
    """Cross-entropy of each neuron's highest membrane potential.

    Parameters
    ----------
    membrane : array_like, (T, B, C)
    targets : array_like of int, (B,)

    Examples
    --------
    >>> import grilly_core as grilly
    >>> from grilly_ext_snn.functional.losses import ce_max_membrane_loss
    >>> membrane = grilly.tensor([[[0.0, 0.5]], [[2.0, 0.0]]])
    >>> round(ce_max_membrane_loss(membrane, grilly.tensor([0])).item(), 4)
    0.2014
    """
    x, y = _checked("ce_max_membrane_loss", membrane, targets)
    return grilly.functional.cross_entropy(x.amax(0), y)


def _one_hot(y: Tensor, classes: int, like: Tensor) -> Tensor:
    return grilly.functional.one_hot(y, classes).to(like.dtype)


def mse_count_loss(
    spikes: Any, targets: Any, correct_rate: float = 1.0, incorrect_rate: float = 0.0, num_classes: int | None = None
) -> Tensor:  # fmt: skip
    """Squared error of the number of spikes, divided by the number of steps.

    The right neuron should fire in the share `correct_rate` of the steps, the others in `incorrect_rate`; numbers of
    spikes wanted are rounded down.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> from grilly_ext_snn.functional.losses import mse_count_loss
    >>> mse_count_loss(grilly.ones((10, 1, 2)), grilly.tensor([0])).item()
    5.0
    """
    x, y = _checked("mse_count_loss", spikes, targets)
    counts = _by_class("mse_count_loss", x.sum(0), num_classes)
    group = x.shape[2] / counts.shape[1]
    right, wrong = (int(x.shape[0] * rate * group) for rate in (correct_rate, incorrect_rate))
    wanted = _one_hot(y, counts.shape[1], x) * float(right - wrong) + float(wrong)
    return grilly.functional.mse_loss(counts, wanted) / x.shape[0]


def mse_membrane_loss(membrane: Any, targets: Any, on_target: float = 1.0, off_target: float = 0.0) -> Tensor:
    """Squared error of the membrane at each step against `on_target` and `off_target`, averaged over steps.

    Parameters
    ----------
    membrane : array_like, (T, B, C)
    targets : array_like of int, (B,)
    on_target, off_target : float
        Potentials wanted of the right neuron and of the others.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> from grilly_ext_snn.functional.losses import mse_membrane_loss
    >>> mse_membrane_loss(grilly.zeros((5, 1, 2)), grilly.tensor([1])).item()
    0.5
    """
    x, y = _checked("mse_membrane_loss", membrane, targets)
    wanted = _one_hot(y, x.shape[2], x) * (on_target - off_target) + off_target
    return grilly.functional.mse_loss(x, grilly.broadcast_to(wanted, x.shape))


def l1_rate_sparsity(spikes: Any, weight: float = 1e-5) -> Tensor:
    """Return `weight` times the number of spikes.

    Parameters
    ----------
    spikes : array_like
    weight : float

    Examples
    --------
    >>> import grilly_core as grilly
    >>> from grilly_ext_snn.functional.losses import l1_rate_sparsity
    >>> l1_rate_sparsity(grilly.ones((4, 2, 3)), 0.5).item()
    12.0
    """
    return weight * tensor(spikes).sum()


def rate_range_loss(spikes: Any, low: float = 0.01, high: float = 0.5) -> Tensor:
    """Squared distance of each neuron's firing rate from the range [low, high], averaged: wakes dead, calms saturated.

    Rates are means over time and batch, ``(T, B, ...)``.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> from grilly_ext_snn.functional.losses import rate_range_loss
    >>> rate_range_loss(grilly.ones((4, 2, 3)), high=0.5).item()
    0.25
    """
    if not 0 <= low <= high <= 1:
        raise ValueError(f"rate_range_loss: expected 0 <= low <= high <= 1; received {low} and {high}.")
    rates = timed("rate_range_loss", spikes).mean((0, 1))
    below, above = (low - rates).clamp(min=0.0), (rates - high).clamp(min=0.0)
    return (below * below + above * above).mean()


def accuracy_rate(spikes: Any, targets: Any, num_classes: int | None = None) -> float:
    """Share of the batch whose right class fires most; of classes that fire as often the first counts.

    Parameters
    ----------
    spikes : array_like, (T, B, C)
    targets : array_like of int, (B,)
    num_classes : int, optional
        Fewer than `C`: groups of neighbouring neurons vote for a class.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> from grilly_ext_snn.functional.losses import accuracy_rate
    >>> spikes = grilly.tensor([[[1.0, 0.0], [0.0, 1.0]], [[1.0, 0.0], [0.0, 0.0]]])
    >>> accuracy_rate(spikes, grilly.tensor([0, 0]))
    0.5
    """
    x, y = _checked("accuracy_rate", spikes, targets)
    votes = _by_class("accuracy_rate", x.detach().sum(0), num_classes)
    return float((votes.argmax(-1).to(y.dtype) == y).to("float32").mean().item())
