"""Sequences of different lengths."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grilly._lazy import forward

if TYPE_CHECKING:
    from grilly_core.nn.utils.rnn import *  # noqa: F403

__getattr__, __dir__ = forward("grilly_core.nn.utils.rnn", "nn.utils.rnn")
