"""The runtime, Numba's set-up, and what happens under threads, forks and a home that cannot be written."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from grilly_backend_cpu import backend, jit, jit_setup
from grilly_backend_cpu.jit import prange

needs_numba = pytest.mark.skipif(not jit.available(), reason="Numba is not installed")


def python(code: str, **environment: str) -> str:
    """Run code in a new interpreter with warnings as errors; returns what it prints."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", textwrap.dedent(code)],
        env={**os.environ, **environment}, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_the_device() -> None:
    (device,) = backend.devices()
    assert device.kind == "cpu" and device.name and device.memory > 0
    assert (backend.name, backend.grilly_abi) == ("cpu", 1)
    assert backend.open(0) is backend.open(0)
    with pytest.raises(IndexError, match="cpu:1"):
        backend.open(1)


def test_importing_the_backend_is_light() -> None:
    code = "import grilly_backend_cpu, sys; print({'numpy', 'numba'} & set(sys.modules))"
    assert python(code) == "set()"


def test_registering_kernels_does_not_import_numba() -> None:
    code = """
        import sys
        from grilly_backend_cpu import backend
        class Kernels:
            def add(self, *args, **how): pass
        backend.open(0).register_kernels(Kernels())
        print("numba" in sys.modules)
    """
    assert python(code) == "False"


def test_memory_methods() -> None:
    runtime = backend.open(0)
    a, b = runtime.alloc(16), runtime.alloc(8)
    runtime.copy_in(a, 4, memoryview(np.arange(3, dtype="i4")).cast("B"))
    runtime.copy(b, 0, a, 4, 8)
    out = np.zeros(2, "i4")
    runtime.copy_out(b, 0, memoryview(out))
    np.testing.assert_array_equal(out, [0, 1])
    runtime.copy(a, 8, a, 4, 8)  # overlapping
    runtime.copy_out(a, 8, out)
    np.testing.assert_array_equal(out, [0, 1])
    for wrong in (lambda: runtime.copy_in(b, 4, b"12345"), lambda: runtime.copy(a, -1, b, 0, 1)):
        with pytest.raises(ValueError, match="outside a buffer"):
            wrong()
    runtime.free(a)
    runtime.synchronize()
    assert runtime.host_mapped and runtime.describe()["threads"] >= 1


@needs_numba
def test_the_threading_layer_is_safe() -> None:
    assert jit_setup.describe()["layer"] in ("tbb", "omp", "serial")
    code = "from grilly_backend_cpu import backend; print(backend.open(0).describe()['{}'])"
    assert python(code.format("layer"), NUMBA_THREADING_LAYER="workqueue") == "serial"
    assert python(code.format("threads"), OMP_NUM_THREADS="1") == "1"


SUM = """
    import numpy as np
    from grilly_backend_cpu import backend
    runtime = backend.open(0)
    @runtime.njit
    def body(start, stop, args):
        x, y = args
        for i in range(start, stop):
            y[i] = x[i] + 1
    run = runtime.split(body)
    def call():
        x, y = np.arange(100_000.0), np.empty(100_000)
        run(x.size, 1000, (x, y))
        return bool((y == x + 1).all())
"""


@needs_numba
def test_parallel_calls_from_several_threads() -> None:  # THR-01
    code = (
        SUM
        + """
    from concurrent.futures import ThreadPoolExecutor
    with ThreadPoolExecutor(4) as pool:
        print(all(pool.map(lambda _: all(call() for _ in range(20)), range(4))))
    """
    )
    assert python(code, OMP_NUM_THREADS="2") == "True"


@needs_numba
def test_fork_after_use() -> None:  # THR-02
    code = (
        SUM
        + """
    import multiprocessing as mp, os, warnings
    assert call()
    warnings.simplefilter("ignore", DeprecationWarning)  # of fork itself: the process has threads
    pid = os.fork()
    if pid == 0:
        a = np.ones((64, 64), "f4")
        os._exit(0 if call() and (a @ a)[0, 0] == 64 else 1)
    _, status = os.waitpid(pid, 0)
    print(status, call())
    """
    )
    assert python(code, OMP_NUM_THREADS="2") == "0 True"


