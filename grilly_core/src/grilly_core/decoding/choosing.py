"""Choosing a token by its logits.

All is done on the host in float64: there are few numbers, every device then chooses alike, and probabilities add up
to one closely enough that no draw falls beyond the last token.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from grilly_core.apply import as_tensor
from grilly_core.device import Device
from grilly_core.errors import ShapeError
from grilly_core.ops.creation import asarray
from grilly_core.ops.random import rand
from grilly_core.random import Generator
from grilly_core.tensor import Tensor

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Filters", "filter_logits", "greedy", "host_ids", "sample"]


class Filters:
    """What is done to logits before a token is drawn, in the order of the arguments, penalty first.

    Parameters are those of `sample`.
    """

    def __init__(
        self, temperature: float = 1.0, top_k: int | None = None, top_p: float | None = None,
        min_p: float | None = None, repetition_penalty: float = 1.0,
    ) -> None:  # fmt: skip
        if not temperature >= 0:
            raise ValueError(f"temperature: expected a number from 0 on; received {temperature}.")
        if top_k is not None and (isinstance(top_k, bool) or not isinstance(top_k, int) or top_k < 1):
            raise ValueError(f"top_k: expected a positive integer; received {top_k!r}.")
        for name, value in (("top_p", top_p), ("min_p", min_p)):
            if value is not None and not 0 <= value <= 1:
                raise ValueError(f"{name}: expected a number from 0 to 1; received {value}.")
        if not repetition_penalty > 0:
            raise ValueError(
                f"repetition_penalty: expected a positive number; received {repetition_penalty}."
            )
        self.temperature = temperature
        self.top_k = top_k
        self.top_p = top_p
        self.min_p = min_p
        self.repetition_penalty = repetition_penalty

    @property
    def draws(self) -> bool:
        """Whether anything is set that has a meaning only where chance decides."""
        given = (self.top_k, self.top_p, self.min_p)
        return self.temperature != 1.0 or any(value is not None for value in given)

    def penalised(self, logits: NDArray[np.float64], ids: NDArray[np.int64] | None) -> NDArray[np.float64]:
        """Make tokens that already occur less likely (Keskar et al., CTRL)."""
        if self.repetition_penalty == 1.0:
            return logits
        if ids is None:
            raise TypeError("repetition_penalty: needs the ids so far; pass ids=.")
        if ids.shape[:-1] != logits.shape[:-1]:
            raise ShapeError(
                f"ids: expected one row for each of the logits, {logits.shape[:-1]}; received shape {ids.shape}."
            )
        seen = np.take_along_axis(logits, ids, -1)
        changed = logits.copy()
        penalty = self.repetition_penalty
        np.put_along_axis(changed, ids, np.where(seen < 0, seen * penalty, seen / penalty), -1)
        return changed

    def __call__(self, logits: NDArray[np.float64], ids: NDArray[np.int64] | None) -> NDArray[np.float64]:
        """Return logits with ``-inf`` where a token is out of the question."""
        z = self.penalised(logits, ids)
        if self.temperature == 0:
            best = np.full_like(z, -np.inf)
            np.put_along_axis(best, z.argmax(-1)[..., None], 0.0, -1)
            return best
        z = z / self.temperature
        if self.top_k is not None and self.top_k < z.shape[-1]:
            least = np.partition(z, -self.top_k, -1)[..., -self.top_k, None]
            z = np.where(z < least, -np.inf, z)
        if self.top_p is not None:
            z = _nucleus(z, self.top_p)
        if self.min_p is not None:
            p = softmax(z)
            z = np.where(p < self.min_p * p.max(-1, keepdims=True), -np.inf, z)
        return z


def _nucleus(z: NDArray[np.float64], top_p: float) -> NDArray[np.float64]:
    """Keep the fewest tokens whose probability reaches `top_p`, and always the most likely one."""
    order = np.argsort(z, -1, kind="stable")  # ascending
    below = np.cumsum(np.take_along_axis(softmax(z), order, -1), -1)
    dropped = below <= 1 - top_p
    dropped[..., -1] = False
    mask = np.empty_like(dropped)
    np.put_along_axis(mask, order, dropped, -1)
    return np.where(mask, -np.inf, z)


def softmax(z: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return probabilities along the last axis."""
    powers = np.exp(z - z.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)  # type: ignore[no-any-return]


