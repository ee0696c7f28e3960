"""Transformer layers and stacks of them, with PyTorch's parameters and masks."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Any

from grilly_core.apply import as_tensor
from grilly_core.errors import ShapeError
from grilly_core.functional.activations import gelu, relu, silu
from grilly_core.nn import init
from grilly_core.nn._masks import prosody_bias
from grilly_core.nn.attention import MultiheadAttention
from grilly_core.nn.containers import ModuleList
from grilly_core.nn.linear import DeviceLike, Dropout, Linear, positive
from grilly_core.nn.module import Module
from grilly_core.nn.norm import LayerNorm
from grilly_core.nn.parameter import Parameter
from grilly_core.nn.positions import RotaryEmbedding
from grilly_core.ops.creation import full, zeros
from grilly_core.ops.creation import triu as upper
from grilly_core.random import Generator
from grilly_core.tensor import Tensor

__all__ = [
    "Transformer", "TransformerDecoder", "TransformerDecoderLayer", "TransformerEncoder", "TransformerEncoderLayer",
    "generate_square_subsequent_mask",
]  # fmt: skip

Activation = str | Callable[[Any], Tensor]
_PROSODY_STRENGTH = 0.3  # as in `ProsodyModulatedAttention`
_ACTIVATIONS: dict[str, Callable[[Any], Tensor]] = {"relu": relu, "gelu": gelu, "silu": silu}


def generate_square_subsequent_mask(sz: int, device: DeviceLike = None, dtype: Any = None) -> Tensor:
    """Return a causal mask to be added to scores: ``-inf`` above the diagonal, else 0.

    Examples
    --------
    >>> generate_square_subsequent_mask(2).tolist()
    [[0.0, -inf], [0.0, 0.0]]
    """
    return upper(full((sz, sz), -math.inf, dtype=dtype, device=device), k=1)


def _activation(given: Activation) -> Callable[[Any], Tensor]:
    if callable(given):
        return given
    if given not in _ACTIVATIONS:
        raise ValueError(
            f"activation: expected one of {sorted(_ACTIVATIONS)} or a function; received {given!r}."
        )
    return _ACTIVATIONS[given]


def _rope(wanted: bool, d_model: int, nhead: int) -> RotaryEmbedding | None:
    return RotaryEmbedding(d_model // nhead, use_precomputed=False) if wanted else None


class _Layer(Module):
    """What the layers of encoder and decoder share: two projections with an activation between."""

    linear1: Linear
    linear2: Linear
    dropout: Dropout

    def __init__(self, activation: Activation, norm_first: bool) -> None:
        super().__init__()
        self.activation = _activation(activation)
        self.norm_first = norm_first

    def _forward(self, x: Tensor) -> Tensor:
        return self.linear2(self.dropout(self.activation(self.linear1(x))))  # type: ignore[no-any-return]

    def _around(self, x: Tensor, norm: LayerNorm, drop: Dropout, block: Callable[[Tensor], Tensor]) -> Tensor:
        """Return x plus a block's output, normalised on one side of it."""
        if self.norm_first:
            return x + drop(block(norm(x)))  # type: ignore[no-any-return]
        return norm(x + drop(block(x)))  # type: ignore[no-any-return]


