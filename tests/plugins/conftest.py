"""Fake distributions with real metadata folders, each test in a folder and with a `Loader` of its own."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from grilly_core.plugins.loader import Loader

BACKEND = """
    class Backend:
        name = {name!r}
        {abi}
        def devices(self):
            return {devices}
        def open(self, index):
            raise AssertionError("opened")
    backend = Backend()
"""


class Site:
    """A folder on `sys.path` that plays site-packages."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.modules: set[str] = set()

    def module(self, name: str, source: str) -> None:
        """Write a module, or a package's module if the name has dots."""
        path = self.folder.joinpath(*name.split(".")).with_suffix(".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(source))
        self.modules.add(name)

    def dist(
        self,
        project: str,
        entries: Mapping[str, Mapping[str, str]],
        *,
        version: str = "1.0",
        kind: str = "dist-info",
    ) -> None:
        """Write the metadata folder of a project."""
        stem = f"{project.replace('-', '_')}-{version}"
        folder = self.folder / f"{stem}.{kind}"
        folder.mkdir()
        metadata = "METADATA" if kind == "dist-info" else "PKG-INFO"
        (folder / metadata).write_text(f"Metadata-Version: 2.1\nName: {project}\nVersion: {version}\n")
        sections = (
            f"[{group}]\n" + "".join(f"{name} = {target}\n" for name, target in names.items())
            for group, names in entries.items()
        )
        (folder / "entry_points.txt").write_text("\n".join(sections))

    def backend(self, name: str, *, abi: str = "grilly_abi = 1", devices: str = "['one']") -> None:
        """Write a project ``fake-<name>`` that publishes a backend."""
        self.module(f"fake_{name}", BACKEND.format(name=name, abi=abi, devices=devices))
        self.dist(f"fake-{name}", {"grilly.backends.v1": {name: f"fake_{name}:backend"}})

    def loader(self) -> Loader:
        return Loader([str(self.folder)])


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    monkeypatch.delenv("GRILLY_PLUGINS", raising=False)
    monkeypatch.delenv("GRILLY_DISABLE", raising=False)
    monkeypatch.syspath_prepend(str(tmp_path))
    made = Site(tmp_path)
    yield made
    for name in {part for module in made.modules for part in (module, module.partition(".")[0])}:
        sys.modules.pop(name, None)
