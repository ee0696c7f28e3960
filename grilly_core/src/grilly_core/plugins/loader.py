"""Loading plugins: one at a time, when asked for, once per process, with a status for every failure.

A plugin that fails never breaks another one: the error is kept, shown by ``grilly doctor``, and raised again,
chained, whenever that plugin is asked for. The functions of this module work on one `Loader` per process; tests
make their own.
"""

from __future__ import annotations

import difflib
import functools
import importlib
import threading
import traceback
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from grilly_core.errors import (
    AmbiguousPluginError,
    DeviceError,
    MissingPluginError,
    PluginError,
    PluginWarning,
)
from grilly_core.plugins import known
from grilly_core.plugins.contract import ABI, AbiError, check_abi, check_kind
from grilly_core.plugins.index import (
    BACKENDS,
    DEMOS,
    KERNELS,
    OPS,
    PUBLIC,
    Entry,
    Index,
    hidden_by,
    public_keys,
    scan,
    split_public,
)
from grilly_core.plugins.status import PluginState, PluginStatus

if TYPE_CHECKING:
    import pluggy

__all__ = [
    "Loader",
    "add_backend",
    "backend_names",
    "demo_names",
    "devices_of",
    "doctor_facts",
    "index",
    "kernels_for",
    "load_all",
    "load_backend",
    "load_demo",
    "load_every_op",
    "load_ops",
    "load_public",
    "public_names",
    "refresh",
    "remove_backend",
    "statuses",
]


@dataclass(frozen=True, slots=True)
class _Record:
    """The outcome of loading one entry: what core uses, or the state and error that stand in its place."""

    value: Any
    state: PluginState = PluginState.LOADED
    error: BaseException | None = None
    detail: str = ""


