"""Each package declares what it imports, and nothing else."""

from __future__ import annotations

import ast
import itertools
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROJECTS = sorted(ROOT.glob("grilly*/pyproject.toml"))
DISTRIBUTIONS = {"sklearn": "scikit-learn"}
#: What is used without being imported by name.
UNSEEN = {
    "grilly": {
        "grilly", "grilly-backend-cpu", "grilly-backend-vulkan", "grilly-ext-memory", "grilly-ext-snn", "grilly-testkit"
    },  # chosen by extras
    "grilly-backend-cpu": {"grilly-core", "tbb"},  # who loads it, with bfloat16; a layer of threads that Numba finds
    "grilly-backend-vulkan": {"cffi", "slangpy"},  # types of the binding; a library found by its file
}  # fmt: skip


def imported(folder: Path) -> Iterator[str]:
    for source in folder.rglob("*.py"):
        if "templates" in source.parts:
            continue
        for node in ast.walk(ast.parse(source.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                yield from (alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
                yield node.module


@pytest.mark.parametrize("project", PROJECTS, ids=lambda path: path.parent.name)
def test_dependencies_are_what_is_imported(project):
    table = tomllib.loads(project.read_text(encoding="utf-8"))["project"]
    wanted = [*table["dependencies"], *itertools.chain(*table.get("optional-dependencies", {}).values())]
    declared = {re.match(r"[\w.-]+", text)[0].lower().replace("_", "-") for text in wanted}
    found = {name.partition(".")[0] for name in imported(project.parent / "src")}
    found = {DISTRIBUTIONS.get(n, n).replace("_", "-") for n in found - sys.stdlib_module_names}
    found.discard(table["name"])
    assert found - declared == set()
    assert declared - found == UNSEEN.get(table["name"], set())
