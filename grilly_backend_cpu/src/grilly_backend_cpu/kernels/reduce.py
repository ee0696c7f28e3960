"""``sum max argmax cumsum``.

NumPy adds pairwise only along the innermost axis of memory; along any other axis it keeps a running sum, which in
f32 stops growing at 2**24. So long sums are cut into blocks of `_BLOCK` whose sums are added in f64.
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from grilly_backend_cpu.fast import reduce as fast
from grilly_backend_cpu.kernels.support import (
    ALL,
    BOOL,
    COMPLEX,
    FAST,
    FLOATS,
    INTEGERS,
    REALS,
    WIDE,
    widened,
)
from grilly_backend_cpu.quiet import quiet_context, quietly

__all__ = ["accurate_sum", "register"]

_BLOCK: Final = 16
_SHORT: Final = 64  # so few additions lose nothing worth a second pass
_LARGE: Final = 1 << 16  # elements from which on compiled sums are faster
_WIDER: Final = {"f": np.float64, "c": np.complex128}


def sum_plain(stream: Any, outs: Any, ins: Any, attrs: dict[str, Any]) -> None:
    """Sum of integers, which wraps round like addition."""
    np.add.reduce(ins[0].array, attrs["axis"], None, outs[0].array, attrs["keepdims"])


def sum_floats(stream: Any, outs: Any, ins: Any, attrs: dict[str, Any]) -> None:
    """Sum of floating or complex numbers."""
    x, out, axes = ins[0].array, outs[0].array, attrs["axis"]
    if _is_pairwise(x, axes):
        quiet_context().run(np.add.reduce, x, axes, None, out, attrs["keepdims"])
    else:
        quiet_context().run(_sum_into, out, x, axes)


def _is_pairwise(x: NDArray[Any], axes: tuple[int, ...]) -> bool:
    """Whether NumPy's own reduction is accurate here: few terms, or all of them adjacent in memory."""
    if x.dtype.itemsize == 2:
        return False
    if x.dtype == np.float64 or math.prod([x.shape[a] for a in axes]) <= _SHORT:
        return True
    return x.flags.c_contiguous and axes == tuple(range(x.ndim - len(axes), x.ndim))


def _sum_into(out: NDArray[Any], x: NDArray[Any], axes: tuple[int, ...]) -> None:
    np.copyto(out, accurate_sum(x, axes).reshape(out.shape), casting="unsafe")


def accurate_sum(x: NDArray[Any], axes: tuple[int, ...]) -> NDArray[Any]:
    """Return the sum over `axes` (kept as axes of size 1) with the error of a few additions, in f64.

    Examples
    --------
    >>> import numpy as np
    >>> float(accurate_sum(np.ones((2**24 + 10, 1), "f4"), (0,))[0, 0])
    16777226.0
    """
    x = widened(x)
    wide = _WIDER[x.dtype.kind]
    # The axis with the smallest step first: it is the cheapest, and shrinks the rest.
    for axis in sorted(axes, key=lambda a: abs(x.strides[a])):
        n = x.shape[axis]
        if x.dtype == wide or n <= 1:
            x = np.add.reduce(x, axis, keepdims=True)
            continue
        whole = n // _BLOCK * _BLOCK
        head, tail = np.split(x, [whole], axis)
        blocks = head.reshape(*x.shape[:axis], whole // _BLOCK, _BLOCK, *x.shape[axis + 1 :])
        total = np.add.reduce(np.add.reduce(blocks, axis + 1).astype(wide), axis, keepdims=True)
        x = total + np.add.reduce(tail, axis, keepdims=True)
    return x


def sum_fast(stream: Any, outs: Any, ins: Any, attrs: dict[str, Any]) -> None:
    """Sum of a large contiguous array over adjacent axes, or over first and last ones (all but the channels)."""
    x, out = ins[0].array, outs[0].array
    first, kept, last = _split_axes(x.ndim, attrs["axis"])
    if kept:
        inner = fast.total(x.reshape(-1, math.prod(x.shape[kept:]), 1))
        total = np.add.reduce(inner.reshape(math.prod(x.shape[:first]), -1), 0)
    else:
        total = fast.total(x.reshape(math.prod(x.shape[:first]), -1, math.prod(x.shape[last:])))
    quiet_context().run(np.copyto, out, total.reshape(out.shape), casting="unsafe")


def _split_axes(ndim: int, axes: tuple[int, ...]) -> tuple[int, int, int]:
    """Return (a, 0, b) for the axes a to b - 1, (a, b, ndim) for those before a and from b on, else -1 first."""
    first, last = axes[0], axes[-1] + 1
    if axes == tuple(range(first, last)):
        return first, 0, last
    gap = [a for a in range(ndim) if a not in axes]
    if gap == list(range(gap[0], gap[-1] + 1)) and first == 0 and last == ndim:
        return gap[0], gap[-1] + 1, ndim
    return -1, 0, 0


def _large_and_regular(c: Any) -> bool:
    x, axes = c.ins[0], tuple(c.attrs["axis"])
    return x.size >= _LARGE and x.contiguous and len(axes) > 0 and _split_axes(len(x.shape), axes)[0] >= 0


def maximum_over(stream: Any, outs: Any, ins: Any, attrs: dict[str, Any]) -> None:
    """Largest element; NaN if there is one."""
    quiet_context().run(
        np.maximum.reduce, ins[0].array, attrs["axis"], None, outs[0].array, attrs["keepdims"]
    )


def argmax(stream: Any, outs: Any, ins: Any, attrs: dict[str, Any]) -> None:
    """Place of the first largest element; NaN counts as the largest."""
    x = widened(ins[0].array)
    outs[0].array[...] = np.argmax(x, axis=attrs["axis"], keepdims=attrs["keepdims"])


@quietly
def cumsum(stream: Any, outs: Any, ins: Any, attrs: dict[str, Any]) -> None:
    """Running sum; f32 and narrower are added in f64, so that long ones stay right."""
    x, out = widened(ins[0].array), outs[0].array
    wide = _WIDER.get(x.dtype.kind)
    if wide is None:
        np.add.accumulate(x, attrs["axis"], None, out)
    else:
        np.copyto(out, np.add.accumulate(x, attrs["axis"], wide), casting="unsafe")


def register(kernels: Any, runtime: Any) -> None:
    """Declare the kernels of this module."""
    kernels.add("sum", sum_plain, dtypes=INTEGERS | BOOL)
    kernels.add("sum", sum_floats, dtypes=FLOATS | COMPLEX)
    if runtime.has_numba:
        kernels.add("sum", sum_fast, dtypes=WIDE, priority=FAST, when=_large_and_regular)
    kernels.add("max", maximum_over, dtypes=REALS | BOOL)
    kernels.add("argmax", argmax, dtypes=REALS | BOOL)
    kernels.add("cumsum", cumsum, dtypes=ALL)
