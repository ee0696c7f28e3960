"""Kernels of the CPU backend, run one by one without core: each with Numba and with NumPy alone."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from grilly_backend_cpu import backend, jit

CODES = {
    "bool": "b1", "uint8": "u8", "uint16": "u16", "uint32": "u32", "uint64": "u64", "int8": "i8", "int16": "i16",
    "int32": "i32", "int64": "i64", "float16": "f16", "bfloat16": "bf16", "float32": "f32", "float64": "f64",
    "complex64": "c64", "complex128": "c128",
}  # fmt: skip
NUMPY = {code: np.dtype(ml_dtypes.bfloat16 if name == "bfloat16" else name) for name, code in CODES.items()}


class Kernels:
    """A registry that picks as core does: the highest priority among the kernels whose dtypes and `when` hold."""

    def __init__(self, fast: bool) -> None:
        self.fast = fast
        self.declared: dict[str, list[SimpleNamespace]] = {}
        backend.open(0).register_kernels(self)  # type: ignore[arg-type]

    def add(self, name: str, fn: Any, *, dtypes: Any, layout: str = "strided", when: Any = None, priority: int = 0,
            compute: Any = None) -> None:  # fmt: skip
        kernel = SimpleNamespace(fn=fn, dtypes=set(dtypes), layout=layout, when=when, priority=priority)
        self.declared.setdefault(name, []).append(kernel)

    def __call__(self, name: str, ins: Any, outs: Any, **attrs: Any) -> Any:
        """Run an op on arrays; `outs` are (shape, dtype) pairs or arrays to write into. Returns the outputs."""
        arrays = [np.full(o[0], 99, o[1]) if isinstance(o, tuple) else o for o in outs]
        kernel = self.pick(name, ins, arrays, attrs)
        if kernel.layout == "contiguous":
            ins = [None if a is None else np.ascontiguousarray(a).reshape(a.shape) for a in ins]
        kernel.fn(None, [view(a) for a in arrays], [view(a) for a in ins], attrs)
        return arrays[0] if len(arrays) == 1 else arrays

    def pick(self, name: str, ins: Any, outs: Any, attrs: dict[str, Any]) -> SimpleNamespace:
        condition = SimpleNamespace(ins=[spec(a) for a in ins], outs=[spec(a) for a in outs], attrs=attrs)
        codes = {CODES[a.dtype.name] for a in (*ins, *outs) if a is not None}
        wanted = {c for c in codes if c[0] in "fc" or c == "bf16"} or codes
        fitting = [
            k
            for k in self.declared[name]
            if wanted <= k.dtypes and (self.fast or k.priority == 0) and (k.when is None or k.when(condition))
        ]
        assert fitting, f"{name} has no kernel for {wanted}"
        return max(fitting, key=lambda k: k.priority)


def view(array: Any) -> Any:
    return None if array is None else SimpleNamespace(array=array, shape=array.shape, dtype=array.dtype)


def spec(array: Any) -> Any:
    if array is None:
        return None
    return SimpleNamespace(
        shape=array.shape, dtype=array.dtype.name, size=array.size, contiguous=array.flags.c_contiguous
    )


_made: dict[bool, Kernels] = {}


@pytest.fixture(params=["numba", "numpy"])
def run(request: pytest.FixtureRequest) -> Kernels:
    """The kernels as a user gets them with Numba, and without."""
    fast = request.param == "numba"
    if fast and not jit.available():
        pytest.skip("Numba is not installed")
    if fast not in _made:
        _made[fast] = Kernels(fast)
    return _made[fast]


@pytest.fixture
def plain() -> Kernels:
    """The kernels for which it makes no difference."""
    return _made.setdefault(jit.available(), Kernels(jit.available()))


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(7)
