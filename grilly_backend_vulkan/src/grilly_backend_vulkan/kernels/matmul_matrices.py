"""Products on cooperative matrices in ``matmul_matrices.comp``: f16, bf16, i8, and f32 in parts of bf16."""

from __future__ import annotations

import math
import struct
from typing import Any, Final

from grilly_backend_vulkan.kernels.matmul_product import (
    ACTIVATIONS,
    BATCH_AXES,
    Matrices,
    Product,
    cut,
    grid,
    lines,
)
from grilly_backend_vulkan.kernels.matmul_tiles import PUSH, Tile, join, operands
from grilly_backend_vulkan.kernels.reduce import sum_parts
from grilly_backend_vulkan.kernels.support import groups_for

__all__ = ["SHAPES", "TILES", "launch", "launch_split"]

#: Code of the factors → the shape of matrices that the shaders are written for.
SHAPES: Final = {
    "f16": ("f16", "f32", 16, 16, 16), "bf16": ("bf16", "f32", 16, 16, 16), "i8": ("i8", "i32", 16, 16, 32),
}  # fmt: skip
_PACK: Final = struct.Struct("<2Q7I2i2I3i")
_SUBGROUP: Final = 32


def _tile(rows: int, columns: int, step: int, down: int, across: int) -> Tile:
    """Return a tile of 2-byte factors; `step` is doubled for those of one byte."""
    line = step // 8 + 1
    subgroups = rows // down * (columns // across)
    return Tile(rows, columns, step, down, across, 16 * line * (rows + columns) + 1024 * subgroups)


TILES: Final = (
    _tile(128, 256, 32, 64, 64), _tile(128, 128, 32, 64, 64), _tile(64, 128, 32, 32, 64), _tile(64, 64, 64, 32, 32),
)  # fmt: skip


def launch(stream: Any, product: Product, tile: Tile, parts: int, code: str) -> None:
    """Launch the product of factors of type `code`; sums of parts are f32, or i32 if the factors are integers."""
    _launch(stream, _with_packed_operands(stream, product, code), tile, parts, code)


def _launch(stream: Any, p: Product, tile: Tile, parts: int, code: str) -> None:
    found = operands(p)
    assert found is not None
    itemsize = 1 if code == "i8" else 2
    step = tile.step * 2 // itemsize
    chunk, parts = cut(p.k, parts, step)
    size = p.batch * p.m * p.n
    target = p.out if parts == 1 else stream.scratch(parts * size * 4)
    narrow = parts == 1 and p.out.dtype.itemsize == 2
    addresses = [0 if v is None else stream.address(v)
                 for v in (target, p.a.view, p.b.view, p.finish.bias, p.finish.residual)]  # fmt: skip
    push = PUSH.pack(
        *addresses, p.m, p.n, p.k, p.batch, found[0].step, found[1].step, *p.batch_push(), chunk, parts
    )
    aligned = p.n % 8 == 0 and addresses[0] % 16 == 0
    direct = aligned and not narrow and (parts > 1 or p.finish.nothing)  # as the sums lie in registers
    activation = 0 if parts > 1 else ACTIVATIONS[p.finish.activation]
    finish = parts == 1 and not p.finish.nothing
    constants = (
        found[0].along_k, found[1].along_k, p.k % step != 0, narrow, aligned, direct, activation, finish,
    )  # fmt: skip
    tiles = -(-p.m // tile.rows) * -(-p.n // tile.columns) * p.batch
    reads = [p.a.view, p.b.view, *(p.finish.reads if parts == 1 else ())]
    pipeline = stream.pipeline(f"matmul_matrices_{code}_{tile.name}", constants, _SUBGROUP)
    stream.launch(pipeline, grid(tiles * parts), push, reads, [target])
    if parts > 1 and code == "i8":
        sum_parts(stream, p.out, target, size, parts)
    elif parts > 1:
        join(stream, p, target, parts)


def launch_split(stream: Any, product: Product, tile: Tile, parts: int, products: int) -> None:
    """Launch a product of f32 as 3 products of bf16, or as 1, splitting the operands first."""
    p = product
    a, b = (
        _packed(stream, x, (p.shape, rows, p.k), "f32", products, low)
        for low, (x, rows) in enumerate(_oriented(p))
    )
    k = products * _padded(p.k, 8)
    _launch(stream, Product(p.out, a, b.transposed, p.m, p.n, k, p.shape, p.finish), tile, parts, "bf16")


def _padded(n: int, each: int) -> int:
    return -(-n // each) * each


def _oriented(p: Product) -> tuple[tuple[Matrices, int], tuple[Matrices, int]]:
    """Return the operands with k as their second axis, and their rows."""
    return (p.a, p.m), (p.b.transposed, p.n)


def _with_packed_operands(stream: Any, p: Product, code: str) -> Product:
    """Return the product with those operands copied whose lines cannot be read 16 bytes at a time."""
    itemsize = 1 if code == "i8" else 2
    found = []
    for operand, rows in _oriented(p):
        given = lines(operand, rows, p.k)
        if given is None or not given.wide(stream, operand, 16 // itemsize, itemsize):
            operand = _packed(stream, operand, (p.shape, rows, p.k), f"s{itemsize}")
        found.append(operand)
    return Product(p.out, found[0], found[1].transposed, p.m, p.n, p.k, p.shape, p.finish)


def _packed(
    stream: Any, operand: Matrices, sizes: tuple[tuple[int, ...], int, int], code: str, parts: int = 1, low: int = 0
) -> Matrices:  # fmt: skip
    """Copy lines of `sizes` (batch, rows, k) to scratch memory, packed, f32 rounded to bf16.

    Of 3 `parts`, one after another along k, number `low` is what rounding took. Axes along which the batch repeats
    itself are not copied.
    """
    shape, rows, k = sizes
    across = operand.row == 1 and operand.column != 1
    count, items = (k, rows) if across else (rows, k)
    line_step, step = (operand.column, operand.row) if across else (operand.row, operand.column)
    each = 16 if code == "s1" else 8
    lined = _padded(items, each)
    kept = tuple(n if s else 1 for n, s in zip(shape, operand.batch, strict=True))
    if code == "f32" and across:  # lines that fill each part up to a multiple of `each` terms
        count = _padded(count, each)
    matrix = lined * count * parts
    inner = tuple(matrix * math.prod(kept[i + 1 :]) if s else 0 for i, s in enumerate(operand.batch))
    quads, batch = lined // each, math.prod(kept)
    target = stream.scratch(16 * quads * count * parts * batch)
    missing = BATCH_AXES - len(kept)
    apart = [stream.address(operand.view) // 4, line_step, *operand.batch]
    wide = code == "f32" and step == 1 and items % each == 0 and all(s % 4 == 0 for s in apart)
    pitch, part = (quads, quads * count) if across else (quads * parts, quads)
    push = _PACK.pack(
        stream.address(target), stream.address(operand.view), count, k if across else rows, items, quads, batch,
        pitch, part, line_step, step,
        *[*kept[::-1], *[1] * missing][: BATCH_AXES - 1], *operand.batch[::-1], *[0] * missing,
    )  # fmt: skip
    pipeline = stream.pipeline(f"matmul_pack_{code}", (wide, parts, low))
    stream.launch(pipeline, groups_for(quads * count * batch, 256), push, [operand.view], [target])
    strides = (1, lined) if across else (lined * parts, 1)
    return Matrices(target, *strides, inner)
