"""The lazy names of `grilly`: what importing loads, what each kind of missing name answers."""

from __future__ import annotations

import importlib
import inspect
import pickle
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import grilly
import grilly_core
from grilly_core.errors import MissingPluginError
from grilly_core.plugins import known, loader

HEAVY = [
    "numpy",
    "pluggy",
    "importlib_metadata",
    "importlib.metadata",
    "numba",
    "vulkan",
    "grilly_backend_cpu",
]
NAMESPACES = sorted(grilly_core._SUBMODULES)


def run(source: str) -> str:
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.mark.parametrize(
    "package", ["grilly", "grilly_core", "grilly.nn", "grilly.functional", "grilly.optim"]
)
def test_importing_loads_nothing_heavy(package):
    """PLG-03: discovery is lazy, so importing costs nothing."""
    assert run(f"import sys, {package}; print([m for m in {HEAVY} if m in sys.modules])") == "[]"


def test_probing_for_dunders_loads_nothing():
    probes = "hasattr(grilly.nn, '__wrapped__'), hasattr(grilly, '__wrapped__'), 'numpy' in sys.modules"
    assert run(f"import sys, grilly.nn; print({probes})") == "False False False"


@pytest.mark.parametrize("name", grilly_core.__all__)
def test_every_public_name_exists(name):
    assert getattr(grilly, name) is getattr(grilly_core, name) or name == "nan"


@pytest.mark.parametrize("namespace", NAMESPACES)
def test_every_namespace_forwards_to_core(namespace):
    core = importlib.import_module(f"grilly_core.{namespace}")
    facade = importlib.import_module(f"grilly.{namespace}")
    assert core.__all__
    assert set(core.__all__) <= set(dir(facade))
    for name in core.__all__:
        value = getattr(core, name)
        if inspect.ismodule(value):  # a submodule of the facade forwards to it
            assert set(value.__all__) <= set(dir(getattr(facade, name)))
        else:
            assert getattr(facade, name) is value


def test_star_imports_load_no_plugin():
    source = (
        "from grilly import *\nfrom grilly.nn import *\nimport sys\n"
        "loaded = [m for m in ('grilly_backend_cpu', 'importlib_metadata') if m in sys.modules]\n"
        "print(callable(zeros), Linear.__module__.startswith('grilly_core.nn'), loaded)"
    )
    assert run(source) == "True True []"


def test_a_name_of_a_missing_package_says_what_to_install():
    with pytest.raises(
        MissingPluginError, match="planned for the package grilly-ext-multimodal, which does not exist yet"
    ):
        grilly.nn.PerceiverIO  # noqa: B018
    with pytest.raises(ImportError):
        hasattr(grilly.nn, "PerceiverIO")


def test_a_typo_is_an_attribute_error_with_close_matches():
    with pytest.raises(AttributeError, match=r"'grilly.nn' has no attribute 'Linaer'.*Linear"):
        grilly.nn.Linaer  # noqa: B018
    with pytest.raises(AttributeError, match="zeros"):
        grilly.zeroes  # noqa: B018


def test_extension_names_are_listed_and_found(site, monkeypatch):
    from grilly_core.plugins import loader

    site.module("fake_nn", "grilly_abi = 1\nclass Neuron: pass")
    site.dist("fake-nn", {"grilly.nn.v1": {"Neuron": "fake_nn:Neuron"}})
    fake = site.loader()
    monkeypatch.setattr(loader, "load_public", fake.load_public)
    monkeypatch.setattr(loader, "public_names", fake.public_names)
    assert "Neuron" in dir(grilly.nn)
    assert "fake_nn" not in sys.modules
    assert grilly.nn.Neuron.__module__ == "fake_nn"
    monkeypatch.delattr(grilly.nn, "Neuron")


def test_classes_pickle_by_their_real_module():
    assert pickle.loads(pickle.dumps(grilly.nn.Linear)) is grilly.nn.Linear
    assert pickle.loads(pickle.dumps(grilly.float32)) is grilly.float32


@pytest.mark.parametrize("name", ["capture", "profile", "gradcheck"])
def test_a_public_name_wins_over_the_submodule_of_the_same_name(name):
    importlib.import_module(f"grilly_core.{name}")
    assert callable(getattr(grilly_core, name))
    assert callable(getattr(grilly, name))


def test_versions_agree():
    root = Path(__file__).parents[2]
    for path in root.glob("grilly*/pyproject.toml"):
        assert tomllib.loads(path.read_text())["project"]["version"] == grilly_core.__version__


def test_submodules_have_the_paths_users_know():
    import grilly.nn.functional as F
    import grilly.nn.init as init
    from grilly.optim.lr_scheduler import StepLR

    assert F is grilly.functional
    assert F.relu is grilly_core.functional.relu
    assert StepLR is grilly_core.optim.lr_scheduler.StepLR
    assert init.xavier_uniform_ is grilly_core.nn.init.xavier_uniform_


def test_what_messages_say_to_install_can_be_installed():
    """Oracle: the folders of the checkout."""
    checkout = Path(__file__).resolve().parents[2]
    for package in {
        *known.PUBLIC.values(),
        *known.OPS.values(),
        *known.BACKENDS.values(),
        *known.DEMOS.values(),
    }:
        folder = package.replace("-", "_")
        assert (checkout / folder / "pyproject.toml").is_file() != (package in known.PLANNED)
        assert (f"./{folder}" in known.missing("it", package)) != (package in known.PLANNED)


@pytest.mark.parametrize(("space", "name"), [("nn", "LIFNode"), ("functional", "lif_step")])
def test_core_without_the_facade_finds_extensions_or_says_what_to_install(monkeypatch, space, name):
    """Oracle: what the facade finds."""
    core = importlib.import_module(f"grilly_core.{space}")
    assert getattr(core, name) is getattr(importlib.import_module(f"grilly.{space}"), name)
    monkeypatch.setattr(loader._process, "load", lambda *key: {}[key])  # as if nothing were installed
    with pytest.raises(MissingPluginError, match="grilly-ext-snn, which is not installed"):
        getattr(core, name)
    with pytest.raises(AttributeError, match="Did you mean"):
        getattr(core, {"nn": "Linaer", "functional": "softmx"}[space])
    assert name not in core.__all__
