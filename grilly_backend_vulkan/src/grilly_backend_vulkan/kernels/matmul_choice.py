"""Which tile a product is made of, and into how many parts its sums are cut: by sizes and a small table.

A tile takes a processor of the device some time for each term of its sums; the processors work in waves, and joining
parts costs a launch and the traffic of the parts. What a term takes was measured, with clocks warmed up, on products
that fill the device once or some times over, where the loads of one tile hide behind the arithmetic of another, and on
one tile alone, where nothing hides them: 64x64 tiles that are alone on their processors take 0.095 µs a term on an H200
instead of 0.027, so a product of few rows is cut until four of them share one (64×4096×4096: 208 µs in 2 parts, 77 in
8). The number of parts depends on sizes and table alone.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from grilly_backend_vulkan.facts import Facts
from grilly_backend_vulkan.kernels import matmul_matrices, matmul_tiles
from grilly_backend_vulkan.kernels.matmul_tiles import Tile
from grilly_backend_vulkan.kernels.support import MAX_TURNS
from grilly_core import config

__all__ = ["Choice", "Costs", "choose", "costs", "estimate"]

#: Processors, then for each type microseconds of a term of a tile, by the tile's name: what a processor takes for it
#: when many share one, and what it takes when it is alone.
Costs = dict[str, Any]
Choice = tuple[Tile, int]

_H200: Final[Costs] = {  # the last column of i8 is guessed from f16
    "processors": 132,
    "f32": {"128x128x8": (0.083, 0.12), "64x128x8": (0.0550, 0.10), "64x64x8": (0.0270, 0.095)},
    "f16": {
        "128x256x32": (0.0232, 0.0245),
        "128x128x32": (0.0134, 0.0185),
        "64x128x32": (0.0100, 0.0170),
        "64x64x64": (0.0057, 0.0125),
    },
    "i8": {
        "128x256x32": (0.0168, 0.0180),
        "128x128x32": (0.0085, 0.0120),
        "64x128x32": (0.0060, 0.0100),
        "64x64x64": (0.0035, 0.0075),
    },
}
_OTHERS: Final[Costs] = {**_H200, "processors": 64}
_SHIPPED: Final = {"NVIDIA H200": _H200, "NVIDIA H100": _H200}
_START: Final = 3.0  # microseconds of a launch
_JOIN: Final = 2.5
_BYTES: Final = 2.5e6  # of parts, written and read, in a microsecond
_LEAST_PART: Final = 64  # terms
_MOST_PARTS: Final = 16


def table_path(facts: Facts) -> Path | None:
    """Return where the user's table for a device lies, None without a cache folder."""
    folder = config.cache_dir()
    return (
        None
        if folder is None
        else folder / "vulkan" / f"{facts.vendor_id:x}-{facts.device_id:x}.products.json"
    )


@functools.lru_cache(maxsize=16)
def costs(facts: Facts) -> Costs:
    """Return the user's table for a device if there is one, else the shipped one."""
    path = table_path(facts)
    shipped = _SHIPPED.get(facts.name, _OTHERS)
    try:
        return {**shipped, **json.loads(path.read_text(encoding="utf-8"))} if path else shipped
    except (OSError, ValueError):
        return shipped


def estimate(found: Costs, kind: str, tile: Tile, sizes: Sequence[int], parts: int) -> float:
    """Return microseconds that a product of sizes (m, n, k, batch) takes, about."""
    m, n, k, batch = sizes
    groups = -(-m // tile.rows) * -(-n // tile.columns) * batch * parts
    waves = -(-groups // int(found["processors"]))
    shared, alone = found[kind][tile.name]
    time: float = _START + -(-k // parts) * max(waves * float(shared), float(alone))
    return time if parts == 1 else time + _JOIN + 4 * m * n * batch * (2 * parts + 1) / _BYTES


@functools.lru_cache(maxsize=4096)
def choose(facts: Facts, kind: str, m: int, n: int, k: int, batch: int) -> Choice | None:
    """Return tile and parts for the kind ``f32``, ``f16`` (bf16, too) or ``i8``, None if no tile fits the device."""
    found = costs(facts)
    tiles = matmul_tiles.TILES if kind == "f32" else matmul_matrices.TILES
    sizes = (m, n, k, batch)
    least = -(-k // (MAX_TURNS * 8))
    most = max(least, min(_MOST_PARTS, k // _LEAST_PART), 1)
    options = [
        (estimate(found, kind, tile, sizes, parts), tile, parts)
        for tile in tiles
        if tile.shared <= facts.shared_memory and tile.name in found[kind]
        for parts in range(max(1, least), most + 1)
    ]
    # of tiles that take as long the smallest, which leaves fewer processors idle
    return min(options, key=lambda o: (round(o[0], 1), o[1].rows * o[1].columns))[1:] if options else None
