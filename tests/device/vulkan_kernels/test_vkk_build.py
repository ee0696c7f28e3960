"""The shipped SPIR-V is what its sources and the manifest say."""

from __future__ import annotations

import hashlib
import json

import pytest

build = pytest.importorskip("grilly_backend_vulkan.build")
from grilly_backend_vulkan import glsl  # noqa: E402


@pytest.fixture(scope="module")
def manifest():
    return json.loads((build.SPIRV / "manifest.json").read_text(encoding="utf-8"))


def test_every_shader_is_listed_with_its_hash(manifest):
    shipped = {p.stem: hashlib.sha256(p.read_bytes()).hexdigest() for p in build.SPIRV.glob("*.spv")}
    assert shipped == {name: entry["spirv_sha256"] for name, entry in manifest["shaders"].items()}
    assert set(shipped) == {v.name for v in build.variants()}


def test_the_sources_are_those_that_were_compiled(manifest):
    for variant in build.variants():
        found = hashlib.sha256(build.expanded(variant).encode()).hexdigest()
        assert found == manifest["shaders"][variant.name]["source_sha256"], variant.name


@pytest.mark.skipif(not glsl.available(), reason="the compiler is not installed (extra 'compile')")
def test_building_again_gives_the_same_bytes(manifest, tmp_path):
    if manifest["compiler"] != glsl.compiler_version():
        pytest.skip("another version of the compiler")
    assert build.build(tmp_path) == len(manifest["shaders"])
    assert (tmp_path / "manifest.json").read_bytes() == (build.SPIRV / "manifest.json").read_bytes()


@pytest.mark.skipif(not glsl.available(), reason="the compiler is not installed (extra 'compile')")
def test_errors_of_the_compiler_name_the_shader():
    with pytest.raises(glsl.CompileError, match="wrong"):
        glsl.compile_glsl("#version 460\nvoid main() { nonsense }\n", "wrong")


def test_only_shaders_that_say_so_need_float64(manifest):
    from grilly_backend_vulkan.shaders import capabilities

    float64 = 10
    for name, entry in manifest["shaders"].items():
        needs = float64 in capabilities((build.SPIRV / f"{name}.spv").read_bytes())
        assert not needs or entry["needs"] == ["f64"], name
