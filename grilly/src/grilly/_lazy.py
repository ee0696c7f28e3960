"""How the modules of the facade find their names: core first, then installed extensions, then advice.

A module of the facade takes ``__getattr__`` and ``__dir__`` from `forward` and defines nothing else.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

__all__ = ["forward"]


def forward(core: str, namespace: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return ``__getattr__`` and ``__dir__`` of the facade's module ``grilly.<namespace>``.

    Dunders are refused at once, without an import, because tools probe for them; ``__all__`` alone is answered, with
    core's names, so that ``import *`` loads no plugin. ``hasattr`` with a name that a missing package would bring
    raises `MissingPluginError` instead of answering False.

    Parameters
    ----------
    core : str
        The module of core whose public names are forwarded.
    namespace : str
        The name below ``grilly``.
    """
    facade = f"grilly.{namespace}"

    def __getattr__(name: str) -> Any:
        if name == "__all__":
            return _public(importlib.import_module(core))
        if name.startswith("__"):
            raise AttributeError(f"module {facade!r} has no attribute {name!r}")
        value = _find(core, facade, namespace, name)
        setattr(sys.modules[facade], name, value)
        return value

    def __dir__() -> list[str]:
        return sorted({*_public(importlib.import_module(core)), *_loader().public_names(namespace)})

    return __getattr__, __dir__


def _find(core: str, facade: str, namespace: str, name: str) -> Any:
    module = importlib.import_module(core)
    public = _public(module)
    if name in public:
        return getattr(module, name)
    if not name.startswith("_"):
        for package in (facade, core):
            if hasattr(sys.modules[package], "__path__") and importlib.util.find_spec(f"{package}.{name}"):
                return importlib.import_module(f"{package}.{name}")
    return _loader().load_public(namespace, name, public)


def _public(module: ModuleType) -> list[str]:
    return list(module.__all__)


def _loader() -> Any:
    return importlib.import_module("grilly_core.plugins.loader")
