"""Tuning: what `grilly bench --tune` measures is kept, read back, and chosen by."""

from __future__ import annotations

import dataclasses
import io
import json

import pytest
from rich.console import Console

from grilly.cli import bench
from grilly_backend_vulkan import tuning
from grilly_backend_vulkan.kernels import matmul_choice, matmul_tiles
from grilly_core.device import SupportsTuning
from grilly_core.errors import DeviceError


@pytest.fixture
def quick(monkeypatch, tmp_path):
    """Measurements that are short, in a cache folder of this test."""
    monkeypatch.setenv("GRILLY_CACHE_DIR", str(tmp_path))
    for name, value in (
        ("_TERMS", 64),
        ("_GROUPS", 4),
        ("_SETTLE", 0.01),
        ("_SAMPLE", 1e-4),
        ("_REPEATS", 1),
    ):
        monkeypatch.setattr(tuning, name, value)
    matmul_choice.costs.cache_clear()
    matmul_choice.choose.cache_clear()
    yield tmp_path
    matmul_choice.costs.cache_clear()
    matmul_choice.choose.cache_clear()


def test_every_tile_is_measured_and_the_table_is_read(vk, quick):
    context = vk.context
    assert isinstance(context.runtime, SupportsTuning)
    told = []
    path, found = context.runtime.tune(context, told.append)
    assert json.loads(path.read_text()) == found
    assert path.is_relative_to(quick)
    facts = context.runtime.facts
    tiles = [tile for tile in matmul_tiles.TILES if tile.shared <= facts.shared_memory]
    assert told[: len(tiles)] == [f"f32 {tile.name}" for tile in tiles]
    assert set(found["f32"]) == {tile.name for tile in tiles}
    assert all(shared > 0 and alone > 0 for shared, alone in found["f32"].values())
    assert found["processors"] >= 1
    read = matmul_choice.costs(facts)
    assert read["f32"] == found["f32"]
    assert read["processors"] == found["processors"]


def test_without_a_cache_folder_or_a_clock_it_says_so(vk, quick, monkeypatch):
    context = vk.context
    with monkeypatch.context() as patch:
        patch.setattr(matmul_choice, "table_path", lambda facts: None)
        with pytest.raises(DeviceError, match="GRILLY_CACHE_DIR"):
            context.runtime.tune(context, print)
    facts = dataclasses.replace(context.runtime.facts, timestamp_period=0.0)
    monkeypatch.setattr(context.runtime, "facts", facts)
    with pytest.raises(DeviceError, match="no clock"):
        context.runtime.tune(context, print)


def test_processors_are_the_fewest_that_any_tile_finds():
    assert tuning._processors([(1.0, 64, 4.0), (1.0, 64, 2.0)]) == 16
    assert tuning._processors([(1.0, 1, 8.0)]) == 1


def test_the_command_shows_both_devices(vk, quick, monkeypatch):
    monkeypatch.setattr(bench, "_SECONDS", 0.001)
    out = io.StringIO()
    bench.run("vulkan:0", tune=True, scale=64, console=Console(file=out, width=120))
    text = out.getvalue()
    assert "matmul 32×32×32" in text
    assert "ratio" in text
    assert '"processors"' in text


def test_a_device_without_tuning_says_so():
    with pytest.raises(DeviceError, match="nothing to tune"):
        bench.run("cpu", tune=True, scale=64, console=Console(file=io.StringIO()))


def test_work_is_counted_as_published():
    """A product of n × n matrices is 2 n³ operations; a sum reads its operand once."""
    found = {name.split()[0]: (amount, unit) for name, _, amount, unit in bench.work("cpu", 16)}
    assert found["matmul"] == (2e-9 * 128**3, "GFLOP/s")
    assert found["sum"] == (4e-9 * 1024 * 1024, "GB/s")
