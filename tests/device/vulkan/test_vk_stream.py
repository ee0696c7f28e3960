"""Recording, barriers, batches, arguments and threads (VUL-01, VUL-15, VUL-18, THR-05)."""

from __future__ import annotations

import struct
import threading

import numpy as np
import pytest

from grilly_core.buffer import Buffer, View, contiguous_spec, make_spec
from grilly_core.dtypes import as_dtype
from grilly_core.errors import DeviceError, MissingPluginError
from grilly_core.layout import make_layout

INDIRECT = """#version 460
#extension GL_EXT_buffer_reference : require
layout(local_size_x = 64) in;
layout(buffer_reference, std430, buffer_reference_align = 4) buffer Floats { float at[]; };
layout(buffer_reference, std430, buffer_reference_align = 16) readonly buffer Arguments {
    Floats y;
    uint n;
    float x[40];
};
layout(push_constant) uniform Push { Arguments arguments; } push;
void main() {
    uint i = gl_GlobalInvocationID.x;
    if (i < push.arguments.n) push.arguments.y.at[i] = push.arguments.x[i];
}
"""


def test_a_chain_of_dependent_launches(floats):
    """VUL-15, on the runtime: a thousand dependent steps in two buffers in turn."""
    x, y = floats.put(np.zeros(1003)), floats.empty(1003)
    for _ in range(500):
        floats.scale_add(x, y)
        floats.scale_add(y, x)
    assert (floats.get(x) == 1000).all()


def test_a_chain_in_place(floats):
    x = floats.put(np.zeros(1003))
    for _ in range(300):
        floats.scale_add(x, x)
    assert (floats.get(x) == 300).all()


def test_a_chain_through_reused_memory(floats):
    x = floats.put(np.zeros(5000))
    for _ in range(300):
        y = floats.empty(5000)
        floats.scale_add(x, y)
        floats.free(x)
        x = y
    assert (floats.get(x) == 300).all()


def test_barriers_only_between_dependent_launches(fresh, floats_on):
    on = floats_on(fresh())
    xs = [on.put(np.full(64, i)) for i in range(4)]
    ys = [on.empty(64) for _ in xs]
    zs = [on.empty(64) for _ in xs]
    on.runtime.synchronize()
    before = on.runtime.stream.barriers
    for x, y in zip(xs, ys, strict=True):
        on.scale_add(x, y)
    assert on.runtime.stream.barriers == before
    for y, z in zip(ys, zs, strict=True):
        on.scale_add(y, z, b=2.0)
    assert on.runtime.stream.barriers == before + 1
    assert [on.get(z)[0] for z in zs] == [3, 4, 5, 6]


def test_launches_are_submitted_in_batches(fresh, floats_on):
    on = floats_on(fresh())
    x = on.put(np.zeros(64))
    first = on.runtime.stream.value
    for _ in range(64):
        on.scale_add(x, x)
    assert on.runtime.stream.value - first == 2


def test_long_work_is_submitted_in_pieces(fresh, floats_on):
    """VUL-10: launches over much memory do not wait for company, so that no submission runs into a watchdog."""
    on = floats_on(fresh())
    x, y = on.empty(1 << 22), on.empty(1 << 22)
    first = on.runtime.stream.value
    for _ in range(16):  # 32 MiB read or written by each
        on.scale_add(x, y, n=64)
    assert on.runtime.stream.value - first >= 1
    assert all(len(names) <= 9 for _, _, names in on.runtime.stream._in_flight)


def test_views_outside_their_buffer_are_refused(floats):
    x, y = floats.put(np.zeros(64)), floats.empty(64)
    beyond = View(x.buffer, x.spec, 1, None)
    backwards = View(
        x.buffer, make_spec(make_layout((64,), (-1,)), as_dtype("f32"), floats.runtime), 62, None
    )
    before = floats.runtime.stream.launches
    for wrong in (beyond, backwards):
        with pytest.raises(DeviceError, match=r"test\.scale_add: View.* needs bytes .*was not recorded"):
            floats.scale_add(wrong, y)
    assert floats.runtime.stream.launches == before
    whole = View(x.buffer, backwards.spec, 63, None)
    floats.scale_add(whole, y, n=1)
    floats.free(x)
    with pytest.raises(DeviceError, match="freed"):
        floats.scale_add(x, y)


def test_limits_are_checked(floats):
    stream = floats.runtime.stream
    x = floats.put(np.zeros(64))
    pipeline = stream.pipeline("test.scale_add", (1.0, 1.0))
    with pytest.raises(DeviceError, match="work groups, and the device allows"):
        stream.launch(pipeline, (1, 2**31, 1), bytes(24), [x], [x])
    for push in (bytes(132), bytes(6)):
        with pytest.raises(DeviceError, match=r"at most 128 and a multiple of 4.*stream\.arguments"):
            stream.launch(pipeline, (1, 1, 1), push, [x], [x])
    before = stream.launches
    stream.launch(pipeline, (0, 1, 1), bytes(24), [x], [x])
    assert stream.launches == before


