"""The inner loop of products of bytes: a tile of whole-number sums in registers, four bytes of each factor at a time.

Where the CPU multiplies bytes and adds four products in one instruction (AVX-512 VNNI), a core does three times as
many terms a second as in float32: 318e9. Elsewhere the same sums come from wider numbers, right but slow.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any, Final

from grilly_backend_cpu import jit_setup
from grilly_backend_cpu.fast.microkernel import LANES, Tile, tile_intrinsic
from grilly_backend_cpu.jit import Native

__all__ = ["COLUMNS", "ROWS", "ByteTile", "byte_tile", "host_tile", "quick"]

#: Rows and columns of the tile: 28 of 32 registers hold sums.
ROWS: Final = 14
COLUMNS: Final = 2 * LANES


@functools.cache
def quick() -> bool:
    """Whether this machine has the instruction, and Numba was not told to compile for another one."""
    config = jit_setup.numba().config
    import llvmlite.binding as llvm

    if config.CPU_NAME not in (None, "", "host"):
        return False
    told = config.CPU_FEATURES
    features = llvm.get_host_cpu_features()
    return all(
        features.get(name, False) and (told is None or f"+{name}" in told.split(","))
        for name in ("avx512f", "avx512vnni")
    )


@functools.cache
def byte_tile(instruction: bool) -> Native:
    """Return an intrinsic ``tile(a, at, down, along, b, at, along, c, at, down, count, fresh)`` for int32 arrays.

    As `microkernel.tile_of`, but an element of `a` is four signed bytes, one of `b` four unsigned bytes, and their
    product the sum of four products. With `instruction` True the machine must be `quick`.
    """
    made = _Instruction if instruction else _Wider
    return Native(lambda numba: tile_intrinsic(numba, lambda builder: made(builder, ROWS, COLUMNS // LANES)))


@dataclass(frozen=True)
class ByteTile:
    """A tile of products of bytes.

    Attributes
    ----------
    tile : Native
        See `byte_tile`.
    rows, columns : int
        Its shape.
    quick : bool
        Whether it is faster than float32 here.
    """

    tile: Native
    rows: int
    columns: int
    quick: bool


def host_tile() -> ByteTile:
    """Return the tile that suits this machine."""
    return ByteTile(byte_tile(quick()), ROWS, COLUMNS, quick())


class _ByteTile(Tile):
    """A tile of int32 sums."""

    def __init__(self, builder: Any, rows: int, vectors: int) -> None:
        super().__init__(builder, rows, vectors)
        self.element = self.ir.IntType(32)
        self.vector = self.ir.VectorType(self.element, LANES)


class _Instruction(_ByteTile):
    """With one instruction for four products."""

    def add_product(self, total: Any, factor: Any, line: Any) -> Any:
        """Return ``total`` and the products."""
        from numba.core.cgutils import get_or_insert_function

        # LLVM 22 has vectors of bytes for the factors, and still reads these.
        kind = self.ir.FunctionType(self.vector, [self.vector] * 3)
        call = get_or_insert_function(self.builder.module, kind, "llvm.x86.avx512.vpdpbusd.512")
        return self.builder.call(call, [total, line, factor])


class _Wider(_ByteTile):
    """With numbers of 32 bits."""

    def add_product(self, total: Any, factor: Any, line: Any) -> Any:
        """Return ``total`` and the products."""
        ir, builder = self.ir, self.builder
        small, wide = (ir.VectorType(ir.IntType(bits), 4 * LANES) for bits in (8, 32))
        signed = builder.sext(builder.bitcast(factor, small), wide)
        products = builder.mul(signed, builder.zext(builder.bitcast(line, small), wide))
        order = ir.VectorType(ir.IntType(32), LANES)
        for part in range(4):
            places = ir.Constant(order, [4 * i + part for i in range(LANES)])
            total = builder.add(total, builder.shuffle_vector(products, products, places))
        return total
