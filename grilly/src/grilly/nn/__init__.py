"""Modules: core's layers and losses, and those of installed extensions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grilly._lazy import forward

if TYPE_CHECKING:
    from grilly_core.nn import *  # noqa: F403

__getattr__, __dir__ = forward("grilly_core.nn", "nn")
