"""Convolutions with adapters."""

from __future__ import annotations

from typing import Any, Self

from grilly_core.functional.padding import pad
from grilly_core.lora.config import LoRAConfig
from grilly_core.lora.layer import DEFAULT, LoRALayer
from grilly_core.nn.conv import _Conv
from grilly_core.ops.nn_conv import conv
from grilly_core.tensor import Tensor

__all__ = ["LoRAConv"]


class LoRAConv(LoRALayer):
    """A frozen convolution with a low-rank update: filters A to `rank` channels, then a mixture B of those.

    Parameters
    ----------
    base_layer : Conv1d, Conv2d or Conv3d
        With several groups A sees the channels of all of them, as in the adapter files in use; such an update is no
        weight of the layer, so it can be trained and switched but neither merged nor of DoRA's kind.
    rank : int
        Divisible by the number of groups.
    alpha : float
        The update is scaled by ``alpha / rank``.
    dropout : float
    init_weights : {"kaiming", "gaussian", "random", "zeros"}

    Examples
    --------
    >>> import grilly_core as grilly
    >>> layer = grilly.lora.LoRAConv(grilly.nn.Conv2d(3, 8, 3, padding=1), rank=2)
    >>> layer(grilly.ones((1, 3, 5, 5))).shape
    (1, 8, 5, 5)
    """

    base_layer: Any

    def __init__(
        self,
        base_layer: _Conv,
        rank: int = 8,
        alpha: float = 16,
        dropout: float = 0.0,
        init_weights: str = "kaiming",
    ) -> None:
        config = LoRAConfig(rank, alpha, dropout, init_lora_weights=init_weights)
        super().__init__(base_layer)
        self.add_adapter(DEFAULT, config)

    @classmethod
    def around(cls, layer: _Conv) -> Self:
        """Return a convolution that computes as `layer`, still without adapters."""
        self = cls.__new__(cls)
        LoRALayer.__init__(self, layer)
        return self

    def _shapes(self, rank: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
        base = self.base_layer
        if rank % base.groups:
            raise ValueError(f"LoRAConv: rank must be divisible by groups={base.groups}; received {rank}.")
        ones = (1,) * base.axes
        return (rank, base.in_channels, *base.kernel_size), (base.out_channels, rank // base.groups, *ones)

    def _product(self, a: Tensor, b: Tensor) -> Tensor:
        base = self.base_layer
        if base.groups > 1:
            raise ValueError(
                f"LoRAConv: with groups={base.groups} the update is no weight of the layer, so merging and DoRA are "
                "not possible."
            )
        return (b.flatten(1) @ a.flatten(1)).reshape(base.weight.shape)

    def _low_rank(self, input: Tensor, a: Tensor, b: Tensor) -> Tensor:
        axes = self.base_layer.axes
        ones, none = (1,) * axes, ((0, 0),) * axes
        return self._convolved(self._plain(input, a), b, ones, none, ones, self.base_layer.groups)

    def _plain(self, input: Tensor, weight: Tensor) -> Tensor:
        base = self.base_layer
        pads = base._pads
        if base.padding_mode != "zeros":
            sizes = [n for pair in reversed(pads) for n in pair]
            input, pads = pad(input, sizes, base.padding_mode), ((0, 0),) * base.axes
        return self._convolved(input, weight, base.stride, pads, base.dilation, 1)

    def _convolved(
        self, input: Tensor, weight: Tensor, stride: Any, pads: Any, dilation: Any, groups: int
    ) -> Tensor:
        single = input.ndim == self.base_layer.axes + 1
        batch = input.unsqueeze(0) if single else input
        output = conv(batch, weight, stride=stride, padding=pads, dilation=dilation, groups=groups)
        return output.squeeze(0) if single else output

    def _along(self, factors: Tensor, output: Tensor) -> Tensor:
        return factors.reshape((-1,) + (1,) * self.base_layer.axes)
