"""Modules: layers, losses and containers, with PyTorch's names, defaults and state-dict keys."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from grilly_core import functional
from grilly_core.nn import init, utils
from grilly_core.nn.activation import *  # noqa: F403
from grilly_core.nn.activation import __all__ as _activation
from grilly_core.nn.activation_settings import *  # noqa: F403
from grilly_core.nn.activation_settings import __all__ as _activation_settings
from grilly_core.nn.affect import AffectMLP
from grilly_core.nn.attention import *  # noqa: F403
from grilly_core.nn.attention import __all__ as _attention
from grilly_core.nn.attention_variants import *  # noqa: F403
from grilly_core.nn.attention_variants import __all__ as _attention_variants
from grilly_core.nn.containers import *  # noqa: F403
from grilly_core.nn.containers import __all__ as _containers
from grilly_core.nn.conv import Conv1d, Conv2d, Conv3d
from grilly_core.nn.decoders import *  # noqa: F403
from grilly_core.nn.decoders import __all__ as _decoders
from grilly_core.nn.dropping import *  # noqa: F403
from grilly_core.nn.dropping import __all__ as _dropping
from grilly_core.nn.instance_norm import *  # noqa: F403
from grilly_core.nn.instance_norm import __all__ as _instance_norm
from grilly_core.nn.kv_cache import KVCache
from grilly_core.nn.lazy import *  # noqa: F403
from grilly_core.nn.lazy import __all__ as _lazy
from grilly_core.nn.linear import Dropout, Embedding, Flatten, Identity, Linear, Unflatten
from grilly_core.nn.lookup import *  # noqa: F403
from grilly_core.nn.lookup import __all__ as _lookup
from grilly_core.nn.loss import *  # noqa: F403
from grilly_core.nn.loss import __all__ as _loss
from grilly_core.nn.loss_contrastive import *  # noqa: F403
from grilly_core.nn.loss_contrastive import __all__ as _loss_contrastive
from grilly_core.nn.loss_likelihood import *  # noqa: F403
from grilly_core.nn.loss_likelihood import __all__ as _loss_likelihood
from grilly_core.nn.loss_linear import *  # noqa: F403
from grilly_core.nn.loss_linear import __all__ as _loss_linear
from grilly_core.nn.loss_margin import *  # noqa: F403
from grilly_core.nn.loss_margin import __all__ as _loss_margin
from grilly_core.nn.module import Module
from grilly_core.nn.norm import *  # noqa: F403
from grilly_core.nn.norm import __all__ as _norm
from grilly_core.nn.padding import *  # noqa: F403
from grilly_core.nn.padding import __all__ as _padding
from grilly_core.nn.parameter import Buffer, Parameter, UninitializedBuffer, UninitializedParameter
from grilly_core.nn.pooling import *  # noqa: F403
from grilly_core.nn.pooling import __all__ as _pooling
from grilly_core.nn.pooling_more import *  # noqa: F403
from grilly_core.nn.pooling_more import __all__ as _pooling_more
from grilly_core.nn.positions import *  # noqa: F403
from grilly_core.nn.positions import __all__ as _positions
from grilly_core.nn.recurrent import GRU, LSTM, RNN
from grilly_core.nn.recurrent_cells import GRUCell, LSTMCell, RNNCell
from grilly_core.nn.resample import *  # noqa: F403
from grilly_core.nn.resample import __all__ as _resample
from grilly_core.nn.transformer import *  # noqa: F403
from grilly_core.nn.transformer import __all__ as _transformer
from grilly_core.nn.transposed import ConvTranspose1d, ConvTranspose2d, ConvTranspose3d
from grilly_core.plugins.loader import load_public

__all__ = [
    "GRU", "LSTM", "RNN", "AffectMLP", "Buffer", "Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d",
    "ConvTranspose3d", "Dropout", "Embedding", "Flatten", "GRUCell", "Identity", "KVCache", "LSTMCell", "Linear",
    "Module", "Parameter", "RNNCell", "Unflatten", "UninitializedBuffer", "UninitializedParameter", "functional",
    "init", "utils",
    *_activation, *_activation_settings, *_attention, *_attention_variants, *_containers, *_decoders, *_dropping,
    *_instance_norm, *_lazy, *_lookup, *_loss, *_loss_contrastive, *_loss_likelihood, *_loss_linear, *_loss_margin,
    *_norm, *_padding, *_pooling, *_pooling_more, *_positions, *_resample,
    *_transformer,
]  # fmt: skip

if not TYPE_CHECKING:  # checkers would take every name for one that exists

    def __getattr__(name: str) -> Any:
        """Find what an extension publishes here, without the facade, or say what to install."""
        if name.startswith("_"):
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return load_public("nn", name, __all__)
