"""The inner loop of matrix products in float32: a tile of sums held in registers while both factors stream by.

Numba has no way to say that sums stay in registers, so the loop is written in LLVM's terms. One core does 200 to 230
GFLOP/s with it where NumPy's BLAS does 200 (AVX-512). Vectors have 16 floats whatever the machine has: LLVM makes two
or four of one where registers are shorter.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Final

from grilly_backend_cpu import jit_setup
from grilly_backend_cpu.jit import Native

__all__ = ["LANES", "Tile", "square_turner", "tile_intrinsic", "tile_of", "tile_shape"]

LANES: Final = 16


@functools.cache
def tile_shape() -> tuple[int, int]:
    """Return rows and columns of the tile that fills the registers of this machine."""
    jit_setup.numba()
    import llvmlite.binding as llvm

    wide = llvm.get_host_cpu_features().get("avx512f", False)
    return (14, 2 * LANES) if wide else (6, LANES)


def tile_of(rows: int, columns: int) -> Native:
    """Return an intrinsic ``tile(a, at, down, along, b, at, along, c, at, down, count, fresh)`` for float32 arrays.

    It adds ``sum(a[at + r * down + p * along] * b[at + p * along + j] for p in range(count))`` to ``c[at + r * down +
    j]``, all places counted in floats from the start of the array; where `fresh`, what `c` held does not count.
    """
    return Native(lambda numba: tile_intrinsic(numba, lambda builder: Tile(builder, rows, columns // LANES)))


def tile_intrinsic(numba: Any, make: Callable[[Any], Tile]) -> Any:
    """Return the intrinsic whose instructions the `Tile` writes that is made for a builder."""
    from numba.extending import intrinsic

    n, yes = numba.int64, numba.boolean

    @intrinsic
    def tile(typing: Any, a: Any, a0: Any, down: Any, along: Any, b: Any, b0: Any, bstep: Any, c: Any, c0: Any,
             cdown: Any, count: Any, fresh: Any) -> Any:  # fmt: skip
        def emit(context: Any, builder: Any, signature: Any, given: Any) -> Any:
            a_data, b_data, c_data = (
                context.make_array(signature.args[i])(context, builder, given[i]).data for i in (0, 4, 7)
            )
            starts = [builder.gep(d, [given[i]]) for d, i in ((a_data, 1), (b_data, 5), (c_data, 8))]
            steps = given[2], given[3], given[6], given[9]
            make(builder).emit(starts, steps, given[10], given[11])
            return context.get_dummy_value()

        return numba.types.void(a, n, n, n, b, n, n, c, n, n, n, yes), emit

    return tile


class Tile:
    """Writes the instructions of one tile; a subclass may have elements of another type of four bytes."""

    def __init__(self, builder: Any, rows: int, vectors: int) -> None:
        from llvmlite import ir

        self.ir, self.builder, self.rows, self.vectors = ir, builder, rows, vectors
        self.long, self.element = ir.IntType(64), ir.FloatType()
        self.vector = ir.VectorType(self.element, LANES)

    def emit(self, starts: Any, steps: Any, count: Any, fresh: Any) -> None:
        """Load the sums or start at 0, run the loop, store the sums."""
        builder, (a, b, c), (down, along, bstep, cdown) = self.builder, starts, steps
        lines = [c]
        for _ in range(self.rows - 1):
            lines.append(builder.gep(lines[-1], [cdown]))
        places = [self._at(line, j) for line in lines for j in range(self.vectors)]
        sums = self._first_sums(places, fresh)
        before = builder.block
        loop, after = builder.append_basic_block("along"), builder.append_basic_block("done")
        builder.cbranch(builder.icmp_signed(">", count, self._int(0)), loop, after)
        builder.position_at_end(loop)
        p, a_at, b_at = (self._phi(x, before) for x in (self._int(0), a, b))
        held = [self._phi(x, before) for x in sums]
        found = self._products(a_at, down, b_at, held)
        further = builder.add(p, self._int(1))
        following = [further, builder.gep(a_at, [along]), builder.gep(b_at, [bstep]), *found]
        for phi, value in zip((p, a_at, b_at, *held), following, strict=True):
            phi.add_incoming(value, loop)
        builder.cbranch(builder.icmp_signed("<", further, count), loop, after)
        builder.position_at_end(after)
        results = [self._phi(x, before) for x in sums]
        for phi, value in zip(results, found, strict=True):
            phi.add_incoming(value, loop)
        for result, place in zip(results, places, strict=True):
            builder.store(result, place).align = 4

    def _int(self, value: int) -> Any:
        return self.ir.Constant(self.long, value)

    def _at(self, pointer: Any, j: int) -> Any:
        shifted = self.builder.gep(pointer, [self._int(j * LANES)])
        return self.builder.bitcast(shifted, self.vector.as_pointer())

    def _phi(self, value: Any, block: Any) -> Any:
        phi = self.builder.phi(value.type)
        phi.add_incoming(value, block)
        return phi

    def _load(self, place: Any) -> Any:
        value = self.builder.load(place)
        value.align = 4
        return value

    def _first_sums(self, places: Any, fresh: Any) -> list[Any]:
        builder = self.builder
        with builder.if_else(fresh) as (then, otherwise):
            with then:
                zeros = [self.ir.Constant(self.vector, [self.element(0)] * LANES) for _ in places]
                at_zeros = builder.block
            with otherwise:
                loaded = [self._load(place) for place in places]
                at_loaded = builder.block
        sums = []
        for zero, value in zip(zeros, loaded, strict=True):
            phi = self._phi(zero, at_zeros)
            phi.add_incoming(value, at_loaded)
            sums.append(phi)
        return sums

    def _products(self, a: Any, down: Any, b: Any, held: Any) -> list[Any]:
        builder, ir = self.builder, self.ir
        line = [self._load(self._at(b, j)) for j in range(self.vectors)]
        nothing = ir.Constant(self.vector, ir.Undefined)
        first = ir.Constant(ir.IntType(32), 0)
        everywhere = ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES)
        found = []
        for r in range(self.rows):
            factor = builder.insert_element(nothing, builder.load(a), first)
            factor = builder.shuffle_vector(factor, nothing, everywhere)
            for j in range(self.vectors):
                found.append(self.add_product(held[r * self.vectors + j], factor, line[j]))
            if r + 1 < self.rows:
                a = builder.gep(a, [down])
        return found

    def add_product(self, total: Any, factor: Any, line: Any) -> Any:
        """Return ``total + factor * line``, rounded once."""
        product = self.builder.fmul(factor, line, flags=("contract",))
        return self.builder.fadd(total, product, flags=("contract",))


def square_turner() -> Native:
    """Return an intrinsic ``turn(a, row, column, b, row, column)`` for float32 matrices with contiguous rows.

    It writes the square of `LANES` rows and columns of `a` that starts at the place, transposed, to the place of `b`.
    """
    return Native(_turn_intrinsic)


def _turn_intrinsic(numba: Any) -> Any:
    from numba.extending import intrinsic

    @intrinsic
    def turn(typing: Any, a: Any, row: Any, column: Any, b: Any, to_row: Any, to_column: Any) -> Any:
        def emit(context: Any, builder: Any, signature: Any, given: Any) -> Any:
            from numba.core.cgutils import get_item_pointer

            lines = []
            for i, at, across in ((0, given[1], given[2]), (3, given[4], given[5])):
                kind, array = (
                    signature.args[i],
                    context.make_array(signature.args[i])(context, builder, given[i]),
                )
                rows = [builder.add(at, at.type(r)) for r in range(LANES)]
                lines.append([get_item_pointer(context, builder, kind, array, [r, across]) for r in rows])
            _turned(builder, *lines)
            return context.get_dummy_value()

        n = numba.int64
        return numba.types.void(a, n, n, b, n, n), emit

    return turn


def _turned(builder: Any, sources: list[Any], targets: list[Any]) -> None:
    """Interleave the first half of the rows with the second; after log2 of their number they are columns."""
    from llvmlite import ir

    pointer, half = ir.VectorType(ir.FloatType(), LANES).as_pointer(), LANES // 2
    rows = [builder.load(builder.bitcast(p, pointer)) for p in sources]
    for row in rows:
        row.align = 4
    order = ir.VectorType(ir.IntType(32), LANES)
    low, high = ([(i // 2) + (i % 2) * LANES + start for i in range(LANES)] for start in (0, half))
    for _ in range(half.bit_length()):
        pairs = zip(rows[:half], rows[half:], strict=True)
        rows = [builder.shuffle_vector(a, b, ir.Constant(order, w)) for a, b in pairs for w in (low, high)]
    for row, p in zip(rows, targets, strict=True):
        builder.store(row, builder.bitcast(p, pointer)).align = 4
