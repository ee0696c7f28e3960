"""Beam search: the likeliest texts instead of the likeliest tokens."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from grilly_core.decoding.choosing import Filters
from grilly_core.decoding.generation import Cache, Reader, prompt_of, stop_set
from grilly_core.ops.creation import asarray
from grilly_core.tensor import Tensor

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Beams", "beam_search"]


class Beams(NamedTuple):
    """The best texts, best first: ``sequences`` (B, n, L) and ``scores`` (B, n)."""

    sequences: Tensor
    scores: Tensor


class _Row:
    """One prompt of the batch: the texts that go on, and the best that have ended."""

    def __init__(
        self, ids: NDArray[np.int64], beams: int, length_penalty: float, early_stopping: bool
    ) -> None:
        self.texts = np.repeat(ids[None], beams, 0)
        self.scores = np.array(
            [0.0] + [-np.inf] * (beams - 1)
        )  # all beams are alike at first: only one counts
        self.prompt, self.beams = len(ids), beams
        self.length_penalty, self.early_stopping = length_penalty, early_stopping
        self.ended: list[tuple[float, NDArray[np.int64]]] = []
        self.done = False

    def step(self, log_p: NDArray[np.float64], stops: list[int], last: bool) -> NDArray[np.intp]:
        """Go on by one token; return which beam each new one comes from."""
        vocabulary = log_p.shape[1]
        totals = (self.scores[:, None] + log_p).ravel()
        wanted = min(max(2, 1 + len(stops)) * self.beams, totals.size)  # enough that not all of them end
        best = np.argpartition(-totals, wanted - 1)[:wanted]
        best = best[np.argsort(-totals[best], kind="stable")]
        parents: list[int] = []
        tokens: list[int] = []
        scores: list[float] = []
        for rank, at in enumerate(best):
            parent, token = divmod(int(at), vocabulary)
            ends = token in stops
            if (ends or last) and rank < self.beams and not self.done and np.isfinite(totals[at]):
                self._end(np.append(self.texts[parent], token), float(totals[at]))
            if not ends and len(tokens) < self.beams:
                parents.append(parent)
                tokens.append(token)
                scores.append(float(totals[at]))
        missing = self.beams - len(tokens)  # a small vocabulary may not offer enough
        parents, tokens, scores = (
            parents + [0] * missing,
            tokens + [0] * missing,
            scores + [-np.inf] * missing,
        )
        self.texts = np.concatenate([self.texts[parents], np.array(tokens)[:, None]], axis=1)
        self.scores = np.array(scores)
        self._finish()
        return np.array(parents, np.intp)

    def _end(self, text: NDArray[np.int64], score: float) -> None:
        self.ended.append((score / (len(text) - self.prompt) ** self.length_penalty, text))
        self.ended = sorted(self.ended, key=lambda e: -e[0])[: self.beams]

    def _finish(self) -> None:
        """Stop once nothing that goes on seems able to become one of the best."""
        if len(self.ended) < self.beams:
            return
        best = self.scores.max() / (self.texts.shape[1] - self.prompt) ** self.length_penalty
        self.done = self.done or self.early_stopping or best <= self.ended[-1][0]


def beam_search(
    model: Callable[..., Any], input_ids: Any, max_new_tokens: int = 20, *, num_beams: int = 4,
    length_penalty: float = 1.0, early_stopping: bool = False, num_return_sequences: int = 1,
    repetition_penalty: float = 1.0, stop_ids: int | Iterable[int] = (), pad_id: int | None = None,
    cache: Cache | None = None,
) -> Beams:  # fmt: skip
    """Return the likeliest texts that follow a prompt.

    A text's score is the sum of its tokens' log-probabilities, divided by the number of new tokens to the power of
    `length_penalty`.

    Parameters
    ----------
    model, input_ids, max_new_tokens, stop_ids, pad_id, cache
        As for `generate`.
    num_beams : int
        How many texts are followed at once.
    length_penalty : float
        Above 0 longer texts are favoured; 0 compares sums.
    early_stopping : bool
        Stop once `num_beams` texts have ended; else once no other seems able to be better.
    num_return_sequences : int
        At most `num_beams`. Texts that do not exist, as with very few tokens, have a score of ``-inf``.
    repetition_penalty : float
        As for `sample`, on log-probabilities.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> model = lambda ids: 9 * grilly.functional.one_hot((ids + 1) % 5, 5).to(grilly.float32)
    >>> beam_search(model, [1, 2], max_new_tokens=9, num_beams=2, stop_ids=4).sequences.tolist()
    [[1, 2, 3, 4]]
    """
    for name, value in (("max_new_tokens", max_new_tokens), ("num_beams", num_beams)):
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise ValueError(f"{name}: expected a positive integer; received {value!r}.")
    if not 1 <= num_return_sequences <= num_beams:
        raise ValueError(f"num_return_sequences: expected 1 to {num_beams}; received {num_return_sequences}.")
    ids, batched, device = prompt_of(input_ids)
    stops, pad = stop_set(stop_ids, pad_id)
    filters = Filters(repetition_penalty=repetition_penalty)
    rows = [_Row(row, num_beams, length_penalty, early_stopping) for row in ids]
    reader = Reader(model, cache, device)
    for step in range(max_new_tokens):
        texts = np.concatenate([row.texts for row in rows])
        log_p = filters.penalised(_log_softmax(reader(texts)), texts).reshape(len(rows), num_beams, -1)
        last = step == max_new_tokens - 1
        parents = [
            row.step(p, stops, last) + i * num_beams
            for i, (row, p) in enumerate(zip(rows, log_p, strict=True))
        ]
        if last or all(row.done for row in rows):
            break
        if cache is not None:
            cache.reorder(np.concatenate(parents).astype(np.int32))
    found = [row.ended[:num_return_sequences] for row in rows]
    sequences, scores = _padded(found, num_return_sequences, pad)
    if not batched:
        sequences, scores = sequences[0], scores[0]
    return Beams(
        asarray(sequences, dtype="int32", device=device), asarray(scores, dtype="float32", device=device)
    )


def _log_softmax(z: NDArray[np.float64]) -> NDArray[np.float64]:
    shifted = z - z.max(-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))  # type: ignore[no-any-return]


def _padded(
    found: list[list[tuple[float, NDArray[np.int64]]]], count: int, pad: int
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    length = max(len(text) for row in found for _, text in row)
    sequences = np.full((len(found), count, length), pad, np.int64)
    scores = np.full((len(found), count), -np.inf)
    for i, row in enumerate(found):
        for j, (score, text) in enumerate(row):
            sequences[i, j, : len(text)] = text
            scores[i, j] = score
    return sequences, scores