class TransformerEncoderLayer(_Layer):
    """Self-attention, then two projections; each with a residual connection and normalised.

    Parameters
    ----------
    d_model, nhead, dim_feedforward : int
        Widths of the input and of the hidden layer, and the number of heads.
    dropout : float
    activation : {"relu", "gelu", "silu"} or callable
    layer_norm_eps : float
    batch_first : bool
        Whether the inputs are (N, L, E) instead of (L, N, E).
    norm_first : bool
        Whether to normalise before each block instead of after its residual connection.
    bias : bool
        Whether projections and normalisations have biases.
    device : Device or str, optional
    dtype : DType, optional
    use_rope : bool
        Whether queries and keys are turned by their positions (`RotaryEmbedding`).
    use_prosody : bool
        Whether there is a ``prosody_weight``, (nhead, 2), by which the prosody of the keys shifts the scores, as in
        `ProsodyModulatedAttention`.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.nn.TransformerEncoderLayer(8, 2, 16)(grilly.ones((5, 3, 8))).shape
    (5, 3, 8)
    """

    prosody_weight: Parameter | None

    def __init__(
        self, d_model: int, nhead: int, dim_feedforward: int = 2048, dropout: float = 0.1,
        activation: Activation = relu, layer_norm_eps: float = 1e-5, batch_first: bool = False,
        norm_first: bool = False, bias: bool = True, device: DeviceLike = None, dtype: Any = None, *,
        use_rope: bool = False, use_prosody: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(activation, norm_first)
        how: dict[str, Any] = {"bias": bias, "device": device, "dtype": dtype}
        self.self_attn = MultiheadAttention(
            d_model,
            nhead,
            dropout=dropout,
            batch_first=batch_first,
            rope=_rope(use_rope, d_model, nhead),
            **how,
        )
        self.linear1 = Linear(d_model, dim_feedforward, **how)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, **how)
        self.norm1 = LayerNorm(d_model, eps=layer_norm_eps, **how)
        self.norm2 = LayerNorm(d_model, eps=layer_norm_eps, **how)
        self.dropout1 = Dropout(dropout)
        self.dropout2 = Dropout(dropout)
        self.register_parameter("prosody_weight", None)
        if use_prosody:
            self.prosody_weight = Parameter(zeros((nhead, 2), device=device, dtype=dtype))
            init.xavier_uniform_(self.prosody_weight)

    def forward(
        self, src: Tensor, src_mask: Any = None, src_key_padding_mask: Any = None, is_causal: bool = False, *,
        prosody: Any = None,
    ) -> Tensor:  # fmt: skip
        """Map (L, N, E), with `batch_first` (N, L, E), or (L, E) to the same shape.

        `src_mask` and `src_key_padding_mask` are the ``attn_mask`` and ``key_padding_mask`` of
        `MultiheadAttention` (True drops); with `is_causal` each position sees those up to it, with or without a mask.
        `prosody`, (N, L, 2) whatever the layout of `src`, is for layers with `use_prosody`; without it they are plain.
        """
        src = src if isinstance(src, Tensor) else as_tensor(src, self.linear1.weight)
        bias = None if prosody is None else self._bias(src, prosody)

        def attend(x: Tensor) -> Tensor:
            y, _ = self.self_attn(
                x, x, x, src_key_padding_mask, False, src_mask, is_causal=is_causal, mask=bias
            )
            return y  # type: ignore[no-any-return]

        x = self._around(src, self.norm1, self.dropout1, attend)
        return self._around(x, self.norm2, self.dropout2, self._forward)

    def _bias(self, src: Tensor, prosody: Any) -> Tensor:
        """Return what the prosody adds to the scores."""
        if self.prosody_weight is None:
            raise TypeError("prosody: this layer was made without use_prosody=True.")
        shape = tuple(src.shape[:-1]) if src.ndim == 3 else (src.shape[0], 1)
        keys = shape if self.self_attn.batch_first and src.ndim == 3 else shape[::-1]
        given = prosody if isinstance(prosody, Tensor) else as_tensor(prosody, self.prosody_weight)
        if src.ndim == 2:
            given = given.unsqueeze(0)
        return prosody_bias(given, self.prosody_weight, _PROSODY_STRENGTH, (keys[0], keys[1]))


class TransformerDecoderLayer(_Layer):
    """Self-attention, attention to a memory, then two projections; each with a residual connection and normalised.

    Parameters
    ----------
    d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first, norm_first, bias
        As for `TransformerEncoderLayer`.
    device : Device or str, optional
    dtype : DType, optional
    use_rope : bool
        Whether queries and keys of the self-attention are turned by their positions.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> layer = grilly.nn.TransformerDecoderLayer(8, 2, 16)
    >>> layer(grilly.ones((5, 3, 8)), grilly.ones((7, 3, 8))).shape
    (5, 3, 8)
    """

    def __init__(
        self, d_model: int, nhead: int, dim_feedforward: int = 2048, dropout: float = 0.1,
        activation: Activation = relu, layer_norm_eps: float = 1e-5, batch_first: bool = False,
        norm_first: bool = False, bias: bool = True, device: DeviceLike = None, dtype: Any = None, *,
        use_rope: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(activation, norm_first)
        how: dict[str, Any] = {"bias": bias, "device": device, "dtype": dtype}
        self.self_attn = MultiheadAttention(
            d_model,
            nhead,
            dropout=dropout,
            batch_first=batch_first,
            rope=_rope(use_rope, d_model, nhead),
            **how,
        )
        self.multihead_attn = MultiheadAttention(
            d_model, nhead, dropout=dropout, batch_first=batch_first, **how
        )
        self.linear1 = Linear(d_model, dim_feedforward, **how)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, **how)
        self.norm1 = LayerNorm(d_model, eps=layer_norm_eps, **how)
        self.norm2 = LayerNorm(d_model, eps=layer_norm_eps, **how)
        self.norm3 = LayerNorm(d_model, eps=layer_norm_eps, **how)
        self.dropout1 = Dropout(dropout)
        self.dropout2 = Dropout(dropout)
        self.dropout3 = Dropout(dropout)

    def forward(
        self, tgt: Tensor, memory: Tensor, tgt_mask: Any = None, memory_mask: Any = None,
        tgt_key_padding_mask: Any = None, memory_key_padding_mask: Any = None, tgt_is_causal: bool = False,
        memory_is_causal: bool = False,
    ) -> Tensor:  # fmt: skip
        """Map `tgt`, (L, N, E), to the same shape, attending to `memory`, (S, N, E). Masks are as in the encoder."""

        def attend(x: Tensor) -> Tensor:
            y, _ = self.self_attn(x, x, x, tgt_key_padding_mask, False, tgt_mask, is_causal=tgt_is_causal)
            return y  # type: ignore[no-any-return]

        def recall(x: Tensor) -> Tensor:
            y, _ = self.multihead_attn(
                x, memory, memory, memory_key_padding_mask, False, memory_mask, is_causal=memory_is_causal
            )
            return y  # type: ignore[no-any-return]

        x = self._around(tgt, self.norm1, self.dropout1, attend)
        x = self._around(x, self.norm2, self.dropout2, recall)
        return self._around(x, self.norm3, self.dropout3, self._forward)


