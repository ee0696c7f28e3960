"""What a loaded plugin object must be: its ABI epoch and its kind, with messages that say what was expected."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any, Final

from grilly_core.errors import PluginError
from grilly_core.plugins.index import BACKENDS, DEMOS, KERNELS, OPS, PUBLIC, Entry

__all__ = ["ABI", "AbiError", "check_abi", "check_kind"]

#: The epoch of the contracts between core and plugins; it grows when a plugin would have to change.
ABI: Final = 1
_UNDECLARED: Final = object()


class AbiError(PluginError):
    """A plugin was written for another epoch of the plugin contracts."""


def check_abi(entry: Entry, target: object) -> bool:
    """Raise `AbiError` if the plugin declares another epoch; return whether it declares one at all.

    ``grilly_abi`` is looked for on the target, then on its module, then on the packages round that module.
    """
    declared = _declared(entry, target)
    if declared is _UNDECLARED:
        return False
    if declared != ABI:
        raise AbiError(
            f"{entry} declares grilly_abi = {declared!r}, but this grilly-core offers {ABI}; "
            f"install versions of {entry.distributions} and grilly-core that match."
        )
    return True


def _declared(entry: Entry, target: object) -> object:
    found = getattr(target, "grilly_abi", _UNDECLARED)
    name = entry.module
    while found is _UNDECLARED and name:
        found = getattr(sys.modules.get(name), "grilly_abi", _UNDECLARED)
        name = name.rpartition(".")[0]
    return found


def check_kind(entry: Entry, target: object) -> object:
    """Raise `PluginError` unless `target` is what the entry's group asks for; return what core will use.

    For kernels that is the ``register`` callable, for the other groups the target itself.
    """
    return _CHECKS[entry.group](entry, target)


def _wrong(entry: Entry, expected: str, target: object) -> PluginError:
    what = f"the class {target.__qualname__}" if isinstance(target, type) else f"a {type(target).__name__}"
    if target is None:
        what = "None"
    return PluginError(f"{entry}: expected {expected}; {entry.target!r} is {what}.")


def _backend(entry: Entry, target: object) -> object:
    expected = "a backend instance with name: str, devices() -> list and open(index) -> runtime"
    if isinstance(target, type | ModuleType) or not isinstance(getattr(target, "name", None), str):
        raise _wrong(entry, expected, target)
    if not all(callable(getattr(target, method, None)) for method in ("devices", "open")):
        raise _wrong(entry, expected, target)
    name: str = target.name  # type: ignore[attr-defined]
    if name != entry.name:
        raise PluginError(f"{entry}: expected a backend named {entry.name!r}; its name is {name!r}.")
    return target


def _ops(entry: Entry, target: object) -> object:
    if not isinstance(target, ModuleType):
        raise _wrong(entry, "a module whose import declares ops with @op", target)
    return target


def _public(entry: Entry, target: object) -> object:
    if isinstance(target, ModuleType) and entry.name.partition(".")[0] in ("grilly", "experimental", "utils"):
        return target
    if isinstance(target, ModuleType) or not callable(target):
        raise _wrong(entry, "a class or function", target)
    return target


def _kernels(entry: Entry, target: object) -> object:
    register = getattr(target, "register", None) if isinstance(target, ModuleType) else target
    if isinstance(register, type) or not callable(register):
        raise _wrong(entry, "a function register(kernels, runtime), or a module that defines it", target)
    return register


def _demo(entry: Entry, target: object) -> object:
    if isinstance(target, ModuleType | type) or not callable(target):
        raise _wrong(entry, "a function main(arguments)", target)
    return target


_CHECKS: Final[dict[str, Callable[[Entry, Any], object]]] = {
    BACKENDS: _backend,
    OPS: _ops,
    PUBLIC: _public,
    KERNELS: _kernels,
    DEMOS: _demo,
}
