"""Layers that learn their input's size from their first input, and then are the ordinary ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from grilly_core.apply import as_tensor
from grilly_core.functional._arguments import Size
from grilly_core.nn import init
from grilly_core.nn.conv import Conv1d, Conv2d, Conv3d
from grilly_core.nn.instance_norm import InstanceNorm1d, InstanceNorm2d, InstanceNorm3d
from grilly_core.nn.linear import DeviceLike, Linear
from grilly_core.nn.module import Module
from grilly_core.nn.norm import BatchNorm1d, BatchNorm2d, BatchNorm3d
from grilly_core.nn.parameter import UninitializedBuffer, UninitializedParameter, is_lazy
from grilly_core.nn.transposed import ConvTranspose1d, ConvTranspose2d, ConvTranspose3d
from grilly_core.random import Generator
from grilly_core.tensor import Tensor

__all__ = [
    "LazyBatchNorm1d", "LazyBatchNorm2d", "LazyBatchNorm3d", "LazyConv1d", "LazyConv2d", "LazyConv3d",
    "LazyConvTranspose1d", "LazyConvTranspose2d", "LazyConvTranspose3d", "LazyInstanceNorm1d", "LazyInstanceNorm2d",
    "LazyInstanceNorm3d", "LazyLinear",
]  # fmt: skip


class _Lazy(Module):
    """What the lazy layers share; it stands before the layer's own class, whose `__init__` takes the size first."""

    cls_to_become: ClassVar[Any]
    #: The attribute with the size, and the size that the layer is first made with.
    size: ClassVar[str]

    def _begin(self, placeholder: int, *args: Any, **kwargs: Any) -> None:
        """Make the layer for a size of `placeholder`, and empty what depends on the size."""
        self._arguments = (args, kwargs)
        with init._nothing_drawn():
            self.cls_to_become.__init__(self, placeholder, *args, **kwargs)
        setattr(self, self.size, 0)
        for name, p in list(self._of_kind("parameter")):
            setattr(self, name, UninitializedParameter(p.requires_grad, p.device, p.dtype))
        for name, b in list(self._of_kind("buffer")):
            if b.ndim:
                setattr(self, name, UninitializedBuffer(b.device, b.dtype))
        self.register_load_state_dict_pre_hook(_load)

    def has_uninitialized_params(self) -> bool:
        """Whether parameters or buffers still wait for their shape."""
        cells = [*self.parameters(recurse=False), *self.buffers(recurse=False)]
        return any(is_lazy(cell) for cell in cells)

    def initialize_parameters(self, input: Any) -> None:
        """Give everything its shape and first value, as the input asks, and become the ordinary layer."""
        x = as_tensor(input)
        self._become(x.shape[self._axis(x)])

    def _axis(self, x: Tensor) -> int:
        """Return the axis of the input that has the size."""
        return -1

    def _size_in(self, name: str, shape: tuple[int, ...]) -> int | None:
        """Return the size that a saved tensor tells, if it does."""
        raise NotImplementedError

    def _become(self, size: int) -> None:
        with init._nothing_drawn():
            args, kwargs = self._arguments
            made: Any = self.cls_to_become(size, *args, **kwargs)
        for name, cell in [*self._of_kind("parameter"), *self._of_kind("buffer")]:
            if is_lazy(cell):
                cell.materialize(getattr(made, name).shape)
        del self._arguments
        setattr(self, self.size, size)
        self.__class__ = self.cls_to_become
        self.reset_parameters()

    def reset_parameters(self, *, rng: Generator | None = None) -> None:
        """Draw the first values again, if there are any yet."""
        if not self.has_uninitialized_params():
            self.cls_to_become.reset_parameters(self, **({} if rng is None else {"rng": rng}))

    def forward(self, input: Any) -> Tensor:
        """Take the size from the input, and do what the ordinary layer does."""
        self.initialize_parameters(input)
        result: Tensor = self.forward(input)  # of the class that this now is
        return result


def _load(module: Module, state: dict[str, Any], prefix: str, *rest: Any) -> None:
    """Take the size from a state dict that is about to be loaded."""
    if not isinstance(module, _Lazy):
        return
    for name, _ in [*module._of_kind("parameter"), *module._of_kind("buffer")]:
        saved = state.get(prefix + name)
        if saved is not None and tuple(saved.shape) != (0,):
            size = module._size_in(name, tuple(saved.shape))
            if size is not None:
                module._become(size)
                return


