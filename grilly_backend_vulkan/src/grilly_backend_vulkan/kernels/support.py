"""Sets of dtype codes that the families share, and how work is cut into groups."""

from __future__ import annotations

from typing import Any, Final

from grilly_backend_vulkan.build import CODES

__all__ = ["ALL", "BOOL", "COMPLEX", "FLOATS", "HALVES", "INTEGERS", "MAX_GROUPS", "WIDENED", "groups_for", "of_device"]

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


def groups_for(items: int, size: int) -> tuple[int, int, int]:
    """Return the groups of `size` threads for `items` elements in a loop over the grid."""
    return (min(-(-items // size), MAX_GROUPS), 1, 1)


def of_device(codes: frozenset[str], runtime: Any) -> frozenset[str]:
    """Return `codes` without float64 where the device lacks it."""
    return codes if runtime.facts.f64 else codes - {"f64"}
