"""``nn.attention`` of few queries, as in decoding: the keys are cut into parts, so that one query fills the device."""

from __future__ import annotations

import struct
from functools import partial
from typing import Any, Final

from grilly_backend_vulkan.kernels import attention
from grilly_backend_vulkan.kernels.attention import Way
from grilly_backend_vulkan.kernels.matmul_product import grid

__all__ = ["register"]

_MOST_ROWS: Final = 8  # queries of the heads that share keys
_PART: Final = 256  # keys of a work group
_WIDEST: Final = 256
_LANES: Final = 8  # that share a key
_WAYS: Final = {
    code: Way(f"attention_decode{{kind}}_{code}", code, 4, {_WIDEST: 1}, {}, narrow=True)
    for code in ("f32", "f16", "bf16")
}


def _rows(q: Any, k: Any) -> int:
    """Queries that share keys."""
    return int(q.shape[1] // k.shape[1] * q.shape[2])


def _power_of_two(n: int) -> int:
    return 1 << max(n - 1, 0).bit_length()


def _decode(way: Way, stream: Any, outs: Any, ins: Any, attrs: dict[str, Any]) -> None:
    q, k, v = ins[:3]
    extra = attention.extras(stream, ins[3:])
    lines = tuple(attention.Lines(stream, x, way) for x in (q, k, v))
    rows, width = q.shape[0] * q.shape[1] * q.shape[2], v.shape[3]
    parts = -(-k.shape[2] // _PART)
    log_sum = outs[1] if len(outs) > 1 else None
    sums = stream.scratch(4 * rows * parts * width) if parts > 1 else None
    stats = stream.scratch(8 * rows * parts) if parts > 1 else None
    sizes = attention.sizes(stream, attrs, q, k, v, (*lines, lines[0]), extra)
    constants = attention.constants(way, attrs, lines, extra)
    each = _power_of_two(-(-q.shape[3] // (4 * _LANES)))
    shape = (_power_of_two(_rows(q, k)), _power_of_two(-(-width // 4)), parts == 1, each)
    pipeline = stream.pipeline(way.name.format(kind=""), (*constants, *shape))
    views = (outs[0], log_sum, sums, stats, *(x.view for x in lines))
    groups = grid(parts * q.shape[0] * k.shape[1])
    given = [x for x in (*views[4:], *extra) if x is not None]
    written = (outs[0], log_sum) if parts == 1 else (sums, stats)
    _launch(stream, pipeline, groups, views, sizes, given, written)
    if parts > 1:
        pipeline = stream.pipeline(way.name.format(kind="_join"), constants[:4])
        _launch(stream, pipeline, grid(rows), views, sizes, [sums, stats], (outs[0], log_sum))


def _launch(stream: Any, pipeline: Any, groups: Any, views: Any, sizes: int, reads: Any, writes: Any) -> None:
    push = struct.pack("<8Q", *(0 if v is None else stream.address(v) for v in views), sizes)
    stream.launch(pipeline, groups, push, reads, [v for v in writes if v is not None])


def _suits(way: Way, c: Any) -> bool:
    q, k = c.ins[:2]
    return (
        q.dtype.code == way.code
        and attention.fits(way, c, 0)
        and _rows(q, k) <= _MOST_ROWS
        and c.attrs["dropout"] == 0
        and q.size < 1 << 31
    )


def register(kernels: Any, runtime: Any) -> None:
    """Declare the kernels of this module."""
    for code, way in _WAYS.items():
        kernels.add(
            "nn.attention", partial(_decode, way), dtypes={code, "f32"}, layout="strided", priority=2,
            when=partial(_suits, way),
        )  # fmt: skip
