"""Normalisation of single images, and of channels by their neighbours."""

from __future__ import annotations

from typing import Any

from grilly_core.errors import ShapeError
from grilly_core.functional import normalising as f
from grilly_core.nn.linear import DeviceLike
from grilly_core.nn.module import Module
from grilly_core.nn.norm import _BatchNorm
from grilly_core.tensor import Tensor

__all__ = ["InstanceNorm1d", "InstanceNorm2d", "InstanceNorm3d", "LocalResponseNorm"]


class _InstanceNorm(_BatchNorm):
    """What the instance normalisations share: parameters and buffers are those of batch normalisation."""

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = False,
        track_running_stats: bool = False,
        device: DeviceLike = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias)

    def forward(self, input: Tensor) -> Tensor:
        """Normalise each channel of each sample: ``(N, C, ...)`` or ``(C, ...)``."""
        rank = self.ranks[0]
        if input.ndim not in (rank - 1, rank) or input.shape[rank - input.ndim == 0] != self.num_features:
            raise ShapeError(
                f"{type(self).__name__}: expected {rank} axes (N, C, ...) or {rank - 1} without the batch, with "
                f"{self.num_features} channels; received shape {tuple(input.shape)}."
            )
        added = input.ndim == rank - 1
        x = input.unsqueeze(0) if added else input
        by_input = self.training or not self.track_running_stats
        y = f.instance_norm(
            x,
            self.running_mean,
            self.running_var,
            self.weight,
            self.bias,
            by_input,
            self.momentum or 0.0,
            self.eps,
        )
        return y.squeeze(0) if added else y


class InstanceNorm1d(_InstanceNorm):
    """Normalise each channel of each sample of ``(N, C, L)``.

    Parameters
    ----------
    num_features : int
        How many channels.
    eps : float
        Added to the variance.
    momentum : float or None
        How far the running statistics move.
    affine : bool
        Learn a scale and a shift.
    track_running_stats : bool
        Keep running statistics, and use them in evaluation.
    device : Device or str, optional
    dtype : DType, optional
    bias : bool
        Whether to learn the shift.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.nn.InstanceNorm1d(1, eps=0.0)(grilly.tensor([[[-2.0, 2.0]]])).tolist()
    [[[-1.0, 1.0]]]
    """

    ranks = (3,)


class InstanceNorm2d(_InstanceNorm):
    """Normalise each channel of each sample of ``(N, C, H, W)``; parameters as for `InstanceNorm1d`.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.nn.InstanceNorm2d(3, affine=True)(grilly.rand(2, 3, 4, 4)).shape
    (2, 3, 4, 4)
    """

    ranks = (4,)


class InstanceNorm3d(_InstanceNorm):
    """Normalise each channel of each sample of ``(N, C, D, H, W)``; parameters as for `InstanceNorm1d`.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.nn.InstanceNorm3d(3)(grilly.rand(2, 3, 2, 2, 2)).shape
    (2, 3, 2, 2, 2)
    """

    ranks = (5,)


class LocalResponseNorm(Module):
    """Divide each channel by ``(k + alpha * m) ** beta``, m being the mean square of `size` neighbouring channels.

    Parameters
    ----------
    size : int
    alpha, beta, k : float

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.nn.LocalResponseNorm(1, alpha=3.0, beta=0.5)(grilly.ones((1, 1, 1))).item()
    0.5
    """

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> None:
        super().__init__()
        self.size = size
        self.alpha = alpha
        self.beta = beta
        self.k = k

    def forward(self, input: Tensor) -> Tensor:
        """Normalise ``(N, C, ...)`` along the channels."""
        return f.local_response_norm(input, self.size, self.alpha, self.beta, self.k)

    def extra_repr(self) -> str:
        """The settings."""
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"