class TransformerEncoder(Module):
    """A stack of encoder layers, all copies of one.

    Parameters
    ----------
    encoder_layer : Module
        It is copied, values included.
    num_layers : int
    norm : Module, optional
        Applied to the output.
    enable_nested_tensor, mask_check : bool
        Hints to PyTorch's nested tensors, for code written for it: results are the same with and without them.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> encoder = grilly.nn.TransformerEncoder(grilly.nn.TransformerEncoderLayer(8, 2, 16), 2)
    >>> encoder(grilly.ones((5, 3, 8))).shape
    (5, 3, 8)
    """

    norm: Module | None

    def __init__(
        self, encoder_layer: Module, num_layers: int, norm: Module | None = None, enable_nested_tensor: bool = True,
        mask_check: bool = True,
    ) -> None:  # fmt: skip
        super().__init__()
        positive(num_layers=num_layers)
        self.layers = ModuleList(copy.deepcopy(encoder_layer) for _ in range(num_layers))
        self.num_layers = num_layers
        self.register_module("norm", norm)
        self.enable_nested_tensor = enable_nested_tensor
        self.mask_check = mask_check

    def forward(
        self, src: Tensor, mask: Any = None, src_key_padding_mask: Any = None, is_causal: bool | None = None, *,
        prosody: Any = None,
    ) -> Tensor:  # fmt: skip
        """Pass `src` through all layers; the arguments are theirs."""
        x = src
        more = {} if prosody is None else {"prosody": prosody}  # layers of others need not know of it
        for layer in self.layers:
            x = layer(
                x, src_mask=mask, src_key_padding_mask=src_key_padding_mask, is_causal=bool(is_causal), **more
            )
        return x if self.norm is None else self.norm(x)


