"""Whitening: rows with mean 0 and unit variances, and if wanted without correlations."""

from __future__ import annotations

from typing import Any

from grilly_core.errors import ShapeError
from grilly_core.functional._arguments import TensorLike, tensor
from grilly_core.ops.primitives import where
from grilly_core.tensor import Tensor

__all__ = ["whitening_apply", "whitening_batch_stats", "whitening_transform"]

_METHODS = ("standardize", "pca", "zca", "cholesky")


def whitening_batch_stats(
    data: TensorLike, method: str = "standardize", eps: float = 1e-6
) -> tuple[Tensor, Tensor]:
    """Return what `whitening_apply` takes: the mean, and the standard deviations or a whitening matrix.

    Parameters
    ----------
    data : array_like, (N, D)
    method : {"standardize", "pca", "zca", "cholesky"}
        ``"standardize"`` scales each feature and leaves correlations; the others make the covariance the identity
        (Kessy et al. 2018): along the principal axes, as near to the data as can be, or by a triangular matrix.
    eps : float
        Least standard deviation; of the others, what is added to the variances along the principal axes.

    Returns
    -------
    mean : Tensor, (D,)
    std : Tensor
        Population standard deviations ``(D,)``, or the matrix W ``(D, D)`` of ``W (x - mean)``.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> mean, std = grilly.functional.whitening_batch_stats(grilly.tensor([[0.0], [2.0]]))
    >>> mean.tolist(), std.tolist()
    ([1.0], [1.0])
    """
    if method not in _METHODS:
        raise ValueError(f"whitening: method must be one of {', '.join(_METHODS)}; received {method!r}.")
    x = tensor(data)
    if x.ndim != 2 or x.shape[0] == 0:
        raise ShapeError(f"whitening: expected rows (N, D), at least one; received shape {tuple(x.shape)}.")
    mean = x.mean(dim=0)
    off = x - mean
    if method == "standardize":
        variance = (off * off).mean(dim=0)
        spread = variance > eps * eps  # a constant feature has no gradient: the root's would be infinite
        return mean, where(spread, where(spread, variance, 1.0).sqrt(), eps)
    return mean, _matrix(off.T @ off / x.shape[0], method, eps)


def _matrix(covariance: Tensor, method: str, eps: float) -> Tensor:
    """Return W with ``W C W^T = I``."""
    import grilly_core as grilly

    size = covariance.shape[0]
    if method == "cholesky":
        identity = grilly.eye(size, dtype=covariance.dtype, device=covariance.device)
        factor = grilly.linalg.cholesky(covariance + eps * identity)
        whole: Tensor = grilly.linalg.inv(factor)
        return whole
    values, axes = grilly.linalg.eigh(covariance)
    # What is left of rounding below zero is no variance.
    scale = (values.clamp(min=0.0) + eps) ** -0.5
    if method == "zca":
        symmetric: Tensor = (axes * scale) @ axes.T
        return symmetric
    # Eigenvectors have no sign of their own; a positive diagonal is Kessy's choice, and repeats from run to run.
    turned = axes * where(axes.diagonal() < 0, -1.0, 1.0)
    principal: Tensor = (turned * scale).T
    return principal


def whitening_apply(data: TensorLike, mean: TensorLike, std: TensorLike) -> Tensor:
    """Whiten rows with statistics from elsewhere.

    Parameters
    ----------
    data : array_like, (N, D)
    mean : array_like, (D,)
    std : array_like
        Standard deviations ``(D,)``, or a whitening matrix ``(D, D)``.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.functional.whitening_apply([[3.0, 4.0]], [1.0, 0.0], [2.0, 4.0]).tolist()
    [[1.0, 1.0]]
    """
    x = tensor(data)
    centre, scale = tensor(mean, like=x), tensor(std, like=x)
    width = x.shape[-1] if x.ndim else -1
    if x.ndim != 2 or tuple(centre.shape) != (width,) or tuple(scale.shape) not in ((width,), (width, width)):
        raise ShapeError(
            "whitening_apply: expected rows (N, D), a mean (D,) and deviations (D,) or a matrix (D, D); received "
            f"shapes {tuple(x.shape)}, {tuple(centre.shape)} and {tuple(scale.shape)}."
        )
    off = x - centre
    return off / scale if scale.ndim == 1 else off @ scale.T


def whitening_transform(
    data: TensorLike,
    mean: TensorLike | None = None,
    std: TensorLike | None = None,
    method: str | None = None,
    eps: float = 1e-6,
) -> tuple[Tensor, Tensor, Tensor]:
    """Whiten rows by their own statistics, or by given ones.

    Parameters
    ----------
    data : array_like, (N, D)
    mean, std : array_like, optional
        Both or neither: see `whitening_apply`.
    method : {"standardize", "pca", "zca", "cholesky"}, optional
        See `whitening_batch_stats`; ``"standardize"`` if left out. Not with statistics, which have one already.
    eps : float

    Returns
    -------
    out : Tensor, (N, D)
    mean : Tensor, (D,)
    std : Tensor, (D,) or (D, D)

    Examples
    --------
    >>> import grilly_core as grilly
    >>> out, mean, std = grilly.functional.whitening_transform([[0.0, 1.0], [2.0, 5.0]])
    >>> out.tolist(), mean.tolist(), std.tolist()
    ([[-1.0, -1.0], [1.0, 1.0]], [1.0, 3.0], [1.0, 2.0])
    """
    x = tensor(data)
    if (mean is None) != (std is None):
        raise ValueError("whitening_transform: give both mean and std, or neither.")
    if mean is None or std is None:
        mean, std = whitening_batch_stats(x, method or "standardize", eps)
    elif method is not None:
        raise ValueError(
            "whitening_transform: statistics that are given have their method; leave method out."
        )
    centre: Any = tensor(mean, like=x)
    scale: Any = tensor(std, like=x)
    return whitening_apply(x, centre, scale), centre, scale
