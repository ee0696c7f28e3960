"""The memory pool, transfers, and running out (VUL-11)."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from grilly_core.errors import DeviceError, OutOfMemoryError

MIB = 1 << 20
BOTH = pytest.mark.parametrize(
    "mask", ["", "host_visible", "host_cached"], ids=["mapped", "staged", "uncached"]
)


@BOTH
def test_bytes_come_back(fresh, mask):
    runtime = fresh(mask)
    handle = runtime.alloc(1000)
    data = np.arange(1000).astype(np.uint8)
    runtime.copy_in(handle, 0, data.data)
    runtime.copy_in(handle, 10, b"abc")
    out = np.empty(20, np.uint8)
    runtime.copy_out(handle, 5, out.data)
    data[10:13] = list(b"abc")
    assert (out == data[5:25]).all()


@BOTH
def test_more_than_the_staging_memory_comes_back(fresh, mask):
    runtime = fresh(mask)
    size = 37 * MIB + 13
    handle = runtime.alloc(size)
    data = np.random.default_rng(0).integers(0, 256, size, np.uint8)
    runtime.copy_in(handle, 0, data.data)
    out = np.empty(size, np.uint8)
    runtime.copy_out(handle, 0, out.data)
    assert (out == data).all()


def test_what_does_not_fit_the_buffer_is_refused(runtime):
    handle = runtime.alloc(100)
    for call in (runtime.copy_in, runtime.copy_out):
        with pytest.raises(ValueError, match=r"bytes 90 to 110 are outside of Allocation\(100 bytes"):
            call(handle, 90, bytearray(20))
    with pytest.raises(ValueError, match="outside"):
        runtime.copy(handle, 0, handle, 60, 50)
    runtime.free(handle)


@BOTH
def test_copies_on_the_device_may_overlap(fresh, mask):
    runtime = fresh(mask)
    a, b = runtime.alloc(64), runtime.alloc(64)
    data = np.arange(64, dtype=np.uint8)
    runtime.copy_in(a, 0, data.data)
    runtime.copy(b, 3, a, 1, 40)
    runtime.copy(a, 8, a, 0, 50)
    out = np.empty(64, np.uint8)
    runtime.copy_out(b, 0, out.data)
    assert (out[3:43] == data[1:41]).all()
    runtime.copy_out(a, 0, out.data)
    assert (out[8:58] == data[:50]).all()


def test_freeing_twice_is_refused(runtime):
    handle = runtime.alloc(64)
    runtime.free(handle)
    with pytest.raises(DeviceError, match="freed before"):
        runtime.free(handle)


@pytest.mark.parametrize("nbytes", [0, 1, 255, 256, 257])
def test_addresses_are_aligned_and_apart(runtime, nbytes):
    handles = [runtime.alloc(nbytes) for _ in range(10)]
    starts = sorted(h.address for h in handles)
    assert all(a % 256 == 0 for a in starts)
    assert all(b - a >= max(nbytes, 1) for a, b in itertools.pairwise(starts))
    for handle in handles:
        runtime.free(handle)


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.booleans(), st.integers(0, 3 * MIB), st.integers(0, 99)), max_size=60))
def test_allocations_never_overlap_and_everything_joins_again(runtime, steps):
    held = []
    memory = runtime.memory
    before = memory.live, memory.count
    for takes, nbytes, which in steps:
        if takes or not held:
            held.append(runtime.alloc(nbytes))
        else:
            runtime.free(held.pop(which % len(held)))
        ranges = sorted((h.address, h.address + h.size) for h in held)
        assert all(a[1] <= b[0] for a, b in itertools.pairwise(ranges))
        assert all(h.size >= h.nbytes and h.offset + h.size <= h.block.size for h in held)
    for handle in held:
        runtime.free(handle)
    assert (memory.live, memory.count) == before


def test_trim_returns_unused_blocks(fresh):
    runtime = fresh()
    handles = [runtime.alloc(n) for n in (100, 3 * MIB, 5 * MIB, 100, 9 * MIB)]
    assert runtime.memory.statistics()["blocks"] >= 3
    for handle in handles[::2] + handles[1::2]:
        runtime.free(handle)
    assert runtime.memory.trim() == 0 + sum({h.block: h.block.size for h in handles}.values())
    assert runtime.memory.statistics() | {"total": 0, "available": 0} == {
        "total": 0, "live": 0, "reserved": 0, "buffers": 0, "blocks": 0, "available": 0,
    }  # fmt: skip


def test_rounds_of_large_buffers_do_not_grow(fresh):
    runtime = fresh()
    for _ in range(200):
        handle = runtime.alloc(256 * MIB)
        runtime.free(handle)
    assert runtime.memory.reserved == 256 * MIB


def test_more_than_one_allocation_can_be_is_refused_by_size(runtime):
    with pytest.raises(OutOfMemoryError, match=r"4\.0 TiB in one piece.*largest allocation is .*GiB"):
        runtime.alloc(2**42)
    runtime.free(runtime.alloc(16))


def test_running_out_says_who_holds_what_and_small_things_go_on(fresh, monkeypatch):
    runtime = fresh()
    monkeypatch.setattr(runtime.memory, "_capacity", 100 * MIB)
    held = runtime.alloc(60 * MIB)
    with pytest.raises(
        MemoryError, match=r"50\.0 MiB were asked for.*60\.0 MiB in 1 buffers; .* reserved in 1 blocks"
    ):
        runtime.alloc(50 * MIB)
    small = runtime.alloc(100)
    runtime.free(held)
    runtime.free(runtime.alloc(90 * MIB))  # the unused block is given back to make room
    runtime.free(small)


def test_memory_in_use_is_not_written_by_the_host(fresh, floats_on):
    """A buffer freed while launches still read it, and reused for an upload: the old launches see the old bytes."""
    runtime = fresh()
    on = floats_on(runtime)
    n = 1 << 18
    for i in range(20):
        x, y = on.put(np.full(n, i)), on.empty(n)
        on.scale_add(x, y)
        on.free(x)
        z = on.put(np.full(n, -1.0))
        assert z.buffer.handle.address == x.buffer.handle.address
        assert (on.get(y) == i + 1).all() and (on.get(z) == -1).all()
        on.free(y)
        on.free(z)
