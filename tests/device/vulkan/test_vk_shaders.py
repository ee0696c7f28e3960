"""Shaders by name, and the pipeline cache on disk (VUL-21)."""

from __future__ import annotations

import os
import re
import struct
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from grilly_core.errors import DeviceError, GrillyError, RegistrationError

EMPTY = "#version 460\nlayout(local_size_x = 1) in;\nvoid main() {{}} // {}\n"


@pytest.fixture
def module(runtime):
    from grilly_backend_vulkan import shaders

    try:
        return shaders.compile_glsl("empty", EMPTY.format("module"))
    except ImportError as error:
        pytest.skip(str(error))


def test_spirv_is_registered_once_per_name(runtime, module):
    assert runtime.shader("test.empty", spirv=module) == "test.empty"
    runtime.shader("test.empty", spirv=module)  # the same again is fine
    runtime.stream.launch(runtime.pipeline("test.empty"), (1, 1, 1), b"", [], [])
    runtime.synchronize()
    other = module + struct.pack("<I", 1 << 16)  # one OpNop more
    with pytest.raises(RegistrationError, match="registered already"):
        runtime.shader("test.empty", spirv=other)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "either"),
        ({"spirv": b"", "glsl": ""}, "either"),
        ({"spirv": b"not SPIR-V at all, 24 b."}, "no SPIR-V"),
        ({"spirv": b""}, "no SPIR-V"),
    ],
)
def test_bad_registrations_are_refused(runtime, given, message):
    with pytest.raises(RegistrationError, match=message):
        runtime.shader("test.bad", **given)


def test_short_names_belong_to_the_package(runtime, module):
    with pytest.raises(RegistrationError, match=r"dotted name, such as 'mine\.add'"):
        runtime.shader("add", spirv=module)


def test_a_source_error_names_shader_and_line(runtime, module):
    with pytest.raises(RegistrationError, match=r"(?s)'test\.wrong' does not compile.*undeclared"):
        runtime.shader("test.wrong", glsl="#version 460\nvoid main() { undeclared = 1; }\n")


def test_an_unknown_shader_is_an_error(runtime):
    with pytest.raises(DeviceError, match=r"'nowhere' is neither shipped nor registered"):
        runtime.pipeline("nowhere")


def test_source_is_compiled_once(runtime, module, monkeypatch, tmp_path):
    from grilly_backend_vulkan import shaders

    monkeypatch.setenv("GRILLY_CACHE_DIR", str(tmp_path))
    source = EMPTY.format("once")
    first = shaders.compile_glsl("once", source)
    monkeypatch.setattr(shaders, "_compiled", lambda *_: pytest.fail("compiled again"))
    assert shaders.compile_glsl("once", source) == first


@pytest.fixture
def no_slangpy(monkeypatch, tmp_path):
    """Hide the compiler of the extra, and leave an empty folder as the path of programs."""
    from grilly_backend_vulkan import glsl

    monkeypatch.setattr(glsl, "available", lambda: False)
    monkeypatch.setenv("GRILLY_CACHE_DIR", str(tmp_path / "cache"))
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    return tmp_path / "bin"


def test_without_a_compiler_the_message_names_the_extra(runtime, no_slangpy):
    with pytest.raises(ImportError, match=r"no GLSL compiler.*extra 'compile'.*glslc"):
        runtime.shader("test.source", glsl=EMPTY.format("no compiler"))


@pytest.mark.skipif(os.name != "posix", reason="the stand-in compilers are shell scripts")
@pytest.mark.parametrize("tool", ["glslc", "glslangValidator"])
def test_a_compiler_on_the_path_is_used(runtime, module, no_slangpy, tool):
    from grilly_backend_vulkan import shaders

    (no_slangpy / "made").write_bytes(module)
    script = f'#!/bin/sh\nwhile [ "$1" != -o ]; do shift; done\n/bin/cp {no_slangpy}/made "$2"\n'
    (no_slangpy / tool).write_text(script)
    (no_slangpy / tool).chmod(0o755)
    assert shaders.compile_glsl("test.tool", EMPTY.format(tool)) == module


