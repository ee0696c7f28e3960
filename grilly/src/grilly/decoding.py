"""Text from a model of the next token."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grilly._lazy import forward

if TYPE_CHECKING:
    from grilly_core.decoding import *  # noqa: F403

__getattr__, __dir__ = forward("grilly_core.decoding", "decoding")
