"""What extensions publish: every entry point can be loaded, and the table of known names says the same."""

from __future__ import annotations

import importlib
import tomllib
from pathlib import Path

import pytest

from grilly_core.plugins import known

ROOT = Path(__file__).parents[2]
EXTENSIONS = ("grilly_ext_memory", "grilly_ext_snn")


def entries(package):
    points = tomllib.loads((ROOT / package / "pyproject.toml").read_text())["project"]["entry-points"]
    return points["grilly.nn.v1"]


@pytest.mark.parametrize("package", EXTENSIONS)
def test_every_name_can_be_loaded(package):
    for name, target in entries(package).items():
        module, _, attribute = target.partition(":")
        made = getattr(importlib.import_module(module), attribute)
        assert name.rpartition(".")[2] == made.__name__, name


@pytest.mark.parametrize("package", EXTENSIONS)
def test_the_core_knows_exactly_the_names_that_a_package_brings(package):
    """A name that is known but not published would be said to be in a package that is not installed."""
    published = {name if "." in name else f"nn.{name}" for name in entries(package)}
    assert published == {name for name, brings in known.PUBLIC.items() if brings == package.replace("_", "-")}
