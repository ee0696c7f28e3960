"""Attention with shared keys, without projections, with a bias from prosody, and mixing by Fourier transforms."""

from __future__ import annotations

from typing import Any

from grilly_core.apply import as_tensor
from grilly_core.errors import ShapeError
from grilly_core.fft import fft2
from grilly_core.functional.attention import scaled_dot_product_attention
from grilly_core.nn import _masks, init
from grilly_core.nn.attention import MultiheadAttention
from grilly_core.nn.kv_cache import KVCache
from grilly_core.nn.linear import DeviceLike, Linear, positive
from grilly_core.nn.module import Module
from grilly_core.nn.parameter import Parameter
from grilly_core.nn.positions import RotaryEmbedding
from grilly_core.ops.creation import zeros
from grilly_core.tensor import Tensor

__all__ = ["FNetMixing", "FlashAttention2", "GroupedQueryAttention", "ProsodyModulatedAttention"]


class GroupedQueryAttention(Module):
    """Attention in which groups of query heads share a head of keys and values, with rotary positions and a cache.

    Parameters
    ----------
    embed_dim, num_heads : int
    num_kv_heads : int, optional
        Divides `num_heads`; as many if left out, and 1 is multi-query attention.
    head_dim : int, optional
        ``embed_dim / num_heads`` if left out.
    dropout : float
        Probability of dropping a weight in training.
    bias : bool
    rope : RotaryEmbedding, optional
        Applied to queries and keys.
    device : Device or str, optional
    dtype : DType, optional

    Attributes
    ----------
    q_proj, k_proj, v_proj, o_proj : Linear
        Named as in Llama.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> layer = grilly.nn.GroupedQueryAttention(8, 4, 2)
    >>> layer(grilly.ones((1, 5, 8)), is_causal=True).shape
    (1, 5, 8)
    """

    rope: RotaryEmbedding | None

    def __init__(
        self, embed_dim: int, num_heads: int, num_kv_heads: int | None = None, head_dim: int | None = None,
        dropout: float = 0.0, bias: bool = False, rope: RotaryEmbedding | None = None, device: DeviceLike = None,
        dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__()
        groups = num_heads if num_kv_heads is None else num_kv_heads
        positive(embed_dim=embed_dim, num_heads=num_heads, num_kv_heads=groups)
        if num_heads % groups:
            raise ShapeError(f"num_kv_heads: must divide num_heads={num_heads}; received {groups}.")
        if head_dim is None and embed_dim % num_heads:
            raise ShapeError(f"embed_dim: must be divisible by num_heads={num_heads}; received {embed_dim}.")
        if not 0 <= dropout <= 1:
            raise ValueError(f"dropout: must lie in [0, 1]; received {dropout}.")
        self.embed_dim = embed_dim
        self.num_heads = num_heads
        self.num_kv_heads = groups
        self.head_dim = embed_dim // num_heads if head_dim is None else head_dim
        self.dropout = dropout
        how: dict[str, Any] = {"bias": bias, "device": device, "dtype": dtype}
        self.q_proj = Linear(embed_dim, num_heads * self.head_dim, **how)
        self.k_proj = Linear(embed_dim, groups * self.head_dim, **how)
        self.v_proj = Linear(embed_dim, groups * self.head_dim, **how)
        self.o_proj = Linear(num_heads * self.head_dim, embed_dim, **how)
        self.register_module("rope", rope)

    def forward(
        self, x: Tensor, mask: Any = None, is_causal: bool = False, *, position_ids: Any = None,
        cache: KVCache | None = None, layer: int = 0,
    ) -> Tensor:  # fmt: skip
        """Map (B, S, embed_dim) to the same shape.

        Parameters
        ----------
        x : Tensor
        mask : array_like, optional
            Broadcasts to (B, num_heads, S, keys), keys of the cache included. Boolean: True keeps. Floating: added.
        is_causal : bool
            With a cache, the last of the new tokens sees all keys.
        position_ids : array_like, (S,) or (B, S), optional
            For the rotary embedding; counted on from the cache if left out.
        cache : KVCache, optional
            Keys and values are appended to it, and what it holds is attended to.
        layer : int
            Which layer of the cache is this one's.
        """
        x = x if isinstance(x, Tensor) else as_tensor(x, self.q_proj.weight)
        if x.ndim != 3 or x.shape[2] != self.embed_dim:
            raise ShapeError(
                f"GroupedQueryAttention: expected (B, S, {self.embed_dim}); received shape {tuple(x.shape)}."
            )
        n, length, _ = x.shape
        q, k, v = (self._heads(project(x)) for project in (self.q_proj, self.k_proj, self.v_proj))
        if self.rope is not None:
            offset = 0 if cache is None else cache.position(layer)
            q, k = (self.rope(y, position_ids, offset=offset, heads_first=True) for y in (q, k))
        if cache is not None:
            k, v = cache.append(layer, k, v)
        y = scaled_dot_product_attention(
            q, k, v, mask, self.dropout if self.training else 0.0, is_causal, enable_gqa=True,
            causal_alignment="lower_right" if is_causal else None,
        )  # fmt: skip
        return self.o_proj(y.transpose(1, 2).reshape((n, length, -1)))  # type: ignore[no-any-return]

    def _heads(self, x: Tensor) -> Tensor:
        return x.reshape((*x.shape[:2], -1, self.head_dim)).transpose(1, 2)


class FlashAttention2(Module):
    """Exact attention without projections and without storing the scores (Dao, 2023).

    Parameters
    ----------
    embed_dim, num_heads : int
    use_rope : bool
        Whether queries and keys are turned by their positions first.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> x = grilly.ones((1, 5, 8))
    >>> grilly.nn.FlashAttention2(8, 2)(x, x, x).shape
    (1, 5, 8)
    """

    rope: RotaryEmbedding | None

    def __init__(self, embed_dim: int, num_heads: int, use_rope: bool = False) -> None:
        super().__init__()
        positive(embed_dim=embed_dim, num_heads=num_heads)
        if embed_dim % num_heads:
            raise ShapeError(f"embed_dim: must be divisible by num_heads={num_heads}; received {embed_dim}.")
        self.embed_dim = embed_dim
        self.num_heads = num_heads
        self.head_dim = embed_dim // num_heads
        rope = RotaryEmbedding(self.head_dim, use_precomputed=False) if use_rope else None
        self.register_module("rope", rope)

    def forward(
        self, query: Tensor, key: Tensor, value: Tensor, mask: Any = None, is_causal: bool = False
    ) -> Tensor:
        """Attend with (B, S, H, head_dim) or (B, S, embed_dim); the output has the query's layout.

        `mask` broadcasts to (B, H, Sq, Sk): True keeps, floating ones are added.
        """
        q, k, v = (self._heads(x) for x in (query, key, value))
        if self.rope is not None:
            q, k = self.rope(q), self.rope(k)
        q, k, v = (x.transpose(1, 2) for x in (q, k, v))
        y = scaled_dot_product_attention(q, k, v, mask, is_causal=is_causal)
        return y.transpose(1, 2).reshape(tuple(query.shape))

    def _heads(self, x: Tensor) -> Tensor:
        heads = (self.num_heads, self.head_dim)
        if x.ndim == 3 and x.shape[2] == self.embed_dim:
            return x.reshape((*x.shape[:2], *heads))
        if x.ndim != 4 or tuple(x.shape[2:]) != heads:
            raise ShapeError(
                f"FlashAttention2: expected (B, S, {self.embed_dim}) or (B, S, {heads[0]}, {heads[1]}); received shape "
                f"{tuple(x.shape)}."
            )
        return x


class ProsodyModulatedAttention(Module):
    """Multi-head attention whose scores are shifted by the prosody of the keys.

    Score ``(b, h, i, j)`` gets ``strength * sum_p prosody[b, j, p] * prosody_weight[h, p]`` before the softmax; a
    prosody of zeros is plain attention.

    Parameters
    ----------
    embed_dim, num_heads : int
    prosody_dim : int
        How many numbers describe a key, such as pitch and energy.
    dropout : float
    prosody_strength : float
    device : Device or str, optional
    dtype : DType, optional

    Attributes
    ----------
    attention : MultiheadAttention
    prosody_weight : Parameter, (num_heads, prosody_dim)

    Examples
    --------
    >>> import grilly_core as grilly
    >>> x = grilly.ones((1, 5, 8))
    >>> y, weights = grilly.nn.ProsodyModulatedAttention(8, 2)(x, x, x, grilly.ones((1, 5, 2)))
    >>> y.shape, weights.shape
    ((1, 5, 8), (1, 2, 5, 5))
    """

    def __init__(
        self, embed_dim: int, num_heads: int, prosody_dim: int = 2, dropout: float = 0.0,
        prosody_strength: float = 0.3, device: DeviceLike = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__()
        positive(prosody_dim=prosody_dim)
        how: dict[str, Any] = {"device": device, "dtype": dtype}
        self.attention = MultiheadAttention(embed_dim, num_heads, dropout, batch_first=True, **how)
        self.prosody_dim = prosody_dim
        self.prosody_strength = prosody_strength
        self.prosody_weight = Parameter(zeros((num_heads, prosody_dim), **how))
        init.xavier_uniform_(self.prosody_weight)

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        prosody: Any,
        mask: Any = None,
        need_weights: bool = True,
    ) -> tuple[Tensor, Tensor | None]:
        """Return the output (B, Sq, E), and the weights (B, H, Sq, Sk) or None.

        Parameters
        ----------
        query, key, value : Tensor, (B, S, E)
        prosody : array_like, (B, Sk, P) or (B, P)
            (B, P) means the same for every key, which shifts all scores of a query alike and so changes no weight.
        mask : array_like, optional
            Broadcasts to (B, H, Sq, Sk): True keeps, floating ones are added.
        need_weights : bool
        """
        like = self.prosody_weight
        n, keys = key.shape[:2]
        bias = _masks.prosody_bias(prosody, like, self.prosody_strength, (n, keys))
        masks = [bias]
        if mask is not None:
            scores = (n, self.attention.num_heads, query.shape[1], keys)
            masks.append(_masks.keeping(mask, scores, "mask", like))
        return self.attention(  # type: ignore[no-any-return]
            query, key, value, need_weights=need_weights, average_attn_weights=False,
            mask=_masks.combined(masks, like),
        )  # fmt: skip


class FNetMixing(Module):
    """Mix tokens by the real part of a Fourier transform over positions and features (Lee-Thorp et al., FNet).

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.nn.FNetMixing()(grilly.ones((2, 2))).tolist()
    [[4.0, 0.0], [0.0, 0.0]]
    """

    def forward(self, x: Tensor) -> Tensor:
        """Map (B, S, D) or (S, D) to the same shape."""
        x = x if isinstance(x, Tensor) else as_tensor(x)
        if x.ndim not in (2, 3):
            raise ShapeError(f"FNetMixing: expected (B, S, D) or (S, D); received shape {tuple(x.shape)}.")
        return fft2(x).real
