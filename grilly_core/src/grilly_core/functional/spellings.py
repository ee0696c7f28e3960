"""PyTorch's further spellings: activations that write to their input, pooling that returns indices, and two more."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from grilly_core.errors import ShapeError
from grilly_core.functional import activations, dropping, pooling, pooling_more
from grilly_core.functional._arguments import Size, TensorLike, tensor
from grilly_core.functional.layers import conv1d
from grilly_core.ops import products
from grilly_core.random import Generator
from grilly_core.tensor import Tensor

__all__ = [
    "adaptive_max_pool1d_with_indices", "adaptive_max_pool2d_with_indices", "adaptive_max_pool3d_with_indices", "celu_",
    "conv_tbc", "elu_", "fractional_max_pool2d_with_indices", "fractional_max_pool3d_with_indices", "hardtanh_",
    "leaky_relu_", "max_pool1d_with_indices", "max_pool2d_with_indices", "max_pool3d_with_indices", "pdist", "relu_",
    "rrelu_", "selu_", "threshold_",
]  # fmt: skip


def celu_(input: Tensor, alpha: float = 1.0) -> Tensor:
    """Write `celu` of a tensor to it.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> x = grilly.tensor([2.0])
    >>> grilly.functional.celu_(x) is x, x.item()
    (True, 2.0)
    """
    return activations.celu(input, alpha, inplace=True)


def elu_(input: Tensor, alpha: float = 1.0) -> Tensor:
    """Write `elu` of a tensor to it.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> x = grilly.tensor([1.5])
    >>> grilly.functional.elu_(x) is x, x.item()
    (True, 1.5)
    """
    return activations.elu(input, alpha, inplace=True)


def hardtanh_(input: Tensor, min_val: float = -1.0, max_val: float = 1.0) -> Tensor:
    """Write `hardtanh` of a tensor to it.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> x = grilly.tensor([3.0])
    >>> grilly.functional.hardtanh_(x) is x, x.item()
    (True, 1.0)
    """
    return activations.hardtanh(input, min_val, max_val, inplace=True)


def leaky_relu_(input: Tensor, negative_slope: float = 0.01) -> Tensor:
    """Write `leaky_relu` of a tensor to it.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> x = grilly.tensor([2.0])
    >>> grilly.functional.leaky_relu_(x) is x, x.item()
    (True, 2.0)
    """
    return activations.leaky_relu(input, negative_slope, inplace=True)


def relu_(input: Tensor) -> Tensor:
    """Write `relu` of a tensor to it.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> x = grilly.tensor([-1.0])
    >>> grilly.functional.relu_(x) is x, x.item()
    (True, 0.0)
    """
    return activations.relu(input, inplace=True)


def selu_(input: Tensor) -> Tensor:
    """Write `selu` of a tensor to it.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> x = grilly.tensor([0.0])
    >>> grilly.functional.selu_(x) is x, x.item()
    (True, 0.0)
    """
    return activations.selu(input, inplace=True)


def threshold_(input: Tensor, threshold: float, value: float) -> Tensor:
    """Write `threshold` of a tensor to it.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> x = grilly.tensor([0.5])
    >>> grilly.functional.threshold_(x, 1.0, 2.0) is x, x.item()
    (True, 2.0)
    """
    return activations.threshold(input, threshold, value, inplace=True)


def rrelu_(
    input: Tensor,
    lower: float = 1.0 / 8,
    upper: float = 1.0 / 3,
    training: bool = False,
    *,
    rng: Generator | None = None,
) -> Tensor:
    """Write `rrelu` of a tensor to it.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.functional.rrelu_(grilly.tensor([-1.0]), 0.5, 0.5).item()
    -0.5
    """
    return dropping.rrelu(input, lower, upper, training, inplace=True, rng=rng)


def max_pool1d_with_indices(
    input: TensorLike,
    kernel_size: Size,
    stride: Size | None = None,
    padding: Size = 0,
    dilation: Size = 1,
    ceil_mode: bool = False,
) -> tuple[Tensor, Tensor]:
    """`max_pool1d` with ``return_indices=True``.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> y, at = grilly.functional.max_pool1d_with_indices(grilly.ones((1, 4)), 2)
    >>> y.shape == at.shape == (1, 2)
    True
    """
    pair: tuple[Tensor, Tensor] = pooling.max_pool1d(
        input, kernel_size, stride, padding, dilation, ceil_mode, True
    )
    return pair


def adaptive_max_pool1d_with_indices(input: TensorLike, output_size: Size | None) -> tuple[Tensor, Tensor]:
    """`adaptive_max_pool1d` with ``return_indices=True``.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> y, at = grilly.functional.adaptive_max_pool1d_with_indices(grilly.ones((1, 4)), 2)
    >>> y.shape == at.shape == (1, 2)
    True
    """
    pair: tuple[Tensor, Tensor] = pooling.adaptive_max_pool1d(input, output_size, True)
    return pair


def max_pool2d_with_indices(
    input: TensorLike,
    kernel_size: Size,
    stride: Size | None = None,
    padding: Size = 0,
    dilation: Size = 1,
    ceil_mode: bool = False,
) -> tuple[Tensor, Tensor]:
    """`max_pool2d` with ``return_indices=True``.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> y, at = grilly.functional.max_pool2d_with_indices(grilly.ones((1, 4, 4)), 2)
    >>> y.shape == at.shape == (1, 2, 2)
    True
    """
    pair: tuple[Tensor, Tensor] = pooling.max_pool2d(
        input, kernel_size, stride, padding, dilation, ceil_mode, True
    )
    return pair


def adaptive_max_pool2d_with_indices(
    input: TensorLike, output_size: int | Sequence[int | None] | None
) -> tuple[Tensor, Tensor]:
    """`adaptive_max_pool2d` with ``return_indices=True``.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> y, at = grilly.functional.adaptive_max_pool2d_with_indices(grilly.ones((1, 4, 4)), 2)
    >>> y.shape == at.shape == (1, 2, 2)
    True
    """
    pair: tuple[Tensor, Tensor] = pooling.adaptive_max_pool2d(input, output_size, True)
    return pair


def max_pool3d_with_indices(
    input: TensorLike,
    kernel_size: Size,
    stride: Size | None = None,
    padding: Size = 0,
    dilation: Size = 1,
    ceil_mode: bool = False,
) -> tuple[Tensor, Tensor]:
    """`max_pool3d` with ``return_indices=True``.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> y, at = grilly.functional.max_pool3d_with_indices(grilly.ones((1, 4, 4, 4)), 2)
    >>> y.shape == at.shape == (1, 2, 2, 2)
    True
    """
    pair: tuple[Tensor, Tensor] = pooling.max_pool3d(
        input, kernel_size, stride, padding, dilation, ceil_mode, True
    )
    return pair


def adaptive_max_pool3d_with_indices(
    input: TensorLike, output_size: int | Sequence[int | None] | None
) -> tuple[Tensor, Tensor]:
    """`adaptive_max_pool3d` with ``return_indices=True``.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> y, at = grilly.functional.adaptive_max_pool3d_with_indices(grilly.ones((1, 4, 4, 4)), 2)
    >>> y.shape == at.shape == (1, 2, 2, 2)
    True
    """
    pair: tuple[Tensor, Tensor] = pooling.adaptive_max_pool3d(input, output_size, True)
    return pair


def fractional_max_pool2d_with_indices(
    input: TensorLike,
    kernel_size: Size,
    output_size: Size | None = None,
    output_ratio: Any = None,
    _random_samples: TensorLike | None = None,
    *,
    rng: Generator | None = None,
) -> tuple[Tensor, Tensor]:
    """`fractional_max_pool2d` with ``return_indices=True``.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> y, at = grilly.functional.fractional_max_pool2d_with_indices(grilly.ones((1, 5, 5)), 2, output_size=2)
    >>> y.shape == at.shape == (1, 2, 2)
    True
    """
    pair: tuple[Tensor, Tensor] = pooling_more.fractional_max_pool2d(
        input, kernel_size, output_size, output_ratio, True, _random_samples, rng=rng
    )
    return pair


def fractional_max_pool3d_with_indices(
    input: TensorLike,
    kernel_size: Size,
    output_size: Size | None = None,
    output_ratio: Any = None,
    _random_samples: TensorLike | None = None,
    *,
    rng: Generator | None = None,
) -> tuple[Tensor, Tensor]:
    """`fractional_max_pool3d` with ``return_indices=True``.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> y, at = grilly.functional.fractional_max_pool3d_with_indices(grilly.ones((1, 5, 5, 5)), 2, output_size=2)
    >>> y.shape == at.shape == (1, 2, 2, 2)
    True
    """
    pair: tuple[Tensor, Tensor] = pooling_more.fractional_max_pool3d(
        input, kernel_size, output_size, output_ratio, True, _random_samples, rng=rng
    )
    return pair


def conv_tbc(input: TensorLike, weight: TensorLike, bias: TensorLike, pad: int = 0) -> Tensor:
    """Convolution along the first axis of ``(T, B, C)``.

    Parameters
    ----------
    input : array_like, (T, B, C)
    weight : array_like, (K, C, O)
    bias : array_like, (O,)
    pad : int
        Zeros at either end.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.functional.conv_tbc(grilly.ones((5, 2, 3)), grilly.ones((2, 3, 4)), grilly.zeros(4)).shape
    (4, 2, 4)
    """
    x = tensor(input)
    w = tensor(weight, like=x)
    if x.ndim != 3 or w.ndim != 3 or x.shape[2] != w.shape[1]:
        raise ShapeError(
            "conv_tbc: expected an input (T, B, C) and a weight (K, C, O); received shapes "
            f"{tuple(x.shape)} and {tuple(w.shape)}."
        )
    return conv1d(x.permute(1, 2, 0), w.permute(2, 1, 0), bias, padding=pad).permute(2, 0, 1)


def pdist(input: TensorLike, p: float = 2.0) -> Tensor:
    """Distances of all pairs of rows, as one vector.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.functional.pdist(grilly.tensor([[0.0], [1.0], [3.0]])).tolist()
    [1.0, 3.0, 2.0]
    """
    distances: Tensor = products.pdist(tensor(input), p)
    return distances
