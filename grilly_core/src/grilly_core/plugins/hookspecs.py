"""The hooks a plugin may implement; both are optional, and none is on the path of a computation.

A hook is found on the object that an entry point names, if that is a module or an instance:

>>> from grilly_core.plugins.hookspecs import hookimpl
>>> class Backend:
...     @hookimpl
...     def grilly_doctor(self):
...         return {"driver": "1.2"}
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import pluggy

__all__ = ["PROJECT", "grilly_doctor", "grilly_setup", "hookimpl", "hookspec"]

PROJECT: Final = "grilly"
hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)


@hookspec(historic=True)
def grilly_setup(abi: int) -> None:
    """Do once per process what importing a module must not do.

    Called when the plugin has been loaded and checked, before anything of it is used. An error marks the plugin
    as broken.

    Parameters
    ----------
    abi : int
        The ABI epoch that grilly offers.
    """


@hookspec
def grilly_doctor() -> Mapping[str, str]:  # type: ignore[empty-body]
    """Return facts for ``grilly doctor``, such as a driver's version or a threading layer, by label."""
