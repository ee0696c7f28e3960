"""What happens when a plugin is asked for: success, every kind of failure, and that others are not touched."""

from __future__ import annotations

import sys
import threading

import pytest

from grilly_core.errors import DeviceError, MissingPluginError, PluginError, PluginWarning
from grilly_core.plugins.loader import Loader
from grilly_core.plugins.status import PluginState, PluginStatus


def status(loader: Loader, name: str) -> PluginStatus:
    return next(found for found in loader.statuses() if found.name == name)


def test_a_fine_backend_loads_once(site):
    site.backend("fine")
    loader = site.loader()
    assert loader.load_backend("fine") is loader.load_backend("fine")
    assert status(loader, "fine").state is PluginState.LOADED


@pytest.mark.parametrize(
    ("source", "line"),
    [
        ("raise RuntimeError('boom')", "RuntimeError: boom"),
        ("import nmupy", "ModuleNotFoundError: No module named 'nmupy'"),
        ("import sys; sys.exit(3)", "SystemExit: 3"),
        ("class Worse(BaseException): pass\nraise Worse('worse')", "Worse: worse"),
        ("", "AttributeError: module 'fake_bad' has no attribute 'backend'"),
    ],
)
def test_a_broken_plugin_keeps_its_traceback_and_breaks_nobody(site, source, line):
    """PLG-02, PLG-03, PLG-04: the cause is chained and shown, and the host and the good plugin go on."""
    site.backend("good")
    site.module("fake_bad", source)
    site.dist("fake-bad", {"grilly.backends.v1": {"bad": "fake_bad:backend"}})
    loader = site.loader()
    for _ in range(2):
        with pytest.raises(
            PluginError, match=r"'bad' \(grilly.backends.v1\) of fake-bad 1.0 cannot be used"
        ) as caught:
            loader.load_backend("bad")
        assert line.startswith(type(caught.value.__cause__).__name__)
    found = status(loader, "bad")
    assert found.state is PluginState.BROKEN
    assert found.detail.endswith(line)
    assert line in found.traceback
    assert "fake_bad.py" in found.traceback or not source
    assert loader.load_backend("good").name == "good"


def test_a_target_that_does_not_exist_is_broken(site):
    """PLG-02: an entry point whose module is missing."""
    site.dist("ghost", {"grilly.backends.v1": {"ghost": "no_such_module:backend"}})
    loader = site.loader()
    with pytest.raises(PluginError, match="no_such_module"):
        loader.load_backend("ghost")
    assert status(loader, "ghost").distributions == "ghost 1.0"


def test_ctrl_c_during_an_import_still_ends_it(site):
    """PLG-03: KeyboardInterrupt propagates and is not kept as a failure."""
    site.module("fake_slow", "raise KeyboardInterrupt")
    site.dist("fake-slow", {"grilly.backends.v1": {"slow": "fake_slow:backend"}})
    loader = site.loader()
    with pytest.raises(KeyboardInterrupt):
        loader.load_backend("slow")
    assert status(loader, "slow").state is PluginState.INSTALLED


def test_a_plugin_that_asks_for_itself_is_a_named_cycle(site, monkeypatch):
    """PLG-03: an import cycle through the loader ends in an error that names the plugin."""
    site.backend("good")
    site.module("fake_cycle", "from grilly_core.plugins import loader\nloader.load_backend('cycle')")
    site.dist("fake-cycle", {"grilly.backends.v1": {"cycle": "fake_cycle:backend"}})
    loader = site.loader()
    monkeypatch.setattr("grilly_core.plugins.loader.load_backend", loader.load_backend)
    with pytest.raises(PluginError, match="asks for itself while it is being imported"):
        loader.load_backend("cycle")
    assert loader.load_backend("good").name == "good"


def test_a_plugin_may_import_the_host(site):
    """PLG-03: importing grilly from a plugin that grilly is loading is no problem."""
    site.backend("guest")
    path = site.folder / "fake_guest.py"
    path.write_text("import grilly\nimport grilly_core.plugins.loader\n" + path.read_text())
    assert site.loader().load_backend("guest").name == "guest"


@pytest.mark.parametrize(
    ("source", "received"),
    [
        ("import types; backend = types.ModuleType('m')", "is a module"),
        ("class backend:\n    def __init__(self, argument): pass", "is the class backend"),
        ("def backend(): pass", "is a function"),
        ("backend = None", "is None"),
    ],
)
def test_a_backend_of_the_wrong_kind_is_refused_by_type(site, source, received):
    """PLG-05: the message names the expected type and what came instead; others still load."""
    site.backend("good")
    site.module("fake_weird", "grilly_abi = 1\n" + source)
    site.dist("fake-weird", {"grilly.backends.v1": {"weird": "fake_weird:backend"}})
    loader = site.loader()
    with pytest.raises(PluginError, match=f"expected a backend instance with name.*{received}"):
        loader.load_backend("weird")
    assert loader.load_backend("good").name == "good"


