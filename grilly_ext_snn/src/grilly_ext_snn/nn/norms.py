"""Normalisations for spiking networks. Inputs are ``(T, B, C)`` or ``(T, B, C, H, W)``."""

from __future__ import annotations

from typing import Any, ClassVar

import grilly_core as grilly
from grilly_core.errors import ShapeError
from grilly_core.nn import BatchNorm1d, BatchNorm2d, Module, ModuleList, Parameter
from grilly_core.tensor import Tensor
from grilly_ext_snn.functional._arguments import finite, steps, tensor
from grilly_ext_snn.ops.filters import synapse_filter

__all__ = [
    "BatchNormThroughTime1d", "BatchNormThroughTime2d", "NeuNorm", "TemporalEffectiveBatchNorm1d",
    "TemporalEffectiveBatchNorm2d", "ThresholdDependentBatchNorm1d", "ThresholdDependentBatchNorm2d",
]  # fmt: skip


def _timed(module: Module, x: Any, axes: int, count: int | None = None) -> Tensor:
    made = tensor(x)
    if made.ndim != axes or made.shape[0] < 1 or (count is not None and made.shape[0] != count):
        raise ShapeError(
            f"{type(module).__name__}: expected {'(T, B, C)' if axes == 3 else '(T, B, C, H, W)'}"
            f"{'' if count is None else f' with T = {count}'}; received shape {tuple(made.shape)}."
        )
    return made


def _flat(x: Tensor) -> Tensor:
    return x.reshape(x.shape[0] * x.shape[1], *x.shape[2:])


class _ThresholdDependent(Module):
    axes: ClassVar[int]
    kind: ClassVar[type[Module]]

    def __init__(
        self, num_features: int, v_threshold: float = 1.0, alpha: float = 1.0, eps: float = 1e-5,
        momentum: float | None = 0.1, affine: bool = True, track_running_stats: bool = True,
    ) -> None:  # fmt: skip
        super().__init__()
        finite(type(self).__name__, v_threshold=v_threshold, alpha=alpha)
        self.v_threshold, self.alpha = v_threshold, alpha
        made: Any = self.kind
        self.norm = made(num_features, eps, momentum, affine, track_running_stats)
        if self.norm.weight is not None:
            grilly.nn.init.constant_(self.norm.weight, alpha * v_threshold)

    def forward(self, x: Any) -> Tensor:
        """Normalise over batch and all steps together."""
        made = _timed(self, x, self.axes)
        y = self.norm(_flat(made)).reshape(*made.shape)
        return y if self.norm.weight is not None else y * (self.alpha * self.v_threshold)


class ThresholdDependentBatchNorm1d(_ThresholdDependent):
    """Batch normalisation over batch and time, scaled to the firing threshold (Zheng et al. 2021).

    ``alpha V_th (x - mean) / sqrt(var + eps)``, with a learnable scale that starts at ``alpha V_th`` and a shift.

    Parameters
    ----------
    num_features : int
    v_threshold : float
        The threshold of the neurons behind.
    alpha : float
        ``1 / sqrt(2)`` where two branches are added.
    eps, momentum, affine, track_running_stats
        As for `BatchNorm1d`.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> from grilly_ext_snn.nn.norms import ThresholdDependentBatchNorm1d
    >>> y = ThresholdDependentBatchNorm1d(3, v_threshold=0.5)(grilly.randn(4, 16, 3))
    >>> round(y.std().item(), 1)
    0.5
    """

    axes, kind = 3, BatchNorm1d


class ThresholdDependentBatchNorm2d(_ThresholdDependent):
    """`ThresholdDependentBatchNorm1d` for ``(T, B, C, H, W)``.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> from grilly_ext_snn.nn.norms import ThresholdDependentBatchNorm2d
    >>> ThresholdDependentBatchNorm2d(3)(grilly.zeros((4, 2, 3, 5, 5))).shape
    (4, 2, 3, 5, 5)
    """

    axes, kind = 5, BatchNorm2d


class _TemporalEffective(Module):
    axes: ClassVar[int]
    kind: ClassVar[type[Module]]

    def __init__(
        self, T: int, num_features: int, eps: float = 1e-5, momentum: float | None = 0.1, affine: bool = True,
        track_running_stats: bool = True,
    ) -> None:  # fmt: skip
        super().__init__()
        self.T = steps(type(self).__name__, T)
        made: Any = self.kind
        self.norm = made(num_features, eps, momentum, affine, track_running_stats)
        self.scale = Parameter(grilly.ones((T,)))

    def forward(self, x: Any) -> Tensor:
        """Normalise over batch and all steps together, then scale each step."""
        made = _timed(self, x, self.axes, self.T)
        y = self.norm(_flat(made)).reshape(*made.shape)
        return y * self.scale.reshape(self.T, *(1,) * (made.ndim - 1))


