"""Measure what tiles of matrix products take on a device, for the choice between them: ``grilly bench --tune``."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final

from grilly_backend_vulkan.kernels import matmul, matmul_choice, matmul_matrices, matmul_tiles
from grilly_backend_vulkan.kernels.matmul_product import Matrices, Product
from grilly_core.atomic import atomic_write
from grilly_core.buffer import contiguous_spec
from grilly_core.dtypes import as_dtype
from grilly_core.errors import DeviceError

if TYPE_CHECKING:
    from pathlib import Path

    from grilly_backend_vulkan.kernels.matmul_tiles import Tile
    from grilly_core.device import Context

__all__ = ["tune"]

#: Kind of the table, which is the type of the factors → the type of the output, and the tiles.
_KINDS: Final = {
    "f32": ("f32", matmul_tiles.TILES),
    "f16": ("f16", matmul_matrices.TILES),
    "i8": ("i32", matmul_matrices.TILES),
}
_TERMS: Final = 1024
_LONGEST: Final = 0.2  # seconds of one measurement
_GROUPS: Final = 2048  # enough for several waves on any device known
_SETTLE: Final = 0.5  # seconds of work before anything is timed, since clocks rise slowly
_SAMPLE: Final = 0.02  # seconds of launches that are timed together
_REPEATS: Final = 3

Progress = Callable[[str], None]


def tune(context: Context, progress: Progress) -> tuple[Path, dict[str, Any]]:
    """Measure every tile that the device can run, and write the table that `matmul_choice` reads.

    Parameters
    ----------
    context : Context
        Of the device.
    progress : callable
        Told the name of each tile before it is measured.

    Returns
    -------
    path : Path
        Of the table, in the cache folder.
    costs : dict
        Processors, and for each kind of product microseconds of a term of a tile; see `matmul_choice.Costs`.

    Raises
    ------
    DeviceError
        If the device has no clock, or there is no folder for caches.
    """
    facts = context.runtime.facts  # type: ignore[attr-defined]
    path = matmul_choice.table_path(facts)
    if path is None:
        raise DeviceError("tuning: there is no cache folder for the table; set GRILLY_CACHE_DIR to a folder.")
    if facts.timestamp_period <= 0:
        raise DeviceError(f"tuning: {facts.name} has no clock to measure kernels with.")
    _settle(context)
    measured: dict[str, dict[str, tuple[float, int, float]]] = {}
    for kind, tile in _tiles(facts):
        progress(f"{kind} {tile.name}")
        measured.setdefault(kind, {})[tile.name] = _measure(context, kind, tile)
    processors = _processors(measured["f32"].values())
    costs: dict[str, Any] = {"processors": processors}
    for kind, tiles in measured.items():
        costs[kind] = {
            name: [_rounded(seconds * processors / groups), _rounded(alone)]
            for name, (alone, groups, seconds) in tiles.items()
        }
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(path) as file:
        file.write(json.dumps(costs, indent=1).encode())
    matmul_choice.costs.cache_clear()
    matmul_choice.choose.cache_clear()
    return path, costs


def _rounded(seconds: float) -> float:
    """Return microseconds of one term."""
    return float(f"{1e6 * seconds / _TERMS:.4g}")


def _tiles(facts: Any) -> Iterator[tuple[str, Tile]]:
    for kind, (_, tiles) in _KINDS.items():
        if kind == "f32" or matmul.has_matrices(facts, kind):
            yield from ((kind, tile) for tile in tiles if tile.shared <= facts.shared_memory)


def _settle(context: Context) -> None:
    """Keep the device busy for a while."""
    stop = time.perf_counter() + _SETTLE
    while time.perf_counter() < stop:
        _seconds(context, "f32", matmul_tiles.TILES[-1], 16)


def _measure(context: Context, kind: str, tile: Tile) -> tuple[float, int, float]:
    """Return seconds of one work group, then a number of them that fills the device, and their seconds."""
    alone = _seconds(context, kind, tile, 1)
    groups, seconds = 1, alone
    while groups < _GROUPS and seconds < _LONGEST / 4:
        groups *= 4
        seconds = _seconds(context, kind, tile, groups)
    return alone, groups, seconds


def _processors(measured: Iterable[tuple[float, int, float]]) -> int:
    """Return how many work groups run beside each other, by the tile with the fewest."""
    return max(1, min(round(groups * alone / seconds) for alone, groups, seconds in measured))


def _seconds(context: Context, kind: str, tile: Tile, groups: int) -> float:
    """Return what a product of `groups` tiles takes, the launch included."""
    down = 1 << (groups.bit_length() - 1) // 2
    m, n, k = tile.rows * down, tile.columns * (groups // down), _TERMS
    a, b, out = (
        context.empty(contiguous_spec(shape, as_dtype(code), context))
        for shape, code in (((m, k), kind), ((k, n), kind), ((m, n), _KINDS[kind][0]))
    )
    product = Product.of(out, Matrices(a, k, 1), Matrices(b, n, 1), (m, n, k))

    def launch() -> None:
        if kind == "f32":
            matmul_tiles.launch(context.stream, product, tile, 1)
        else:
            matmul_matrices.launch(context.stream, product, tile, 1, kind)

    first = _between(context, launch, 1)
    count = max(1, min(100, int(_SAMPLE / max(first, 1e-6))))
    return min(_between(context, launch, count) for _ in range(_REPEATS)) / count


def _between(context: Context, launch: Callable[[], None], count: int) -> float:
    """Return the device's seconds for `count` launches."""
    timer: Any = context.runtime.timer()  # type: ignore[attr-defined]
    start = timer.mark()
    for _ in range(count):
        launch()
    stop = timer.mark()
    times = timer.read()
    return float(times[stop] - times[start])
