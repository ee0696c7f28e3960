"""Going on from a prompt, one token at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from grilly_core.config import no_grad
from grilly_core.decoding.choosing import Filters, drawn, host_ids, host_logits
from grilly_core.device import Device, default_device
from grilly_core.errors import ShapeError
from grilly_core.ops.creation import asarray
from grilly_core.random import Generator
from grilly_core.tensor import Tensor

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Cache", "Reader", "generate", "prompt_of", "stop_set", "stream"]


class Cache(Protocol):
    """What a cache must do: grow as the model is called, and follow the beams; `grilly.nn.KVCache` does."""

    def reorder(self, rows: Any) -> None:
        """Let row i go on from row ``rows[i]``."""


class Reader:
    """Calls a model with the tokens that it has not read, and returns the logits of the next ones."""

    def __init__(self, model: Callable[..., Any], cache: Cache | None, device: Device) -> None:
        self.model, self.cache, self.device = model, cache, device
        self.read = 0

    def __call__(self, ids: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the logits after `ids`, (B, V)."""
        with no_grad():
            if self.cache is None:
                out = self.model(asarray(ids, dtype="int32", device=self.device))
            else:
                new = asarray(ids[:, self.read :], dtype="int32", device=self.device)
                out = self.model(new, cache=self.cache)
                self.read = ids.shape[1]
            logits: Any = getattr(out, "logits", out[0] if isinstance(out, tuple) else out)
            if logits.ndim != 3 or logits.shape[0] != ids.shape[0]:
                raise ShapeError(
                    f"model: expected logits of shape ({ids.shape[0]}, L, V); received {tuple(logits.shape)}."
                )
            return host_logits(logits[:, -1])[0]


def prompt_of(input_ids: Any) -> tuple[NDArray[np.int64], bool, Device]:
    """Return the prompt as (B, L), whether it had a batch, and where it was."""
    ids = host_ids(input_ids)
    if ids.ndim not in (1, 2) or ids.shape[-1] == 0:
        raise ShapeError(f"input_ids: expected (B, L) or (L,) with L > 0; received shape {ids.shape}.")
    device = input_ids.device if isinstance(input_ids, Tensor) else default_device()
    return (ids if ids.ndim == 2 else ids[None]), ids.ndim == 2, device


def stop_set(stop_ids: int | Iterable[int], pad_id: int | None) -> tuple[list[int], int]:
    """Return the tokens that end a text, and the one that fills up after it."""
    stops = [stop_ids] if isinstance(stop_ids, int) else sorted(set(stop_ids))
    if pad_id is not None:
        return stops, pad_id
    return stops, stops[0] if stops else 0


def _checked(max_new_tokens: int) -> None:
    if isinstance(max_new_tokens, bool) or not isinstance(max_new_tokens, int) or max_new_tokens < 1:
        raise ValueError(f"max_new_tokens: expected a positive integer; received {max_new_tokens!r}.")


def stream(
    model: Callable[..., Any], input_ids: Any, max_new_tokens: int = 20, *, do_sample: bool = False,
    temperature: float = 1.0, top_k: int | None = None, top_p: float | None = None, min_p: float | None = None,
    repetition_penalty: float = 1.0, stop_ids: int | Iterable[int] = (), pad_id: int | None = None,
    cache: Cache | None = None, rng: Generator | None = None,
) -> Iterator[Tensor]:  # fmt: skip
    """Yield the next tokens as they are found, (B,) each, or () for a prompt without a batch.

    Arguments are those of `generate`.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> model = lambda ids: grilly.functional.one_hot((ids + 1) % 5, 5).to(grilly.float32)
    >>> [token.item() for token in stream(model, [3], max_new_tokens=3)]
    [4, 0, 1]
    """
    _checked(max_new_tokens)
    filters = Filters(temperature, top_k, top_p, min_p, repetition_penalty)
    if not do_sample and (filters.draws or rng is not None):
        raise ValueError(
            "temperature, top_k, top_p, min_p and rng have a meaning only with do_sample=True: pass it too."
        )
    ids, batched, device = prompt_of(input_ids)
    stops, pad = stop_set(stop_ids, pad_id)
    reader = Reader(model, cache, device)
    return _steps(reader, ids, max_new_tokens, filters, do_sample, stops, pad, batched, rng)


def _steps(
    reader: Reader, ids: NDArray[np.int64], count: int, filters: Filters, do_sample: bool, stops: list[int], pad: int,
    batched: bool, rng: Generator | None,
) -> Iterator[Tensor]:  # fmt: skip
    ended = np.zeros(ids.shape[0], bool)
    for _ in range(count):
        logits = reader(ids)
        tokens = drawn(filters(logits, ids), rng) if do_sample else filters.penalised(logits, ids).argmax(-1)
        tokens = np.where(ended, pad, tokens)
        ended |= np.isin(tokens, stops)
        ids = np.concatenate([ids, tokens[:, None]], axis=1)
        yield asarray(tokens if batched else tokens[0], dtype="int32", device=reader.device)
        if ended.all():
            return


def generate(
    model: Callable[..., Any], input_ids: Any, max_new_tokens: int = 20, *, do_sample: bool = False,
    temperature: float = 1.0, top_k: int | None = None, top_p: float | None = None, min_p: float | None = None,
    repetition_penalty: float = 1.0, stop_ids: int | Iterable[int] = (), pad_id: int | None = None,
    cache: Cache | None = None, rng: Generator | None = None,
) -> Tensor:  # fmt: skip
    """Return the prompt and what a model makes follow it.

    Put the model into evaluation mode first: in training its dropout acts.

    Parameters
    ----------
    model : callable
        Maps ids (B, L) to logits (B, L, V), of which the last row counts; a tuple's first element and an attribute
        ``logits`` will do. With a cache it is called as ``model(new_ids, cache=cache)``.
    input_ids : array_like of int, (B, L) or (L,)
        Prompts of one length.
    max_new_tokens : int
    do_sample : bool
        Draw by chance, with the next four arguments, instead of taking the most likely token.
    temperature, top_k, top_p, min_p
        As for `sample`; only with `do_sample`.
    repetition_penalty : float
        As for `sample`; it acts without `do_sample` too.
    stop_ids : int or iterable of int
        Tokens that end a text; it ends with them.
    pad_id : int, optional
        Fills up texts that end before others of the batch; the smallest of `stop_ids` if left out.
    cache : KVCache, optional
        An empty one.
    rng : Generator, optional

    Returns
    -------
    Tensor, (B, L + n) or (L + n,)

    Examples
    --------
    >>> import grilly_core as grilly
    >>> model = lambda ids: grilly.functional.one_hot((ids + 1) % 5, 5).to(grilly.float32)
    >>> generate(model, [1, 2], max_new_tokens=9, stop_ids=4).tolist()
    [1, 2, 3, 4]
    """
    ids, batched, device = prompt_of(input_ids)
    tokens = stream(
        model, asarray(ids, dtype="int32", device=device), max_new_tokens, do_sample=do_sample, temperature=temperature,
        top_k=top_k, top_p=top_p, min_p=min_p, repetition_penalty=repetition_penalty, stop_ids=stop_ids, pad_id=pad_id,
        cache=cache, rng=rng,
    )  # fmt: skip
    whole = np.concatenate([ids, *(t.numpy()[:, None] for t in tokens)], axis=1)
    return asarray(whole if batched else whole[0], dtype="int32", device=device)
