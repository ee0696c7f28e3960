"""Turning texts into vectors. An encoder is any callable ``(list of str) -> array (N, D)``."""

from __future__ import annotations

import functools
import hashlib
import importlib
import itertools
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

__all__ = ["Encoder", "HashingEncoder", "encode", "encoder_from"]

Encoder = Callable[[Sequence[str]], Any]

_WORD: Final = re.compile(r"\w+", re.UNICODE)


class HashingEncoder:
    """Vectors of hashed words and character n-grams: no model, no download, no training, and no understanding.

    A text's features (words, pairs of neighbouring words, n-grams of letters within words) are hashed to signed places
    of a vector (Weinberger et al. 2009), weighted by ``1 + log(count)``, and the vector is scaled to length 1. Texts
    that share spelling are near each other; synonyms are not. The hash is BLAKE2b, the same in every process.

    Parameters
    ----------
    dim : int
        Width of the vectors.
    ngrams : (int, int)
        Shortest and longest n-grams of letters, of words with a space on both sides.
    ngram_weight : float
        Weight of an n-gram beside a word's 1.

    Examples
    --------
    >>> from grilly_ext_memory.text.encoders import HashingEncoder
    >>> a, b, c = HashingEncoder(256)(["sorting a list", "how to sort lists", "open a socket"])
    >>> bool(a @ b > a @ c)
    True
    """

    def __init__(self, dim: int = 1024, ngrams: tuple[int, int] = (3, 5), ngram_weight: float = 1.0) -> None:
        if dim < 1 or not 1 <= ngrams[0] <= ngrams[1]:
            raise ValueError(
                f"HashingEncoder: expected a positive width and 1 <= shortest <= longest n-gram; received {dim} and "
                f"{ngrams}."
            )
        self.dim, self.ngrams, self.ngram_weight = dim, (int(ngrams[0]), int(ngrams[1])), float(ngram_weight)
        self._of_word = functools.lru_cache(maxsize=1 << 16)(self._ngrams_of)

    @property
    def spec(self) -> dict[str, Any]:
        """What makes the same encoder again, as JSON."""
        return {
            "encoder": "hashing", "dim": self.dim, "ngrams": list(self.ngrams), "ngram_weight": self.ngram_weight
        }  # fmt: skip

    def __call__(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return the vectors ``(N, dim)``; a text without words gives 0."""
        made = np.zeros((len(texts), self.dim), np.float32)
        for row, text in zip(made, texts, strict=True):
            places, weights = self._features(text)
            np.add.at(row, places, weights)
            length = float(np.linalg.norm(row))
            if length:
                row /= length
        return made

    def _features(self, text: str) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        words = _WORD.findall(unicodedata.normalize("NFKC", text).casefold())
        total: dict[tuple[int, float], float] = {}
        counted: list[tuple[Counter[Any], float]] = [
            (Counter(self._place(f"w {word}") for word in words), 1.0),
            (Counter(self._place(f"p {a} {b}") for a, b in itertools.pairwise(words)), 0.7),
            (Counter(place for word in words for place in self._of_word(word)), self.ngram_weight),
        ]
        for counts, weight in counted:
            for place, count in counts.items():
                total[place] = total.get(place, 0.0) + weight * (1.0 + float(np.log(count)))
        places = np.array([at for at, _ in total], np.int64)
        signs = np.array([sign for _, sign in total], np.float32)
        return places, signs * np.array(list(total.values()), np.float32)

    def _place(self, feature: str) -> tuple[int, float]:
        digest = int.from_bytes(hashlib.blake2b(feature.encode(), digest_size=8).digest(), "little")
        return (digest >> 1) % self.dim, 1.0 if digest & 1 else -1.0

    def _ngrams_of(self, word: str) -> tuple[tuple[int, float], ...]:
        padded = f" {word} "
        return tuple(
            self._place(f"c {padded[i : i + n]}")
            for n in range(self.ngrams[0], self.ngrams[1] + 1)
            for i in range(len(padded) - n + 1)
        )


def encode(encoder: Encoder, texts: Sequence[str], dim: int | None = None) -> NDArray[np.float32]:
    """Return what an encoder makes of texts, as float32 rows of length 1.

    Raises
    ------
    ValueError
        If it returns no numbers, another number of rows, another width than `dim`, or numbers that are not finite.

    Examples
    --------
    >>> from grilly_ext_memory.text.encoders import encode
    >>> encode(lambda texts: [[3.0, 4.0] for _ in texts], ["a text"]).tolist()
    [[0.6000000238418579, 0.800000011920929]]
    """
    returned = encoder(list(texts))
    try:
        made = np.asarray(returned, np.float32)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"the encoder returned {type(returned).__name__}; expected numbers ({len(texts)}, {dim or 'D'})."
        ) from error
    if made.ndim != 2 or made.shape[0] != len(texts) or (dim is not None and made.shape[1] != dim):
        raise ValueError(
            f"the encoder returned shape {made.shape} for {len(texts)} texts; expected ({len(texts)}, {dim or 'D'})."
        )
    if not np.isfinite(made).all():
        raise ValueError("the encoder returned numbers that are not finite.")
    lengths = np.linalg.norm(made, axis=1, keepdims=True)
    return np.divide(made, lengths, out=np.zeros_like(made), where=lengths > 0)


def encoder_from(spec: dict[str, Any] | str) -> Encoder:
    """Return the encoder of a `HashingEncoder.spec`, or a ``module:attribute`` of the user's.

    Examples
    --------
    >>> from grilly_ext_memory.text.encoders import HashingEncoder, encoder_from
    >>> encoder_from(HashingEncoder(64).spec).dim
    64
    """
    if isinstance(spec, str):
        module, colon, attribute = spec.partition(":")
        if spec == "hashing":
            return HashingEncoder()
        if not colon:
            raise ValueError(f"encoder: expected 'hashing' or 'module:attribute'; received {spec!r}.")
        return _named(module, attribute)
    if spec.get("encoder") != "hashing":
        raise ValueError(
            f"encoder: {spec.get('encoder')!r} cannot be made again; pass encoder= when opening."
        )
    low, high = spec["ngrams"]
    return HashingEncoder(int(spec["dim"]), (int(low), int(high)), float(spec["ngram_weight"]))


def _named(module: str, attribute: str) -> Encoder:
    try:
        found = getattr(importlib.import_module(module), attribute, None)
    except ImportError as error:
        raise ValueError(f"encoder: the module {module!r} cannot be imported ({error}).") from error
    if not callable(found):
        raise ValueError(
            f"encoder: expected a callable {attribute!r} in the module {module!r}; received {found!r}."
        )
    made: Encoder = found
    return made
