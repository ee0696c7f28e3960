"""``random_bits``: Philox4x32-10, bit for bit the words of every other device."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, Final

from grilly_backend_vulkan.kernels.support import groups_for

__all__ = ["register"]

_PUSH: Final = struct.Struct("<3Q2I")
_GROUP: Final = 64
_MASK: Final = (1 << 64) - 1


def _random_bits(runtime: Any) -> Callable[..., None]:
    def kernel(stream: Any, outs: Any, ins: Any, attrs: dict[str, Any]) -> None:
        out, state = outs[0], ins[0]
        size = out.shape[0]
        blocks = -(-size // 4)
        push = _PUSH.pack(runtime.address(out), runtime.address(state), attrs["relative"] & _MASK, size, blocks)
        pipeline = runtime.pipeline("random_bits", ())
        stream.launch(pipeline, groups_for(blocks, _GROUP), push, [state], [out])

    return kernel


def register(kernels: Any, runtime: Any) -> None:
    """Declare the kernels of this module."""
    kernels.add("random_bits", _random_bits(runtime), dtypes={"u32"}, layout="contiguous")
