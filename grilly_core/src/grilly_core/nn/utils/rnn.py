"""Sequences of different lengths in one batch: padded, or packed step by step without the padding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from grilly_core.apply import as_tensor
from grilly_core.device import Device
from grilly_core.errors import ShapeError
from grilly_core.ops import structure
from grilly_core.ops.creation import asarray
from grilly_core.ops.primitives import gather, where
from grilly_core.ops.views import permute_dims
from grilly_core.tensor import Tensor

__all__ = [
    "PackedSequence", "pack_padded_sequence", "pack_sequence", "pad_packed_sequence", "pad_sequence",
    "unpack_sequence", "unpad_sequence",
]  # fmt: skip

Counts = NDArray[np.int32]


class PackedSequence(NamedTuple):
    """A batch of sequences without padding, longest first; recurrent layers take and return it.

    Attributes
    ----------
    data : Tensor
        All first steps, then all second steps, and so on.
    batch_sizes : Tensor of int
        How many sequences have each step; on the CPU.
    sorted_indices, unsorted_indices : Tensor of int or None
        The order of the sequences by length, and the way back; None if they came in that order.
    """

    data: Tensor
    batch_sizes: Tensor
    sorted_indices: Tensor | None = None
    unsorted_indices: Tensor | None = None

    def to(self, *args: Any, **kwargs: Any) -> PackedSequence:
        """Move the data, and with it the orders; arguments as for `Tensor.to`."""
        data = self.data.to(*args, **kwargs)
        orders = (None if i is None else i.to(data.device) for i in self[2:])
        return PackedSequence(data, self.batch_sizes, *orders)

    def cpu(self) -> PackedSequence:
        """Move the data to the CPU."""
        return self.to("cpu")

    @property
    def device(self) -> Device:
        """Where the data are."""
        return self.data.device


def lengths_of(batch_sizes: Tensor) -> Counts:
    """Return the length of each sequence of a packed batch, longest first."""
    sizes = batch_sizes.numpy()
    return np.asarray((sizes[:, None] > np.arange(sizes[0])).sum(0), np.int32)


def _places(lengths: Counts, order: Counts, total: int) -> tuple[Counts, Counts]:
    """Return the rows of a padded ``(total * N)`` batch that a packed one has, and the batch sizes."""
    steps = np.arange(int(lengths.max()))[:, None] < lengths[order]
    rows = np.arange(len(steps))[:, None] * len(order) + order
    assert len(steps) <= total
    return rows[steps].astype(np.int32), steps.sum(1).astype(np.int32)


def packed_rows(padded: Tensor, lengths: Counts, order: Counts) -> tuple[Tensor, Counts]:
    """Return the rows of ``(T, N, ...)`` in packed order, and the batch sizes."""
    rows, sizes = _places(lengths, order, padded.shape[0])
    flat = padded.reshape((padded.shape[0] * padded.shape[1], *padded.shape[2:]))
    return gather(flat, asarray(rows, device=padded.device), axis=0), sizes


def padded_rows(
    data: Tensor, lengths: Counts, order: Counts, total: int, padding_value: float = 0.0
) -> Tensor:
    """Return ``(total, N, ...)`` from packed rows; `order` says which sequence each place takes."""
    rows, _ = _places(lengths, np.arange(len(lengths), dtype=np.int32), total)
    places = np.full(total * len(lengths), -1, np.int32)
    places[rows] = np.arange(len(rows))
    places = places.reshape(total, -1)[:, order].reshape(-1)
    shape = (total, len(lengths), *data.shape[1:])
    gathered = gather(data, asarray(np.maximum(places, 0), device=data.device), axis=0).reshape(shape)
    if (places >= 0).all():
        return gathered
    inside = asarray((places >= 0).reshape(total, -1, *(1,) * (data.ndim - 1)), device=data.device)
    # a Python float would make integers floating
    value = padding_value if data.dtype.is_differentiable else int(padding_value)
    return where(inside, gathered, value)


def _swapped(x: Tensor) -> Tensor:
    swapped: Tensor = permute_dims(x, axes=(1, 0, *range(2, x.ndim)))
    return swapped


def _counts(lengths: Any, batch: int, longest: int) -> Counts:
    given = lengths.numpy() if isinstance(lengths, Tensor) else np.asarray(lengths)
    if given.shape != (batch,) or given.dtype.kind not in "iu":
        raise ShapeError(
            f"lengths: expected {batch} integers, one for each sequence; received {given.dtype} of shape {given.shape}."
        )
    if batch == 0 or given.min() < 1 or given.max() > longest:
        raise ValueError(f"lengths: expected numbers from 1 to {longest}; received {given.tolist()}.")
    return given.astype(np.int32)


def pack_padded_sequence(
    input: Any, lengths: Any, batch_first: bool = False, enforce_sorted: bool = True
) -> PackedSequence:
    """Pack a padded batch.

    Parameters
    ----------
    input : array_like, (T, N, ...) or (N, T, ...)
    lengths : sequence or tensor of int, (N,)
        From 1 to T.
    batch_first : bool
        Whether the batch is the first axis.
    enforce_sorted : bool
        Raise if the sequences are not sorted by length, longest first; False sorts them.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> x = grilly.tensor([[1.0, 2.0], [3.0, 0.0]])
    >>> packed = grilly.nn.utils.rnn.pack_padded_sequence(x, [2, 1], batch_first=True)
    >>> packed.data.tolist(), packed.batch_sizes.tolist()
    ([1.0, 3.0, 2.0], [2, 1])
    """
    x = as_tensor(input)
    if x.ndim < 2:
        raise ShapeError(f"pack_padded_sequence: expected (T, N, ...); received shape {tuple(x.shape)}.")
    x = _swapped(x) if batch_first else x
    counts = _counts(lengths, x.shape[1], x.shape[0])
    order = np.argsort(-counts, kind="stable").astype(np.int32)
    if enforce_sorted and (np.diff(counts) > 0).any():
        raise ValueError(
            f"pack_padded_sequence: lengths must not increase; received {counts.tolist()}. Sort the sequences, or pass "
            "enforce_sorted=False."
        )
    data, sizes = packed_rows(x, counts, order)
    orders: tuple[Tensor, ...] = ()
    if not enforce_sorted:
        orders = tuple(asarray(i.astype(np.int32), device=x.device) for i in (order, np.argsort(order)))
    return PackedSequence(data, asarray(sizes, device="cpu"), *orders)


def pad_packed_sequence(
    sequence: PackedSequence, batch_first: bool = False, padding_value: float = 0.0, total_length: int | None = None
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Pad a packed batch, in the order in which its sequences came.

    Parameters
    ----------
    sequence : PackedSequence
    batch_first : bool
        Whether the batch becomes the first axis.
    padding_value : float
    total_length : int, optional
        Pad to this many steps instead of to the longest sequence.

    Returns
    -------
    padded : Tensor
    lengths : Tensor of int

    Examples
    --------
    >>> import grilly_core as grilly
    >>> from grilly_core.nn.utils import rnn
    >>> packed = rnn.pack_sequence([grilly.tensor([1.0, 2.0]), grilly.tensor([3.0])])
    >>> rnn.pad_packed_sequence(packed, batch_first=True)[0].tolist()
    [[1.0, 2.0], [3.0, 0.0]]
    """
    lengths = lengths_of(sequence.batch_sizes)
    total = len(sequence.batch_sizes) if total_length is None else total_length
    if total < len(sequence.batch_sizes):
        raise ValueError(
            f"total_length: expected at least {len(sequence.batch_sizes)}, the longest sequence; received {total}."
        )
    back = sequence.unsorted_indices
    order = np.arange(len(lengths), dtype=np.int32) if back is None else back.numpy()
    padded = padded_rows(sequence.data, lengths, order, total, padding_value)
    return _swapped(padded) if batch_first else padded, asarray(lengths[order], device="cpu")


