"""Attention for spiking networks: by spikes, without a softmax, and by weights for steps, channels and pixels."""

from __future__ import annotations

from typing import Any, ClassVar

import grilly_core as grilly
from grilly_core.errors import ShapeError
from grilly_core.nn import BatchNorm1d, Conv2d, Linear, Module
from grilly_core.nn.linear import positive
from grilly_core.tensor import Tensor
from grilly_ext_snn.functional._arguments import finite, tensor
from grilly_ext_snn.nn.nodes import LIFNode

__all__ = [
    "ChannelQKAttention", "MultiDimensionalAttention", "QKAttention", "SpikingSelfAttention", "TemporalWiseAttention",
    "TokenQKAttention",
]  # fmt: skip


class _SpikingLinear(Module):
    """A linear map, batch normalisation and leaky neurons, over ``(T, B, N, D)``."""

    def __init__(self, features: int, v_threshold: float) -> None:
        super().__init__()
        self.linear = Linear(features, features)
        self.norm = BatchNorm1d(features)
        self.node = _neurons(v_threshold)

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm(self.linear(x).reshape(-1, x.shape[-1]))
        spikes: Tensor = self.node(y.reshape(*x.shape))
        return spikes


def _neurons(v_threshold: float) -> LIFNode:
    return LIFNode(decay_input=True, v_threshold=v_threshold, detach_reset=True, step_mode="m")


