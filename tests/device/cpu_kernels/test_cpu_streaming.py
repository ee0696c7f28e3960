"""Writing past the caches and filling large memory; the oracle is NumPy's copy and fill."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("numba")

import grilly
from grilly_backend_cpu.fast.fill import fill, fits
from grilly_backend_cpu.fast.streaming import LEAST_STREAMED, stream_end, stream_out


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.uint32, np.int64])
def test_a_row_is_copied_wherever_it_starts_and_nothing_beside_it(dtype: type) -> None:
    rng = np.random.default_rng(0)
    for offset in (0, 1, 3, 15, 16):
        for size in (0, 1, 5, 16, 33, 1000):
            target = rng.integers(1, 9, 1100).astype(dtype)
            expected, row = target.copy(), rng.integers(10, 99, size).astype(dtype)
            stream_out(row, target[offset : offset + size])
            stream_end()
            expected[offset : offset + size] = row
            np.testing.assert_array_equal(target, expected)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, np.complex64])
@pytest.mark.parametrize("nbytes", [1 << 20, (1 << 21) + 8, LEAST_STREAMED + 40])
def test_fill_is_that_of_numpy(dtype: type, nbytes: int) -> None:
    memory = np.zeros(nbytes // np.dtype(dtype).itemsize + 2, dtype)
    out = memory[1:-1]
    assert fits(out)
    fill(out, 3)
    np.testing.assert_array_equal(out, np.full(out.shape, 3, dtype))
    assert memory[0] == 0 and memory[-1] == 0


@pytest.mark.parametrize("value", [float("nan"), float("-inf"), -0.0, 1e-45])
def test_special_values_keep_their_bits(value: float) -> None:
    made = grilly.full((1 << 19,), value).numpy()
    assert set(made.view(np.uint32).tolist()) == set(np.array([value], np.float32).view(np.uint32).tolist())


def test_the_gradient_of_a_large_sum_is_one_everywhere() -> None:
    x = grilly.zeros((700, 1000), requires_grad=True)
    grilly.sum(x.transpose(0, 1)).backward()
    np.testing.assert_array_equal(x.grad.numpy(), np.ones((700, 1000), np.float32))