class LazyLinear(_Lazy, Linear):
    """`Linear` whose `in_features` is the last axis of its first input.

    Parameters
    ----------
    out_features : int
    bias : bool
    device : Device or str, optional
    dtype : DType, optional

    Examples
    --------
    >>> import grilly_core as grilly
    >>> layer = grilly.nn.LazyLinear(2)
    >>> layer(grilly.ones((4, 3))).shape, layer
    ((4, 2), Linear(in_features=3, out_features=2, bias=True))
    """

    cls_to_become = Linear
    size = "in_features"

    def __init__(
        self, out_features: int, bias: bool = True, device: DeviceLike = None, dtype: Any = None
    ) -> None:
        self._begin(1, out_features, bias, device, dtype)

    def _size_in(self, name: str, shape: tuple[int, ...]) -> int | None:
        return shape[-1] if name == "weight" else None


class _LazyConv(_Lazy):
    """What the lazy convolutions share: the arguments of the ordinary ones without `in_channels`."""

    size = "in_channels"
    axes: ClassVar[int]
    groups: int

    def __init__(
        self,
        out_channels: int,
        kernel_size: Size,
        stride: Size = 1,
        padding: Size | str = 0,
        dilation: Size = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: DeviceLike = None,
        dtype: Any = None,
    ) -> None:
        options = (stride, padding, dilation, groups, bias, padding_mode, device, dtype)
        self._begin(groups, out_channels, kernel_size, *options)

    def _axis(self, x: Tensor) -> int:
        return x.ndim - self.axes - 1

    def _size_in(self, name: str, shape: tuple[int, ...]) -> int | None:
        return shape[1] * self.groups if name == "weight" else None


class _LazyConvTranspose(_LazyConv):
    """The same for transposed convolutions."""

    def __init__(
        self,
        out_channels: int,
        kernel_size: Size,
        stride: Size = 1,
        padding: Size = 0,
        output_padding: Size = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: Size = 1,
        padding_mode: str = "zeros",
        device: DeviceLike = None,
        dtype: Any = None,
    ) -> None:
        options = (stride, padding, output_padding, groups, bias, dilation, padding_mode, device, dtype)
        self._begin(groups, out_channels, kernel_size, *options)

    def _size_in(self, name: str, shape: tuple[int, ...]) -> int | None:
        return shape[0] if name == "weight" else None

    def forward(self, input: Any, output_size: Sequence[int] | None = None) -> Tensor:
        """Take the size from the input, and do what the ordinary layer does."""
        self.initialize_parameters(input)
        result: Tensor = self.forward(input, output_size)  # of the class that this now is
        return result


