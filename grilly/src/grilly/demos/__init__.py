"""What ``grilly demo NAME`` runs: a module with ``main(arguments)``, of the facade or of an extension."""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any, Final

from grilly_core.errors import MissingPluginError
from grilly_core.plugins import known

__all__ = ["DEMOS", "find"]

#: Name → module and the package that brings it.
DEMOS: Final[dict[str, tuple[str, str]]] = {
    "digits": ("grilly.demos.digits", "grilly"),
}


def find(name: str) -> Any:
    """Return the module of a demo.

    Raises
    ------
    MissingPluginError
        If the package that brings it is not installed.
    """
    module, package = DEMOS[name]
    if importlib.util.find_spec(module.partition(".")[0]) is None:
        raise MissingPluginError(f"demo {name!r} comes with {package}: {known.install_hint(package)}.")
    return importlib.import_module(module)
