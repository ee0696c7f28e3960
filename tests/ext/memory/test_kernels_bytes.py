"""Search by products of bytes; NumPy's float64 sums and a stable sort are the oracle, as in `test_kernels_search`."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.ext.memory.test_kernels_search import KINDS, check, drawn

import grilly_core as grilly
from grilly_ext_memory.ops.distances import METRICS, search

pytest.importorskip("numba")

from grilly_ext_memory.kernels import bytes_cpu

SERVE = bytes_cpu.ByteProducts.serve
PRODUCTS = [m for m in METRICS if m != "l1"]


@pytest.fixture(autouse=True)
def looked_at(monkeypatch):
    """All searches round to bytes, also where the machine is slow at that; yields how many rows each looked at."""
    looked, whole = [], bytes_cpu.ByteProducts.search

    def noting(self, *given):
        looked.append(whole(self, *given))
        return looked[-1]

    monkeypatch.setattr(bytes_cpu.ByteProducts, "serve", lambda self, queries, rows: len(rows) > 0)
    monkeypatch.setattr(bytes_cpu.ByteProducts, "search", noting)
    monkeypatch.setattr(bytes_cpu, "_ROWS", 512)
    with grilly.fallback("error"):
        yield looked


def test_registering_kernels_does_not_import_numba():
    """Kernels of all packages are registered by the first op that runs."""
    code = """if True:
        import sys
        from grilly_backend_cpu import backend
        from grilly_ext_memory.kernels import cpu
        class Kernels:
            def add(self, *args, **how): pass
        cpu.register(Kernels(), backend.open(0))
        print("numba" in sys.modules)"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    queries=st.sampled_from([12, 14, 15, 40]),
    rows=st.sampled_from([1, 31, 32, 33, 700, 2100]),
    width=st.sampled_from([1, 3, 4, 16, 65, 130]),
    k=st.sampled_from([1, 2, 10, 60, 140]),
    metric=st.sampled_from(PRODUCTS),
    masked=st.booleans(),
    kind=st.sampled_from(KINDS),
    seed=st.integers(0, 1 << 30),
)
def test_search_is_the_definition(queries, rows, width, k, metric, masked, kind, seed):
    rng = np.random.default_rng(seed)
    q, x = (drawn(rng, kind, (n, width)) for n in (queries, rows))
    check(q, x, rng.random(rows) < 0.6 if masked else None, k, metric, "cpu")


@pytest.mark.parametrize("metric", PRODUCTS)
def test_queries_are_often_rows(metric):
    """The nearest score is 0 then, and what rounding loses is all that there is."""
    rng = np.random.default_rng(1)
    x = rng.standard_normal((1500, 70)).astype(np.float32)
    x[700:] = x[:800] * (1 + 1e-6 * rng.standard_normal((800, 1))).astype(np.float32)
    check(x[::37], x, None, 5, metric, "cpu")


@pytest.mark.parametrize("metric", PRODUCTS)
@pytest.mark.parametrize("scale", [1, 1e-13, 1e-20, 1e-28, 1e15])
def test_what_rounding_takes_away_may_be_what_decides(metric, scale):
    """Of the nearest row nothing is left by rounding, of others more than there was."""
    x = np.zeros((64, 101))
    x[:, 0], x[:, 1:61], x[17, 1:] = 127, 0.51, 0.49
    q = np.full((12, 101), 127.0)
    q[:, 0] = 0
    check((q * scale).astype(np.float32), (x * scale).astype(np.float32), None, 1, metric, "cpu")


@pytest.mark.parametrize("metric", PRODUCTS)
def test_nan_is_never_near_and_infinity_may_be(metric):
    rng = np.random.default_rng(3)
    q, x = (rng.standard_normal((n, 9)).astype(np.float32) for n in (20, 900))
    x[::3, 2], x[1, 0], q[1, 4] = np.nan, np.inf, np.nan
    positions = search(grilly.asarray(q), grilly.asarray(x), k=700, metric=metric)[1].numpy()
    assert (positions[1] == -1).all()
    found = positions[0][positions[0] >= 0]
    assert not np.isnan(x[found]).any() and len(found) == 600 - (metric == "cosine")


@pytest.mark.parametrize(
    ("quick", "queries", "rows", "width", "expected"),
    [(True, 96, 32, 64, True), (False, 96, 32, 64, False), (True, 95, 32, 64, False), (True, 96, 31, 64, False),
     (True, 96, 32, 63, False), (True, 96, 32, 1 << 16, False)],
)  # fmt: skip
def test_bytes_serve_where_they_pay(monkeypatch, quick, queries, rows, width, expected):
    from grilly_backend_cpu import backend
    from grilly_ext_memory.kernels.scores_cpu import Scores

    made = bytes_cpu.ByteProducts(Scores(backend.open(0)))
    monkeypatch.setattr(made, "tile", replace(made.tile, quick=quick))
    given = (np.broadcast_to(np.float32(0), (n, width)) for n in (queries, rows))
    assert SERVE(made, *given) is expected


def test_all_rows_are_looked_at_where_bounds_tell(looked_at):
    rng = np.random.default_rng(4)
    check(
        *(rng.standard_normal((n, 128)).astype(np.float32) for n in (40, 3000)),
        None,
        10,
        "sqeuclidean",
        "cpu",
    )
    assert looked_at == [3000]


def test_float32_does_the_rest_where_they_do_not(looked_at):
    rng = np.random.default_rng(5)
    q, x = (drawn(rng, "far", (n, 128)) for n in (40, 3000))
    check(q, x, None, 10, "sqeuclidean", "cpu")
    assert looked_at == [512]


def test_more_queries_than_are_multiplied_at_once(monkeypatch, looked_at):
    from grilly_ext_memory.kernels import search_cpu

    monkeypatch.setattr(search_cpu, "_TOGETHER", 30)
    rng = np.random.default_rng(6)
    check(*(rng.standard_normal((n, 80)).astype(np.float32) for n in (95, 1100)), None, 7, "ip", "cpu")
    assert looked_at == [1100] * 4


@pytest.mark.parametrize("threads", [1, 2])
def test_results_do_not_depend_on_threads(threads, monkeypatch):
    from grilly_backend_cpu import jit_setup

    monkeypatch.setitem(jit_setup._state, "threads", threads)
    rng = np.random.default_rng(7)
    check(*(rng.standard_normal((n, 96)).astype(np.float32) for n in (100, 1300)), None, 10, "cosine", "cpu")
