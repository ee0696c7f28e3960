"""Attention whose projections have adapters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Self

from grilly_core.apply import as_tensor
from grilly_core.errors import ShapeError
from grilly_core.lora.config import LoRAConfig
from grilly_core.lora.layer import DEFAULT
from grilly_core.lora.linear import LoRALinear
from grilly_core.lora.targets import outer_modules, substitute
from grilly_core.nn import init
from grilly_core.nn.attention import MultiheadAttention
from grilly_core.nn.linear import Linear
from grilly_core.nn.module import Module
from grilly_core.nn.parameter import Parameter
from grilly_core.random import Generator
from grilly_core.tensor import Tensor

__all__ = ["LoRAAttention", "SplitAttention", "split_attention"]

#: The names under which layers keep each projection.
_NAMES: Final[Mapping[str, tuple[str, ...]]] = {
    "q": ("q_proj", "query", "wq"),
    "k": ("k_proj", "key", "wk"),
    "v": ("v_proj", "value", "wv"),
    "out": ("out_proj", "o_proj", "wo"),
}


class SplitAttention(MultiheadAttention):
    """`MultiheadAttention` with a dense layer for each projection, so that each can have adapters.

    Parameters
    ----------
    attention : MultiheadAttention
        Where the values come from; its output projection is shared, the others are copied.

    Attributes
    ----------
    q_proj, k_proj, v_proj, out_proj : Linear or LoRALinear

    Examples
    --------
    >>> import grilly_core as grilly
    >>> split = grilly.lora.SplitAttention(grilly.nn.MultiheadAttention(8, 2))
    >>> [name for name, _ in split.named_children()]
    ['out_proj', 'q_proj', 'k_proj', 'v_proj']
    """

    q_proj: Module
    k_proj: Module
    v_proj: Module

    def __init__(self, attention: MultiheadAttention) -> None:
        Module.__init__(self)
        for name in (
            "embed_dim",
            "kdim",
            "vdim",
            "num_heads",
            "dropout",
            "batch_first",
            "add_zero_attn",
            "head_dim",
        ):
            setattr(self, name, getattr(attention, name))
        for name in ("in_proj_weight", "q_proj_weight", "k_proj_weight", "v_proj_weight", "in_proj_bias"):
            self.register_parameter(name, None)
        self.register_parameter("bias_k", attention.bias_k)
        self.register_parameter("bias_v", attention.bias_v)
        self.out_proj = attention.out_proj
        if attention.rope is not None:
            self.rope = attention.rope
        for name, layer in _split(attention).items():
            setattr(self, name, layer)
        self.training = attention.training

    def _projected(self, q: Tensor, k: Tensor, v: Tensor) -> list[Tensor]:
        return [self.q_proj(q), self.k_proj(k), self.v_proj(v)]

    def reset_parameters(self, *, rng: Generator | None = None) -> None:
        """Draw the first values of all projections again: Xavier for the weights, zero for the biases."""
        for layer in (self.q_proj, self.k_proj, self.v_proj, self.out_proj):
            for name, parameter in layer.named_parameters(recurse=False):
                init.zeros_(parameter) if name == "bias" else init.xavier_uniform_(parameter, rng=rng)


def _split(attention: MultiheadAttention) -> dict[str, Linear]:
    fused = attention.in_proj_weight
    kept = (attention.q_proj_weight, attention.k_proj_weight, attention.v_proj_weight)
    weights = kept if fused is None else fused.detach().chunk(3)
    bias = attention.in_proj_bias
    biases = [None] * 3 if bias is None else list(bias.detach().chunk(3))
    learnt = any(w is not None and w.requires_grad for w in (fused, *kept))
    names = ("q_proj", "k_proj", "v_proj")
    return {n: _dense(w, b, learnt) for n, w, b in zip(names, weights, biases, strict=True) if w is not None}


def _dense(weight: Tensor, bias: Tensor | None, learnt: bool) -> Linear:
    made = Linear(weight.shape[1], weight.shape[0], bias is not None, weight.device, weight.dtype)
    made.weight = Parameter(weight.detach(), requires_grad=learnt)
    if bias is not None:
        made.bias = Parameter(bias, requires_grad=learnt)
    return made


def split_attention(model: Module) -> Module:
    """Replace every `MultiheadAttention` below by one with a dense layer for each projection; returns the model.

    After that `LoRAConfig` can name ``q_proj``, ``k_proj``, ``v_proj`` and ``out_proj``.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> from grilly_core import lora, nn
    >>> model = lora.split_attention(nn.TransformerEncoderLayer(8, 2, 16))
    >>> list(lora.LoRAModel(model, lora.LoRAConfig(2)).lora_layers())
    ['self_attn.q_proj', 'self_attn.v_proj']
    """
    found = [m for _, m in outer_modules(model) if type(m) is MultiheadAttention]
    substitute(model, {id(m): SplitAttention(m) for m in found})
    return model


class LoRAAttention(Module):
    """Attention with adapters at some of its projections; everything else is frozen.

    Parameters
    ----------
    embed_dim, num_heads : int
    rank : int
    alpha : float
        Updates are scaled by ``alpha / rank``.
    qkv_weights : array_like, (3, embed_dim, embed_dim), optional
        The projections of queries, keys and values, instead of random ones.
    out_weights : array_like, (embed_dim, embed_dim), optional
        The output projection, instead of a random one.
    apply_lora_to : sequence of {"q", "k", "v", "out"}
    dropout : float
        Share of the adapters' inputs that is dropped in training.

    Attributes
    ----------
    attention : Module
    projections : dict of str to LoRALinear

    Examples
    --------
    >>> import grilly_core as grilly
    >>> layer = grilly.lora.LoRAAttention(8, 2, rank=2)
    >>> x = grilly.ones((3, 5, 8))
    >>> layer(x, x, x)[0].shape
    (3, 5, 8)
    """

    attention: Module

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        rank: int = 8,
        alpha: float = 16,
        qkv_weights: Any = None,
        out_weights: Any = None,
        apply_lora_to: Sequence[str] = ("q", "v"),
        dropout: float = 0.0,
    ) -> None:
        config = LoRAConfig(rank, alpha, dropout)
        base = MultiheadAttention(embed_dim, num_heads, batch_first=True)
        if qkv_weights is not None:
            given = as_tensor(qkv_weights)
            _check("qkv_weights", given, (3, embed_dim, embed_dim))
            base.in_proj_weight = Parameter(given.reshape((3 * embed_dim, embed_dim)))
        if out_weights is not None:
            given = as_tensor(out_weights)
            _check("out_weights", given, (embed_dim, embed_dim))
            base.out_proj.weight = Parameter(given)
        self._wrap(base, config, apply_lora_to)

    @classmethod
    def around(
        cls, attention: Module, config: LoRAConfig | None = None, apply_lora_to: Sequence[str] = ("q", "v")
    ) -> Self:
        """Put adapters at the projections of any attention that keeps them as dense layers.

        A `MultiheadAttention` is split first; others are changed in place.
        """
        self = cls.__new__(cls)
        self._wrap(attention, config or LoRAConfig(), apply_lora_to)
        return self

    def _wrap(self, attention: Module, config: LoRAConfig, roles: Sequence[str]) -> None:
        if not roles or isinstance(roles, str) or not set(roles) <= set(_NAMES):
            raise ValueError(f"apply_lora_to: expected some of {list(_NAMES)}; received {roles!r}.")
        split = type(attention) is MultiheadAttention
        target = (
            SplitAttention(attention) if isinstance(attention, MultiheadAttention) and split else attention
        )
        names = [_projection(target, role) for role in roles]
        target.requires_grad_(False)
        for name in names:
            setattr(target, name, LoRALinear.around(getattr(target, name)).add_adapter(DEFAULT, config))
        self.attention = target
        self._roles = dict(zip(roles, names, strict=True))
        self.training = attention.training

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Call the attention."""
        return self.attention(*args, **kwargs)

    @property
    def projections(self) -> dict[str, LoRALinear]:
        """The projections with adapters, by role."""
        return {role: getattr(self.attention, name) for role, name in self._roles.items()}

    def merge_weights(self) -> None:
        """Write the updates into the weights; the originals are kept."""
        for layer in self.projections.values():
            layer.merge_weights()

    def unmerge_weights(self) -> None:
        """Bring the original weights back, bit for bit."""
        for layer in self.projections.values():
            layer.unmerge_weights()

    def enable_lora(self) -> None:
        """Let the adapters act."""
        for layer in self.projections.values():
            layer.enable_lora()

    def disable_lora(self) -> None:
        """Compute as without adapters; merged ones are unmerged."""
        for layer in self.projections.values():
            layer.disable_lora()


def _check(name: str, given: Tensor, shape: tuple[int, ...]) -> None:
    if tuple(given.shape) != shape:
        raise ShapeError(f"{name}: expected shape {shape}; received {tuple(given.shape)}.")


def _projection(attention: Module, role: str) -> str:
    for name in _NAMES[role]:
        if isinstance(getattr(attention, name, None), Linear):
            return name
    raise ValueError(
        f"apply_lora_to: {type(attention).__name__} keeps no dense layer for {role!r} under any of {_NAMES[role]}."
    )
