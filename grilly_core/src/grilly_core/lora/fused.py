"""Adapters of `MultiheadAttention`, whose projections of queries, keys and values are one weight."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any, Self

from grilly_core.lora.adapter import Adapter
from grilly_core.lora.config import LoRAConfig
from grilly_core.lora.layer import LoRALayer
from grilly_core.lora.linear import LoRALinear
from grilly_core.nn.attention import MultiheadAttention
from grilly_core.nn.module import Module
from grilly_core.tensor import Tensor

__all__ = ["LoRAMultiheadAttention"]


class LoRAMultiheadAttention(LoRALayer):
    """Attention with an update of low rank for its input projections together, and one for the output projection.

    The layout is peft's: A has the shape (rank, embed_dim) and B (3 * embed_dim, rank). `split_attention` makes layers
    of the projections instead, so that each can be named and their adapters can drop inputs.

    Parameters
    ----------
    attention : MultiheadAttention
        One whose keys and values are as wide as its queries.

    Notes
    -----
    Files are exchanged with peft, but peft 0.21 adds the update of the output projection twice when it computes: its
    results are those of ``W + 2 * scaling * B @ A`` there.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> from grilly_core import lora, nn
    >>> model = nn.TransformerEncoderLayer(8, 2, 16)
    >>> adapted = lora.LoRAModel(model, lora.LoRAConfig(2, target_modules=["self_attn"]))
    >>> list(adapted.lora_layers())
    ['self_attn', 'self_attn.base_layer.out_proj']
    """

    weight_name = "in_proj_weight"
    base_layer: MultiheadAttention

    @classmethod
    def around(cls, attention: MultiheadAttention) -> Self:
        """Return a layer that computes as `attention`, still without adapters."""
        if attention.in_proj_weight is None:
            raise ValueError(
                "target_modules: keys or values of this MultiheadAttention are not as wide as its queries, so that its "
                "projections are no single weight; call split_attention(model) and name q_proj, k_proj, v_proj."
            )
        self = cls.__new__(cls)
        LoRALayer.__init__(self, attention)
        return self

    def inner_layers(self) -> Iterator[tuple[str, Module]]:
        """Yield the output projection, which gets an adapter of its own."""
        yield "base_layer.out_proj", self.base_layer.out_proj

    def substitute_inner(self, new: Module) -> None:
        """Put another layer in the place of the output projection."""
        self.base_layer.out_proj = new  # type: ignore[assignment]

    @staticmethod
    def wrap_inner(layer: Module) -> LoRALayer:
        """Return the output projection as a layer that takes adapters."""
        assert not isinstance(layer, LoRALayer)
        return LoRALinear.around(layer)  # type: ignore[arg-type]

    def make_adapter(self, config: LoRAConfig) -> Adapter:
        """Return a new adapter that fits this layer; `attach` takes it."""
        if config.use_dora:
            raise ValueError(
                "use_dora: attention with one weight for its projections takes no DoRA; call split_attention(model) "
                "and name its projections."
            )
        if config.dropout > 0:
            warnings.warn(
                f"dropout={config.dropout} does not act on the input projections of a MultiheadAttention, which are "
                "one weight; split_attention(model) makes layers of them.",
                UserWarning,
                stacklevel=2,
            )
        return super().make_adapter(config)

    def _shapes(self, rank: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
        width = self.base_layer.embed_dim
        return (rank, width), (3 * width, rank)

    def _product(self, a: Tensor, b: Tensor) -> Tensor:
        return b @ a

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Call the attention with the updated weight."""
        base = self.base_layer
        if self.merged or not self._enabled or not self._mix:
            return base(*args, **kwargs)
        # a module that shares everything but the weight: the layer itself is never changed by a call
        updated = object.__new__(type(base))
        updated.__dict__.update(base.__dict__, in_proj_weight=self.weight)
        return updated(*args, **kwargs)
