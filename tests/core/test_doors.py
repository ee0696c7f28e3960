"""Compute, the profiler, threads and forks."""

from __future__ import annotations

import json
import multiprocessing
import os
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import grilly_core as grilly


class TestCompute:
    def test_arrays_in_and_out(self):
        with grilly.Compute("cpu") as compute:
            x = np.random.default_rng(0).standard_normal((3, 4))
            out = compute.fnn.activation_softmax(x)
            assert out.dtype == np.float32
            assert np.allclose(out, np.exp(x) / np.exp(x).sum(-1, keepdims=True), atol=1e-6)
            values, indices = compute.tensor_ops.topk(np.array([1.0, 3.0, 2.0], np.float32), k=2)
            assert values.tolist() == [3, 2]
            assert indices.tolist() == [1, 2]
            out[0] = 0

    def test_cleanup_twice_and_use_after(self):
        """Scenario A1."""
        compute = grilly.Compute("cpu")
        compute.cleanup()
        compute.cleanup()
        with pytest.raises(grilly.DeviceError, match="Compute"):
            compute.fnn.activation_relu(np.ones(2))

    def test_every_name_in_the_table_is_an_op(self):
        from grilly_core import compute, registry

        for table in compute._TABLE.values():
            for name in table.values():
                registry.get(name)

    def test_typos_are_suggested(self):
        with pytest.raises(AttributeError, match="activation_relu"):
            getattr(grilly.Compute("cpu").fnn, "activation_rellu")  # noqa: B009


class TestProfile:
    def test_table_and_trace(self, tmp_path):
        x = grilly.ones(300, 300)
        with grilly.profile() as p:
            (x @ x).sum()
        rows = {r.op: r for r in p.rows()}
        assert rows["matmul"].calls == 1
        assert rows["matmul"].nbytes == 3 * 300 * 300 * 4
        assert sum(r.seconds for r in p.rows()) == pytest.approx(p.wall, rel=0.01)
        assert "matmul" in str(p)
        trace = json.loads(p.save_trace(tmp_path / "trace.json").read_text())
        spans = [e for e in trace["traceEvents"] if e["ph"] == "X"]
        assert {e["name"] for e in spans} == {"matmul", "sum"}
        assert all(e["dur"] >= 0 for e in spans)

    def test_a_captured_step(self):
        step = grilly.capture(lambda x: (x @ x).sum())
        x = grilly.ones(30, 30)
        for _ in range(4):
            step(x)
        with grilly.profile() as p:
            assert step(x).item() == 27000
        assert [s.op for s in p.spans] == ["matmul", "sum"]


def work(seed):
    rng = np.random.default_rng(seed)
    x = grilly.tensor(rng.standard_normal((600, 600)), requires_grad=True)
    y = grilly.functional.gelu(x @ x.T)
    y.mean().backward()
    return np.array(x.grad.numpy())


def test_several_threads():
    """THR-01: no abort, and the results of one thread."""
    alone = [work(s) for s in range(4)]
    with ThreadPoolExecutor(4) as pool:
        for _ in range(5):
            for a, b in zip(alone, pool.map(work, range(4)), strict=True):
                assert np.allclose(a, b, rtol=1e-4, atol=1e-6)


def child(queue):
    queue.put(float(work(1).sum()))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_child_computes():
    """THR-02: right in the child, no hang, the parent unaffected."""
    expected = float(work(1).sum())
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    process = context.Process(target=child, args=(queue,))
    process.start()
    assert queue.get(timeout=60) == pytest.approx(expected, rel=1e-4)
    process.join(30)
    assert process.exitcode == 0
    assert float(work(1).sum()) == pytest.approx(expected, rel=1e-4)


def test_policies_do_not_leak_between_threads():
    with grilly.no_grad(), ThreadPoolExecutor(1) as pool:
        assert pool.submit(grilly.is_grad_enabled).result()
