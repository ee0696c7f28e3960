"""What must not end a program: no driver, a lost device, forks, the end of the process (VUL-10, VUL-12, THR-04)."""

from __future__ import annotations

import multiprocessing
import os

import numpy as np
import pytest

import grilly_core as grilly
from grilly_core import device as devices
from grilly_core.errors import DeviceError

ON_CPU = """
import grilly_core as g
x = g.asarray([1.0, 2.0])
assert (x + x).tolist() == [2.0, 4.0]
assert str(g.default_device()) == "cpu:0"
try:
    g.zeros(3, device="vulkan")
except g.errors.DeviceError as error:
    text = str(error)
    assert "\\n" not in text
    print(text)
else:
    raise SystemExit("no error")
"""


@pytest.mark.parametrize("variable", ["VK_DRIVER_FILES", "VK_ICD_FILENAMES"])
def test_without_a_driver_the_cpu_works_and_the_message_says_what_to_install(python, variable):
    said = python(ON_CPU, **{variable: "/nonexistent.json"})
    assert (
        "no usable driver" in said
        and "mesa-vulkan-drivers" in said
        and f"{variable}=/nonexistent.json" in said
    )


def test_a_broken_driver_file_is_no_driver(python, tmp_path):
    broken = tmp_path / "broken.json"
    broken.write_text("{ this is not JSON")
    assert "no usable driver" in python(ON_CPU, VK_DRIVER_FILES=str(broken))


def test_without_a_loader_the_message_says_what_to_install(python):
    """The binding asks for the loader by name; here the system says that there is none."""
    hide = """
import builtins
real = builtins.__import__
def fake(name, *rest, **kw):
    if name == "vulkan._vulkan" or name.startswith("vulkan."):
        raise OSError("Cannot find Vulkan SDK version. Please ensure that it is installed")
    return real(name, *rest, **kw)
builtins.__import__ = fake
"""
    said = python(hide + ON_CPU)
    assert "libvulkan1" in said and "not on this machine" in said


def test_without_the_binding_the_message_says_what_to_install(python):
    said = python("import sys; sys.modules['vulkan'] = None\n" + ON_CPU)
    assert "pip install 'vulkan" in said


def test_the_doctor_tells_why(python):
    code = "from grilly_core.plugins import loader; loader.load_all(); print(*loader.statuses(), sep='\\n')"
    said = python(code, VK_DRIVER_FILES="/nonexistent.json")
    assert "no usable driver" in said


def test_importing_the_package_loads_nothing(python):
    python(
        "import sys, grilly_backend_vulkan\n"
        "assert not {'vulkan', 'cffi', 'numpy', 'grilly_core.device'} & set(sys.modules), sys.modules.keys()"
    )


# -- a lost device -----------------------------------------------------------------------------------------------


@pytest.fixture
def losing(backend, monkeypatch):
    """The context of vulkan:0, and a way to make its next submissions fail as if the device were lost."""
    context = devices.open_context("vulkan:0")

    def lose(after=0):
        stream, real, calls = context.runtime.stream, context.runtime.stream._submit_call, []

        def submit(*arguments):
            calls.append(1)
            return real(*arguments) if len(calls) <= after else -4

        monkeypatch.setattr(stream, "_submit_call", submit)

    yield lose
    devices.close_all()


def test_a_lost_device_says_so_and_can_be_opened_again(losing):
    from grilly_backend_vulkan.errors import DeviceLostError

    x = grilly.asarray(np.ones(100, np.float32), device="vulkan:0")
    losing(after=2)
    with pytest.raises(
        DeviceLostError, match=r"was lost \(vkQueueSubmit2\); unfinished kernels, newest last: \w+"
    ):
        for _ in range(5):
            (x + 1).numpy()
    for _ in range(5):
        with pytest.raises(DeviceLostError, match=r"close_all\(\)"):
            (x + 1).numpy()
    with pytest.raises(DeviceLostError):
        grilly.zeros(3, device="vulkan:0")
    assert (grilly.asarray([1.0], device="cpu") + 1).tolist() == [2.0]
    devices.close_all()
    y = grilly.asarray(np.ones(100, np.float32), device="vulkan:0")
    assert ((y + 1).numpy() == 2).all()
    with pytest.raises(DeviceError):
        x + y
    del x


def test_a_closed_runtime_refuses(fresh):
    runtime = fresh()
    handle = runtime.alloc(16)
    runtime.close()
    runtime.close()
    for use in (lambda: runtime.alloc(4), lambda: runtime.copy_in(handle, 0, b"abcd"), runtime.synchronize):
        with pytest.raises(DeviceError, match="has been closed"):
            use()
    runtime.free(handle)  # finalizers may still come


# -- forks -------------------------------------------------------------------------------------------------------

FORK = """
import os, sys, numpy as np, grilly_core as g
x = g.asarray(np.arange(4.0, dtype=np.float32), device="vulkan:0")
y = x + 1
pid = os.fork()
if pid == 0:
    assert (g.asarray([1.0], device="cpu") + 1).tolist() == [2.0]
    for use in (lambda: (x + 1).numpy(), lambda: y.numpy(), lambda: g.zeros(3, device="vulkan:0")):
        try:
            use()
        except g.errors.DeviceError as error:
            assert "spawn" in str(error), error
        else:
            os._exit(3)
    del x, y
    sys.exit(0)  # runs the exit handlers, too
_, status = os.waitpid(pid, 0)
assert os.waitstatus_to_exitcode(status) == 0, status
assert (x + y).tolist() == [1.0, 3.0, 5.0, 7.0]
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_uses_the_cpu_and_is_told_to_spawn(python):
    python(FORK)


def _spawned(queue):
    x = grilly.asarray(np.arange(4.0, dtype=np.float32), device="vulkan:0")
    queue.put((x + 1).tolist())


def test_a_spawned_child_uses_the_device(backend, python):
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    process = context.Process(target=_spawned, args=(queue,))
    process.start()
    assert queue.get(timeout=60) == [1.0, 2.0, 3.0, 4.0]
    process.join(30)
    assert process.exitcode == 0


# -- the end of the process --------------------------------------------------------------------------------------


def test_everything_is_given_back_at_exit(python):
    """Validation layers complain of whatever is left when device and instance are destroyed."""
    code = """
import atexit
from grilly_backend_vulkan import instance
atexit.register(lambda: print("messages:", instance.validation_messages))  # runs after the backend's handler
import numpy as np, grilly_core as g
x = g.asarray(np.arange(100.0, dtype=np.float32), device="vulkan:0")
y = (x + 1).sum()
print(y.item())
z = x * 2  # still open when the process ends
"""
    assert python(code).splitlines() == ["5050.0", "messages: []"]


def test_an_exception_ends_the_process_as_usual(python):
    code = "import grilly_core as g\nx = g.zeros(4, device='vulkan:0') + 1\nraise SystemExit(7)"
    assert python(code, expect=7) == ""


def test_the_validation_layers_are_heard(backend, python):
    """Negative control: an object that is never destroyed is reported, so silence means something."""
    from grilly_backend_vulkan import instance

    if not instance.layers_installed():
        pytest.skip("the Vulkan validation layers are not installed")
    code = """
from grilly_backend_vulkan import backend, instance
runtime = backend.open(0)
api = runtime.device.api
info = api.struct("VkSemaphoreCreateInfo", 9)
api.made("vkCreateSemaphore", "VkSemaphore", runtime.device.handle, info, api.null)
backend.close()
print(len(instance.validation_messages))
"""
    said = python(code, GRILLY_VULKAN_VALIDATION="1")
    assert said.startswith("1\n") and "validation: " in said
