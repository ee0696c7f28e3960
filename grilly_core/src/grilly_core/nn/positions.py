"""Where a token stands: rotary embeddings, and sinusoids that are added."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np

from grilly_core.apply import as_tensor
from grilly_core.device import Device
from grilly_core.errors import DTypeError, ShapeError
from grilly_core.functional.layers import embedding
from grilly_core.nn.linear import Dropout, positive
from grilly_core.nn.module import Module
from grilly_core.ops.creation import arange, asarray
from grilly_core.ops.structure import concat, stack
from grilly_core.tensor import Tensor

__all__ = ["PositionalEncoding", "RoPE", "RotaryEmbedding"]


def _speeds(head_dim: int, base: float, scaling: float) -> Any:
    """Return the angle by which each pair turns from one position to the next, in float64."""
    return base ** (-2.0 * np.arange(head_dim // 2) / head_dim) / scaling


@lru_cache(maxsize=8)
def _tables(
    length: int, head_dim: int, base: float, scaling: float, dtype: str, device: Device
) -> tuple[Tensor, Tensor]:
    """Return cosines and sines, (length, head_dim / 2): all layers of a model share them."""
    angles = np.arange(length)[:, None] * _speeds(head_dim, base, scaling)
    tables = [asarray(f(angles), dtype=dtype, device=device) for f in (np.cos, np.sin)]
    for table in tables:
        table._value.buffer.constant = (
            True  # so a captured step may use it, though it is in no module's state
        )
    return tables[0], tables[1]


class RotaryEmbedding(Module):
    """Turn pairs of features by an angle that grows with the position (Su et al., RoFormer).

    Pair i of position p turns by ``p / scaling * base ** (-2 i / head_dim)``. Norms stay, and products of queries and
    keys depend on how far apart they stand only.

    Parameters
    ----------
    head_dim : int
        Even.
    max_seq_len : int
        How many positions the table has.
    base : float
    scaling : float
        Positions are divided by this, to fit longer texts into the angles seen in training.
    use_precomputed : bool
        Whether angles come from a table; without it positions have no limit and may be fractions.
    interleaved : bool
        Whether a pair is two neighbours, as in RoFormer, instead of i and ``i + head_dim / 2``, as in GPT-NeoX and
        Llama.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> rope = grilly.nn.RotaryEmbedding(2)
    >>> y = rope(grilly.tensor([[[[1.0, 0.0]], [[1.0, 0.0]]]]))  # one batch, two positions, one head
    >>> [round(n, 4) for n in y[0, 1, 0].tolist()]
    [0.5403, 0.8415]
    """

    def __init__(
        self, head_dim: int, max_seq_len: int = 512, base: float = 10000.0, scaling: float = 1.0,
        use_precomputed: bool = True, interleaved: bool = False,
    ) -> None:  # fmt: skip
        super().__init__()
        positive(head_dim=head_dim, max_seq_len=max_seq_len)
        if head_dim % 2:
            raise ShapeError(f"head_dim: features turn in pairs, so it must be even; received {head_dim}.")
        if not (base > 0 and scaling > 0):
            raise ValueError(f"base and scaling must be positive; received {base} and {scaling}.")
        self.head_dim = head_dim
        self.max_seq_len = max_seq_len
        self.base = base
        self.scaling = scaling
        self.use_precomputed = use_precomputed
        self.interleaved = interleaved

    def forward(
        self, x: Tensor, position_ids: Any = None, *, offset: int = 0, heads_first: bool = False
    ) -> Tensor:
        """Turn (B, S, H, head_dim), or (B, H, S, head_dim) with `heads_first`.

        Parameters
        ----------
        x : Tensor
        position_ids : array_like, (S,) or (B, S), optional
            Counted from `offset` if left out.
        offset : int
            Position of the first token, as after tokens in a cache.
        heads_first : bool
        """
        x = x if isinstance(x, Tensor) else as_tensor(x)
        if x.ndim != 4 or x.shape[3] != self.head_dim:
            raise ShapeError(
                f"RotaryEmbedding: expected 4 axes, the last head_dim={self.head_dim}; received {tuple(x.shape)}."
            )
        if not x.dtype.is_floating:
            raise DTypeError(f"RotaryEmbedding: expected a floating input; received {x.dtype.name}.")
        length = x.shape[2 if heads_first else 1]
        cos, sin = self._turns(x, self._positions(x, position_ids, offset, length))
        axis = 1 if heads_first else 2
        cos, sin = cos.unsqueeze(axis), sin.unsqueeze(axis)
        half = self.head_dim // 2
        if self.interleaved:
            pairs = x.reshape((*x.shape[:3], half, 2))
            a, b = pairs[..., 0], pairs[..., 1]
            return stack([a * cos - b * sin, b * cos + a * sin], axis=-1).reshape(tuple(x.shape))
        a, b = x[..., :half], x[..., half:]
        return concat([a * cos - b * sin, b * cos + a * sin], axis=-1)

    def _positions(self, x: Tensor, given: Any, offset: int, length: int) -> Tensor:
        """Return the positions as (1 or B, S)."""
        if given is None:
            if self.use_precomputed and not 0 <= offset <= self.max_seq_len - length:
                raise IndexError(
                    f"RotaryEmbedding: positions {offset} to {offset + length - 1} are outside of "
                    f"max_seq_len={self.max_seq_len}."
                )
            return arange(offset, offset + length, device=x.device).reshape((1, length))
        ids = asarray(given).to(x.device)
        if tuple(ids.shape) not in ((length,), (1, length), (x.shape[0], length)):
            raise ShapeError(
                f"position_ids: expected shape {(length,)} or {(x.shape[0], length)}; received {tuple(ids.shape)}."
            )
        return ids.reshape((-1, length))

    def _turns(self, x: Tensor, positions: Tensor) -> tuple[Tensor, Tensor]:
        """Return cosine and sine, (1 or B, S, head_dim / 2)."""
        kind = "float64" if x.dtype.name == "float64" else "float32"
        if self.use_precomputed:
            tables = _tables(self.max_seq_len, self.head_dim, self.base, self.scaling, kind, x.device)
            cos, sin = (embedding(positions, table) for table in tables)
        else:
            speeds = asarray(_speeds(self.head_dim, self.base, self.scaling), dtype=kind, device=x.device)
            angles = positions.to(kind).unsqueeze(-1) * speeds
            cos, sin = angles.cos(), angles.sin()
        return cos.to(x.dtype), sin.to(x.dtype)

    def extra_repr(self) -> str:
        """Sizes and the layout of the pairs."""
        return (
            f"{self.head_dim}, max_seq_len={self.max_seq_len}, base={self.base}, scaling={self.scaling}, "
            f"interleaved={self.interleaved}"
        )


RoPE = RotaryEmbedding


class PositionalEncoding(Module):
    """Add sinusoids of the position (Vaswani et al.): sine at even features, cosine at odd ones, then dropout.

    Parameters
    ----------
    d_model : int
    dropout : float
    max_len : int
    batch_first : bool
        Whether inputs are (N, L, E) instead of (L, N, E).

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.nn.PositionalEncoding(2, dropout=0.0)(grilly.zeros((1, 1, 2))).tolist()
    [[[0.0, 1.0]]]
    """

    pe: Tensor

    def __init__(
        self, d_model: int, dropout: float = 0.1, max_len: int = 5000, batch_first: bool = False
    ) -> None:
        super().__init__()
        positive(d_model=d_model, max_len=max_len)
        self.batch_first = batch_first
        self.dropout = Dropout(dropout)
        even = np.arange(0, d_model, 2)
        angles = np.arange(max_len)[:, None] * np.exp(even * (-math.log(10000.0) / d_model))
        table = np.zeros((max_len, d_model), np.float32)
        table[:, 0::2] = np.sin(angles)
        table[:, 1::2] = np.cos(angles[:, : d_model // 2])
        self.register_buffer("pe", asarray(table), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        """Add to (L, N, E), with `batch_first` (N, L, E), or (L, E)."""
        batched = x.ndim == 3
        length = x.shape[1 if batched and self.batch_first else 0]
        if x.ndim not in (2, 3) or x.shape[-1] != self.pe.shape[1] or length > self.pe.shape[0]:
            raise ShapeError(
                f"PositionalEncoding: expected up to {self.pe.shape[0]} positions of width {self.pe.shape[1]}; "
                f"received shape {tuple(x.shape)} with batch_first={self.batch_first}."
            )
        pe = self.pe[:length].to(x.dtype)
        return self.dropout(x + (pe.unsqueeze(1) if batched and not self.batch_first else pe))  # type: ignore[no-any-return]
