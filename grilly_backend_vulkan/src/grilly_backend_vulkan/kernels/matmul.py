"""``matmul`` and ``nn.linear``: one tiled kernel for batches of matrices of any strides."""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from typing import Any, Final

from grilly_backend_vulkan.kernels import data, mapping
from grilly_backend_vulkan.kernels.reduce import sum_parts
from grilly_backend_vulkan.kernels.support import FLOATS, HALVES, INTEGERS, MAX_GROUPS, add
from grilly_core.layout import contiguous_strides

__all__ = ["Matrices", "launch_matmul", "register"]

_PUSH: Final = struct.Struct("<4Q4I4i2I7i2I")
_BATCH_AXES: Final = 3
_WANTED_GROUPS: Final = 256
_LEAST_PART: Final = 512  # of k
_LONGEST_PART: Final = 1 << 16


@dataclass(frozen=True, slots=True)
class Matrices:
    """A batch of matrices as the kernel sees it: strides in elements.

    Attributes
    ----------
    view : View or scratch memory
    row, column : int
    batch : tuple of int
    """

    view: Any
    row: int
    column: int
    batch: tuple[int, ...] = ()


def _of(view: Any) -> Matrices:
    return Matrices(view, view.strides[-2], view.strides[-1], view.strides[:-2])


def _tile(m: int, n: int, batch: int) -> int:
    """Elements a thread makes along each side of the tile."""
    if m <= 16 or n <= 16 or m * n * batch <= 64 * 64:
        return 1 if min(m, n) <= 16 else 2
    return 8 if m * n * batch >= 2048 * 2048 and min(m, n) >= 512 else 4


def _parts(tiles: int, k: int, code: str) -> int:
    """Return into how many parts the sums are cut, so that few tiles still fill a device; by sizes alone."""
    if code in HALVES:  # parts would be rounded
        return 1
    return max(1, min(_WANTED_GROUPS // tiles, k // _LEAST_PART), -(-k // _LONGEST_PART))


def launch_matmul(
    stream: Any, out: Any, a: Matrices, b: Matrices, sizes: tuple[int, int, int],
    shape: tuple[int, ...] = (), bias: Any = None, code: str = "f32",
) -> None:  # fmt: skip
    """Multiply the batch of `shape`: out (packed) = a @ b + bias, with `sizes` m, n, k."""
    batch_shape, steps = mapping.merged(shape, [a.batch, b.batch])
    m, n, k = sizes
    batch = math.prod(batch_shape)
    inner = list(batch_shape[::-1])[: _BATCH_AXES - 1] + [1] * (_BATCH_AXES - 1 - len(batch_shape))
    a_steps, b_steps = (list(s[::-1]) + [0] * (_BATCH_AXES - len(s)) for s in steps)
    bias_at, bias_step = (0, 0) if bias is None else (stream.address(bias), bias.strides[0])
    tile = 1 if code in ("f64", "i64", "u64") else _tile(m, n, batch)
    side = 16 * tile
    tiles = -(-m // side) * -(-n // side) * batch
    chunks = _parts(tiles, k, code)
    target = out if chunks == 1 else stream.scratch(chunks * out.nbytes)
    push = _PUSH.pack(
        stream.address(target), stream.address(a.view), stream.address(b.view), bias_at, m, n, k, batch,
        a.row, a.column, b.row, b.column, *inner, *a_steps, *b_steps, bias_step,
        -(-k // chunks), chunks,
    )  # fmt: skip
    constants = (tile, abs(a.column) <= abs(a.row), abs(b.column) <= abs(b.row), bias is not None)
    reads = [a.view, b.view] if bias is None else [a.view, b.view, bias]
    pipeline = stream.pipeline(f"matmul_{code}", constants)
    stream.launch(pipeline, (min(tiles * chunks, MAX_GROUPS), 1, 1), push, reads, [target])
    if chunks > 1:
        sum_parts(stream, out, target, batch * m * n, chunks)


def _pushed(a: Any, b: Any) -> bool:
    sizes, _ = mapping.merged(a.shape[:-2], [a.strides[:-2], b.strides[:-2]])
    return len(sizes) <= _BATCH_AXES


def _packed(stream: Any, view: Any) -> Matrices:
    """Copy a batch with too many axes to scratch memory."""
    steps = contiguous_strides(view.shape)
    target = data.copy_packed(stream, view, tuple(range(len(view.shape))))
    return Matrices(target, steps[-2], steps[-1], steps[:-2])


def _matmul(stream: Any, outs: Any, ins: Any, attrs: dict[str, Any]) -> None:
    out, (a, b) = outs[0], ins
    sizes = (a.shape[-2], b.shape[-1], a.shape[-1])
    if _pushed(a, b):
        left, right = _of(a), _of(b)
    else:
        left, right = (_packed(stream, v) for v in (a, b))
    launch_matmul(stream, out, left, right, sizes, a.shape[:-2], code=out.dtype.code)


def _linear(stream: Any, outs: Any, ins: Any, attrs: dict[str, Any]) -> None:
    out, (x, weight, bias) = outs[0], ins
    width = x.shape[-1]
    rows = math.prod(x.shape[:-1])
    left = Matrices(x, width, 1)
    right = Matrices(weight, weight.strides[1], weight.strides[0])
    sizes = (rows, weight.shape[0], width)
    launch_matmul(stream, out, left, right, sizes, bias=bias, code=out.dtype.code)


def _one_dtype(c: Any) -> bool:
    return len({s.dtype for s in c.ins if s is not None}) == 1


def register(kernels: Any, runtime: Any) -> None:
    """Declare the kernels of this module."""
    add(kernels, "matmul", _matmul, INTEGERS | FLOATS)
    add(kernels, "nn.linear", _linear, FLOATS, layout="contiguous", when=_one_dtype)
