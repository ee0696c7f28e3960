"""Search by kernels: NumPy's float64 sums in the order of columns, and a stable sort, are the oracle, bit for bit."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.device.test_conformance import no_vulkan

import grilly_core as grilly
from grilly_ext_memory.ops.distances import METRICS, distances, search
from grilly_ext_memory.ops.selection import best, topk

needs_vulkan = pytest.mark.skipif(bool(no_vulkan()), reason="needs a Vulkan device")
DEVICES = ["cpu"] if no_vulkan() else ["cpu", "vulkan:0"]
MAX = float(np.finfo(np.float32).max)


#: Widths for which `far_more` makes little work look like much; plans of one shape are made once.
BOUNDED = frozenset({5, 7, 8, 20, 37, 68, 25})


@pytest.fixture(autouse=True)
def _no_fallback(far_more):
    with grilly.fallback("error"):
        yield


@pytest.fixture(scope="module")
def far_more():
    """Rows of the widths `BOUNDED` are searched by bounds, as many rows are."""
    from grilly_ext_memory.kernels import search_vulkan

    whole = search_vulkan.exact_suits
    search_vulkan.exact_suits = lambda count, there, width, k, few: (
        whole(count, there, width, k, few) if width not in BOUNDED or there < 128 else False
    )
    yield
    search_vulkan.exact_suits = whole


def there(*arrays, device="vulkan:0"):
    return [None if x is None else grilly.asarray(x, device=device) for x in arrays]


def mask_shape(device, masks, queries, rows):
    """Return the shape of a mask for all queries or for each, which the CPU's kernels leave to the op's body."""
    return (queries, rows) if masks == 2 and device != "cpu" else (rows,)


def exact(queries, rows, metric):
    """Return scores: sums in float64, term by term in order, rounded to float32."""
    q, x = queries.astype(np.float64)[:, None], rows.astype(np.float64)[None]

    def total(terms):
        return np.cumsum(terms, axis=-1)[..., -1]

    if metric == "ip":
        return total(q * x).astype(np.float32)
    if metric == "l1":
        return total(np.abs(q - x)).astype(np.float32)
    if metric == "cosine":
        lengths = total(q * q), total(x * x)
        a, b = (np.sqrt(np.where(n == 0, 1, n)) for n in lengths)
        products = total(q * x)
        score = np.maximum(1 - products / a / b, 0)
        nothing = ((lengths[0] == 0) | (lengths[1] == 0)) & ~np.isnan(products)
        return np.where(nothing, 1.0, score).astype(np.float32)
    squares = total((q - x) ** 2)
    return (np.sqrt(squares) if metric == "l2" else squares).astype(np.float32)


def check(queries, rows, mask, k, metric, device):
    values, positions = search(*there(queries, rows, mask, device=device), k=k, metric=metric)
    with np.errstate(over="ignore", invalid="ignore"):
        want, places = best(exact(queries, rows, metric), mask, k, METRICS[metric])
    np.testing.assert_array_equal(positions.numpy(), places)
    np.testing.assert_array_equal(values.numpy(), want)


KINDS = [
    "normal",
    "tied",
    "far",
    "spiked",
    "sparse",
    "huge",
    "large",
    "small",
    "minute",
    "tiny",
    "uneven",
    "mixed",
    "multiples",
]


def drawn(rng, kind, shape):
    """Return numbers of a kind; `spiked` rows have one number that is much larger than the others."""
    x = rng.standard_normal(shape)
    if kind == "tied":
        x = np.round(x)
    elif kind == "far":
        x += 1000
    elif kind == "spiked":
        x[:, 0] += 300 * rng.standard_normal(len(x))
    elif kind == "sparse":
        x *= rng.random(shape) < 0.05
    elif kind in ("huge", "large", "small", "minute", "tiny"):
        x *= {"huge": 1e20, "large": 1e15, "small": 1e-15, "minute": 1e-20, "tiny": 1e-36}[kind]
    elif kind == "mixed":
        x *= 10.0 ** rng.uniform(-6, 6, shape)
    elif kind == "multiples":
        x = x[:1] * (1 + 1e-7 * rng.standard_normal((shape[0], 1)))
    elif kind == "uneven":
        x *= 10.0 ** rng.integers(-20, 15, (len(x), 1))
    return x.astype(np.float32)


@settings(max_examples=80, deadline=None)
@given(
    device=st.sampled_from(DEVICES),
    queries=st.sampled_from([1, 3, 9, 17, 40]),
    rows=st.sampled_from([1, 127, 128, 129, 700, 2100]),
    width=st.sampled_from([1, 3, 4, 16, 33, 64]),
    bounds=st.booleans(),
    k=st.sampled_from([1, 2, 10, 60, 140]),
    metric=st.sampled_from(list(METRICS)),
    masks=st.sampled_from([0, 1, 2]),
    kind=st.sampled_from(KINDS),
    seed=st.integers(0, 1 << 30),
)
def test_search_is_the_definition(device, queries, rows, width, bounds, k, metric, masks, kind, seed):
    width += 4 * bounds  # little work is scored exactly; these widths take the way of much work
    rng = np.random.default_rng(seed)
    q, x = (drawn(rng, kind, (n, width)) for n in (queries, rows))
    mask = None if masks == 0 else rng.random(mask_shape(device, masks, queries, rows)) < 0.6
    check(q, x, mask, k, metric, device)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("shift", [0, 30])
def test_results_do_not_depend_on_the_number_of_queries(device, metric, shift):
    rng = np.random.default_rng(1)
    q, x = (shift + rng.standard_normal((n, 25)).astype(np.float32) for n in (64, 3000))
    together = [t.numpy() for t in search(*there(q, x, device=device), k=20, metric=metric)]
    for i in (0, 17, 63):
        alone = [t.numpy() for t in search(*there(q[i : i + 1], x, device=device), k=20, metric=metric)]
        assert np.array_equal(alone[0][0], together[0][i]) and np.array_equal(alone[1][0], together[1][i])


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize(("queries", "width"), [(20, 3), (3, 5), (30, 5)])
def test_rows_that_are_equal_come_by_position(device, metric, queries, width):
    """More rows of one score than any list of candidates holds: what bounds say cannot decide."""
    x = np.tile(np.arange(1, width + 1, dtype=np.float32), (2000, 1))
    x[1500:] = 0
    q = np.random.default_rng(2).standard_normal((queries, width)).astype(np.float32)
    check(q, x, None, 12, metric, device)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("times", [1, 64])
def test_large_coordinates_do_not_cancel(device, times):
    q = np.array([[4000005, 2000003, 3000002]], np.float32)
    x = np.tile(q, (200, 1))
    x[7] += np.array([-600, 700, 150], np.float32)
    x[9] += np.array([-4, 6, 1], np.float32)
    x[10:] += np.array([5000, 0, 0], np.float32)
    mask = np.ones(200, bool)
    mask[:7] = mask[8] = False
    values, positions = search(
        *there(np.tile(q, (times, 1)), x, mask, device=device), k=2, metric="sqeuclidean"
    )
    assert (positions.numpy() == [9, 7]).all() and (values.numpy() == [53, 872500]).all()


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("queries", [2, 20])
def test_nan_is_never_near_and_infinity_may_be(device, metric, queries):
    rng = np.random.default_rng(3)
    q, x = (
        rng.standard_normal((queries, 5)).astype(np.float32),
        rng.standard_normal((300, 5)).astype(np.float32),
    )
    x[::3, 2], x[1, 0], q[1, 4] = np.nan, np.inf, np.nan
    values, positions = (t.numpy() for t in search(*there(q, x, device=device), k=250, metric=metric))
    assert (positions[1] == -1).all() and (values[1] == (-MAX if metric == "ip" else MAX)).all()
    found = positions[0][positions[0] >= 0]
    assert not np.isnan(x[found]).any() and not np.isnan(values).any()
    assert len(found) == (199 if metric == "cosine" else 200)  # the cosine of infinity is NaN


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("queries", [2, 20])
def test_numbers_that_float32_has_few_bits_for(device, metric, queries):
    rng = np.random.default_rng(8)
    q, x = (rng.standard_normal((n, 37)) for n in (queries, 400))
    check((q * 1e-44).astype(np.float32), (x * 1e15).astype(np.float32), None, 3, metric, device)


@needs_vulkan
def test_more_results_than_shared_memory_holds():
    rng = np.random.default_rng(4)
    q, x = rng.standard_normal((3, 4)).astype(np.float32), rng.standard_normal((1500, 4)).astype(np.float32)
    _, positions = search(*there(q, x), k=1400, metric="sqeuclidean")
    assert np.array_equal(positions.numpy(), best(exact(q, x, "sqeuclidean"), None, 1400, False)[1])


@needs_vulkan
@pytest.mark.parametrize("metric", METRICS)
def test_distances_are_float64_sums_rounded_once(metric):
    rng = np.random.default_rng(5)
    q, x = ((100 + rng.standard_normal((n, 61))).astype(np.float32) for n in (11, 300))
    np.testing.assert_array_equal(distances(*there(q, x), metric=metric).numpy(), exact(q, x, metric))


@settings(max_examples=50, deadline=None)
@given(
    device=st.sampled_from(DEVICES),
    queries=st.sampled_from([1, 3, 50]),
    rows=st.sampled_from([1, 255, 2048, 2049, 9000]),
    k=st.sampled_from([1, 5, 64, 300, 1024, 1100]),
    largest=st.booleans(),
    masks=st.sampled_from([0, 1, 2]),
    order=st.sampled_from(["any", "rising", "falling", "tied"]),
    seed=st.integers(0, 1 << 30),
)
def test_topk_is_a_stable_sort(device, queries, rows, k, largest, masks, order, seed):
    rng = np.random.default_rng(seed)
    scores = rng.standard_normal((queries, rows)).astype(np.float32)
    if order == "tied":
        scores = np.round(scores)
    elif order != "any":
        scores = np.sort(scores, axis=1)[:, :: 1 if order == "rising" else -1].copy()
    scores[rng.random((queries, rows)) < 0.02] = np.nan
    mask = None if masks == 0 else rng.random(mask_shape(device, masks, queries, rows)) < 0.6
    values, positions = topk(*there(scores, mask, device=device), k=k, largest=largest)
    want, places = best(scores, mask, k, largest)
    np.testing.assert_array_equal(positions.numpy(), places)
    np.testing.assert_array_equal(values.numpy(), want)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("queries", [2, 30])
def test_rows_in_half_precision_are_those_numbers_in_float32(device, queries):
    rng = np.random.default_rng(6)
    q, x = (rng.standard_normal((n, 20)).astype(np.float16) for n in (queries, 400))
    halves = (grilly.asarray(z, device=device, dtype=grilly.float16) for z in (q, x))
    values, positions = search(*halves, k=9, metric="sqeuclidean")
    want, places = best(exact(q.astype(np.float32), x.astype(np.float32), "sqeuclidean"), None, 9, False)
    np.testing.assert_array_equal(positions.numpy(), places)
    np.testing.assert_array_equal(values.numpy(), want)


@needs_vulkan
@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize(("queries", "width"), [(5, 9), (18, 37), (70, 6)])
def test_work_is_cut_into_blocks(monkeypatch, metric, queries, width):
    """Blocks of queries and of rows, as of a million rows; widths occur here alone, for plans of a shape stay."""
    from grilly_ext_memory.kernels import bounds_vulkan, search_vulkan

    monkeypatch.setattr(bounds_vulkan, "_BLOCK", 1 << 14)
    monkeypatch.setattr(bounds_vulkan, "_QUERIES", 32)
    monkeypatch.setattr(bounds_vulkan, "_TABLE", 3000)
    monkeypatch.setattr(search_vulkan, "_TABLE", 3000)
    rng = np.random.default_rng(7)
    q, x = (rng.standard_normal((n, width)).astype(np.float32) for n in (queries, 1490))
    check(q, x, rng.random((queries, 1490)) < 0.9, 13, metric, "vulkan:0")