class _Heads(Module):
    """What attention by spikes has in common: shapes, heads and the map behind."""

    def __init__(self, embed_dim: int, num_heads: int, v_threshold: float) -> None:
        super().__init__()
        who = type(self).__name__
        positive(embed_dim=embed_dim, num_heads=num_heads)
        finite(who, v_threshold=v_threshold)
        if embed_dim % num_heads:
            raise ValueError(
                f"{who}: embed_dim must be a multiple of num_heads; received {embed_dim} and {num_heads}."
            )
        self.embed_dim, self.num_heads = embed_dim, num_heads
        self.q, self.k = _SpikingLinear(embed_dim, v_threshold), _SpikingLinear(embed_dim, v_threshold)
        self.out = _SpikingLinear(embed_dim, v_threshold)

    def _checked(self, x: Any) -> Tensor:
        made = tensor(x)
        if made.ndim != 4 or made.shape[-1] != self.embed_dim:
            raise ShapeError(
                f"{type(self).__name__}: expected (T, B, N, {self.embed_dim}); received {tuple(made.shape)}."
            )
        return made

    def _split(self, x: Tensor) -> Tensor:
        """``(T, B, N, D)`` to ``(T, B, heads, N, D / heads)``."""
        t, b, n, d = x.shape
        return x.reshape(t, b, n, self.num_heads, d // self.num_heads).permute(0, 1, 3, 2, 4)

    def _join(self, x: Tensor) -> Tensor:
        t, b, h, n, d = x.shape
        return x.permute(0, 1, 3, 2, 4).reshape(t, b, n, h * d)


class SpikingSelfAttention(_Heads):
    """Self-attention of Spikformer (Zhou et al. 2023): ``LIF(q k^T v / 8)`` of spikes q, k, v, without a softmax.

    q, k, v and the output are ``LIF(BN(Linear(x)))``; the neurons behind the product have half the threshold.

    Parameters
    ----------
    embed_dim, num_heads : int
    v_threshold : float

    Examples
    --------
    >>> import grilly
    >>> from grilly_ext_snn.nn.attention import SpikingSelfAttention
    >>> y = SpikingSelfAttention(16, num_heads=4)(grilly.randn(3, 2, 5, 16))
    >>> y.shape, sorted(set(y.reshape(-1).tolist()) | {0.0, 1.0})
    ((3, 2, 5, 16), [0.0, 1.0])
    """

    scale: ClassVar[float] = 0.125

    def __init__(self, embed_dim: int, num_heads: int = 8, v_threshold: float = 1.0) -> None:
        super().__init__(embed_dim, num_heads, v_threshold)
        self.v = _SpikingLinear(embed_dim, v_threshold)
        self.node = _neurons(0.5 * v_threshold)

    def forward(self, x: Any) -> Tensor:
        """Return spikes ``(T, B, N, D)``."""
        made = self._checked(x)
        q, k, v = (self._split(part(made)) for part in (self.q, self.k, self.v))
        # k^T v first: no softmax stands between, and N is usually the larger
        mixed = q @ (k.permute(0, 1, 2, 4, 3) @ v) * self.scale
        spikes: Tensor = self.out(self.node(self._join(mixed)))
        return spikes


class QKAttention(_Heads):
    """Attention of QKFormer (Zhou et al. 2024): spikes of q, summed up, let tokens or channels of k through.

    ``a = LIF(sum of q)``, and the output is ``LIF(BN(Linear(a k)))``: linear in tokens and channels.

    Parameters
    ----------
    embed_dim, num_heads : int
    mode : {"token", "channel"}
        Sum over the channels of a head, and choose tokens; or sum over the tokens, and choose channels.
    v_threshold : float

    Examples
    --------
    >>> import grilly
    >>> from grilly_ext_snn.nn.attention import QKAttention
    >>> QKAttention(16, num_heads=4, mode="channel")(grilly.randn(3, 2, 5, 16)).shape
    (3, 2, 5, 16)
    """

    def __init__(
        self, embed_dim: int, num_heads: int = 8, mode: str = "token", v_threshold: float = 1.0
    ) -> None:
        super().__init__(embed_dim, num_heads, v_threshold)
        if mode not in ("token", "channel"):
            raise ValueError(f"{type(self).__name__}: mode is 'token' or 'channel'; received {mode!r}.")
        self.mode = mode
        self.node = _neurons(0.5 * v_threshold)

    def forward(self, x: Any) -> Tensor:
        """Return spikes ``(T, B, N, D)``."""
        made = self._checked(x)
        q, k = self._split(self.q(made)), self._split(self.k(made))
        chosen = self.node(q.sum(-1 if self.mode == "token" else -2, keepdim=True))
        spikes: Tensor = self.out(self._join(chosen * k))
        return spikes


class TokenQKAttention(QKAttention):
    """`QKAttention` that chooses tokens.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> from grilly_ext_snn.nn.attention import TokenQKAttention
    >>> TokenQKAttention(8, num_heads=2)(grilly.ones((4, 1, 6, 8))).shape
    (4, 1, 6, 8)
    """

    def __init__(self, embed_dim: int, num_heads: int = 8, v_threshold: float = 1.0) -> None:
        super().__init__(embed_dim, num_heads, "token", v_threshold)


class ChannelQKAttention(QKAttention):
    """`QKAttention` that chooses channels.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> from grilly_ext_snn.nn.attention import ChannelQKAttention
    >>> ChannelQKAttention(8, num_heads=2)(grilly.ones((4, 1, 6, 8))).shape
    (4, 1, 6, 8)
    """

    def __init__(self, embed_dim: int, num_heads: int = 8, v_threshold: float = 1.0) -> None:
        super().__init__(embed_dim, num_heads, "channel", v_threshold)


class _Squeeze(Module):
    """``sigmoid(mlp(mean) + mlp(max))`` over all axes of ``(T, B, C, ...)`` but the batch and one other."""

    def __init__(self, size: int, reduction: int, axis: int) -> None:
        super().__init__()
        positive(size=size, reduction=reduction)
        inner = max(1, size // reduction)
        self.down, self.up = Linear(size, inner, bias=False), Linear(inner, size, bias=False)
        self.axis = axis

    def forward(self, x: Tensor) -> Tensor:
        others = [a for a in range(x.ndim) if a not in (1, self.axis)]
        total: Any = 0.0
        for pooled in (x.mean(others), x.amax(others)):
            by_sample = pooled if self.axis > 1 else pooled.permute(1, 0)
            total = total + self.up(grilly.functional.relu(self.down(by_sample)))
        weights = grilly.functional.sigmoid(total)
        shape = [1] * x.ndim
        shape[1], shape[self.axis] = x.shape[1], x.shape[self.axis]
        result: Tensor = (weights if self.axis > 1 else weights.permute(1, 0)).reshape(*shape)
        return result


class TemporalWiseAttention(Module):
    """Weigh the steps of ``(T, B, C, ...)`` by what happens in them (Yao et al. 2021).

    Parameters
    ----------
    T, channels : int
        Of the input, which is checked.
    reduction : int
        By how much the inner layer has fewer units than T.

    Examples
    --------
    >>> import grilly
    >>> from grilly_ext_snn.nn.attention import TemporalWiseAttention
    >>> TemporalWiseAttention(4, 3, reduction=2)(grilly.ones((4, 2, 3, 5, 5))).shape
    (4, 2, 3, 5, 5)
    """

    def __init__(self, T: int, channels: int, reduction: int = 4) -> None:
        super().__init__()
        self.T, self.channels = T, channels
        self.time = _Squeeze(T, reduction, 0)

    def forward(self, x: Any) -> Tensor:
        """Return the weighed steps."""
        made = _sized(self, x, self.T, self.channels, 3)
        return made * self.time(made)


class MultiDimensionalAttention(Module):
    """Weigh steps, then channels, then pixels of ``(T, B, C, H, W)``, and rectify (Yao et al. 2023).

    Parameters
    ----------
    T, channels : int
    reduction_t, reduction_c : int
        By how much the inner layers have fewer units.
    kernel_size : int
        Of the convolution that weighs pixels; odd.

    Examples
    --------
    >>> import grilly
    >>> from grilly_ext_snn.nn.attention import MultiDimensionalAttention
    >>> MultiDimensionalAttention(4, 3)(grilly.ones((4, 2, 3, 5, 5))).shape
    (4, 2, 3, 5, 5)
    """

    def __init__(
        self, T: int, channels: int, reduction_t: int = 4, reduction_c: int = 4, kernel_size: int = 3
    ) -> None:
        super().__init__()
        if kernel_size < 1 or kernel_size % 2 == 0:
            raise ValueError(f"MultiDimensionalAttention: kernel_size must be odd; received {kernel_size!r}.")
        self.T, self.channels = T, channels
        self.time, self.channel = _Squeeze(T, reduction_t, 0), _Squeeze(channels, reduction_c, 2)
        self.pixels = Conv2d(2, 1, kernel_size, padding=kernel_size // 2, bias=False)

    def forward(self, x: Any) -> Tensor:
        """Return what is left after the three weights."""
        made = _sized(self, x, self.T, self.channels, 5)
        made = made * self.time(made)
        made = made * self.channel(made)
        two = grilly.stack([made.mean((0, 2)), made.amax((0, 2))], axis=1)
        weights = grilly.functional.sigmoid(self.pixels(two))
        result: Tensor = grilly.functional.relu(made * weights.unsqueeze(0))
        return result


def _sized(module: Module, x: Any, T: int, channels: int, axes: int) -> Tensor:
    made = tensor(x)
    enough = made.ndim == axes if axes == 5 else made.ndim >= axes
    if not enough or made.shape[0] != T or made.shape[2] != channels:
        raise ShapeError(
            f"{type(module).__name__}: expected ({T}, B, {channels}, {'H, W' if axes == 5 else '...'}); received "
            f"{tuple(made.shape)}."
        )
    return made
