"""Products of bytes; NumPy's product of wide integers is the oracle."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("numba")

from grilly_backend_cpu.fast import byte_tile
from grilly_backend_cpu.jit import Jit

_tile = None  # replaced by the intrinsic

FORMS = [False] + [True] * byte_tile.quick()


def multiply(a, b, c, fresh):
    count = a.shape[1]
    for s in range(b.shape[0]):
        _tile(
            a, 0, count, 1, b, s * count * b.shape[2], b.shape[2], c, s * b.shape[2], c.shape[1], count, fresh
        )


@pytest.mark.parametrize("instruction", FORMS)
@pytest.mark.parametrize("fresh", [True, False])
@pytest.mark.parametrize("groups", [1, 7, 96, 4000])
def test_sums_are_exact_at_the_largest_bytes_too(
    instruction: bool, fresh: bool, groups: int, rng: np.random.Generator
) -> None:
    run = Jit(multiply, {}, f"multiply_bytes[{instruction}]")
    run.replaced["_tile"] = byte_tile.byte_tile(instruction)
    high, across = byte_tile.ROWS, byte_tile.COLUMNS
    left = rng.integers(-128, 128, (high, 4 * groups)).astype(np.int8)
    right = rng.integers(0, 256, (3 * across, 4 * groups)).astype(np.uint8)
    left[0], right[0] = -128, 255
    left[1], right[1] = 127, 255
    strips = np.ascontiguousarray(right.view(np.int32).reshape(3, across, groups).transpose(0, 2, 1))
    c = rng.integers(-1000, 1000, (high, 3 * across)).astype(np.int32)
    want = left.astype(np.int64) @ right.T.astype(np.int64) + (0 if fresh else c)
    run(left.view(np.int32), strips, c, fresh)
    np.testing.assert_array_equal(c, want)


def test_the_tile_of_this_machine_is_the_quick_one_where_there_is_one() -> None:
    tile = byte_tile.host_tile()
    assert tile.quick is byte_tile.quick() and tile.tile is byte_tile.byte_tile(tile.quick)


def test_a_machine_that_numba_was_told_of_is_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    from grilly_backend_cpu import jit_setup

    monkeypatch.setattr(jit_setup.numba().config, "CPU_NAME", "generic")
    byte_tile.quick.cache_clear()
    try:
        assert not byte_tile.quick()
    finally:
        byte_tile.quick.cache_clear()
