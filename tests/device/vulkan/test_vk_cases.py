"""The cases of the Vulkan runtime, through tensors (VUL-01, -02, -11, -15, -17, -18, -21, THR-05)."""

from __future__ import annotations

import gc
import threading

import numpy as np
import pytest

import grilly_core as grilly
from grilly_core import device as devices
from grilly_core.errors import OutOfMemoryError

NAME = "vulkan:0"
GROUPS = 65535


@pytest.fixture(autouse=True)
def facts(backend):
    return backend.open(0).facts


@pytest.mark.parametrize("n", [GROUPS * 64 + 1, GROUPS * 128 + 1, GROUPS * 256 + 1, GROUPS * 1024 + 1])
def test_vul_01_more_elements_than_one_axis_of_groups(n, facts):
    if facts.software and n > GROUPS * 256 + 1:
        pytest.skip("too long for a software device")
    y = grilly.zeros(n, device=NAME) + 1
    assert y[-1].item() == 1 and y[GROUPS * (n // GROUPS) - 1].item() == 1
    assert y.numpy().sum(dtype=np.float64) == n


@pytest.mark.parametrize("n", [2**25, 2**25 + 1, 2**26 + 3])
def test_vul_02_more_than_128_mib(n, facts):
    if facts.software and n > 2**25 + 1:
        pytest.skip("too long for a software device")
    x = grilly.full((n,), 0.5, device=NAME)
    assert (x * 2).sum().item() == np.float32(n)
    one = np.zeros(n, np.float32)
    one[-1] = 1
    assert grilly.asarray(one, device=NAME).argmax().item() == n - 1


@pytest.mark.parametrize("shape", [2**40, (2**20, 2**20, 2**20)])
def test_vul_11_too_much_memory_is_an_error_with_numbers(shape):
    with pytest.raises((OutOfMemoryError, MemoryError), match=r"[KMGTPE]i?B"):
        grilly.zeros(shape, device=NAME)
    assert (grilly.ones(3, device=NAME) + 1).tolist() == [2.0, 2.0, 2.0]


def test_vul_15_a_chain_with_reductions_is_ordered():
    sums = []
    for _ in range(3):
        x = grilly.zeros(10003, device=NAME)
        for i in range(200):
            x = x + 1
            if i % 2:
                x = x + x.max() * 0
        sums.append(x.sum().item())
        assert (x.numpy() == 200).all()
    assert sums == [200.0 * 10003] * 3


def test_vul_15_a_chain_in_place_is_ordered():
    x = grilly.zeros(10003, device=NAME)
    for _ in range(200):
        x += 1
    assert (x.numpy() == 200).all()


def test_vul_17_types_are_exact(facts):
    if facts.f64:
        x = grilly.asarray([1.0], dtype=grilly.float64, device=NAME) + grilly.asarray(
            [1e-12], dtype=grilly.float64, device=NAME
        )
        assert x.item() == 1 + 1e-12
    u8 = grilly.asarray(np.array([250], np.uint8), device=NAME)
    assert (u8 + grilly.asarray(np.array([10], np.uint8), device=NAME)).item() == 4
    i64 = grilly.asarray(np.array([2**40], np.int64), device=NAME)
    assert (i64 + grilly.asarray(np.array([1], np.int64), device=NAME)).item() == 2**40 + 1
    flag = grilly.asarray(np.array([True, False]), device=NAME)
    assert flag.dtype == grilly.bool and flag.tolist() == [True, False]


def test_vul_18_strides_of_many_axes():
    a = grilly.arange(64.0, device=NAME).reshape(2, 2, 2, 2, 2, 2)
    y = (a + a.permute(5, 4, 3, 2, 1, 0)).numpy()
    assert y.sum() == 4032 and y[0, 0, 0, 0, 0, 1] == 33 and y[1, 0, 0, 0, 0, 0] == 33
    rng = np.random.default_rng(0)
    x, y8, c = (
        rng.standard_normal(s).astype(np.float32)
        for s in [(2, 1, 3, 1, 2, 1, 2, 3), (1, 2, 1, 2, 2, 3, 1, 1), (2, 2, 1, 1, 1, 3, 2, 1)]
    )
    on = [grilly.asarray(v, device=NAME) for v in (x, y8)]
    np.testing.assert_array_equal((on[0] * on[1]).numpy(), x * y8)
    picked = grilly.where(grilly.asarray(c > 0, device=NAME), *on).numpy()
    np.testing.assert_array_equal(picked, np.where(c > 0, x, y8))


def test_vul_21_a_second_process_finds_the_cache(python, tmp_path):
    code = """
import grilly_core as g, numpy as np
from grilly_core import device
x = g.asarray(np.eye(8, dtype=np.float32), device="vulkan:0")
assert ((x @ x).numpy() == np.eye(8)).all()
"""
    python(code, GRILLY_CACHE_DIR=str(tmp_path))
    (path,) = tmp_path.glob("vulkan/*.pipelines")
    before = path.stat().st_size
    python(code, GRILLY_CACHE_DIR=str(tmp_path))
    assert path.stat().st_size >= before
    for damage in (b"", path.read_bytes()[:-7]):
        path.write_bytes(damage)
        python(code, GRILLY_CACHE_DIR=str(tmp_path))


@pytest.mark.parametrize("workers", [2, 8])
def test_thr_05_threads_share_a_device(workers):
    """Each thread makes, multiplies, reads, and drops tensors that another one made."""
    wrong, handed = [], []

    def work(seed):
        rng = np.random.default_rng(seed)
        try:
            for i in range(25):
                a = rng.standard_normal((64, 64)).astype(np.float32)
                x = grilly.asarray(a, device=NAME)
                handed.append(x @ x)
                if not np.allclose((x @ x).numpy(), a @ a, atol=1e-3):
                    wrong.append((seed, i))
                if i % 5 == 0:
                    handed.pop(0)
                    gc.collect()
        except Exception as error:
            wrong.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert wrong == [] and not any(t.is_alive() for t in threads)


def _train(steps, model, optimizer, x, y):
    for _ in range(steps):
        optimizer.zero_grad()
        loss = grilly.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
    return loss.item()


def test_memory_stays_flat_over_500_steps():
    from grilly_core import nn, optim

    with devices.Device(NAME), grilly.fallback("allow"):
        model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1))
        optimizer = optim.SGD(model.parameters(), lr=0.05)
        x, y = grilly.ones((4, 8)), grilly.zeros((4, 1))
        _train(20, model, optimizer, x, y)
        gc.collect()
        memory = devices.open_context(NAME).runtime.memory
        devices.open_context(NAME).collect()
        live, count, reserved = memory.live, memory.count, memory.reserved
        _train(500, model, optimizer, x, y)
        gc.collect()
        devices.open_context(NAME).collect()
    assert (memory.live, memory.count, memory.reserved) == (live, count, reserved)