class TransformerDecoder(Module):
    """A stack of decoder layers, all copies of one.

    Parameters
    ----------
    decoder_layer : Module
        It is copied, values included.
    num_layers : int
    norm : Module, optional
        Applied to the output.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> decoder = grilly.nn.TransformerDecoder(grilly.nn.TransformerDecoderLayer(8, 2, 16), 2)
    >>> decoder(grilly.ones((5, 3, 8)), grilly.ones((7, 3, 8))).shape
    (5, 3, 8)
    """

    norm: Module | None

    def __init__(self, decoder_layer: Module, num_layers: int, norm: Module | None = None) -> None:
        super().__init__()
        positive(num_layers=num_layers)
        self.layers = ModuleList(copy.deepcopy(decoder_layer) for _ in range(num_layers))
        self.num_layers = num_layers
        self.register_module("norm", norm)

    def forward(
        self, tgt: Tensor, memory: Tensor, tgt_mask: Any = None, memory_mask: Any = None,
        tgt_key_padding_mask: Any = None, memory_key_padding_mask: Any = None, tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:  # fmt: skip
        """Pass `tgt` through all layers, each attending to `memory`; the arguments are theirs."""
        x = tgt
        for layer in self.layers:
            x = layer(
                x, memory, tgt_mask=tgt_mask, memory_mask=memory_mask, tgt_key_padding_mask=tgt_key_padding_mask,
                memory_key_padding_mask=memory_key_padding_mask, tgt_is_causal=bool(tgt_is_causal),
                memory_is_causal=memory_is_causal,
            )  # fmt: skip
        return x if self.norm is None else self.norm(x)


class Transformer(Module):
    """An encoder, and a decoder that attends to its output.

    Parameters
    ----------
    d_model, nhead, num_encoder_layers, num_decoder_layers, dim_feedforward : int
    dropout, activation, layer_norm_eps, batch_first, norm_first, bias
        As for `TransformerEncoderLayer`.
    custom_encoder, custom_decoder : Module, optional
        Instead of those that the sizes describe.
    device : Device or str, optional
    dtype : DType, optional

    Examples
    --------
    >>> import grilly_core as grilly
    >>> model = grilly.nn.Transformer(8, 2, 1, 1, 16)
    >>> model(grilly.ones((7, 3, 8)), grilly.ones((5, 3, 8)), tgt_is_causal=True).shape
    (5, 3, 8)
    """

    def __init__(
        self, d_model: int = 512, nhead: int = 8, num_encoder_layers: int = 6, num_decoder_layers: int = 6,
        dim_feedforward: int = 2048, dropout: float = 0.1, activation: Activation = relu,
        custom_encoder: Module | None = None, custom_decoder: Module | None = None, layer_norm_eps: float = 1e-5,
        batch_first: bool = False, norm_first: bool = False, bias: bool = True, device: DeviceLike = None,
        dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__()
        how: dict[str, Any] = {"bias": bias, "device": device, "dtype": dtype}
        same = (d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first, norm_first)
        self.encoder = custom_encoder or TransformerEncoder(
            TransformerEncoderLayer(*same, **how),
            num_encoder_layers,
            LayerNorm(d_model, layer_norm_eps, **how),
        )
        self.decoder = custom_decoder or TransformerDecoder(
            TransformerDecoderLayer(*same, **how),
            num_decoder_layers,
            LayerNorm(d_model, layer_norm_eps, **how),
        )
        self.d_model = d_model
        self.nhead = nhead
        self.batch_first = batch_first
        self.reset_parameters()

    def reset_parameters(self, *, rng: Generator | None = None) -> None:
        """Draw all matrices again by Xavier's rule, so that the layers differ; vectors stay."""
        for parameter in self.parameters():
            if parameter.ndim > 1:
                init.xavier_uniform_(parameter, rng=rng)

    @staticmethod
    def generate_square_subsequent_mask(sz: int, device: DeviceLike = None, dtype: Any = None) -> Tensor:
        """Return a causal mask to be added to scores: ``-inf`` above the diagonal, else 0."""
        return generate_square_subsequent_mask(sz, device, dtype)

    def forward(
        self, src: Tensor, tgt: Tensor, src_mask: Any = None, tgt_mask: Any = None, memory_mask: Any = None,
        src_key_padding_mask: Any = None, tgt_key_padding_mask: Any = None, memory_key_padding_mask: Any = None,
        src_is_causal: bool | None = None, tgt_is_causal: bool | None = None, memory_is_causal: bool = False,
    ) -> Tensor:  # fmt: skip
        """Map `src`, (S, N, E), and `tgt`, (L, N, E), to (L, N, E); masks are as in the layers."""
        like = next(iter(self.parameters()), None)
        src, tgt = (x if isinstance(x, Tensor) else as_tensor(x, like) for x in (src, tgt))
        self._check(src, tgt)
        memory = self.encoder(
            src, mask=src_mask, src_key_padding_mask=src_key_padding_mask, is_causal=src_is_causal
        )
        return self.decoder(  # type: ignore[no-any-return]
            tgt, memory, tgt_mask=tgt_mask, memory_mask=memory_mask, tgt_key_padding_mask=tgt_key_padding_mask,
            memory_key_padding_mask=memory_key_padding_mask, tgt_is_causal=tgt_is_causal,
            memory_is_causal=memory_is_causal,
        )  # fmt: skip

    def _check(self, src: Tensor, tgt: Tensor) -> None:
        shapes = f"received {tuple(src.shape)} and {tuple(tgt.shape)} with batch_first={self.batch_first}."
        if src.ndim != tgt.ndim or src.ndim not in (2, 3):
            raise ShapeError(
                f"Transformer: src and tgt must both have 3 axes, or 2 without a batch; {shapes}"
            )
        batch = 0 if self.batch_first else 1
        if src.ndim == 3 and src.shape[batch] != tgt.shape[batch]:
            raise ShapeError(f"Transformer: src and tgt must have the same batch; {shapes}")
        if src.shape[-1] != self.d_model or tgt.shape[-1] != self.d_model:
            raise ShapeError(f"Transformer: the last axes must be d_model={self.d_model}; {shapes}")