class TemporalEffectiveBatchNorm1d(_TemporalEffective):
    """Batch normalisation over batch and time with a learnable scale for each step (Duan et al. 2022).

    Parameters
    ----------
    T : int
        Steps.
    num_features : int
    eps, momentum, affine, track_running_stats
        As for `BatchNorm1d`.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> from grilly_ext_snn.nn.norms import TemporalEffectiveBatchNorm1d
    >>> TemporalEffectiveBatchNorm1d(4, 3)(grilly.randn(4, 16, 3)).shape
    (4, 16, 3)
    """

    axes, kind = 3, BatchNorm1d


class TemporalEffectiveBatchNorm2d(_TemporalEffective):
    """`TemporalEffectiveBatchNorm1d` for ``(T, B, C, H, W)``.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> from grilly_ext_snn.nn.norms import TemporalEffectiveBatchNorm2d
    >>> TemporalEffectiveBatchNorm2d(4, 3)(grilly.zeros((4, 2, 3, 5, 5))).shape
    (4, 2, 3, 5, 5)
    """

    axes, kind = 5, BatchNorm2d


class _ThroughTime(Module):
    axes: ClassVar[int]
    kind: ClassVar[type[Module]]

    def __init__(
        self, T: int, num_features: int, eps: float = 1e-5, momentum: float | None = 0.1, affine: bool = True
    ) -> None:  # fmt: skip
        super().__init__()
        self.T = steps(type(self).__name__, T)
        made: Any = self.kind
        self.norms = ModuleList([made(num_features, eps, momentum, affine, bias=False) for _ in range(T)])

    def forward(self, x: Any) -> Tensor:
        """Normalise each step by its own statistics."""
        made = _timed(self, x, self.axes, self.T)
        return grilly.stack([norm(made[t]) for t, norm in enumerate(self.norms)], axis=0)


class BatchNormThroughTime1d(_ThroughTime):
    """Batch normalisation with statistics and a scale of its own for each step, without shifts (Kim and Panda 2021).

    Parameters
    ----------
    T : int
        Steps.
    num_features : int
    eps, momentum, affine
        As for `BatchNorm1d`.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> from grilly_ext_snn.nn.norms import BatchNormThroughTime1d
    >>> BatchNormThroughTime1d(4, 3)(grilly.randn(4, 16, 3)).shape
    (4, 16, 3)
    """

    axes, kind = 3, BatchNorm1d


class BatchNormThroughTime2d(_ThroughTime):
    """`BatchNormThroughTime1d` for ``(T, B, C, H, W)``.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> from grilly_ext_snn.nn.norms import BatchNormThroughTime2d
    >>> BatchNormThroughTime2d(4, 3)(grilly.zeros((4, 2, 3, 5, 5))).shape
    (4, 2, 3, 5, 5)
    """

    axes, kind = 5, BatchNorm2d


class NeuNorm(Module):
    """Subtract a weighted, leaky trace of the spikes of all channels (Wu et al. 2019).

    ``u[t] = k u[t - 1] + (1 - k) / C**2 sum_c x[t, c]`` starts at 0, and the output is ``x - w u``.

    Parameters
    ----------
    in_channels : int
    height, width : int, optional
        Give both for a weight of each pixel; else each channel has one.
    k : float
        What is left of the trace after a step, in [0, 1).

    Attributes
    ----------
    weight : Parameter, (C, height, width) or (C, 1, 1)
        Starts at 1.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> from grilly_ext_snn.nn.norms import NeuNorm
    >>> NeuNorm(2, k=0.5)(grilly.ones((1, 1, 2, 1, 1))).reshape(-1).tolist()
    [0.75, 0.75]
    """

    def __init__(
        self, in_channels: int, height: int | None = None, width: int | None = None, k: float = 0.9
    ) -> None:
        super().__init__()
        if (height is None) != (width is None):
            raise ShapeError(f"NeuNorm: give both height and width or none; received {height} and {width}.")
        if not 0 <= k < 1:
            raise ValueError(f"NeuNorm: k must be in [0, 1); received {k!r}.")
        self.in_channels, self.k = in_channels, k
        self.weight = Parameter(grilly.ones((in_channels, height or 1, width or 1)))

    def forward(self, x: Any) -> Tensor:
        """Normalise spikes ``(T, B, C, H, W)``."""
        made = _timed(self, x, 5)
        if made.shape[2] != self.in_channels:
            raise ShapeError(
                f"NeuNorm: expected {self.in_channels} channels; received shape {tuple(made.shape)}."
            )
        pooled = made.sum(2, keepdim=True) * ((1.0 - self.k) / self.in_channels**2)
        decay = grilly.asarray(self.k, dtype=made.dtype, device=made.device)
        trace, _ = synapse_filter(
            pooled, grilly.zeros(pooled.shape[1:], dtype=made.dtype, device=made.device), decay
        )
        return made - self.weight * trace
