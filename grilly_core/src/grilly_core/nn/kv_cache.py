"""Keys and values of the tokens that a model has read, so that each is computed once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from grilly_core.apply import as_tensor
from grilly_core.config import no_grad
from grilly_core.errors import ShapeError, StateDictError
from grilly_core.ops.creation import asarray
from grilly_core.ops.structure import concat
from grilly_core.tensor import Tensor

__all__ = ["KVCache"]


class KVCache:
    """Keys and values of several layers, (B, H, L, D) each.

    It holds values: gradients do not go back to what was appended earlier. Memory grows by doubling, so that appending
    a token at a time does not copy what is there.

    Parameters
    ----------
    num_layers : int
    max_length : int, optional
        More positions than this are an error; make room with `evict` or `truncate`.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> cache = grilly.nn.KVCache(num_layers=1)
    >>> for _ in range(2):
    ...     k, v = cache.append(0, grilly.ones((1, 2, 3, 4)), grilly.ones((1, 2, 3, 4)))
    >>> k.shape, len(cache)
    ((1, 2, 6, 4), 6)
    """

    def __init__(self, num_layers: int, max_length: int | None = None) -> None:
        if num_layers < 1 or (max_length is not None and max_length < 1):
            raise ValueError(
                f"num_layers and max_length must be positive; received {num_layers} and {max_length}."
            )
        self.num_layers = num_layers
        self.max_length = max_length
        self._stored: list[list[Tensor] | None] = [None] * num_layers
        self._lengths = [0] * num_layers
        self._seen = [0] * num_layers

    def __len__(self) -> int:
        """Positions in the first layer."""
        return self._lengths[0]

    def length(self, layer: int = 0) -> int:
        """Return how many positions a layer holds."""
        return self._lengths[layer]

    def position(self, layer: int = 0) -> int:
        """Return the position of the next token: how many were appended, whatever was evicted since."""
        return self._seen[layer]

    def append(self, layer: int, key: Any, value: Any) -> tuple[Tensor, Tensor]:
        """Append keys and values, and return all that the layer holds.

        Parameters
        ----------
        layer : int
        key : array_like, (B, H, L, D)
        value : array_like, (B, H, L, D')
        """
        pair = [(x if isinstance(x, Tensor) else as_tensor(x)).detach() for x in (key, value)]
        if any(x.ndim != 4 for x in pair) or pair[0].shape[:3] != pair[1].shape[:3]:
            shapes = " and ".join(str(tuple(x.shape)) for x in pair)
            raise ShapeError(f"KVCache: expected a key and a value (B, H, L, D); received {shapes}.")
        start, new = self._lengths[layer], pair[0].shape[2]
        end = start + new
        if self.max_length is not None and end > self.max_length:
            raise ShapeError(
                f"KVCache: {end} positions are more than max_length={self.max_length}; evict some, or raise it."
            )
        stored = self._room(layer, pair, end)
        with no_grad():
            for cell, x in zip(stored, pair, strict=True):
                cell[:, :, start:end] = x
        self._lengths[layer] = end
        self._seen[layer] += new
        return self.get(layer)

    def _room(self, layer: int, pair: list[Tensor], end: int) -> list[Tensor]:
        """Return the layer's tensors with room for `end` positions."""
        stored = self._stored[layer]
        if stored is None:
            size = end if self.max_length is None else self.max_length
            stored = [x.new_zeros((*x.shape[:2], size, x.shape[3])) for x in pair]
        for cell, x in zip(stored, pair, strict=True):
            if (*cell.shape[:2], cell.shape[3]) != (*x.shape[:2], x.shape[3]) or cell.dtype is not x.dtype:
                raise ShapeError(
                    f"KVCache: layer {layer} holds {cell.dtype.name} of shape {tuple(cell.shape)}; received "
                    f"{x.dtype.name} of shape {tuple(x.shape)}."
                )
        if end > stored[0].shape[2]:
            size = max(end, 2 * stored[0].shape[2])
            more = (size if self.max_length is None else min(size, self.max_length)) - stored[0].shape[2]
            stored = [concat([c, c.new_zeros((*c.shape[:2], more, c.shape[3]))], axis=2) for c in stored]
        self._stored[layer] = stored
        return stored

    def get(self, layer: int = 0) -> tuple[Tensor, Tensor]:
        """Return the keys and values that a layer holds."""
        stored = self._stored[layer]
        if stored is None:
            raise LookupError(f"KVCache: nothing was appended to layer {layer} yet.")
        key, value = (cell[:, :, : self._lengths[layer]] for cell in stored)
        return key, value

    def _replace(self, layer: int, change: Any) -> None:
        pair = [change(x) for x in self.get(layer)]
        self._stored[layer] = [Tensor(x._value) for x in pair]
        self._lengths[layer] = pair[0].shape[2]

    def evict(self, keep: Any, layer: int | None = None) -> None:
        """Keep these positions (indices, in their order) of one layer or of all, and forget the rest.

        `position` stays, so that later tokens get the embeddings that follow.
        """
        for i in self._layers(layer):
            indices = asarray(keep, dtype="int32", device=self.get(i)[0].device)
            if indices.ndim != 1:
                raise ShapeError(
                    f"evict: expected a list of positions; received shape {tuple(indices.shape)}."
                )
            host = indices.numpy()
            if host.size and not (host.min() >= 0 and host.max() < self._lengths[i]):
                raise IndexError(
                    f"evict: positions must lie in 0 to {self._lengths[i] - 1}; received {host.tolist()}."
                )
            self._replace(i, lambda x, at=indices: x.index_select(2, at))

    def truncate(self, length: int) -> None:
        """Forget all positions from `length` on, as after rejected tokens."""
        for i in self._layers(None):
            if not 0 <= length <= self._lengths[i]:
                raise ValueError(f"truncate: expected 0 to {self._lengths[i]}; received {length}.")
            self._seen[i] -= self._lengths[i] - length
            self._lengths[i] = length

    def reorder(self, rows: Any) -> None:
        """Let row i of the batch go on from what row ``rows[i]`` was, as beam search does."""
        for i in self._layers(None):
            indices = asarray(rows, dtype="int32", device=self.get(i)[0].device)
            self._replace(i, lambda x, at=indices: x.index_select(0, at))

    def reset(self) -> None:
        """Forget everything."""
        self._stored = [None] * self.num_layers
        self._lengths = [0] * self.num_layers
        self._seen = [0] * self.num_layers

    def _layers(self, layer: int | None) -> list[int]:
        chosen = range(self.num_layers) if layer is None else [layer]
        return [i for i in chosen if self._stored[i] is not None]

    def state_dict(self) -> dict[str, Tensor]:
        """Return what is held, by name."""
        found: dict[str, Tensor] = {}
        for i in self._layers(None):
            found[f"{i}.key"], found[f"{i}.value"] = (x.clone() for x in self.get(i))
            found[f"{i}.position"] = asarray(self._seen[i], device="cpu")
        return found

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Hold what `state_dict` returned."""
        layers = sorted({int(name.partition(".")[0]) for name in state})
        names = {f"{i}.{part}" for i in layers for part in ("key", "value", "position")}
        if names != set(state) or (layers and layers[-1] >= self.num_layers):
            raise StateDictError(
                f"KVCache: expected key, value and position of up to {self.num_layers} layers; received "
                f"{sorted(state)}."
            )
        self.reset()
        for i in layers:
            self.append(i, state[f"{i}.key"], state[f"{i}.value"])
            self._seen[i] = int(as_tensor(state[f"{i}.position"]).item())
