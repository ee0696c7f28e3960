"""Sets of dtype codes that the families share, and how work is cut into groups."""

from __future__ import annotations

from typing import Any, Final

__all__ = [
    "ALL",
    "BOOL",
    "CODES",
    "COMPLEX",
    "FLOATS",
    "HALVES",
    "INTEGERS",
    "MAX_GROUPS",
    "MAX_TURNS",
    "WIDENED",
    "add",
    "groups_for",
]

#: Types in the order of ``cast.comp``: bool, unsigned, signed, floating.
CODES: Final = ("b1", "u8", "u16", "u32", "u64", "i8", "i16", "i32", "i64", "f16", "bf16", "f32", "f64")
BOOL: Final = frozenset({"b1"})
INTEGERS: Final = frozenset(CODES[1:9])
HALVES: Final = frozenset({"f16", "bf16"})
FLOATS: Final = HALVES | {"f32", "f64"}
COMPLEX: Final = frozenset({"c64", "c128"})
ALL: Final = BOOL | INTEGERS | FLOATS | COMPLEX

#: What a fused kernel says of the half types: core casts to float32 and back.
WIDENED: Final = {"f16": "f32", "bf16": "f32"}

#: Work groups along one axis; what is more is done in further turns of a loop.
MAX_GROUPS: Final = 65535


#: Turns of a loop that every driver takes: Mesa's software driver stops after 65535, all loops of a thread together.
MAX_TURNS: Final = 1 << 14


def groups_for(items: int, size: int) -> tuple[int, int, int]:
    """Return the groups of `size` threads for `items` elements in a loop over the grid."""
    return (min(-(-items // size), MAX_GROUPS), 1, 1)


def add(kernels: Any, name: str, fn: Any, codes: frozenset[str], **options: Any) -> None:
    """Declare a kernel for `codes`; float64 only where the device has it."""
    kernels.add(name, fn, dtypes=codes - {"f64"}, **options)
    if "f64" in codes:
        when = options.pop("when", None)

        def has_f64(c: Any) -> bool:
            return (
                c.runtime.facts.f64
                and "f64" in {s.dtype.code for s in (*c.ins, *c.outs) if s is not None}
                and (when is None or when(c))
            )

        kernels.add(name, fn, dtypes=codes, when=has_f64, priority=1, **options)
