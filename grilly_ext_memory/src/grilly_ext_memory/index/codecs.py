"""How rows are stored: as they are, in half precision, or as 8 or 4 bits a number."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

import grilly_core as grilly
from grilly_ext_memory.index.arguments import Vectors, largest_first
from grilly_ext_memory.index.ranking import Hits, nothing, ranked
from grilly_ext_memory.index.segments import Segment
from grilly_ext_memory.ops import distances as ops

__all__ = ["Codec", "Half", "Raw", "Scalar4", "Scalar8", "Task"]

Codes = NDArray[Any]

#: Rows that are decoded at once.
_BLOCK: Final = 1 << 16


@dataclass(frozen=True)
class Task:
    """What is looked for in a run.

    Attributes
    ----------
    queries : ndarray of float32, (Q, D)
    k : int
    metric : str
    device : str
    probes : ndarray of int32, (Q, P), optional
        The lists to look at, -1 for none; all rows are looked at without it.
    centroids : ndarray of float32, (lists, D), optional
        What residuals are relative to, where rows are stored so.
    """

    queries: Vectors
    k: int
    metric: str
    device: str
    probes: NDArray[np.int32] | None = None
    centroids: Vectors | None = None


class Codec(Protocol):
    """How rows become codes, and how codes are searched."""

    kind: str
    residual: bool

    @property
    def is_trained(self) -> bool:
        """Whether `train` has been called, if it must be."""

    def train(self, x: Vectors, seed: int) -> None:
        """Learn from rows."""

    def encode(self, x: Vectors) -> Codes:
        """Return the codes of rows."""

    def decode(self, codes: Codes) -> Vectors:
        """Return rows that the codes stand for."""

    def search(self, run: Segment, task: Task, mask: NDArray[np.bool_] | None) -> Hits:
        """Return the best positions of a run as ids, ties by position."""

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return settings and arrays that `restore` takes."""

    def restore(self, arrays: dict[str, NDArray[Any]]) -> None:
        """Take the arrays of `state`."""


class Raw:
    """Rows as they are, in float32: distances are exact."""

    kind: ClassVar[str] = "flat"
    residual: ClassVar[bool] = False
    is_trained: ClassVar[bool] = True

    def train(self, x: Vectors, seed: int) -> None:
        """There is nothing to learn."""

    def encode(self, x: Vectors) -> Codes:
        """Return the rows."""
        return x

    def decode(self, codes: Codes) -> Vectors:
        """Return the rows."""
        return codes

    def search(self, run: Segment, task: Task, mask: NDArray[np.bool_] | None) -> Hits:
        """Compare the queries with the rows where they lie."""
        rows, offsets = run.on(task.device)
        return _scan(task, rows, offsets, task.probes, mask)

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return nothing."""
        return {}, {}

    def restore(self, arrays: dict[str, NDArray[Any]]) -> None:
        """Take nothing."""


def _scan(task: Task, rows: Any, offsets: Any, probes: Any, mask: Any) -> Hits:
    """Search rows on the device, or only the probed lists of them."""
    queries = grilly.asarray(task.queries, device=task.device)
    allowed = None if mask is None else grilly.asarray(mask, device=task.device)
    with grilly.no_grad():
        if probes is None:
            found = ops.search(queries, rows, allowed, k=task.k, metric=task.metric)
        else:
            looked = grilly.asarray(probes, device=task.device)
            found = ops.list_search(queries, rows, offsets, looked, allowed, k=task.k, metric=task.metric)
    return Hits(found[0].numpy(), found[1].numpy().astype(np.int64))


class _Decoded:
    """A codec whose rows are decoded in blocks and then searched like `Raw`; distances are those to decoded rows."""

    residual: bool = False

    def search(self, run: Segment, task: Task, mask: NDArray[np.bool_] | None) -> Hits:
        """Decode the rows, or those of the probed lists, a block at a time."""
        best = [self._block(run, piece, task, mask) for piece in _pieces(run, task.probes)]
        if not best:
            return nothing(len(task.queries), task.k, largest_first(task.metric))
        parts = (np.concatenate(part, axis=1) for part in zip(*best, strict=True))
        return ranked(*parts, task.k, largest_first(task.metric))

    def _block(self, run: Segment, piece: _Piece, task: Task, mask: Any) -> Hits:
        decoded = self.decode(run.codes[piece.low : piece.high])
        if self.residual and task.centroids is not None and piece.offsets is not None:
            sizes = np.diff(piece.offsets)
            decoded += np.repeat(task.centroids[piece.first : piece.first + len(sizes)], sizes, axis=0)
        rows = grilly.asarray(decoded, device=task.device)
        offsets = None if piece.offsets is None else grilly.asarray(piece.offsets, device=task.device)
        allowed = None if mask is None else mask[piece.low : piece.high]
        found = _scan(task, rows, offsets, piece.probes, allowed)
        return Hits(found.distances, np.where(found.ids < 0, -1, found.ids + piece.low))

    def decode(self, codes: Codes) -> Vectors:
        """Return rows that the codes stand for."""
        raise NotImplementedError


class _Piece(NamedTuple):
    """Rows that are decoded at once: all of some lists, or any where lists play no part."""

    low: int
    high: int
    first: int
    offsets: NDArray[np.int32] | None
    probes: NDArray[np.int32] | None


def _pieces(run: Segment, probes: NDArray[np.int32] | None) -> Iterator[_Piece]:
    """Yield what a search must decode; a list is never cut, and pieces without a probed list are left out."""
    if probes is None:
        for low in range(0, len(run), _BLOCK):
            yield _Piece(low, min(low + _BLOCK, len(run)), 0, None, None)
        return
    first, wanted = 0, np.unique(probes[probes >= 0])
    while first < len(run.offsets) - 1:
        end = int(np.searchsorted(run.offsets, int(run.offsets[first]) + _BLOCK, side="right")) - 1
        last = min(max(end, first + 1), len(run.offsets) - 1)
        low, high = int(run.offsets[first]), int(run.offsets[last])
        if low < high and np.searchsorted(wanted, first) < np.searchsorted(wanted, last):
            inside = (probes >= first) & (probes < last)
            part = np.where(inside, probes - first, -1).astype(np.int32)
            yield _Piece(low, high, first, run.offsets[first : last + 1] - low, part)
        first = last


class Half(_Decoded):
    """Rows in float16: half of the memory, a relative error of 2^-11; beyond 65,504 in size is refused."""

    kind: ClassVar[str] = "f16"
    is_trained: ClassVar[bool] = True

    def train(self, x: Vectors, seed: int) -> None:
        """There is nothing to learn."""

    def encode(self, x: Vectors) -> Codes:
        """Return the rows in float16."""
        if x.size and float(np.abs(x).max()) > 65504.0:
            raise ValueError(
                "f16 codes hold numbers up to 65,504 in size; scale the vectors or use another index."
            )
        return x.astype(np.float16)

    def decode(self, codes: Codes) -> Vectors:
        """Return the rows in float32."""
        return codes.astype(np.float32)

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return nothing."""
        return {}, {}

    def restore(self, arrays: dict[str, NDArray[Any]]) -> None:
        """Take nothing."""


