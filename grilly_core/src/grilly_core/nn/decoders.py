"""Choosing tokens, as modules; `grilly.decoding` has the functions and `generate`."""

from __future__ import annotations

from typing import Any

from grilly_core import decoding
from grilly_core.errors import ShapeError
from grilly_core.nn.linear import positive
from grilly_core.nn.module import Module
from grilly_core.random import Generator
from grilly_core.tensor import Tensor

__all__ = ["BeamSearchDecoder", "GreedyDecoder", "SampleDecoder"]


class _Decoder(Module):
    def __init__(self, vocab_size: int) -> None:
        super().__init__()
        positive(vocab_size=vocab_size)
        self.vocab_size = vocab_size

    def _check(self, logits: Any) -> None:
        shape = tuple(getattr(logits, "shape", ()))
        if not shape or shape[-1] != self.vocab_size:
            raise ShapeError(
                f"{type(self).__name__}: the last axis must be vocab_size={self.vocab_size}; received shape {shape}."
            )


class GreedyDecoder(_Decoder):
    """Take the most likely token.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.nn.GreedyDecoder(3)(grilly.tensor([[0.0, 2.0, 1.0]])).tolist()
    [1]
    """

    def forward(self, logits: Tensor) -> Tensor:
        """Map (..., vocab_size) to ids (...)."""
        self._check(logits)
        return decoding.greedy(logits)


class SampleDecoder(_Decoder):
    """Draw tokens by their probabilities, of the likely ones only if told so.

    Parameters
    ----------
    vocab_size : int
    temperature, top_k, top_p, min_p, repetition_penalty
        As for `grilly.decoding.sample`.
    seed : int, optional
        Draw from a generator of its own that starts here, instead of the default one.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.nn.SampleDecoder(3, top_k=1)(grilly.tensor([[0.0, 2.0, 1.0]])).tolist()
    [1]
    """

    def __init__(
        self, vocab_size: int, temperature: float = 1.0, top_k: int | None = None, top_p: float | None = None,
        min_p: float | None = None, repetition_penalty: float = 1.0, seed: int | None = None,
    ) -> None:  # fmt: skip
        super().__init__(vocab_size)
        self.temperature = temperature
        self.top_k = top_k
        self.top_p = top_p
        self.min_p = min_p
        self.repetition_penalty = repetition_penalty
        self.generator = None if seed is None else Generator(seed)

    def forward(self, logits: Tensor, ids: Any = None) -> Tensor:
        """Map (..., vocab_size) to ids (...); `ids`, (..., L), are the tokens so far for the penalty."""
        self._check(logits)
        return decoding.sample(
            logits, ids, temperature=self.temperature, top_k=self.top_k, top_p=self.top_p, min_p=self.min_p,
            repetition_penalty=self.repetition_penalty, rng=self.generator,
        )  # fmt: skip


class BeamSearchDecoder(Module):
    """Find the likeliest text with beams.

    Parameters
    ----------
    num_beams : int
    length_penalty : float
    early_stopping : bool
        As for `grilly.decoding.beam_search`.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> model = lambda ids: 9 * grilly.functional.one_hot((ids + 1) % 5, 5).to(grilly.float32)
    >>> grilly.nn.BeamSearchDecoder(2)(model, grilly.tensor([[1, 2]]), 2).sequences.tolist()
    [[[1, 2, 3, 4]]]
    """

    def __init__(self, num_beams: int = 4, length_penalty: float = 1.0, early_stopping: bool = False) -> None:
        super().__init__()
        positive(num_beams=num_beams)
        self.num_beams = num_beams
        self.length_penalty = length_penalty
        self.early_stopping = early_stopping

    def forward(self, model: Any, input_ids: Any, max_new_tokens: int = 20, **options: Any) -> decoding.Beams:
        """Return the best texts; `options` are those of `grilly.decoding.beam_search`."""
        return decoding.beam_search(
            model, input_ids, max_new_tokens, num_beams=self.num_beams, length_penalty=self.length_penalty,
            early_stopping=self.early_stopping, **options,
        )  # fmt: skip
