"""Writing past the caches: for results so large that they would only push out what is still needed.

A plain store first reads the line that it writes into. On the machine where this was measured (two cores, 52 MB) a
fill took 2.7 ms with plain stores and 1.1 ms past the caches. A kernel works out a row in a small buffer that stays in
its cache, calls `stream_out` for the row and `stream_end` when its block is done.
"""

from __future__ import annotations

from typing import Any, Final

from grilly_backend_cpu.jit import Native, njit

__all__ = ["LEAST_STREAMED", "stream_end", "stream_out"]

#: Bytes of an output from which on it is written past the caches.
LEAST_STREAMED: Final = 16 << 20
_LINE: Final = 64  # bytes of a cache line, which one store fills


def _make_store(numba: Any) -> Any:
    from llvmlite import ir
    from numba.extending import intrinsic

    @intrinsic
    def store_line(typing: Any, source: Any, target: Any, place: Any) -> Any:
        """``target[place : place + line] = source[place : place + line]``, past the caches; target is aligned."""

        def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            arrays = [
                context.make_array(t)(context, builder, a)
                for t, a in zip(signature.args, arguments[:2], strict=False)
            ]
            item = arrays[0].data.type.pointee
            lanes = _LINE * 8 // signature.args[0].dtype.bitwidth
            line = ir.VectorType(item, lanes).as_pointer()
            source_at, target_at = (
                builder.bitcast(builder.gep(a.data, [arguments[2]]), line) for a in arrays
            )
            value = builder.load(source_at)
            value.align = signature.args[0].dtype.bitwidth // 8
            store = builder.store(value, target_at)
            store.align = _LINE
            one = ir.Constant(ir.IntType(32), 1)
            store.set_metadata("nontemporal", builder.module.add_metadata([one]))
            return context.get_dummy_value()

        return numba.types.void(source, target, place), emit

    return store_line


def _make_fence(numba: Any) -> Any:
    from numba.extending import intrinsic

    @intrinsic
    def fence(typing: Any) -> Any:
        """Let nobody see what follows before what was written past the caches."""

        def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            builder.fence("seq_cst")
            return context.get_dummy_value()

        return numba.types.void(), emit

    return fence


_store_line: Final = Native(_make_store)
_fence: Final = Native(_make_fence)


@njit
def stream_out(source: Any, target: Any) -> None:
    """Copy a contiguous row of floats past the caches."""
    lanes = _LINE // target.itemsize
    first = min(-(target.ctypes.data // target.itemsize) % lanes, target.size)
    whole = first + (target.size - first) // lanes * lanes
    for j in range(first):
        target[j] = source[j]
    for j in range(first, whole, lanes):
        _store_line(source, target, j)
    for j in range(whole, target.size):
        target[j] = source[j]


@njit
def stream_end() -> None:
    """Call this before a block that used `stream_out` is done."""
    _fence()
