"""How the modules of the facade find their names: core first, then installed extensions, then advice.

A module of the facade takes ``__getattr__`` and ``__dir__`` from `forward` and defines nothing else.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable
from typing import Any

__all__ = ["forward"]


def forward(core: str | None, namespace: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return ``__getattr__`` and ``__dir__`` of the facade's module ``grilly.<namespace>``.

    Dunders are refused at once, without an import, because tools probe for them; ``__all__`` alone is answered, with
    core's names, so that ``import *`` loads no plugin. ``hasattr`` with a name that a missing package would bring
    raises `MissingPluginError` instead of answering False.

    Parameters
    ----------
    core : str
        The module of core whose public names are forwarded; None where all names come from extensions.
    namespace : str
        The name below ``grilly``.
    """
    facade = f"grilly.{namespace}"

    def __getattr__(name: str) -> Any:
        if name == "__all__":
            return _public(core)
        if name.startswith("__"):
            raise AttributeError(f"module {facade!r} has no attribute {name!r}")
        value = _find(core, facade, namespace, name)
        setattr(sys.modules[facade], name, value)
        return value

    def __dir__() -> list[str]:
        return sorted({*_public(core), *_loader().public_names(namespace)})

    return __getattr__, __dir__


def _find(core: str | None, facade: str, namespace: str, name: str) -> Any:
    public = _public(core)
    if core is not None and name in public:
        return getattr(importlib.import_module(core), name)
    if core is not None and not name.startswith("_"):
        for package in (facade, core):
            if hasattr(sys.modules[package], "__path__") and importlib.util.find_spec(f"{package}.{name}"):
                return importlib.import_module(f"{package}.{name}")
    return _loader().load_public(namespace, name, public)


def _public(core: str | None) -> list[str]:
    return [] if core is None else list(importlib.import_module(core).__all__)


def _loader() -> Any:
    return importlib.import_module("grilly_core.plugins.loader")