class Loader:
    """The plugins of one process.

    Parameters
    ----------
    path : sequence of str, optional
        Folders whose metadata is searched instead of ``sys.path``.
    """

    def __init__(self, path: Sequence[str] | None = None) -> None:
        self._path = path
        self._lock = threading.RLock()
        self._local = threading.local()
        self.refresh()

    def refresh(self) -> None:
        """Forget the scan, every loaded plugin and every failure; the next question starts anew."""
        with self._lock:
            self._index: Index | None = None
            self._records: dict[Entry, _Record] = {}
            self._added: dict[str, Any] = {}
            self._hooks: pluggy.PluginManager | None = None
            self._warned: set[str] = set()

    def index(self) -> Index:
        """Return what the metadata says, scanning it on first use."""
        found = self._index
        if found is None:
            with self._lock:
                found = self._index = self._index or scan(self._path)
        return found

    # -- one entry ---------------------------------------------------------------------------------------------

    def load(self, group: str, name: str) -> Any:
        """Return the plugin object registered as `name`, loading it on first use.

        Raises
        ------
        PluginError
            If it is hidden by the environment, broken, of another ABI or of the wrong kind; the original error is
            chained.
        AmbiguousPluginError
            If distributions disagree about what the name means.
        LookupError
            If nothing installed registers the name.
        """
        entry = self._choose(group, name)
        record = self._records.get(entry) or self._load(entry)
        if record.error is not None:
            raise PluginError(f"{entry} cannot be used: {record.detail}") from record.error
        return record.value

    def _choose(self, group: str, name: str) -> Entry:
        enabled = self.index().enabled(group, name)
        if len(enabled) == 1:
            return enabled[0]
        if enabled:
            raise AmbiguousPluginError(_ambiguous(enabled))
        hidden = self.index().all(group, name)
        if hidden:
            raise PluginError(f"{hidden[0]} is disabled by the environment variable {hidden_by(hidden[0])}.")
        raise LookupError(name)

    def _load(self, entry: Entry) -> _Record:
        """Import outside the lock (an import takes locks of its own), then check and set up inside it."""
        stack: list[Entry] = self._local.__dict__.setdefault("stack", [])
        if entry in stack:
            raise PluginError(f"{entry} asks for itself while it is being imported; import it later.")
        stack.append(entry)
        try:
            outcome = _import(entry)
            with self._lock:
                if entry not in self._records:
                    self._records[entry] = self._admit(entry, outcome)
                record = self._records[entry]
        finally:
            stack.pop()
        self._warn_undeclared(entry, record, outcome)
        return record

    def _admit(self, entry: Entry, outcome: object) -> _Record:
        """Check an imported object, run its setup hook, and return the record to keep."""
        if isinstance(outcome, _Record):
            return outcome
        try:
            check_abi(entry, outcome)
            value = check_kind(entry, outcome)
            self._register_hooks(entry, outcome)
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            return _failure(error)
        return _Record(value)

    def _register_hooks(self, entry: Entry, target: object) -> None:
        if entry.group in (PUBLIC, DEMOS) or isinstance(target, type) or callable(target):
            return
        manager = self._hooks
        if manager is None:
            manager = self._hooks = _hook_manager()
        if manager.is_registered(target):
            return
        try:
            manager.register(target, name=f"{entry.group}:{entry.name}")
            manager.check_pending()
        except BaseException:
            if manager.is_registered(target):
                manager.unregister(target)
            raise

    def _warn_undeclared(self, entry: Entry, record: _Record, outcome: object) -> None:
        if record.error is not None or check_abi(entry, outcome) or entry.distributions in self._warned:
            return
        self._warned.add(entry.distributions)
        warnings.warn(
            f"{entry} declares no grilly_abi; it is used, but may have been written for another epoch than {ABI}.",
            PluginWarning,
            stacklevel=2,
        )

    def forget(self, group: str, name: str) -> None:
        """Unregister a plugin, so that the next request loads and sets it up again."""
        with self._lock:
            for entry in self.index().all(group, name):
                self._records.pop(entry, None)
                registered = self._hooks and self._hooks.get_plugin(f"{group}:{name}")
                if self._hooks and registered is not None:
                    self._hooks.unregister(registered)

    # -- backends ----------------------------------------------------------------------------------------------

    def backend_names(self) -> list[str]:
        """Return the names of backends that are installed or added, without importing any."""
        return sorted({*self.index().names(BACKENDS), *self._added})

    def load_backend(self, name: str) -> Any:
        """Return the backend object called `name`.

        Raises
        ------
        DeviceError
            If no backend has that name.
        MissingPluginError
            If a package that is not installed would bring it.
        PluginError
            See `load`.
        """
        if name in self._added:
            return self._added[name]
        try:
            return self.load(BACKENDS, name)
        except LookupError:
            raise self._no_backend(name) from None

    def _no_backend(self, name: str) -> DeviceError | MissingPluginError:
        package = known.BACKENDS.get(name)
        if package is not None:
            return MissingPluginError(known.missing(f"backend {name!r}", package))
        names = self.backend_names()
        there = f"installed are {', '.join(names)}" if names else "no backend is installed"
        return DeviceError(f"backend {name!r} is not known; {there}.{_did_you_mean(name, names)}")

    def add_backend(self, backend: Any) -> None:
        """Register a backend object of this process, as if a package had published it."""
        entry = Entry(BACKENDS, str(getattr(backend, "name", "")), f"{type(backend).__module__}:", ())
        check_kind(entry, backend)
        if backend.name in self.backend_names():
            raise PluginError(f"a backend named {backend.name!r} exists already.")
        with self._lock:
            self._added[backend.name] = backend

    def remove_backend(self, name: str) -> None:
        """Take back `add_backend`."""
        with self._lock:
            self._added.pop(name, None)

    def devices_of(self, name: str) -> list[Any]:
        """Return the devices a backend lists; an error or an empty list is kept as its status."""
        backend = self.load_backend(name)
        error: BaseException | None = None
        devices: list[Any] = []
        try:
            devices = list(backend.devices())
        except Exception as failure:  # a driver that fails is a state of that backend, not of the program
            error = failure
        if name not in self._added:
            entry = self._choose(BACKENDS, name)
            state = PluginState.LOADED if devices else PluginState.NO_DEVICE
            detail = "" if devices else _line(error) if error else "the backend lists no device"
            with self._lock:
                self._records[entry] = _Record(backend, state, None, detail)
        return devices

    # -- ops, kernels, public names ----------------------------------------------------------------------------

    def load_ops(self, name: str) -> Any:
        """Load the plugin that declares an op, given the op's name or its prefix.

        Returns
        -------
        module or None
            None if neither an installed plugin nor a package that we know of claims the prefix.
        """
        prefix = name
        while prefix:
            try:
                return self.load(OPS, prefix)
            except LookupError:
                prefix = prefix.rpartition(".")[0]
        package = known.OPS.get(name.partition(".")[0])
        if package is None:
            return None
        raise MissingPluginError(known.missing(f"op {name!r}", package))

    def load_every_op(self, *, strict: bool = False) -> None:
        """Load all installed plugins that declare ops.

        Parameters
        ----------
        strict : bool
            Raise the first failure; else one that cannot be loaded is left out with a `PluginWarning`.
        """
        for name in self.index().names(OPS):
            try:
                self.load(OPS, name)
            except PluginError as error:
                if strict:
                    raise
                warnings.warn(f"ops {name!r} are left out: {error}", PluginWarning, stacklevel=2)

    def kernels_for(self, backend: str) -> list[tuple[str, Callable[[Any, Any], None]]]:
        """Return what extensions bring for a backend: pairs of source and ``register(kernels, runtime)``.

        One that cannot be loaded, or fails when called, is left out with a `PluginWarning`.
        """
        found: list[tuple[str, Callable[[Any, Any], None]]] = []
        for name in self.index().names(KERNELS):
            if name.rpartition("@")[2] != backend:
                continue
            try:
                register = self.load(KERNELS, name)
            except PluginError as error:
                warnings.warn(f"kernels {name!r} are left out: {error}", PluginWarning, stacklevel=2)
                continue
            entry = self._choose(KERNELS, name)
            found.append((entry.distributions, functools.partial(self._register, entry, register)))
        return found

    def _register(
        self, entry: Entry, register: Callable[[Any, Any], None], kernels: Any, runtime: Any
    ) -> None:
        try:
            register(kernels, runtime)
        except Exception as error:  # an extension's kernels must not take the device from everybody else
            with self._lock:
                self._records[entry] = _failure(error)
            warnings.warn(f"{entry} failed to register: {_line(error)}", PluginWarning, stacklevel=2)

    def load_public(self, namespace: str, name: str, core_names: Iterable[str] = ()) -> Any:
        """Return what an extension publishes as ``grilly.<namespace>.<name>``.

        Parameters
        ----------
        namespace : str
            Such as ``"nn"``; empty for ``grilly`` itself.
        name : str
        core_names : iterable of str
            Names of the namespace that core defines, for the suggestions of an `AttributeError`.

        Raises
        ------
        MissingPluginError
            If a package that is not installed would bring it.
        AttributeError
            If nobody knows the name.
        PluginError
            See `load`.
        """
        if not name.startswith("_"):
            for key in public_keys(namespace, name):
                try:
                    return self.load(PUBLIC, key)
                except LookupError:
                    continue
        where = f"grilly.{namespace}" if namespace else "grilly"
        package = known.package_of(namespace, name)
        if package is not None:
            raise MissingPluginError(known.missing(f"{where}.{name}", package))
        names = {*core_names, *self.public_names(namespace), *known.names_in(namespace)}
        raise AttributeError(f"module {where!r} has no attribute {name!r}.{_did_you_mean(name, names)}")

    def public_names(self, namespace: str) -> list[str]:
        """Return the names that installed extensions add to a namespace, without importing any."""
        split = (split_public(key) for key in self.index().names(PUBLIC))
        return sorted(name for space, name in split if space == namespace)

    # -- demos -------------------------------------------------------------------------------------------------

    def demo_names(self) -> list[str]:
        """Return the names of installed demos, without importing any."""
        return self.index().names(DEMOS)

    def load_demo(self, name: str) -> Callable[[Sequence[str]], int | None]:
        """Return the function ``main(arguments)`` of a demo.

        Raises
        ------
        MissingPluginError
            If a package that is not installed would bring it.
        LookupError
            If nobody knows it.
        PluginError
            See `load`.
        """
        try:
            return self.load(DEMOS, name)  # type: ignore[no-any-return]
        except LookupError:
            package = known.DEMOS.get(name)
            if package is not None:
                raise MissingPluginError(known.missing(f"the demo {name!r}", package)) from None
            names = self.demo_names()
            there = f"there are {', '.join(names)}" if names else "none is installed"
            raise LookupError(f"demo {name!r} is not known; {there}.{_did_you_mean(name, names)}") from None

    # -- overview ----------------------------------------------------------------------------------------------

    def load_all(self, *, strict: bool = False) -> list[PluginStatus]:
        """Load every enabled plugin and return all statuses.

        Parameters
        ----------
        strict : bool
            Raise the first failure instead of keeping it as a status.
        """
        for entry in self.index():
            if hidden_by(entry) is None:
                try:
                    self.load(entry.group, entry.name)
                except PluginError:
                    if strict:
                        raise
        for name in self.index().names(BACKENDS):
            try:
                self.devices_of(name)
            except PluginError:
                continue
        return self.statuses()

    def statuses(self) -> list[PluginStatus]:
        """Return the state of every registration, loading nothing."""
        return [self._status(entry) for entry in self.index()]

    def _status(self, entry: Entry) -> PluginStatus:
        record = self._records.get(entry)
        hidden = hidden_by(entry)
        rivals = self.index().enabled(entry.group, entry.name)
        state, detail, trace = PluginState.INSTALLED, "", ""
        if hidden is not None:
            state, detail = PluginState.DISABLED, f"by {hidden}"
        elif len(rivals) > 1:
            state, detail = PluginState.AMBIGUOUS, _ambiguous(rivals)
        elif record is not None:
            state, detail = record.state, record.detail
            trace = "".join(traceback.format_exception(record.error)) if record.error else ""
        return PluginStatus(entry.group, entry.name, entry.target, entry.distributions, state, detail, trace)

    def doctor_facts(self) -> dict[str, str]:
        """Return what the `grilly_doctor` hooks of loaded plugins say; a failing hook says so itself."""
        facts: dict[str, str] = {}
        if self._hooks is None:
            return facts
        for implementation in self._hooks.hook.grilly_doctor.get_hookimpls():
            try:
                reported: Any = implementation.function()
                facts.update(reported)
            except Exception as error:  # a fact that cannot be had is itself a fact
                facts[implementation.plugin_name] = f"failed: {_line(error)}"
        return facts