@needs_numba
def test_results_do_not_depend_on_the_number_of_threads() -> None:
    code = """
        import hashlib, numpy as np
        from types import SimpleNamespace as V
        from grilly_backend_cpu.fast import norm, softmax
        x = np.random.default_rng(0).normal(size=(2000, 300)).astype("f4")
        out, stats = np.empty_like(x), np.empty((2, 2000), "f4")
        w = np.ones(300, "f4")
        norm.layer_norm(x, w, w, out, *stats, 1e-5)
        sums = norm.layer_norm_vjp(x, x, w, *stats, out)
        y = np.empty_like(x)
        softmax.KERNELS["softmax"][0](x, y)
        print(hashlib.sha256(b"".join(np.asarray(a).tobytes() for a in (out, *sums, y))).hexdigest())
    """
    assert python(code, OMP_NUM_THREADS="1") == python(code, OMP_NUM_THREADS="2")


@needs_numba
def test_the_cache_is_private(tmp_path: Path) -> None:
    python(SUM + "\n    print(call())", GRILLY_CACHE_DIR=str(tmp_path / "cache"))
    folder = tmp_path / "cache" / "numba"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


@needs_numba
def test_a_cache_that_cannot_be_written_is_done_without(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    code = SUM + "\n    print(call(), runtime.describe()['cache'])"
    assert python(code, GRILLY_CACHE_DIR=str(blocked)) == "True in memory only"


@needs_numba
def test_a_folder_that_others_may_write_is_refused(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("GRILLY_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(Path, "chmod", lambda self, mode: None)
    folder = jit_setup.cache_folder()
    assert folder is not None
    os.chmod(folder, 0o777)
    assert jit_setup.cache_folder() is None


@needs_numba
def test_globals_are_replaced_when_compiled() -> None:
    assert isinstance(helper, jit.Jit)
    assert summed(np.arange(5.0)) == 20.0
    assert list(prange(2)) == [0, 1]


@needs_numba
def test_names_of_an_outer_function_are_replaced_too() -> None:
    njit, parallel = jit.njit, prange

    @njit
    def square(x: float) -> float:
        return x * x

    @njit(parallel=True)
    def squares(x: Any) -> float:
        total = 0.0
        for i in parallel(x.size):
            total += square(x[i])
        return total

    assert squares(np.arange(4.0)) == 14.0


@jit.njit(cache=False)
def helper(x: float) -> float:
    """Double."""
    return 2 * x


@jit.njit(parallel=True, cache=False)
def summed(x: Any) -> float:
    """Add doubled elements in parallel."""
    total = 0.0
    for i in prange(x.size):
        total += helper(x[i])
    return total


@needs_numba
def test_the_first_run_of_a_kernel_gives_the_bits_of_later_ones(tmp_path: Path) -> None:
    """Compiled anew, read from the cache, on one thread or two: one result."""
    code = """
        import hashlib, numpy as np
        from grilly_backend_cpu.fast import norm
        x = np.random.default_rng(0).normal(size=(2000, 300)).astype("f4")
        out, stats, w = np.empty_like(x), np.empty((2, 2000), "f4"), np.ones(300, "f4")
        norm.layer_norm(x, w, w, out, *stats, 1e-5)
        sums = norm.layer_norm_vjp(x, x, w, *stats, out)
        print(hashlib.sha256(b"".join(np.asarray(a).tobytes() for a in (out, *sums))).hexdigest())
    """
    found = {
        python(code, OMP_NUM_THREADS=threads, GRILLY_CACHE_DIR=str(tmp_path / order))
        for order in ("12", "21")
        for threads in (*order, *order)
    }
    assert len(found) == 1
