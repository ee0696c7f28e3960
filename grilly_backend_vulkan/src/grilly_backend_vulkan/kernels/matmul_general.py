"""Products of any type and any strides in ``matmul.comp``: what the faster kernels do not take."""

from __future__ import annotations

import struct
from typing import Any, Final

from grilly_backend_vulkan.kernels.matmul_product import ACTIVATIONS, Product
from grilly_backend_vulkan.kernels.matmul_tiles import join
from grilly_backend_vulkan.kernels.reduce import sum_parts
from grilly_backend_vulkan.kernels.support import HALVES, MAX_GROUPS

__all__ = ["launch"]

_PUSH: Final = struct.Struct("<5Q4I4i2I7i2I")
_WANTED_GROUPS: Final = 256
_LEAST_PART: Final = 512  # of k
_LONGEST_PART: Final = 1 << 16
_JOINED: Final = HALVES | {"f32"}  # whose sums can be finished by what joins their parts


def _tile(m: int, n: int, batch: int) -> int:
    """Elements a thread makes along each side of the tile."""
    if m <= 16 or n <= 16 or m * n * batch <= 256 * 256:
        return 1 if min(m, n) <= 16 else 2
    return 8 if m * n * batch >= 2048 * 2048 and min(m, n) >= 512 else 4


def _parts(tiles: int, k: int) -> int:
    """Return into how many parts the sums are cut, so that few tiles still fill a device; by sizes alone."""
    return max(1, min(_WANTED_GROUPS // max(tiles, 1), k // _LEAST_PART), -(-k // _LONGEST_PART))


def launch(stream: Any, product: Product, code: str) -> None:
    """Launch the product of operands of type `code`; integers and f64 have at most a bias to be added."""
    p, finish = product, product.finish
    tile = 1 if code in ("f64", "i64", "u64") else _tile(p.m, p.n, p.batch)
    side = 16 * tile
    tiles = -(-p.m // side) * -(-p.n // side) * p.batch
    chunks = _parts(tiles, p.k)
    joined = code in _JOINED and chunks > 1
    size = p.batch * p.m * p.n
    direct = chunks == 1
    target = p.out if direct else stream.scratch(chunks * size * (4 if joined else p.out.dtype.itemsize))
    bias = None if joined else finish.bias
    bias_at, bias_step = (0, 0) if bias is None else (stream.address(bias), bias.strides[0])
    kept = None if joined else finish.residual
    push = _PUSH.pack(
        *(stream.address(v) for v in (target, p.a.view, p.b.view)), bias_at,
        0 if kept is None else stream.address(kept), p.m, p.n, p.k, p.batch,
        p.a.row, p.a.column, p.b.row, p.b.column, *p.batch_push(), bias_step, -(-p.k // chunks), chunks,
    )  # fmt: skip
    lines = (abs(x.column) <= abs(x.row) for x in (p.a, p.b))
    constants = (tile, *lines, bias is not None, joined)
    if code in _JOINED:
        constants += (0 if joined else ACTIVATIONS[finish.activation], kept is not None)
    pipeline = stream.pipeline(f"matmul_{code}", constants)
    reads = [v for v in (p.a.view, p.b.view, bias, kept) if v is not None]
    stream.launch(pipeline, (min(tiles * chunks, MAX_GROUPS), 1, 1), push, reads, [target])
    if joined:
        join(stream, p, target, chunks)
    elif chunks > 1:
        sum_parts(stream, p.out, target, size, chunks)
