"""How a plugin is doing, as data for `grilly doctor` and for messages."""

from __future__ import annotations

import enum
from dataclasses import dataclass

__all__ = ["PluginState", "PluginStatus"]


class PluginState(enum.StrEnum):
    """The states of a plugin; the value is what `grilly doctor` prints."""

    INSTALLED = "installed"
    LOADED = "loaded"
    BROKEN = "broken"
    WRONG_ABI = "wrong ABI"
    NO_DEVICE = "no device"
    DISABLED = "disabled"
    AMBIGUOUS = "ambiguous"


@dataclass(frozen=True, slots=True)
class PluginStatus:
    """One registration and its state.

    Attributes
    ----------
    group, name, target : str
        The entry point.
    distributions : str
        Who publishes it, with versions.
    state : PluginState
    detail : str
        One line that says why, empty where there is nothing to say.
    traceback : str
        The full traceback of a failure, else empty.
    """

    group: str
    name: str
    target: str
    distributions: str
    state: PluginState
    detail: str = ""
    traceback: str = ""