def test_arguments_beyond_push_constants(runtime, floats):
    """VUL-18: what does not fit 128 bytes goes through a ring, which may be gone round many times."""
    runtime.shader("test.indirect", glsl=INDIRECT)
    stream = runtime.stream
    pipeline = stream.pipeline("test.indirect")
    y = floats.empty(40)
    for turn in range(7000):  # 172 bytes each: more than the ring holds
        data = struct.pack("<QI40f", stream.address(y), 40, *(float(turn + i) for i in range(40)))
        stream.launch(pipeline, (1, 1, 1), struct.pack("<Q", stream.arguments(data)), [], [y])
        if turn % 997 == 0:
            assert (floats.get(y) == turn + np.arange(40)).all()
    assert (floats.get(y) == 6999 + np.arange(40)).all()


def test_scratch_is_freed_in_stream_order(runtime, floats):
    x, y = floats.put(np.arange(1000)), floats.empty(1000)
    live = runtime.memory.live
    for _ in range(50):
        scratch = runtime.scratch(4000)
        between = View(scratch.buffer, x.spec, 0, None)
        floats.scale_add(x, between)
        floats.scale_add(between, y)
        del scratch, between
    runtime.free(runtime.alloc(1))
    assert runtime.memory.live == live
    assert (floats.get(y) == np.arange(1000) + 2).all()


@pytest.mark.parametrize("mask", ["", "host_visible"])
@pytest.mark.parametrize("workers", [2, 8])
def test_threads_share_a_device(fresh, floats_on, workers, mask):
    """THR-05: launches and transfers from several threads; memory made here and freed there."""
    on = floats_on(fresh(mask))
    wrong, left = [], []

    def work(seed):
        try:
            for i in range(60):
                x = on.put(np.full(257, seed * 1000 + i))
                y = on.empty(257)
                on.scale_add(x, y)
                on.scale_add(y, x, a=2.0, b=0.0)
                if not (on.get(x) == 2 * (seed * 1000 + i + 1)).all():
                    wrong.append((seed, i))
                left.append(Buffer(None, x.buffer.handle, 0))
                on.free(y)
                if left:
                    on.runtime.released.append(left.pop(0).handle)
        except Exception as error:
            wrong.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert not wrong and not any(t.is_alive() for t in threads)
    on.runtime.free(on.runtime.alloc(1))
    assert on.runtime.memory.count == len(left)


TURNS = """#version 460
#extension GL_EXT_buffer_reference : require
layout(local_size_x = 1) in;
layout(buffer_reference, std430, buffer_reference_align = 4) buffer Count { uint at; };
layout(push_constant) uniform Push { Count count; uint outer; uint inner; } push;
void main() {
    uint n = 0;
    for (uint i = 0; i < push.outer; ++i)
        for (uint j = 0; j < push.inner && push.count.at == 0u; ++j) ++n;
    push.count.at = n;
}
"""


def test_a_shader_may_take_as_many_turns_as_the_facts_say(runtime):
    """Nested loops are counted together, which is what a kernel must stay below."""
    try:
        runtime.shader("test.turns", glsl=TURNS)
    except MissingPluginError as error:
        pytest.skip(str(error))
    inner = min(runtime.facts.max_turns, 1 << 20) // 250 - 2
    handle = runtime.alloc(4)
    runtime.copy_in(handle, 0, bytes(4))
    view = View(Buffer(runtime, handle, 4), contiguous_spec((1,), as_dtype("u32"), runtime), 0, None)
    push = struct.pack("<QII", runtime.address(view), 249, inner)
    runtime.stream.launch(runtime.pipeline("test.turns"), (1, 1, 1), push, [view], [view])
    out = bytearray(4)
    runtime.copy_out(handle, 0, out)
    assert struct.unpack("<I", out) == (249 * inner,)


@pytest.mark.parametrize("a", [2, 2.0, True])
def test_specialisation_constants_keep_their_type(floats, a):
    """1, 1.0 and True are equal in Python, and are three constants."""
    get = floats.runtime.pipeline
    assert get("test.scale_add", (float(a), 1.0)) is get("test.scale_add", (float(a), 1.0))
    assert get("test.scale_add", (a, 1.0)) is get("test.scale_add", (a, 1.0))
    if not isinstance(a, float):
        assert get("test.scale_add", (a, 1.0)) is not get("test.scale_add", (float(a), 1.0))
