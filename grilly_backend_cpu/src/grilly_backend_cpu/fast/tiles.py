"""Small matrix products inside a compiled kernel: ``c += a @ b`` for rows of 32 or 64 columns in float32.

BLAS shares each product among its threads, which pays for large ones only; many small ones are faster one a thread,
and stay in the nearest caches with what is done to them before and after. Sums stay in registers
(`grilly_backend_cpu.fast.microkernel`).
"""

from __future__ import annotations

from typing import Any, Final

from grilly_backend_cpu.fast.microkernel import tile_of, tile_shape
from grilly_backend_cpu.jit import Jit, Native

__all__ = ["LINE", "WIDTHS", "multiply_add", "width_for"]

LINE: Final = 64
WIDTHS: Final = (32, LINE)
_columns: Any = None  # replaced by the width, the rest by tiles of several rows and of one
_rows: Any = None
_wide: Any = None
_tile: Any = None
_line: Any = None


def _multiply_add(a: Any, b: Any, c: Any) -> None:
    down, along, count = a.strides[0] // 4, a.strides[1] // 4, a.shape[1]
    whole = a.shape[0] // _rows * _rows
    for j in range(0, _columns, _wide):
        for m in range(0, whole, _rows):
            _tile(a, m * down, down, along, b, j, _columns, c, m * _columns + j, _columns, count, False)
        for m in range(whole, a.shape[0]):
            _line(a, m * down, down, along, b, j, _columns, c, m * _columns + j, _columns, count, False)


def _shape() -> tuple[int, int]:
    """Return the tile of this machine, of no more than 8 rows as there are 64."""
    high, wide = tile_shape()
    return min(high, 8), wide


def _of_width(width: int) -> Jit:
    made = Jit(_multiply_add, {}, f"multiply_add[{width}]")
    made.replaced |= {
        "_columns": width,
        "_rows": Native(lambda numba: _shape()[0]),
        "_wide": Native(lambda numba: _shape()[1]),
        "_tile": Native(lambda numba: tile_of(*_shape()).made),
        "_line": Native(lambda numba: tile_of(1, _shape()[1]).made),
    }
    return made


#: By width: ``c[m, width] += a[m, k] @ b[k, width]``; `b` and `c` contiguous.
multiply_add: Final = {width: _of_width(width) for width in WIDTHS}


def width_for(columns: int) -> int:
    """Return the width of the panels that hold `columns` columns best."""
    return WIDTHS[0] if columns <= WIDTHS[0] else LINE
