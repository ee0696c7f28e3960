"""What plugins exist, learnt from installed metadata only: no plugin is imported here.

Metadata is read once per process, when something is first asked. ``GRILLY_PLUGINS`` and ``GRILLY_DISABLE`` are
read at every question, so they act before any import and can be changed at run time.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

__all__ = [
    "BACKENDS", "DEMOS", "GROUPS", "KERNELS", "OPS", "PUBLIC", "Entry", "Filters", "Index", "public_keys", "scan",
    "split_public",
]  # fmt: skip

BACKENDS: Final = "grilly.backends.v1"
OPS: Final = "grilly.ops.v1"
PUBLIC: Final = "grilly.nn.v1"
KERNELS: Final = "grilly.kernels.v1"
DEMOS: Final = "grilly.demos.v1"
GROUPS: Final = (BACKENDS, OPS, PUBLIC, KERNELS, DEMOS)


@dataclass(frozen=True, slots=True)
class Entry:
    """One registration: a name in a group, its target, and every distribution that publishes exactly this.

    Attributes
    ----------
    group, name, target : str
    providers : tuple of (str, str)
        Names and versions of distributions.
    """

    group: str
    name: str
    target: str
    providers: tuple[tuple[str, str], ...]

    @property
    def distributions(self) -> str:
        """The providers for messages, such as ``"grilly-ext-snn 0.1.0"``."""
        return " and ".join(f"{name} {version}" for name, version in self.providers)

    @property
    def module(self) -> str:
        """The module that loading the entry imports."""
        return self.target.partition(":")[0].strip()

    @property
    def attribute(self) -> str:
        """The dotted path inside the module; empty if the module itself is meant."""
        return self.target.partition(":")[2].partition("[")[0].strip()

    def __str__(self) -> str:
        return f"plugin {self.name!r} ({self.group}) of {self.distributions}"


def normalized(name: str) -> str:
    """Return a project or plugin name with case and separators evened out, as package indexes do."""
    return re.sub(r"[-_.]+", "-", name).lower()


@dataclass(frozen=True, slots=True)
class Filters:
    """What the environment lets through; a word is the name of a distribution or of an entry point.

    Attributes
    ----------
    only : frozenset of str or None
        Words of ``GRILLY_PLUGINS``; None if it is not set, empty for ``off``.
    disabled : frozenset of str
        Words of ``GRILLY_DISABLE``.
    """

    only: frozenset[str] | None
    disabled: frozenset[str]

    @classmethod
    def from_environment(cls) -> Filters:
        """Read the two variables as they are now."""
        only = _words(os.environ.get("GRILLY_PLUGINS", ""))
        return cls(None if not only else only - {"off"}, _words(os.environ.get("GRILLY_DISABLE", "")))

    def reason(self, entry: Entry, provider: str) -> str | None:
        """Return which variable hides `entry` as published by `provider`, or None if it is let through."""
        words = {normalized(entry.name), normalized(provider)}
        if words & self.disabled:
            return "GRILLY_DISABLE"
        if self.only is not None and not words & self.only:
            return "GRILLY_PLUGINS"
        return None


def _words(text: str) -> frozenset[str]:
    return frozenset(normalized(word) for word in re.split(r"[,\s]+", text) if word)


class Index:
    """The result of one scan.

    Parameters
    ----------
    entries : iterable of Entry
    notes : sequence of str
        What was odd about the metadata, for ``grilly doctor``.
    """

    def __init__(self, entries: Iterable[Entry], notes: Sequence[str] = ()) -> None:
        self.notes = tuple(notes)
        self._entries: dict[str, dict[str, list[Entry]]] = {group: {} for group in GROUPS}
        for entry in entries:
            self._entries[entry.group].setdefault(entry.name, []).append(entry)

    def __iter__(self) -> Iterator[Entry]:
        for group in GROUPS:
            for name in sorted(self._entries[group]):
                yield from self._entries[group][name]

    def all(self, group: str, name: str) -> list[Entry]:
        """Return every registration of a name, hidden ones included."""
        return list(self._entries[group].get(name, ()))

    def enabled(self, group: str, name: str) -> list[Entry]:
        """Return the registrations of a name that the environment lets through; two or more are ambiguous."""
        return [entry for entry in self.all(group, name) if hidden_by(entry) is None]

    def names(self, group: str) -> list[str]:
        """Return the enabled names of a group, sorted."""
        return [name for name in sorted(self._entries[group]) if self.enabled(group, name)]

    def unmatched_words(self) -> list[str]:
        """Return words of the two variables that match nothing installed (likely typos)."""
        filters = Filters.from_environment()
        known = {normalized(entry.name) for entry in self}
        known |= {normalized(name) for entry in self for name, _ in entry.providers}
        return sorted(((filters.only or frozenset()) | filters.disabled) - known)


def hidden_by(entry: Entry) -> str | None:
    """Return the environment variable that hides an entry, or None; one provider let through is enough."""
    filters = Filters.from_environment()
    reasons = [filters.reason(entry, name) for name, _ in entry.providers]
    return None if None in reasons else reasons[0]


def scan(path: Sequence[str] | None = None) -> Index:
    """Read the metadata of installed distributions and index what they register.

    Parameters
    ----------
    path : sequence of str, optional
        Folders to search instead of ``sys.path``.

    Examples
    --------
    >>> list(scan(path=[]))
    []
    """
    import importlib_metadata

    options: dict[str, list[str]] = {} if path is None else {"path": list(path)}
    notes: list[str] = []
    distributions: Iterable[Any] = importlib_metadata.distributions(**options)
    found = [_Project.read(dist, notes) for dist in distributions]
    providers: dict[tuple[str, str, str], list[tuple[str, str]]] = {}
    for project in _one_per_name([project for project in found if project], notes):
        for key in project.keys:
            publishers = providers.setdefault(key, [])
            if (project.name, project.version) not in publishers:
                publishers.append((project.name, project.version))
    return Index((Entry(*key, tuple(who)) for key, who in providers.items()), notes)


@dataclass(frozen=True, slots=True)
class _Project:
    """The part of a distribution's metadata that matters here."""

    name: str
    version: str
    folder: str
    keys: tuple[tuple[str, str, str], ...]

    @classmethod
    def read(cls, dist: Any, notes: list[str]) -> _Project | None:
        """Return the project if it registers plugins; damage is noted, never raised."""
        try:
            if "[grilly." not in (dist.read_text("entry_points.txt") or ""):
                return None
            keys = tuple((ep.group, ep.name, ep.value) for ep in dist.entry_points if ep.group in GROUPS)
            normalized(name := dist.metadata["Name"])
            return cls(name, dist.version, str(dist.locate_file("")), keys)
        except Exception as error:  # any damage in a stranger's metadata must leave the others usable
            notes.append(f"unreadable plugin metadata in {getattr(dist, '_path', dist)}: {error!r}")
            return None