def _import(entry: Entry) -> object:
    """Return the object an entry names, or the record of the failure."""
    try:
        target: object = importlib.import_module(entry.module)
        for part in filter(None, entry.attribute.split(".")):
            target = getattr(target, part)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # SystemExit and worse: a plugin must not end the program
        return _failure(error)
    return target


def _failure(error: BaseException) -> _Record:
    state = PluginState.WRONG_ABI if isinstance(error, AbiError) else PluginState.BROKEN
    return _Record(None, state, error, str(error) if isinstance(error, PluginError) else _line(error))


def _line(error: BaseException) -> str:
    return "".join(traceback.format_exception_only(error)).strip().splitlines()[-1]


def _hook_manager() -> pluggy.PluginManager:
    import pluggy

    from grilly_core.plugins import hookspecs

    manager = pluggy.PluginManager(hookspecs.PROJECT)
    manager.add_hookspecs(hookspecs)
    manager.hook.grilly_setup.call_historic(kwargs={"abi": ABI})
    return manager


def _ambiguous(entries: Sequence[Entry]) -> str:
    claims = "; ".join(f"{entry.distributions} means {entry.target}" for entry in entries)
    first = entries[0].providers[0][0]
    return (
        f"{entries[0].name!r} ({entries[0].group}) is ambiguous: {claims}. "
        f"Hide all but one, for example with GRILLY_DISABLE={first}."
    )


def _did_you_mean(name: str, names: Iterable[str]) -> str:
    close = difflib.get_close_matches(name, sorted(names), n=3)
    return f" Did you mean {', '.join(close)}?" if close else ""


_process: Final = Loader()

add_backend = _process.add_backend
backend_names = _process.backend_names
demo_names = _process.demo_names
devices_of = _process.devices_of
doctor_facts = _process.doctor_facts
index = _process.index
kernels_for = _process.kernels_for
load_all = _process.load_all
load_backend = _process.load_backend
load_demo = _process.load_demo
load_every_op = _process.load_every_op
load_ops = _process.load_ops
load_public = _process.load_public
public_names = _process.public_names
refresh = _process.refresh
remove_backend = _process.remove_backend
statuses = _process.statuses