class _LazyNorm(_Lazy):
    """What the lazy normalisations share: by default they learn and keep statistics, as PyTorch's do."""

    size = "num_features"

    def __init__(
        self,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: DeviceLike = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        self._begin(1, eps, momentum, affine, track_running_stats, device, dtype, bias=bias)

    def _axis(self, x: Tensor) -> int:
        return 1

    def _size_in(self, name: str, shape: tuple[int, ...]) -> int | None:
        return shape[0] if shape else None


class _LazyInstanceNorm(_LazyNorm):
    """The same for single images, which may come without a batch."""

    def _axis(self, x: Tensor) -> int:
        return int(x.ndim == self.cls_to_become.ranks[0])


class LazyConv1d(_LazyConv, Conv1d):
    """`Conv1d` whose `in_channels` are those of its first input; the other arguments are the same.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> layer = grilly.nn.LazyConv1d(4, 3)
    >>> layer(grilly.ones((2, 5, 6))).shape
    (2, 4, 4)
    """

    cls_to_become = Conv1d


class LazyConv2d(_LazyConv, Conv2d):
    """`Conv2d` whose `in_channels` are those of its first input; the other arguments are the same.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> layer = grilly.nn.LazyConv2d(4, 3)
    >>> layer(grilly.ones((2, 5, 6, 6))).shape
    (2, 4, 4, 4)
    """

    cls_to_become = Conv2d


class LazyConv3d(_LazyConv, Conv3d):
    """`Conv3d` whose `in_channels` are those of its first input; the other arguments are the same.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> layer = grilly.nn.LazyConv3d(4, 3)
    >>> layer(grilly.ones((2, 5, 6, 6, 6))).shape
    (2, 4, 4, 4, 4)
    """

    cls_to_become = Conv3d


class LazyConvTranspose1d(_LazyConvTranspose, ConvTranspose1d):
    """`ConvTranspose1d` whose `in_channels` are those of its first input; the other arguments are the same.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> layer = grilly.nn.LazyConvTranspose1d(4, 3)
    >>> layer(grilly.ones((2, 5, 6))).shape
    (2, 4, 8)
    """

    cls_to_become = ConvTranspose1d


class LazyConvTranspose2d(_LazyConvTranspose, ConvTranspose2d):
    """`ConvTranspose2d` whose `in_channels` are those of its first input; the other arguments are the same.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> layer = grilly.nn.LazyConvTranspose2d(4, 3)
    >>> layer(grilly.ones((2, 5, 6, 6))).shape
    (2, 4, 8, 8)
    """

    cls_to_become = ConvTranspose2d


class LazyConvTranspose3d(_LazyConvTranspose, ConvTranspose3d):
    """`ConvTranspose3d` whose `in_channels` are those of its first input; the other arguments are the same.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> layer = grilly.nn.LazyConvTranspose3d(4, 3)
    >>> layer(grilly.ones((2, 5, 6, 6, 6))).shape
    (2, 4, 8, 8, 8)
    """

    cls_to_become = ConvTranspose3d


class LazyBatchNorm1d(_LazyNorm, BatchNorm1d):
    """`BatchNorm1d` whose `num_features` are the channels of its first input; the other arguments are the same.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> layer = grilly.nn.LazyBatchNorm1d()
    >>> layer(grilly.ones((2, 5, 6))).shape, layer.num_features
    ((2, 5, 6), 5)
    """

    cls_to_become = BatchNorm1d


class LazyBatchNorm2d(_LazyNorm, BatchNorm2d):
    """`BatchNorm2d` whose `num_features` are the channels of its first input; the other arguments are the same.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> layer = grilly.nn.LazyBatchNorm2d()
    >>> layer(grilly.ones((2, 5, 6, 6))).shape, layer.num_features
    ((2, 5, 6, 6), 5)
    """

    cls_to_become = BatchNorm2d


class LazyBatchNorm3d(_LazyNorm, BatchNorm3d):
    """`BatchNorm3d` whose `num_features` are the channels of its first input; the other arguments are the same.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> layer = grilly.nn.LazyBatchNorm3d()
    >>> layer(grilly.ones((2, 5, 6, 6, 6))).shape, layer.num_features
    ((2, 5, 6, 6, 6), 5)
    """

    cls_to_become = BatchNorm3d


class LazyInstanceNorm1d(_LazyInstanceNorm, InstanceNorm1d):
    """`InstanceNorm1d` whose `num_features` are the channels of its first input; the other arguments are the same.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> layer = grilly.nn.LazyInstanceNorm1d()
    >>> layer(grilly.ones((2, 5, 6))).shape, layer.num_features
    ((2, 5, 6), 5)
    """

    cls_to_become = InstanceNorm1d


class LazyInstanceNorm2d(_LazyInstanceNorm, InstanceNorm2d):
    """`InstanceNorm2d` whose `num_features` are the channels of its first input; the other arguments are the same.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> layer = grilly.nn.LazyInstanceNorm2d()
    >>> layer(grilly.ones((2, 5, 6, 6))).shape, layer.num_features
    ((2, 5, 6, 6), 5)
    """

    cls_to_become = InstanceNorm2d


class LazyInstanceNorm3d(_LazyInstanceNorm, InstanceNorm3d):
    """`InstanceNorm3d` whose `num_features` are the channels of its first input; the other arguments are the same.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> layer = grilly.nn.LazyInstanceNorm3d()
    >>> layer(grilly.ones((2, 5, 6, 6, 6))).shape, layer.num_features
    ((2, 5, 6, 6, 6), 5)
    """

    cls_to_become = InstanceNorm3d