def host_logits(logits: Any) -> tuple[NDArray[np.float64], Device]:
    """Return logits as an array of float64, and where they were."""
    read = logits if isinstance(logits, Tensor) else as_tensor(logits)
    if read.ndim < 1 or read.shape[-1] < 1:
        raise ShapeError(f"logits: expected shape (..., V) with V > 0; received {tuple(read.shape)}.")
    host = np.asarray(
        read.detach().to("float32" if read.dtype.itemsize < 4 else read.dtype).numpy(), np.float64
    )
    if np.isnan(host).any():
        raise ValueError("logits: there are NaN among them.")
    return host, read.device


def host_ids(ids: Any) -> NDArray[np.int64]:
    """Return ids as an array."""
    read = np.asarray(ids.numpy() if isinstance(ids, Tensor) else ids)
    if read.dtype.kind not in "iu":
        raise TypeError(f"ids: expected integers; received {read.dtype}.")
    return read.astype(np.int64)


def drawn(z: NDArray[np.float64], rng: Generator | None) -> NDArray[np.int64]:
    """Draw one token for each row of filtered logits, by the inverse of the distribution function."""
    total = np.cumsum(softmax(z), -1)
    goal = rand(z.shape[:-1], dtype="float64", device="cpu", rng=rng).numpy()[..., None] * total[..., -1:]
    chosen: NDArray[np.int64] = (total <= goal).sum(-1)
    last = z.shape[-1] - 1 - np.argmax(np.isfinite(z)[..., ::-1], -1)  # rounding must not lead beyond it
    return np.asarray(np.minimum(chosen, last), np.int64)


def greedy(logits: Any) -> Tensor:
    """Return the most likely token, the first if several are.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> greedy(grilly.tensor([[0.0, 2.0, 1.0]])).tolist()
    [1]
    """
    host, device = host_logits(logits)
    return asarray(host.argmax(-1), dtype="int32", device=device)


def filter_logits(
    logits: Any, ids: Any = None, *, temperature: float = 1.0, top_k: int | None = None, top_p: float | None = None,
    min_p: float | None = None, repetition_penalty: float = 1.0,
) -> Tensor:  # fmt: skip
    """Return the logits that `sample` draws by: ``-inf`` where a token is out of the question.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> filter_logits(grilly.tensor([1.0, 3.0, 2.0]), top_k=2).tolist()
    [-inf, 3.0, 2.0]
    """
    host, device = host_logits(logits)
    filters = Filters(temperature, top_k, top_p, min_p, repetition_penalty)
    return asarray(filters(host, None if ids is None else host_ids(ids)), dtype="float32", device=device)


def sample(
    logits: Any, ids: Any = None, *, temperature: float = 1.0, top_k: int | None = None, top_p: float | None = None,
    min_p: float | None = None, repetition_penalty: float = 1.0, rng: Generator | None = None,
) -> Tensor:  # fmt: skip
    """Draw tokens with probabilities ``softmax(logits / temperature)``, of the likely ones only if told so.

    Parameters
    ----------
    logits : array_like, (..., V)
    ids : array_like of int, (..., L), optional
        The tokens so far, for `repetition_penalty`.
    temperature : float
        Below 1 the likely tokens get likelier; 0 is `greedy`.
    top_k : int, optional
        Only the k most likely tokens, and those as likely as the last of them.
    top_p : float, optional
        Only the fewest tokens whose probability reaches this (Holtzman et al.).
    min_p : float, optional
        Only tokens at least this likely, measured by the most likely one.
    repetition_penalty : float
        Logits of tokens that occurred are divided by this if positive, else multiplied (Keskar et al.). It comes
        first; the others follow in their order.
    rng : Generator, optional

    Examples
    --------
    >>> import grilly_core as grilly
    >>> sample(grilly.tensor([0.0, 5.0, 1.0]), top_k=1).item()
    1
    """
    host, device = host_logits(logits)
    filters = Filters(temperature, top_k, top_p, min_p, repetition_penalty)
    z = filters(host, None if ids is None else host_ids(ids))
    return asarray(drawn(z, rng), dtype="int32", device=device)
