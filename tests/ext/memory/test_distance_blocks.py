"""Distances in blocks of rows are those of all rows at once; the oracle is float64 NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import grilly_core as grilly
from grilly_ext_memory.ops import distances, metrics


@pytest.mark.parametrize("metric", metrics.METRICS)
@pytest.mark.parametrize("block", [1, 40, 1 << 24])
def test_blocks_change_nothing(metric, block, monkeypatch):
    monkeypatch.setattr(metrics, "BLOCK", block)
    rng = np.random.default_rng(0)
    q, x = rng.normal(size=(3, 5)), rng.normal(size=(17, 5))
    placed = (grilly.asarray(t, dtype="float64", device="cpu") for t in (q, x))
    found = distances.distances(*placed, metric=metric).numpy()
    np.testing.assert_allclose(found, distances.reference(q, x, metric), rtol=1e-12, atol=1e-12)
