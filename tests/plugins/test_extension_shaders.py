"""The shaders of each extension: its table, its sources, its manifest and its SPIR-V agree."""

from __future__ import annotations

import hashlib
import importlib
import json
from pathlib import Path

import pytest

build = pytest.importorskip("grilly_backend_vulkan.build")
from grilly_backend_vulkan import shaders  # noqa: E402
from grilly_core.errors import RegistrationError  # noqa: E402

EXTENSIONS = ("grilly_ext_memory", "grilly_ext_snn")


def folder_of(package):
    return Path(importlib.import_module(f"{package}.kernels").__file__).parent


@pytest.mark.parametrize("package", EXTENSIONS)
def test_the_shipped_shaders_are_those_of_the_table(package):
    folder = folder_of(package)
    manifest = json.loads((folder / "spirv" / "manifest.json").read_text(encoding="utf-8"))["shaders"]
    made = {p.stem: hashlib.sha256(p.read_bytes()).hexdigest() for p in (folder / "spirv").glob("*.spv")}
    assert made == {name: entry["spirv_sha256"] for name, entry in manifest.items()}
    variants = {variant.name: variant for variant in build.extension_variants(folder)}
    assert set(variants) == set(made)
    for name, variant in variants.items():
        source = hashlib.sha256(build.expanded(variant).encode()).hexdigest()
        assert source == manifest[name]["source_sha256"], f"{name}: build the shaders of {package} again"


def test_an_include_is_looked_for_in_the_extension_first(tmp_path):
    (tmp_path / "shaders").mkdir()
    (tmp_path / "shaders" / "mine.glsl").write_text("// mine\n")
    (tmp_path / "shaders" / "copy.comp").write_text(
        '#version 460\n#include "mine.glsl"\n#include "turn.glsl"\n'
    )
    (tmp_path / "shaders" / "variants.py").write_text(
        'VARIANTS = {"copy_f32": ("copy", "f32", {"WAYS": 2})}\n'
    )
    (variant,) = build.extension_variants(tmp_path)
    text = build.expanded(variant)
    assert "// mine" in text and "#define WAYS 2" in text and "#define T f32" in text


def test_folders_of_shaders_are_checked(tmp_path):
    with pytest.raises(RegistrationError, match="without a dot"):
        shaders.register_folder("a.b", tmp_path)
    with pytest.raises(RegistrationError, match="no manifest"):
        shaders.register_folder("test-none", tmp_path)
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "manifest.json").write_text("{}")
    shaders.register_folder("test-twice", tmp_path / "one")
    shaders.register_folder("test-twice", tmp_path / "one")
    with pytest.raises(RegistrationError, match="test-twice"):
        shaders.register_folder("test-twice", tmp_path / "two")
