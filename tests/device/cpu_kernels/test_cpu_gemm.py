"""Matrix products by tiles; the oracle is NumPy's product in float64, the bound that of sums of `k` roundings."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("numba")

from grilly_backend_cpu import jit_setup
from grilly_backend_cpu.fast import gemm
from grilly_backend_cpu.fast.gemm import multiply, serves

SHAPES = [
    (8, 8, 20000),
    (113, 97, 301),
    (1000, 33, 77),
    (64, 256, 784),
    (15, 4000, 64),
    (448, 1024, 3),
    (14, 32, 2400),
]


def drawn(rng: np.random.Generator, rows: int, columns: int, layout: str) -> Any:
    """A matrix of normal numbers that lies by rows, by columns, or as part of a larger one."""
    if layout == "turned":
        return rng.standard_normal((columns, rows), dtype=np.float32).T
    if layout == "part":
        return rng.standard_normal((rows, columns + 5), dtype=np.float32)[:, 2:-3]
    if layout == "scattered":
        return rng.standard_normal((rows, 2 * columns), dtype=np.float32)[:, ::2]
    return rng.standard_normal((rows, columns), dtype=np.float32)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("layouts", [("plain", "plain"), ("turned", "plain"), ("plain", "turned"), ("turned", "turned"),
                                     ("part", "scattered")])  # fmt: skip
def test_products_of_all_layouts_and_of_shapes_that_no_tile_divides(
    shape: tuple[int, int, int], layouts: tuple[str, str], rng: np.random.Generator
) -> None:
    m, n, k = shape
    a, b = drawn(rng, m, k, layouts[0]), drawn(rng, k, n, layouts[1])
    memory = np.full((m, n + 3), np.nan, np.float32)
    out = memory[:, :n]
    multiply(a, b, out)
    wide = a.astype(np.float64), b.astype(np.float64)
    bound = 4 * np.finfo(np.float32).eps * np.sqrt(k) * (np.abs(wide[0]) @ np.abs(wide[1])) / 2
    assert (np.abs(out - wide[0] @ wide[1]) <= bound).all()
    assert np.isnan(memory[:, n:]).all(), "written beyond the result"


def test_what_is_not_finite_stays_in_its_row_and_column(rng: np.random.Generator) -> None:
    a, b = rng.random((90, 260), np.float32), rng.random((260, 70), np.float32)
    a[3, 259], a[89, 0], b[1, 69] = np.inf, np.nan, -np.inf
    out = np.empty((90, 70), np.float32)
    multiply(a, b, out)
    expected = np.ones((90, 70), bool)
    expected[[3, 89]] = expected[:, 69] = False
    np.testing.assert_array_equal(np.isfinite(out), expected)
    assert out[3, 0] == np.inf and np.isnan(out[3, 69]) and np.isnan(out[89]).all() and out[4, 69] == -np.inf


def test_bits_do_not_depend_on_the_number_of_threads(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b, found = rng.random((333, 500), np.float32), rng.random((500, 444), np.float32), []
    for threads in (2, 1):
        monkeypatch.setitem(jit_setup._state, "threads", threads)
        found.append(np.empty((333, 444), np.float32))
        multiply(a, b, found[-1])
    assert found[0].tobytes() == found[1].tobytes()


def test_a_result_does_not_depend_on_what_else_is_in_the_batch(rng: np.random.Generator) -> None:
    a, b = rng.random((400, 300), np.float32), rng.random((300, 200), np.float32)
    whole, part = np.empty((400, 200), np.float32), np.empty((100, 200), np.float32)
    multiply(a, b, whole)
    multiply(a[:100], b, part)
    assert whole[:100].tobytes() == part.tobytes()


def test_only_what_pays_and_fits_is_served() -> None:
    big, out = np.zeros((256, 256), np.float32), np.zeros((256, 256), np.float32)
    assert serves(big, big, out)
    assert not serves(big.astype(np.float64), big, out)
    assert not serves(big, big, out.T)
    assert not serves(big[:64, :64], big[:64, :64], out[:64, :64])
    assert not serves(big[:4], np.zeros((256, 9000), np.float32), np.zeros((4, 9000), np.float32))


@pytest.mark.parametrize("rows", [1, 14, 15, 100, 1600, 99999])
@pytest.mark.parametrize("columns", [1, 32, 33, 1000, 70001])
def test_units_cover_the_result_in_blocks_that_the_caches_hold(rows: int, columns: int) -> None:
    height, width = gemm._blocks(rows, columns, 14, 32)
    assert height % 14 == 0 and width % 32 == 0
    assert height <= 14 * gemm._ROWS and width <= 32 * gemm._STRIPS
    units = -(-rows // height) * -(-columns // width)
    assert units >= gemm._UNITS or rows * columns <= 14 * 32 * gemm._UNITS * 4 or (height, width) == (14, 32)
