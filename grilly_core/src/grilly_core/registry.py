"""What exists: op specs by name, kernels by backend. Writes are locked, reads are not.

`generation` grows with every change; plans made before it are dropped.
"""

from __future__ import annotations

import difflib
import threading
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from grilly_core.errors import NoKernelError, RegistrationError
from grilly_core.plugins import loader

if TYPE_CHECKING:
    from grilly_core.device import Context
    from grilly_core.opspec import Op

__all__ = ["Kernel", "KernelScope", "add_op", "get", "kernels_for", "on_change", "remove_op", "specs"]

_LAYOUTS: Final = ("strided", "contiguous", "broadcast")
KernelFunction = Callable[[Any, Any, Any, dict[str, Any]], None]


@dataclass(frozen=True, eq=False, slots=True)
class Kernel:
    """One implementation of one op on one backend, with its support as data.

    Attributes
    ----------
    op : str
    fn : callable
        ``fn(stream, outs, ins, attrs)``; writes into ``outs`` and allocates nothing on the device.
    dtypes : frozenset of str
        Codes of the types it accepts for its floating inputs (for all inputs, if none is floating).
    layout : {"strided", "contiguous", "broadcast"}
        With ``"contiguous"`` core copies other inputs first; with ``"broadcast"`` the inputs of an
        elementwise op come as
        they are, and the kernel repeats their axes itself.
    when : callable, optional
        Further condition on specs and attributes; asked only when a plan is built.
    priority : int
        The highest wins; a tie is an error.
    compute : dict, optional
        Types the kernel serves through another one, such as ``{"f16": "f32"}``; core inserts the casts.
    """

    op: str
    fn: KernelFunction
    dtypes: frozenset[str]
    layout: str = "strided"
    when: Callable[[Any], bool] | None = None
    priority: int = 0
    compute: dict[str, str] | None = None
    source: str = ""


_ops: dict[str, Op[Any, Any]] = {}
_kernels: dict[str, dict[str, list[Kernel]]] = {}
_waiting: dict[str, Context] = {}  # open backends whose kernels have not been collected
_listeners: list[Callable[[], None]] = []
_lock: Final = threading.RLock()
_core_loaded: list[bool] = []
generation: list[int] = [0]


def on_change(listener: Callable[[], None]) -> None:
    """Call `listener` after every change (the dispatcher drops its plans)."""
    _listeners.append(listener)


def _changed() -> None:
    generation[0] += 1
    for listener in _listeners:
        listener()


def add_op(op: Op[Any, Any]) -> None:
    """Register an op; the same declaration again (a reloaded module) replaces it, another one is an error."""
    with _lock:
        known = _ops.get(op.name)
        if known is not None and (known.module, known.rule.__qualname__) != (op.module, op.rule.__qualname__):
            raise RegistrationError(
                f"op {op.name!r} is declared twice: in {known.module} and in {op.module}; rename one of them."
            )
        _ops[op.name] = op
        _changed()


def remove_op(name: str) -> None:
    """Forget an op and its kernels (for tests and notebooks)."""
    with _lock:
        _ops.pop(name, None)
        for table in _kernels.values():
            table.pop(name, None)
        _changed()


def load_core() -> None:
    """Import the ops that core ships, once."""
    if not _core_loaded:
        _core_loaded.append(True)
        import importlib

        importlib.import_module("grilly_core.ops")


def specs() -> dict[str, Op[Any, Any]]:
    """Return all ops registered so far, core's included, by name."""
    load_core()
    with _lock:
        return dict(sorted(_ops.items()))


def get(name: str) -> Op[Any, Any]:
    """Return an op by name, loading core's ops or the plugin that brings it.

    Raises
    ------
    NoKernelError
        If no installed package knows the name; close matches are listed.
    """
    found = _ops.get(name)
    if found is None:
        load_core()
        found = _ops.get(name)
    if found is None:
        loader.load_ops(name)
        found = _ops.get(name)
    if found is None:
        close = difflib.get_close_matches(name, _ops, n=3)
        hint = f"did you mean {', '.join(close)}?" if close else "`grilly ops` lists what there is."
        raise NoKernelError(f"op {name!r} is not known; {hint}")
    return found


class KernelScope:
    """What a backend's ``register(kernels, runtime)`` receives.

    Parameters
    ----------
    backend : str
        Name of the backend the kernels run on.
    table : dict
        Where they are put, by op name.
    source : str
        Who brings them, for messages.
    """

    def __init__(self, backend: str, table: dict[str, list[Kernel]], source: str = "") -> None:
        self.backend = backend
        self._table = table
        self.source = source or backend

    def add(
        self,
        name: str,
        fn: KernelFunction,
        *,
        dtypes: Collection[str],
        layout: str = "strided",
        when: Callable[[Any], bool] | None = None,
        priority: int = 0,
        compute: dict[str, str] | None = None,
    ) -> None:
        """Declare one kernel; see `Kernel` for the parameters."""
        if layout not in _LAYOUTS:
            raise RegistrationError(f"kernel {name!r}: layout must be one of {_LAYOUTS}, not {layout!r}.")
        accepted = frozenset(dtypes) | frozenset(compute or ())
        kernel = Kernel(name, fn, accepted, layout, when, priority, compute, self.source)
        self._table.setdefault(name, []).append(kernel)


def kernels_for(backend: str) -> dict[str, list[Kernel]]:
    """Return the kernels of a backend by op name."""
    context = _waiting.get(backend)
    if context is not None:
        collect_kernels(context)
    return _kernels.get(backend, {})


def expect_kernels(context: Context) -> None:
    """Take note of a backend that is open; its kernels are collected when they are first asked for."""
    with _lock:
        _waiting[context.device.backend] = context


def collect_kernels(context: Context) -> None:
    """Register the kernels of a backend that has just opened, its own and those of extensions: all or none."""
    name = context.device.backend
    with _lock:
        if name in _kernels:
            return
        table: dict[str, list[Kernel]] = {}
        register = getattr(context.runtime, "register_kernels", None)
        if register is not None:
            register(KernelScope(name, table))
        for source, extension in loader.kernels_for(name):
            extension(KernelScope(name, table, source), context.runtime)
        _kernels[name] = table
        _waiting.pop(name, None)
        _changed()


def drop_kernels(backend: str) -> None:
    """Forget the kernels of a backend (for tests with fake backends)."""
    with _lock:
        _kernels.pop(backend, None)
        _waiting.pop(backend, None)
        _changed()
