"""Multi-head attention with projections, with PyTorch's parameters and masks."""

from __future__ import annotations

import math
from typing import Any

from grilly_core.apply import as_tensor
from grilly_core.errors import ShapeError
from grilly_core.functional.attention import scaled_dot_product_attention
from grilly_core.functional.layers import dropout as drop
from grilly_core.nn import _masks, init
from grilly_core.nn.linear import DeviceLike, Linear, positive
from grilly_core.nn.module import Module
from grilly_core.nn.parameter import Parameter
from grilly_core.nn.positions import RotaryEmbedding
from grilly_core.ops.creation import zeros
from grilly_core.ops.nn_conv import linear
from grilly_core.ops.structure import concat
from grilly_core.random import Generator
from grilly_core.tensor import Tensor

__all__ = ["MultiheadAttention"]


class MultiheadAttention(Module):
    """Attend with several heads: project, attend in each head, join the heads, project.

    Parameters
    ----------
    embed_dim : int
        Width of the queries and of the output; each head has ``embed_dim / num_heads``.
    num_heads : int
    dropout : float
        Probability of dropping a weight in training.
    bias : bool
        Whether the projections have biases.
    add_bias_kv : bool
        Append one learnt key and value.
    add_zero_attn : bool
        Append one key and value of zeros.
    kdim, vdim : int, optional
        Widths of the keys and of the values; `embed_dim` if left out.
    batch_first : bool
        Whether the inputs are (N, L, E) instead of (L, N, E).
    device : Device or str, optional
    dtype : DType, optional
    rope : RotaryEmbedding, optional
        Turns queries and keys by their positions.

    Attributes
    ----------
    in_proj_weight : Parameter, (3 * embed_dim, embed_dim), or None
        The projections of queries, keys and values, one below the other.
    q_proj_weight, k_proj_weight, v_proj_weight : Parameter or None
        Instead of `in_proj_weight` if `kdim` or `vdim` differ from `embed_dim`.
    in_proj_bias : Parameter, (3 * embed_dim,) or None
    bias_k, bias_v : Parameter, (1, 1, embed_dim) or None
    out_proj : Linear

    Examples
    --------
    >>> import grilly_core as grilly
    >>> attention = grilly.nn.MultiheadAttention(8, 2, batch_first=True)
    >>> x = grilly.ones((3, 5, 8))
    >>> y, weights = attention(x, x, x)
    >>> y.shape, weights.shape
    ((3, 5, 8), (3, 5, 5))
    """

    in_proj_weight: Parameter | None
    q_proj_weight: Parameter | None
    k_proj_weight: Parameter | None
    v_proj_weight: Parameter | None
    in_proj_bias: Parameter | None
    bias_k: Parameter | None
    bias_v: Parameter | None

    rope: RotaryEmbedding | None = None  # so that subclasses with parameters of their own need not set it

    def __init__(
        self, embed_dim: int, num_heads: int, dropout: float = 0.0, bias: bool = True, add_bias_kv: bool = False,
        add_zero_attn: bool = False, kdim: int | None = None, vdim: int | None = None, batch_first: bool = False,
        device: DeviceLike = None, dtype: Any = None, *, rope: RotaryEmbedding | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        positive(embed_dim=embed_dim, num_heads=num_heads)
        self.embed_dim = embed_dim
        self.kdim = embed_dim if kdim is None else kdim
        self.vdim = embed_dim if vdim is None else vdim
        positive(kdim=self.kdim, vdim=self.vdim)
        if embed_dim % num_heads:
            raise ShapeError(
                f"embed_dim: must be divisible by num_heads={num_heads}; received embed_dim={embed_dim}."
            )
        if not 0 <= dropout <= 1:
            raise ValueError(f"dropout: must lie in [0, 1]; received {dropout}.")
        self.num_heads = num_heads
        self.dropout = dropout
        self.batch_first = batch_first
        self.add_zero_attn = add_zero_attn
        self.head_dim = embed_dim // num_heads
        how: dict[str, Any] = {"device": device, "dtype": dtype}
        self._create(bias, add_bias_kv, how)
        self.out_proj = Linear(embed_dim, embed_dim, bias=bias, **how)
        if rope is not None:
            self.rope = rope
        self.reset_parameters()

    def _create(self, bias: bool, add_bias_kv: bool, how: dict[str, Any]) -> None:
        e = self.embed_dim
        joint = self.kdim == self.vdim == e
        shapes: dict[str, tuple[int, ...] | None] = {
            "q_proj_weight": None if joint else (e, e),
            "k_proj_weight": None if joint else (e, self.kdim),
            "v_proj_weight": None if joint else (e, self.vdim),
            "in_proj_weight": (3 * e, e) if joint else None,
            "in_proj_bias": (3 * e,) if bias else None,
            "bias_k": (1, 1, e) if add_bias_kv else None,
            "bias_v": (1, 1, e) if add_bias_kv else None,
        }
        for name, shape in shapes.items():
            self.register_parameter(name, None if shape is None else Parameter(zeros(shape, **how)))

    def reset_parameters(self, *, rng: Generator | None = None) -> None:
        """Draw the first values again, by PyTorch's rules: Xavier for the weights, zero for the biases."""
        for weight in (self.in_proj_weight, self.q_proj_weight, self.k_proj_weight, self.v_proj_weight):
            if weight is not None:
                init.xavier_uniform_(weight, rng=rng)
        self.out_proj.reset_parameters(rng=rng)
        for bias in (self.in_proj_bias, self.out_proj.bias):
            if bias is not None:
                init.zeros_(bias)
        for extra in (self.bias_k, self.bias_v):
            if extra is not None:
                init.xavier_normal_(extra, rng=rng)

    def forward(
        self, query: Tensor, key: Tensor, value: Tensor, key_padding_mask: Any = None, need_weights: bool = True,
        attn_mask: Any = None, average_attn_weights: bool = True, is_causal: bool = False, *, mask: Any = None,
    ) -> tuple[Tensor, Tensor | None]:  # fmt: skip
        """Return the output, and the weights or None.

        All masks that are given hold together. A query that sees no key gets zeros from the attention.

        Parameters
        ----------
        query : Tensor, (L, N, E)
            With `batch_first` (N, L, E); (L, E) without a batch. The others likewise.
        key : Tensor, (S, N, kdim)
        value : Tensor, (S, N, vdim)
        key_padding_mask : array_like, (N, S), optional
            Boolean: True *drops* the key, PyTorch's way in modules. Floating: added to the scores.
        need_weights : bool
            Whether to return the weights; without them nothing of the size (L, S) is stored.
        attn_mask : array_like, (L, S) or (N * num_heads, L, S), optional
            Boolean: True *drops*, unlike in `scaled_dot_product_attention`. Floating: added to the scores.
        average_attn_weights : bool
            Whether the weights are the mean over the heads, (N, L, S), instead of (N, num_heads, L, S).
        is_causal : bool
            Query i sees keys up to i. PyTorch asks for the same as `attn_mask` beside it, which is not needed here.
        mask : array_like, optional
            Broadcasts to (N, num_heads, L, S). Boolean: True *keeps*, as everywhere else. Floating: added.
        """
        (q, k, v), batched = self._read(query, key, value)
        n, length, keys = q.shape[0], q.shape[1], k.shape[1]
        scores = (n, self.num_heads, length, keys)
        q, k, v = self._projected(q, k, v)
        if self.rope is not None:
            q, k = self._turned(self.rope, q), self._turned(self.rope, k)
        masks = [
            read(given, scores, name, q)
            for read, given, name in (
                (_masks.blocking, attn_mask, "attn_mask"),
                (_masks.padding, key_padding_mask, "key_padding_mask"),
                (_masks.keeping, mask, "mask"),
            )
            if given is not None
        ]
        k, v = self._extended(k, v)
        extra = k.shape[1] - keys
        if extra and is_causal:  # the appended keys are seen by all
            masks.append(_masks.causal(length, keys, q))
            is_causal = False
        joined = _masks.combined(masks, q)
        if joined is not None and extra:
            joined = _with_seen(joined, keys, extra)
        q, k, v = (self._heads(x) for x in (q, k, v))
        y, weights = self._attend(q, k, v, joined, is_causal, need_weights)
        y = self.out_proj(y.transpose(1, 2).reshape((n, length, self.embed_dim)))
        if weights is not None and average_attn_weights:
            weights = weights.mean(1)
        if not batched:
            return y.squeeze(0), None if weights is None else weights.squeeze(0)
        return y if self.batch_first else y.transpose(0, 1), weights

    def _read(self, *given: Any) -> tuple[list[Tensor], bool]:
        """Return query, key and value as (N, positions, width), and whether they had a batch."""
        read = [x if isinstance(x, Tensor) else as_tensor(x, self.out_proj.weight) for x in given]
        shapes = ", ".join(str(tuple(x.shape)) for x in read)
        ranks = {x.ndim for x in read}
        if ranks not in ({2}, {3}):
            raise ShapeError(
                "MultiheadAttention: query, key and value must all have 3 axes, or 2 without a batch; received "
                f"{shapes}."
            )
        batched = ranks == {3}
        if not batched:
            read = [x.unsqueeze(0) for x in read]
        elif not self.batch_first:
            same: dict[int, Tensor] = {}  # what was one tensor stays one, so that it is projected at once
            read = [same.setdefault(id(x), x.transpose(0, 1)) for x in read]
        q, k, v = read
        widths = (self.embed_dim, self.kdim, self.vdim)
        fits = tuple(x.shape[2] for x in read) == widths
        if not fits or k.shape[1] != v.shape[1] or not q.shape[0] == k.shape[0] == v.shape[0]:
            raise ShapeError(
                f"MultiheadAttention: query, key and value must have the widths {widths} and the same batch, key and "
                f"value the same positions; received {shapes} with batch_first={self.batch_first}."
            )
        return read, batched

    def _projected(self, q: Tensor, k: Tensor, v: Tensor) -> list[Tensor]:
        e = self.embed_dim
        if self.in_proj_weight is None:
            biases = [None] * 3 if self.in_proj_bias is None else self.in_proj_bias.chunk(3)
            weights = (self.q_proj_weight, self.k_proj_weight, self.v_proj_weight)
            both = zip((q, k, v), weights, biases, strict=True)
            return [linear(x, w, b) for x, w, b in both if w is not None]
        if q is k and k is v:
            return list(linear(q, self.in_proj_weight, self.in_proj_bias).chunk(3, -1))
        weight, bias = self.in_proj_weight, self.in_proj_bias
        first = linear(q, weight[:e], None if bias is None else bias[:e])
        rest, rest_bias = weight[e:], None if bias is None else bias[e:]
        if k is v:
            return [first, *linear(k, rest, rest_bias).chunk(2, -1)]
        halves = [None, None] if rest_bias is None else [rest_bias[:e], rest_bias[e:]]
        return [first, linear(k, rest[:e], halves[0]), linear(v, rest[e:], halves[1])]

    def _extended(self, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Append the keys and values that do not come from the input."""
        n, e = k.shape[0], self.embed_dim
        if self.bias_k is not None and self.bias_v is not None:
            k = concat([k, self.bias_k.broadcast_to((n, 1, e))], axis=1)
            v = concat([v, self.bias_v.broadcast_to((n, 1, e))], axis=1)
        if self.add_zero_attn:
            k, v = (concat([x, x.new_zeros((n, 1, e))], axis=1) for x in (k, v))
        return k, v

    def _turned(self, rope: RotaryEmbedding, x: Tensor) -> Tensor:
        split = x.reshape((*x.shape[:2], self.num_heads, self.head_dim))
        return rope(split).reshape(tuple(x.shape))  # type: ignore[no-any-return]

    def _heads(self, x: Tensor) -> Tensor:
        return x.reshape((*x.shape[:2], self.num_heads, self.head_dim)).transpose(1, 2)

    def _attend(
        self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, is_causal: bool, need_weights: bool
    ) -> tuple[Tensor, Tensor | None]:
        p = self.dropout if self.training else 0.0
        if not need_weights:
            return scaled_dot_product_attention(q, k, v, mask, p, is_causal), None
        scores = (q * (1.0 / math.sqrt(self.head_dim))) @ k.transpose(2, 3)
        weights = _masks.weights_of(scores, mask, is_causal)
        if p:
            weights = drop(weights, p)
        return weights @ v, weights


def _with_seen(mask: Tensor, keys: int, extra: int) -> Tensor:
    """Widen a mask by keys that all queries see."""
    if mask.shape[3] != keys:  # one value for all the keys that there were
        mask = mask.broadcast_to((*mask.shape[:3], keys))
    shape = (*mask.shape[:3], extra)
    seen = mask.new_zeros(shape) if mask.dtype.is_floating else mask.new_ones(shape)
    return concat([mask, seen], axis=3)
