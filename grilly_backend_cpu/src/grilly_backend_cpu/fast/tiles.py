"""Small matrix products inside a compiled kernel: ``c += a @ b`` for rows of 32 or 64 columns in float32.

BLAS shares each product among its threads, which pays for large ones only; many small ones are faster one a thread,
and stay in the nearest caches with what is done to them before and after. Sixteen factors are held in registers for a
line of `b` and `c`: 70 to 94 GFLOP/s a core for 64 columns and 52 to 64 for 32, where large products of BLAS have 195
and the same small ones 115. The width must be known when compiled, else LLVM cannot tell that rows do not overlap.
"""

from __future__ import annotations

from typing import Any, Final

from grilly_backend_cpu.jit import Jit

__all__ = ["LINE", "WIDTHS", "multiply_add", "width_for"]

LINE: Final = 64
WIDTHS: Final = (32, LINE)
_columns: Any = None  # replaced by the width


def _multiply_add(a: Any, b: Any, c: Any) -> None:
    rows = a.shape[0]
    whole = rows // 4 * 4
    for m in range(0, whole, 4):
        out = c[m : m + 4].reshape(-1)
        r0, r1, r2, r3 = a[m], a[m + 1], a[m + 2], a[m + 3]
        for e in range(0, a.shape[1], 4):
            line = b[e : e + 4].reshape(-1)
            a00, a01, a02, a03 = r0[e], r0[e + 1], r0[e + 2], r0[e + 3]
            a10, a11, a12, a13 = r1[e], r1[e + 1], r1[e + 2], r1[e + 3]
            a20, a21, a22, a23 = r2[e], r2[e + 1], r2[e + 2], r2[e + 3]
            a30, a31, a32, a33 = r3[e], r3[e + 1], r3[e + 2], r3[e + 3]
            for j in range(_columns):
                b0, b1, b2, b3 = line[j], line[j + _columns], line[j + 2 * _columns], line[j + 3 * _columns]
                t0, t1, t2, t3 = out[j], out[j + _columns], out[j + 2 * _columns], out[j + 3 * _columns]
                out[j] = t0 + a00 * b0 + a01 * b1 + a02 * b2 + a03 * b3
                out[j + _columns] = t1 + a10 * b0 + a11 * b1 + a12 * b2 + a13 * b3
                out[j + 2 * _columns] = t2 + a20 * b0 + a21 * b1 + a22 * b2 + a23 * b3
                out[j + 3 * _columns] = t3 + a30 * b0 + a31 * b1 + a32 * b2 + a33 * b3
    for m in range(whole, rows):
        out, row = c[m], a[m]
        for e in range(0, a.shape[1], 4):
            line = b[e : e + 4].reshape(-1)
            f0, f1, f2, f3 = row[e], row[e + 1], row[e + 2], row[e + 3]
            for j in range(_columns):
                b0, b1, b2, b3 = line[j], line[j + _columns], line[j + 2 * _columns], line[j + 3 * _columns]
                out[j] = out[j] + f0 * b0 + f1 * b1 + f2 * b2 + f3 * b3


def _of_width(width: int) -> Jit:
    made = Jit(_multiply_add, {"fastmath": {"contract"}}, f"multiply_add[{width}]")
    made.replaced["_columns"] = width
    return made


#: By width: ``c[m, width] += a[m, k] @ b[k, width]``; k must be a multiple of four, `b` and `c` contiguous.
multiply_add: Final = {width: _of_width(width) for width in WIDTHS}


def width_for(columns: int) -> int:
    """Return the width of the panels that hold `columns` columns best."""
    return WIDTHS[0] if columns <= WIDTHS[0] else LINE
