"""``full iota cast bitcast strided_copy``."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from grilly_backend_cpu.fast.fill import fill, fits
from grilly_backend_cpu.kernels.support import ALL, COMPLEX, REALS
from grilly_backend_cpu.quiet import quiet_context

__all__ = ["register"]


class _Filling:
    """Kernels that write one value, with or without compiled code for large outputs."""

    def __init__(self, compiled: bool) -> None:
        self.compiled = compiled

    def fill(self, out: NDArray[Any], value: Any) -> None:
        """Write `value` everywhere."""
        if self.compiled and fits(out):
            fill(out, value)
        else:
            out[...] = value

    def full(self, stream: Any, outs: Any, ins: Any, attrs: dict[str, Any]) -> None:
        """Fill with one value."""
        self.fill(outs[0].array, attrs["value"])

    def strided_copy(self, stream: Any, outs: Any, ins: Any, attrs: dict[str, Any]) -> None:
        """Copy any layout to C order; one element repeated, as the gradient of a sum is, is filled in."""
        out, source = outs[0].array, ins[0].array
        if source.size > 1 and not any(source.strides):
            self.fill(out, source[(0,) * source.ndim])
        else:
            np.copyto(out, source)


def iota(stream: Any, outs: Any, ins: Any, attrs: dict[str, Any]) -> None:
    """Write ``start + step * i``; floats are computed in f64 and rounded once."""
    out = outs[0].array
    start, step = attrs["start"], attrs["step"]
    if out.dtype.kind in "iu":
        out[...] = np.arange(out.size, dtype=np.int64) * int(step) + int(start)
    else:
        out[...] = start + step * np.arange(out.size, dtype=np.float64)


def cast(stream: Any, outs: Any, ins: Any, attrs: dict[str, Any]) -> None:
    """Convert; a complex number to a real type keeps its real part, NaN to an integer is unspecified."""
    source, out = ins[0].array, outs[0].array
    if source.dtype.kind == "c" and out.dtype.kind not in "cb":
        source = source.real
    quiet_context().run(np.copyto, out, source, casting="unsafe")


def bitcast(stream: Any, outs: Any, ins: Any, attrs: dict[str, Any]) -> None:
    """Copy the bytes unchanged."""
    out, source = outs[0].array, ins[0].array
    flat = np.ascontiguousarray(source).reshape(-1).view(np.uint8)
    out.reshape(-1).view(np.uint8)[...] = flat


def register(kernels: Any, runtime: Any) -> None:
    """Declare the kernels of this module."""
    filling = _Filling(runtime.has_numba)
    kernels.add("full", filling.full, dtypes=ALL)
    kernels.add("iota", iota, dtypes=REALS | COMPLEX)
    kernels.add("cast", cast, dtypes=ALL)
    kernels.add("bitcast", bitcast, dtypes=ALL)
    kernels.add("strided_copy", filling.strided_copy, dtypes=ALL)
