"""Products of f32 matrices in ``matmul_tiles.comp``, and what joins parts of sums."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any, Final

from grilly_backend_vulkan.kernels.matmul_product import (
    ACTIVATIONS,
    Lines,
    Matrices,
    Product,
    cut,
    grid,
    lines,
)
from grilly_backend_vulkan.kernels.support import groups_for

__all__ = ["PUSH", "TILES", "Tile", "join", "launch", "operands"]

#: The push constants of ``matmul.glsl``.
PUSH: Final = struct.Struct("<5Q4I2i2I6i2I")
_JOIN: Final = struct.Struct("<4Q3I")
_EACH: Final = 4  # elements of 16 bytes


@dataclass(frozen=True, slots=True)
class Tile:
    """A compiled tile.

    Attributes
    ----------
    rows, columns : int
    step : int
        Terms between two barriers.
    down, across : int
        Sums of one thread (or, of cooperative matrices, of a subgroup).
    shared : int
        Bytes of shared memory.
    """

    rows: int
    columns: int
    step: int
    down: int
    across: int
    shared: int

    @property
    def name(self) -> str:
        """Part of the shader's name."""
        return f"{self.rows}x{self.columns}x{self.step}"


def _tile(rows: int, columns: int, step: int = 8, down: int = 8, across: int = 8) -> Tile:
    return Tile(rows, columns, step, down, across, 2 * 4 * step * (rows + columns))


TILES: Final = (_tile(128, 128), _tile(64, 128), _tile(64, 64))


def operands(product: Product) -> tuple[Lines, Lines] | None:
    """Return the lines of both operands, None if one has none."""
    p = product
    found = lines(p.a, p.m, p.k), lines(p.b.transposed, p.n, p.k)
    return None if found[0] is None or found[1] is None else (found[0], found[1])


def launch(stream: Any, product: Product, tile: Tile, parts: int) -> None:
    """Launch the product in `parts` parts of the sums."""
    p = product
    found = operands(p)
    assert found is not None
    chunk, parts = cut(p.k, parts, tile.step)
    target = p.out if parts == 1 else stream.scratch(parts * p.out.nbytes)
    addresses = [0 if v is None else stream.address(v)
                 for v in (target, p.a.view, p.b.view, p.finish.bias, p.finish.residual)]  # fmt: skip
    push = PUSH.pack(
        *addresses, p.m, p.n, p.k, p.batch, found[0].step, found[1].step, *p.batch_push(), chunk, parts
    )
    wide = [_wide(stream, x, y) for x, y in zip((p.a, p.b), found, strict=True)]
    out_wide = p.n % _EACH == 0 and addresses[0] % 16 == 0
    activation = 0 if parts > 1 else ACTIVATIONS[p.finish.activation]
    constants = (found[0].along_k, found[1].along_k, *wide, p.k % tile.step != 0, out_wide, activation,
                 parts == 1 and not p.finish.nothing)  # fmt: skip
    tiles = -(-p.m // tile.rows) * -(-p.n // tile.columns) * p.batch
    reads = [p.a.view, p.b.view] + (p.finish.reads if parts == 1 else [])
    pipeline = stream.pipeline(f"matmul_tiles_{tile.name}", constants)
    stream.launch(pipeline, grid(tiles * parts), push, reads, [target])
    if parts > 1:
        join(stream, p, target, parts)


def _wide(stream: Any, operand: Matrices, found: Lines) -> bool:
    return found.wide(stream, operand, _EACH, 4)


def join(stream: Any, product: Product, parts: Any, count: int) -> None:
    """Add `count` parts in f32, packed as [parts, *output], in order, and finish the sums."""
    p, f = product, product.finish
    size = p.batch * p.m * p.n
    addresses = [0 if v is None else stream.address(v) for v in (p.out, parts, f.bias, f.residual)]
    wide = size % _EACH == 0 and addresses[1] % 16 == 0
    pipeline = stream.pipeline(f"matmul_join_{p.out.dtype.code}", (ACTIVATIONS[f.activation], wide))
    push = _JOIN.pack(*addresses, size, count, p.n)
    stream.launch(pipeline, groups_for(size, 256 * _EACH if wide else 256), push, [parts, *f.reads], [p.out])
