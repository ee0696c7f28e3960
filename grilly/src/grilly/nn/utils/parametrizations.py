"""Weight and spectral norm."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grilly._lazy import forward

if TYPE_CHECKING:
    from grilly_core.nn.utils.parametrizations import *  # noqa: F403

__getattr__, __dir__ = forward("grilly_core.nn.utils.parametrizations", "nn.utils.parametrizations")
