"""``random_bits`` and ``nn.dropout``: Philox4x32-10, bit for bit the words of every other device."""

from __future__ import annotations

import math
import struct
from typing import Any, Final

from grilly_backend_vulkan.kernels import data
from grilly_backend_vulkan.kernels.support import HALVES, groups_for

__all__ = ["register"]

_PUSH: Final = struct.Struct("<3Q2I")
_DROPOUT: Final = struct.Struct("<4Q3If")
_GROUP: Final = 64
_MASK: Final = (1 << 64) - 1


def _random_bits(stream: Any, outs: Any, ins: Any, attrs: dict[str, Any]) -> None:
    out, state = outs[0], ins[0]
    size = out.shape[0]
    blocks = -(-size // 4)
    push = _PUSH.pack(stream.address(out), stream.address(state), attrs["relative"] & _MASK, size, blocks)
    pipeline = stream.pipeline("random_bits", ())
    stream.launch(pipeline, groups_for(blocks, _GROUP), push, [state], [out])


def _dropout(stream: Any, outs: Any, ins: Any, attrs: dict[str, Any]) -> None:
    out, (x, state), p = outs[0], ins, attrs["p"]
    if p == 1:
        data.fill(stream, out, 0.0)
        return
    size = out.spec.size
    blocks = -(-size // 4)
    addresses = [stream.address(v) for v in (out, x, state)]
    limit = math.floor(p * 2.0**32)
    push = _DROPOUT.pack(*addresses, attrs["relative"] & _MASK, size, blocks, limit, 1 / (1 - p))
    pipeline = stream.pipeline(f"dropout_{out.dtype.code}", ())
    stream.launch(pipeline, groups_for(blocks, _GROUP), push, [x, state], [out])


def register(kernels: Any, runtime: Any) -> None:
    """Declare the kernels of this module."""
    kernels.add("random_bits", _random_bits, dtypes={"u32"}, layout="contiguous")
    how: dict[str, Any] = {"layout": "contiguous", "when": lambda c: c.ins[0].size < 1 << 31}
    kernels.add("nn.dropout", _dropout, dtypes=HALVES | {"f32"}, **how)
