"""Products, running reductions and binary search: ops whose bodies take log2 steps, in one pass of NumPy each."""

from __future__ import annotations

from typing import Any

import numpy as np

from grilly_backend_cpu.kernels.support import COMPLEX, FLOATS, INTEGERS, WIDE
from grilly_backend_cpu.quiet import quietly

__all__ = ["register"]


def _wide(out: Any) -> Any:
    """Type to multiply in: half and single precision in double."""
    return {"f": np.float64, "c": np.complex128, "V": np.float64}.get(out.dtype.kind, out.dtype)


@quietly
def prod(stream: Any, outs: Any, ins: Any, attrs: dict[str, Any]) -> None:
    """Product over axes."""
    x, out, axes = ins[0].array, outs[0].array, attrs["axis"]
    axes = tuple(range(x.ndim)) if axes is None else axes
    np.copyto(out, np.prod(x, axes, _wide(out), keepdims=attrs["keepdims"]), casting="unsafe")


@quietly
def cumprod(stream: Any, outs: Any, ins: Any, attrs: dict[str, Any]) -> None:
    """Running product."""
    out = outs[0].array
    np.copyto(out, np.cumprod(ins[0].array, attrs["axis"], _wide(out)), casting="unsafe")


@quietly
def cummax(stream: Any, outs: Any, ins: Any, attrs: dict[str, Any]) -> None:
    """Running maximum, and where it was last reached."""
    x, axis = ins[0].array, attrs["axis"]
    top = np.maximum.accumulate(x, axis)
    reached = (x == top) | (x != x)
    place = np.arange(x.shape[axis], dtype=np.int32).reshape([-1 if i == axis else 1 for i in range(x.ndim)])
    outs[0].array[...] = top
    np.maximum.accumulate(np.where(reached, place, np.int32(-1)), axis, out=outs[1].array)


@quietly
def logcumsumexp(stream: Any, outs: Any, ins: Any, attrs: dict[str, Any]) -> None:
    """Logarithm of the running sum of exponentials."""
    np.logaddexp.accumulate(ins[0].array, attrs["axis"], out=outs[0].array)


@quietly
def searchsorted(stream: Any, outs: Any, ins: Any, attrs: dict[str, Any]) -> None:
    """Places in one sorted row, or in a row for each row of values."""
    rows, values, out = ins[0].array, ins[1].array, outs[0].array
    if rows.ndim == 1:
        out[...] = np.searchsorted(rows, values, attrs["side"])
        return
    for at in np.ndindex(rows.shape[:-1]):
        out[at] = np.searchsorted(rows[at], values[at], attrs["side"])


def register(kernels: Any, runtime: Any) -> None:
    """Declare the kernels of this module."""
    kernels.add("prod", prod, dtypes=INTEGERS | FLOATS | COMPLEX)
    kernels.add("cumprod", cumprod, dtypes=INTEGERS | FLOATS | COMPLEX)
    kernels.add("cummax", cummax, dtypes=INTEGERS | WIDE)
    kernels.add("logcumsumexp", logcumsumexp, dtypes=WIDE)
    kernels.add("searchsorted", searchsorted, dtypes=INTEGERS | WIDE)
