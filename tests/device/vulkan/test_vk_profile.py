"""The profiler's device clock."""

from __future__ import annotations

import json
from itertools import pairwise

import numpy as np
import pytest

import grilly


@pytest.fixture
def x(backend):
    return grilly.asarray(
        np.random.default_rng(0).standard_normal((512, 512)).astype(np.float32), device="vulkan:0"
    )


def _sums_agree(p):
    rows = p.rows()
    assert sum(r.seconds for r in rows) == pytest.approx(p.wall, rel=0.1)
    assert sum(r.device_seconds for r in rows) == pytest.approx(p.wall, rel=0.1)


def test_device_time_per_op(x, tmp_path):
    (x @ x).sum().item()
    with grilly.profile() as p:
        y = x @ x
        for _ in range(3):
            y = y + 1.0
        y.sum()
    rows = {r.op: r for r in p.rows()}
    assert (rows["matmul"].calls, rows["add"].calls, rows["sum"].calls) == (1, 3, 1)
    assert all(r.device_seconds > 0 for r in p.rows() if r.calls)
    assert rows["matmul"].device_seconds > rows["add"].device_seconds / 3  # 512 products for each element
    _sums_agree(p)
    spans = sorted(p.spans, key=lambda s: s.device_start)
    assert [s.op for s in spans] == ["matmul", "add", "add", "add", "sum"]
    assert all(a.device_end <= b.device_start + 1e-9 for a, b in pairwise(spans))
    assert p.started <= spans[0].device_start and spans[-1].device_end <= p.started + p.wall + 1e-3
    events = json.loads(p.save_trace(tmp_path / "trace.json").read_text())["traceEvents"]
    assert sum(e["ph"] == "X" and e["pid"] == 1 for e in events) == 5
    assert any(e["ph"] == "M" and e["args"]["name"] == "vulkan:0" for e in events)


def test_a_captured_step_shows_its_launches(x):
    weight = grilly.asarray(np.eye(512, dtype=np.float32), device="vulkan:0")

    def step(x):
        weight.mul_(1.0)
        return (x @ weight).sum()

    captured = grilly.capture(step, state=weight)
    for _ in range(4):
        expected = captured(x).item()
    with grilly.profile() as p:
        for _ in range(3):
            result = captured(x)
    assert result.item() == expected
    assert [s.op for s in p.spans] == [
        "mul",
        "matmul",
        "sum",
        "strided_copy",
    ] * 3  # the copy: a state ends in its own memory
    assert all(s.device_end > s.device_start for s in p.spans)
    _sums_agree(p)
    assert captured(x).item() == expected


def test_many_marks(x):
    small = x[:4, :4].clone()
    with grilly.profile() as p:
        for _ in range(1500):
            small = small + 1.0
    assert len(p.spans) == 1500 and all(s.device_end >= s.device_start for s in p.spans)
