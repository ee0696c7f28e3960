"""Remembered launches and prepared programs, against the same kernels run directly (NumPy as the oracle of values)."""

from __future__ import annotations

import gc
import struct

import numpy as np
import pytest

import grilly
from grilly_backend_vulkan.relocatable import Bound
from grilly_core.buffer import View
from grilly_core.device import open_context
from grilly_core.errors import DeviceError


@pytest.fixture
def vulkan(backend):
    with grilly.fallback("error"):
        yield "vulkan:0"


def _scale_add(floats):
    """A kernel: y = x + 1 by way of a temporary, in two launches; counts how often its Python ran."""
    runs = []

    def kernel(stream, outs, ins, attrs):
        runs.append(stream)
        (y,), (x,) = outs, ins
        pipeline = stream.pipeline("test.scale_add", (1.0, 0.5))
        between = stream.scratch(x.nbytes)
        n = x.shape[0]
        for source, target in ((x, between), (between, y)):
            push = struct.pack("<QQI4x", stream.address(source), stream.address(target), n)
            stream.launch(pipeline, (min(-(-n // 64), 65535), 1, 1), push, [source], [target])

    return kernel, runs


def test_the_kernel_runs_once_and_its_launches_are_repeated(floats):
    kernel, runs = _scale_add(floats)
    bound = Bound(kernel)
    for i in range(5):
        x, y = floats.put(np.full(100, i)), floats.empty(100)
        bound(floats.runtime.stream, [y], [x], {})
        assert (floats.get(y) == i + 1).all()
    assert len(runs) == 2  # observed twice, at two addresses, and never on the device
    assert floats.runtime.stream not in runs


def test_operands_that_begin_inside_their_buffer(floats):
    kernel, runs = _scale_add(floats)
    bound = Bound(kernel)
    whole = floats.put(np.arange(400))
    for offset in (0, 1, 64, 65, 128):  # 4 bytes each: 64 and 128 are aligned like 0
        x, y = View(whole.buffer, floats.empty(100).spec, offset, None), floats.empty(100)
        bound(floats.runtime.stream, [y], [x], {})
        np.testing.assert_array_equal(floats.get(y), np.arange(offset, offset + 100) + 1)
    assert len(runs) == 2 * 2


def test_temporaries_are_kept_between_launches_up_to_a_size(floats, monkeypatch):
    kernel, _ = _scale_add(floats)
    stream = floats.runtime.stream
    asked = []
    real = stream.scratch
    monkeypatch.setattr(stream, "scratch", lambda n: asked.append(n) or real(n))
    monkeypatch.setattr(stream, "_temporaries", {})
    for n, again in ((100, 0), (300, 1), (200, 0)):  # a larger one replaces, a smaller one uses what there is
        bound = Bound(kernel)
        for i in range(3):
            x, y = floats.put(np.full(n, i)), floats.empty(n)
            if i == 1:
                asked.clear()
            bound(stream, [y], [x], {})
            assert (floats.get(y) == i + 1).all()
        assert len(asked) == (again or len(stream._temporaries) * (n == 100))
    monkeypatch.setattr("grilly_backend_vulkan.stream._HELD_BYTES", 64)
    asked.clear()
    bound(stream, [floats.empty(200)], [floats.put(np.zeros(200))], {})
    assert asked == [800]


def test_a_large_temporary_before_small_ones(floats, monkeypatch):
    """The large one is not kept, and the others keep their numbers."""
    stream = floats.runtime.stream
    monkeypatch.setattr(stream, "_temporaries", {})
    monkeypatch.setattr("grilly_backend_vulkan.stream._HELD_BYTES", 1000)

    def kernel(stream, outs, ins, attrs):
        large, small = stream.scratch(1200), stream.scratch(400)
        for source, target in ((ins[0], large), (large, small), (small, outs[0])):
            push = struct.pack("<QQI4x", stream.address(source), stream.address(target), 100)
            stream.launch(stream.pipeline("test.scale_add", (1.0, 1.0)), (2, 1, 1), push, [source], [target])

    bound = Bound(kernel)
    for i in range(4):
        x, y = floats.put(np.full(100, i)), floats.empty(100)
        bound(stream, [y], [x], {})
        assert (floats.get(y) == i + 3).all()
    assert list(stream._temporaries) == [1]


def test_inputs_that_are_one_tensor_use_the_launches_of_different_ones(floats):
    """And an input that is the output does not: kernels may see that they work in place."""
    runs = []

    def kernel(stream, outs, ins, attrs):
        runs.append(stream.address(ins[0]) == stream.address(outs[0]))
        push = struct.pack("<QQI4x", stream.address(ins[1]), stream.address(outs[0]), 100)
        stream.launch(stream.pipeline("test.scale_add", (1.0, 1.0)), (2, 1, 1), push, ins, outs)

    bound = Bound(kernel)
    a, b = floats.put(np.full(100, 1)), floats.put(np.full(100, 2))
    for x, y, wanted in ((a, a, 2), (a, b, 3), (b, a, 2), (b, b, 3)):
        out = floats.empty(100)
        bound(floats.runtime.stream, [out], [x, y], {})
        assert (floats.get(out) == wanted).all()
    assert runs == [False, False]
    bound(floats.runtime.stream, [a], [a, b], {})
    assert (floats.get(a) == 3).all() and runs[2:] == [True, True]


def test_the_bounds_of_every_operand_are_checked(floats):
    kernel, _ = _scale_add(floats)
    bound = Bound(kernel)
    x, y = floats.put(np.zeros(100)), floats.empty(100)
    bound(floats.runtime.stream, [y], [x], {})
    before = floats.runtime.stream.launches
    with pytest.raises(DeviceError, match="leaves"):
        bound(floats.runtime.stream, [y], [View(x.buffer, x.spec, 64, None)], {})
    floats.free(y)
    with pytest.raises(DeviceError, match="leaves"):
        bound(floats.runtime.stream, [y], [x], {})
    assert floats.runtime.stream.launches == before


def test_kernels_that_depend_on_addresses_run_directly(floats):
    """An address that decides, and a copy, cannot be told by a template."""
    calls = []

    def kernel(stream, outs, ins, attrs):
        calls.append(1)
        groups = (1 + stream.address(ins[0]) // (1 << 56) % 2, 1, 1)
        push = struct.pack("<QQI4x", stream.address(ins[0]), stream.address(outs[0]), 50)
        stream.launch(stream.pipeline("test.scale_add", (1.0, 1.0)), groups, push, ins, outs)

    def copying(stream, outs, ins, attrs):
        calls.append(1)
        stream.copy(outs[0].buffer.handle, 0, ins[0].buffer.handle, 0, 4)

    for fn in (kernel, copying):
        bound = Bound(fn)
        for i in range(3):
            x, y = floats.put(np.full(50, i)), floats.put(np.zeros(50))
            calls.clear()
            bound(floats.runtime.stream, [y], [x], {})
            assert floats.get(y)[0] == (i + 1 if fn is kernel else i)
        if fn is copying:
            assert len(calls) == 1


def test_addresses_among_arguments_are_filled_in(runtime, floats):
    from tests.device.vulkan.test_vk_stream import INDIRECT

    runtime.shader("test.indirect", glsl=INDIRECT)

    def kernel(stream, outs, ins, attrs):
        data = struct.pack("<QI40f", stream.address(outs[0]), 40, *range(40))
        push = struct.pack("<Q", stream.arguments(data))
        stream.launch(stream.pipeline("test.indirect"), (1, 1, 1), push, [], outs)

    bound = Bound(kernel)
    for _ in range(4):
        y = floats.empty(40)
        bound(runtime.stream, [y], [], {})
        np.testing.assert_array_equal(floats.get(y), np.arange(40))


@pytest.mark.parametrize("shape", [(7,), (3, 5), (2, 3, 4), (2, 3, 2, 2, 3)])
def test_ops_give_the_same_as_their_kernels_run_directly(vulkan, shape, monkeypatch):
    """Every op of a small program, on fresh, offset and broadcast operands, twice: bit for bit."""
    rng = np.random.default_rng(0)
    array = rng.standard_normal((2, *shape)).astype(np.float32)

    def program():
        x = grilly.asarray(array, device=vulkan)
        a, b = x[0], x[1]
        row = b.reshape(-1)[: shape[-1]]
        y = grilly.where(a > row, a * row + 1.0, grilly.exp(b)) / (grilly.abs(a) + 1.0)
        z = grilly.functional.softmax(y, -1) @ grilly.ones((shape[-1], 3), device=vulkan)
        return [v.numpy() for v in (y, z, y.sum(), grilly.cumulative_sum(y.reshape(-1), axis=0))]

    first, again = program(), program()
    monkeypatch.setattr(Bound, "__call__", lambda self, *given: self._fn(*given))
    for x, y, z in zip(first, again, program(), strict=True):
        assert x.tobytes() == y.tobytes() == z.tobytes()


def test_a_prepared_program_has_barriers_between_levels_only(runtime, floats):
    xs = [floats.put(np.full(64, i)) for i in range(4)]
    ys, zs = ([floats.empty(64) for _ in xs] for _ in range(2))

    def record():
        for x, y, z in zip(xs, ys, zs, strict=True):  # chains one after another: levels are across them
            floats.scale_add(x, y)
            floats.scale_add(y, z, b=2.0)

    prepared = runtime.prepare(record)
    assert (prepared.launches, prepared.levels) == (8, 2)
    for turn in range(3):
        for i, x in enumerate(xs):
            runtime.copy_in(x.buffer.handle, 0, np.full(64, 10 * turn + i, np.float32).view(np.uint8).data)
        prepared.run()
        assert [floats.get(z)[0] for z in zs] == [10 * turn + i + 3 for i in range(4)]


def test_a_program_keeps_its_temporaries_and_arguments(runtime, floats):
    kernel, _ = _scale_add(floats)
    bound = Bound(kernel)
    x, y = floats.put(np.zeros(500)), floats.empty(500)
    prepared = runtime.prepare(lambda: bound(runtime.stream, [y], [x], {}))
    spoilt = [floats.put(np.full(500, 7.0)) for _ in range(20)]  # would land on a temporary that was let go
    prepared.run()
    assert (floats.get(y) == 1).all() and all((floats.get(s) == 7).all() for s in spoilt)
    del prepared
    gc.collect()
    for _ in range(3):  # its command buffer is used again once the device is done
        floats.scale_add(y, y)
    assert (floats.get(y) == 4).all()


def test_what_a_program_does_not_hold_is_refused(runtime, floats):
    x, y = floats.put(np.zeros(8)), floats.empty(8)
    with pytest.raises(DeviceError, match="launches only"):
        runtime.prepare(lambda: runtime.copy(y.buffer.handle, 0, x.buffer.handle, 0, 32))
    floats.scale_add(x, y)
    assert (floats.get(y) == 1).all()


def test_results_of_a_captured_step_stay_when_they_are_kept(vulkan):
    """Results are lent, not copied; one that is still held at the next replay moves away first."""
    total = grilly.zeros(3, device=vulkan)

    def step(x):
        total.add_(x)
        return total * 2.0

    step = grilly.capture(step, state=total)
    kept = [step(grilly.ones(3, device=vulkan)) for _ in range(8)]
    part = step(grilly.ones(3, device=vulkan))[1:]
    step(grilly.ones(3, device=vulkan))
    assert [k.tolist() for k in kept] == [[2.0 * i] * 3 for i in range(1, 9)]
    assert part.tolist() == [18.0, 18.0]
    assert total.tolist() == [10.0] * 3


def test_a_replay_is_one_submission(vulkan):
    weight = grilly.ones((16, 16), device=vulkan)
    step = grilly.capture(lambda x: (x @ weight).sum(), state=weight)
    x = grilly.ones((4, 16), device=vulkan)
    for _ in range(4):
        step(x)
    stream = open_context(vulkan).runtime.stream
    stream.synchronize()
    before = stream.value
    for _ in range(5):
        step(x)
    assert stream.flush() - before == 4  # five submissions, numbered from `before`
    (stage,) = step.programs.values()
    assert stage.program.prepared.launches >= 2


def test_inputs_that_did_not_change_are_not_copied_again(vulkan):
    """And those that did are, whatever way they changed."""
    step = grilly.capture(lambda x, y: x * 2.0 + y)
    x, y = (grilly.asarray(np.full(64, v, np.float32), device=vulkan) for v in (1, 10))
    stream = open_context(vulkan).runtime.stream
    for _ in range(5):
        step(x, y)
    stream.synchronize()
    before = stream.launches
    assert step(x, y).tolist() == [12.0] * 64
    assert stream.launches == before  # nothing but the program
    x.add_(1.0)
    assert step(x, y).tolist() == [14.0] * 64
    with grilly.no_grad():
        y[0] = 5.0
    assert step(x, y).tolist() == [9.0] + [14.0] * 63
    double = grilly.capture(lambda x: x * 2.0)
    for i in range(6):  # what another program lent
        lent = double(grilly.full(64, float(i), device=vulkan))
        assert step(lent, y).tolist()[1] == 4.0 * i + 10
        assert step(lent, y).tolist()[1] == 4.0 * i + 10
