"""Sets of dtype codes, and shorthands that the families share."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "ALL",
    "BOOL",
    "COMPLEX",
    "FAST",
    "FLOATS",
    "HALVES",
    "INTEGERS",
    "REALS",
    "WIDE",
    "WIDENED",
    "widened",
]

BOOL: Final = frozenset({"b1"})
INTEGERS: Final = frozenset({"u8", "u16", "u32", "u64", "i8", "i16", "i32", "i64"})
HALVES: Final = frozenset({"f16", "bf16"})
WIDE: Final = frozenset({"f32", "f64"})
FLOATS: Final = HALVES | WIDE
COMPLEX: Final = frozenset({"c64", "c128"})
REALS: Final = INTEGERS | FLOATS
ALL: Final = BOOL | REALS | COMPLEX

#: What a fused kernel says of the half types: core casts to float32 and back.
WIDENED: Final = {"f16": "f32", "bf16": "f32"}

#: Priority of a compiled kernel over the NumPy one.
FAST: Final = 10

_HALF_ITEM: Final = 2


def widened(x: NDArray[Any]) -> NDArray[Any]:
    """Return half-precision data as float32, anything else as it is."""
    if x.dtype.itemsize == _HALF_ITEM and x.dtype.kind not in "iu":
        return x.astype(np.float32)
    return x