def _one_per_name(projects: Sequence[_Project], notes: list[str]) -> list[_Project]:
    """Keep one metadata folder per project: the first on the path, as imports do, and there the newest.

    An editable install shows up twice (dist-info and egg-info), an interrupted upgrade leaves two versions.
    """
    chosen: dict[str, _Project] = {}
    for project in projects:
        known = chosen.setdefault(normalized(project.name), project)
        if project.version == known.version:
            continue
        newer = project.folder == known.folder and _order(project.version) > _order(known.version)
        kept, dropped = (project, known) if newer else (known, project)
        chosen[normalized(project.name)] = kept
        notes.append(f"metadata of {dropped.name} {dropped.version} is ignored: {kept.version} comes first")
    return list(chosen.values())


def _order(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version))


def public_keys(namespace: str, name: str) -> tuple[str, ...]:
    """Return the entry names that publish ``grilly.<namespace>.<name>``; an undotted entry name belongs to ``nn``."""
    if namespace == "nn":
        return (name, f"nn.{name}")
    return (f"{namespace or 'grilly'}.{name}",)


def split_public(key: str) -> tuple[str, str]:
    """Return namespace and name that an entry publishes; see `public_keys`."""
    namespace, _, name = key.rpartition(".")
    return ("nn" if not namespace else "" if namespace == "grilly" else namespace), name
