"""Layers that drop at random: whole channels, or so that mean and variance stay."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from grilly_core.functional import dropping as f
from grilly_core.nn.module import Module
from grilly_core.tensor import Tensor

__all__ = ["AlphaDropout", "Dropout1d", "Dropout2d", "Dropout3d", "FeatureAlphaDropout"]


class _Dropping(Module):
    function: ClassVar[Callable[..., Tensor]]

    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        super().__init__()
        if not 0 <= p <= 1:
            raise ValueError(f"{type(self).__name__}: p must lie in [0, 1]; received {p}.")
        self.p = p
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """Drop in training; return the input else."""
        return type(self).function(input, self.p, self.training, self.inplace)

    def extra_repr(self) -> str:
        """The probability."""
        return f"p={self.p}, inplace={self.inplace}"


class Dropout1d(_Dropping):
    """In training, zero whole channels of ``(N, C, L)`` with probability `p` and scale the others by ``1 / (1 - p)``.

    Parameters
    ----------
    p : float
        From 0 to 1.
    inplace : bool
        Also write the result to the input.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.nn.Dropout1d(1.0)(grilly.ones((1, 2, 3))).sum().item()
    0.0
    """

    function = staticmethod(f.dropout1d)


class Dropout2d(_Dropping):
    """In training, zero whole channels of ``(N, C, H, W)``; parameters as for `Dropout1d`.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.nn.Dropout2d().eval()(grilly.ones((1, 2, 3, 3))).sum().item()
    18.0
    """

    function = staticmethod(f.dropout2d)


class Dropout3d(_Dropping):
    """In training, zero whole channels of ``(N, C, D, H, W)``; parameters as for `Dropout1d`.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.nn.Dropout3d(1.0)(grilly.ones((1, 2, 1, 1, 1))).sum().item()
    0.0
    """

    function = staticmethod(f.dropout3d)


class AlphaDropout(_Dropping):
    """In training, set elements to the floor of `SELU`, then scale and shift so that mean and variance stay.

    Parameters
    ----------
    p : float
        From 0 to 1.
    inplace : bool
        Also write the result to the input.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.nn.AlphaDropout().eval()(grilly.ones(2)).tolist()
    [1.0, 1.0]
    """

    function = staticmethod(f.alpha_dropout)


class FeatureAlphaDropout(_Dropping):
    """Like `AlphaDropout`, for whole channels of ``(N, C, ...)``.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.nn.FeatureAlphaDropout().eval()(grilly.ones((1, 2, 3))).sum().item()
    6.0
    """

    function = staticmethod(f.feature_alpha_dropout)
