"""Prove that each package works alone: a fresh environment with the package and what it declares, nothing else.

Every module of the package is imported there. Local packages are installed from their folders, because the index
has a stranger's package called ``grilly``.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
WORK = ROOT / ".isolate"

IMPORT_ALL = """
import importlib, pkgutil, sys
package = importlib.import_module(sys.argv[1])
names = [m.name for m in pkgutil.walk_packages(package.__path__, package.__name__ + ".", onerror=lambda name: None)]
for name in names:
    importlib.import_module(name)
print(f"isolate: {package.__name__}: {len(names) + 1} modules import")
"""


def members() -> dict[str, Path]:
    """Return distribution name → folder of every package of the workspace."""
    found = {}
    for path in sorted(ROOT.glob("grilly*/pyproject.toml")):
        found[project(path.parent)["name"]] = path.parent
    return found


def project(folder: Path) -> dict:
    """Return the ``[project]`` table of a package."""
    return tomllib.loads((folder / "pyproject.toml").read_text())["project"]


def closure(name: str, local: dict[str, Path]) -> list[str]:
    """Return the local packages that `name` needs, itself last; pip finds the extras that they ask of each other."""
    needed: list[str] = []
    for requirement in project(local[name]).get("dependencies", []):
        match = re.match(r"[A-Za-z0-9_.-]+", requirement)
        if match and match[0] in local:
            needed += [n for n in closure(match[0], local) if n not in needed]
    return [*needed, name]


def isolate(name: str, local: dict[str, Path]) -> None:
    """Build the environment of one package and import all of its modules."""
    for folder in local.values():
        shutil.rmtree(folder / "build", ignore_errors=True)  # files deleted since would come along
    home = WORK / name
    print(f"isolate: {name}: building an environment", flush=True)
    venv.create(home, clear=True, with_pip=True)
    python = home / ("Scripts" if sys.platform == "win32" else "bin") / "python"
    wanted = [local[found] for found in closure(name, local)]
    pip = [
        python,
        "-m",
        "pip",
        "--disable-pip-version-check",
        "--quiet",
        "install",
        "-c",
        ROOT / "constraints.txt",
    ]
    subprocess.run([*pip, *wanted], check=True)
    subprocess.run([python, "-W", "error", "-c", IMPORT_ALL, local[name].name], check=True, cwd=home)


def main(names: list[str]) -> None:
    """Isolate the named packages, or all of them."""
    local = members()
    for name in names or local:
        isolate(name, local)


if __name__ == "__main__":
    main(sys.argv[1:])
