"""The conformance kit finds faults: each kind of broken kernel is reported by the mode that is for it."""

from __future__ import annotations

import itertools
from types import SimpleNamespace

import numpy as np
import pytest

from grilly_core import device, registry
from grilly_core.plugins import loader
from grilly_testkit import reference
from grilly_testkit.conformance import Report, execute, read_xfails, run

COUNTER = itertools.count()
KEPT = []


def wrong(out, x, y):
    out[...] = x + y + (x == x.max()) if x.size else x + y


def outside(out, x, y):
    out[...] = x + y
    whole = out.base
    if whole is not None and whole.size > out.size:  # never beyond memory that is ours
        start = (out.ctypes.data - whole.ctypes.data) // out.itemsize
        whole[start + out.size] = 7


def changes_inputs(out, x, y):
    out[...] = x + y
    x[...] = 0


def ignores_strides(out, x, y):
    base = x if x.base is None else x.base
    flat = np.resize(base.ravel(), x.size).reshape(x.shape).astype(x.dtype)
    out[...] = flat + y


def undecided(out, x, y):
    out[...] = x + y + next(COUNTER) * np.float32(1e-6)


@pytest.fixture
def broken():
    """Open ``broken:0``: the reference device with another kernel for `add`, whose views it may keep."""

    def make(function, keep=False):
        class Runtime(reference._Runtime):
            validation_messages = ()

            def register_kernels(self, kernels):
                def add(stream, outs, ins, attrs):
                    function(outs[0].array, ins[0].array, ins[1].array)
                    if keep:
                        KEPT.append(outs[0])

                renamed = SimpleNamespace(
                    add=lambda name, fn, **o: name == "add" or kernels.add(name, fn, **o)
                )
                super().register_kernels(renamed)
                kernels.add("add", add, dtypes={"f32", "i32"})

        backend = SimpleNamespace(
            name="broken", grilly_abi=1, devices=lambda: ["one"], open=lambda index: Runtime()
        )
        loader.add_backend(backend)
        return "broken:0"

    yield make
    KEPT.clear()
    loader.remove_backend("broken")
    device.close_all()
    registry.drop_kernels("broken")


@pytest.mark.parametrize(
    ("function", "mode"),
    [
        (wrong, "forward"),
        (outside, "guard"),
        (changes_inputs, "guard"),
        (ignores_strides, "layout"),
        (undecided, "determinism"),
    ],
)
def test_a_broken_kernel_is_found(broken, function, mode):
    report = execute(broken(function), 1, ops=["add"])
    assert not report.ok
    assert mode in {f.mode for f in report.failures}


def test_a_kernel_that_keeps_its_views_leaks(broken):
    report = execute(broken(lambda out, x, y: np.add(x, y, out=out), keep=True), 1, ops=["add"])
    assert {f.mode for f in report.failures} == {"leak"}


def test_a_right_kernel_passes(broken):
    assert execute(broken(lambda out, x, y: np.add(x, y, out=out)), 1, ops=["add"]).ok


def test_a_run_of_nothing_fails():
    assert run("cpu", 3, ops=[], quiet=True) == 1


def test_validation_messages_fail_a_run():
    report = Report("x", 0, {}, executed=1)
    assert report.ok
    report.messages = ["out of range"]
    assert not report.ok
    assert "out of range" in report.summary()


def test_the_list_of_expected_failures_is_strict(tmp_path, broken):
    listed = tmp_path / "xfails.txt"
    listed.write_text("add forward the kernel is wrong on purpose\nadd errors it is not  # a comment\n")
    report = execute(broken(wrong), 0, ops=["add"], xfails=listed)
    assert report.expected
    assert report.passed_unexpectedly == ["add errors"]
    listed.write_text("add forward\n")
    with pytest.raises(ValueError, match="reason"):
        read_xfails(listed)


def test_ops_of_extensions_are_checked_and_unknown_ones_refused():
    report = execute("cpu", 0, ops=["snn.place_cell"])
    assert report.ok and report.cases > 0
    with pytest.raises(ValueError, match="snn.no_such_op"):
        execute("cpu", 0, ops=["add", "snn.no_such_op"])
