"""Memory kept for reuse: nothing that somebody still sees is ever written over, and what is kept has a bound."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import textwrap
import threading
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import grilly_core as grilly
from grilly_backend_cpu import backend
from grilly_backend_cpu.blocks import LEAST, Blocks, _class_of, blocks

FLOAT = np.dtype(np.float32)
COUNT = LEAST // 4 + 256  # numbers of an array that is large enough to be kept


def python(code: str, **environment: str) -> str:
    """Run code in a new interpreter; returns what it prints."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        env={**os.environ, **environment}, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


#: What may still show an array after the array itself has gone.
VIEWS: dict[str, Any] = {
    "itself": lambda a: a,
    "slice": lambda a: a[5:-7],
    "reshaped": lambda a: a.reshape(2, -1)[1],
    "other type": lambda a: a.view(np.uint32)[::3],
    "view of a view": lambda a: a[1:][::2][3:].T,
    "base class": lambda a: np.asarray(a, copy=False).view(np.ndarray),
    "subclass": lambda a: a.view(np.matrix),
    "memoryview": lambda a: np.asarray(memoryview(a)[9:]),
    "dlpack": lambda a: np.from_dlpack(a),
    "frombuffer": lambda a: np.frombuffer(a, np.uint8)[17:],
    "strided": lambda a: np.lib.stride_tricks.as_strided(a, (4, 4), (8, 4)),
    "tensor": lambda a: grilly.asarray(a, copy=False).detach()[3:].numpy(),
}


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from(sorted(VIEWS)), st.integers(0, 7), st.booleans()), min_size=4, max_size=24
    )
)
def test_what_is_seen_is_never_given_out(steps: list[tuple[str, int, bool]]) -> None:
    """The oracle is a copy of each view, taken when it was made."""
    seen: list[tuple[Any, Any]] = []
    for number, (kind, place, drop) in enumerate(steps):
        array = blocks.empty((COUNT + COUNT % 2,), FLOAT)
        array[...] = number + 1  # would show in a view of the same memory
        view = VIEWS[kind](array)
        seen.append((view, np.array(view)))
        del array, view
        if drop:
            seen.pop(place % len(seen))
        for view, kept in seen:
            np.testing.assert_array_equal(view, kept)


def test_results_are_never_overwritten() -> None:
    """As above for tensors: values saved for backward, views, and arrays that `numpy` gave."""
    x = grilly.asarray(np.linspace(0, 1, COUNT, dtype=FLOAT)).requires_grad_()
    y = (x * 2).exp()
    shown = y.detach().numpy()[3:]
    expected = shown.copy()
    z = y.sum()
    del y
    for _ in range(4):
        junk = grilly.zeros(COUNT) - 1
        del junk
    z.backward()
    np.testing.assert_array_equal(shown, expected)
    np.testing.assert_allclose(x.grad.numpy()[3:], 2 * expected, rtol=1e-6)  # d exp(2x) = 2 exp(2x)


def test_a_block_comes_back_with_its_last_view() -> None:
    blocks.trim()
    a = blocks.empty((COUNT,), FLOAT)
    size, slice_ = _class_of(a.nbytes), a[7:]
    del a
    assert blocks.kept == 0
    del slice_
    assert blocks.kept == size
    assert blocks.empty((COUNT,), FLOAT).ctypes.data % 64 == 0
    assert blocks.trim() == size and blocks.kept == 0 and blocks.trim() == 0


def test_sizes_share_classes() -> None:
    for nbytes in (LEAST, LEAST + 1, 10**6, 2**20, 2**20 + 1, 123_456_789, 2**31 + 5):
        size = _class_of(nbytes)
        assert nbytes <= size <= max(nbytes * 1.125, nbytes + 4096)
        assert _class_of(size) == size


def test_the_least_recently_used_goes_first() -> None:
    own = Blocks(limit=3 * 2**20)
    one, two, three = (own._fresh(2**20) for _ in range(3))
    for memory in (one, two, three):
        own.take_back(memory)
    large = own._fresh(2 * 2**20)
    own.take_back(large)
    assert own.kept == 3 * 2**20
    assert own._taken(2**20) is three and own._taken(2**20) is None
    assert own._taken(2 * 2**20) is large and own.kept == 0
    own.take_back(own._fresh(4 * 2**20))  # above the limit by itself
    assert own.kept == 0
    assert own.statistics() == {"kept": 0, "kept_limit": 3 * 2**20, "reused": 2, "missed": 1}


