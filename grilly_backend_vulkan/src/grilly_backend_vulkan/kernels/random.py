"""``random_bits``: Philox4x32-10, bit for bit the words of every other device."""

from __future__ import annotations

import struct
from typing import Any, Final

from grilly_backend_vulkan.kernels.support import groups_for

__all__ = ["register"]

_PUSH: Final = struct.Struct("<3Q2I")
_GROUP: Final = 64
_MASK: Final = (1 << 64) - 1


def _random_bits(stream: Any, outs: Any, ins: Any, attrs: dict[str, Any]) -> None:
    out, state = outs[0], ins[0]
    size = out.shape[0]
    blocks = -(-size // 4)
    push = _PUSH.pack(stream.address(out), stream.address(state), attrs["relative"] & _MASK, size, blocks)
    pipeline = stream.pipeline("random_bits", ())
    stream.launch(pipeline, groups_for(blocks, _GROUP), push, [state], [out])


def register(kernels: Any, runtime: Any) -> None:
    """Declare the kernels of this module."""
    kernels.add("random_bits", _random_bits, dtypes={"u32"}, layout="contiguous")
