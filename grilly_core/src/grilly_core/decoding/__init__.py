"""Text from a model of the next token: greedy, by chance, or with beams."""

from __future__ import annotations

from grilly_core.decoding.beams import Beams, beam_search
from grilly_core.decoding.choosing import filter_logits, greedy, sample
from grilly_core.decoding.generation import generate, stream

__all__ = ["Beams", "beam_search", "filter_logits", "generate", "greedy", "sample", "stream"]
