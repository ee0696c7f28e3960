"""Spiking layers: a recurrent one and a convolutional block."""

from __future__ import annotations

from typing import Any

import grilly_core as grilly
from grilly_core.errors import ShapeError
from grilly_core.nn import Conv2d, Linear, MaxPool2d, Module, Parameter
from grilly_core.tensor import Tensor
from grilly_ext_snn.functional._arguments import tensor, timed
from grilly_ext_snn.functional.nets import set_step_mode
from grilly_ext_snn.functional.steps import seq_to_ann_forward
from grilly_ext_snn.nn.base_node import BaseNode
from grilly_ext_snn.nn.memory import MemoryModule
from grilly_ext_snn.nn.nodes import LeakyNode, LIFNode
from grilly_ext_snn.nn.norms import ThresholdDependentBatchNorm2d

__all__ = ["RecurrentSpikingLayer", "SpikingConvBlock"]


class RecurrentSpikingLayer(MemoryModule):
    """Neurons that see their own last spikes: ``S[t] = node(W x[t] + b + V S[t - 1])``, ``S[-1] = 0``.

    Parameters
    ----------
    in_features, out_features : int
    node : BaseNode, optional
        `LeakyNode` without it; it is set to ``step_mode="s"``.
    all_to_all : bool
        Whether V is a matrix; else each neuron has one weight, back to itself.
    step_mode : {"s", "m"}
        Whether a call is one step ``(B, in)`` or a sequence ``(T, B, in)``.

    Examples
    --------
    >>> import grilly
    >>> from grilly_ext_snn.nn.layers import RecurrentSpikingLayer
    >>> RecurrentSpikingLayer(4, 3, step_mode="m")(grilly.ones((5, 2, 4))).shape
    (5, 2, 3)
    """

    steps_inside = True

    def __init__(
        self, in_features: int, out_features: int, node: BaseNode | None = None, all_to_all: bool = True,
        step_mode: str = "s",
    ) -> None:  # fmt: skip
        super().__init__()
        if step_mode not in ("s", "m"):
            raise ValueError(f"RecurrentSpikingLayer: step_mode is 's' or 'm'; received {step_mode!r}.")
        self.linear = Linear(in_features, out_features)
        self.all_to_all, self.step_mode = all_to_all, step_mode
        if all_to_all:
            self.recurrent = Linear(out_features, out_features, bias=False)
        else:
            self.weight = Parameter(grilly.rand((out_features,)))
        self.node = LeakyNode() if node is None else node
        set_step_mode(self.node, "s")
        self.register_memory("spike", 0.0)

    def forward(self, x: Any) -> Tensor:
        """Return the spikes."""
        if self.step_mode == "s":
            return self._step(self.linear(tensor(x)))
        currents = self.linear(timed("RecurrentSpikingLayer", x, least=3))  # one product for all steps
        result: Tensor = grilly.stack([self._step(current) for current in currents])
        return result

    def _step(self, current: Tensor) -> Tensor:
        self.prepare(current.detach())
        back = self.recurrent(self.spike) if self.all_to_all else self.weight * self.spike
        self.spike = self.node(current + back)
        result: Tensor = self.spike
        return result


class SpikingConvBlock(Module):
    """Convolution, batch normalisation scaled to the threshold, spikes, and pooling on wish; for ``(T, B, C, H, W)``.

    Parameters
    ----------
    in_channels, out_channels, kernel_size, stride, padding
        See `Conv2d`; by default the size stays.
    node : BaseNode, optional
        `LIFNode` without it; it is set to ``step_mode="m"``.
    pool : int
        Size of max pooling behind the spikes; 1 is none.

    Examples
    --------
    >>> import grilly
    >>> from grilly_ext_snn.nn.layers import SpikingConvBlock
    >>> SpikingConvBlock(1, 4, pool=2)(grilly.randn(5, 2, 1, 8, 8)).shape
    (5, 2, 4, 4, 4)
    """

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: int = 3, stride: int = 1, padding: int | None = None,
        node: BaseNode | None = None, pool: int = 1,
    ) -> None:  # fmt: skip
        super().__init__()
        padding = kernel_size // 2 if padding is None else padding
        self.conv = Conv2d(in_channels, out_channels, kernel_size, stride, padding, bias=False)
        self.node = LIFNode() if node is None else node
        set_step_mode(self.node, "m")
        self.norm = ThresholdDependentBatchNorm2d(out_channels, self.node.v_threshold)
        self.pool = MaxPool2d(pool) if pool > 1 else None

    def forward(self, x: Any) -> Tensor:
        """Return the spikes."""
        made = tensor(x)
        if made.ndim != 5:
            raise ShapeError(f"SpikingConvBlock: expected (T, B, C, H, W); received {tuple(made.shape)}.")
        spikes = self.node(self.norm(seq_to_ann_forward(made, self.conv)))
        return spikes if self.pool is None else seq_to_ann_forward(spikes, self.pool)
