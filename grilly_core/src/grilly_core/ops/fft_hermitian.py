"""Transforms over several axes of signals that are Hermitian in the last of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from grilly_core.apply import as_tensor
from grilly_core.ops.fft import Axes, _swapped, irfftn, rfftn
from grilly_core.ops.math import conj
from grilly_core.tensor import Tensor

__all__ = ["hfft2", "hfftn", "ihfft2", "ihfftn"]


def hfftn(
    x: Any,
    /,
    s: Sequence[int] | None = None,
    axes: Axes = None,
    norm: str | None = "backward",
    *,
    dim: Axes = None,
) -> Tensor:
    """Return the real transform of a signal that is Hermitian, and of whose last axis `x` holds the first half.

    Parameters
    ----------
    x : array_like
    s : sequence of int, optional
        Sizes of the result along `axes`.
    axes : int or sequence of int, optional
        All axes by default; the last of them holds the half.
    norm : {"backward", "ortho", "forward"}
    dim : int or sequence of int, optional
        PyTorch's name of `axes`.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.fft.hfftn([[1.0, 2.0, 1.0]]).tolist()
    [[6.0, 0.0, -2.0, 0.0]]
    """
    return irfftn(conj(as_tensor(x)), s, axes, _swapped(norm), dim=dim)


def ihfftn(
    x: Any,
    /,
    s: Sequence[int] | None = None,
    axes: Axes = None,
    norm: str | None = "backward",
    *,
    dim: Axes = None,
) -> Tensor:
    """Return the inverse of `hfftn`: half of a Hermitian signal.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.fft.ihfftn([[6.0, 0.0, -2.0, 0.0]]).real.tolist()
    [[1.0, 2.0, 1.0]]
    """
    result: Tensor = conj(rfftn(x, s, axes, _swapped(norm), dim=dim))
    return result


def hfft2(
    x: Any,
    /,
    s: Sequence[int] | None = None,
    axes: Axes = (-2, -1),
    norm: str | None = "backward",
    *,
    dim: Axes = None,
) -> Tensor:
    """Return `hfftn` over the last two axes.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.fft.hfft2([[1.0, 2.0, 1.0]]).shape
    (1, 4)
    """
    return hfftn(x, s, axes if dim is None else dim, norm)


def ihfft2(
    x: Any,
    /,
    s: Sequence[int] | None = None,
    axes: Axes = (-2, -1),
    norm: str | None = "backward",
    *,
    dim: Axes = None,
) -> Tensor:
    """Return `ihfftn` over the last two axes.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.fft.ihfft2([[6.0, 0.0, -2.0, 0.0]]).shape
    (1, 3)
    """
    return ihfftn(x, s, axes if dim is None else dim, norm)
