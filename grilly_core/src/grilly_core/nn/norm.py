"""Normalisation layers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from grilly_core.apply import as_tensor
from grilly_core.config import no_grad
from grilly_core.dtypes import int32
from grilly_core.errors import ShapeError
from grilly_core.functional.layers import batch_norm, group_norm
from grilly_core.nn import init
from grilly_core.nn.linear import DeviceLike, positive
from grilly_core.nn.module import Module
from grilly_core.nn.parameter import Parameter
from grilly_core.ops.creation import ones, zeros
from grilly_core.ops.nn_norm import layer_norm, rms_norm
from grilly_core.tensor import Tensor

__all__ = ["BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "GroupNorm", "LayerNorm", "RMSNorm"]


class _BatchNorm(Module):
    """What the batch normalisations share; `ranks` are the numbers of axes they take."""

    ranks: ClassVar[tuple[int, ...]]
    weight: Parameter | None
    bias: Parameter | None
    running_mean: Tensor | None
    running_var: Tensor | None
    num_batches_tracked: Tensor | None

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: DeviceLike = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        positive(num_features=num_features)
        self.num_features = num_features
        self.eps = eps
        self.momentum = momentum
        self.affine = affine
        self.track_running_stats = track_running_stats
        how: dict[str, Any] = {"device": device, "dtype": dtype}
        size = (num_features,)
        self.register_parameter("weight", Parameter(ones(size, **how)) if affine else None)
        self.register_parameter("bias", Parameter(zeros(size, **how)) if affine and bias else None)
        tracked = track_running_stats
        self.register_buffer("running_mean", zeros(size, **how) if tracked else None)
        self.register_buffer("running_var", ones(size, **how) if tracked else None)
        self.register_buffer(
            "num_batches_tracked", zeros((), dtype=int32, device=device) if tracked else None
        )

    def reset_running_stats(self) -> None:
        """Forget what was seen."""
        for name, value in (("running_mean", 0.0), ("running_var", 1.0), ("num_batches_tracked", 0)):
            buffer = getattr(self, name)
            if buffer is not None:
                init.constant_(buffer, value)

    def reset_parameters(self) -> None:
        """Forget what was seen and learnt."""
        self.reset_running_stats()
        if self.weight is not None:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)

    def _count(self) -> float | Tensor:
        """Count the batch; return how far the statistics move (``1 / count`` if momentum is None)."""
        if self.num_batches_tracked is None:
            return 0.0
        with no_grad():
            self.num_batches_tracked.add_(1)
            if self.momentum is None:
                assert self.running_mean is not None
                return 1.0 / self.num_batches_tracked.to(self.running_mean.dtype)
        return self.momentum

    def forward(self, input: Tensor) -> Tensor:
        """Normalise each channel (axis 1)."""
        if not isinstance(input, Tensor):
            input = as_tensor(input, self.weight)
        if input.ndim not in self.ranks or input.shape[1] != self.num_features:
            ranks = " or ".join(map(str, self.ranks))
            raise ShapeError(
                f"{type(self).__name__}: expected {ranks} axes with {self.num_features} channels on axis 1; "
                f"received shape {tuple(input.shape)}."
            )
        by_batch = self.training or self.running_mean is None
        moving = self.training and self.running_mean is not None
        if by_batch and input.shape[0] * int(_places(input)) == 1:
            raise ShapeError(
                f"{type(self).__name__}: training needs more than one value per channel; received shape "
                f"{tuple(input.shape)}. Use a larger batch, or eval()."
            )
        return batch_norm(
            input,
            self.running_mean if moving or not by_batch else None,
            self.running_var if moving or not by_batch else None,
            self.weight,
            self.bias,
            by_batch,
            self._count() if moving else 0.0,
            self.eps,
        )

    def extra_repr(self) -> str:
        """Size and options."""
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, affine={self.affine}, "
            f"bias={self.bias is not None}, track_running_stats={self.track_running_stats}"
        )


def _places(x: Tensor) -> int:
    count = 1
    for n in x.shape[2:]:
        count *= n
    return count


class BatchNorm1d(_BatchNorm):
    """Normalise each channel of ``(N, C)`` or ``(N, C, L)``.

    In training by the batch's mean and biased variance, while the running statistics move by `momentum` towards the
    mean and the unbiased variance; in evaluation by the running statistics.

    Parameters
    ----------
    num_features : int
        Channels.
    eps : float
        Added to the variance.
    momentum : float or None
        None gives the plain average of all batches.
    affine : bool
        Learn a scale and a shift per channel.
    track_running_stats : bool
        False always uses the batch.
    device : Device or str, optional
    dtype : DType, optional

    Examples
    --------
    >>> import grilly_core as grilly
    >>> norm = grilly.nn.BatchNorm1d(1, eps=0.0)
    >>> norm(grilly.tensor([[1.0], [3.0]])).tolist(), round(norm.running_var.item(), 6)
    ([[-1.0], [1.0]], 1.1)
    """

    ranks = (2, 3)


class BatchNorm2d(_BatchNorm):
    """Normalise each channel of ``(N, C, H, W)``; parameters as for `BatchNorm1d`.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.nn.BatchNorm2d(3)(grilly.rand(2, 3, 4, 4)).shape
    (2, 3, 4, 4)
    """

    ranks = (4,)


class BatchNorm3d(_BatchNorm):
    """Normalise each channel of ``(N, C, D, H, W)``; parameters as for `BatchNorm1d`.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.nn.BatchNorm3d(3)(grilly.rand(2, 3, 2, 2, 2)).shape
    (2, 3, 2, 2, 2)
    """

    ranks = (5,)


class LayerNorm(Module):
    """Normalise the last axes to mean 0 and variance 1, then scale and shift.

    Parameters
    ----------
    normalized_shape : int or sequence of int
        Sizes of the last axes.
    eps : float
        Added to the variance.
    elementwise_affine : bool
        Learn a scale and a shift.
    bias : bool
        Whether to learn the shift.
    device : Device or str, optional
    dtype : DType, optional

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.nn.LayerNorm(2, eps=0.0)(grilly.tensor([-3.0, 3.0])).tolist()
    [-1.0, 1.0]
    """

    weight: Parameter | None
    bias: Parameter | None

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        device: DeviceLike = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.normalized_shape = _sizes(normalized_shape)
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        how: dict[str, Any] = {"device": device, "dtype": dtype}
        scale = Parameter(ones(self.normalized_shape, **how)) if elementwise_affine else None
        shift = Parameter(zeros(self.normalized_shape, **how)) if elementwise_affine and bias else None
        self.register_parameter("weight", scale)
        self.register_parameter("bias", shift)

    def forward(self, input: Tensor) -> Tensor:
        """Normalise ``(..., *normalized_shape)``."""
        return layer_norm(  # type: ignore[return-value] # the two hidden outputs stay inside
            input, self.weight, self.bias, normalized_shape=self.normalized_shape, eps=self.eps
        )

    def extra_repr(self) -> str:
        """Sizes and options."""
        affine = f"elementwise_affine={self.elementwise_affine}, bias={self.bias is not None}"
        return f"{self.normalized_shape}, eps={self.eps}, {affine}"


def _sizes(shape: int | Sequence[int]) -> tuple[int, ...]:
    sizes = (shape,) if isinstance(shape, int) else tuple(shape)
    for size in sizes:
        positive(normalized_shape=size)
    return sizes


class RMSNorm(Module):
    """Divide by the root mean square over the last axes, then scale.

    Parameters
    ----------
    normalized_shape : int or sequence of int
    eps : float, optional
        Added to the mean square; the machine epsilon of the input's dtype if not given.
    elementwise_affine : bool
        Learn a scale.
    device : Device or str, optional
    dtype : DType, optional

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.nn.RMSNorm(2, eps=0.0)(grilly.tensor([3.0, 3.0])).tolist()
    [1.0, 1.0]
    """

    weight: Parameter | None

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float | None = None,
        elementwise_affine: bool = True,
        device: DeviceLike = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.normalized_shape = _sizes(normalized_shape)
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        scale = (
            Parameter(ones(self.normalized_shape, device=device, dtype=dtype)) if elementwise_affine else None
        )
        self.register_parameter("weight", scale)

    def forward(self, input: Tensor) -> Tensor:
        """Normalise ``(..., *normalized_shape)``."""
        return rms_norm(input, self.weight, normalized_shape=self.normalized_shape, eps=self.eps)  # type: ignore[return-value]

    def extra_repr(self) -> str:
        """Sizes and options."""
        return f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"


class GroupNorm(Module):
    """Normalise groups of channels of each sample, then scale and shift each channel.

    Parameters
    ----------
    num_groups, num_channels : int
    eps : float
    affine : bool
        Learn a scale and a shift.
    device : Device or str, optional
    dtype : DType, optional
    bias : bool
        Whether to learn the shift.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.nn.GroupNorm(2, 4)(grilly.rand(1, 4, 3)).shape
    (1, 4, 3)
    """

    weight: Parameter | None
    bias: Parameter | None

    def __init__(
        self,
        num_groups: int,
        num_channels: int,
        eps: float = 1e-5,
        affine: bool = True,
        device: DeviceLike = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        positive(num_groups=num_groups, num_channels=num_channels)
        if num_channels % num_groups:
            raise ShapeError(f"GroupNorm: num_groups={num_groups} must divide num_channels={num_channels}.")
        self.num_groups = num_groups
        self.num_channels = num_channels
        self.eps = eps
        self.affine = affine
        how: dict[str, Any] = {"device": device, "dtype": dtype}
        self.register_parameter("weight", Parameter(ones((num_channels,), **how)) if affine else None)
        self.register_parameter("bias", Parameter(zeros((num_channels,), **how)) if affine and bias else None)

    def forward(self, input: Tensor) -> Tensor:
        """Normalise ``(N, C, ...)``."""
        return group_norm(input, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        """Sizes and options."""
        affine = f"affine={self.affine}, bias={self.bias is not None}"
        return f"{self.num_groups}, {self.num_channels}, eps={self.eps}, {affine}"
