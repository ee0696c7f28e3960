"""How threads share rows, for the kernels that reduce or normalise them."""

from __future__ import annotations

import struct
from typing import Any, Final

from grilly_backend_vulkan.kernels.support import MAX_GROUPS

__all__ = ["ROWS", "ROW_MAX", "ROW_SUM", "held_rows", "lanes_for", "launch_row_reduction", "row_groups"]

#: Push constants of ``rows`` and ``rows_held``: seven addresses, rows, terms, inner, eps.
ROWS: Final = struct.Struct("<7Q3If")
ROW_SUM: Final = 8
ROW_MAX: Final = 9
_GROUP: Final = 256
_HELD: Final = 8  # fours in the registers of a thread


def lanes_for(terms: int) -> int:
    """Return how many threads share a row of `terms` elements: a power of two."""
    return min(_GROUP, 1 << max(0, (terms - 1).bit_length() - 2))


def row_groups(rows: int, lanes: int) -> tuple[int, int, int]:
    """Return the work groups for `rows` rows of `lanes` threads each."""
    return (min(-(-rows // (_GROUP // lanes)), MAX_GROUPS), 1, 1)


def held_rows(stream: Any, views: list[Any], sizes: tuple[int, int, int]) -> tuple[int, int] | None:
    """Return how many threads share a row and how many fours each holds, None if rows cannot be held in registers."""
    fours, rest = divmod(sizes[1], 4)
    if rest or not fours or sizes[2] != 1 or any(stream.address(v) % 16 for v in views):
        return None
    lanes = min(_GROUP, 1 << max(0, (fours - 1).bit_length() - 2))
    held = -(-fours // lanes)
    return (lanes, held) if held <= _HELD else None


def launch_row_reduction(stream: Any, op: int, out: Any, x: Any, rows: int, terms: int) -> bool:
    """Reduce packed rows by `ROW_SUM` or `ROW_MAX` if they can be held in registers; says whether it did."""
    held = held_rows(stream, [x], (rows, terms, 1))
    if held is None:
        return False
    push = ROWS.pack(stream.address(out), stream.address(x), 0, 0, 0, 0, 0, rows, terms, 1, 0.0)
    stream.launch(stream.pipeline("rows_held", (op, *held)), row_groups(rows, held[0]), push, [x], [out])
    return True
