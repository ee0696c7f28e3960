"""What the index says about installed metadata, without importing any plugin."""

from __future__ import annotations

import sys

import pytest

from grilly_core.errors import AmbiguousPluginError, PluginError
from grilly_core.plugins.index import BACKENDS, scan
from grilly_core.plugins.loader import Loader
from grilly_core.plugins.status import PluginState


def state(loader: Loader, name: str) -> PluginState:
    return next(status.state for status in loader.statuses() if status.name == name)


def test_names_are_known_without_an_import(site):
    site.module("fake_slow", "raise AssertionError('imported')")
    site.dist("fake-slow", {"grilly.backends.v1": {"slow": "fake_slow:backend"}})
    loader = site.loader()
    assert loader.backend_names() == ["slow"]
    assert state(loader, "slow") is PluginState.INSTALLED
    assert "fake_slow" not in sys.modules


def test_an_editable_install_is_found_twice_and_registered_once(site):
    """PLG-01: two metadata folders of one project are one registration, silently."""
    site.backend("dup")
    site.dist("fake-dup", {"grilly.backends.v1": {"dup": "fake_dup:backend"}}, kind="egg-info")
    loader = site.loader()
    assert len(loader.index().all(BACKENDS, "dup")) == 1
    assert loader.index().notes == ()
    assert loader.load_backend("dup").name == "dup"


def test_two_projects_with_one_target_are_one_registration(site):
    """PLG-01: the same name and the same target from two projects is no conflict."""
    site.backend("dup")
    site.dist("bundle", {"grilly.backends.v1": {"dup": "fake_dup:backend"}})
    (entry,) = site.loader().index().all(BACKENDS, "dup")
    assert {name for name, _ in entry.providers} == {"fake-dup", "bundle"}
    assert site.loader().load_backend("dup").name == "dup"


def test_two_targets_for_one_name_are_ambiguous_until_one_is_disabled(site, monkeypatch):
    """PLG-01: a name claimed twice with different targets is an error on use that names both distributions."""
    site.backend("dup")
    site.backend("fine")
    site.module("rival", "from fake_dup import backend")
    site.dist("rival", {"grilly.backends.v1": {"dup": "rival:backend"}}, version="2.0")
    loader = site.loader()
    assert loader.load_backend("fine").name == "fine"
    assert state(loader, "dup") is PluginState.AMBIGUOUS
    with pytest.raises(
        AmbiguousPluginError, match=r"fake-dup 1\.0 means .*rival 2\.0 means|rival 2\.0 .*fake-dup 1\.0"
    ):
        loader.load_backend("dup")
    monkeypatch.setenv("GRILLY_DISABLE", "rival")
    assert loader.load_backend("dup").name == "dup"


def test_the_newest_metadata_of_a_project_counts(site):
    """PLG-07: stale metadata beside the new one is ignored, and said so."""
    site.backend("moved")
    site.dist("fake-moved", {"grilly.backends.v1": {"moved": "fake_moved.gone:backend"}}, version="0.9")
    loader = site.loader()
    assert loader.load_backend("moved").name == "moved"
    assert loader.index().notes == ("metadata of fake-moved 0.9 is ignored: 1.0 comes first",)


def test_damaged_metadata_is_noted_and_the_others_stay_usable(site):
    site.backend("fine")
    site.dist("damaged", {"grilly.backends.v1": {"x": "y:z"}})
    (site.folder / "damaged-1.0.dist-info" / "METADATA").write_bytes(b"\xff\xfe\x00")
    loader = site.loader()
    assert loader.backend_names() == ["fine"]
    assert len(loader.index().notes) == 1
    assert "damaged-1.0.dist-info" in loader.index().notes[0]


def test_a_folder_twice_on_the_path_changes_nothing(site):
    """PLG-09: the same folder listed twice gives one registration."""
    site.backend("twice")
    folder = str(site.folder)
    assert [str(entry) for entry in scan([folder, folder])] == [str(entry) for entry in scan([folder])]


@pytest.mark.parametrize(
    ("variable", "value", "names"),
    [
        ("GRILLY_PLUGINS", "off", []),
        ("GRILLY_PLUGINS", "one", ["one"]),
        ("GRILLY_PLUGINS", "Fake_One, two", ["one", "two"]),
        ("GRILLY_PLUGINS", "", ["one", "two"]),
        ("GRILLY_DISABLE", "one", ["two"]),
        ("GRILLY_DISABLE", "fake-two", ["one"]),
    ],
)
def test_the_environment_filters_before_any_import(site, monkeypatch, variable, value, names):
    """PLG-02: GRILLY_PLUGINS=off (or a list) skips discovery; names are of distributions or of entry points."""
    site.backend("one")
    site.backend("two")
    loader = site.loader()
    monkeypatch.setenv(variable, value)
    assert loader.backend_names() == names
    for name in {"one", "two"}.difference(names):
        assert state(loader, name) is PluginState.DISABLED
        with pytest.raises(PluginError, match=f"disabled by the environment variable {variable}"):
            loader.load_backend(name)
        assert f"fake_{name}" not in sys.modules


def test_words_that_match_nothing_are_reported(site, monkeypatch):
    site.backend("one")
    monkeypatch.setenv("GRILLY_DISABLE", "one,onee")
    assert site.loader().index().unmatched_words() == ["onee"]