def test_a_finalizer_in_the_middle_of_a_call_does_not_wait() -> None:
    own = Blocks(limit=2**30)
    memory = own._fresh(2**20)
    with own._busy:  # as if a collection ran while the table changed
        own.take_back(memory)
        assert own.trim() == 0
        assert own._taken(2**20) is None
    assert own.kept == 0


@pytest.mark.parametrize("text", ["-1", "1.5", "much"])
def test_a_wrong_limit(text: str) -> None:
    code = """
        try:
            import grilly_backend_cpu.blocks
        except ValueError as error:
            print(error)
    """
    assert repr(text) in python(code, GRILLY_CPU_CACHE_MB=text)


def test_nothing_is_kept_at_zero() -> None:
    code = """
        import numpy as np
        from grilly_backend_cpu.blocks import blocks
        for _ in range(3):
            blocks.empty((1 << 20,), np.dtype("f4"))
        print(blocks.statistics())
    """
    expected = "{'kept': 0, 'kept_limit': 0, 'reused': 0, 'missed': 3}"
    assert python(code, GRILLY_CPU_CACHE_MB="0") == expected


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc/self/status")
def test_memory_is_bounded_over_many_sizes() -> None:
    """60 sizes of 8 to 67 MiB, one after another, would be 2.2 GiB if each were kept."""
    code = """
        import numpy as np
        from grilly_backend_cpu.blocks import blocks
        def resident():
            lines = dict(line.split(":", 1) for line in open("/proc/self/status"))
            return int(lines["VmHWM"].split()[0]) >> 10
        before = resident()
        for i in range(60):
            blocks.empty(((8 + i) << 20,), np.dtype("u1")).fill(1)
        print(blocks.kept >> 20, resident() - before)
    """
    kept, grown = map(int, python(code, GRILLY_CPU_CACHE_MB="128").split())
    assert kept <= 128
    assert grown <= 128 + 2 * 68  # what is kept, the block in use, and the pages of one beside it


def test_memory_is_given_up_when_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    own, calls = Blocks(limit=2**30), []
    own.take_back(own._fresh(2**20))
    real = np.empty

    def once(*arguments: Any) -> Any:
        calls.append(arguments)
        if len(calls) == 1:
            raise MemoryError
        return real(*arguments)

    monkeypatch.setattr(np, "empty", once)
    assert own._fresh(2**21).nbytes == 2**21 and own.kept == 0
    monkeypatch.setattr(np, "empty", lambda *_: (_ for _ in ()).throw(MemoryError()))
    with pytest.raises(MemoryError):
        own._fresh(2**21)


def test_threads_never_share_a_block() -> None:
    wrong: list[int] = []

    def work(value: int) -> None:
        for _ in range(200):
            array = blocks.empty((COUNT,), FLOAT)
            array.fill(value)
            if array.min() != value or array.max() != value:
                wrong.append(value)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    gc.collect()
    assert not wrong and 0 <= blocks.kept <= blocks.limit


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
def test_a_child_has_its_own_blocks() -> None:
    """Forked while the table is in use, and with blocks kept."""
    code = """
        import os, sys
        import numpy as np
        from grilly_backend_cpu.blocks import blocks
        one = np.dtype("f4")
        blocks.empty((1 << 20,), one).fill(1)
        mine = blocks.empty((1 << 21,), one)
        mine.fill(2)
        with blocks._busy:
            child = os.fork()
        if child == 0:
            again = blocks.empty((1 << 20,), one)
            again.fill(3)
            mine.fill(4)
            sys.stdout.write(f"{blocks.reused} ")
            sys.stdout.flush()
            os._exit(0)
        os.waitpid(child, 0)
        print(blocks.reused, mine.max(), blocks.empty((1 << 20,), one)[0])
    """
    assert python(code) == "1 0 2.0 1.0"


def test_the_runtime_tells_and_gives_back() -> None:
    runtime = backend.open(0)
    runtime.trim()
    del (handle := [runtime.alloc(2**20)])[:]
    assert not handle and runtime.memory()["kept"] == 2**20
    assert runtime.describe()["kept for reuse"].startswith("1 of at most ")
    assert runtime.trim() == 2**20
