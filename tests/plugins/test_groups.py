"""The groups besides backends: ops, kernels and public names; and the hooks."""

from __future__ import annotations

import sys

import pytest

from grilly_core.errors import MissingPluginError, PluginError, PluginWarning
from grilly_core.plugins import hookspecs, known
from grilly_core.plugins.status import PluginState


def test_ops_are_loaded_by_name_or_prefix(site):
    site.module("fake_ops", "grilly_abi = 1")
    site.dist("fake-ops", {"grilly.ops.v1": {"fake": "fake_ops"}})
    loader = site.loader()
    assert loader.load_ops("fake.thing") is sys.modules["fake_ops"]
    assert loader.load_ops("fake") is sys.modules["fake_ops"]
    assert loader.load_ops("nn.softmaxx") is None


def test_a_broken_ops_plugin_is_named_when_its_op_is_asked_for(site):
    """PLG-04: the error says which plugin failed and chains the original."""
    site.module("fake_ops", "import nmupy")
    site.dist("fake-ops", {"grilly.ops.v1": {"fake": "fake_ops"}})
    with pytest.raises(PluginError, match=r"fake-ops 1\.0.*nmupy") as caught:
        site.loader().load_ops("fake.thing")
    assert isinstance(caught.value.__cause__, ModuleNotFoundError)


def test_ops_of_a_package_that_is_not_installed(site):
    with pytest.raises(MissingPluginError, match="op 'snn.lif_step' comes with the package grilly-ext-snn"):
        site.loader().load_ops("snn.lif_step")


@pytest.mark.parametrize(
    ("group", "expected"),
    [
        ("grilly.ops.v1", "a module whose import declares ops"),
        ("grilly.nn.v1", "a class or function"),
        ("grilly.kernels.v1", r"a function register\(kernels, runtime\)"),
        ("grilly.demos.v1", r"a function main\(arguments\)"),
    ],
)
def test_every_group_names_what_it_expects(site, group, expected):
    """PLG-05: for the other groups."""
    site.module("fake_wrong", "grilly_abi = 1\nthing = 3")
    site.dist("fake-wrong", {group: {"thing": "fake_wrong:thing"}})
    with pytest.raises(PluginError, match=f"expected {expected}.*is a int"):
        site.loader().load(group, "thing")


def kernels(site, name: str, body: str) -> None:
    site.module(f"fake_{name}", f"grilly_abi = 1\ndef register(kernels, runtime):\n    {body}")
    site.dist(f"fake-{name}", {"grilly.kernels.v1": {f"{name}@dev": f"fake_{name}"}})


def test_kernels_come_from_extensions_for_one_backend_and_a_bad_one_is_left_out(site):
    kernels(site, "good", "kernels.append(runtime)")
    kernels(site, "fails", "raise ValueError('no')")
    site.module("fake_broken", "import nmupy")
    site.dist("fake-broken", {"grilly.kernels.v1": {"broken@dev": "fake_broken", "x@other": "fake_broken"}})
    loader = site.loader()
    with pytest.warns(PluginWarning, match=r"'broken@dev' are left out.*nmupy"):
        found = dict(loader.kernels_for("dev"))
    assert sorted(found) == ["fake-fails 1.0", "fake-good 1.0"]
    registered: list[str] = []
    found["fake-good 1.0"](registered, "runtime")
    with pytest.warns(PluginWarning, match="failed to register: ValueError: no"):
        found["fake-fails 1.0"](registered, "runtime")
    assert registered == ["runtime"]
    states = {status.name: status.state for status in loader.statuses()}
    assert states["fails@dev"] is PluginState.BROKEN
    assert states["x@other"] is PluginState.INSTALLED


def test_public_names(site):
    site.module("fake_nn", "grilly_abi = 1\nclass Neuron: pass\ndef fire(): pass\nclass World: pass")
    site.dist(
        "fake-nn",
        {
            "grilly.nn.v1": {
                "Neuron": "fake_nn:Neuron",
                "functional.fire": "fake_nn:fire",
                "grilly.World": "fake_nn:World",
            }
        },
    )
    loader = site.loader()
    assert [loader.public_names(space) for space in ("nn", "functional", "")] == [
        ["Neuron"],
        ["fire"],
        ["World"],
    ]
    assert loader.load_public("nn", "Neuron").__module__ == "fake_nn"
    assert loader.load_public("functional", "fire").__name__ == "fire"
    assert loader.load_public("", "World").__name__ == "World"
    with pytest.raises(AttributeError, match=r"'grilly.nn' has no attribute 'Neuro'\. Did you mean Neuron"):
        loader.load_public("nn", "Neuro")
    with pytest.raises(AttributeError, match="Did you mean Linear"):
        loader.load_public("nn", "Linaer", ["Linear", "Conv2d"])
    with pytest.raises(MissingPluginError, match="grilly.nn.LIFNeuron comes with the package grilly-ext-snn"):
        loader.load_public("nn", "LIFNeuron")


def test_the_doctor_hook_is_heard_and_may_fail(site):
    body = (
        "from grilly_core.plugins.hookspecs import hookimpl\ngrilly_abi = 1\n@hookimpl\ndef grilly_doctor(): "
    )
    site.module("fake_facts", body + "return {'driver': '1.2'}")
    site.module("fake_fails", body + "return 1 / 0")
    site.dist("fake-facts", {"grilly.ops.v1": {"facts": "fake_facts", "fails": "fake_fails"}})
    loader = site.loader()
    assert loader.doctor_facts() == {}
    loader.load_all()
    facts = loader.doctor_facts()
    assert facts["driver"] == "1.2"
    assert "ZeroDivisionError" in facts["grilly.ops.v1:fails"]


def test_a_hook_that_does_not_exist_is_refused(site):
    site.module(
        "fake_hook",
        "from grilly_core.plugins.hookspecs import hookimpl\ngrilly_abi = 1\n@hookimpl\ndef grilly_doktor(): pass",
    )
    site.dist("fake-hook", {"grilly.ops.v1": {"hook": "fake_hook"}})
    with pytest.raises(PluginError, match="grilly_doktor"):
        site.loader().load_ops("hook")


def test_every_hook_is_documented():
    hooks = [value for name, value in vars(hookspecs).items() if name.startswith("grilly_")]
    assert len(hooks) == 2
    assert all(hook.__doc__ for hook in hooks)


def test_known_names_name_packages():
    packages = {*known.PUBLIC.values(), *known.BACKENDS.values(), *known.OPS.values()}
    assert all(package.startswith(("grilly-ext-", "grilly-backend-")) for package in packages)
    assert known.package_of("nn", "LIFNeuron") == "grilly-ext-snn"
    assert "LIFNeuron" in known.names_in("nn")
    assert "Linear" not in known.names_in("nn")


def test_demos_come_from_packages_and_an_unknown_one_is_explained(site):
    site.module("fake_demo", "grilly_abi = 1\ndef main(arguments):\n    return len(arguments)")
    site.dist("fake-demo", {"grilly.demos.v1": {"waves": "fake_demo:main"}})
    loader = site.loader()
    assert loader.demo_names() == ["waves"]
    assert "fake_demo" not in sys.modules
    assert loader.load_demo("waves")(["a", "b"]) == 2
    with pytest.raises(MissingPluginError, match="the demo 'snn' comes with the package grilly-ext-snn"):
        loader.load_demo("snn")
    with pytest.raises(LookupError, match="there are waves. Did you mean waves?"):
        loader.load_demo("wave")
