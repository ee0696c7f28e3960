"""Counter-based randomness: a `Generator` is a key and an offset, and every draw is a function of both.

The same seed gives the same bits on every device. A draw of n words takes ``ceil(n / 4)`` blocks of the Philox
counter, so two draws never overlap.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final

import numpy as np

from grilly_core import config, dtypes
from grilly_core.device import Context
from grilly_core.tensor import Tensor

__all__ = ["Draws", "Generator", "default_generator", "get_state", "manual_seed", "set_state"]

_MASK: Final = (1 << 64) - 1


class Generator:
    """A stream of random numbers.

    Parameters
    ----------
    seed : int
        Any integer; taken modulo 2**64.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> a = grilly.rand(3, rng=grilly.Generator(7))
    >>> b = grilly.rand(3, rng=grilly.Generator(7))
    >>> bool((a == b).all())
    True
    """

    def __init__(self, seed: int = 0) -> None:
        self.manual_seed(seed)

    def manual_seed(self, seed: int) -> Generator:
        """Start the stream again with another seed; returns itself."""
        if isinstance(seed, bool) or not hasattr(seed, "__index__"):
            raise TypeError(f"seed: expected an integer; received {seed!r}.")
        self.seed = seed.__index__() & _MASK
        self.offset = 0
        return self

    def take(self, words: int, context: Context) -> tuple[Tensor, int]:
        """Reserve `words` random words; returns the state tensor and the blocks to add to its offset.

        The second number is 0 except inside `capture`, where all draws share one state.
        """
        draws = _draws.get()
        return self._take(words, context) if draws is None else draws.next(lambda: self._take(words, context))

    def _take(self, words: int, context: Context) -> tuple[Tensor, int]:
        blocks = -(-words // 4)
        sink = config.current().sink
        reserve = getattr(sink, "reserve_random", None)
        if reserve is not None:
            return reserve(self, blocks)  # type: ignore[no-any-return]
        state = self.state_tensor(context)
        self.skip(blocks)
        return state, 0

    def skip(self, blocks: int) -> None:
        """Move the offset forward without drawing."""
        self.offset = (self.offset + blocks) & _MASK

    def state_words(self) -> Any:
        """The key and the offset as four 32-bit words."""
        low = 0xFFFFFFFF
        return np.array([self.seed & low, self.seed >> 32, self.offset & low, self.offset >> 32], np.uint32)

    def state_tensor(self, context: Context) -> Tensor:
        """The state as kernels read it: uint32[4]."""
        return Tensor(context.upload(self.state_words(), dtypes.uint32))

    def get_state(self) -> tuple[int, int]:
        """Return (seed, offset)."""
        return self.seed, self.offset

    def set_state(self, state: tuple[int, int]) -> None:
        """Continue from a state that `get_state` returned."""
        self.seed, self.offset = int(state[0]) & _MASK, int(state[1]) & _MASK

    def __repr__(self) -> str:
        return f"Generator(seed={self.seed}, offset={self.offset})"


class Draws:
    """What all generators hand out in a stretch of code, so that running it again draws the same.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> from grilly_core.random import Draws
    >>> draws = Draws()
    >>> with draws.recording():
    ...     first = grilly.rand(3)
    >>> with draws.repeating():
    ...     again = grilly.rand(3)
    >>> first.tolist() == again.tolist() != grilly.rand(3).tolist()
    True
    """

    def __init__(self) -> None:
        self._taken: list[tuple[Tensor, int]] = []
        self._position = -1  # where a repetition stands

    @contextmanager
    def recording(self) -> Iterator[None]:
        """Remember the draws inside a ``with`` block, which an enclosing block sees too."""
        outer = _draws.get()
        self._outer = outer
        yield from self._active()

    @contextmanager
    def repeating(self) -> Iterator[None]:
        """Hand out the same draws again, in their order; generators stay where they are."""
        self._position = 0
        yield from self._active()

    def _active(self) -> Iterator[None]:
        token = _draws.set(self)
        try:
            yield
        finally:
            _draws.reset(token)
            self._position, self._outer = -1, None

    _outer: Draws | None = None

    def next(self, draw: Callable[[], tuple[Tensor, int]]) -> tuple[Tensor, int]:
        """Return a draw: a new one, or the next of those remembered."""
        if self._position < 0:
            taken = draw() if self._outer is None else self._outer.next(draw)
            self._taken.append(taken)
            return taken
        if self._position == len(self._taken):
            raise RuntimeError("a repetition draws more random numbers than were drawn the first time.")
        self._position += 1
        return self._taken[self._position - 1]


_draws: Final[ContextVar[Draws | None]] = ContextVar("grilly_draws", default=None)
_default: Final = Generator(0)
_lock: Final = threading.Lock()


def default_generator() -> Generator:
    """Return the generator that ops use when no ``rng`` is given."""
    return _default


def manual_seed(seed: int) -> Generator:
    """Seed the default generator; the same seed gives the same numbers on every device.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> generator = grilly.manual_seed(0)
    """
    with _lock:
        return _default.manual_seed(seed)


def get_state() -> tuple[int, int]:
    """Return the state of the default generator."""
    return _default.get_state()


def set_state(state: tuple[int, int]) -> None:
    """Set the state of the default generator."""
    _default.set_state(state)