def pad_sequence(
    sequences: Sequence[Any],
    batch_first: bool = False,
    padding_value: float = 0.0,
    padding_side: str = "right",
) -> Tensor:
    """Stack sequences of different lengths, padded to the longest.

    Parameters
    ----------
    sequences : sequence of array_like, each (T, ...)
    batch_first : bool
        Whether the batch is the first axis of the result.
    padding_value : float
    padding_side : {"right", "left"}

    Examples
    --------
    >>> import grilly_core as grilly
    >>> from grilly_core.nn.utils import rnn
    >>> rnn.pad_sequence([grilly.tensor([1, 2]), grilly.tensor([3])], batch_first=True).tolist()
    [[1, 2], [3, 0]]
    """
    if padding_side not in ("right", "left"):
        raise ValueError(f"padding_side: expected 'right' or 'left'; received {padding_side!r}.")
    given = [as_tensor(s) for s in sequences]
    if not given:
        raise ValueError("pad_sequence: received no sequences.")
    longest = max(s.shape[0] for s in given)
    parts = []
    for s in given:
        missing = longest - s.shape[0]
        widths = ((0, missing) if padding_side == "right" else (missing, 0), *((0, 0),) * (s.ndim - 1))
        parts.append(structure.pad(s, widths=widths, value=padding_value) if missing else s)
    stacked: Tensor = structure.stack(parts, axis=0 if batch_first else 1)
    return stacked


def unpad_sequence(padded_sequences: Any, lengths: Any, batch_first: bool = False) -> list[Tensor]:
    """Undo `pad_sequence`.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> from grilly_core.nn.utils import rnn
    >>> [s.tolist() for s in rnn.unpad_sequence(grilly.tensor([[1, 2], [3, 0]]), [2, 1], batch_first=True)]
    [[1, 2], [3]]
    """
    x = as_tensor(padded_sequences)
    x = x if batch_first else _swapped(x)
    counts = _counts(lengths, x.shape[0], x.shape[1])
    return [x[i, :n] for i, n in enumerate(counts.tolist())]


def pack_sequence(sequences: Sequence[Any], enforce_sorted: bool = True) -> PackedSequence:
    """Pack sequences of different lengths; see `pack_padded_sequence`.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.nn.utils.rnn.pack_sequence([grilly.tensor([1, 2]), grilly.tensor([3])]).data.tolist()
    [1, 3, 2]
    """
    given = [as_tensor(s) for s in sequences]
    return pack_padded_sequence(
        pad_sequence(given), [s.shape[0] for s in given], enforce_sorted=enforce_sorted
    )


def unpack_sequence(packed_sequences: PackedSequence) -> list[Tensor]:
    """Undo `pack_sequence`.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> from grilly_core.nn.utils import rnn
    >>> packed = rnn.pack_sequence([grilly.tensor([1, 2]), grilly.tensor([3])])
    >>> [s.tolist() for s in rnn.unpack_sequence(packed)]
    [[1, 2], [3]]
    """
    padded, lengths = pad_packed_sequence(packed_sequences, batch_first=True)
    return unpad_sequence(padded, lengths, batch_first=True)
