"""A memory of keys and values that readers and writers share."""

from __future__ import annotations

from typing import Any, Final

import grilly_core as grilly
from grilly_core.apply import as_tensor
from grilly_core.errors import ShapeError
from grilly_core.nn import Module
from grilly_core.nn.linear import positive
from grilly_core.random import Generator
from grilly_core.tensor import Tensor
from grilly_ext_memory.functional.recall import memory_read, memory_write

__all__ = ["MemoryBank", "MemoryRead", "MemoryWrite"]

_EVICTION: Final = ("ring", "lru", "least_used")


class MemoryBank(Module):
    """Slots of keys and values, which of them hold something, and which goes when there is no room.

    Everything is a buffer, so ``state_dict`` holds the memory. Gradients flow to queries, and with `track_writes` to
    what was written, until the next `detach`.

    Parameters
    ----------
    key_dim, value_dim, capacity : int
    eviction : {"ring", "lru", "least_used"}
        Which slot is written when all are taken: the oldest one, the one not read for longest, or the one that
        got the smallest share of all reads so far. A slot that is free always comes first.
    track_writes : bool
        Whether gradients of later reads flow to what is written. Training then calls `detach` after each step.
    rng : Generator, optional
        Draws the first keys, ``0.01 randn``; they count only once written.

    Attributes
    ----------
    keys : buffer, (capacity, key_dim)
    values : buffer, (capacity, value_dim)
    written : buffer of bool, (capacity,)
    used : buffer, (capacity,)
        Summed weights of the reads.
    read_at, written_at : buffer of int32, (capacity,)
        The bank's clock at the last read with a weight above ``1 / capacity``, and at the last write.
    clock : buffer of int32, ()
        How many reads and writes there were.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> from grilly_ext_memory.nn.bank import MemoryBank
    >>> bank = MemoryBank(2, 1, capacity=4)
    >>> bank.write(grilly.tensor([[9.0, 0.0], [0.0, 9.0]]), grilly.tensor([[1.0], [2.0]])).tolist()
    [0, 1]
    >>> bank.read(grilly.tensor([[0.0, 9.0]])).tolist()
    [[2.0]]
    """

    keys: Tensor
    values: Tensor
    written: Tensor
    used: Tensor
    read_at: Tensor
    written_at: Tensor
    clock: Tensor

    def __init__(
        self, key_dim: int, value_dim: int, capacity: int, eviction: str = "ring", *, track_writes: bool = False,
        rng: Generator | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        positive(key_dim=key_dim, value_dim=value_dim, capacity=capacity)
        if eviction not in _EVICTION:
            raise ValueError(f"MemoryBank: eviction is one of {', '.join(_EVICTION)}; received {eviction!r}.")
        self.key_dim, self.value_dim, self.capacity, self.eviction = key_dim, value_dim, capacity, eviction
        self.track_writes = track_writes
        self.register_buffer("keys", grilly.randn((capacity, key_dim), rng=rng) * 0.01)
        self.register_buffer("values", grilly.zeros((capacity, value_dim)))
        self.register_buffer("written", grilly.zeros((capacity,), dtype="bool"))
        self.register_buffer("used", grilly.zeros((capacity,)))
        for name, shape in (("read_at", (capacity,)), ("written_at", (capacity,)), ("clock", ())):
            self.register_buffer(name, grilly.zeros(shape, dtype="int32"))

    def __len__(self) -> int:
        """How many slots hold something."""
        return int(self.written.to("int32").sum().item())

    def read(
        self, queries: Any, temperature: float | None = None, *, mask: Any = None, top_k: int | None = None,
        iterations: int = 1, return_weights: bool = False,
    ) -> Any:  # fmt: skip
        """Return values for queries ``(K,)`` or ``(B, K)``; see `memory_read`. An empty bank gives 0."""
        allowed = self.written if mask is None else as_tensor(mask, self.keys) & self.written
        values, weights = memory_read(
            queries, self.keys, self.values, temperature, mask=allowed, top_k=top_k, iterations=iterations,
            return_weights=True,
        )  # fmt: skip
        self._note(weights.detach().reshape(-1, self.capacity))
        return (values, weights) if return_weights else values

    def _note(self, weights: Tensor) -> None:
        with grilly.no_grad():
            self.clock = self.clock + 1
            self.used = self.used + weights.sum(0)
            if weights.shape[0]:
                self.read_at = grilly.where(weights.amax(0) > 1.0 / self.capacity, self.clock, self.read_at)

    def write(self, keys: Any, values: Any, index: Any = None, blend: float | None = None) -> Tensor:
        """Write rows ``(N, K)`` and ``(N, V)``; returns their slots ``(N,)``.

        Parameters
        ----------
        keys, values : array_like
        index : int or array_like of int, (N,), optional
            Slots; chosen by the eviction rule without them.
        blend : float, optional
            ``(1 - blend) old + blend new`` where a slot holds something, instead of `new`.
        """
        k, v = (self._rows(x, name) for x, name in ((keys, "keys"), (values, "values")))
        if k.shape[0] != v.shape[0]:
            raise ShapeError(f"MemoryBank: {k.shape[0]} keys and {v.shape[0]} values; expected as many.")
        slots = (
            self._choose(k.shape[0]) if index is None else grilly.asarray(index, dtype="int32").reshape(-1)
        )
        slots = slots.to(self.keys.device)
        if blend is not None:
            share = grilly.where(self.written[slots], blend, 1.0).unsqueeze(1)
            k, v = (
                old[slots] * (1.0 - share) + new * share for old, new in ((self.keys, k), (self.values, v))
            )
        self.keys, self.values = memory_write(k, v, self.keys, self.values, slots)
        with grilly.no_grad():
            self.clock = self.clock + 1
            self.written[slots] = True
            self.used[slots] = 0.0
            self.written_at[slots] = self.clock
            self.read_at[slots] = self.clock
        return slots

    def _rows(self, x: Any, name: str) -> Tensor:
        width = self.key_dim if name == "keys" else self.value_dim
        made = as_tensor(x, self.keys)
        made = made if self.track_writes else made.detach()
        made = made.unsqueeze(0) if made.ndim == 1 else made
        if made.ndim != 2 or made.shape[1] != width:
            raise ShapeError(f"MemoryBank: {name} must be (N, {width}); received shape {tuple(made.shape)}.")
        return made

    def _choose(self, count: int) -> Tensor:
        """Return the slots to be written next: free ones, then the rule's."""
        if count > self.capacity:
            raise ShapeError(f"MemoryBank: {count} rows do not fit into {self.capacity} slots at once.")
        order: dict[str, Any] = {"ring": self.written_at, "lru": self.read_at, "least_used": self.used}
        worth = order[self.eviction].to("float64" if self.eviction == "least_used" else "int32")
        worth = grilly.where(self.written, worth, -1)
        return grilly.argsort(worth, stable=True)[:count].to("int32")

    def detach(self) -> None:
        """Cut what was written off its history."""
        self.keys, self.values = self.keys.detach(), self.values.detach()

    def clear(self) -> None:
        """Forget everything; the keys stay where they are until they are written again."""
        self.detach()
        for name in ("values", "written", "used", "read_at", "written_at", "clock"):
            setattr(self, name, grilly.zeros_like(getattr(self, name)))

    def extra_repr(self) -> str:
        """Sizes and the rule."""
        sizes = f"key_dim={self.key_dim}, value_dim={self.value_dim}, capacity={self.capacity}"
        return f"{sizes}, eviction={self.eviction!r}"


class MemoryRead(Module):
    """Read a bank; see `memory_read`.

    Parameters
    ----------
    key_dim, value_dim, num_memories : int, optional
        Of a bank that is made; or give `bank`.
    temperature : float, optional
        ``sqrt(key_dim)`` without it.
    bank : MemoryBank, optional
    top_k : int, optional
    iterations : int

    Examples
    --------
    >>> import grilly_core as grilly
    >>> from grilly_ext_memory.nn.bank import MemoryBank, MemoryRead, MemoryWrite
    >>> bank = MemoryBank(2, 1, capacity=4)
    >>> read, write = MemoryRead(bank=bank), MemoryWrite(bank=bank)
    >>> _ = write(grilly.tensor([[9.0, 0.0]]), grilly.tensor([[5.0]]))
    >>> read(grilly.tensor([[9.0, 0.0]])).tolist()
    [[5.0]]
    """

    def __init__(
        self, key_dim: int | None = None, value_dim: int | None = None, num_memories: int | None = None,
        temperature: float | None = None, *, bank: MemoryBank | None = None, top_k: int | None = None,
        iterations: int = 1,
    ) -> None:  # fmt: skip
        super().__init__()
        self.bank = _bank("MemoryRead", bank, key_dim, value_dim, num_memories)
        self.temperature, self.top_k, self.iterations = temperature, top_k, iterations

    def forward(self, queries: Any, mask: Any = None) -> Tensor:
        """Return values for queries ``(K,)`` or ``(B, K)``."""
        read: Tensor = self.bank.read(
            queries, self.temperature, mask=mask, top_k=self.top_k, iterations=self.iterations
        )
        return read


class MemoryWrite(Module):
    """Write a bank.

    Parameters
    ----------
    key_dim, value_dim, num_memories : int, optional
        Of a bank that is made; or give `bank`.
    write_mode : {0, 1}
        1 blends with what a slot holds.
    blend_factor : float
    bank : MemoryBank, optional

    Examples
    --------
    >>> import grilly_core as grilly
    >>> from grilly_ext_memory.nn.bank import MemoryWrite
    >>> MemoryWrite(2, 1, 4)(grilly.ones((3, 2)), grilly.ones((3, 1))).tolist()
    [0, 1, 2]
    """

    def __init__(
        self, key_dim: int | None = None, value_dim: int | None = None, num_memories: int | None = None,
        write_mode: int = 0, blend_factor: float = 0.5, *, bank: MemoryBank | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        if write_mode not in (0, 1):
            raise ValueError(
                f"MemoryWrite: write_mode is 0 (overwrite) or 1 (blend); received {write_mode!r}."
            )
        self.bank = _bank("MemoryWrite", bank, key_dim, value_dim, num_memories)
        self.write_mode, self.blend_factor = write_mode, blend_factor

    def forward(self, new_key: Any, new_value: Any, write_index: Any = None) -> Tensor:
        """Write rows and return their slots."""
        return self.bank.write(
            new_key, new_value, write_index, self.blend_factor if self.write_mode else None
        )


def _bank(who: str, bank: MemoryBank | None, *sizes: int | None) -> MemoryBank:
    if bank is not None:
        if any(size is not None for size in sizes):
            raise ValueError(f"{who}: give either a bank or its sizes, not both.")
        return bank
    if None in sizes:
        raise ValueError(f"{who}: give a bank, or key_dim, value_dim and num_memories; received {sizes}.")
    return MemoryBank(*[int(size) for size in sizes if size is not None])
