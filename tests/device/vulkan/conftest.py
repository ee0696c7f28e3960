"""A Vulkan device for the tests, or the reason why there is none."""

from __future__ import annotations

import os
import struct
import subprocess
import sys

import numpy as np
import pytest

from grilly_core.buffer import Buffer, View, contiguous_spec
from grilly_core.dtypes import as_dtype
from grilly_core.errors import GrillyError

#: y = a x + b over n floats, 64 threads a group; a and b are specialisation constants.
SCALE_ADD = """#version 460
#extension GL_EXT_buffer_reference : require
layout(local_size_x = 64) in;
layout(constant_id = 0) const float A = 1.0;
layout(constant_id = 1) const float B = 1.0;
layout(buffer_reference, std430, buffer_reference_align = 4) buffer Floats { float at[]; };
layout(push_constant) uniform Push { Floats x; Floats y; uint n; } push;
void main() {
    uint i = gl_GlobalInvocationID.x;
    if (i < push.n) push.y.at[i] = A * push.x.at[i] + B;
}
"""


def why_none() -> str | None:
    """Return why there is no Vulkan device, or None if there is one."""
    try:
        from grilly_backend_vulkan import backend

        backend.devices()
    except (GrillyError, ImportError) as error:
        return str(error)
    return None


@pytest.fixture(scope="session")
def backend():
    reason = why_none()
    if reason and os.environ.get("GRILLY_VULKAN_REQUIRED"):  # continuous integration installs a driver
        pytest.fail(f"GRILLY_VULKAN_REQUIRED is set, and there is no Vulkan device: {reason}")
    if reason:
        pytest.skip(f"no Vulkan device: {reason}")
    from grilly_backend_vulkan import backend

    return backend


@pytest.fixture
def runtime(backend):
    return backend.open(0)


@pytest.fixture
def fresh(backend, monkeypatch):
    """Open a second, separate runtime of the first device, with features hidden: ``fresh("host_visible")``."""
    from grilly_backend_vulkan.runtime import VulkanRuntime

    made = []

    def make(mask=""):
        monkeypatch.setenv("GRILLY_VULKAN_MASK", mask)
        made.append(VulkanRuntime(backend.devices()[0]))
        return made[-1]

    yield make
    for runtime in made:
        runtime.close()


class Floats:
    """Vectors of floats on a runtime, and the shader above."""

    def __init__(self, runtime):
        from grilly_backend_vulkan import register_shader

        try:
            register_shader("test.scale_add", glsl=SCALE_ADD)
        except ImportError as error:
            pytest.skip(str(error))
        self.runtime = runtime

    def empty(self, n):
        handle = self.runtime.alloc(4 * n)
        spec = contiguous_spec((n,), as_dtype("f32"), self.runtime)
        return View(Buffer(self.runtime, handle, 4 * n), spec, 0, None)

    def put(self, values):
        array = np.ascontiguousarray(values, np.float32)
        view = self.empty(array.size)
        self.runtime.copy_in(view.buffer.handle, 0, array.reshape(-1).view(np.uint8).data)
        return view

    def get(self, view):
        out = np.empty(view.shape, np.float32)
        self.runtime.copy_out(view.buffer.handle, 4 * view.offset, out.view(np.uint8).data)
        return out

    def free(self, view):
        self.runtime.free(view.buffer.handle)

    def scale_add(self, x, y, a=1.0, b=1.0, n=None):
        stream = self.runtime.stream
        n = n or x.shape[0]
        push = struct.pack("<QQI4x", stream.address(x), stream.address(y), n)
        groups = (min(-(-n // 64), 65535), 1, 1)
        stream.launch(stream.pipeline("test.scale_add", (float(a), float(b))), groups, push, [x], [y])


@pytest.fixture
def floats(runtime):
    return Floats(runtime)


@pytest.fixture
def floats_on():
    return Floats


@pytest.fixture
def python(backend):
    """Run a piece of Python in a fresh process; returns what it printed."""

    def run(code, expect=0, **env):
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, timeout=120,
            env={**os.environ, **env}, check=False,
        )  # fmt: skip
        assert done.returncode == expect, done.stdout + done.stderr
        return done.stdout + done.stderr

    return run