@pytest.mark.skipif(os.name != "posix", reason="the stand-in compiler is a shell script")
def test_what_a_compiler_says_is_passed_on(runtime, no_slangpy):
    (no_slangpy / "glslc").write_text("#!/bin/sh\necho 'line 3: nonsense' >&2\nexit 1\n")
    (no_slangpy / "glslc").chmod(0o755)
    with pytest.raises(RegistrationError, match=r"'test\.bad' does not compile: line 3: nonsense"):
        runtime.shader("test.bad", glsl=EMPTY.format("bad"))


def test_a_missing_feature_is_named(fresh, module):
    from grilly_backend_vulkan import shaders

    source = """#version 460
    #extension GL_EXT_buffer_reference : require
    layout(local_size_x = 1) in;
    layout(buffer_reference, std430) buffer D { double at; };
    layout(push_constant) uniform P { D d; };
    void main() { d.at *= 2.0LF; }
    """
    code = shaders.compile_glsl("double", source)
    assert 10 in shaders.capabilities(code)
    runtime = fresh("f64")
    runtime.shader("test.double", spirv=code)
    with pytest.raises(DeviceError, match=r"'test\.double' needs f64, which .* lacks"):
        runtime.pipeline("test.double")


def test_an_unserved_subgroup_size_is_named(runtime, module):
    runtime.shader("test.empty", spirv=module)
    with pytest.raises(DeviceError, match="needs subgroups of 3"):
        runtime.pipeline("test.empty", (), 3)


def test_the_snippets_of_the_readme_run(floats):
    text = (Path(__file__).parents[3] / "grilly_backend_vulkan/README.md").read_text(encoding="utf-8")
    names = {}
    for snippet in re.findall(r"^```py\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        exec(snippet, names)
    added = {}
    names["register"](SimpleNamespace(add=lambda name, fn, **_: added.update({name: fn})), floats.runtime)
    x, y = floats.put(np.arange(1000)), floats.empty(1000)
    added["mine.twice"](floats.runtime.stream, [y], [x], {})
    assert (floats.get(y) == 2 * np.arange(1000)).all()
    assert names["x"].tolist() == [[1.0] * 3] * 2


# -- the cache ---------------------------------------------------------------------------------------------------


@pytest.fixture
def built(fresh, module, monkeypatch, tmp_path):
    """Build a pipeline in a new runtime with a cache folder of its own; returns the folder's cache files."""
    monkeypatch.setenv("GRILLY_CACHE_DIR", str(tmp_path))

    def build():
        runtime = fresh()
        runtime.shader("test.empty", spirv=module)
        runtime.pipeline("test.empty")
        runtime.close()
        return sorted(tmp_path.glob("vulkan/*.pipelines"))

    return build


def test_the_cache_is_written_and_read(built, monkeypatch):
    from grilly_backend_vulkan import pipelines

    (path,) = built()
    seen = []
    load = pipelines._load
    monkeypatch.setattr(pipelines, "_load", lambda facts: seen.append(load(facts)) or seen[-1])
    assert built() == [path]
    assert seen[0]


@pytest.mark.parametrize(
    "damage", [lambda b: b"", lambda b: b[:-5], lambda b: b[:60] + b"x" + b[61:], lambda b: b * 2]
)
def test_a_damaged_cache_is_ignored_and_rewritten(built, damage):
    (path,) = built()
    good = path.read_bytes()
    path.write_bytes(damage(good))
    assert built() == [path]
    assert path.read_bytes().startswith(b"grilly pipelines")
    assert len(path.read_bytes()) >= len(good) // 2
    assert list(path.parent.glob(".*")) == []


def test_a_folder_that_cannot_be_written_does_no_harm(fresh, module, monkeypatch, tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("in the way")
    monkeypatch.setenv("GRILLY_CACHE_DIR", str(blocked))
    runtime = fresh()
    runtime.shader("test.empty", spirv=module)
    runtime.pipeline("test.empty")
    runtime.close()


def test_every_error_is_one_of_grilly(runtime):
    with pytest.raises(GrillyError):
        runtime.pipeline("also nowhere")