@dataclass
class Scalar8(_Decoded):
    """Each number as one of 256 equal steps between the least and the largest of its column in training.

    The error is at most half of a step within that range; beyond it, numbers are clipped. A constant column is exact.
    """

    kind: ClassVar[str] = "sq8"
    levels: ClassVar[int] = 255
    low: Vectors | None = field(default=None)
    span: Vectors | None = field(default=None)

    @property
    def is_trained(self) -> bool:
        """Whether the ranges are known."""
        return self.low is not None

    def train(self, x: Vectors, seed: int) -> None:
        """Learn the range of each column."""
        self.low = x.min(axis=0)
        self.span = x.max(axis=0) - self.low

    def encode(self, x: Vectors) -> Codes:
        """Return the codes ``(N, D)``, a byte each."""
        assert self.low is not None and self.span is not None
        step = np.where(self.span > 0, self.span, 1) / np.float32(self.levels)
        return np.clip(np.rint((x - self.low) / step), 0, self.levels).astype(np.uint8)

    def decode(self, codes: Codes) -> Vectors:
        """Return the middle of each code's step."""
        assert self.low is not None and self.span is not None
        made: Vectors = codes * (self.span / np.float32(self.levels)) + self.low
        return made

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return the ranges."""
        return {}, {} if self.low is None or self.span is None else {"low": self.low, "span": self.span}

    def restore(self, arrays: dict[str, NDArray[Any]]) -> None:
        """Take the ranges."""
        self.low, self.span = arrays.get("low"), arrays.get("span")


@dataclass
class Scalar4(Scalar8):
    """As `Scalar8` with 16 steps, two numbers in a byte."""

    kind: ClassVar[str] = "sq4"
    levels: ClassVar[int] = 15

    def encode(self, x: Vectors) -> Codes:
        """Return the codes ``(N, ceil(D / 2))``: the even column in the low half of the byte."""
        codes = super().encode(x)
        if codes.shape[1] % 2:
            codes = np.pad(codes, ((0, 0), (0, 1)))
        return codes[:, ::2] | (codes[:, 1::2] << np.uint8(4))

    def decode(self, codes: Codes) -> Vectors:
        """Return the middle of each code's step."""
        assert self.low is not None
        pairs = np.stack([codes & np.uint8(15), codes >> np.uint8(4)], axis=-1)
        return super().decode(pairs.reshape(len(codes), -1)[:, : len(self.low)])