def test_a_backend_must_have_the_name_it_is_published_under(site):
    """PLG-05: device strings would be confused otherwise."""
    site.backend("real")
    site.dist("alias", {"grilly.backends.v1": {"alias": "fake_real:backend"}})
    with pytest.raises(PluginError, match="expected a backend named 'alias'; its name is 'real'"):
        site.loader().load_backend("alias")


@pytest.mark.parametrize("declared", ["0", "'>=2'", "None"])
def test_another_abi_is_refused_and_both_versions_are_named(site, declared):
    """PLG-07: a mismatch is a status of its own."""
    site.backend("old", abi=f"grilly_abi = {declared}")
    loader = site.loader()
    with pytest.raises(PluginError, match=f"fake-old 1.0 declares grilly_abi = {declared}, .* offers 1"):
        loader.load_backend("old")
    assert status(loader, "old").state is PluginState.WRONG_ABI


def test_an_undeclared_abi_is_allowed_with_one_warning(site):
    """PLG-07: no declaration at all."""
    site.backend("silent", abi="")
    loader = site.loader()
    with pytest.warns(PluginWarning, match="declares no grilly_abi"):
        loader.load_backend("silent")
    assert loader.load_backend("silent").name == "silent"


def test_the_abi_may_be_declared_by_the_package(site):
    site.module("fake_pkg.__init__", "grilly_abi = 1")
    site.module("fake_pkg.layers", "class Layer: pass")
    site.dist("fake-pkg", {"grilly.nn.v1": {"Layer": "fake_pkg.layers:Layer"}})
    assert site.loader().load_public("nn", "Layer").__name__ == "Layer"


@pytest.mark.parametrize(("devices", "detail"), [("[]", "lists no device"), ("1 / 0", "ZeroDivisionError")])
def test_a_backend_without_devices_says_so(site, devices, detail):
    site.backend("empty", devices=devices)
    loader = site.loader()
    assert loader.devices_of("empty") == []
    assert status(loader, "empty").state is PluginState.NO_DEVICE
    assert detail in status(loader, "empty").detail
    assert loader.load_backend("empty").name == "empty"


def test_a_backend_nobody_knows_names_those_there_are(site):
    site.backend("fine")
    with pytest.raises(DeviceError, match=r"'fien' is not known; installed are fine\. Did you mean fine\?"):
        site.loader().load_backend("fien")


def test_a_known_backend_says_which_package_to_install(site):
    with pytest.raises(
        MissingPluginError, match=r"grilly-backend-vulkan.*pip install \./grilly_core \./grilly_backend_v"
    ):
        site.loader().load_backend("vulkan")


def test_setup_runs_once_per_process_even_from_many_threads(site):
    """PLG-09: and again only after the plugin was unregistered."""
    site.backend("setup")
    path = site.folder / "fake_setup.py"
    path.write_text(
        path.read_text().replace("\n    def devices", "\n    @hookimpl\n    def grilly_setup(self): calls.append(1)\n"
                                 "    def devices")
        .replace("\nclass", "\nfrom grilly_core.plugins.hookspecs import hookimpl\ncalls = []\nclass")
    )  # fmt: skip
    loader = site.loader()
    start = threading.Barrier(8)

    def ask() -> None:
        start.wait()
        loader.load_backend("setup")

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    calls = sys.modules["fake_setup"].calls
    assert calls == [1]
    loader.forget("grilly.backends.v1", "setup")
    loader.load_backend("setup")
    assert calls == [1, 1]


def test_strict_raises_the_first_failure(site):
    """PLG-04: the strict switch."""
    site.module("fake_bad", "import nmupy")
    site.dist("fake-bad", {"grilly.ops.v1": {"bad": "fake_bad"}})
    loader = site.loader()
    assert [found.state for found in loader.load_all()] == [PluginState.BROKEN]
    with pytest.raises(PluginError, match="nmupy") as caught:
        loader.load_all(strict=True)
    assert isinstance(caught.value.__cause__, ModuleNotFoundError)


def test_a_backend_of_this_process(site):
    site.backend("other")
    loader = site.loader()
    local = type(
        "Local", (), {"name": "local", "devices": lambda self: ["d"], "open": lambda self, index: None}
    )()
    loader.add_backend(local)
    assert loader.load_backend("local") is local
    assert loader.devices_of("local") == ["d"]
    assert loader.backend_names() == ["local", "other"]
    with pytest.raises(PluginError, match="exists already"):
        loader.add_backend(local)
    loader.remove_backend("local")
    assert loader.backend_names() == ["other"]
