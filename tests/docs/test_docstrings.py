"""Every example in a docstring runs and prints what it says."""

from __future__ import annotations

import doctest
import importlib
import inspect
import pkgutil

import pytest

import grilly
import grilly_backend_cpu
import grilly_core
import grilly_ext_memory
import grilly_ext_snn
import grilly_testkit
from grilly_core import registry
from grilly_core.opspec import Op

FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
PACKAGES = (grilly_core, grilly_backend_cpu, grilly_ext_snn, grilly_ext_memory, grilly_testkit, grilly)
SKIPPED = {"grilly.demos.digits", "grilly.__main__"}


def modules():
    """Names of all modules of the members."""
    names = []
    for package in PACKAGES:
        names += [m.name for m in pkgutil.walk_packages(package.__path__, package.__name__ + ".")]
    return [n for n in names if n not in SKIPPED and "templates" not in n]


@pytest.mark.parametrize("name", modules())
def test_examples_of_a_module(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    module = importlib.import_module(name)
    result = doctest.testmod(module, optionflags=FLAGS)
    assert result.failed == 0


OPS = {n: op for n, op in registry.specs().items() if ">>>" in op.doc}


@pytest.mark.parametrize("name", OPS)
def test_examples_of_an_op(name):
    """An op is an object, which doctest does not look into."""
    op = OPS[name]
    assert isinstance(op, Op)
    runner = doctest.DocTestRunner(optionflags=FLAGS)
    test = doctest.DocTestParser().get_doctest(inspect.cleandoc(op.doc), {}, name, None, None)
    runner.run(test)
    assert runner.failures == 0


def test_there_are_many_examples():
    finder = doctest.DocTestFinder(exclude_empty=True)
    found = sum(len(t.examples) > 0 for n in modules() for t in finder.find(importlib.import_module(n)))
    assert found + len(OPS) > 150
