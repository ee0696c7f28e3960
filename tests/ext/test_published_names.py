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
def test_the_core_knows_which_package_brings_a_name(package):
    for name in entries(package):
        space, _, short = name.rpartition(".")
        assert known.package_of(space or "nn", short) == package.replace("_", "-"), name
